"""Exclusive arms in the checker's run: each arm once, from the state before it, and one state after all of them (X4).

What an earlier arm writes and a later one touches keeps its bytes in between, since lifetimes are intervals of steps.
spec: X4.3, X4.4, X4.5, X4.7
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from proofs.checker.program import Program
from proofs.checker.states import State, ValueNumbers, merge
from proofs.readers.arms import Branches


class Kept(NamedTuple):
    """A tensor that must be whole at the end of an arm: at which step, which, and whether the node's leave takes it."""

    step: int
    tensor: int
    is_taken: bool


@dataclass
class _Open:
    """A node whose arms are being walked: the state before them, and those at the ends of arms.

    `bounds` maps the first and the last step of each arm to its number, and `last` each tensor that arms access to the
    last of them. `wrote` are the tensors that earlier arms wrote first, `held` those of them that this arm or a later
    one accesses.
    """

    node: Branches
    before: State
    bounds: dict[int, int]
    last: dict[int, int]
    ends: dict[int, State] = field(default_factory=dict)
    wrote: set[int] = field(default_factory=set)
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
            before, nothing = top.before, top.before.fork()
            ends = [top.ends.get(k, nothing) for k in range(len(top.node.arms))]
            taken = frozenset(
                t for t in top.node.taken if not before.perhaps[t] and any(end.perhaps[t] for end in ends)
            )
            merge(self.run, self.values, before, ends)
            return before, taken
        k = top.bounds.get(n)
        return (state if k is None or n != top.node.arms[k].first else self._begun(top, k)), frozenset()

    def _begun(self, top: _Open, k: int) -> State:
        state = top.before.fork()
        top.held = frozenset(t for t in top.wrote if top.last.get(t, 0) >= k and t not in self.run.views)
        for t in sorted(top.held):
            tensor = self.run.tensors[t]
            state.write(tensor.arena, tensor.address, tensor.address + tensor.bytes, state.shown[t])
        return state

    def holds(self, t: int, state: State) -> bool:
        """Whether an earlier arm has written a tensor that this arm has not: its bytes must still be its own."""
        return not state.surely[t] and any(t in node.held for node in self.open)

    def after(self, n: int, state: State) -> Iterator[Kept]:
        """After step n: which tensors must be whole, where it ends an arm. O(what the node's arms access)."""
        if n in self.nodes:
            self.open.append(self._opened(self.nodes[n], state))
            return
        if not self.open:
            return
        top = self.open[-1]
        k = top.bounds.get(n)
        if k is None or n != top.node.arms[k].last:
            return
        top.ends[k] = state
        first = {t for t in state.touched if not top.before.perhaps[t]}
        top.wrote |= first
        for t in top.node.taken:
            if t in first:
                yield Kept(n, t, is_taken=True)
        for t in sorted(t for t, last in top.last.items() if last > k):
            if state.surely[t] or t in top.held:
                yield Kept(n, t, is_taken=False)

    def _opened(self, node: Branches, state: State) -> _Open:
        bounds: dict[int, int] = {}
        last: dict[int, int] = {}
        for k, arm in enumerate(node.arms):
            for step in self.run.steps[arm.first : arm.last + 1]:
                last |= dict.fromkeys((*step.reads, *step.again, *step.writes), k)
            if arm.first <= arm.last:
                bounds[arm.first] = bounds[arm.last] = k
        return _Open(node, state, bounds, last)
