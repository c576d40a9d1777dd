"""The difference of two plans: bytes of arenas, and tensors by name. spec: RP4.1"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from tmmu.plans import metrics
from tmmu.plans.places import tensor_places
from tmmu.plans.sections import BufferPlan, Plan
from tmmu.report.arena_map import arena_maps


@dataclass(frozen=True)
class ArenaChange:
    """The footprint and the most live bytes of an arena in both plans; 0 if a plan does not have it."""

    name: str
    footprint: tuple[int, int]
    peak: tuple[int, int]


@dataclass(frozen=True)
class TensorChange:
    """A tensor in both plans, as (arena, offset, bytes, birth, death); None if a plan does not have it."""

    name: str
    before: tuple[str, int, int, int, int] | None
    after: tuple[str, int, int, int, int] | None

    @property
    def kind(self) -> str:
        """One of "new", "gone", "resized", "moved" and "lives otherwise": the first that applies."""
        if self.before is None or self.after is None:
            return "new" if self.before is None else "gone"
        if self.before[2] != self.after[2]:
            return "resized"
        return "moved" if self.before[:2] != self.after[:2] else "lives otherwise"

    @property
    def growth(self) -> int:
        """The growth in bytes from the first plan to the second."""
        return (self.after[2] if self.after else 0) - (self.before[2] if self.before else 0)


def arena_changes(before: Plan | BufferPlan, after: Plan | BufferPlan) -> list[ArenaChange]:
    """Return the arenas of both plans, first those of the first plan. O(storages)."""
    found: list[dict[str, tuple[int, int]]] = []
    for plan in (before, after):
        peaks = {one.name: one.peak for one in arena_maps(plan, with_released=False)}
        footprints = metrics.compute_footprints(plan.placement)
        found.append(
            {
                arena.name: (footprint, peaks.get(arena.name, 0))
                for arena, footprint in zip(plan.placement.arenas, footprints, strict=True)
            }
        )
    old, new = found
    changes = []
    for name in dict.fromkeys([*old, *new]):
        (f0, p0), (f1, p1) = old.get(name, (0, 0)), new.get(name, (0, 0))
        changes.append(ArenaChange(name, (f0, f1), (p0, p1)))
    return changes


def tensor_changes(before: Plan | BufferPlan, after: Plan | BufferPlan) -> list[TensorChange]:
    """Return the tensors that differ, first those that grow most. O(n log n)."""
    old, new = dict(_iterate_tensors(before)), dict(_iterate_tensors(after))
    changes = [
        TensorChange(name, old.get(name), new.get(name))
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]
    return sorted(changes, key=lambda change: (-abs(change.growth), change.name))


def growth(changes: list[ArenaChange]) -> Fraction | None:
    """Return the largest relative growth of an arena; None for growth from nothing."""
    if any(before == 0 < after for before, after in (change.footprint for change in changes)):
        return None
    parts = [Fraction(after - before, before) for before, after in (change.footprint for change in changes) if before]
    return max(parts, default=Fraction(0))


def _iterate_tensors(plan: Plan | BufferPlan) -> Iterator[tuple[str, tuple[str, int, int, int, int]]]:
    arenas, of = [arena.name for arena in plan.placement.arenas], tensor_places(plan)
    columns = (column.tolist() for column in (of.arena, of.offset, of.bytes, of.birth, of.death))
    for name, (arena, offset, size, birth, death) in zip(of.name, zip(*columns, strict=True), strict=True):
        yield name, (arenas[arena], offset, size, birth, death)
