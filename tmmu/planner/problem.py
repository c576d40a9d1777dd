"""The allocation problem: storages with their lifetimes, bytes and alignments, and the arenas that each may use.

Aliasing makes it of a model, and what follows solves it: arenas, slots and a layout are assigned to storages alone, and
nothing of that looks at tensors or steps any more. `of_plan` states the problem that a plan has solved.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from tmmu.core.columns import NONE, compact
from tmmu.core.vocabulary import ANYWHERE, ArenaConfiguration, ArenaPolicy
from tmmu.plans.sections import Plan, configured

Choices = tuple[int, ...]
"""Rows of arenas, the first choice first."""


Token = bytes


class Fixed(NamedTuple):
    """The byte at which a storage must begin, and the tensor because of which."""

    offset: int
    tensor: str


@dataclass(frozen=True)
class AllocationProblem:
    """Storages in the order of their first tensor, a column for each fact, and the arenas that they are put into.

    `birth` and `death` are steps, both included. `made` is the step that makes the storage, negative for what the
    caller writes; `uses` how often steps read or write it, counted only where some storage has several `choices`,
    else empty. `conflicts` has for a storage those that may never share a byte with it (T5). `address_token` is what
    the layout `hashed` derives addresses from. `fixed` storages have one choice, and must begin where it says. `gaps`
    are steps from the first to the last, within its life and in order, at which a storage's bytes are free for others.
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

    def __len__(self) -> int:
        return len(self.bytes)

    @property
    def preferred(self) -> list[int]:
        """The first choice of each storage."""
        return [choices[0] for choices in self.choices]

    def members(self, arena: Sequence[int]) -> list[array[int]]:
        """The storages of each arena, in order, where `arena` is the arena of each storage."""
        found = [compact((), "i") for _ in self.arenas]
        for k, a in enumerate(arena):
            found[a].append(k)
        return found

    def live_bytes(self, storages: Sequence[int]) -> list[int]:
        """The bytes of some storages that are live at each step up to the last death, at least one. O(N + steps)."""
        change = [0] * (max(self.death, default=0) + 2)
        for k in storages:
            change[self.birth[k]] += self.bytes[k]
            change[self.death[k] + 1] -= self.bytes[k]
            for first, last in self.gaps.get(k, ()):
                change[first] -= self.bytes[k]
                change[last + 1] += self.bytes[k]
        return list(accumulate(change[:-1]))


def conflicts_of(pairs: tuple[tuple[int, int], ...], storage: Sequence[int]) -> dict[int, set[int]]:
    """For each storage those that must never share a byte with it, by the pairs of tensors. spec: T5.1"""
    found: dict[int, set[int]] = {}
    for a, b in pairs:
        found.setdefault(storage[a], set()).add(storage[b])
        found.setdefault(storage[b], set()).add(storage[a])
    return found


def of_plan(plan: Plan) -> AllocationProblem:
    """The problem of a plan's own storages, each pinned to the arena where it lies."""
    t, s = plan.allocation.tensors, plan.allocation.storages
    storage = t.storage.tolist()
    first = {k: row for row, k in reversed(list(enumerate(storage)))}
    names, writer = t.name.list(), t.writer.tolist()
    made = [writer[first[k]] if k in first else NONE for k in range(len(s))]
    asked = plan.origin.fixed if plan.provenance is not None else {}
    return AllocationProblem(
        configured(plan), [names[first[k]] if k in first else "" for k in range(len(s))], s.bytes.tolist(),
        s.alignment.tolist(), s.birth.tolist(), s.death.tolist(), [(a,) for a in s.arena.tolist()],
        [-1 if step == NONE else step for step in made],
        conflicts=conflicts_of(plan.allocation.must_not_alias, storage), policy=plan.configuration.policy,
        fixed={
            k: Fixed(int(s.offset[k]), name) for k, name in zip(storage, names, strict=True) if name in asked
        },
    )  # fmt: skip
