"""Extract threads and their locks, for WriteLocks: one path for all threads of all processes of a log.

The accesses of a section are known at its beginning, since the rest of the log shows them. Its accesses and releases
show when a section takes effect and ends. A request for a lock with a file shows only when the lock is taken. A thread
whose process writes no more was killed, and holds nothing from then on. An access outside of a section counts as a
section. spec: MN7.8
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from proofs.model_check.following.lines import Path
from proofs.model_check.following.log import Event, WrongLog

MODULE = "WriteLocks"
KINDS = ("lock section", "lock asked", "lock taken", "lock released", "access")
NOTHING = 1
"""The tile of an access without bytes."""

Owner = tuple[int, int]


@dataclass
class _Section:
    """A section so far: its locks, and whether it is active."""

    locks: list[int]
    asked: set[int] = field(default_factory=set)
    is_active: bool = False
    has_left: bool = False


def paths(events: Sequence[Event]) -> Iterator[Path]:
    """Yield one path, if the log has any event of it."""
    mine = [event for event in events if event.kind in KINDS]
    if not mine:
        return
    path = Path(MODULE, "the threads", mine[0].line, folder="mnemosyne")
    names = sorted({name for event in mine for name in event.fields.get("locks", ())})
    locks = {name: n for n, name in enumerate(names, 1)}
    threads = {owner: n for n, owner in enumerate(dict.fromkeys(_owner(event) for event in mine), 1)}
    tiles = _Tiles(mine)
    last = {event.fields["process"]: event.line for event in mine}
    open_now: dict[Owner, _Section] = {}
    kills = 0
    for at, event in enumerate(mine):
        _follow(path, event, _accesses(mine[at:]), open_now, locks, threads, tiles)
        if event.line == last[event.fields["process"]] and event is not mine[-1]:
            for owner in [owner for owner in open_now if owner[0] == event.fields["process"]]:
                path.add(event.line, "Kill", thread=threads[owner])
                del open_now[owner]
                kills += 1
    path.constants = {
        "Threads": "{" + ", ".join(str(n) for n in threads.values()) + "}", "Tiles": str(tiles.count),
        "Locks": str(max(1, len(locks))), "Kills": str(kills),
    }  # fmt: skip
    yield path


def _owner(event: Event) -> Owner:
    return event.fields["process"], event.fields["thread"]


def _accesses(rest: Sequence[Event]) -> Iterator[Event]:
    """Yield the accesses of the section, or the access, that the first of these events begins."""
    owner = _owner(rest[0])
    for n, event in enumerate(rest):
        if _owner(event) == owner:
            if event.kind == "access":
                yield event
            if event.kind == "lock released" or (n and event.kind == "lock section") or rest[0].kind == "access":
                return


class _Tiles:
    """Ranges of bytes inside of which no access begins or ends, numbered from 2."""

    def __init__(self, events: Sequence[Event]) -> None:
        edges: dict[str, set[int]] = defaultdict(set)
        for event in events:
            if event.kind == "access":
                edges[event.fields["subject"]] |= {event.fields["start"], event.fields["stop"]}
        self._edges = {subject: sorted(found) for subject, found in edges.items()}
        self._first: dict[str, int] = {}
        self.count = NOTHING
        for subject, found in self._edges.items():
            self._first[subject] = self.count + 1
            self.count += len(found)

    def of(self, event: Event) -> range:
        """Return the ranges of an access."""
        subject, edges = event.fields["subject"], self._edges[event.fields["subject"]]
        start, stop = (bisect_left(edges, event.fields[key]) for key in ("start", "stop"))
        return range(self._first[subject] + start, self._first[subject] + stop)


def _follow(
    path: Path, event: Event, accesses: Iterator[Event], open_now: dict[Owner, _Section], locks: dict[str, int],
    threads: dict[Owner, int], tiles: _Tiles,
) -> None:  # fmt: skip
    owner, line, fields = _owner(event), event.line, event.fields
    thread, section = threads[owner], open_now.get(owner)
    if event.kind == "lock section" or (event.kind == "access" and section is None):
        if section is not None:
            raise WrongLog(line, "a section begins in another one")
        found = list(accesses)
        writes = {tile for each in found if each.fields["is_write"] for tile in tiles.of(each)}
        reads = {tile for each in found for tile in tiles.of(each)} - writes
        taken = [locks[name] for name in fields.get("locks", ())]
        if taken != sorted(set(taken)):
            raise WrongLog(line, "the locks of a section are not in ascending order")
        path.add(
            line, "Begin", thread=thread, reads=sorted(reads) or [NOTHING] * (not writes), writes=sorted(writes),
            locks=taken, isReader=fields.get("as_reader", False),
        )  # fmt: skip
        section = open_now[owner] = _Section(taken)
        if event.kind == "lock section":
            return
    if section is None:
        raise WrongLog(line, f"{event.kind!r} outside of a section")
    lock = locks.get(fields.get("lock", ""), 0)
    if event.kind == "lock asked":
        section.asked.add(lock)
        path.add(line, "Request", thread=thread, lock=lock)
    elif event.kind == "lock taken":
        if lock not in section.asked:
            path.add(line, "Request", thread=thread, lock=lock)
        path.add(line, "Take", thread=thread, lock=lock, isReader=fields["as_reader"])
    else:
        if not section.is_active:
            path.add(line, "Enter", thread=thread)
            section.is_active = True
        if event.kind == "access":
            path.add(line, "Access", thread=thread, tiles=list(tiles.of(event)), isWrite=fields["is_write"])
        if not section.has_left and (event.kind == "lock released" or not section.locks):
            path.add(line, "Leave", thread=thread)
            section.has_left = True
        if event.kind == "lock released":
            path.add(line, "Release", thread=thread, lock=lock)
            section.locks = [other for other in section.locks if other != lock]
        if not section.locks:
            del open_now[owner]
