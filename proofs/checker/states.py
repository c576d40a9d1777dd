"""The state of the checker's run at one moment, and how the states after exclusive arms become one (X4).

A *value* is what a write leaves: the tensor's own number, or a new one each time that the tensor is changed. Where arms
leave different values, the merged state has a value of its own for each combination, so that bytes hold what a tensor
shows afterwards exactly where they do so in every arm. spec: X4.4, X4.7
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from proofs.checker.memory import Bytes
from proofs.checker.program import CALLER, Program


@dataclass
class State:
    """The bytes of each arena by value, the value that each tensor shows, and what is written.

    `surely` marks what is written on every way to this moment, `perhaps` on some; `begun` are results of loops that
    are running, which hold nothing whole before they are left; `touched` what was written since the last fork.
    """

    memory: list[Bytes]
    shown: list[int]
    surely: bytearray
    perhaps: bytearray
    begun: set[int] = field(default_factory=set)
    touched: dict[int, None] = field(default_factory=dict)

    def fork(self) -> State:
        """A copy for one arm. O(tensors + runs of bytes)."""
        return State(
            [arena.copy() for arena in self.memory], self.shown.copy(), self.surely.copy(), self.perhaps.copy(),
            self.begun.copy(),
        )  # fmt: skip

    def wrote(self, t: int) -> None:
        """A step has written a tensor."""
        self.surely[t] = self.perhaps[t] = 1
        self.touched[t] = None


def start(run: Program) -> State:
    """The state before step 0, the caller's writes done."""
    given = bytearray(t.writer is None for t in run.tensors)
    state = State([Bytes(CALLER) for _ in run.arenas], list(range(len(run.tensors))), given, given.copy())
    for i, t in enumerate(run.tensors):
        if t.writer is None:
            state.memory[t.arena].write(t.address, t.address + t.bytes, i)
    return state


class ValueNumbers:
    """The values of a run: of which tensors each is, to name it."""

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


def merged(run: Program, values: ValueNumbers, before: State, ends: Sequence[State]) -> State:
    """The state after a node, from that before it and those at the ends of its arms. O(what the arms wrote)."""
    result = before.fork()
    result.begun, result.touched = ends[0].begun, before.touched
    combined: dict[tuple[int, ...], int] = {}

    def one(found: tuple[int, ...]) -> int:
        if len(set(found)) == 1:
            return found[0]
        if found not in combined:
            named = dict.fromkeys(t for value in found for t in (values.of[value] if value != CALLER else (CALLER,)))
            combined[found] = values.new(*named)
        return combined[found]

    for t in dict.fromkeys(t for end in ends for t in end.touched):
        tensor = run.tensors[t]
        result.shown[t] = one(tuple(end.shown[t] for end in ends))
        result.surely[t] = all(end.surely[t] for end in ends)
        result.perhaps[t] = any(end.perhaps[t] for end in ends)
        result.touched[t] = None
        arenas = [end.memory[tensor.arena] for end in ends]
        for first, stop, owners in _pieces(arenas, tensor.address, tensor.address + tensor.bytes):
            result.memory[tensor.arena].write(first, stop, one(owners))
    return result


def _pieces(arenas: Sequence[Bytes], first: int, end: int) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Bytes [first, end) of several states of one arena, cut wherever one of them has another owner."""
    runs = [list(arena.read(first, end)) for arena in arenas]
    cuts = sorted({stop for each in runs for _, stop, _ in each})
    at = [0] * len(runs)
    for stop in cuts:
        yield first, stop, tuple(each[i][2] for each, i in zip(runs, at, strict=True))
        at = [i + (each[i][1] == stop) for each, i in zip(runs, at, strict=True)]
        first = stop
