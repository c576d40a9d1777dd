"""Where the addresses of one arena lie in the memory behind it.

Offsets are that place themselves, and an arena is one extent from 0 to its footprint. Hashed addresses are scattered
over 64 bits: there each slot is an extent of its own, and the extents lie one after the other in ascending order of
slots, each at its alignment. spec: U1.5, U1.6
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import UINT64_END
from tmmu.plan.columns import Plan

OPERATOR = "UML_OS.TMMU.ApplyPlan_v1"


@dataclass(frozen=True)
class Extents:
    """Ranges of addresses, ascending and disjoint, each with its place in a backing of `size` bytes.

    `alignment` is the strictest that anything in the arena requires: the base pointer must be a multiple of it (A5).
    """

    arena: str
    start: tuple[int, ...]
    end: tuple[int, ...]
    at: tuple[int, ...]
    size: int
    alignment: int

    def locate(self, address: int, size: int) -> tuple[int, int]:
        """The extent that holds `size` bytes at `address`, and their place in the backing; else INVALID_ADDRESS."""
        k = bisect_right(self.start, address) - 1
        if k < 0 or size < 0 or address + size > self.end[k]:
            raise TmmuError(
                "INVALID_ADDRESS",
                f"{size} bytes at {address} are not within its memory",
                place=f"arena {self.arena!r}",
                fix="plan again, or give the arena the memory that its footprint asks for",
                operator=OPERATOR,
                arena=self.arena,
                offset=address % UINT64_END,
            )
        return k, self.at[k] + address - self.start[k]


def of_plan(plan: Plan) -> list[Extents]:
    """The extents of each arena of a plan. O(N log N).

    Raises ALIGNMENT_VIOLATION for an alignment that is no power of two, ADDRESS_COLLISION where two hashed slots touch.
    """
    return [_extents(plan, a) for a in range(len(plan.arenas))]


def _extents(plan: Plan, a: int) -> Extents:
    arena, s = plan.arenas[a], plan.storages
    strictest = arena.alignment
    for which, columns in (("slot", plan.slots), ("storage", s)):
        for row, alignment in enumerate(columns.alignment.tolist()):
            if alignment < 1 or alignment & (alignment - 1):
                raise _unaligned(arena.name, f"the alignment {alignment} of {which} {row} is no power of two", row)
        strictest = max([strictest, *columns.alignment[columns.arena == a].tolist()])
    if strictest & (strictest - 1):
        raise _unaligned(arena.name, f"its alignment {strictest} is no power of two", 0)
    if plan.layout != "hashed" or not arena.reuse:
        footprint = plan.usage[a].footprint
        return Extents(arena.name, (0,), (footprint,), (0,), footprint, strictest)
    longest: dict[int, int] = {}
    order: dict[int, int] = {}
    mine = (s.arena == a).tolist()
    for k, (slot, offset, size) in enumerate(zip(s.slot.tolist(), s.offset.tolist(), s.bytes.tolist(), strict=True)):
        if mine[k]:
            longest[offset] = max(longest.get(offset, 1), size)
            order[offset] = min(order.get(offset, slot), slot)
    end = 0
    place: dict[int, int] = {}
    for offset in sorted(order, key=lambda offset: (order[offset], offset)):
        place[offset] = (end + strictest - 1) & -strictest
        end = place[offset] + longest[offset]
    starts = sorted(place)
    for one, other in pairwise(starts):
        if one + longest[one] > other:
            raise TmmuError(
                "ADDRESS_COLLISION",
                f"two slots have bytes in common from {other} on",
                place=f"arena {arena.name!r}",
                fix="plan again with another address token",
                operator=OPERATOR,
                arena=arena.name,
                logical_slot=order[other],
            )
    ends = tuple(start + longest[start] for start in starts)
    return Extents(arena.name, tuple(starts), ends, tuple(place[start] for start in starts), end, strictest)


def _unaligned(arena: str, what: str, slot: int) -> TmmuError:
    return TmmuError(
        "ALIGNMENT_VIOLATION",
        what,
        place=f"arena {arena!r}",
        fix="plan again with powers of two",
        operator=OPERATOR,
        arena=arena,
        logical_slot=slot,
    )
