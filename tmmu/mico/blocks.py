"""The memory of the C: a block for each pool, or one for each arena, and the place of each tensor in them.

Weights, which only the caller writes and keeps, are in no block. Under the layouts `pools` and `hashed`, a block holds
storages that overlap each other: it is a pool or a hashed slot. Under any other layout, an arena is one block.
spec: MC3.1, MC3.2, MC3.3
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from tmmu.plans.allocation import Allocation
from tmmu.plans.sections import Plan


@dataclass(frozen=True)
class MemoryBlock:
    """Addresses of an arena that form one array: `bytes` from `first`, which is a multiple of `alignment`."""

    arena: str
    first: int
    bytes: int
    alignment: int


class BlockPlace(NamedTuple):
    """The place of a tensor: the number of its block, and its first byte in the block."""

    block: int
    offset: int


def blocks_of(plan: Plan, weights: Collection[int]) -> tuple[list[MemoryBlock], dict[int, BlockPlace]]:
    """Return the blocks of a plan, arena by arena in the order of their addresses, and the place of every other tensor.

    `weights` are rows of tensors outside of the blocks; a storage of only such tensors is in no block. A storage of
    zero bytes takes one byte (T7). O(n log n).
    """
    allocation = plan.allocation
    home = allocation.tensors.storage.tolist()
    kept = {home[t] for t in range(len(home)) if t not in weights}
    by_pool = plan.provenance is not None and plan.provenance.layout in ("pools", "hashed")
    blocks: list[MemoryBlock] = []
    of: dict[int, int] = {}
    for members in _group_storages(allocation, kept, by_pool):
        blocks.append(_make_block(allocation, members))
        of.update(dict.fromkeys(members, len(blocks) - 1))
    places = {}
    for t, address in enumerate(allocation.addresses().tolist()):
        if t not in weights:
            block = of[home[t]]
            places[t] = BlockPlace(block, address - blocks[block].first)
    return blocks, places


def _group_storages(allocation: Allocation, kept: Collection[int], by_pool: bool) -> list[list[int]]:
    """Return the storages of each block."""
    s = allocation.storages
    arena, offset, size = s.arena.tolist(), s.offset.tolist(), s.bytes.tolist()
    groups: list[list[int]] = []
    at, end = -1, 0
    for k in sorted(kept, key=lambda k: (arena[k], offset[k])):
        if arena[k] != at or (by_pool and offset[k] >= end):
            groups.append([])
            at, end = arena[k], 0
        groups[-1].append(k)
        end = max(end, offset[k] + max(1, size[k]))
    return groups


def _make_block(allocation: Allocation, members: list[int]) -> MemoryBlock:
    s = allocation.storages
    arena = allocation.arenas[int(s.arena[members[0]])]
    alignment = max(arena.alignment, *(int(s.alignment[k]) for k in members))
    first = int(s.offset[members[0]])
    first -= first % alignment
    end = max(int(s.offset[k]) + max(1, int(s.bytes[k])) for k in members)
    return MemoryBlock(arena.name, first, end - first, alignment)
