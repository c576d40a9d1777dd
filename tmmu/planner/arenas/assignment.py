"""Assign each storage to one of its permitted arenas (M3).

First every storage is tried in its preferred arena. If that does not fit, storages with one choice are placed first.
The others follow in an order, each in the first of its arenas that has room for its bytes at every step of its life.
Each assignment is given slots and a layout, which show the footprints of the arenas. A layout needs more bytes than are
live: the bytes that it lost are kept free in the next attempt. The first solution that fits is taken, otherwise the one
that lacks the fewest bytes.

The orders are tried one after the other: *hot first*, by accesses for each step live (bytes moved for each byte and
step occupied); the order of the slot scan; and larger first. If no order leads to a fit, storages take the
arena that would be left with the least room, instead of the first that has room. Then an increasing part of every
capacity is kept free. Last, all storages take their last choice. This is a heuristic: dividing storages among arenas is
as hard as bin packing. It uses neither time nor randomness. spec: M3.11, M3.12
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

from tmmu.core.errors import TmmuError
from tmmu.planner import fixed, slots
from tmmu.planner.arenas.capacity import Shortfall, find_shortfalls
from tmmu.planner.arenas.filling import Filling, find_memories
from tmmu.planner.layouts import PLACE, pools
from tmmu.planner.problem import AllocationProblem
from tmmu.planner.slots import SlotAssignment
from tmmu.plans.sections import PlacementBound

ROUNDS = 6
"""How many times one order is tried, each time keeping free what the layout was seen to lose."""
EFFORT = 400_000
"""The most storages laid out in all attempts together; the attempts that M3.12 requires are made beyond it."""

Move = tuple[str, dict[str, Any]]
"""A recorded move that assigns a slot or a pool: the name of the event, and its facts."""

Key = Callable[[AllocationProblem, int], tuple[int, ...]]

KEYS: tuple[Key, ...] = (
    lambda p, k: (-(p.uses[k] << 64) // (p.death[k] - p.birth[k] + 1), p.birth[k], -p.bytes[k]),  # hot first
    lambda p, k: (p.birth[k], -p.bytes[k]),  # as slots are given
    lambda p, k: (-p.bytes[k] * (p.death[k] - p.birth[k] + 1), p.birth[k]),  # larger bytes x steps first
)
"""The orders of choice among storages; ties are broken by name."""
SIMPLE = 1
"""The index of the simple greedy order, which is always tried (M3.12)."""
SHARES = (64, 16, 4)
"""The divisors of each capacity to keep free, one after the other, before all storages take their last choice."""


@dataclass(frozen=True)
class Solution:
    """The arena and the offset of each storage, the slots, and the footprint of each arena.

    `short` are the arenas and memories that are too small, empty if everything fits. `moves` are the recorded
    assignments of slots, and of pools in that layout. `effort` and `bounds` are those of a search, if there was one.
    """

    arena: list[int]
    slots: SlotAssignment
    offset: Sequence[int]
    footprint: list[int]
    short: list[Shortfall]
    moves: list[Move]
    effort: int | None = None
    bounds: tuple[PlacementBound, ...] = ()

    @property
    def excess(self) -> int:
        """The bytes that all arenas and memories lack together."""
        return sum(short.required - short.capacity for short in self.short)


def lay_out(problem: AllocationProblem, arena: list[int], layout: str, *, recorded: bool = False) -> Solution:
    """Assign slots and addresses to storages whose arenas are chosen. Raises the errors of the layout."""
    moves: list[Move] = []
    record = (lambda event, **facts: moves.append((event, facts))) if recorded else None
    assigned = slots.assign_slots(problem, arena, record)
    place = partial(pools.place, observer=record) if layout == "pools" else PLACE[layout]
    offset, footprint = place(problem, assigned)
    if (refusal := fixed.misplaced_error(problem, arena, offset, layout)) is not None:
        raise refusal
    return Solution(arena, assigned, offset, footprint, find_shortfalls(problem, assigned, footprint), moves)


def assign_arenas(problem: AllocationProblem, layout: str, *, recorded: bool = False) -> Solution:
    """Return the first solution that fits, or the one that lacks the fewest bytes.

    Raises
    ------
    TmmuError
        The layout's error, if it raises one for every assignment.

    Notes
    -----
    At most `3 + len(SHARES) + 2 x ROUNDS x len(KEYS)` layouts, for large models `3 + len(SHARES) + EFFORT / storages`.
    Each layout, for every storage and each of its choices, also costs the square root of its steps.
    """
    several = [k for k, choices in enumerate(problem.choices) if len(choices) > 1]
    search = _Search(problem, layout, recorded, several)
    search.attempt(problem.preferred)
    if search.several and not search.fits:
        orders = [sorted(search.several, key=lambda k, key=key: (*key(problem, k), problem.name[k])) for key in KEYS]  # type: ignore[misc]  # a default binds the loop's value
        if not any(search.fits_in(order, tightest) for tightest, order in product((False, True), orders)):
            for kept in bytes_kept_free(problem):
                if search.fits:
                    break
                search.attempt(Filling(problem, kept).fill(orders[SIMPLE], tightest=False))
            if not search.fits:
                search.attempt([choices[-1] for choices in problem.choices])
    if search.best is None:
        assert search.refusal is not None
        raise search.refusal
    return search.best


def bytes_kept_free(problem: AllocationProblem) -> list[list[int]]:
    """Return the bytes to keep free in each arena if no order led to a fit: none, then increasing parts of the room."""
    room = [arena.capacity for arena in problem.arenas]
    for division in find_memories(problem):
        for a in division.arenas:
            room[a] = min(room[a], division.capacity)
    return [[0] * len(room), *([size // share for size in room] for share in SHARES)]


def measure_loss(found: Solution, filling: Filling) -> list[int]:
    """Return the bytes to keep free in each arena: in one that is too small, the share that its layout lost."""
    lost = list(filling.lost)
    for a, footprint in enumerate(found.footprint):
        excess = max((short.required - short.capacity for short in found.short if a in short.arenas), default=0)
        if excess:
            room = max(0, footprint - excess)
            share = room - room * filling.top[a] // max(1, footprint)
            lost[a] = share if share > lost[a] else lost[a] + excess
    return lost


@dataclass
class _Search:
    """The assignments tried so far, each laid out, and the best solution among them."""

    problem: AllocationProblem
    layout: str
    recorded: bool
    several: list[int]
    """The storages with several choices: their arenas identify an assignment."""
    tried: dict[tuple[int, ...], Solution | None] = field(default_factory=dict)
    best: Solution | None = None
    refusal: TmmuError | None = None

    @property
    def fits(self) -> bool:
        """Whether a solution fits."""
        return self.best is not None and not self.best.short

    def attempt(self, arena: list[int]) -> Solution | None:
        """Lay out these arenas, once for each assignment. Returns None if the layout refuses them."""
        key = tuple(arena[k] for k in self.several)
        if key not in self.tried:
            self.tried[key] = None
            try:
                found = lay_out(self.problem, arena, self.layout, recorded=self.recorded)
            except TmmuError as error:
                self.refusal = self.refusal or error
                return None
            self.tried[key] = found
            if self.best is None or found.excess < self.best.excess:
                self.best = found
        return self.tried[key]

    def fits_in(self, order: list[int], tightest: bool) -> bool:
        """Try one order, keeping more bytes free each time, until a solution fits or the attempts are used up."""
        lost = [0] * len(self.problem.arenas)
        for _ in range(min(ROUNDS, EFFORT // len(self.problem) - len(self.tried))):
            filling = Filling(self.problem, lost)
            found = self.attempt(filling.fill(order, tightest))
            if found is None:
                return False
            if not found.short:
                return True
            lost = measure_loss(found, filling)
        return False
