"""The memory of the C: a block for each pool, or one for each arena, and the place of each tensor in them.

Weights, which only the caller writes and keeps, are in no block. Under the layouts `pools` and `hashed`, a block holds
storages that overlap each other: it is a pool or a hashed slot. Under any other layout, an arena is one block.
A caller who provides the memory provides one array for each arena, with its blocks in sequence.
spec: MC3.1, MC3.2, MC3.3, MC10.3
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tmmu.mico.identifiers import Identifiers
from tmmu.plans.allocation import Allocation
from tmmu.plans.sections import Plan


@dataclass(frozen=True)
class MemoryBlock:
    """Addresses of an arena that form one array: `bytes` from `first`, which is a multiple of `alignment`."""

    arena: str
    first: int
    bytes: int
    alignment: int


@dataclass(frozen=True)
class CallerMemory:
    """The memory that a caller provides for the blocks of an arena: `offsets` are the first byte of each block in it.

    `word` distinguishes the memories of several arenas; it is empty if there is one.
    """

    word: str
    bytes: int
    alignment: int
    offsets: Mapping[int, int]

    def name(self, what: str) -> str:
        """Return the name of its parameter, `memory` or `bytes`.

        >>> CallerMemory("", 8, 1, {}).name("bytes"), CallerMemory("sram", 8, 1, {}).name("memory")
        ('bytes', 'memory_sram')
        """
        return f"{what}_{self.word}" if self.word else what


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


def blocks_of_set(
    programs: Sequence[tuple[Plan, Collection[int]]], alignments: Mapping[str, int]
) -> tuple[list[MemoryBlock], list[dict[int, BlockPlace]]]:
    """Return a block for each arena that holds the storages of all programs, and the places in each program.

    Each program is given with its rows outside of the blocks, and each arena with the alignment of its base.
    O(n log n).
    """
    ends: dict[str, tuple[int, int]] = {}
    for plan, weights in programs:
        s, arenas = plan.allocation.storages, plan.allocation.arenas
        home = plan.allocation.tensors.storage.tolist()
        for k in {home[t] for t in range(len(home)) if t not in weights}:
            name, first = arenas[int(s.arena[k])].name, int(s.offset[k])
            low, high = ends.get(name, (first, 0))
            ends[name] = min(low, first), max(high, first + max(1, int(s.bytes[k])))
    blocks: list[MemoryBlock] = []
    number: dict[str, int] = {}
    for name in sorted(ends):
        first, end = ends[name]
        first -= first % alignments[name]
        number[name] = len(blocks)
        blocks.append(MemoryBlock(name, first, end - first, alignments[name]))
    places = []
    for plan, weights in programs:
        s, t, arenas = plan.allocation.storages, plan.allocation.tensors, plan.allocation.arenas
        of = [number.get(arenas[a].name, -1) for a in s.arena[t.storage].tolist()]
        at = plan.allocation.addresses().tolist()
        rows = (row for row in range(len(at)) if row not in weights)
        places.append({row: BlockPlace(of[row], at[row] - blocks[of[row]].first) for row in rows})
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


def memories_of(blocks: Sequence[MemoryBlock], alignments: Mapping[str, int]) -> list[CallerMemory]:
    """Return the memory for each arena, at least one: its blocks in sequence, each aligned.

    `alignments` are those that the base of each arena needs, so that every address is the plan's relative to it.
    O(blocks).
    """
    words = Identifiers()
    found: list[CallerMemory] = []
    arenas = dict.fromkeys(block.arena for block in blocks)
    for arena in arenas:
        end, alignment, at = 0, alignments[arena], dict[int, int]()
        for k, block in enumerate(blocks):
            if block.arena == arena:
                end += -end % block.alignment
                at[k] = end
                end += block.bytes
                alignment = max(alignment, block.alignment)
        found.append(CallerMemory(words.of(arena.lower()) if len(arenas) > 1 else "", end, alignment, at))
    return found or [CallerMemory("", 0, 1, {})]
