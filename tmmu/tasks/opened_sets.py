"""Open a plan set to run or show it: its manifest and the plans that the manifest lists. spec: PS2.1, PS2.3, PS4.2

Whether the set is right is not looked at: `verify-plan` does that. A plan that is missing, or is not the one that the
manifest lists, is refused.
"""

from __future__ import annotations

import os
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
    """Read a set. Raises INVALID_PLAN, and REPLAY_DIVERGENCE for a plan that is not the manifest's."""
    manifest = sets.load(folder)
    plans = {}
    for name in manifest.agreement.programs:
        path = sets.plan_path(folder, name)
        if not os.path.isfile(path):
            raise TmmuError(
                "INVALID_PLAN", f"the plan of the program {name!r} is missing", file=path, fix="plan the set again"
            )
        stated = file.load(path)
        differences = [*file.find_false_hashes(stated)]
        if (found := stated.hashes["file_digest"]) != (listed := manifest.members[name]):
            differences.append(("file_digest", found, listed))
        if stated.plan.membership != manifest.membership(name):
            found = b"" if stated.plan.membership is None else stated.plan.membership.digest
            differences.append(("set", found, manifest.agreement.digest))
        for place, found, expected in differences:
            raise TmmuError(
                "REPLAY_DIVERGENCE",
                f"the plan states {found.hex()[:16] or 'nothing'}, the set expects {expected.hex()[:16]}",
                file=path, place=place, fix="plan the set again; verify-plan names what differs",
                operator="UML_OS.TMMU.ApplyPlan_v1", expected=expected, found=found,
            )  # fmt: skip
        plans[name] = stated.plan
    return OpenedSet(folder, manifest, plans)
