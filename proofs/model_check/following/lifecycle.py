"""Extract a whole run, for PlanLifecycle: from the first plan on, through every process that continued it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proofs.model_check.following.lines import Path
from proofs.model_check.following.log import Event

MODULE = "PlanLifecycle"
CHECKPOINT = {"written": "WriteAside", "synced": "Sync", "renamed": "Rename"}


def paths(events: Sequence[Event]) -> Iterator[Path]:
    """Yield one path, if the log has any event of it. The module ends when a checkpoint is refused."""
    path = Path(MODULE, "the run", events[0].line if events else 1)
    plans: dict[str, int] = {}
    for event in events:
        for key in ("plan_hash", "old_plan_hash", "new_plan_hash"):
            if event.kind in ("asked", "restored", "replan") and key in event.fields:
                plans.setdefault(event.fields[key], len(plans) + 1)
    spare = len(plans) + 1
    is_down, has_begun, current = True, False, 0
    former = 0  # the plan that stands by while a new one is applied
    has_asked = False  # whether the caller asked for the shape that a new plan is made for
    for event in events:
        fields = event.fields
        if event.kind == "failed" and former:
            path.add(event.line, "StandBy", plan=former)
            current, former, has_asked = former, 0, False
        elif event.kind in ("start", "closed", "failed") and not is_down:
            path.add(event.line, "Crash")
            is_down, former, has_asked = True, 0, False
        elif event.kind == "replan":
            former, current = plans[fields["old_plan_hash"]], plans[fields["new_plan_hash"]]
            path.add(event.line, "Ask", shape=current)
            path.add(event.line, "Replan", old=former, plan=current, t=fields["t"])
            has_begun, has_asked = False, True
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
            has_begun, former = False, 0
        elif event.kind == "begun":
            if not has_asked:
                path.add(event.line, "Ask", shape=current)
            path.add(event.line, "Begin", t=fields["t"])
            has_begun, has_asked = True, False
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
    path.given = {"policy": '"REPLAN_AT_SAFEPOINT"' if "Replan" in counts else '"ABORT"'}
    if path.lines:
        yield path
