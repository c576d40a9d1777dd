"""Small planners with one fault each, such as people write: first fit over buffers, and over the tensors of a model.

`plan_buffers` and `plan_model` are right without a fault. A fault is a word that changes one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import networkx

from tmmu.core.alignment import align_up
from tmmu.core.vocabulary import MAIN, Model, Role
from tmmu.ir.graph import Graph
from tmmu.testing.buffer import TimedBuffer

OF_BUFFERS = {
    "half-open": "ranges that touch count as apart",
    "sorted": "buffers are taken to come in the order of their first steps",
    "align-after": "offsets are rounded up after packing",
    "align-down": "offsets are rounded down",
    "zero": "a buffer of no bytes takes the place of the one at its offset",
    "32-bit": "ends are computed in 32 bits",
    "31-bit": "a negative 32-bit end counts as free",
    "double": "ends are floating-point numbers",
    "tie": "buffers of one size and range are one",
    "hole": "a hole that is one byte too small is taken",
    "neighbour": "a buffer is compared with the one placed last",
    "table": "of those placed, only two are remembered",
    "gaps": "a buffer with a gap is free after it",
    "fixed": "fixed offsets are ignored",
    "fixed-last": "fixed buffers are placed after the others have their place",
    "forgotten": "the last buffer has no offset",
    "one-step": "a buffer of one step is never live",
    "state": "a call begins where the one before ended",
    "stated": "the stated footprint leaves out the highest buffer",
    "unit": "offsets are in units of 64 bytes for large buffers",
}  # fmt: skip
OF_CAPACITY = {"capacity": "one byte more is accepted", "full": "a capacity that is filled is refused"}
OF_MODELS = {
    "first-reader": "a tensor is free after its first reader",
    "dead": "a result that nothing reads is never live",
    "output": "an output is free after its last reader",
    "in-place-output": "a result takes the bytes of an output",
    "in-place-read": "a result takes the bytes of an operand that is read later",
    "operand": "a result may have the bytes of any operand",
    "branch": "readers inside a branch do not count",
    "loop": "what a loop reads is free after the reader inside, though it runs again",
    "parameter": "a parameter is free after its last reader",
    "view": "a base is free after its own last reader, whatever reads its views",
    "input": "inputs are live from their first reader on",
    "apart": "tensors that must not alias may",
    "view-of-view": "a view of a view shows the view's bytes, which nothing keeps",
    "second": "the second result of a node is free at once",
    "first-operand": "only the first operand of a node is read",
    "unaligned": "alignments of tensors are ignored",
}  # fmt: skip

Buffers = list[TimedBuffer]
_memo: dict[str, int] = {}


def _changed(change: Callable[[TimedBuffer], TimedBuffer | None]) -> Callable[[Buffers], Any]:
    """A planner that takes each buffer for another, or leaves it out."""
    return lambda buffers: plan_buffers([b for b in map(change, buffers) if b is not None])


def _moved(move: Callable[[TimedBuffer, int], Any]) -> Callable[[Buffers], Any]:
    """A planner that changes each offset."""

    def plan(buffers: Buffers) -> Any:
        found = plan_buffers(buffers)
        return {b.name: move(b, found[b.name]) for b in buffers}

    return plan


def _rounded(buffers: Buffers) -> Any:
    found = plan_buffers([replace(b, alignment=1) for b in buffers])
    return {b.name: (found[b.name] + b.alignment // 2) // b.alignment * b.alignment for b in buffers}


def _sorted_in_place(buffers: Buffers) -> Any:
    buffers.sort(key=lambda b: -b.bytes)
    return plan_buffers(buffers)


def _in_order_of_size(buffers: Buffers) -> Any:
    found = plan_buffers(buffers)
    return [found[b.name] for b in sorted(buffers, key=lambda b: -b.bytes)]


def _swapped(buffers: Buffers) -> Any:
    found = plan_buffers(buffers)
    return dict(zip(found, [*list(found.values())[1:], *list(found.values())[:1]], strict=True))


ODD: dict[str, tuple[str, Callable[[Buffers], Any]]] = {
    "last": ("the last step is excluded", _changed(lambda b: replace(b, last=max(b.first, b.last - 1)))),
    "later": ("a buffer is free in its first step", _changed(lambda b: replace(b, first=min(b.first + 1, b.last)))),
    "align-size": (
        "sizes are rounded up, not offsets",
        _changed(lambda b: replace(b, bytes=align_up(b.bytes, b.alignment), alignment=1)),
    ),
    "align-nearest": ("offsets are rounded to the nearest", _rounded),
    "align-base": ("only the first offset is aligned", _changed(lambda b: replace(b, alignment=1))),
    "align-16": ("no alignment is beyond 16", _changed(lambda b: replace(b, alignment=min(b.alignment, 16)))),
    "16-bit": ("sizes have 16 bits", _changed(lambda b: replace(b, bytes=b.bytes & 0xFFFF))),
    "33-bit": ("sizes beyond 2^32 are cut", _changed(lambda b: replace(b, bytes=min(b.bytes, 1 << 32)))),
    "gap-end": (
        "a gap is a step longer",
        _changed(lambda b: replace(b, gaps=tuple((low, min(high + 1, b.last - 1)) for low, high in b.gaps[:1]))),
    ),
    "fixed-zero": ("the fixed offset 0 is none", _changed(lambda b: b if b.offset else replace(b, offset=None))),
    "no-zero": ("a buffer of no bytes has no offset", _changed(lambda b: b if b.bytes else None)),
    "negative": ("offsets begin below 0", _moved(lambda b, at: at - 1)),
    "float": ("offsets are floating-point numbers", _moved(lambda b, at: at / 1)),
    "words": ("offsets are in words", _moved(lambda b, at: at // 8)),
    "constant": ("a buffer of one byte is at 0", _moved(lambda b, at: at * (b.bytes != 1))),
    "order": ("the list of offsets is in the order of sizes", _in_order_of_size),
    "swapped": ("each buffer has the offset of the next", _swapped),
    "in-place-sort": ("the caller's list is sorted", _sorted_in_place),
    "empty": ("there is a largest buffer", lambda bs: [max(b.bytes for b in bs)] and plan_buffers(bs)),
    "single": ("the first buffer has no neighbour", lambda bs: plan_buffers(bs) if len(bs) != 1 else {bs[0].name: 1}),
    "memo": ("a buffer is where one of its name was before", _moved(lambda b, at: _memo.setdefault(b.name, at))),
    "hash": ("buffers come in the order of a set", lambda bs: plan_buffers(list(set(bs)))),
    "identity": ("buffers come in the order of their addresses", lambda bs: plan_buffers(sorted(bs, key=id), "sorted")),
}  # fmt: skip
"""Further planners of buffers: each fault in words, and the planner."""


def plan_buffers(buffers: Sequence[TimedBuffer], fault: str = "", capacity: int | None = None) -> Any:
    """First fit by size, with a fault."""
    found: dict[str, int] = {}
    placed: dict[Any, tuple[int, int, TimedBuffer]] = {
        b.name: (b.offset, b.offset + b.bytes, b)
        for b in buffers
        if b.offset is not None and not fault.startswith("fixed")
    }
    order = list(buffers) if fault == "sorted" else sorted(buffers, key=lambda b: -b.bytes)
    for b in order:
        if b.name in placed:
            found[b.name] = placed[b.name][0]
            continue
        found[b.name] = at = _lowest(b, list(placed.values()), fault)
        if fault == "fixed-last" and b.offset is not None:
            found[b.name] = at = b.offset
        key = at if fault == "zero" else (b.bytes, b.first, b.last) if fault == "tie" else b.name
        placed[key] = at, at + b.bytes, b
        if fault == "tie":
            found[b.name] = placed[key][0]
    if fault == "align-after":
        found = {b.name: align_up(found[b.name], b.alignment) for b in buffers}
    if fault == "forgotten" and buffers:
        del found[buffers[-1].name]
    if fault == "state":
        _calls.append(1)
        found = {name: at + (len(_calls) > 40) * 64 for name, at in found.items()}
    height = max((found[b.name] + b.bytes for b in buffers if b.name in found), default=0)
    limit = None if capacity is None else capacity + (fault == "capacity") - (fault == "full")
    if limit is not None and height > limit:
        raise MemoryError(f"{height} bytes, of {capacity}")
    if fault == "stated":
        heights = sorted(found[b.name] + b.bytes for b in buffers)
        return found, heights[-2] if len(heights) > 1 else height
    return found


KEPT = (Role.PARAMETER, Role.OPTIMIZER)
_calls: list[int] = []


def _lowest(b: TimedBuffer, placed: list[tuple[int, int, TimedBuffer]], fault: str) -> int:
    at = 0
    around = placed[-1:] if fault == "neighbour" else placed[-2:] if fault == "table" else placed
    for low, end, other in sorted(around, key=lambda each: each[:2]):
        if fault == "sorted" and other.last < b.first:
            continue
        if fault == "sorted" and other.first > b.first:
            continue
        if not _are_live_together(b, other, fault):
            continue
        if fault == "32-bit":
            end &= 0xFFFF_FFFF
        end = int(float(end)) if fault == "double" else end
        if fault == "31-bit" and end >= 1 << 31:
            end = low
        if low + (fault == "hole") < at + b.bytes and at < end:
            at = end if fault == "align-after" else align_up(end, b.alignment)
            at -= end % b.alignment and b.alignment if fault == "align-down" else 0
            at = at // 64 * 64 if fault == "unit" and at >= 4096 else at
    return at


def _are_live_together(one: TimedBuffer, other: TimedBuffer, fault: str) -> bool:
    if fault == "half-open":
        return one.first < other.last and other.first < one.last
    if fault == "one-step" and one.first == one.last:
        return False
    pieces = [b.pieces()[:1] if fault == "gaps" else b.pieces() for b in (one, other)]
    return any(a <= d and c <= b for a, b in pieces[0] for c, d in pieces[1])


def plan_model(given: Any, fault: str = "") -> dict[str, int]:
    """First fit over the tensors of a model, a `tmmu.Graph` or a networkx graph, with a fault."""
    model = _model(given)
    lives = Lives(model, fault)
    birth, death, root = lives.birth, lives.death, lives.root
    apart = {frozenset((root(a), root(b))) for a, b in model.must_not_alias if fault != "apart"}
    over = lives.in_place(apart)
    found: dict[int, int] = {}
    placed: list[tuple[int, int, int]] = []
    for t, tensor in enumerate(model.tensors):
        if tensor.view is not None:
            continue
        if t in over and over[t] in found:
            found[t] = found[over[t]]
            continue
        at = 0
        for low, end, other in sorted(placed):
            is_apart = birth[t] > death[other] or birth[other] > death[t]
            if (frozenset((t, other)) in apart or not is_apart) and low < at + tensor.bytes and at < end:
                at = align_up(end, 1 if fault == "unaligned" else tensor.alignment)
        found[t] = at
        placed.append((at, at + tensor.bytes, t))
    return {model.tensors[t].name: at for t, at in found.items()}


def _model(given: Any) -> Model:
    if isinstance(given, Graph):
        return given.model()
    if isinstance(given, networkx.DiGraph):
        from tmmu.testing.problems import DagProblem

        return DagProblem(given).model
    assert isinstance(given, Model)
    return given


class Lives:
    """The steps between which each tensor is needed; a node with bodies has a step where it is entered, one where it
    is left.
    """

    def __init__(self, model: Model, fault: str) -> None:
        self.model, self.fault = model, fault
        self.holders = {body.owner for body in model.bodies}
        self.loops = {body.owner for body in model.bodies if body.iterates and fault != "loop"}
        self.enter, self.leave = self._steps()
        last = max(self.leave, default=0) + 1
        self.birth = dict.fromkeys(range(len(model.tensors)), last if fault == "input" else 0)
        self.death = dict.fromkeys(self.birth, -1)
        written: dict[int, int] = {}
        for n, node in enumerate(model.nodes):
            for t in node.made:
                self.birth[t] = self.enter[n] if n in self.loops else self.leave[n]
                written[t] = self.leave[n]
        for body in model.bodies[1:]:
            for t in body.inputs:
                written[t] = self.birth[t] = self.enter[body.owner]
        for t, step in written.items():
            if fault != "dead":
                self.death[t] = step
        for t, step in self._reads():
            if fault == "first-reader" and self.death[t] > written.get(t, -1):
                continue
            self.death[t] = max(self.death[t], step)
            if t not in written:
                self.birth[t] = min(self.birth[t], step)
        kept = [t for t, tensor in enumerate(model.tensors) if tensor.role in KEPT and fault != "parameter"]
        for t in (*kept, *(map(self.root, model.outputs) if fault != "output" else ())):
            self.death[t] = last
        for t in {node.made[1] for node in model.nodes if len(node.made) > 1} if fault == "second" else ():
            self.death[t] = self.birth[t]
        for t in self.birth:
            if fault != "dead":
                self.death[t] = max(self.death[t], min(self.birth[t], last))

    def root(self, t: int) -> int:
        """The tensor whose bytes it shows."""
        view = self.model.tensors[t].view
        if view is None or self.fault == "view":
            return t
        return view.base if self.fault == "view-of-view" else self.root(view.base)

    def _steps(self) -> tuple[list[int], list[int]]:
        nodes, count, open_ = self.model.nodes, 0, list[int]()
        enter, leave = [0] * len(nodes), [0] * len(nodes)
        for n, node in enumerate(nodes):
            while open_ and open_[-1] not in self._owners(node.body):
                leave[open_.pop()] = count
                count += 1
            enter[n] = leave[n] = count
            count += 1
            open_ += [n] if n in self.holders else []
        while open_:
            leave[open_.pop()] = count
            count += 1
        return enter, leave

    def _owners(self, body: int) -> list[int]:
        """The nodes around a body, innermost first."""
        found = []
        while body != MAIN:
            found.append(self.model.bodies[body].owner)
            body = self.model.nodes[found[-1]].body
        return found

    def _until(self, step: int, body: int) -> int:
        """The step until which what is read in a body is needed: the end of the outermost loop."""
        while body != MAIN:
            owner = self.model.bodies[body].owner
            if self.model.bodies[body].iterates and self.fault != "loop":
                step = self.leave[owner]
            body = self.model.nodes[owner].body
        return step

    def _reads(self) -> Iterator[tuple[int, int]]:
        """Each tensor that is read, and until when."""
        for n, node in enumerate(self.model.nodes):
            if self.fault != "branch" or node.body == MAIN:
                early = self.fault == "operand" and n not in self.holders
                for t in (*node.reads[: 1 if self.fault == "first-operand" else None], *node.writes):
                    if t in node.reads or t not in node.made or self.model.tensors[t].view is not None:
                        step = self.leave[n] if n in self.loops else self.enter[n] - early
                        yield self.root(t), self._until(step, node.body)
        for body in self.model.bodies[1:]:
            for t in (*body.outputs, *(body.inputs if body.iterates and self.fault != "loop" else ())):
                around = self.model.nodes[body.owner].body
                yield self.root(t), self._until(self.leave[body.owner], around)

    def in_place(self, apart: set[frozenset[int]]) -> dict[int, int]:
        """The results that take the bytes of an operand, whose life becomes theirs."""
        found: dict[int, int] = {}
        home = {t: node.body for node in self.model.nodes for t in node.made}
        for n, node in enumerate(self.model.nodes):
            for result, operand in () if n in self.holders else node.in_place:
                tensor, kept = self.model.tensors[operand], operand in self.model.outputs
                is_last = self.death[operand] <= self.enter[n] or self.fault == "in-place-read"
                is_free = is_last or (kept and self.fault == "in-place-output")
                refused = kept and self.fault != "in-place-output"
                made = self.model.tensors[result]
                plain = home.get(operand) == node.body and tensor.view is None and made.view is None
                plain &= (tensor.shape, tensor.dtype) == (made.shape, made.dtype)
                plain &= tensor.alignment >= made.alignment
                if plain and tensor.role not in (Role.INPUT, *KEPT) and is_free and not refused:
                    if frozenset((operand, result)) in apart or result in found or operand in found:
                        continue
                    found[result] = operand
                    self.death[operand] = max(self.death[operand], self.death[result])
                    break
        return found
