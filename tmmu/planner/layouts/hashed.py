"""Layout `hashed`: 000's addresses, scattered over 64 bits by a hash of a token; 001 forbids them.

The address of slot k of an arena is the first 8 bytes of BLAKE3(token, "tmmu_va", the arena's name, k in 8 bytes),
little-endian, rounded down to the slot's alignment. The address space is [0, 2^64). The bytes of real memory that an
arena needs, which are compared with its capacity, are the sum of its slots. Two slots may overlap, which is checked.
Such a plan does not conform to 001 II.F, which requires offsets. spec: A2.1 to A2.5
"""

from __future__ import annotations

from itertools import pairwise

from tmmu.core.errors import TmmuError
from tmmu.core.extras import require_package
from tmmu.core.vocabulary import UINT64_END
from tmmu.planner.layouts import slots as by_slots
from tmmu.planner.layouts.addresses import Addresses, overflow_error
from tmmu.planner.problem import AllocationProblem
from tmmu.planner.slots import SlotAssignment

IN_PLACE = True

TOKEN_BYTES = 64
"""The least length of an address token."""


def place(problem: AllocationProblem, slots: SlotAssignment) -> Addresses:
    """Place each storage at the address of its slot; arenas that do not reuse bytes in sequence. O(slots log slots).

    Raises INVALID_BINDING without a token of at least 64 bytes, MISSING_PACKAGE without blake3, ALLOCATION_OVERFLOW for
    a slot that would end beyond 2^64, and ADDRESS_COLLISION for two slots that have a byte in common.
    """
    token = check_token(problem.address_token)
    sums = by_slots.prefix_sums(slots, len(problem.arenas))
    offset, footprint = list(sums.offset), sums.footprint
    for a, arena in enumerate(problem.arenas):
        mine = [k for k, of in enumerate(slots.arena) if of == a]
        if arena.reuse:
            for number, k in enumerate(mine):
                offset[k] = address(token, arena.name, number) & -slots.alignment[k]
                if offset[k] + slots.bytes[k] > UINT64_END:
                    raise overflow_error(f"slot {number}", arena.name, offset[k], slots.bytes[k])
            _check_collisions(problem, slots, mine, offset)
            footprint[a] = sum(slots.bytes[k] for k in mine)
        if footprint[a] >= UINT64_END:
            raise overflow_error("the last slot", arena.name, footprint[a], 0)
    return Addresses([offset[slot] for slot in slots.slot], footprint)


def check_token(token: bytes | None) -> bytes:
    """Check that the token is long enough and that the package blake3 is installed; return the token. spec: A2.5"""
    if token is None or len(token) < TOKEN_BYTES:
        given = "no address token" if token is None else f"an address token of {len(token)} bytes"
        raise TmmuError(
            "INVALID_BINDING",
            f"the layout hashed needs an address token of at least {TOKEN_BYTES} bytes, got {given}",
            fix=f"give a file of at least {TOKEN_BYTES} random bytes with --address-token FILE",
            binding="address_token",
        )
    require_package("blake3", "the layout hashed", "hashed")
    return token


def address(token: bytes, arena: str, slot: int) -> int:
    """Return the address that 000 gives a slot, before it is rounded down.

    `slot` is its number in its arena. spec: A2.1

    >>> 0 <= address(bytes(64), "activations", 0) < 1 << 64
    True
    """
    from blake3 import blake3

    digest = blake3(token + b"tmmu_va" + arena.encode() + slot.to_bytes(8, "little")).digest()
    return int.from_bytes(digest[:8], "little")


def _check_collisions(problem: AllocationProblem, slots: SlotAssignment, mine: list[int], offset: list[int]) -> None:
    by_address = sorted(range(len(mine)), key=lambda number: offset[mine[number]])
    for one, other in pairwise(by_address):
        k, j = mine[one], mine[other]
        if offset[k] + slots.bytes[k] > offset[j]:
            arena = problem.arenas[slots.arena[k]].name
            raise TmmuError(
                "ADDRESS_COLLISION",
                f"slots {min(one, other)} and {max(one, other)} overlap from byte {offset[j]} on",
                place=f"arena {arena!r}",
                fix="use another address token, or a layout with offsets",
                arena=arena,
                logical_slot=max(one, other),
            )
