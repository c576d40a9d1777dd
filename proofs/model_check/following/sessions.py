"""Extract sessions on one device, for Sessions: one path for all sessions of a process.

No line shows the commands that others submit to the device, but the numbers of the sessions' own commands do. A session
that fails after all its buffers are made is recognised by its next events. spec: FD9.6
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from proofs.model_check.following.lines import Path, format_value
from proofs.model_check.following.log import Event, WrongLog

MODULE = "Sessions"
ACTIONS = {
    "session open": "Open", "buffer made": "Make", "buffer refused": "CannotMake", "buffer given back": "GiveBack",
    "session failed": "Failed", "weight staged": "Stage", "weight copy submitted": "SubmitCopy",
    "weight copied": "Copied", "session started": "Start", "pass submitted": "SubmitPass",
    "pass completed": "Computed", "logits submitted": "SubmitLogits", "logits copied": "Written", "sampled": "Sample",
    "session closed": "EndSession",
}  # fmt: skip
NOT_FOLLOWED = ("rows", "token")
"""Fields that the module does not have. `together` compares the rows with the cache."""


@dataclass
class _Session:
    """The state of a session so far.

    It has its number in the module, its buffers and weights, and the session whose weights it uses.
    """

    number: int
    buffers: list[str]
    source: int
    weights: list[str] = field(default_factory=list)
    most: int = 0
    is_failing: bool = False


def paths(events: Sequence[Event]) -> Iterator[Path]:
    """Yield a path for each process that has sessions: another process has another device."""
    begin = 0
    for at, event in enumerate([*events, None]):
        if event is None or event.kind == "start":
            yield from _of_process(events[begin:at])
            begin = at


def _of_process(events: Sequence[Event]) -> Iterator[Path]:
    path: Path | None = None
    sessions: dict[int, _Session] = {}
    submitted = completed = before = steps = others = refusals = 0
    for event in events:
        if event.kind not in ACTIONS:
            continue
        about = {key: found for key, found in event.fields.items() if key not in NOT_FOLLOWED}
        path = path or Path(MODULE, "the sessions of a device", event.line, folder="foundry")
        session = _session(event, sessions)
        about["session"] = session.number
        if event.kind in ("buffer refused", "buffer given back", "session failed") and not session.is_failing:
            session.is_failing, refusals = True, refusals + 1
            if event.kind != "buffer refused":
                path.add(event.line, "CannotLoad", session=session.number)
        if "submitted" in about:
            if not submitted:
                submitted = completed = before = max(0, about["submitted"] - 1)
            for number in range(submitted + 1, about["submitted"]):
                path.add(event.line, "SubmitOther", submitted=number)
            others += max(0, about["submitted"] - submitted - 1)
            submitted = about["submitted"]
        if "completed" in about:
            for number in range(completed + 1, about["completed"]):
                path.add(event.line, "OtherEnded", completed=number)
            completed = about["completed"]
        steps = max(steps, about.get("step", 0))
        _number(event, about, session)
        path.add(event.line, ACTIONS[event.kind], **about)
    if path is not None:
        _state(path, list(sessions.values()), before, steps, others, refusals)
        yield path


def _session(event: Event, sessions: dict[int, _Session]) -> _Session:
    """Return the session of a line. A session that opens begins anew."""
    name = event.fields["session"]
    if event.kind != "session open":
        if name not in sessions:
            raise WrongLog(event.line, f"session {name} was not opened")
        return sessions[name]
    buffers = event.fields["buffers"]
    if not buffers or len(set(buffers)) != len(buffers):
        raise WrongLog(event.line, f"session {name} has no buffers, or two of one name")
    if name not in sessions:
        brought = [each.number for each in sessions.values() if each.most]
        number = len(sessions) + 1
        sessions[name] = _Session(number, buffers, brought[-1] if brought else number)
    found = sessions[name]
    if found.buffers != buffers:
        raise WrongLog(event.line, f"session {name} had other buffers when it was opened before")
    found.is_failing = False
    return found


def _number(event: Event, about: dict[str, Any], session: _Session) -> None:
    """Replace names by numbers."""
    if event.kind == "session open":
        about["buffers"] = len(session.buffers)
    if "buffer" in about:
        if about["buffer"] not in session.buffers:
            raise WrongLog(event.line, f"{about['buffer']!r} is not a buffer of the session")
        about["buffer"] = session.buffers.index(about["buffer"]) + 1
    if event.kind == "weight staged":
        if about["number"] == 1:
            session.weights.clear()
        if about["weight"] in session.weights:
            raise WrongLog(event.line, f"the weight {about['weight']!r} is staged twice")
        session.weights.append(about["weight"])
        session.most, session.source = max(session.most, len(session.weights)), session.number
    if "weight" in about:
        if about["weight"] not in session.weights:
            raise WrongLog(event.line, f"the weight {about['weight']!r} was not staged")
        about["weight"] = session.weights.index(about["weight"]) + 1


def _state(path: Path, sessions: list[_Session], before: int, steps: int, others: int, refusals: int) -> None:
    """Set the constants of the module, and the variables that it leaves open."""
    buffers, weights = [len(each.buffers) for each in sessions], [each.most for each in sessions]
    path.constants = {
        "Sessions": str(len(sessions)), "Buffers": str(max(buffers)), "Weights": str(max(weights)),
        "Steps": format_value(steps + 1, path.first), "Refusals": str(refusals),
        "Others": format_value(others, path.first),
    }  # fmt: skip
    path.given = {
        "buffers": format_value(buffers), "weights": format_value(weights),
        "source": format_value([each.source for each in sessions]),
        "completed": format_value(before, path.first),
    }  # fmt: skip
