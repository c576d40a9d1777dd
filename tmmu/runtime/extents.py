"""The places of the addresses of one arena in its memory.

An offset is its own place, and the arena is one extent from 0 to its footprint. Hashed addresses are scattered over 64
bits: there, the storages of one address form a separate extent. These extents are consecutive, each at its alignment,
in the order in which the plan first lists a storage of each. spec: U1.5, U1.6
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import UINT64_END
from tmmu.plans.allocation import Allocation
from tmmu.plans.metrics import needed_bytes
from tmmu.plans.sections import Plan

OPERATOR = "UML_OS.TMMU.ApplyPlan_v1"


@dataclass(frozen=True)
class Extents:
    """Ranges of addresses, ascending and disjoint, each with its place in a backing of `size` bytes.

    `alignment` is the strictest that the arena, its stated base or a storage in it requires: the base pointer must be a
    multiple of it (A5).
    """

    arena: str
    start: tuple[int, ...]
    end: tuple[int, ...]
    at: tuple[int, ...]
    size: int
    alignment: int

    def locate(self, address: int, size: int) -> tuple[int, int]:
        """Return the extent of `size` bytes at `address`, and their place in the backing. Raises INVALID_ADDRESS."""
        k = bisect_right(self.start, address) - 1
        if k < 0 or size < 0 or address + size > self.end[k]:
            raise TmmuError(
                "INVALID_ADDRESS",
                f"{size} bytes at {address} are not within its memory",
                place=f"arena {self.arena!r}",
                fix="plan again, or give the arena the memory that its footprint requires",
                operator=OPERATOR,
                arena=self.arena,
                offset=address % UINT64_END,
            )
        return k, self.at[k] + address - self.start[k]


def of_plan(plan: Plan) -> list[Extents]:
    """Return the extents of each arena. O(N log N).

    Raises ALIGNMENT_VIOLATION for an alignment that is not a power of two, ADDRESS_COLLISION if hashed addresses
    collide.
    """
    return [_compute_extents(plan.allocation, a, footprint) for a, footprint in enumerate(needed_bytes(plan))]


def _compute_extents(allocation: Allocation, a: int, footprint: int) -> Extents:
    arena, s = allocation.arenas[a], allocation.storages
    for row, alignment in enumerate(s.alignment.tolist()):
        if alignment < 1 or alignment & (alignment - 1):
            raise _make_alignment_violation(
                arena.name, f"the alignment {alignment} of storage {row} is not a power of two", row
            )
    strictest = max([arena.alignment, arena.base_alignment, *s.alignment[s.arena == a].tolist()])
    if strictest & (strictest - 1):
        raise _make_alignment_violation(arena.name, f"its alignment {strictest} is not a power of two", 0)
    if not arena.scattered:
        return Extents(arena.name, (0,), (footprint,), (0,), footprint, strictest)
    longest: dict[int, int] = {}
    mine = s.arena == a
    for offset, size in zip(s.offset[mine].tolist(), s.bytes[mine].tolist(), strict=True):
        longest[offset] = max(longest.get(offset, 1), size)
    end = 0
    place: dict[int, int] = {}
    for offset in longest:
        place[offset] = (end + strictest - 1) & -strictest
        end = place[offset] + longest[offset]
    starts = sorted(place)
    for one, other in pairwise(starts):
        if one + longest[one] > other:
            raise TmmuError(
                "ADDRESS_COLLISION",
                f"two of its addresses have bytes in common from {other} on",
                place=f"arena {arena.name!r}",
                fix="plan again with another address token",
                operator=OPERATOR,
                arena=arena.name,
                logical_slot=list(longest).index(other),
            )
    ends = tuple(start + longest[start] for start in starts)
    return Extents(arena.name, tuple(starts), ends, tuple(place[start] for start in starts), end, strictest)


def _make_alignment_violation(arena: str, what: str, slot: int) -> TmmuError:
    return TmmuError(
        "ALIGNMENT_VIOLATION",
        what,
        place=f"arena {arena!r}",
        fix="plan again with powers of two",
        operator=OPERATOR,
        arena=arena,
        logical_slot=slot,
    )
