"""Exclusive arms in the checker's run: each arm once, from the state before it, and one state after all of them (X4).

What an earlier arm writes and a later one touches keeps its bytes in between, since lifetimes are intervals of steps.
spec: X4.3, X4.4, X4.5, X4.7
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from proofs.checker.program import Program
from proofs.checker.states import State, ValueNumbers, merged
from proofs.readers.arms import Branches


class Kept(NamedTuple):
    """A tensor that must be whole at the end of an arm: at which step, which, and whether the node's leave takes it."""

    step: int
    tensor: int
    is_taken: bool


@dataclass
class _Open:
    """A node whose arms are being walked: the state before them, those at the ends of arms, and what arms touch.

    `touched[k]` are the tensors that arms k and later access; `held` those that an earlier arm wrote and that this arm
    or a later one accesses.
    """

    node: Branches
    before: State
    touched: list[frozenset[int]]
    ends: dict[int, State] = field(default_factory=dict)
    held: frozenset[int] = frozenset()


class Visits:
    """The nodes with exclusive arms in which a walk over the steps of a plan stands."""

    def __init__(self, run: Program, values: ValueNumbers) -> None:
        self.run, self.values = run, values
        self.nodes = {node.enter: node for node in run.branches}
        self.open: list[_Open] = []

    def before(self, n: int, state: State) -> tuple[State, frozenset[int]]:
        """The state in which step n runs, and those of its reads that were looked at where the arms ended."""
        if not self.open:
            return state, frozenset()
        top = self.open[-1]
        if n == top.node.leave:
            self.open.pop()
            ends = [top.ends.get(k, top.before) for k in range(len(top.node.arms))]
            taken = frozenset(
                t for t in top.node.taken if not top.before.perhaps[t] and any(end.perhaps[t] for end in ends)
            )
            return merged(self.run, self.values, top.before, ends), taken
        for k, arm in enumerate(top.node.arms):
            if n == arm.first <= arm.last:
                return self._begun(top, k), frozenset()
        return state, frozenset()

    def _begun(self, top: _Open, k: int) -> State:
        state = top.before.fork()
        wrote = {t for end in top.ends.values() for t in end.touched if not top.before.perhaps[t]}
        top.held = frozenset(wrote & top.touched[k] - self.run.views.keys())
        for t in sorted(top.held):
            tensor = self.run.tensors[t]
            state.memory[tensor.arena].write(tensor.address, tensor.address + tensor.bytes, state.shown[t])
        return state

    def holds(self, t: int, state: State) -> bool:
        """Whether an earlier arm has written a tensor that this arm has not: its bytes must still be its own."""
        return not state.surely[t] and any(t in node.held for node in self.open)

    def after(self, n: int, state: State) -> Iterator[Kept]:
        """After step n: which tensors must be whole, where it ends an arm."""
        if n in self.nodes:
            self.open.append(_Open(self.nodes[n], state, self._touched(self.nodes[n])))
            return
        if not self.open:
            return
        top = self.open[-1]
        for k, arm in enumerate(top.node.arms):
            if n == arm.last >= arm.first:
                top.ends[k] = state
                for t in top.node.taken:
                    if t in state.touched and not top.before.perhaps[t]:
                        yield Kept(n, t, is_taken=True)
                later = top.touched[k + 1] if k + 1 < len(top.touched) else frozenset()
                for t in sorted(later):
                    if state.surely[t] or t in top.held:
                        yield Kept(n, t, is_taken=False)

    def _touched(self, node: Branches) -> list[frozenset[int]]:
        """By arm: the tensors that it and the arms after it access."""
        found: list[frozenset[int]] = []
        seen: set[int] = set()
        for arm in reversed(node.arms):
            for step in self.run.steps[arm.first : arm.last + 1]:
                seen.update(step.reads, step.again, step.writes)
            found.append(frozenset(seen))
        return found[::-1]
