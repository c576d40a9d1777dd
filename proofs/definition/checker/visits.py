"""Walk exclusive branches in the checker's run: each once, from the state before them, then merged into one state (X4).

If an earlier branch writes a tensor and a later one accesses it, the tensor keeps its bytes in between, because a
lifetime is an interval of steps. spec: X4.3, X4.4, X4.5, X4.7
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from proofs.definition.checker.program import Program
from proofs.definition.checker.states import BranchEnd, State, ValueNumbers, merge
from proofs.readers.arms import BranchingNode


class Kept(NamedTuple):
    """A tensor that must be whole at the end of a branch, at `step`.

    `is_taken` is true if the node's leave reads it.
    """

    step: int
    tensor: int
    is_taken: bool


@dataclass
class _Open:
    """A node whose branches are being walked, and the results of the branches that have ended.

    `bounds` maps the first and the last step of each branch to its number, and `last` each tensor that branches access
    to the last branch that does. `wrote` are the tensors that earlier branches wrote first. `held` are those of them
    that this branch or a later one accesses.
    """

    node: BranchingNode
    bounds: dict[int, int]
    last: dict[int, int]
    ends: dict[int, BranchEnd] = field(default_factory=dict)
    wrote: set[int] = field(default_factory=set)
    held: frozenset[int] = frozenset()


class Visits:
    """The nodes with exclusive branches that a walk over the steps of a plan is inside of."""

    def __init__(self, run: Program, values: ValueNumbers, state: State) -> None:
        self.run, self.values, self.state = run, values, state
        self.nodes = {node.enter: node for node in run.branches}
        self.open: list[_Open] = []

    def before(self, n: int) -> frozenset[int]:
        """Prepare the state for step n. Return those of its reads that were checked at the ends of the branches."""
        if not self.open:
            return frozenset()
        top = self.open[-1]
        if n == top.node.leave:
            self.open.pop()
            taken = frozenset(t for t in top.node.taken if t in top.wrote)
            merge(self.values, self.state, [top.ends.get(k, BranchEnd({}, {})) for k in range(len(top.node.arms))])
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
        """Whether an earlier branch, but not this one, has written a tensor: its bytes must still be its own."""
        return not self.state.of[t].surely and any(t in node.held for node in self.open)

    def after(self, n: int) -> Iterator[Kept]:
        """If step n ends a branch, yield the tensors that must be whole. O(accesses of the node's branches)."""
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

    def _opened(self, node: BranchingNode) -> _Open:
        bounds: dict[int, int] = {}
        last: dict[int, int] = {}
        for k, arm in enumerate(node.arms):
            for step in self.run.steps[arm.first : arm.last + 1]:
                last |= dict.fromkeys((*step.reads, *step.again, *step.writes), k)
            if arm.first <= arm.last:
                bounds[arm.first] = bounds[arm.last] = k
        return _Open(node, bounds, last)
