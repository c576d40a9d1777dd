"""A program of a set as the checks see it: its plan, its run in the naive checker, and the caller's tensors.

spec: PS1.1, PS1.5, PS1.10
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from proofs.definition.checker.program import PlacedTensor, Program, loops
from tmmu.core.vocabulary import MAIN, Role
from tmmu.plans.columns import ROLES
from tmmu.plans.sections import Plan

PERSISTENT = (ROLES.index(Role.PARAMETER), ROLES.index(Role.OPTIMIZER))


@dataclass(frozen=True)
class SetMember:
    """A program of a set: its name, the file of its plan, the plan, its run, and the file digest that it states."""

    name: str
    path: str
    plan: Plan
    run: Program
    file_digest: bytes = b""
    exits: Mapping[str, str] = field(default_factory=dict)
    """The results that the file of another producer declares to be returned in the bytes of donated tensors."""
    state: Mapping[str, bool] = field(default_factory=dict)
    """The tensors that the runtime of another producer keeps between calls, and whether it gives them a first value."""

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each tensor."""
        return {t.name: row for row, t in enumerate(self.run.tensors)}

    @cached_property
    def mutated(self) -> frozenset[int]:
        """The tensors that a step mutates."""
        return frozenset(row for step in self.run.steps for row in step.mutates)

    @cached_property
    def written(self) -> list[int]:
        """The tensors that steps write, without views, which write no byte."""
        rows = dict.fromkeys(row for step in self.run.steps for row in step.writes)
        return [row for row in rows if row not in self.run.views and self.run.tensors[row].bytes]

    @cached_property
    def always_written(self) -> frozenset[int]:
        """The tensors that each call writes, whichever branches run and however often bodies do. spec: PS1.10

        A step of the main graph always runs. A body may run no iteration; of exclusive branches one runs, so that only
        a tensor that all of them write is written. O(writes + bodies).
        """
        bodies = self.plan.allocation.bodies
        found: list[set[int]] = [set() for _ in range(len(bodies))]
        for step, body in zip(self.run.steps, self.plan.allocation.steps.body.tolist(), strict=True):
            found[body].update(step.writes)
        exclusive = {node.enter for node in self.run.branches}
        for parent, enter, rows in self._nodes_with_bodies(innermost_first=True):
            if enter in exclusive:
                found[parent] |= set.intersection(*(found[row] for row in rows))
        return frozenset(found[MAIN])

    @cached_property
    def alternatives(self) -> list[tuple[bool, list[set[int]]]]:
        """Of each node with bodies, whether it may run none of them, else one runs; and the steps of each body."""
        bodies, own = self.plan.allocation.bodies, self.plan.allocation.steps.body.tolist()
        inside: list[set[int]] = [set() for _ in range(len(bodies))]
        for n, body in enumerate(own):
            inside[body].add(n)
        for row in range(len(bodies) - 1, MAIN, -1):
            inside[min(int(bodies.parent[row]), row - 1)] |= inside[row]
        iterating = {enter for enter, _ in loops(self.plan.allocation)}
        return [(enter in iterating, [inside[row] for row in rows]) for _, enter, rows in self._nodes_with_bodies()]

    def _nodes_with_bodies(self, *, innermost_first: bool = False) -> list[tuple[int, int, list[int]]]:
        """Return of each node with bodies the body around it, its enter step, and its bodies. Inner nodes come last."""
        bodies = self.plan.allocation.bodies
        nodes: dict[tuple[int, int], list[int]] = {}
        for row in range(MAIN + 1, len(bodies)):
            nodes.setdefault((min(int(bodies.parent[row]), row - 1), int(bodies.enter[row])), []).append(row)
        found = sorted((parent, enter, rows) for (parent, enter), rows in nodes.items())
        return found[::-1] if innermost_first else found

    @cached_property
    def returned(self) -> frozenset[int]:
        """The tensors that the caller reads after the last step."""
        return frozenset(self.run.returned)

    def tensor(self, row: int) -> PlacedTensor:
        """Return a tensor in its place."""
        return self.run.tensors[row]

    def is_callers(self, row: int) -> bool:
        """Whether the caller writes a tensor before step 0."""
        return self.run.tensors[row].writer is None

    def is_persistent(self, row: int) -> bool:
        """Whether a tensor is a parameter or optimizer state."""
        return int(self.plan.allocation.tensors.role[row]) in PERSISTENT

    def is_initial(self, row: int) -> bool:
        """Whether a tensor of the caller has a value before the first call, whatever the user says."""
        return self.state.get(self.tensor(row).name, self.is_persistent(row))

    def arena_of(self, row: int) -> str:
        """Return the name of a tensor's arena."""
        return self.run.arenas[self.run.tensors[row].arena].name

    def dtype_of(self, row: int) -> str:
        """Return the element type of a tensor."""
        return self.plan.allocation.dtypes[int(self.plan.allocation.tensors.dtype[row])]

    def describe(self, row: int) -> str:
        """Return the place and type of a tensor for messages."""
        t = self.run.tensors[row]
        place = f"{t.bytes} bytes at {t.address} of {self.arena_of(row)}"
        return f"{self.name}:{t.name} has {place}, alignment {t.alignment}, type {self.dtype_of(row)}"

    @cached_property
    def callers(self) -> list[int]:
        """The tensors that the caller writes before step 0, each for itself: views show others' bytes."""
        return [
            row for row, t in enumerate(self.run.tensors) if t.writer is None and t.bytes and row not in self.run.views
        ]

    def root(self, row: int) -> int:
        """Return the tensor whose bytes a tensor shows, through views only. Views in a circle, which are wrong, end."""
        for _ in self.run.views:
            if row not in self.run.views:
                break
            row = self.run.views[row][0]
        return row
