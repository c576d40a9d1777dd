"""Place boxes, a storage's steps × bytes each: boxes that overlap in time must not overlap in bytes.

Three greedy engines, exact in integers and deterministic. `place_best_fit` is an allocator run over the steps,
for any number
of boxes. Lowest-fit places boxes in a given order: `Neighbours` with lists of neighbours for boxes that have few,
`place_lowest_fit` with NumPy scans for boxes that have many. Layouts choose among their results.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tmmu.core.alignment import align_up
from tmmu.core.columns import pack_integers
from tmmu.planner.layouts.best_fit import PIECE, fit
from tmmu.planner.layouts.compiled import INT64_SAFE, Compile, compile_loop
from tmmu.planner.problem import AllocationProblem
from tmmu.planner.streams.antichain import find_antichain
from tmmu.planner.streams.storages import StoragePrecedence

COMPARED = 4096
"""The most boxes of which all pairs are compared in an order of storages."""
HEAVIEST = 4096
"""The most boxes of which the heaviest antichain is computed."""
MANY = 100_000
"""From this many boxes on, compiled code saves more time than loading takes, and columns save memory over lists."""


@dataclass(frozen=True)
class Boxes:
    """Births, deaths (included), sizes (at least 1) and alignments.

    `apart` maps a box to boxes that may never share a byte.

    `fixed` are the offsets of fixed boxes. `gaps` are ranges of steps, first to last, at which a box is not live,
    within its life and in order. `place_best_fit` and `place_by_length` ignore both. Only `Neighbours` and the complete
    search use gaps; for the others a box with gaps is live throughout.

    `order` is the order of the boxes if steps have several streams: two that it does not order overlap in time, whether
    or not their lifetimes do. `Neighbours`, `overlap_in_time` and the bounds honour it. `widened` returns boxes for the
    other engines.
    """

    birth: Sequence[int]
    death: Sequence[int]
    size: Sequence[int]
    alignment: Sequence[int]
    apart: Mapping[int, Sequence[int]]
    fixed: Mapping[int, int] = field(default_factory=dict)
    gaps: Mapping[int, Sequence[tuple[int, int]]] = field(default_factory=dict)
    order: StoragePrecedence | None = None

    def __len__(self) -> int:
        return len(self.birth)

    def part(self, rows: Sequence[int]) -> Boxes:
        """Return some of the boxes, renumbered, with the constraints among them."""
        at = {i: k for k, i in enumerate(rows)}
        return Boxes(
            [self.birth[i] for i in rows],
            [self.death[i] for i in rows],
            [self.size[i] for i in rows],
            [self.alignment[i] for i in rows],
            {at[i]: [at[j] for j in self.apart[i] if j in at] for i in rows if i in self.apart},
            {at[i]: self.fixed[i] for i in rows if i in self.fixed},
            {at[i]: self.gaps[i] for i in rows if i in self.gaps},
            None if self.order is None else self.order.part(rows),
        )

    def widened(self) -> Boxes:
        """Return boxes whose lifetimes overlap if two boxes are not ordered: each lives on as long as needed.

        Without an order these are the boxes themselves. O(n (log n + streams)).
        """
        return self if self.order is None else replace(self, death=self.order.widen_deaths().tolist(), order=None)

    def pieces(self) -> Iterator[tuple[int, int, int]]:
        """Yield each period in which a box is live without a gap: the box, the first step and the last."""
        for i, (birth, death) in enumerate(zip(self.birth, self.death, strict=True)):
            for first, last in self.gaps.get(i, ()):
                yield i, birth, first - 1
                birth = last + 1
            yield i, birth, death

    def peak(self) -> int:
        """Return the most bytes live at one step: no placement is smaller. O(n log n).

        With an order it is the weight of the heaviest antichain, for up to `HEAVIEST` boxes.
        """
        return self._peak(self._sizes())

    def least(self, *, is_fixed: bool = True) -> int:
        """Return a lower bound that includes alignment: live sizes are padded to a multiple of it, except the topmost.

        With `is_fixed` it also includes the end of the highest fixed box.
        """
        step, sizes = min(self.alignment, default=1), self._sizes()
        padded = (sizes + (step - 1)) & -step
        spared = int((padded - sizes).max(initial=0))
        live = self._peak(sizes)
        if spared:
            live = max(live, self._peak(padded) - spared)
        return max(live, self.fixed_end() if is_fixed else 0)

    def fixed_end(self) -> int:
        """Return the end of the highest fixed box, 0 if there is none."""
        return max((at + self.size[i] for i, at in self.fixed.items()), default=0)

    @cached_property
    def is_wide(self) -> bool:
        """Whether sums of sizes, or ends of boxes as low as possible, may exceed 63 bits and need Python integers."""
        return sum(self.size) + sum(self.alignment) + self.fixed_end() >= INT64_SAFE

    def _sizes(self) -> NDArray[Any]:
        return np.asarray(self.size, object) if self.is_wide else _as_int64(self.size)

    def _peak(self, sizes: NDArray[Any]) -> int:
        if self.order is not None and len(self) <= HEAVIEST:
            return find_antichain(self.order, sizes.tolist()).weight
        if not self.gaps:
            # At each birth, everything born until then is live, except what died before.
            birth, death = np.asarray(self.birth, np.int64), np.asarray(self.death, np.int64)
            by_birth, by_death = np.argsort(birth, kind="stable"), np.argsort(death, kind="stable")
            born, died = np.cumsum(sizes[by_birth]), np.append(0, np.cumsum(sizes[by_death]))
            died = died[np.searchsorted(death[by_death], birth[by_birth], "left")]
            return int((born - died).max(initial=0))
        changes: dict[int, int] = {}
        listed = sizes.tolist()
        for i, b, d in self.pieces():
            changes[b] = changes.get(b, 0) + listed[i]
            changes[d + 1] = changes.get(d + 1, 0) - listed[i]
        live = most = 0
        for step in sorted(changes):
            live += changes[step]
            most = max(most, live)
        return most

    @cached_property
    def meetings(self) -> int:
        """The number of ordered pairs of boxes that overlap in time. O(n log n).

        With an order O(n² x streams); of more than `COMPARED` boxes all pairs are taken to overlap.
        """
        if self.order is not None:
            if len(self) > COMPARED:
                return len(self) * (len(self) - 1)
            return sum(int(self.order.overlaps(i).sum()) for i in range(len(self))) - len(self)
        births, deaths = np.sort(np.asarray(self.birth)), np.sort(np.asarray(self.death))
        begun = np.searchsorted(births, deaths, "right")
        gone = np.searchsorted(deaths, births, "left")
        return int((begun - gone).sum()) - len(self)

    def is_disjoint(self, offsets: Sequence[int]) -> bool:
        """Return whether a placement keeps boxes disjoint that may never share a byte."""
        return all(
            offsets[i] + self.size[i] <= offsets[j] or offsets[j] + self.size[j] <= offsets[i]
            for i, others in self.apart.items()
            for j in others
        )

    def overlap_in_time(self, box: int, others: slice) -> NDArray[np.bool_]:
        """Return for each of `others` whether it and `box` may be live at the same time, without regard to gaps."""
        if self.order is not None:
            return self.order.overlaps(box, others)
        births, deaths = self._lives
        found: NDArray[np.bool_] = (births[others] <= deaths[box]) & (deaths[others] >= births[box])
        return found

    @cached_property
    def _lives(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.array(self.birth, np.int64), np.array(self.death, np.int64)


def _as_int64(values: Sequence[int]) -> NDArray[np.int64]:
    """Convert integers below 2^63 to int64, without a copy if they are words already."""
    return np.asarray(values).view(np.int64)


def build_boxes(problem: AllocationProblem, members: Sequence[int], alignment: int) -> Boxes:
    """Return some storages of an arena as boxes, with at least that alignment; zero bytes count as one. spec: T7.1"""
    number = {k: i for i, k in enumerate(members)} if problem.conflicts else {}
    sizes, aligned = map(problem.bytes.__getitem__, members), map(problem.alignment.__getitem__, members)
    is_many = len(members) >= MANY
    rows: Callable[[Iterable[int]], Sequence[int]] = pack_integers if is_many else list
    steps: Callable[[Iterable[int]], Sequence[int]] = partial(pack_integers, kind="i") if is_many else list
    return Boxes(
        steps(map(problem.birth.__getitem__, members)),
        steps(map(problem.death.__getitem__, members)),
        rows(size or 1 for size in sizes),
        rows(max(own, alignment) for own in aligned),
        {
            number[k]: sorted(number[o] for o in problem.conflicts[k] if o in number)
            for k in members
            if k in problem.conflicts
        },
        {i: problem.fixed[k].offset for i, k in enumerate(members) if k in problem.fixed} if problem.fixed else {},
        {i: problem.gaps[k] for i, k in enumerate(members) if k in problem.gaps} if problem.gaps else {},
        None if problem.order is None else problem.order.part(members),
    )


class Packing(NamedTuple):
    """The offset of each box, and the end of the highest."""

    offsets: Sequence[int]
    height: int


class Obstructed(NamedTuple):
    """A placement abandoned at the first box whose end is not below the height to beat; `work` is its cost."""

    box: int
    work: int


class Neighbours:
    """Lowest-fit for boxes with few neighbours in time: O(pairs) memory, O(pairs log n) for each order."""

    def __init__(self, boxes: Boxes) -> None:
        self.boxes = boxes
        self.of: list[list[int]] = [list(boxes.apart.get(i, ())) for i in range(len(boxes))]
        if boxes.order is not None:
            for i, of in enumerate(self.of):
                of.extend(j for j in np.flatnonzero(boxes.order.overlaps(i)).tolist() if j != i)
            self.of = [list(dict.fromkeys(of)) for of in self.of]
            return
        live: dict[int, None] = {}
        dying: list[tuple[int, int]] = []
        for i, first, last in sorted(boxes.pieces(), key=lambda piece: piece[1]):
            while dying and dying[0][0] < first:
                del live[heapq.heappop(dying)[1]]
            self.of[i].extend(live)
            for j in live:
                self.of[j].append(i)
            live[i] = None
            heapq.heappush(dying, (last, i))
        if boxes.gaps or boxes.apart:  # two may overlap more than once
            self.of = [list(dict.fromkeys(of)) for of in self.of]

    def place(self, order: Sequence[int], below: int) -> Packing | Obstructed:
        """Place each box of `order` at the lowest free aligned offset.

        Returns `Obstructed` if an end would not be below `below`.
        """
        size, alignment = self.boxes.size, self.boxes.alignment
        low, end = [-1] * len(order), [0] * len(order)
        for i, at in self.boxes.fixed.items():
            low[i], end[i] = at, at + size[i]
        height, work = self.boxes.fixed_end(), 0
        for i in order:
            if i in self.boxes.fixed:
                continue
            work += len(self.of[i]) + FIXED
            at, need, mask = 0, size[i], -alignment[i]
            for start, stop in sorted([(low[j], end[j]) for j in self.of[i] if low[j] >= 0]):
                if start - at >= need:
                    break
                if stop > at:
                    at = (stop - mask - 1) & mask
            low[i], end[i] = at, at + need
            height = max(height, at + need)
            if height >= below:
                return Obstructed(i, work)
        return Packing(low, height)

    def improve(self, order: Sequence[int], best: Packing, bound: int, work: int) -> Packing:
        """Place in `order`, then repeatedly with the obstructing box moved forward, until `work` is spent.

        The box that first fails to end below the best height so far moves halfway forward among those of its neighbours
        that were placed before it. Returns the best placement, `best` if none was better. Ends early at `bound`, and
        after `TURNS` turns for each box. `work` counts neighbours visited, so that the result is the same on every
        machine. spec: A8.3
        """
        order = list(order)
        for _ in range(TURNS * len(order)):
            if work <= 0 or best.height <= bound:
                break
            found = self.place(order, best.height)
            if isinstance(found, Packing):
                best = found
                top = next(i for i in order if found.offsets[i] + self.boxes.size[i] == found.height)
                found = Obstructed(top, sum(map(len, self.of)) + FIXED * len(order))
            work -= found.work
            place = order.index(found.box)
            mine = set(self.of[found.box])
            before = [k for k in range(place) if order[k] in mine]
            if not before:
                break  # it is at the bottom already: the bound is its own size
            order.insert(before[len(before) // 2], order.pop(place))
        return best


TURNS = 4
"""How many times, for each box, the order is changed: small arenas are not searched for long."""
FIXED = 20
"""The cost of placing a box apart from its neighbours, in neighbours visited."""


def place_lowest_fit(boxes: Boxes, order: Sequence[int]) -> Packing:
    """Place boxes in `order`, fixed boxes first, each at the lowest free offset.

    O(n²) in NumPy scans; sums must fit into 63 bits.
    """
    births, deaths = np.array(boxes.birth, np.int64), np.array(boxes.death, np.int64)
    n = len(order)
    b, d = births[order], deaths[order]  # in placing order, so that placed boxes are a prefix
    low, end = np.zeros(n, np.int64), np.zeros(n, np.int64)
    offsets, height = [0] * n, 0
    for k, i in enumerate(order):
        meets = np.flatnonzero((b[:k] <= d[k]) & (d[:k] >= b[k]))
        at = boxes.fixed[i] if i in boxes.fixed else find_gap(low[meets], end[meets], boxes.size[i], boxes.alignment[i])
        low[k], end[k], offsets[i] = at, at + boxes.size[i], at
        height = max(height, at + boxes.size[i])
    return Packing(offsets, height)


def find_gap(low: NDArray[np.int64], end: NDArray[np.int64], size: int, alignment: int) -> int:
    """Return the lowest aligned offset with `size` free bytes between the intervals [low, end)."""
    if not len(low):
        return 0
    by_address = np.argsort(low, kind="stable")
    starts = low[by_address]
    free = np.zeros(len(starts) + 1, np.int64)
    free[1:] = (np.maximum.accumulate(end[by_address]) + (alignment - 1)) & -alignment
    room = starts - free[:-1] >= size
    first = int(room.argmax())
    return int(free[first]) if room[first] else int(free[-1])


def place_best_fit(boxes: Boxes, compile_: Compile | None = None, longest: int = PIECE) -> Packing:
    """Allocate and free along the steps, each box in the smallest free block that holds it. O(n log n).

    `compile_` returns the compiled loop, or None; by default it is used for many boxes. Sums from 2^62 on use Python
    integers. `longest` is that of `best_fit.fit`.
    """
    is_wide, endless = boxes.is_wide, 2 * (sum(boxes.size) + sum(boxes.alignment))
    kind = np.int32 if max(boxes.death, default=0) < 1 << 31 else np.int64
    birth, death = np.asarray(boxes.birth, kind), np.asarray(boxes.death, kind)
    size, alignment = (np.asarray(of, object) if is_wide else _as_int64(of) for of in (boxes.size, boxes.alignment))
    order = np.lexsort((-size, birth)).astype(kind)
    by_death = np.argsort(death, kind="stable").astype(kind)
    if compile_ is None and len(boxes) >= MANY:
        compile_ = compile_loop
    fast = None if compile_ is None or is_wide else compile_(fit)
    if fast is None:
        offsets = [0] * len(boxes)
        of_boxes = birth.tolist(), death.tolist(), size.tolist(), alignment.tolist()
        return Packing(offsets, fit(of_boxes, order.tolist(), by_death.tolist(), endless, longest, offsets))
    found = array("q", [0]) * len(boxes)
    of_arrays = birth, death, size, alignment
    height = fast(of_arrays, order, by_death, endless, longest, np.frombuffer(found, np.int64))
    return Packing(found if len(boxes) >= MANY else found.tolist(), height)


def place_from_both_ends(boxes: Boxes) -> Packing | None:
    """Place boxes so that of two that overlap in time one begins at 0 and the other ends at the top, if aligned.

    A chain of operations then needs no more than its peak, except for bytes lost to alignment. Returns None if three
    boxes overlap at one step. O(n log n).
    """
    is_high, height = [False] * len(boxes), max(boxes.size, default=0)
    low = high = -1  # the box placed last at either end
    for i in sorted(range(len(boxes)), key=boxes.birth.__getitem__):
        if low < 0 or boxes.death[low] < boxes.birth[i]:
            low = i
        elif high < 0 or boxes.death[high] < boxes.birth[i]:
            high, is_high[i] = i, True
        else:
            return None
        if min(low, high) >= 0 and min(boxes.death[low], boxes.death[high]) >= boxes.birth[i]:
            height = max(height, align_up(boxes.size[low], boxes.alignment[high]) + boxes.size[high])
    rows = zip(is_high, boxes.size, boxes.alignment, strict=True)
    return Packing([(height - size) // step * step if top else 0 for top, size, step in rows], height)


def place_by_length(boxes: Boxes, tries: int) -> Iterator[Packing]:
    """Place long-lived boxes at the bottom and all others above, both by `place_best_fit`. O(n log n) a placement.

    Tensors saved for a backward pass then form a stack, and are not fragmented by tensors that live for a few steps. A
    box is long-lived if it lives for at least a power of two of steps. At most `tries` powers are tried, beginning with
    those for which the two peaks together are least.
    """
    length = np.array(boxes.death, np.int64) - np.array(boxes.birth, np.int64) + 1
    splits = []
    for k in range(1, int(length.max()).bit_length() if tries else 0):
        parts = [boxes.part(np.flatnonzero(is_in).tolist()) for is_in in (length >= 1 << k, length < 1 << k)]
        if all(map(len, parts)):
            splits.append((sum(part.peak() for part in parts), k))
    for _, k in sorted(splits)[:tries]:
        offsets, top = [0] * len(boxes), 0
        for is_in in (length >= 1 << k, length < 1 << k):
            rows = np.flatnonzero(is_in).tolist()
            found = place_best_fit(boxes.part(rows))
            top = align_up(top, max(boxes.alignment))
            for i, at in zip(rows, found.offsets, strict=True):
                offsets[i] = top + at
            top += found.height
        yield Packing(offsets, top)
