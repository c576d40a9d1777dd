"""The part of a plan that can be verified: storages in arenas, and the steps that use them. It is complete by itself.

An `Allocation` has steps with their reads, writes and mutations. `Buffers` have only lifetimes, for producers that
state no accesses. Both are a `Placement`, on which no live overlap, alignment and capacity are defined.
spec: P2.1, P2.6
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tmmu.core.columns import U64, Names
from tmmu.core.vocabulary import UINT64_END
from tmmu.plans.columns import Bodies, Steps, Storages, Tensors, Waits


@dataclass(frozen=True, slots=True)
class Arena:
    """A contiguous part of a memory: its capacity, its alignment, and whether bytes are reused.

    Every address in it is a multiple of `alignment`. If `reuse` is False, no two storages share a byte at any step. If
    `scattered` is True, addresses are spread over 64 bits (layout `hashed`), and `capacity` bounds the bytes behind
    them. `base_alignment` is the alignment of the base of its memory, or 0 if that is `alignment`.
    """

    name: str
    capacity: int = UINT64_END - 1
    alignment: int = 1
    reuse: bool = True
    scattered: bool = False
    base_alignment: int = 0

    @property
    def stated_base(self) -> int:
        """The alignment that its base is stated to have, or 0 if none is: an alignment of 1 alone states none.

        >>> Arena("a", alignment=64).stated_base, Arena("a", base_alignment=1).stated_base, Arena("a").stated_base
        (64, 1, 0)
        """
        return self.base_alignment or (self.alignment if self.alignment != 1 else 0)

    @property
    def limit(self) -> int:
        """The end of the address range, which no storage exceeds."""
        return UINT64_END if self.scattered else self.capacity


@dataclass(frozen=True)
class Placement:
    """Storages with lifetimes and addresses in arenas; `must_not_alias` are pairs of rows that may share no byte."""

    arenas: tuple[Arena, ...]
    storages: Storages
    must_not_alias: tuple[tuple[int, int], ...]

    @property
    def last_step(self) -> int:
        """The last step at which any storage can be live."""
        raise NotImplementedError

    def storage_names(self) -> list[str]:
        """Return the name of each storage in messages."""
        raise NotImplementedError

    def storages_apart(self) -> list[tuple[int, int]]:
        """Return the pairs of storages that `must_not_alias` keeps apart."""
        raise NotImplementedError

    def needed_base_alignments(self) -> dict[str, int]:
        """Return the alignment that the base of each arena needs, by name: the largest of its own and its storages'.

        No tensor needs more than its storage. O(storages). spec: V1.17
        """
        strictest = np.array([arena.alignment for arena in self.arenas], np.uint64)
        np.maximum.at(strictest, self.storages.arena, self.storages.alignment)
        return dict(zip((arena.name for arena in self.arenas), strictest.tolist(), strict=True))


@dataclass(frozen=True)
class Allocation(Placement):
    """The steps of a plan, its tensors and their sharing, and the place of each storage.

    `ops` are (domain, operator) pairs, `dtypes` names of `tmmu.core.dtypes`. `must_not_alias` are pairs of tensor rows.
    `unproduced` are optional outputs that no step reads and that have no shape (T9). `streams` are the names of the
    streams that steps run on; without any, all steps run one after another (X5).
    """

    ops: tuple[tuple[str, str], ...]
    dtypes: tuple[str, ...]
    tensors: Tensors
    steps: Steps
    bodies: Bodies
    unproduced: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()

    @property
    def waits(self) -> Waits:
        """The direct waits of steps for other steps, as two columns."""
        return self.steps.waits()

    @property
    def last_step(self) -> int:
        """The last step, 0 for a plan without steps: persistent tensors and outputs live to it."""
        return max(0, len(self.steps) - 1)

    def storage_names(self) -> list[str]:
        """Return each storage by the name of its first tensor. O(tensors)."""
        first = np.full(len(self.storages), -1)
        having = np.flatnonzero(self.tensors.storage < len(self.storages))[::-1]
        first[self.tensors.storage[having]] = having  # the first is written last
        names = self.tensors.name.list()
        return [names[t] if t >= 0 else f"storage {k}" for k, t in enumerate(first.tolist())]

    def storages_apart(self) -> list[tuple[int, int]]:
        """Return the storages of the tensors that must not alias."""
        home = self.tensors.storage
        return [(int(home[a]), int(home[b])) for a, b in self.must_not_alias]

    def addresses(self) -> U64:
        """Return the arena offset of each tensor: its storage's offset plus its window. O(tensors); wraps at 2**64."""
        result: U64 = self.storages.offset[self.tensors.storage] + self.tensors.window
        return result


@dataclass(frozen=True)
class Buffers(Placement):
    """Named storages with lifetimes and no accesses; `must_not_alias` are pairs of storage rows."""

    name: Names

    @property
    def last_step(self) -> int:
        """The last death."""
        return int(self.storages.death.max(initial=0))

    def storage_names(self) -> list[str]:
        """Return the names that the plan states."""
        return self.name.list()

    def storages_apart(self) -> list[tuple[int, int]]:
        """Return the stated pairs."""
        return list(self.must_not_alias)


def state_base_alignments(allocation: Allocation) -> Allocation:
    """Return the allocation with the base alignment of each arena that holds a stricter storage than itself.

    spec: A11.1
    """
    needed = zip(allocation.arenas, allocation.needed_base_alignments().values(), strict=True)
    arenas = tuple(replace(arena, base_alignment=base if base > arena.alignment else 0) for arena, base in needed)
    return replace(allocation, arenas=arenas)
