"""The planner's linear scan, watched: every push and pop of its two heaps, as the move that the lemmas are about.

The scan keeps what is active as (death, slot) in one heap and free slots as plain numbers in another. `Watched` stands
in for the module `heapq` and writes down what goes in and out; `moves` reads it as moves: a slot is given back, a free
slot is taken, a slot is opened. A scan that is written otherwise gives other moves, or none that can be read.
"""

from __future__ import annotations

import heapq
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
    """One move of the planner: `expire`, `take` or `open`, the storage (by its place in the scan) and the slot."""

    what: str
    storage: int
    slot: int


class Unreadable(AssertionError):
    """The heaps did what no move of a scan does."""


class Watched:
    """`heapq` with a record: what was done, and the item that went in or out."""

    def __init__(self) -> None:
        self.record: list[tuple[str, Any]] = []

    def heappush(self, heap: list[Any], item: Any) -> None:
        self.record.append(("push", item))
        heapq.heappush(heap, item)

    def heappop(self, heap: list[Any]) -> Any:
        item = heapq.heappop(heap)
        self.record.append(("pop", item))
        return item


def in_order(storages: Sequence[Storage]) -> list[Storage]:
    """The order in which a scan goes through storages: by birth, the larger first. spec: T6.1"""
    return sorted(storages, key=lambda s: (s.birth, -s.bytes))


def assigned(code: ModuleType, storages: Sequence[Storage]) -> tuple[list[int], int, list[tuple[str, Any]]]:
    """The slot of each storage by the planner's module `code`, how many there are, and what its heaps did."""
    watched = Watched()
    kept, code.heapq = code.heapq, watched  # type: ignore[attr-defined]
    try:
        found = code.assign(problem(*storages), [0] * len(storages))
    finally:
        code.heapq = kept  # type: ignore[attr-defined]
    return found.slot, len(found.arena), watched.record


def moves(record: Sequence[tuple[str, Any]]) -> Iterator[Move]:
    """What the heaps did, as moves, in order; storages are numbered as they are given slots."""
    tenant: dict[int, int] = {}
    given = 0
    back: int | None = None  # a slot on its way from active to free
    taken: int | None = None  # a slot that was free
    opened = 0
    for what, item in record:
        is_active = isinstance(item, tuple)
        if what == "pop" and is_active and back is None and taken is None:
            back = item[1]
        elif what == "push" and not is_active and item == back:
            yield Move("expire", tenant[back], back)
            back = None
        elif what == "pop" and not is_active and back is None and taken is None:
            taken = item
        elif what == "push" and is_active and back is None and taken in (None, item[1]):
            opens = taken is None
            if opens and item[1] != opened:
                raise Unreadable(f"slot {item[1]} is opened as number {opened}")
            opened += opens
            yield Move("open" if opens else "take", given, item[1])
            tenant[item[1]], taken = given, None
            given += 1
        else:
            raise Unreadable(f"{what} {item!r}")
