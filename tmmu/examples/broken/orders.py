"""Plans that state the order `memory` but whose order no model allows. spec: O1.6, V3.4"""

from __future__ import annotations

from tmmu.examples.broken.editing import edit, laid_out, reordered, right
from tmmu.examples.broken.kinds import wrong
from tmmu.examples.broken.models import skip
from tmmu.plans.sections import Plan


@wrong("lifetimes_cover_accesses", "d")
def memory_order_against_an_edge() -> Plan:
    """In the order `memory`, the step that reads `d` precedes the step that makes it."""
    plan = reordered(right(skip(), order="memory"), (0, 1, 2, 4, 3))
    return laid_out(edit(plan, tensors={"d": {"writer": 4, "birth": 3, "death": 4}, "y": {"writer": 3, "birth": 3}}))
