"""The memory pools of a plan of the layout `pools`, in MiCo's form: members, lifetimes, a pool for each tensor.

MiCo counts time from 0, when the caller writes the inputs; step s of the plan is time s + 1. So `x`, which the first
step reads, lives over [0, 1] and that step's result from 1 on. spec: MC9.1, MC9.2
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tmmu.core.columns import NONE
from tmmu.core.errors import TmmuError
from tmmu.plans.sections import Plan

Lifetime = tuple[int, int]
"""First and last time, both included."""


@dataclass(frozen=True)
class PoolMember:
    """A storage in its pool, by the name of its first tensor, with the lifetime in which it occupies the pool."""

    name: str
    bytes: int
    lifetime: Lifetime


@dataclass(frozen=True)
class StoragePool:
    """Bytes of an arena that storages occupy in turn; members are in the order of their lifetimes."""

    arena: str
    offset: int
    members: tuple[PoolMember, ...]

    @property
    def bytes(self) -> int:
        """The size of the largest member."""
        return max(member.bytes for member in self.members)

    def record(self) -> dict[str, Any]:
        """Return the pool in MiCo's form, with its place in the plan: intervals are (tensor, first time, last time)."""
        return {
            "arena": self.arena, "offset": self.offset, "size": self.bytes,
            "tensors": [member.name for member in self.members],
            "intervals": [(member.name, *member.lifetime) for member in self.members],
        }  # fmt: skip


def find_pools(plan: Plan) -> list[StoragePool]:
    """Return the pools of every arena that reuses bytes, in the order of arenas and offsets. O(storages log storages).

    Raises INVALID_PLAN for a plan of another layout, or one that does not state its layout.
    """
    if plan.origin.layout != "pools":
        raise TmmuError(
            "INVALID_PLAN", f"the layout is {plan.origin.layout}, which has no memory pools", place="provenance.layout",
            fix="plan the model with --layout pools",
        )  # fmt: skip
    s = plan.allocation.storages
    given = set(plan.allocation.tensors.storage[plan.allocation.tensors.writer == NONE].tolist())
    columns = zip(
        plan.allocation.storage_names(),
        *(c.tolist() for c in (s.arena, s.offset, s.bytes, s.birth, s.death)),
        strict=True,
    )
    found: dict[tuple[int, int], list[PoolMember]] = {}
    for k, (name, arena, offset, size, birth, death) in enumerate(columns):
        if plan.allocation.arenas[arena].reuse:
            lifetime = _time(birth, death, given=k in given)
            found.setdefault((arena, offset), []).append(PoolMember(name, size, lifetime))
    return [
        StoragePool(plan.allocation.arenas[a].name, offset, tuple(sorted(members, key=lambda each: each.lifetime)))
        for (a, offset), members in sorted(found.items())
    ]


def tensor_to_pool(pools: list[StoragePool]) -> dict[str, tuple[int, int]]:
    """Return (pool, offset in it) of each storage by the name of its first tensor; the offset is always 0 (004)."""
    return {member.name: (k, 0) for k, pool in enumerate(pools) for member in pool.members}


def tensor_lifetimes(plan: Plan) -> dict[str, Lifetime]:
    """Return the lifetime of each tensor of an arena that reuses bytes: from its writer to its own last reader.

    The bytes that a view shows stay occupied as long as the view lives: see `PoolMember.lifetime`. O(tensors).
    """
    t = plan.allocation.tensors
    reuse = [arena.reuse for arena in plan.allocation.arenas]
    rows = zip(
        t.name,
        plan.allocation.storages.arena[t.storage].tolist(),
        t.birth.tolist(),
        t.death.tolist(),
        t.writer.tolist(),
        strict=True,
    )
    return {
        name: _time(birth, death, given=writer == NONE) for name, arena, birth, death, writer in rows if reuse[arena]
    }


def _time(birth: int, death: int, *, given: bool) -> Lifetime:
    return 0 if given else birth + 1, death + 1
