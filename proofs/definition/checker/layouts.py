"""Decide whether slots have addresses: they have if the layout gives them and the plan claims slots.

In every other plan a storage may be at any offset of its arena, whichever slot it occupies. spec: A1.2, A2.3, A8.6
"""

from __future__ import annotations

from tmmu.plans.sections import Plan

BY_SLOTS = ("slots", "hashed")
"""Layouts that put each storage at the beginning of its slot. No two slots have a byte in common at any step."""
SCATTERED = ("hashed",)
"""Layouts whose reused arenas have addresses over all 64 bits, backed by only the bytes of their slots."""


def by_slots(plan: Plan) -> bool:
    """Whether each storage begins where its slot does.

    The gate requires claims of slots with such provenance (P2.2).
    """
    return plan.provenance is not None and plan.provenance.layout in BY_SLOTS
