"""Every line of a path, miswritten: what TLC must refuse at exactly that line, in one run for a whole path.

A copy of a path is its lines up to one, and in that one's place a record that the module does not allow there. A
variable says which copy is followed. TLC has as many states as all copies have good lines, and one for each, exactly if
each copy stops at its bad line: not before it, and not after it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path as File
from typing import Any

from proofs.model_check.config import Config
from proofs.model_check.following.generate import ROOT, make_run
from proofs.model_check.following.lines import Line, Path
from proofs.model_check.manifest import Run

UNSEEN = {"Load", "Write", "Ask", "Damage", "RestoreDamaged"}
"""Lines that the log's reader puts in, or that say what the world did: any value may be right."""

FREE = {
    ("Plan", "plan"), ("Restore", ""), ("Pass", "session"), ("Pass", "count"), ("End", "session"),
    ("Truncate", "session"), ("Truncate", "length"),
    ("Lack", "bytes"), ("Lease", "handle"), ("Return", "handle"), ("Refuse", "handle"),
    ("Open", "session"), ("EndSession", "session"),
    ("AskRegion", "region"), ("AskRegion", "count"), ("Limit", "pages"), ("Evict", "region"), ("Evict", "tile"),
    ("Relieve", "region"), ("Relieve", "tile"), ("Pin", "region"), ("Pin", "tile"), ("Pin", "page"),
    ("Unpin", "region"), ("Unpin", "tile"), ("Unpin", "page"), ("Touch", "page"), ("Attend", "page"),
    ("Attend", "weight"), ("Drop", "page"),
    ("Segment", "length"), ("Store", "length"), ("Trailer", "length"), ("Open", "isNew"), ("Crash", "size"),
    ("Replace", "end"), ("Call", "program"),
}  # fmt: skip
"""Values that the module leaves open where they are said; a later line would contradict them."""

REPEATED = {"Sample", "Attend", "SyncLog", "SyncFolder", "Close", "Fail", "ReadBack", "AcknowledgeNext", "Access"}
"""Actions that may be taken again at once: a step of several tokens is sampled for each, attention stays, and what is
synced is synced again."""

IN_ANY_ORDER = {"Expire": "Advance", "Unmap": "Refuse", "Bear": "Proceed"}
"""Actions of which several may come in any order, and the action before the first of them."""


def records(path: Path) -> Iterator[tuple[int, str]]:
    """Pairs of a line's index and a record that is wrong there."""
    for at, line in enumerate(path.lines):
        for wrong in _values(line):
            if wrong not in _together(path, at):
                yield at, wrong
        if at and path.lines[at - 1].action not in REPEATED:
            yield at, path.lines[at - 1].record  # the line before it, written twice


def _values(line: Line) -> Iterator[str]:
    """The record with one number one more or less, or one truth value turned."""
    if line.action in UNSEEN:
        return
    pairs = [part.split(" |-> ") for part in line.record.strip("[]").split(", ") if " |-> " in part]
    for name, value in pairs:
        others = {"TRUE": ["FALSE"], "FALSE": ["TRUE"]}.get(value)
        if others is None:
            others = [str(int(value) + 1), str(int(value) - 1)] if value.lstrip("-").isdecimal() else []
        if (line.action, name) in FREE:
            continue
        yield from (line.record.replace(f"{name} |-> {value}", f"{name} |-> {other}") for other in others)


def _together(path: Path, at: int) -> set[str]:
    """The records of the lines that might as well stand where line `at` does."""
    if path.lines[at].action == "Map" and "Arenas" in path.constants:  # any arena that is not mapped yet
        rest = {f'[action |-> "Map", arena |-> {n}]' for n in path.constants["Arenas"].strip("{}").split(", ")}
        return rest - {line.record for line in path.lines[:at]}
    before = IN_ANY_ORDER.get(path.lines[at].action)
    if before is None:
        return set()
    first = next((k for k in range(at, -1, -1) if path.lines[k].action in (before, "Begin")), 0)
    end = next((k for k in range(at, len(path.lines)) if path.lines[k].action in (before, "End")), len(path.lines))
    return {line.record for line in path.lines[first:end]}


def run_of_all(path: Path, tla: File) -> Run:
    """The run that succeeds with its pinned number of states exactly if each miswritten line is refused there."""
    run = make_run(path, tla)
    wrong = list(records(path))
    follower, (_, text) = run.files
    given = "".join(f"            /\\ {variable} = {value}\n" for variable, value in path.given.items())
    bad = ",\n".join(f"  [at |-> {at + 1}, record |-> {record}]" for at, record in wrong)
    text = (
        text[: text.index("LogEnd ==")]
        + f"""Bad == <<
{bad}
>>
VARIABLE copy
CopyInit == /\\ copy \\in 1..{len(wrong)}
            /\\ line = 1
{given}            /\\ FollowInit
CopyStep == /\\ line <= Bad[copy].at
            /\\ Follow(IF line = Bad[copy].at THEN Bad[copy].record ELSE LogLines[line])
            /\\ line' = line + 1
            /\\ UNCHANGED copy
CopySpec == CopyInit /\\ [][CopyStep]_<<state, line, copy>>
StopsThere == line <= Bad[copy].at
====
"""
    )
    return dataclasses.replace(
        run,
        name=f"{path.module} miswritten",
        config=Config("CopySpec", run.config.constants, ("StopsThere",), ()),
        distinct_states=sum(at + 1 for at, _ in wrong),
        depth=max(at + 1 for at, _ in wrong),
        files=(follower, (f"{ROOT}.tla", text)),
    )


def edited(data: str) -> Iterator[tuple[str, str]]:
    """Every copy of an event log with one field of one line changed, or one line twice, and what was done."""
    lines = data.splitlines(True)
    for at, line in enumerate(lines[1:], 1):
        event = json.loads(line)
        for field, value in event.items():
            for other in _others(value):
                rest = [*lines[:at], json.dumps({**event, field: other}) + "\n", *lines[at + 1 :]]
                yield f"line {at + 1}: {field} of {event['event']}: {value} becomes {other}", "".join(rest)
        yield f"line {at + 1}: {event['event']} twice", "".join([*lines[:at], line, *lines[at:]])


def _others(value: Any) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1)
    elif isinstance(value, str):
        yield value + "x"
    elif isinstance(value, list):
        yield from (value[1:], [*value, *(value[-1:] or [1])])


def run_of_copies(copies: Sequence[Path], tla: File) -> Run:
    """The run in which TLC takes each copy as far as it goes, and which fails where one goes to its end.

    All are of one module; a number that bounds a constant is the largest of any copy.
    """
    names = sorted({line.record for path in copies for line in path.lines})
    number = {record: n for n, record in enumerate(names, 1)}
    constants = {
        key: str(max(int(path.constants[key]) for path in copies)) if value.isdecimal() else value
        for key, value in copies[0].constants.items()
    }
    run = make_run(dataclasses.replace(copies[0], constants=constants), tla)
    follower, (_, text) = run.files
    rows = ",\n".join("  <<" + ", ".join(str(number[line.record]) for line in path.lines) + ">>" for path in copies)
    given = "".join(f"            /\\ {variable} = {value}\n" for variable, value in copies[0].given.items())
    text = (
        text[: text.index("LogLines ==")]
        + "Interned == <<\n" + ",\n".join(f"  {record}" for record in names) + "\n>>\n"
        + f"""Edited == <<
{rows}
>>
VARIABLE copy
CopyInit == /\\ copy \\in 1..{len(copies)}
            /\\ line = 1
{given}            /\\ FollowInit
CopyStep == /\\ line <= Len(Edited[copy])
            /\\ Follow(Interned[Edited[copy][line]])
            /\\ line' = line + 1
            /\\ UNCHANGED copy
CopySpec == CopyInit /\\ [][CopyStep]_<<state, line, copy>>
StopsBefore == line <= Len(Edited[copy])
====
"""
    )  # fmt: skip
    return dataclasses.replace(
        run,
        name=f"{copies[0].module} edited",
        config=Config("CopySpec", run.config.constants, ("StopsBefore",), ()),
        files=(follower, (f"{ROOT}.tla", text)),
    )
