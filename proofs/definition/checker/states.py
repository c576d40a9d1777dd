"""Represent the state of the checker's run at one moment, and merge the states after exclusive branches into one (X4).

A *value* is the result of a write: the tensor's own number, or a new number each time that the tensor is mutated. If
branches leave different values, the merged state has a separate value for each combination. Bytes then hold what a
tensor shows afterwards exactly if they do so in every branch. spec: X4.4, X4.7
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
"""An arena's bytes are divided after every so many distinct offsets of storages."""
UNCHANGED = -2
"""The value of bytes that a branch did not write."""


class Written(NamedTuple):
    """The state of a tensor: the value that it shows, and whether it is written on every path or only on some.

    `surely` is true if every path has written it, `perhaps` if some path has. `begun` marks the result of a running
    loop, which holds nothing whole before the loop is left.
    """

    value: int
    surely: bool
    perhaps: bool
    begun: bool = False


@dataclass
class BranchChanges:
    """The changes of a branch, in order, to undo them: the earlier states of tensors and values of bytes."""

    tensors: dict[int, Written] = field(default_factory=dict)
    runs: list[tuple[int, int, int, int]] = field(default_factory=list)


class BranchEnd(NamedTuple):
    """The result of a branch: the tensors that it wrote, and the bytes of each arena that it wrote."""

    tensors: dict[int, Written]
    memory: dict[int, Bytes]


@dataclass
class State:
    """The bytes of each arena by value, the state of each tensor, and the changes of the branches that are running."""

    memory: list[Divided]
    of: list[Written]
    arms: list[BranchChanges] = field(default_factory=list)

    def set_tensor(self, t: int, written: Written) -> None:
        """Set the state of a tensor."""
        if self.arms:
            self.arms[-1].tensors.setdefault(t, self.of[t])
        self.of[t] = written

    def write(self, arena: int, first: int, end: int, value: int) -> None:
        """Set bytes [first, end) of an arena to a value."""
        if self.arms:
            self.arms[-1].runs.extend((arena, *run) for run in self.memory[arena].read(first, end))
        self.memory[arena].write(first, end, value)

    def begin(self) -> None:
        """Begin a branch: `end` undoes what changes from now on."""
        self.arms.append(BranchChanges())

    def end(self) -> BranchEnd:
        """End the branch and restore the state before it. O(w log w) for w tensors and runs that it wrote."""
        changes = self.arms.pop()
        left = BranchEnd({t: self.of[t] for t in changes.tensors}, {})
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


def initial_state(run: Program) -> State:
    """Return the state before step 0, after the caller's writes."""
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
    """The values of a run, each with at most two tensors that name it: one of them differs from any given tensor."""

    def __init__(self, tensors: int) -> None:
        self.of: list[tuple[int, ...]] = [(t,) for t in range(tensors)]

    def new(self, *tensors: int) -> int:
        """Return a new value, which differs from every other one."""
        self.of.append(tensors)
        return len(self.of) - 1

    def other_than(self, t: int, value: int) -> int:
        """Return a tensor of a value, not `t` if there is another. Returns `CALLER` if no step wrote the value."""
        if value == CALLER:
            return CALLER
        return next((each for each in self.of[value] if each != t), self.of[value][0])


def merge(values: ValueNumbers, state: State, ends: Sequence[BranchEnd]) -> None:
    """Turn the state before a node into the state after it, from the results of its branches.

    O(w log w) for each branch, for w tensors and runs of bytes that the branches wrote.
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
        state.set_tensor(t, Written(value, surely, perhaps, found[0].begun))
    for arena in dict.fromkeys(arena for end in ends for arena in end.memory):
        changed = [end.memory.get(arena, Bytes(UNCHANGED)) for end in ends]
        for first, stop in _apart(written for each in changed for written in _changed(each)):
            for piece, until, owners in list(_pieces(state.memory[arena], changed, first, stop)):
                state.write(arena, piece, until, one(owners))


def _changed(arena: Bytes) -> Iterator[tuple[int, int]]:
    """Yield the byte ranges that a branch wrote and that have an end."""
    for first, stop, value in zip(arena.start, arena.start[1:], arena.owner, strict=False):
        if value != UNCHANGED:
            yield first, stop


def _apart(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the bytes of some ranges as ranges that do not overlap, in order."""
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
    """Yield bytes [first, end) at the ends of all branches, cut wherever one of them has another value."""
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
