"""A program of a set as the checks see it: its plan, its run in the naive checker, and the caller's tensors.

spec: PS1.1, PS1.5
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from proofs.definition.checker.program import PlacedTensor, Program
from tmmu.core.vocabulary import Role
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
