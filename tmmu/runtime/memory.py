"""The arenas of a plan as real memory: their mappings, the bytes of each tensor, and the high-water marks.

An arena is an anonymous mapping or a part of one, on request with huge pages, or a buffer of the caller. In each case
its base has the strictest alignment that the arena requires (A5), and no access reaches a byte outside of it.
spec: U1.1 to U1.11
"""

from __future__ import annotations

import contextlib
from collections import abc
from itertools import pairwise
from typing import Any, Self

from tmmu.core.errors import TmmuError
from tmmu.plans.allocation import Arena
from tmmu.plans.sections import Plan
from tmmu.runtime import extents
from tmmu.runtime.backing import Bytes, map_bytes, view_buffer
from tmmu.runtime.divided import Mapping, buffers, mappings
from tmmu.runtime.events import EventLog
from tmmu.runtime.extents import OPERATOR, Extents


class ArenaMemory:
    """The memory of one arena.

    Parameters
    ----------
    arena
        Its configuration.
    extent
        Its addresses and their places in the memory.
    content
        Its bytes, `extent.size` of them.
    is_given
        Whether they are a buffer of the caller, with the content that the caller wrote.

    Raises
    ------
    TmmuError
        ALIGNMENT_VIOLATION if the base is not as aligned as the plan requires.
    """

    def __init__(self, arena: Arena, extent: Extents, content: Bytes, *, is_given: bool = False) -> None:
        self.arena, self.extent, self.is_given = arena, extent, is_given
        self._content: Bytes | None = content
        self.base = int(content.ctypes.data) if extent.size else 0
        if self.base % extent.alignment:
            raise TmmuError(
                "ALIGNMENT_VIOLATION",
                f"its base {self.base:#x} is not a multiple of {extent.alignment}, which its plan requires",
                place=f"arena {arena.name!r}",
                fix="give a buffer that is aligned, or let the arena be mapped",
                operator=OPERATOR,
                arena=arena.name,
                logical_slot=0,
            )
        self._used = [0] * len(extent.start)

    @property
    def content(self) -> Bytes:
        """All bytes of the arena, in the order of memory. Raises CONTRACT_VIOLATION once it is closed."""
        if self._content is None:
            raise TmmuError(
                "CONTRACT_VIOLATION",
                "its memory is closed",
                place=f"arena {self.arena.name!r}",
                fix="apply the plan again",
                operator=OPERATOR,
                failure_operator=OPERATOR,
            )
        return self._content

    def bytes(self, address: int, size: int) -> Bytes:
        """Return a writable view of `size` bytes at a logical address. Raises INVALID_ADDRESS. O(log slots)."""
        view = self.view_unused(address, size)
        k = self.extent.locate(address, size)[0]
        reached = min(address + max(size, 1), self.extent.end[k])  # zero bytes at the very end reach no further
        self._used[k] = max(self._used[k], reached - self.extent.start[k])
        return view

    def view_unused(self, address: int, size: int) -> Bytes:
        """Return the same view for a fill, which does not count for the high-water mark."""
        content = self.content
        at = self.extent.locate(address, size)[1]
        return content[at : at + size]

    def look(self, address: int, size: int) -> Bytes:
        """Return a read-only view of the bytes at a logical address, which does not count for the high-water mark."""
        at = self.extent.locate(address, size)[1]
        view = self.content[at : at + size]
        view.flags.writeable = False
        return view

    @property
    def high_water(self) -> int:
        """The number of bytes that views have reached, zero bytes counted as one: at most the footprint."""
        return sum(self._used)

    def close(self) -> None:
        """Release the memory. Views that are still held stay valid; the last of them unmaps the pages."""
        self._content = None


class MappedMemory:
    """All arenas of a plan in memory.

    `arenas` are in the order of the plan, `mappings` are the ranges of memory that contain them. It is a context
    manager, which releases the memory at its end.
    """

    def __init__(self, plan: Plan, arenas: list[ArenaMemory], mappings: list[Mapping]) -> None:
        self.arenas, self.mappings = arenas, mappings
        self._row = {found.arena.name: a for a, found in enumerate(arenas)}
        t, s = plan.allocation.tensors, plan.allocation.storages
        self._tensors = [
            (arena, offset + window, size)
            for arena, offset, window, size in zip(
                s.arena[t.storage].tolist(), s.offset[t.storage].tolist(), t.window.tolist(), t.bytes.tolist(),
                strict=True,
            )
        ]  # fmt: skip

    @classmethod
    def map(
        cls,
        plan: Plan,
        *,
        huge_pages: bool = False,
        base: abc.Mapping[str, Any] | None = None,
        events: EventLog | None = None,
    ) -> Self:
        """Map every arena of `plan`, or none.

        `base` maps names to buffers that replace mappings, such as NumPy or ctypes arrays: of single arenas by name, of
        all arenas of a device's memory by `device/memory`. No two may have a byte in common. Fresh mappings are zero.
        Each access checks that a tensor is within its arena (and `apply_plan` checks all tensors).

        Raises as `ArenaMemory` and `extents.of_plan` do, TMMU_ALLOCATION_FAILURE if memory cannot be allocated,
        INVALID_ADDRESS for a buffer that is too small, read-only or not contiguous, INVALID_BINDING for a buffer of no
        arena.
        """
        found = extents.of_plan(plan)
        made = mappings(plan, found)
        names = buffers(made, plan, list(base or {}))
        arenas: dict[int, ArenaMemory] = {}
        with contextlib.ExitStack() as undo:
            try:
                for number, each in enumerate(made):
                    own = None if base is None or number not in names else base[names[number]]
                    content = map_bytes(each, huge_pages) if own is None else view_buffer(each, own)
                    for a, at in zip(each.arenas, each.at, strict=True):
                        part = content[at : at + found[a].size]
                        arenas[a] = ArenaMemory(plan.allocation.arenas[a], found[a], part, is_given=own is not None)
                        undo.callback(arenas[a].close)
                    if events is not None:
                        events("mapped", mapping=number)
                        undo.callback(_give_up, [arenas[a] for a in each.arenas], number, events)
                ordered = [arenas[a] for a in range(len(plan.allocation.arenas))]
                _check_disjoint(ordered)
            except BaseException:
                if events is not None:
                    events("refused")
                raise
            undo.pop_all()
        return cls(plan, ordered, made)

    def arena(self, arena: int | str) -> ArenaMemory:
        """Return one arena, by its row in the plan or its name. Raises INVALID_ADDRESS for any other."""
        row = self._row.get(arena, -1) if isinstance(arena, str) else arena
        if not 0 <= row < len(self.arenas):
            raise TmmuError(
                "INVALID_ADDRESS",
                f"there is no arena {arena!r}",
                fix=f"use one of {', '.join(self._row)}",
                operator=OPERATOR,
                arena=str(arena),
                offset=0,
            )
        return self.arenas[row]

    def bytes(self, arena: int | str, offset: int, size: int) -> Bytes:
        """Return a writable view of `size` bytes at a logical address of an arena. Raises INVALID_ADDRESS."""
        return self.arena(arena).bytes(offset, size)

    def tensor(self, row: int) -> Bytes:
        """Return a writable view of the bytes of the tensor in row `row`.

        Raises INVALID_ADDRESS if its arena ends before.
        """
        return self.bytes(*self._tensors[row])

    def pointer(self, row: int) -> int:
        """Return the address in this process of the tensor in row `row`; it is valid until the memory is closed."""
        arena, address, size = self._tensors[row]
        found = self.arena(arena)
        return found.base + found.extent.locate(address, size)[1]

    def high_water(self, arena: int | str) -> int:
        """Return the number of bytes of an arena that views have reached."""
        return self.arena(arena).high_water

    @property
    def bytes_allocated(self) -> int:
        """The bytes of real memory that the arenas take, in whole pages."""
        return sum(each.reserved for each in self.mappings)

    def close(self) -> None:
        """Release all arenas; a second call does nothing."""
        for arena in self.arenas:
            arena.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _give_up(arenas: list[ArenaMemory], mapping: int, events: EventLog) -> None:
    for arena in arenas:
        arena.close()
    events("unmapped", mapping=mapping)


def _check_disjoint(arenas: list[ArenaMemory]) -> None:
    by_base = sorted((arena for arena in arenas if arena.extent.size), key=lambda arena: arena.base)
    for one, other in pairwise(by_base):
        if one.base + one.extent.size > other.base:
            raise TmmuError(
                "INVALID_ADDRESS",
                f"its buffer has bytes in common with that of {one.arena.name!r}",
                place=f"arena {other.arena.name!r}",
                fix="give every arena a separate buffer",
                operator=OPERATOR,
                arena=other.arena.name,
                offset=0,
            )
