"""The planner's linear scan, observed: each of its calls of the observer, as the move that the lemmas are about.

A slot is given back, a free slot is taken, a slot is opened. That the moves are those of the scan shows in the slots
that it returns. A scan that is written otherwise gives other moves, or none that can be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from tests.support.problems import problem


class Storage(NamedTuple):
    """What a scan needs to know of a storage."""

    birth: int
    death: int
    bytes: int = 1


class Move(NamedTuple):
    """One move of the planner: `expire`, `reuse` or `open`, the storage (by its place in the scan) and the slot."""

    what: str
    storage: int
    slot: int


class Unreadable(AssertionError):
    """What was observed is no move of a scan."""


Record = list[tuple[str, dict[str, Any]]]
"""What the planner's observer was called with, in order."""


def in_order(storages: Sequence[Storage]) -> list[Storage]:
    """The order in which a scan goes through storages: by birth, the larger first. spec: T6.1"""
    return sorted(storages, key=lambda s: (s.birth, -s.bytes))


def assigned(code: ModuleType, storages: Sequence[Storage]) -> tuple[list[int], int, Record]:
    """The slot of each storage by the planner's module `code`, how many there are, and what was observed."""
    record: Record = []
    found = code.assign_slots(
        problem(*storages), [0] * len(storages), lambda event, **facts: record.append((event, facts))
    )
    return list(found.slot), len(found.arena), record


def moves(record: Record) -> Iterator[Move]:
    """What was observed, as moves, in order; storages are numbered as they are given slots."""
    tenant: dict[int, int] = {}
    for event, facts in record:
        if event == "expire" and facts["slot"] in tenant:
            yield Move("expire", tenant[facts["slot"]], facts["slot"])
        elif event in ("open", "reuse"):
            yield Move(event, facts["storage"], facts["slot"])
            tenant[facts["slot"]] = facts["storage"]
        elif event not in ("scan", "advance", "scanned"):
            raise Unreadable(f"{event} {facts}")
