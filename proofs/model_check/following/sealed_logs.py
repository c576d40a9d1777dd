"""Extract sealed logs, for SealedLog: one path for each file, through every process that wrote it.

A process that is killed logs no line about it. The next opening shows it, if the earlier process writes no more. It
also shows an anchor that was renamed just before. Records that existed before the first logged opening are preceded by
a history that leads to them. A log without an anchor is left out, since the module has one. The follower compares the
number of bytes. A compaction puts a log with other records under the name. The next opening shows whether it came to
that. The new log is a path by itself. An anchor that is written over is as one that is renamed, until it is kept,
which is when it is synced. spec: MN7.1, MN10.10, MN11.6
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from proofs.model_check.following.lines import Path
from proofs.model_check.following.log import Event, WrongLog

MODULE = "SealedLog"
ACTIONS = {
    "log segment": "Segment", "log append": "Store", "log synced": "SyncLog", "log trailer": "Trailer",
    "log discarded": "Discard", "log closed": "Close", "log failed": "Fail",
}  # fmt: skip
OF_ANCHOR = {"written": "WriteAside", "synced": "SyncAside", "renamed": "Rename"}
IN_PLACE = {"overwriting": "WriteOver", "overwritten": "Overwrite", "kept": "Keep"}


@dataclass
class _Log:
    """The state of a log so far: its path, its writer, the openings that began segments, and some counts."""

    path: Path
    writer: int | None = None
    is_closed: bool = True
    is_down: bool = True
    openings: int = 0
    segments: dict[str, int] = field(default_factory=lambda: {"": 0})
    stored: int = 0
    renamed: int = 0
    acknowledged: int = 0
    crashes: int = 0
    last: int = 0
    has_anchor: bool = True
    compacted: Event | None = None


def paths(events: Sequence[Event]) -> Iterator[Path]:
    """Yield a path for each log that has an anchor."""
    mine = [event for event in events if event.kind.startswith("log ")]
    last = {(event.fields["log"], event.fields["process"]): event.line for event in mine}
    logs: dict[str, _Log] = {}
    found: list[_Log] = []
    for at, event in enumerate(mine):
        name, process = event.fields["log"], event.fields["process"]
        if event.kind == "log opened":
            if name not in logs or _is_compacted(logs[name], event):
                found.append(_Log(Path(MODULE, f"log {len(found) + 1}", event.line, folder="mnemosyne")))
                logs[name] = found[-1]
            log = logs[name]
            is_gone = log.writer is None or log.is_closed or last[name, log.writer] < event.line
            _opened(log, event, is_gone, _kept(event, mine[at + 1 :]))
        elif name not in logs or logs[name].is_closed or logs[name].writer != process:
            raise WrongLog(event.line, f"{event.kind!r} of a log that this process has not open")
        else:
            _written(logs[name], event)
    for log in found:
        log.path.constants = {
            "Modulus": "2", "Step": "3", "Most": str(max(1, log.stored)), "Crashes": str(log.crashes), "Copies": "0",
            "Rollbacks": "0",
        }  # fmt: skip
        if log.has_anchor:
            yield log.path


def _is_compacted(log: _Log, event: Event) -> bool:
    """Return whether an opening found the log that a compaction has put in the place of this one."""
    compacted = log.compacted
    if compacted is None or event.fields["segment"] != compacted.fields["segment"]:
        return False
    for name in ("records", "end"):
        if event.fields[name] != compacted.fields[name]:
            raise WrongLog(event.line, f"a compaction has left a log with another value of {name!r}")
    return True


def _kept(event: Event, rest: Sequence[Event]) -> int:
    """Return how many records an opening leaves: if it discards records, that is its first action."""
    following = (each for each in rest if each.fields["log"] == event.fields["log"])
    first = next(following, None)
    found: int = (first if first is not None and first.kind == "log discarded" else event).fields["records"]
    return found


def _opened(log: _Log, event: Event, is_gone: bool, kept: int) -> None:
    line, found, is_first = event.line, event.fields, log.writer is None
    log.has_anchor &= found["has_anchor"]
    records, anchored = found["records"], found["anchored"]
    if is_first and found["end"]:
        _before(log, event)
    if is_gone and not log.is_down:
        if anchored != log.renamed:
            log.path.add(line, "Renamed", records=anchored)
        log.path.add(
            line, "Crash", records=records, end=found["end"], size=found["size"], anchored=anchored,
            isNew=found["is_new"],
        )  # fmt: skip
        log.crashes += 1
    log.writer, log.is_closed, log.is_down, log.openings = found["process"], False, False, log.openings + 1
    log.path.add(
        line, "Open", records=records, end=found["end"], dropped=found["dropped"], size=found["size"],
        anchored=anchored, isNew=found["is_new"], segment=log.segments.get(found["segment"], -1),
    )  # fmt: skip
    for _ in range(log.acknowledged, min(kept, log.stored)):  # the module keeps acknowledged records
        log.path.add(line, "ReadBack")
    log.path.add(line, "Opened")
    log.path.add(line, "SyncFolder")
    log.renamed, log.last = anchored, log.segments.get(found["segment"], -1)


def _before(log: _Log, event: Event) -> None:
    """Add a history of one process that leads to the state at the first opening."""
    line, path, found = event.line, log.path, event.fields
    records, anchored, end = found["records"], found["anchored"], found["end"]
    path.add(line, "Open", records=0, end=0, dropped=0, size=0, anchored=0, isNew=False, segment=0)
    path.add(line, "Opened")
    path.add(line, "SyncFolder")
    log.openings, log.is_down = 1, False
    log.segments.setdefault(found["segment"], 1)
    if not records:
        path.add(line, "Segment", segment=1, first=0, offset=0, length=end)
    for number in range(max(records, anchored)):
        path.add(line, "Store", record=number + 1, segment=1, offset=0, length=end if number == records - 1 else 0)
        if number == anchored - 1:
            path.add(line, "SyncLog", records=anchored)
            for action in OF_ANCHOR.values():
                path.add(line, action, records=anchored, segment=1)
            path.add(line, "SyncFolder")
            for _ in range(anchored):
                path.add(line, "AcknowledgeNext")
    log.stored, log.renamed, log.acknowledged = max(records, anchored), anchored, anchored


def _written(log: _Log, event: Event) -> None:
    line, fields = event.line, {key: value for key, value in event.fields.items() if key not in ("log", "process")}
    if event.kind == "log segment":
        log.segments.setdefault(fields["segment"], log.openings)
    if "segment" in fields:
        fields["segment"] = log.segments.get(fields["segment"], -1)
    if event.kind == "log acknowledged":
        for _ in range(log.acknowledged + 1, fields["records"]):
            log.path.add(line, "AcknowledgeNext")
        log.path.add(line, "Acknowledge", records=fields["records"])
        log.acknowledged = fields["records"]
    elif event.kind == "log replaced":  # by rewritten records, which count as those that they replace
        if event.fields["segment"] in log.segments:
            raise WrongLog(line, "a log is replaced by a segment that it had already")
        log.segments[event.fields["segment"]] = log.last
        log.path.add(line, "Replace", records=fields["records"], end=fields["end"])
    elif event.kind == "log compacted":
        log.compacted = event
        log.path.add(line, "Compact")
    elif event.kind == "log withdrawn":
        log.path.add(line, "Withdraw", end=fields["end"], isRemoved=fields["is_removed"])
        log.crashes, log.is_down = log.crashes + 1, True
    elif event.kind == "log anchor":
        what = fields.pop("what")
        log.path.add(line, (OF_ANCHOR | IN_PLACE)[what], **fields)
        if what == "renamed":
            log.path.add(line, "SyncFolder")
        if what in ("renamed", "overwritten"):
            log.renamed = fields["records"]
    else:
        if event.kind == "log append":
            log.stored, fields["record"], log.last = log.stored + 1, fields["record"] + 1, fields["segment"]
        log.path.add(line, ACTIONS[event.kind], **fields)
        log.is_closed = event.kind in ("log closed", "log failed")
