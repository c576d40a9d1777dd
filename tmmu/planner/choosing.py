"""Which of its arenas each storage lies in (M3).

All storages in their first choice is the first candidate. Where that does not fit, storages with one choice are placed
first, and the others come in an order, each to the first of its arenas that has room for its bytes at every step of
its life; the layout then says what the arenas need. A layout needs more than is live: what it was seen to lose is
kept free the next time. The first candidate that fits is taken, and where none does, the one that is least over.

The orders, one after the other: *hot first*, by accesses for each step alive (which is bytes moved for each byte and
step that is occupied); the order in which slots are given; and larger first. Where no order leads to a fit, storages
take the arena that is then left with the least room, instead of the first that has room. Then more and more of every
capacity is kept free, and all storages in their last choice come last. This is a heuristic: dividing storages among
arenas is as hard as packing bins. Nothing is timed and nothing is random. spec: M3.11, M3.12
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, product
from typing import Any

import numpy as np

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Arena, ArenaPolicy
from tmmu.planner.layouts.request import Request
from tmmu.planner.levels import Levels
from tmmu.planner.memories import Division, divide, strictest
from tmmu.planner.placed import Placed
from tmmu.planner.storages import Sharing

ROUNDS = 6
"""How often one order is tried, each time with what the layout was seen to lose kept free."""
EFFORT = 400_000
"""How many storages are laid out in all while candidates are tried; what M3.12 asks for is tried beyond that."""
INT64_SAFE = 1 << 62

Key = Callable[[Sharing, list[int], int], tuple[int, ...]]

ORDERS: tuple[Key, ...] = (
    lambda s, uses, k: (-(uses[k] << 64) // (s.death[k] - s.birth[k] + 1), s.birth[k], -s.bytes[k]),  # hot first
    lambda s, uses, k: (s.birth[k], -s.bytes[k]),  # as slots are given
    lambda s, uses, k: (-s.bytes[k] * (s.death[k] - s.birth[k] + 1), s.birth[k]),  # larger bytes x steps first
)
"""The orders in which storages choose; ties fall by name."""
SIMPLE = 1
"""The order of the simple greedy, which is always tried (M3.12)."""
SHARES = (64, 16, 4)
"""Which part of each capacity is kept free, one after the other, before all storages go to their last choice."""


@dataclass(frozen=True)
class Candidate:
    """Storages in arenas, laid out: `over` are the bytes that arenas and memories lack, 0 where everything fits."""

    request: Request
    placed: Placed
    over: int


def choose(
    sharing: Sharing,
    names: Sequence[str],
    uses: list[int],
    arenas: tuple[Arena, ...],
    policy: ArenaPolicy,
    lay: Callable[[Sharing], tuple[Request, Placed]],
) -> Candidate:
    """The first candidate that fits, or the one that is least over.

    Parameters
    ----------
    sharing
        The storages, with their choices.
    names, uses
        The name of each storage, and how often steps read or write it.
    arenas, policy
        Capacities of arenas and of memories.
    lay
        The layout: slots and addresses for storages in arenas.

    Raises
    ------
    TmmuError
        What `lay` raises, where it does so for every candidate.

    Notes
    -----
    At most `3 + len(SHARES) + 2 x ROUNDS x len(ORDERS)` layouts, and of large models `3 + len(SHARES) + EFFORT /
    storages`; and for each, for every storage and each of its choices, a look at the square root of its steps.
    """
    best: Candidate | None = None
    refusal: TmmuError | None = None
    tried: dict[tuple[int, ...], Candidate | None] = {}

    def attempt(arena: list[int]) -> Candidate | None:
        nonlocal best, refusal
        key = tuple(arena)
        if key in tried:
            return tried[key]
        tried[key] = None
        try:
            request, placed = lay(replace(sharing, arena=arena))
        except TmmuError as error:
            refusal = refusal or error
            return None
        tried[key] = found = Candidate(request, placed, _over(request, placed, arenas, policy))
        if best is None or found.over < best.over:
            best = found
        return found

    first = attempt([choices[0] for choices in sharing.choices])
    several = [k for k, choices in enumerate(sharing.choices) if len(choices) > 1]
    if several and (first is None or first.over):
        orders = [sorted(several, key=lambda k, key=key: (*key(sharing, uses, k), names[k])) for key in ORDERS]  # type: ignore[misc]  # a default binds the loop's value
        for tightest, order in product((False, True), orders):
            rounds = min(ROUNDS, EFFORT // len(sharing.root) - len(tried))
            if _fits_in(order, tightest, rounds, sharing, arenas, policy, attempt):
                break
        else:
            for kept in _last_resorts(arenas, policy):
                if best is not None and not best.over:
                    break
                attempt(_Filling(sharing, arenas, policy, kept).fill(orders[SIMPLE], tightest=False))
            if best is None or best.over:
                attempt([choices[-1] for choices in sharing.choices])
    if best is None:
        assert refusal is not None
        raise refusal
    return best


def _last_resorts(arenas: tuple[Arena, ...], policy: ArenaPolicy) -> list[list[int]]:
    """What to keep free in each arena where no order led to a fit: nothing, then more and more of what there is."""
    room = [arena.capacity for arena in arenas]
    for division in _memories(arenas, policy):
        for a in division.arenas:
            room[a] = min(room[a], division.capacity)
    return [[0] * len(arenas), *([size // share for size in room] for share in SHARES)]


def _memories(arenas: tuple[Arena, ...], policy: ArenaPolicy) -> list[Division]:
    """The memories that have arenas, while nothing is in them."""
    nothing = [0] * len(arenas)
    return divide(arenas, policy, nothing, nothing)


def _fits_in(
    order: list[int],
    tightest: bool,
    rounds: int,
    sharing: Sharing,
    arenas: tuple[Arena, ...],
    policy: ArenaPolicy,
    attempt: Callable[[list[int]], Candidate | None],
) -> bool:
    """Try one order, keeping more and more free, until a candidate fits or nothing new comes of it."""
    lost = [0] * len(arenas)
    for _ in range(rounds):
        filling = _Filling(sharing, arenas, policy, lost)
        found = attempt(filling.fill(order, tightest))
        if found is None:
            return False
        if not found.over:
            return True
        lost = _lost(found, filling, arenas, policy, lost)
    return False


def _over(request: Request, placed: Placed, arenas: tuple[Arena, ...], policy: ArenaPolicy) -> int:
    """The bytes by which arenas and memories are too small, all together."""
    divisions = divide(arenas, policy, placed.footprint, strictest(arenas, request.slots))
    beyond = [used - arena.capacity for used, arena in zip(placed.footprint, arenas, strict=True)]
    beyond += [division.end - division.capacity for division in divisions]
    return sum(max(0, excess) for excess in beyond)


def _lost(
    found: Candidate, filling: _Filling, arenas: tuple[Arena, ...], policy: ArenaPolicy, lost: list[int]
) -> list[int]:
    """What to keep free in each arena besides live bytes: in one that is too small, the share that its layout lost."""
    footprint = found.placed.footprint
    short = [used - arena.capacity for used, arena in zip(footprint, arenas, strict=True)]
    for division in divide(arenas, policy, footprint, strictest(arenas, found.request.slots)):
        for a in division.arenas:
            short[a] = max(short[a], division.end - division.capacity)
    new = list(lost)
    for a, excess in enumerate(short):
        if excess > 0:
            room = max(0, footprint[a] - excess)
            share = room - room * filling.top[a] // max(1, footprint[a])
            new[a] = share if share > lost[a] else lost[a] + excess
    return new


class _Filling:
    """Arenas as they fill up with some storages: the bytes live at each step of each, and the most at any."""

    def __init__(self, sharing: Sharing, arenas: tuple[Arena, ...], policy: ArenaPolicy, lost: list[int]) -> None:
        self.sharing, self.arenas, self.lost = sharing, arenas, lost
        self.size = [max(1, size) for size in sharing.bytes]
        self.last = max(sharing.death)
        total = sum(self.size)
        self.dtype: Any = np.int64 if total < INT64_SAFE else object
        self.live: dict[int, Levels] = {}
        self.top = [0] * len(arenas)
        self.shared: dict[int, tuple[int, list[int]]] = {
            a: (division.capacity, division.arenas) for division in _memories(arenas, policy) for a in division.arenas
        }
        # What holds all storages at once, one behind the other, is never full, whatever the layout: nobody has to know
        # what is live there.
        behind = len(self.size) * max(*sharing.alignment, *(arena.alignment for arena in arenas))
        self.ample = [
            a not in self.shared and total + behind + lost[a] <= arena.capacity for a, arena in enumerate(arenas)
        ]

    def fill(self, order: list[int], tightest: bool) -> list[int]:
        """The arena of each storage: those with one choice in it, then those of `order`, each where there is room.

        Where there is none it goes to its last choice, which is then too small.
        """
        arena = [choices[0] for choices in self.sharing.choices]
        moving = set(order)
        self._settle([k for k in range(len(arena)) if k not in moving], arena)
        for k in order:
            arena[k], top = self._pick(k, tightest)
            self._add(arena[k], k, top)
        return arena

    def _pick(self, k: int, tightest: bool) -> tuple[int, int]:
        """The first choice with room, or the one that is then left with the least; the last where none has room.

        With the most bytes that are live in it then (0 where that is not asked, and it has room for everything).
        """
        choices = self.sharing.choices[k]
        if not tightest:
            for a in choices:
                top = 0 if self.ample[a] else self._with(a, k)
                if self._has_room(a, top):
                    return a, top
        else:
            tops = {a: self._with(a, k) for a in choices}
            roomy = [a for a in choices if self._has_room(a, tops[a])]
            if roomy:
                found = min(roomy, key=lambda a: self.arenas[a].capacity - tops[a])
                return found, tops[found]
        return choices[-1], self._with(choices[-1], k)

    def _span(self, a: int, k: int) -> tuple[int, int]:
        """The steps at which a storage occupies its arena, the end excluded: all of them where it does not reuse."""
        return (self.sharing.birth[k], self.sharing.death[k] + 1) if self.arenas[a].reuse else (0, self.last + 1)

    def _levels(self, a: int) -> Levels:
        if a not in self.live:
            self.live[a] = Levels([0] * (self.last + 1), self.dtype)
        return self.live[a]

    def _settle(self, members: list[int], arena: list[int]) -> None:
        """Put many storages into their arenas at once. O(storages + steps of each arena)."""
        changes: dict[int, list[int]] = {}
        for k in members:
            change = changes.setdefault(arena[k], [0] * (self.last + 2))
            start, end = self._span(arena[k], k)
            change[start] += self.size[k]
            change[end] -= self.size[k]
        for a, change in changes.items():
            totals = list(accumulate(change[:-1]))
            self.live[a], self.top[a] = Levels(totals, self.dtype), max(totals)

    def _with(self, a: int, k: int) -> int:
        """The most bytes live in the arena if the storage lay there."""
        return max(self.top[a], self._levels(a).most(*self._span(a, k)) + self.size[k])

    def _has_room(self, a: int, top: int) -> bool:
        """Whether the arena may have `top` bytes live, besides what is kept free."""
        top += self.lost[a]
        if top > self.arenas[a].capacity:
            return False
        if a not in self.shared:
            return True
        capacity, together = self.shared[a]
        return top + sum(self.top[o] + self.lost[o] for o in together if o != a and self.top[o]) <= capacity

    def _add(self, a: int, k: int, top: int) -> None:
        """Put a storage into the arena, in which `top` bytes are live then."""
        if top:
            self.top[a] = top
            self._levels(a).add(*self._span(a, k), self.size[k])
