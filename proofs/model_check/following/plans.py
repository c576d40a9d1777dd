"""Check the storages of plans in a log, against each other and against the scans that gave them slots.

Two storages that live at one step have no byte and no slot in common. A plan that is made has each storage with the
steps, bytes and slot of a scan of the same process. Arenas that reuse no bytes have no scan. spec: U5.25, U5.27
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from proofs.model_check.following.log import Event, WrongLog


class LoggedStorage(NamedTuple):
    """A storage of a plan as a line states it."""

    name: str
    arena: int
    slot: int
    offset: int
    bytes: int
    birth: int
    death: int


ScannedStorage = tuple[int, str, int, int, int, int]
"""The number of a storage, its name, birth, death and bytes, and its slot in its arena."""


@dataclass
class _Process:
    """The scans that a process has ended, and the plans that it has made."""

    scans: list[tuple[Event, frozenset[ScannedStorage]]] = field(default_factory=list)
    plans: list[tuple[Event, list[frozenset[ScannedStorage]]]] = field(default_factory=list)


def check_storages(events: Sequence[Event]) -> None:
    """Check the storages of every plan in a log. Raises `WrongLog` at the first line that contradicts another."""
    process, slots = _Process(), dict[int, int]()
    scan: Event | None = None
    for event in events:
        match event.kind:
            case "start":
                _compare(process)
                process, scan = _Process(), None
            case "scan":
                scan, slots = event, {}
            case "open" | "reuse":
                slots[event.fields["storage"]] = event.fields["slot"]
            case "scanned" if scan is not None:
                rows = scan.fields["storages"]
                process.scans.append((scan, frozenset((*row, slots.get(row[0], -1)) for row in rows)))
                scan = None
            case "planned" | "asked":
                arenas = _arenas(event)
                for of_arena in arenas.values():
                    _check_apart(event, [storage for _, storage in of_arena])
                if event.kind == "planned":
                    process.plans.append((event, list(map(_as_scanned, arenas.values()))))
    _compare(process)


def _arenas(event: Event) -> dict[int, list[tuple[int, LoggedStorage]]]:
    """Return the storages of each arena of a plan, with their numbers."""
    found: dict[int, list[tuple[int, LoggedStorage]]] = {}
    for number, row in enumerate(event.fields["storages"]):
        storage = LoggedStorage(*row)
        if storage.death < storage.birth:
            raise WrongLog(event.line, f"the storage {storage.name} dies before it is born")
        found.setdefault(storage.arena, []).append((number, storage))
    return found


def _as_scanned(rows: Sequence[tuple[int, LoggedStorage]]) -> frozenset[ScannedStorage]:
    """Return the storages of an arena as a scan of it states them, with slots that count from 0."""
    first = min(storage.slot for _, storage in rows)
    return frozenset((k, s.name, s.birth, s.death, s.bytes, s.slot - first) for k, s in rows)


def _check_apart(event: Event, storages: Sequence[LoggedStorage]) -> None:
    """Check that storages of one arena that live at one step share no byte and no slot. O(n²) at worst in moves."""
    live = list[tuple[int, int, LoggedStorage]]()  # by offset
    dying = sorted(storages, key=lambda storage: storage.death)
    died, slots = 0, dict[int, LoggedStorage]()
    for storage in sorted(storages, key=lambda storage: storage.birth):
        while dying[died].death < storage.birth:
            gone = dying[died]
            died += 1
            if gone.bytes:
                del live[bisect_left(live, (gone.offset, gone.offset + gone.bytes, gone))]
        before = slots.get(storage.slot)
        if before is not None and before.death >= storage.birth:
            text = f"{before.name} and {storage.name} have one slot, and both live at step {storage.birth}"
            raise WrongLog(event.line, text)
        slots[storage.slot] = storage
        if not storage.bytes:
            continue
        placed = (storage.offset, storage.offset + storage.bytes, storage)
        at = bisect_left(live, placed)
        for other in live[max(at - 1, 0) : at + 1]:
            if other[0] < placed[1] and placed[0] < other[1]:
                raise WrongLog(
                    event.line,
                    f"{other[2].name} and {storage.name} share byte {max(other[0], placed[0])}, and both live at step "
                    f"{storage.birth}",
                )
        insort(live, placed)


def _compare(process: _Process) -> None:
    """Check that each scan is of an arena of a plan, if plans are logged, and each plan of its scans."""
    made = [arena for _, arenas in process.plans for arena in arenas]
    scanned = {scan for _, scan in process.scans}
    for event, scan in process.scans:
        if process.plans and scan and scan not in made:
            line, _ = process.plans[0]
            raise WrongLog(line.line, f"no plan has the storages that the scan of line {event.line} gave slots to")
    known = {frozenset(row[:2] for row in scan): event for event, scan in process.scans}
    for event, arenas in process.plans:
        for arena in arenas:
            same = known.get(frozenset(row[:2] for row in arena))
            if same is not None and arena not in scanned:
                text = f"the plan has other slots, steps or bytes than the scan of line {same.line}"
                raise WrongLog(event.line, text)
