"""Exclusive arms in the checker's run: each arm once, from the state before it, and one state after all of them (X4).

What an earlier arm writes and a later one touches keeps its bytes in between, since lifetimes are intervals of steps.
spec: X4.3, X4.4, X4.5, X4.7
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from proofs.definition.checker.program import Program
from proofs.definition.checker.states import ArmEnd, State, ValueNumbers, merge
from proofs.readers.arms import Branches


class Kept(NamedTuple):
    """A tensor that must be whole at the end of an arm: at which step, which, and whether the node's leave takes it."""

    step: int
    tensor: int
    is_taken: bool


@dataclass
class _Open:
    """A node whose arms are being walked, and what the arms that have ended left.

    `bounds` maps the first and the last step of each arm to its number, and `last` each tensor that arms access to the
    last of them. `wrote` are the tensors that earlier arms wrote first, `held` those of them that this arm or a later
    one accesses.
    """

    node: Branches
    bounds: dict[int, int]
    last: dict[int, int]
    ends: dict[int, ArmEnd] = field(default_factory=dict)
    wrote: set[int] = field(default_factory=set)
    held: frozenset[int] = frozenset()


class Visits:
    """The nodes with exclusive arms in which a walk over the steps of a plan stands."""

    def __init__(self, run: Program, values: ValueNumbers, state: State) -> None:
        self.run, self.values, self.state = run, values, state
        self.nodes = {node.enter: node for node in run.branches}
        self.open: list[_Open] = []

    def before(self, n: int) -> frozenset[int]:
        """Bring about the state in which step n runs; which of its reads were looked at where the arms ended."""
        if not self.open:
            return frozenset()
        top = self.open[-1]
        if n == top.node.leave:
            self.open.pop()
            taken = frozenset(t for t in top.node.taken if t in top.wrote)
            merge(self.values, self.state, [top.ends.get(k, ArmEnd({}, {})) for k in range(len(top.node.arms))])
            return taken
        k = top.bounds.get(n)
        if k is not None and n == top.node.arms[k].first:
            self._begin(top, k)
        return frozenset()

    def _begin(self, top: _Open, k: int) -> None:
        self.state.begin()
        top.held = frozenset(t for t in top.wrote if top.last[t] >= k and t not in self.run.views)
        for t in sorted(top.held):
            tensor = self.run.tensors[t]
            self.state.write(tensor.arena, tensor.address, tensor.address + tensor.bytes, self.state.of[t].value)

    def holds(self, t: int) -> bool:
        """Whether an earlier arm has written a tensor that this arm has not: its bytes must still be its own."""
        return not self.state.of[t].surely and any(t in node.held for node in self.open)

    def after(self, n: int) -> Iterator[Kept]:
        """After step n: which tensors must be whole, where it ends an arm. O(what the node's arms access)."""
        if n in self.nodes:
            self.open.append(self._opened(self.nodes[n]))
            return
        if not self.open:
            return
        top = self.open[-1]
        k = top.bounds.get(n)
        if k is None or n != top.node.arms[k].last:
            return
        wrote = {t for t, was in self.state.arms[-1].tensors.items() if not was.perhaps}
        for t in top.node.taken:
            if t in wrote:
                yield Kept(n, t, is_taken=True)
        for t in sorted(t for t, last in top.last.items() if last > k):
            if self.state.of[t].surely or t in top.held:
                yield Kept(n, t, is_taken=False)
        top.wrote |= wrote
        top.ends[k] = self.state.end()

    def _opened(self, node: Branches) -> _Open:
        bounds: dict[int, int] = {}
        last: dict[int, int] = {}
        for k, arm in enumerate(node.arms):
            for step in self.run.steps[arm.first : arm.last + 1]:
                last |= dict.fromkeys((*step.reads, *step.again, *step.writes), k)
            if arm.first <= arm.last:
                bounds[arm.first] = bounds[arm.last] = k
        return _Open(node, bounds, last)
