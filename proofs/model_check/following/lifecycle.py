"""A whole run, for PlanLifecycle: from the first plan on, through every process that went on with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proofs.model_check.following.lines import Path
from proofs.model_check.following.log import Event

MODULE = "PlanLifecycle"
CHECKPOINT = {"written": "WriteAside", "synced": "Sync", "renamed": "Rename"}


def paths(events: Sequence[Event]) -> Iterator[Path]:
    """One path, where the log holds anything of it; the module ends where a checkpoint is refused."""
    path = Path(MODULE, "the run", events[0].line if events else 1)
    plans: dict[str, int] = {}
    for event in events:
        if event.kind in ("asked", "restored"):
            plans.setdefault(event.fields["plan_hash"], len(plans) + 1)
    spare = len(plans) + 1
    is_down, has_begun, current = True, False, 0
    for event in events:
        fields = event.fields
        if event.kind in ("start", "closed", "failed") and not is_down:
            path.add(event.line, "Crash")
            is_down = True
        elif event.kind == "asked" and not fields["is_restored"]:
            has_begun = False
            current, is_down = plans[fields["plan_hash"]], False
            path.add(event.line, "Plan", plan=current)
        elif event.kind == "restored":
            has_begun = False
            current, is_down = plans[fields["plan_hash"]], False
            path.add(event.line, "Restore", plan=current, t=fields["t"])
        elif event.kind == "checkpoint refused":
            path.add(event.line, "RestoreDamaged")
            path.add(event.line, "RefuseDamaged")
            break
        elif event.kind == "applied":
            path.add(event.line, "Apply", plan=plans.get(fields["plan_hash"], 0))
        elif event.kind == "ready":
            path.add(event.line, "Zero", t=fields["t"])
            has_begun = False
        elif event.kind == "begun":
            path.add(event.line, "Ask", shape=current)
            path.add(event.line, "Begin", t=fields["t"])
            has_begun = True
        elif event.kind == "committed" and has_begun:
            path.add(event.line, "Finish", t=fields["t"])
            has_begun = False
        elif event.kind == "checkpoint":
            path.add(event.line, CHECKPOINT[fields["what"]], t=fields["t"])
        elif event.kind == "damaged":
            path.add(event.line, "Damage", plan=spare)
    counts: dict[str, int] = {}
    for one in path.lines:
        counts[one.action] = counts.get(one.action, 0) + 1
    path.constants = {
        "MaxShape": str(spare), "Iterations": str(counts.get("Begin", 0) + 1), "Crashes": str(counts.get("Crash", 0)),
    }  # fmt: skip
    path.given = {"policy": '"ABORT"'}
    if path.lines:
        yield path
