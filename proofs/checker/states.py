"""The state of the checker's run at one moment, and how the states after exclusive arms become one (X4).

A *value* is what a write leaves: the tensor's own number, or a new one each time that the tensor is changed. Where arms
leave different values, the merged state has a value of its own for each combination, so that bytes hold what a tensor
shows afterwards exactly where they do so in every arm. spec: X4.4, X4.7
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from proofs.checker.memory import Bytes
from proofs.checker.program import CALLER, Program


@dataclass
class State:
    """By arena its bytes by value; by tensor the value that it shows, and whether it is written.

    `surely` marks what is written on every way to this moment, `perhaps` on some; `begun` are results of loops that
    are running, which hold nothing whole before they are left. The first map of each holds what was written since the
    last fork, the maps behind it the states before.
    """

    memory: ChainMap[int, Bytes]
    shown: ChainMap[int, int]
    surely: ChainMap[int, bool]
    perhaps: ChainMap[int, bool]
    begun: ChainMap[int, bool]

    def fork(self) -> State:
        """The state in which an arm begins, whose writes leave this one as it is. O(depth)."""
        return State(
            self.memory.new_child(), self.shown.new_child(), self.surely.new_child(), self.perhaps.new_child(),
            self.begun.new_child(),
        )  # fmt: skip

    @property
    def touched(self) -> dict[int, bool]:
        """The tensors that were written since the last fork, in order."""
        written = self.surely.maps[0]
        assert isinstance(written, dict)
        return written

    def wrote(self, t: int) -> None:
        """A step has written a tensor."""
        self.surely[t] = self.perhaps[t] = True

    def write(self, arena: int, first: int, end: int, value: int) -> None:
        """Bytes [first, end) of an arena now hold a value."""
        if arena not in self.memory.maps[0]:
            self.memory[arena] = Bytes(self.memory[arena])
        self.memory[arena].write(first, end, value)


def start(run: Program) -> State:
    """The state before step 0, the caller's writes done."""
    given = {i: t.writer is None for i, t in enumerate(run.tensors)}
    state = State(
        ChainMap({a: Bytes(CALLER) for a in range(len(run.arenas))}), ChainMap({i: i for i in given}),
        ChainMap(given), ChainMap(given.copy()), ChainMap(dict.fromkeys(given, False)),
    )  # fmt: skip
    for i, t in enumerate(run.tensors):
        if t.writer is None:
            state.write(t.arena, t.address, t.address + t.bytes, i)
    return state


class ValueNumbers:
    """The values of a run: of which tensors each is, to name it. Two are enough to name one that is not asked about."""

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


def merge(run: Program, values: ValueNumbers, state: State, ends: Sequence[State]) -> None:
    """Make the state before a node that after it, from those at the ends of its arms.

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

    for t in dict.fromkeys(t for end in ends for t in end.touched):
        state.shown[t] = one(tuple(end.shown[t] for end in ends))
        state.surely[t] = all(end.surely[t] for end in ends)
        state.perhaps[t] = any(end.perhaps[t] for end in ends)
        state.begun[t] = ends[0].begun[t]
    for arena in dict.fromkeys(arena for end in ends for arena in end.memory.maps[0]):
        after = [end.memory[arena] for end in ends]
        for first, stop, owners in [piece for written in _written(ends, arena) for piece in _pieces(after, *written)]:
            state.write(arena, first, stop, one(owners))


def _written(ends: Sequence[State], arena: int) -> Iterator[tuple[int, int]]:
    """The ranges of bytes that some arm wrote, apart from one another and in order."""
    runs = sorted(run for end in ends if arena in (own := end.memory.maps[0]) for run in own[arena].written())
    begin, reached = runs[0] if runs else (0, 0)
    for first, stop in runs:
        if first > reached:
            yield begin, reached
            begin = first
        reached = max(reached, stop)
    yield begin, reached


def _pieces(arenas: Sequence[Bytes], first: int, end: int) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Bytes [first, end) of several states of one arena, cut wherever one of them has another owner."""
    runs = [list(arena.read(first, end)) for arena in arenas]
    cuts = sorted({stop for each in runs for _, stop, _ in each})
    at = [0] * len(runs)
    for stop in cuts:
        yield first, stop, tuple(each[i][2] for each, i in zip(runs, at, strict=True))
        at = [i + (each[i][1] == stop) for each, i in zip(runs, at, strict=True)]
        first = stop
