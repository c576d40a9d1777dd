"""Search for a lower placement of boxes: local search over orders, and a complete search for few boxes.

Boxes are bound if they are live at one step, or may never share a byte. Groups that are not bound to each other are
searched independently; the group with the largest footprint decides. Rounds of growing effort go through

- orders (`refit`), some of which begin with boxes that are live where most bytes are, as in MiniMalloc;
- the complete search (`exhaustive`), preferring boxes by several keys, one after the other, below two heights: the
  bound, and halfway between the bound and the best. Some keys prefer boxes in sections where it failed before
  (conflict-driven restarts, after Boussemart et al., "Boosting Systematic Search by Weighting Constraints", ECAI
  2004). If it ends without a placement, it has proved that none exists, and the bound rises;
- first of all the search `exact`, if the boxes of each section add up to the bound: no byte is ever free then.

Effort is counted in looks: equal effort gives an equal result on every machine, and more effort begins with the same
steps. Other known methods, not used here, are TelaMalloc (Maas et al., ASPLOS 2022) and the boxes in boxes of Buchsbaum
et al. (STOC 2003), on which idealloc (Lamprakos et al., 2025) builds. spec: A8.8, A8.9, A8.10
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, count
from typing import Any, NamedTuple, Protocol

from tmmu.planner.layouts import exact, exhaustive, refit
from tmmu.planner.layouts.boxes import Boxes, Packing
from tmmu.planner.layouts.compiled import Compile, columns, compile_loop
from tmmu.planner.layouts.exhaustive import AREA, COUNT, LENGTH, SIZE, TOTAL, WEIGHT

SLICE = 1 << 22
"""The looks after which a search can be interrupted: a hundredth of a second compiled, some seconds otherwise."""
FIRST = 1 << 16
"""The looks that each search may spend in the first round; every round doubles them."""
FEW = 1 << 22
"""The limit of the complete search for n boxes in m sections: on n (n + m), and on the overlapping pairs."""

MOST_EXACT = 1 << 10
"""The most boxes of the search `exact`, whose memory grows with their square."""
MORE = 32
"""In each round the search `exact` may spend this many times the looks of a preference of the complete search."""
LESS = 4
"""In each round an order may spend this part of the looks of each preference of the complete search."""

Keys = tuple[int, ...]

ORDERS: tuple[Keys, ...] = (
    (TOTAL, SIZE, LENGTH), (TOTAL, LENGTH, SIZE), (SIZE, LENGTH), (LENGTH, SIZE), (TOTAL, AREA, LENGTH), (TOTAL,),
)  # fmt: skip
"""The keys of the orders, then births: larger first, and earlier births first."""
PREFERENCES: tuple[tuple[Keys, bool], ...] = (
    ((TOTAL, LENGTH, AREA), True), ((TOTAL, AREA, LENGTH), True), ((LENGTH, AREA, TOTAL), True),
    ((TOTAL, COUNT, AREA), True), ((COUNT, TOTAL, AREA), True), ((WEIGHT, COUNT, AREA), False),
)  # fmt: skip
"""The keys of preference of the complete search, and whether parts that are split off are sorted again.

The first three are MiniMalloc's, in another order; the next two count sections instead of steps.
"""


@dataclass
class Effort:
    """The looks that may be spent, those that were, and those that had been when something was last found."""

    limit: int
    spent: int = 0
    found: int = 0

    @property
    def left(self) -> int:
        """The looks that may still be spent."""
        return self.limit - self.spent


class Sections(NamedTuple):
    """Moments in order of time. The set of boxes live at one moment is never a subset of that at another."""

    of: list[list[int]]
    """For each box the sections that it is live in."""
    members: list[list[int]]
    """For each section the boxes that are live there."""


def find_moments(boxes: Boxes) -> list[int]:
    """Return the moments: the last birth before each step after which a box dies before any is born. O(n log n)."""
    births, deaths = sorted({b for _, b, _ in boxes.pieces()}), sorted({d for _, _, d in boxes.pieces()})
    kept = []
    for b, following in zip(births, [*births[1:], math.inf], strict=True):
        k = bisect_left(deaths, b)
        if k < len(deaths) and deaths[k] < following:
            kept.append(b)
    return kept


def find_sections(boxes: Boxes) -> Sections:
    """Return the sections at those moments. O(n log n + boxes live in each)."""
    kept = find_moments(boxes)
    found = Sections([[] for _ in range(len(boxes))], [[] for _ in kept])
    for i, b, d in boxes.pieces():
        for c in range(bisect_left(kept, b), bisect_right(kept, d)):
            found.of[i].append(c)
            found.members[c].append(i)
    return found


def most_live_bytes(boxes: Boxes) -> list[int]:
    """Return the most bytes live at a step of each box's life. O(n log n)."""
    changes: dict[int, int] = {}
    for i, b, d in boxes.pieces():
        changes[b] = changes.get(b, 0) + boxes.size[i]
        changes[d + 1] = changes.get(d + 1, 0) - boxes.size[i]
    steps = sorted(changes)
    # most[k][s] is the maximum over 2^k steps from the s-th on.
    most = [list(accumulate(changes[step] for step in steps))]
    while 2 << len(most) - 1 <= len(steps):
        half, last = 1 << len(most) - 1, most[-1]
        most.append([max(pair) for pair in zip(last, last[half:], strict=False)])
    found = [0] * len(boxes)
    for i, b, d in boxes.pieces():
        first, end = bisect_left(steps, b), bisect_right(steps, d)
        k = (end - first).bit_length() - 1
        found[i] = max(found[i], most[k][first], most[k][end - (1 << k)])
    return found


class Group:
    """Boxes that are searched together, with the best placement and the bound found so far."""

    def __init__(self, boxes: Boxes, first: Packing, compile_: Compile = compile_loop) -> None:
        self.boxes, self.best, self.bound = boxes, first, boxes.least()
        self.enough = 0
        """A height below which nothing is gained: another group needs that much."""
        self.capacity = 0
        """A height that is tried before any other."""
        self.compile: Compile = (lambda loop: None) if boxes.is_wide else compile_
        n = len(boxes)
        self.is_few = max(n * (n + len(find_moments(boxes))), boxes.meetings) <= FEW
        self.sections = find_sections(boxes) if self.is_few else Sections([[] for _ in range(n)], [])
        length = [d - b + 1 for b, d in zip(boxes.birth, boxes.death, strict=True)]
        self.keys = [
            most_live_bytes(boxes),
            _ranks([size * steps for size, steps in zip(boxes.size, length, strict=True)]),
            [len(of) for of in self.sections.of],
            boxes.size,
            length,
            [0] * n,
        ]
        # If nothing can be lowered in a placement, all its offsets are multiples of this.
        self.unit = math.gcd(*boxes.size, *boxes.fixed.values())
        if any(self.unit % step for step in boxes.alignment):
            self.unit = 1

    @property
    def least(self) -> int:
        """The height below which a placement need not be improved."""
        return max(self.bound, self.enough)

    def take(self, found: Packing, effort: Effort) -> None:
        """Replace the best placement by `found` if that is lower and keeps boxes apart."""
        if found.height < self.best.height and self.boxes.is_disjoint(found.offsets):
            self.best, effort.found = found, effort.spent

    def steps(self, effort: Effort) -> Iterator[None]:
        """Search step by step until no lower placement exists, possibly for ever. Every step spends some effort."""
        orders = [_Order(self, keys) for keys in ORDERS]
        complete = _Complete(self) if self.is_few else None
        exactly = _Exact(self) if self.has_no_slack() else None
        for budget in (FIRST << number for number in count()):
            if exactly is not None:
                yield from exactly.run(MORE * budget, effort)
            for order in orders:
                yield from order.run(budget // LESS, effort)
            for keys, again in PREFERENCES if complete else ():
                for height in self.heights():
                    assert complete is not None
                    yield from complete.run(height, keys, again, budget, effort)
            if self.best.height <= self.least or (complete is None and all(order.ended for order in orders)):
                return

    def has_no_slack(self) -> bool:
        """Return whether the boxes of each section fill the bound, and nothing else constrains them."""
        boxes = self.boxes
        if boxes.apart or boxes.fixed or boxes.gaps or boxes.order is not None or len(boxes) > MOST_EXACT:
            return False
        live = [sum(boxes.size[i] for i in members) for members in self.sections.members]
        return bool(live) and min(live) == self.bound

    def heights(self) -> Iterator[int]:
        """Yield the heights below the best that are tried, each chosen after the one before has been tried."""
        if self.bound <= self.capacity < self.best.height:
            yield self.capacity
            return
        if self.least < self.best.height:
            yield self.least
        if self.least < (half := (self.least + self.best.height) // 2) < self.best.height:
            yield half

    def sort_boxes(self, keys: Keys) -> list[int]:
        """Return the boxes, larger keys first, then by birth."""
        return sorted(
            range(len(self.boxes)), key=lambda i: (*(-self.keys[key][i] for key in keys), self.boxes.birth[i], i)
        )


class _Loop:
    """A search that proceeds slice by slice, compiled if possible."""

    def __init__(self, group: Group, loop: Callable[..., int]) -> None:
        self.group, self.ended = group, False
        self.loop, self.columns = group.compile(loop) or loop, columns if group.compile(loop) else _lists

    def slices(self, arguments: tuple[Any, ...], register: Any, budget: int, effort: Effort) -> Iterator[int]:
        """Yield the outcome of each slice, until `budget` looks are spent in all."""
        while register[0] < budget:
            before = int(register[0])
            outcome = self.loop(*arguments, before + min(SLICE, budget - before, effort.left))
            effort.spent += int(register[0]) - before
            yield outcome


class _Order(_Loop):
    """One order, changed by local search."""

    def __init__(self, group: Group, keys: Keys) -> None:
        super().__init__(group, refit.refit)
        boxes = group.boxes
        fixed = [boxes.fixed.get(i, -1) for i in range(len(boxes))]
        self.boxes = refit.Intervals(*self.columns(boxes.birth, boxes.death, boxes.size, boxes.alignment, fixed))
        order = sorted(group.sort_boxes(keys), key=lambda i: fixed[i] < 0)  # fixed boxes come first, and stay there
        self.state = refit.Reordering(*self.columns(*refit.start_order(order, len(boxes.fixed))))

    def run(self, budget: int, effort: Effort) -> Iterator[None]:
        """Continue until `budget` looks are spent in all."""
        group, register = self.group, self.state.register
        if self.ended or group.best.height <= group.least:
            return
        register[refit.BEST], register[refit.ENOUGH] = group.best.height, group.least
        for outcome in self.slices((tuple(self.boxes), tuple(self.state)), register, budget, effort):
            if outcome == refit.FOUND:
                group.take(_packing(group.boxes, self.state.found), effort)
                register[refit.BEST] = group.best.height
            yield
            if outcome == refit.STUCK:
                self.ended = True
            if self.ended or group.best.height <= group.least:
                return


class _Complete(_Loop):
    """The complete search, each time from the start."""

    def __init__(self, group: Group) -> None:
        super().__init__(group, exhaustive.explore)
        self.weight = [0] * len(group.sections.members)
        self.lists = _build_problem(group.boxes, group.sections)
        self.problem = exhaustive.Problem(*self.columns(*self.lists))
        self.start = exhaustive.start_state(self.lists)
        self.state = exhaustive.SearchState(*self.columns(*self.start))

    def run(self, height: int, keys: Keys, again: bool, budget: int, effort: Effort) -> Iterator[None]:
        """Search for a placement that ends at `height`, with up to `budget` looks."""
        group = self.group
        group.keys[WEIGHT] = [max(self.weight[c] for c in of) for of in group.sections.of]
        exhaustive.restart(self.state, self.start, group.sort_boxes(keys), group.keys)
        state = self.state._replace(order=self.columns(list(keys) if again else [])[0])
        effort.spent += len(group.boxes)
        for outcome in self.slices((tuple(self.problem), tuple(state), height), state.register, budget, effort):
            if outcome == exhaustive.FOUND:
                group.take(_packing(group.boxes, state.offset), effort)
            elif outcome == exhaustive.NONE:
                group.bound = (height // group.unit + 1) * group.unit
                effort.found = effort.spent
            yield
            if outcome != exhaustive.PAUSED:
                break
        self.weight = [weight // 2 + int(more) for weight, more in zip(self.weight, state.weight, strict=True)]


class _Exact(_Loop):
    """The search for a placement that leaves no byte free, continued in each round."""

    def __init__(self, group: Group) -> None:
        super().__init__(group, exact.explore)
        self.height = group.bound
        of = group.sections.of
        self.chains = exact.join_chains(of)
        problem = exact.build_chains(group.boxes.size, group.boxes.alignment, of, self.chains)
        self.problem = tuple(self.columns(*problem))
        self.state = tuple(tuple(self.columns(*each)) for each in exact.start_state(problem))

    def run(self, budget: int, effort: Effort) -> Iterator[None]:
        """Continue until `budget` looks are spent in all, or it is decided whether there is one."""
        group, (register, offset, *_) = self.group, self.state[0]
        if self.ended or not self.height == group.bound < group.best.height:
            return
        for outcome in self.slices((self.problem, self.state, self.height), register, budget, effort):
            if outcome == exact.FOUND:
                of_boxes = {i: at for chain, at in zip(self.chains, offset, strict=True) for i in chain}
                group.take(_packing(group.boxes, [of_boxes[i] for i in range(len(group.boxes))]), effort)
            elif outcome == exact.NONE:
                group.bound = (self.height // group.unit + 1) * group.unit
                effort.found = effort.spent
            yield
            if outcome != exact.PAUSED:
                self.ended = True
                return


def _packing(boxes: Boxes, offset: Any) -> Packing:
    offsets = [int(at) for at in offset]
    return Packing(offsets, max(at + size for at, size in zip(offsets, boxes.size, strict=True)))


def _lists(*columns: Sequence[int]) -> list[list[int]]:
    return [list(column) for column in columns]


def _ranks(values: list[int]) -> list[int]:
    """Replace values by their ranks."""
    rank = {value: k for k, value in enumerate(sorted(set(values)))}
    return [rank[value] for value in values]


def _build_problem(boxes: Boxes, sections: Sections) -> exhaustive.Problem:
    """Build the columns of the complete search."""
    n = len(boxes)
    met = [set(boxes.apart.get(i, ())) for i in range(n)]
    for members in sections.members:
        for i in members:
            met[i].update(members)
    first, last = [of[0] for of in sections.of], [of[-1] + 1 for of in sections.of]
    bound = [[i, *boxes.apart.get(i, ())] for i in range(n)]
    twin, latest = [-1] * n, dict[Any, int]()
    for i in range(n):
        if i not in boxes.apart and i not in boxes.fixed:
            equal = (boxes.size[i], boxes.alignment[i], tuple(sections.of[i]))
            twin[i] = latest.get(equal, -1)
            latest[equal] = i
    return exhaustive.Problem(
        [*boxes.size], [*boxes.alignment], [boxes.fixed.get(i, -1) for i in range(n)], twin,
        [min(first[j] for j in others) for others in bound], [max(last[j] for j in others) for others in bound],
        *_flatten(sections.of), *_flatten([sorted(others - {i}) for i, others in enumerate(met)]),
        *_flatten(sections.members),
    )  # fmt: skip


def _flatten(rows: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Return the start of each row, and all rows concatenated."""
    return list(accumulate(map(len, rows), initial=0)), list(chain.from_iterable(rows))


def split_groups(boxes: Boxes, first: Packing, compile_: Compile = compile_loop) -> list[tuple[list[int], Group]]:
    """Split boxes into groups that are not bound to each other, in order of time, each with its placement.

    O(n log n).
    """
    reach = [
        (min(boxes.birth[j] for j in bound), max(boxes.death[j] for j in bound), i)
        for i, bound in ((i, (i, *boxes.apart.get(i, ()))) for i in range(len(boxes)))
    ]
    members: list[list[int]] = []
    until = -1
    for born, dead, i in sorted(reach):
        if born > until:
            members.append([])
        members[-1].append(i)
        until = max(until, dead)
    found = []
    for rows in map(sorted, members):
        part = boxes.part(rows)
        found.append((rows, Group(part, _packing(part, [first.offsets[i] for i in rows]), compile_)))
    return found


class Search:
    """The boxes of one arena: its highest group decides the footprint, and is searched."""

    def __init__(self, boxes: Boxes, first: Packing, capacity: int, compile_: Compile = compile_loop) -> None:
        self.capacity = capacity
        self.groups = split_groups(boxes, first, compile_)

    @property
    def bound(self) -> int:
        """A lower bound of every placement."""
        return max((group.bound for _, group in self.groups), default=0)

    @property
    def proved(self) -> bool:
        """Whether the complete search raised the bound above the bytes live at one step."""
        return self.bound > max((group.boxes.least() for _, group in self.groups), default=0)

    @property
    def bound_origin(self) -> str:
        """The origin of the bound: a word of `BOUNDS`."""
        if self.proved:
            return "search"
        ends = max((group.boxes.fixed_end() for _, group in self.groups), default=0)
        live = max((group.boxes.least(is_fixed=False) for _, group in self.groups), default=0)
        return "fixed" if ends > live else "live"

    @property
    def best(self) -> Packing:
        """The best placement of all the boxes."""
        offsets = [0] * sum(len(rows) for rows, _ in self.groups)
        for rows, group in self.groups:
            for i, at in zip(rows, group.best.offsets, strict=True):
                offsets[i] = at
        return Packing(offsets, max((group.best.height for _, group in self.groups), default=0))

    def steps(self, effort: Effort) -> Iterator[None]:
        """Search the highest group step by step, until no group that matters can be lowered, possibly for ever."""
        running = {k: group.steps(effort) for k, (_, group) in enumerate(self.groups)}
        while running:
            k = max(running, key=lambda k: (self.groups[k][1].best.height, -k))
            group = self.groups[k][1]
            group.enough, group.capacity = self.bound, self.capacity
            if group.best.height < max(other.best.height for _, other in self.groups):
                return  # the higher group cannot be lowered
            if group.best.height <= self.bound:
                return
            if next(running[k], ENDED) is ENDED:
                del running[k]
            else:
                yield


ENDED = object()


class SteppedSearch(Protocol):
    """A search that can be taken step by step, each of which spends some effort."""

    def steps(self, effort: Effort) -> Iterator[None]:
        """Search step by step."""


def run_searches(searches: Sequence[SteppedSearch], effort: Effort, stopped: Callable[[], bool]) -> None:
    """Search in turns until the effort is spent, no lower placement exists, or `stopped` returns True."""
    running = [search.steps(effort) for search in searches]
    while running:
        for steps in list(running):
            if effort.left <= 0 or stopped():
                return
            if next(steps, ENDED) is ENDED:
                running.remove(steps)
