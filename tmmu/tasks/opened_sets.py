"""Open a plan set to run or apply it: its manifest, and plans that are those of the manifest. spec: PS4.2, U9.3

Whether the set is right is not looked at: `verify-plan` does that.
"""

from __future__ import annotations

from dataclasses import dataclass

from tmmu.core.errors import TmmuError
from tmmu.plans import file, sets
from tmmu.plans.sections import Plan
from tmmu.plans.sets import PlanSet


@dataclass(frozen=True)
class OpenedSet:
    """A set whose plans are those of its manifest."""

    folder: str
    manifest: PlanSet
    plans: dict[str, Plan]

    @property
    def paths(self) -> dict[str, str]:
        """The file of each plan."""
        return {name: sets.plan_path(self.folder, name) for name in self.plans}


def open_set(folder: str) -> OpenedSet:
    """Read a set. Raises INVALID_PLAN, and REPLAY_DIVERGENCE for a plan with another digest than the manifest states.

    O(bytes of the plans).
    """
    manifest = sets.load(folder)
    plans = sets.load_plans(folder, manifest)
    for name in plans:
        path = sets.plan_path(folder, name)
        stated = file.load(path)
        differences = [*file.find_false_hashes(stated)]
        if stated.hashes["file_digest"] != manifest.members[name]:
            differences.append(("file_digest", stated.hashes["file_digest"], manifest.members[name]))
        for place, found, expected in differences:
            raise TmmuError(
                "REPLAY_DIVERGENCE", f"the plan states {found.hex()[:16]}…, expected {expected.hex()[:16]}…",
                file=path, place=place, fix="plan the set again; `verify-plan` reports what is wrong with it",
                operator="UML_OS.TMMU.ApplyPlan_v1", expected=expected, found=found,
            )  # fmt: skip
    return OpenedSet(folder, manifest, plans)
