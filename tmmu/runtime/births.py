"""The content of storages of reused arenas at their birth: zeros, or a debug pattern (A6).

Zeroing is free while an arena is fresh: ApplyPlan zeroed it whole, and no storage of it has died since. Persistent
arenas are never zeroed again. spec: U2.9, U2.10, X4.9
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tmmu.plans.sections import Plan
from tmmu.runtime.filling import fill_storage, zero_tensor
from tmmu.runtime.memory import MappedMemory


class Births:
    """The storages of a plan as they are born, step by step, batch after batch.

    Parameters
    ----------
    plan, memory
        A plan and its arenas, whose reused ones are zero.
    debug_seed, execution_mode
        Write the pattern of this seed, instead of zeros, to storages.

    Attributes
    ----------
    born, overwritten
        The storages that were born at the begin of the last batch or step, and those of them that were overwritten;
        none of a fresh arena.
    """

    def __init__(
        self, plan: Plan, memory: MappedMemory, debug_seed: int | None = None, execution_mode: str = "local"
    ) -> None:
        self.plan, self.memory, self.debug_seed, self.execution_mode = plan, memory, debug_seed, execution_mode
        s = plan.allocation.storages
        # The leave of exclusive branches may write over the output of a branch, which it reads first.
        left = np.isin(s.birth, plan.allocation.bodies.leave[plan.allocation.bodies.exclusive == 1])
        reused = np.flatnonzero(np.array([arena.reuse for arena in plan.allocation.arenas], np.bool_)[s.arena] & ~left)
        self._born = reused[np.argsort(s.birth[reused], kind="stable")]
        self._birth = s.birth[self._born]
        end = len(plan.allocation.steps) + 1
        self._first_death = [int(s.death[s.arena == a].min(initial=end)) for a in range(len(plan.allocation.arenas))]
        self._fresh = [arena.reuse for arena in plan.allocation.arenas]
        self._last = -1
        self._kept: frozenset[int] = frozenset()
        self.born: list[int] = []
        self.overwritten: list[int] = []

    def begin(self, *, is_fresh: bool, kept: Collection[int] = ()) -> None:
        """Begin a batch: storages that live from step 0 on are born.

        `is_fresh`: the arenas are as ApplyPlan made them. `kept` are storages whose bytes another program of a plan set
        has left for this batch: they are born without being overwritten.
        """
        self._kept = frozenset(kept)
        if not is_fresh:
            self._fresh = [False] * len(self._fresh)
        self._last = -1
        self._bear(0)

    def step(self, step: int) -> None:
        """Begin a step: storages that live from it on are born. A step of a body may begin again and again.

        Raises INVALID_ADDRESS if a storage is outside of its arena.
        """
        self.born, self.overwritten = [], []
        if step > 0:
            self._bear(step)

    def _bear(self, step: int) -> None:
        for a, death in enumerate(self._first_death):
            if step <= self._last or death < step:
                self._fresh[a] = False
        self._last = step
        first, end = np.searchsorted(self._birth, [step, step + 1]).tolist()
        self.born = self._born[first:end].tolist()
        self.overwritten = [k for k in self.born if k not in self._kept and self._overwrite(k)]

    def _overwrite(self, k: int) -> bool:
        s = self.plan.allocation.storages
        a = int(s.arena[k])
        if self.debug_seed is not None:
            fill_storage(self.plan, self.memory, self.debug_seed, k, self.execution_mode)
        elif not self._fresh[a]:
            zero_tensor(self.memory, (self.plan.allocation.arenas[a].name, int(s.offset[k])), int(s.bytes[k]))
        return self.debug_seed is not None or not self._fresh[a]
