"""Arenas while they are filled: find a choice with room for a storage's bytes at every step of its life.

spec: M3.10, M3.11
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from tmmu.planner.arenas.levels import Levels
from tmmu.planner.layouts.compiled import INT64_SAFE
from tmmu.planner.problem import AllocationProblem
from tmmu.plans.memories import Division, divide_memories


def find_memories(problem: AllocationProblem) -> list[Division]:
    """Return the memories that have arenas, with nothing in them."""
    nothing = [0] * len(problem.arenas)
    return divide_memories(problem.arenas, problem.policy, nothing, nothing)


class Filling:
    """Arenas while they are filled with storages: the live bytes at each step of each arena, and their maximum."""

    def __init__(self, problem: AllocationProblem, lost: list[int]) -> None:
        self.problem, self.lost = problem, lost
        self.size = [max(1, size) for size in problem.bytes]
        self.last = max(problem.death)
        total = sum(self.size)
        self.dtype: Any = np.int64 if total < INT64_SAFE else object
        self.live: dict[int, Levels] = {}
        self.top = [0] * len(problem.arenas)
        self.shared: dict[int, tuple[int, list[int]]] = {
            a: (division.capacity, division.arenas) for division in find_memories(problem) for a in division.arenas
        }
        # An arena that can hold all storages at once in sequence is never full in any layout, so that its live bytes
        # need not be known.
        behind = len(self.size) * max(*problem.alignment, *(arena.alignment for arena in problem.arenas))
        self.ample = [
            a not in self.shared and total + behind + lost[a] <= arena.capacity
            for a, arena in enumerate(problem.arenas)
        ]

    def fill(self, order: list[int], tightest: bool) -> list[int]:
        """Return the arena of each storage: first those with one choice, then those of `order`, each where it fits.

        A storage without room goes to its last choice, which is then too small.
        """
        arena = self.problem.preferred
        moving = set(order)
        self._settle([k for k in range(len(arena)) if k not in moving], arena)
        for k in order:
            arena[k], top = self._pick(k, tightest)
            self._add(arena[k], k, top)
        return arena

    def _pick(self, k: int, tightest: bool) -> tuple[int, int]:
        """Return the first choice with room, or the one left with the least room; the last choice if none has room.

        Also returns the most bytes live in it then, or 0 if it has room for everything and this need not be known.
        """
        choices = self.problem.choices[k]
        if not tightest:
            for a in choices:
                top = 0 if self.ample[a] else self._top_with(a, k)
                if self._has_room(a, top):
                    return a, top
        else:
            tops = {a: self._top_with(a, k) for a in choices}
            roomy = [a for a in choices if self._has_room(a, tops[a])]
            if roomy:
                found = min(roomy, key=lambda a: self.problem.arenas[a].capacity - tops[a])
                return found, tops[found]
        return choices[-1], self._top_with(choices[-1], k)

    def _span(self, a: int, k: int) -> tuple[int, int]:
        """Return the steps at which a storage occupies its arena, end excluded: all of them in a persistent arena."""
        return (
            (self.problem.birth[k], self.problem.death[k] + 1) if self.problem.arenas[a].reuse else (0, self.last + 1)
        )

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

    def _top_with(self, a: int, k: int) -> int:
        """Return the most bytes live in the arena if the storage is added."""
        return max(self.top[a], self._levels(a).most(*self._span(a, k)) + self.size[k])

    def _has_room(self, a: int, top: int) -> bool:
        """Return whether the arena may have `top` bytes live, in addition to the bytes kept free."""
        top += self.lost[a]
        if top > self.problem.arenas[a].capacity:
            return False
        if a not in self.shared:
            return True
        capacity, together = self.shared[a]
        return top + sum(self.top[o] + self.lost[o] for o in together if o != a and self.top[o]) <= capacity

    def _add(self, a: int, k: int, top: int) -> None:
        """Put a storage into the arena, which then has at most `top` bytes live."""
        if top:
            self.top[a] = top
            self._levels(a).add(*self._span(a, k), self.size[k])
