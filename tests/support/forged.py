"""Every copy of an event log with one change, and those that `check-models --follow` accepts all the same.

A change is a line that is dropped, written twice or swapped with the next, or one field of one line, and in lists one
number, that has another value. The readers refuse most of them. TLC gets the others: all changed paths of one module
and the same constants in one run, which prints the copies that come to their end. These are few, and each is then
followed by itself, as the command does.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path as File
from typing import Any, NamedTuple

from proofs.model_check import tlc
from proofs.model_check.config import Config
from proofs.model_check.following import follow, log, plans, together
from proofs.model_check.following.generate import ROOT, make_run
from proofs.model_check.following.lines import Path
from proofs.model_check.following.log import Event, WrongLog
from proofs.model_check.manifest import Run
from tests.support.followed import TLA
from tests.support.miswritten import edited

MOST_LINES = 40_000
"""The most lines of copies in one run of TLC."""


class Forgery(NamedTuple):
    """A copy of a log: what was changed, and its text."""

    change: str
    text: str


def forgeries(text: str) -> Iterator[Forgery]:
    """Yield every copy of a log with one change. The first line is left alone: a log begins with it."""
    lines = text.splitlines(True)
    for change, copy in edited(text):
        if list(map(json.loads, copy.splitlines())) != list(map(json.loads, lines)):
            yield Forgery(change.replace("line ", "", 1), copy)
    for at in range(1, len(lines)):
        kind = json.loads(lines[at])["event"]
        yield Forgery(f"{at + 1}: {kind} dropped", "".join([*lines[:at], *lines[at + 1 :]]))
        if at + 1 < len(lines) and lines[at] != lines[at + 1]:
            other = json.loads(lines[at + 1])["event"]
            swapped = [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]]
            yield Forgery(f"{at + 1}: {kind} and {other} swapped", "".join(swapped))
        for field, place, event in _inner(json.loads(lines[at])):
            rest = [*lines[:at], json.dumps(event) + "\n", *lines[at + 1 :]]
            yield Forgery(f"{at + 1}: {field} of {kind}, at {place}", "".join(rest))


def _inner(event: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the event with one value in a list changed."""
    for field, value in event.items():
        for place, other in _changed(value) if isinstance(value, list) else ():
            yield field, place, {**event, field: other}


def _changed(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        for k, each in enumerate(value):
            for place, other in _changed(each):
                yield f"{k} {place}".strip(), [*value[:k], other, *value[k + 1 :]]
    elif isinstance(value, bool):
        yield "", not value
    elif isinstance(value, int):
        yield "up", value + 1
        yield "down", value - 1
    elif isinstance(value, str):
        yield "", value + "x"


def read(text: str) -> tuple[list[Event], list[Path]]:
    """Return the events and the paths of a log's text, as `follow.read_log` does. Raises `WrongLog`."""
    events = list(log.parse(text.encode()))
    together.check_events(events)
    plans.check_storages(events)
    return events, [path for reader in follow.READERS for path in reader.paths(events)]


def accepted(file: File, tools: tuple[str, File], forged: Sequence[Forgery]) -> list[str]:
    """Return the changes of those copies of a log that the command accepts."""
    _, before = read(file.read_text())
    known = [content(path) for path in before]
    found, open_ = list[str](), list[tuple[Forgery, list[Path]]]()
    for one in forged:
        try:
            _, paths = read(one.text)
        except WrongLog:
            continue
        new = [path for path in paths if content(path) not in known]
        if not any(path.lines for path in paths):
            continue  # nothing is followed, which is refused
        if new:
            open_.append((one, new))
        else:
            found.append(one.change)
    refused = _refused([(number, path) for number, (_, paths) in enumerate(open_) for path in paths], tools)
    for number, (one, paths) in enumerate(open_):
        if number not in refused:
            copy = file.with_suffix(".forged")
            copy.write_text(one.text)
            events, _ = read(one.text)
            results = follow.validate_logs([(copy, events, paths)], *tools, timeout_s=300, workers=1)
            if all(result.as_expected for result in results):
                found.append(one.change)
    return found


def content(path: Path) -> tuple[Any, ...]:
    """Return the content of a path that TLC reads: all but the numbers of its lines."""
    records = tuple(line.record for line in path.lines)
    return path.module, path.constants, path.given, records, path.end and path.end.record


def _refused(copies: Sequence[tuple[int, Path]], tools: tuple[str, File]) -> set[int]:
    """Return the forgeries of which TLC stops at a line, or does not accept the end, of a changed path."""
    groups: dict[tuple[Any, ...], list[tuple[int, Path]]] = {}
    for number, path in copies:
        shape = path.module, tuple(path.constants.items()), tuple(path.given)
        groups.setdefault(shape, []).append((number, path))
    found = set[int]()
    for group in groups.values():
        part = list[tuple[int, Path]]()
        for each in group:
            part.append(each)
            if sum(len(path.lines) for _, path in part) > MOST_LINES:
                found |= _stopped(part, tools)
                part = []
        found |= _stopped(part, tools) if part else set()
    return found


def _stopped(copies: Sequence[tuple[int, Path]], tools: tuple[str, File]) -> set[int]:
    outcome = tlc.run_tlc(_run_of([path for _, path in copies]), *tools, timeout_s=600)
    ended = {int(number) for number in re.findall(r'<<\s*"ended",\s*(\d+)', outcome.report.printed)}
    if outcome.exit != 0:
        return set()  # no answer: each is followed by itself
    return {number for k, (number, _) in enumerate(copies, 1) if k not in ended}


def _run_of(paths: Sequence[Path]) -> Run:
    """Return a run that takes each path as far as it goes, and prints the numbers of those that end as they state."""
    run = make_run(paths[0], TLA)
    follower, (_, text) = run.files
    names = sorted({line.record for path in paths for line in path.lines})
    number = {record: n for n, record in enumerate(names, 1)}
    rows = ",\n".join("  <<" + ", ".join(str(number[line.record]) for line in path.lines) + ">>" for path in paths)
    ends = ",\n".join("  <<>>" if path.end is None else f"  <<{path.end.record}>>" for path in paths)
    states = "".join(
        f"{name}OfCopy == <<\n" + ",\n".join(f"  {path.given[name]}" for path in paths) + "\n>>\n"
        for name in paths[0].given
    )
    given = "".join(f"            /\\ {name} = {name}OfCopy[copy]\n" for name in paths[0].given)
    text = (
        text[: text.index("LogLines ==")]
        + "Interned == <<\n" + ",\n".join(f"  {record}" for record in names) + "\n>>\n"
        + f"""Forged == <<
{rows}
>>
Endings == <<
{ends}
>>
{states}VARIABLE copy
CopyInit == /\\ copy \\in 1..{len(paths)}
            /\\ line = 1
{given}            /\\ FollowInit
CopyStep == /\\ line <= Len(Forged[copy])
            /\\ Follow(Interned[Forged[copy][line]])
            /\\ line' = line + 1
            /\\ UNCHANGED copy
CopyEnd == /\\ line = Len(Forged[copy]) + 1
           /\\ \\A k \\in 1..Len(Endings[copy]) : Ends(Endings[copy][k])
           /\\ PrintT(<<"ended", copy>>)
           /\\ line' = line + 1
           /\\ UNCHANGED <<state, copy>>
CopySpec == CopyInit /\\ [][CopyStep \\/ CopyEnd]_<<state, line, copy>>
====
"""
    )  # fmt: skip
    return dataclasses.replace(
        run, name=f"{paths[0].module} forged", config=Config("CopySpec", run.config.constants, (), ()),
        files=(follower, (f"{ROOT}.tla", text)),
    )  # fmt: skip
