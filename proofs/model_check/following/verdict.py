"""Decide whether TLC took every line of a path for a step of its module. Exit code 0 does not suffice.

A path is accepted only with TLC's message of success, and exactly one state more than lines, one behind the other.
Without a first state, with several, with a follower that leaves a choice, or without the check for deadlock, the number
would differ. A path is rejected at the line where TLC stops: either it has no successor, so that the line is not a step
of the module, or a check fails after it. Any other end decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from proofs.model_check import judge
from proofs.model_check.following.generate import STEPS
from proofs.model_check.following.lines import Line, Path
from proofs.model_check.following.log import Event
from proofs.model_check.judge import RunResult
from proofs.model_check.manifest import Run
from proofs.model_check.tlc import TLCOutcome
from tmmu.core.output import format_json

NOT_A_STEP = "Step"
"""The name of the check that fails if a line is not a step of the module."""


def judge_path(name: str, path: Path, events: Sequence[Event], run: Run, outcome: TLCOutcome) -> RunResult:
    """Return the result for one path of the log `name`.

    `violated` names the check, and the objections begin with the line.
    """
    report = outcome.report
    found: str | None = None
    objections = list(judge.find_reasons_for_distrust(run, outcome))
    if not objections:
        if judge.is_success(outcome):
            objections += _counted(run, outcome)
        else:
            at, found = _stopped(path, outcome)
            if found is None or at is None:
                found = None
                objections.append(f"no answer: {judge.describe_end(outcome, None)[:300]}")
            else:
                objections.append(_described(path, at, found, events, report.printed))
    checks = (NOT_A_STEP, *(check.removeprefix("After") for check in (*run.config.invariants, *run.config.properties)))
    return RunResult(
        f"{name}: {path.module}, {path.subject}", path.module, "followed", checks, run.expected, found, not objections,
        report.distinct_states, report.depth, round(outcome.seconds, 2), tuple(objections), (),
    )  # fmt: skip


def _counted(run: Run, outcome: TLCOutcome) -> Iterator[str]:
    for what in ("distinct_states", "depth"):
        due, counted = getattr(run, what), getattr(outcome.report, what)
        if counted != due:
            yield f"no answer: {what.replace('_', ' ')} {counted}, expected {due}, one a line and the first"


def _stopped(path: Path, outcome: TLCOutcome) -> tuple[Line | None, str | None]:
    """Return the line at which TLC stopped, and the check that failed there."""
    last = outcome.report.states[-1].values.get("line", "") if outcome.report.states else ""
    if not last.isdecimal():
        return None, None
    to_come = int(last) - 1  # the index of the next line in the last state
    if outcome.exit == judge.DEADLOCK_EXIT:
        lines = [*path.lines, *([path.end] if path.end is not None else [])]
        return (lines[to_come], NOT_A_STEP) if to_come < len(lines) else (None, None)
    failed = outcome.report.invariant
    if outcome.exit == judge.PROPERTY_EXIT:
        failed = STEPS
    elif outcome.exit != judge.INVARIANT_EXIT or failed is None:
        return None, None
    done = path.lines[to_come - 1] if to_come > 0 else Line(path.first, "the beginning", "")
    return done, failed.removeprefix("After")


def _described(path: Path, at: Line, failed: str, events: Sequence[Event], printed: str) -> str:
    """Return one line for readers: the line of the log, its event, and the steps that the module allows there."""
    by_line = {event.line: event for event in events}
    event = by_line[at.source]
    shown = format_json({"event": event.kind, **event.fields}, indent=None)
    shown = shown if len(shown) <= 160 else shown[:159] + "…"
    if failed != NOT_A_STEP:
        return f"line {at.source}: after {at.action}, {failed} of {path.module} is violated; {shown}"
    words = re.search(r'<<\s*"allowed",\s*\{([^}]*)\}', printed)
    allowed = ", ".join(re.findall(r"\w+", words[1])) if words else ""
    if at is path.end:
        return f"line {at.source}: {path.module} does not end so; {shown}"
    expected = f" (it allows {allowed})" if words and allowed else " (no step is allowed)" if words else ""
    return f"line {at.source}: {at.action} is not a step of {path.module} here{expected}; {shown}"
