"""Plans put together from tables, without a planner, with every section that the planner writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tmmu.core.vocabulary import ANYWHERE, ArenaConfiguration, Bindings
from tmmu.plan.allocation import Allocation, Arena
from tmmu.plan.columns import Slots
from tmmu.plan.sections import ArenaUse, ClaimedConfiguration, Claims, Plan, Provenance, Usage


def assembled(
    arenas: Sequence[ArenaConfiguration],
    usage: Sequence[Usage],
    slots: Slots,
    *,
    model: str = "assembled",
    mode: str = "inference",
    layout: str = "slots",
    source_digest: bytes | None = None,
    bindings: Bindings | None = None,
    **allocation: Any,
) -> Plan:
    """The plan with these arenas, claims and slots; `allocation` are the other fields of its allocation."""
    places = tuple(Arena(a.name, a.capacity, a.alignment, a.reuse, layout == "hashed" and a.reuse) for a in arenas)
    uses = tuple(ArenaUse(a.roles, a.page_size, a.device, a.memory) for a in arenas)
    allocation.setdefault("must_not_alias", ())
    return Plan(
        Allocation(arenas=places, **allocation),
        Claims(tuple(usage), slots, ClaimedConfiguration(uses, ANYWHERE)),
        Provenance(model, mode, layout, "given", bytes(32), bytes(32), source_digest, bindings or Bindings()),
    )
