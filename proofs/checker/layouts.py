"""What the checker knows of layouts: whether a slot has an address of its own, and where an arena's addresses end.

A layout that is not named here is one in which storages lie at any offset below the footprint, whatever their slots.
spec: A1.2, A2.3, A2.4, A8.6
"""

from __future__ import annotations

from tmmu.core.vocabulary import UINT64_END
from tmmu.plan.columns import Plan

BY_SLOTS = ("slots", "hashed")
"""Layouts in which each storage begins where its slot does, and no two slots have a byte in common at any step."""
SCATTERED = ("hashed",)
"""Layouts whose reused arenas have addresses over all 64 bits, backed by as many bytes as their slots have."""


def scattered(plan: Plan, arena: int) -> bool:
    """Whether an arena's addresses are not offsets into it."""
    return plan.layout in SCATTERED and plan.arenas[arena].reuse


def end_of_addresses(plan: Plan, arena: int) -> int:
    """The byte at or before which every storage of an arena must end."""
    return UINT64_END if scattered(plan, arena) else plan.usage[arena].footprint
