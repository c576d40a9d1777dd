"""What the installed kernel says of a plan, in the fields of the JSON output. spec: V6.1, V6.2, V6.5"""

from __future__ import annotations

from typing import Any

from proofs.kernel import installed, program
from proofs.readers.sharing import Permissions
from tmmu.plan.gate import Stated, StatedBuffers
from tmmu.plan.sections import BufferPlan, Plan

NOT_INSTALLED = "not installed"
NOT_ASKED = "not asked"
"""The kernel has no entry yet for lifetimes without accesses, nor for plans that do not claim slots."""


def opinion(
    stated: Stated | StatedBuffers, permissions: Permissions | None, donated: frozenset[str], timeout_s: float
) -> dict[str, Any]:
    """The kernel's word on a plan that passed the gate, for the steps that it states.

    `said` is yes, no, nothing, `NOT_ASKED` or `NOT_INSTALLED`, with `reason` where it is no or nothing, and `sources`
    the digest of the theory. `fewest_slots` and `least_footprint` name the arenas of which it has shown that no fewer
    slots, and no fewer bytes, would do. A plan that claims the former of an arena where the kernel cannot show it gets
    a no.
    """
    found: dict[str, Any] = {"said": NOT_INSTALLED, "sources": installed.digest()}
    path, plan = installed.program(), stated.plan
    if path is None:
        return found
    if permissions is None or isinstance(plan, BufferPlan) or not _complete(plan):
        return {**found, "said": NOT_ASKED}
    answer = program.ask(path, plan, permissions, donated, stated.hashes["file_digest"], timeout_s)
    found["said"] = "yes" if answer.yes else "no" if answer.no else "nothing"
    reason = answer.part or answer.failure
    used = [(arena.name, usage) for arena, usage in zip(plan.allocation.arenas, plan.usage, strict=True)]
    if answer.yes:
        for what, holds in (("fewest_slots", answer.fewest_slots), ("least_footprint", answer.least_footprint)):
            found[what] = [name for (name, usage), true in zip(used, holds, strict=True) if usage.slots and true]
        unshown = [name for name, u in used if u.slots and u.minimal and name not in found["fewest_slots"]]
        if unshown:
            found["said"], reason = "no", f"fewest_slots of {unshown[0]}"
    return {**found, **({"reason": reason} if reason else {})}


def _complete(plan: Plan) -> bool:
    """Whether a plan claims what the kernel's words hold of every arena."""
    if plan.claims is None or plan.claims.slots is None:
        return False
    return all(value is not None for usage in plan.claims.usage for value in usage)
