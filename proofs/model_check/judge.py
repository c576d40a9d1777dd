"""Decide whether a run ended as the manifest expects. TLC's exit code does not suffice.

A success counts only with TLC's message of it, at least one initial state (trap 6), every action taken, the pinned
numbers of states, no warning (trap 9), and modules that came from the run's own folder (trap 2). A twin that keeps a
non-property succeeds with any number of states. A violation counts
only if it is of the named check, which is then the only one that was checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from proofs.model_check import messages
from proofs.model_check.config import DEADLOCK
from proofs.model_check.manifest import SUCCESS, Run
from proofs.model_check.tlc import MEANING, TLCOutcome

INVARIANT_EXIT, PROPERTY_EXIT, DEADLOCK_EXIT = 12, 13, 11


@dataclass(frozen=True)
class RunResult:
    """A run with its verdict. `violated` is the violated check, or None if there is none or it cannot be named."""

    name: str
    module: str
    kind: str
    checks: tuple[str, ...]
    expected: str
    violated: str | None
    as_expected: bool
    distinct_states: int | None
    depth: int | None
    seconds: float
    objections: tuple[str, ...]
    trace: tuple[str, ...]


def judge(run: Run, outcome: TLCOutcome) -> RunResult:
    """Compare the end of a run with its expected end."""
    found = violated_check(run, outcome)
    objections = tuple(_objections(run, outcome, found))
    report = outcome.report
    return RunResult(
        run.name, run.module, run.kind, run.checks, run.expected, found, not objections, report.distinct_states,
        report.depth, round(outcome.seconds, 2), objections, tuple(messages.format_trace(report)),
    )  # fmt: skip


def violated_check(run: Run, outcome: TLCOutcome) -> str | None:
    """Return the check that the run violated, if TLC names it or only one is possible."""
    if outcome.exit == INVARIANT_EXIT and outcome.report.invariant in run.config.invariants:
        return outcome.report.invariant
    if outcome.exit == DEADLOCK_EXIT and run.config.deadlock:
        return DEADLOCK
    temporal = outcome.exit in (INVARIANT_EXIT, PROPERTY_EXIT) and outcome.report.invariant not in run.config.invariants
    alone = run.config.checks == run.config.properties and len(run.config.properties) == 1
    return run.config.properties[0] if temporal and alone else None


def _objections(run: Run, outcome: TLCOutcome, found: str | None) -> Iterator[str]:
    report = outcome.report
    yield from find_reasons_for_distrust(run, outcome)
    if outcome.exit is None:
        return
    if run.expected != SUCCESS:
        if found != run.expected:
            yield f"{run.expected} should be violated; {describe_end(outcome, found)}"
        return
    if not is_success(outcome):
        yield describe_end(outcome, found)
        return
    if run.kind == "twin":
        if not report.distinct_states:
            yield "no state was found: nothing was checked"
        return  # the states of a twin are neither pinned nor covered
    if report.initial_states < 1 or not report.distinct_states:
        yield "no initial state was found: nothing was checked"
    if not report.taken:
        yield "TLC reports no action"
    for action, count in report.taken.items():
        if count == 0:
            yield f"the action {action} is never taken"
    for what in ("distinct_states", "depth"):
        pinned, counted = getattr(run, what), getattr(report, what)
        if counted != pinned:
            yield f"{what.replace('_', ' ')}: {counted} instead of {pinned}"


def is_success(outcome: TLCOutcome) -> bool:
    """Whether TLC ended with success, by its exit code and its message, and without an error."""
    return outcome.exit == 0 and outcome.report.succeeded and not outcome.report.errors


def find_reasons_for_distrust(run: Run, outcome: TLCOutcome) -> Iterator[str]:
    """Yield why the run's result cannot be trusted: it did not end, TLC warns, or it read other modules."""
    if outcome.exit is None:
        yield outcome.failure
        return
    report = outcome.report
    for warning in report.warnings:
        yield f"TLC warns: {' '.join(warning.split())}"
    here = Path(outcome.folder)
    for parsed in report.parsed:
        if here not in Path(parsed).resolve().parents:
            yield f"{parsed} was read, which is not in this run's folder"
    if here / f"{run.root}.tla" not in [Path(parsed).resolve() for parsed in report.parsed]:
        yield f"{run.root}.tla was not read"


def describe_end(outcome: TLCOutcome, found: str | None) -> str:
    """Return how the run ended, in a line."""
    if found is not None:
        return f"{found} is violated"
    if outcome.report.invariant is not None:
        return f"{outcome.report.invariant} is violated"
    meaning = MEANING.get(outcome.exit or 0, f"TLC ended with {outcome.exit}")
    reported = [" ".join(text.split()) for text in (*outcome.report.errors, outcome.failure) if text.strip()]
    return f"{meaning}{': ' + reported[0] if reported and outcome.exit else ''}"
