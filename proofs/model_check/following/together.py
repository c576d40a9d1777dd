"""Check what the events of one run say of each other, beyond the module that each belongs to.

A session and its cache are followed through two modules, and a plan is made by one process and applied by another.
Here the lines of both are compared: each pass that a session has computed is one pass of its cache, of as many tokens,
before the session goes on; and a plan that is applied has the hash of the plan that was made with its storages. What
happens to one plan is followed through three modules, so that the order of its lines is checked here: all memory is
mapped before the plan is applied, its first commit comes before it is ready, and each later one ends a batch.
spec: FD9.8, U5.22, U5.28
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proofs.model_check.following.log import Event, WrongLog

GOES_ON = ("pass submitted", "sampled", "session closed")
"""Events of a session before which the cache must have the tokens of the pass before them."""


@dataclass
class _Passes:
    """The rows of the pass that a session submitted last, and whether it has ended and the cache has its tokens."""

    rows: int = 0
    is_due: bool = False


def check_events(events: Sequence[Event]) -> None:
    """Check the events of a log. Raises `WrongLog` at the first line that contradicts another."""
    _check_passes(events)
    _check_plans(events)
    _check_order(events)


def _check_passes(events: Sequence[Event]) -> None:
    sessions: dict[int, _Passes] = {}
    caches: set[int] = set()
    for event in events:
        if event.kind == "start":
            sessions, caches = {}, set()  # of another process
            continue
        number = event.fields.get("session")
        if number is None:
            continue
        if event.kind == "session open":
            sessions[number] = _Passes()
        elif event.kind == "cache open":
            caches.add(number)
        passes = sessions.get(number)
        if passes is None or number not in caches:
            continue  # a cache without a session, or a session whose cache is not logged
        if event.kind in GOES_ON and passes.is_due:
            raise WrongLog(
                event.line, f"session {number} goes on, but its cache did not take the {passes.rows} tokens of its pass"
            )
        if event.kind == "pass submitted":
            passes.rows = event.fields["rows"]
        elif event.kind == "pass completed":
            passes.is_due = True
        elif event.kind == "cache pass":
            _take(event, passes)


def _take(event: Event, passes: _Passes) -> None:
    """Take the tokens of a pass into a cache."""
    number, count = event.fields["session"], event.fields["count"]
    if not passes.is_due:
        raise WrongLog(event.line, f"the cache of session {number} takes {count} tokens, but no pass has ended")
    if count != passes.rows:
        raise WrongLog(
            event.line, f"the cache of session {number} takes {count} tokens, but its pass was of {passes.rows}"
        )
    passes.is_due = False


def _check_plans(events: Sequence[Event]) -> None:
    planned: dict[str, Event] = {}
    for event in events:
        fields = event.fields
        if event.kind == "planned":
            planned[fields["plan"]] = event
        elif event.kind == "asked" and not fields["is_restored"]:
            by_hash = planned.get(fields["plan_hash"])
            alike = [made for made in planned.values() if made.fields["storages"] == fields["storages"]]
            if by_hash is not None and by_hash not in alike:
                raise WrongLog(event.line, f"the plan has other storages than line {by_hash.line} made it with")
            if by_hash is None and alike:
                raise WrongLog(event.line, f"plan_hash is not that of the plan that line {alike[0].line} made")


BEFORE = {
    "mapped": ("asked",), "applied": ("asked",), "committed": ("applied", "begun"), "ready": ("committed",),
    "begun": ("ready",), "step": ("begun",), "replan": ("ready",), "closed": ("ready", "begun"),
}  # fmt: skip
"""What must have happened to the plan last, of the events that are named here. A batch that was committed leaves it
ready."""


def _check_order(events: Sequence[Event]) -> None:
    last, t, stands_by = "", 0, False
    for event in events:
        kind = event.kind
        if last not in BEFORE.get(kind, (last,)):
            raise WrongLog(event.line, f"{kind!r}, but {f'the last was {last!r}' if last else 'no plan was applied'}")
        if kind == "ready" and event.fields["t"] != t:
            raise WrongLog(event.line, f"t is {event.fields['t']}, but {t} was committed")
        if kind == "committed":
            last, t = "ready" if last == "begun" else kind, event.fields["t"]
        elif kind in ("asked", "applied", "ready", "begun"):
            last = kind
        elif kind in ("start", "closed", "failed"):
            last = "ready" if kind == "failed" and stands_by else ""
        if kind in ("replan", "ready", "start", "closed", "failed"):
            stands_by = kind == "replan"
