"""The state of the checker's run at one moment, and how the states after exclusive arms become one (X4).

A *value* is what a write leaves: the tensor's own number, or a new one each time that the tensor is changed. Where arms
leave different values, the merged state has a value of its own for each combination, so that bytes hold what a tensor
shows afterwards exactly where they do so in every arm. spec: X4.4, X4.7
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from proofs.definition.checker.memory import Bytes, Divided
from proofs.definition.checker.program import CALLER, Program

PART = 256
"""Offsets of storages after which an arena's bytes are divided."""
UNCHANGED = -2
"""The value of bytes that an arm did not write."""


class Written(NamedTuple):
    """What is known of a tensor: the value that it shows, and whether it is written on every way or on some.

    `begun` marks the result of a loop that is running, which holds nothing whole before the loop is left.
    """

    value: int
    surely: bool
    perhaps: bool
    begun: bool = False


@dataclass
class ArmChanges:
    """What an arm changed: of its tensors what was known before, of its bytes the runs of values before, in order."""

    tensors: dict[int, Written] = field(default_factory=dict)
    runs: list[tuple[int, int, int, int]] = field(default_factory=list)


class ArmEnd(NamedTuple):
    """What is left at the end of an arm of the tensors that it wrote, and of each arena's bytes that it wrote."""

    tensors: dict[int, Written]
    memory: dict[int, Bytes]


@dataclass
class State:
    """The bytes of each arena by value, what is known of each tensor, and the changes of the arms that are running."""

    memory: list[Divided]
    of: list[Written]
    arms: list[ArmChanges] = field(default_factory=list)

    def know(self, t: int, written: Written) -> None:
        """From now on this is known of a tensor."""
        if self.arms:
            self.arms[-1].tensors.setdefault(t, self.of[t])
        self.of[t] = written

    def write(self, arena: int, first: int, end: int, value: int) -> None:
        """Bytes [first, end) of an arena now hold a value."""
        if self.arms:
            self.arms[-1].runs.extend((arena, *run) for run in self.memory[arena].read(first, end))
        self.memory[arena].write(first, end, value)

    def begin(self) -> None:
        """An arm begins: what changes from now on is undone at its end."""
        self.arms.append(ArmChanges())

    def end(self) -> ArmEnd:
        """The arm ends, and the state is again that before it. O(w log w) for w tensors and runs that it wrote."""
        changes = self.arms.pop()
        left = ArmEnd({t: self.of[t] for t in changes.tensors}, {})
        ranges: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for arena, first, stop, _ in changes.runs:
            ranges[arena].append((first, stop))
        for arena, found in ranges.items():
            left.memory[arena] = Bytes(UNCHANGED)
            for first, stop in _apart(found):
                for run in self.memory[arena].read(first, stop):
                    left.memory[arena].write(*run)
        for arena, first, stop, value in reversed(changes.runs):
            self.memory[arena].write(first, stop, value)
        for t, written in changes.tensors.items():
            self.of[t] = written
        return left


def start(run: Program) -> State:
    """The state before step 0, the caller's writes done."""
    known = [Written(i, t.writer is None, t.writer is None) for i, t in enumerate(run.tensors)]
    offsets: list[set[int]] = [set() for _ in run.arenas]
    for s in run.storages:
        offsets[s.arena].add(s.offset)
    state = State([Divided(CALLER, sorted(found)[PART::PART]) for found in offsets], known)
    for i, t in enumerate(run.tensors):
        if t.writer is None:
            state.write(t.arena, t.address, t.address + t.bytes, i)
    return state


class ValueNumbers:
    """The values of a run: of which tensors each is, to name it. Two are enough: one of them is not the one at hand."""

    def __init__(self, tensors: int) -> None:
        self.of: list[tuple[int, ...]] = [(t,) for t in range(tensors)]

    def new(self, *tensors: int) -> int:
        """A value that nothing else is."""
        self.of.append(tensors)
        return len(self.of) - 1

    def other_than(self, t: int, value: int) -> int:
        """A tensor that a value is of, not `t` if there is one; `CALLER` where nothing was written."""
        if value == CALLER:
            return CALLER
        return next((each for each in self.of[value] if each != t), self.of[value][0])


def merge(values: ValueNumbers, state: State, ends: Sequence[ArmEnd]) -> None:
    """Make the state before a node that after it, from what its arms left.

    O(w log w) for w tensors and runs of bytes that the arms wrote, for each arm.
    """
    combined: dict[tuple[int, ...], int] = {}

    def one(found: tuple[int, ...]) -> int:
        if len(set(found)) == 1:
            return found[0]
        if found not in combined:
            named = dict.fromkeys(t for value in found for t in (values.of[value] if value != CALLER else (CALLER,)))
            combined[found] = values.new(*islice(named, 2))
        return combined[found]

    for t in dict.fromkeys(t for end in ends for t in end.tensors):
        found = [end.tensors.get(t, state.of[t]) for end in ends]
        value = one(tuple(each.value for each in found))
        surely, perhaps = all(each.surely for each in found), any(each.perhaps for each in found)
        state.know(t, Written(value, surely, perhaps, found[0].begun))
    for arena in dict.fromkeys(arena for end in ends for arena in end.memory):
        changed = [end.memory.get(arena, Bytes(UNCHANGED)) for end in ends]
        for first, stop in _apart(written for each in changed for written in _changed(each)):
            for piece, until, owners in list(_pieces(state.memory[arena], changed, first, stop)):
                state.write(arena, piece, until, one(owners))


def _changed(arena: Bytes) -> Iterator[tuple[int, int]]:
    """The runs of bytes that an arm wrote, of which there is an end."""
    for first, stop, value in zip(arena.start, arena.start[1:], arena.owner, strict=False):
        if value != UNCHANGED:
            yield first, stop


def _apart(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The bytes of some ranges, as ranges that do not meet, in order."""
    begin = reached = 0
    for first, stop in sorted(ranges):
        if first > reached:
            yield begin, reached
            begin = first
        reached = max(reached, stop)
    yield begin, reached


def _pieces(
    before: Divided, changed: Sequence[Bytes], first: int, end: int
) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Bytes [first, end) at the ends of all arms, cut wherever one of them has another value."""
    runs = [
        [part for run in arena.read(first, end) for part in (before.read(*run[:2]) if run[2] == UNCHANGED else (run,))]
        for arena in changed
    ]
    cuts = sorted({stop for each in runs for _, stop, _ in each})
    at = [0] * len(runs)
    for stop in cuts:
        yield first, stop, tuple(each[i][2] for each, i in zip(runs, at, strict=True))
        at = [i + (each[i][1] == stop) for each, i in zip(runs, at, strict=True)]
        first = stop
