"""Every line of a path, miswritten: what TLC must refuse at exactly that line, in one run for a whole path.

A copy of a path is its lines up to one, and in that one's place a record that the module does not allow there. A
variable says which copy is followed. TLC has as many states as all copies have good lines, and one for each, exactly if
each copy stops at its bad line: not before it, and not after it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path as File

from proofs.model_check.config import Config
from proofs.model_check.following.generate import ROOT, run_of
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
}  # fmt: skip
"""Values that the module leaves open where they are said; a later line would contradict them."""

REPEATED = {"Sample", "Attend"}
"""Actions that may be taken again at once: a step of several tokens is sampled for each, and attention stays."""

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
    run = run_of(path, tla)
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
