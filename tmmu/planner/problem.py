"""The allocation problem: storages with lifetimes, bytes and alignments, and the arenas that each may use.

Aliasing builds it from a model. The following stages solve it: they assign arenas, slots and a layout to storages, and
do not look at tensors or steps. `problem_of_plan` returns the problem that a plan has solved.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from tmmu.core.columns import NONE, pack_integers
from tmmu.core.vocabulary import ANYWHERE, ArenaConfiguration, ArenaPolicy
from tmmu.planner.streams.program import order_of_plan
from tmmu.planner.streams.storages import StoragePrecedence
from tmmu.plans.sections import Plan, arena_configurations

Choices = tuple[int, ...]
"""Rows of arenas, the preferred one first."""


Token = bytes


class Fixed(NamedTuple):
    """The byte where a storage must begin, and the tensor that requires it."""

    offset: int
    tensor: str


@dataclass(frozen=True)
class AllocationProblem:
    """Storages in the order of their first tensor, as columns, and the arenas that they are assigned to.

    `birth` and `death` are steps, both included. `made` is the step that makes the storage, negative for the caller's.
    `uses` counts reads and writes by steps; it is empty unless some storage has several `choices`. `conflicts` maps a
    storage to those that may never share a byte with it (T5). The layout `hashed` derives addresses from
    `address_token`. A `fixed` storage has one choice, and must begin at its offset. `gaps` are ranges of steps (first,
    last), within a storage's life and in order, when others may use its bytes. If steps have several streams, `order`
    is the order of storages: one may take the bytes of those that are before it. Without it lifetimes decide.
    """

    arenas: tuple[ArenaConfiguration, ...]
    name: Sequence[str]
    bytes: list[int]
    alignment: list[int]
    birth: Sequence[int]
    death: Sequence[int]
    choices: list[Choices]
    made: Sequence[int]
    uses: list[int] = field(default_factory=list)
    conflicts: dict[int, set[int]] = field(default_factory=dict)
    policy: ArenaPolicy = ANYWHERE
    address_token: Token | None = None
    fixed: dict[int, Fixed] = field(default_factory=dict)
    gaps: Mapping[int, Sequence[tuple[int, int]]] = field(default_factory=dict)
    order: StoragePrecedence | None = None

    def __len__(self) -> int:
        return len(self.bytes)

    @property
    def preferred(self) -> list[int]:
        """The first choice of each storage."""
        return [choices[0] for choices in self.choices]

    def members(self, arena: Sequence[int]) -> list[array[int]]:
        """Return the storages of each arena, in order. `arena` is the arena of each storage."""
        found = [pack_integers((), "i") for _ in self.arenas]
        for k, a in enumerate(arena):
            found[a].append(k)
        return found

    def live_bytes(self, storages: Sequence[int]) -> list[int]:
        """Return the bytes of some storages that are live at each step up to the last death, at least one.

        O(N + steps).
        """
        change = [0] * (max(self.death, default=0) + 2)
        for k in storages:
            change[self.birth[k]] += self.bytes[k]
            change[self.death[k] + 1] -= self.bytes[k]
            for first, last in self.gaps.get(k, ()):
                change[first] -= self.bytes[k]
                change[last + 1] += self.bytes[k]
        return list(accumulate(change[:-1]))


def find_conflicts(pairs: tuple[tuple[int, int], ...], storage: Sequence[int]) -> dict[int, set[int]]:
    """Return for each storage those that may never share a byte with it, by the pairs of tensors. spec: T5.1"""
    found: dict[int, set[int]] = {}
    for a, b in pairs:
        found.setdefault(storage[a], set()).add(storage[b])
        found.setdefault(storage[b], set()).add(storage[a])
    return found


def problem_of_plan(plan: Plan) -> AllocationProblem:
    """Return the problem of a plan's storages, each with its assigned arena as the only choice."""
    t, s = plan.allocation.tensors, plan.allocation.storages
    storage = t.storage.tolist()
    first = {k: row for row, k in reversed(list(enumerate(storage)))}
    names, writer = t.name.list(), t.writer.tolist()
    made = [writer[first[k]] if k in first else NONE for k in range(len(s))]
    asked = plan.origin.fixed if plan.provenance is not None else {}
    return AllocationProblem(
        arena_configurations(plan), [names[first[k]] if k in first else "" for k in range(len(s))], s.bytes.tolist(),
        s.alignment.tolist(), s.birth.tolist(), s.death.tolist(), [(a,) for a in s.arena.tolist()],
        [-1 if step == NONE else step for step in made],
        conflicts=find_conflicts(plan.allocation.must_not_alias, storage), policy=plan.configuration.policy,
        fixed={
            k: Fixed(int(s.offset[k]), name) for k, name in zip(storage, names, strict=True) if name in asked
        },
        order=order_of_plan(plan.allocation),
    )  # fmt: skip
