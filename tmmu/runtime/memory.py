"""The arenas of a plan as real memory: what is mapped, where each tensor's bytes are, how far they were used.

An arena is an anonymous mapping, with huge pages where they are asked for, or a buffer of the caller's. Whatever it
is, its base is aligned as strictly as anything in it (A5), and nobody gets a byte outside of it.
spec: U1.1 to U1.9
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Self

import numpy as np

from tmmu.errors import TmmuError
from tmmu.plan.columns import Plan
from tmmu.runtime import extents
from tmmu.runtime.backing import Bytes, given, mapped, reserved
from tmmu.runtime.extents import OPERATOR, Extents
from tmmu.vocabulary import Arena


class ArenaMemory:
    """The memory behind one arena.

    Parameters
    ----------
    arena
        Its configuration; `page_size` rounds what is mapped.
    extent
        Which addresses it has and where they lie in the memory.
    huge_pages
        Ask the system for huge pages; one that has none refuses.
    base
        A writable buffer to use in place of a mapping: a NumPy array, a ctypes array, anything with a buffer.

    Raises
    ------
    TmmuError
        TMMU_ALLOCATION_FAILURE where memory cannot be had, ALIGNMENT_VIOLATION where the base is not aligned to the
        strictest slot, INVALID_ADDRESS for a buffer that is too small, read-only or not contiguous.
    """

    def __init__(self, arena: Arena, extent: Extents, *, huge_pages: bool = False, base: Any = None) -> None:
        self.arena, self.extent, self.is_given = arena, extent, base is not None
        if base is not None:
            self._content: Bytes | None = given(extent, base)
        elif extent.size:
            whole = mapped(arena, reserved(extent, arena), extent.alignment, huge_pages)
            self._content = whole[: extent.size]
        else:
            self._content = np.empty(0, np.uint8)
        self.base = int(self._content.ctypes.data) if extent.size else 0
        if self.base % extent.alignment:
            raise TmmuError(
                "ALIGNMENT_VIOLATION",
                f"its base {self.base:#x} is no multiple of {extent.alignment}, which its strictest slot requires",
                place=f"arena {arena.name!r}",
                fix="give a buffer that is aligned, or let the arena be mapped",
                operator=OPERATOR,
                arena=arena.name,
                logical_slot=0,
            )
        self._used = [0] * len(extent.start)

    @property
    def content(self) -> Bytes:
        """All bytes of the arena, in the order in which they lie in memory. CONTRACT_VIOLATION once it is closed."""
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
        """A writable view of `size` bytes at a logical address, or INVALID_ADDRESS. O(log slots)."""
        content = self.content
        k, at = self.extent.locate(address, size)
        reached = min(address + max(size, 1), self.extent.end[k])  # no bytes at the very end reach no further
        self._used[k] = max(self._used[k], reached - self.extent.start[k])
        return content[at : at + size]

    @property
    def high_water(self) -> int:
        """How many bytes the views reach that were given out, zero bytes counted as one: at most the footprint."""
        return sum(self._used)

    def close(self) -> None:
        """Give the memory up. Views that are still held stay valid; the pages go back with the last of them."""
        self._content = None


class Memory:
    """All arenas of a plan in memory.

    `arenas` are in the plan's order. A context manager: the memory is given up at its end.
    """

    def __init__(self, plan: Plan, arenas: list[ArenaMemory]) -> None:
        self.arenas = arenas
        self._row = {found.arena.name: a for a, found in enumerate(arenas)}
        t, s = plan.tensors, plan.storages
        self._tensors = [
            (arena, offset + window, size)
            for arena, offset, window, size in zip(
                s.arena[t.storage].tolist(), s.offset[t.storage].tolist(), t.window.tolist(), t.bytes.tolist(),
                strict=True,
            )
        ]  # fmt: skip

    @classmethod
    def map(cls, plan: Plan, *, huge_pages: bool = False, base: Mapping[str, Any] | None = None) -> Self:
        """Map every arena of `plan`, or none.

        `base` gives the buffers of single arenas by name; no two of them may have a byte in common. What is mapped
        here is zero. Whether the plan's tensors lie within it is asked at each access (and by `apply_plan` of all).
        Raises what `ArenaMemory` and `extents.of_plan` raise, and INVALID_BINDING for a buffer of no arena.
        """
        buffers = dict(base or {})
        for name in buffers:
            if name not in {arena.name for arena in plan.arenas}:
                raise TmmuError(
                    "INVALID_BINDING",
                    f"a buffer for {name!r}, which is no arena of the plan",
                    fix=f"use one of {', '.join(arena.name for arena in plan.arenas)}",
                    operator=OPERATOR,
                    binding=name,
                )
        made: list[ArenaMemory] = []
        with contextlib.ExitStack() as undo:
            for arena, extent in zip(plan.arenas, extents.of_plan(plan), strict=True):
                made.append(ArenaMemory(arena, extent, huge_pages=huge_pages, base=buffers.get(arena.name)))
                undo.callback(made[-1].close)
            _check_disjoint(made)
            undo.pop_all()
        return cls(plan, made)

    def arena(self, arena: int | str) -> ArenaMemory:
        """One arena, by its row in the plan or its name; INVALID_ADDRESS for any other."""
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
        """A writable view of `size` bytes at a logical address of an arena, or INVALID_ADDRESS."""
        return self.arena(arena).bytes(offset, size)

    def tensor(self, row: int) -> Bytes:
        """A writable view of the bytes of the tensor in row `row`, or INVALID_ADDRESS where its arena ends before."""
        return self.bytes(*self._tensors[row])

    def pointer(self, row: int) -> int:
        """The address in this process of the tensor in row `row`: base pointer plus place. It ends with the memory."""
        arena, address, size = self._tensors[row]
        found = self.arena(arena)
        return found.base + found.extent.locate(address, size)[1]

    def high_water(self, arena: int | str) -> int:
        """How many bytes of an arena the views reach that were given out."""
        return self.arena(arena).high_water

    @property
    def bytes_allocated(self) -> int:
        """The bytes of real memory that the arenas take, in whole pages."""
        return sum(reserved(found.extent, found.arena) for found in self.arenas)

    def close(self) -> None:
        """Give all arenas up; doing it twice changes nothing."""
        for arena in self.arenas:
            arena.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check_disjoint(arenas: list[ArenaMemory]) -> None:
    by_base = sorted((arena for arena in arenas if arena.extent.size), key=lambda arena: arena.base)
    for one, other in pairwise(by_base):
        if one.base + one.extent.size > other.base:
            raise TmmuError(
                "INVALID_ADDRESS",
                f"its buffer has bytes in common with that of {one.arena.name!r}",
                place=f"arena {other.arena.name!r}",
                fix="give every arena a buffer of its own",
                operator=OPERATOR,
                arena=other.arena.name,
                offset=0,
            )
