"""Whether slots have addresses of their own: where the layout says so and slots are claimed.

In every other plan storages lie at any offset of their arena, whatever slots they take turns in. spec: A1.2, A2.3, A8.6
"""

from __future__ import annotations

from tmmu.plans.sections import Plan

BY_SLOTS = ("slots", "hashed")
"""Layouts in which each storage begins where its slot does, and no two slots have a byte in common at any step."""
SCATTERED = ("hashed",)
"""Layouts whose reused arenas have addresses over all 64 bits, backed by as many bytes as their slots have."""


def by_slots(plan: Plan) -> bool:
    """Whether each storage begins where its slot does. (The gate asks for claims of slots beside provenance: P2.2.)"""
    return plan.provenance is not None and plan.provenance.layout in BY_SLOTS
