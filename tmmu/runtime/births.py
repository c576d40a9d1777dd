"""What reused arenas hold where something is born: zeros, or a debug pattern (A6).

Zeros cost nothing as long as an arena is fresh: zeroed whole by ApplyPlan, and no storage of it has died since.
Persistent arenas are never zeroed again. spec: U2.9, U2.10, X4.9
"""

from __future__ import annotations

import numpy as np

from tmmu.plans.sections import Plan
from tmmu.runtime.filling import fill_storage, zero_tensor
from tmmu.runtime.memory import MappedMemory


class Births:
    """The storages of a plan as they are born, step by step, batch after batch.

    Parameters
    ----------
    plan, memory
        A plan and its arenas, zero where they are reused.
    debug_seed, execution_mode
        Give storages the pattern of this seed in place of zeros.

    Attributes
    ----------
    born, overwritten
        The storages that were born when the last batch or step began, and those of them that were overwritten; none
        of an arena that is fresh.
    """

    def __init__(
        self, plan: Plan, memory: MappedMemory, debug_seed: int | None = None, execution_mode: str = "local"
    ) -> None:
        self.plan, self.memory, self.debug_seed, self.execution_mode = plan, memory, debug_seed, execution_mode
        s = plan.allocation.storages
        # What the leave of exclusive arms writes may lie where an arm's output still is, which it takes first.
        left = np.isin(s.birth, plan.allocation.bodies.leave[plan.allocation.bodies.exclusive == 1])
        reused = np.flatnonzero(np.array([arena.reuse for arena in plan.allocation.arenas], np.bool_)[s.arena] & ~left)
        self._born = reused[np.argsort(s.birth[reused], kind="stable")]
        self._birth = s.birth[self._born]
        end = len(plan.allocation.steps) + 1
        self._first_death = [int(s.death[s.arena == a].min(initial=end)) for a in range(len(plan.allocation.arenas))]
        self._fresh = [arena.reuse for arena in plan.allocation.arenas]
        self._last = -1
        self.born: list[int] = []
        self.overwritten: list[int] = []

    def begin(self, *, is_fresh: bool) -> None:
        """A batch begins, and what lives from step 0 is born. `is_fresh`: the arenas are as ApplyPlan has made them."""
        if not is_fresh:
            self._fresh = [False] * len(self._fresh)
        self._last = -1
        self._begun(0)

    def step(self, step: int) -> None:
        """A step begins, and what lives from it on is born. A step of a body may begin again and again.

        Raises INVALID_ADDRESS where a storage lies outside of its arena.
        """
        self.born, self.overwritten = [], []
        if step > 0:
            self._begun(step)

    def _begun(self, step: int) -> None:
        for a, death in enumerate(self._first_death):
            if step <= self._last or death < step:
                self._fresh[a] = False
        self._last = step
        first, end = np.searchsorted(self._birth, [step, step + 1]).tolist()
        self.born = self._born[first:end].tolist()
        self.overwritten = [k for k in self.born if self._overwrite(k)]

    def _overwrite(self, k: int) -> bool:
        s = self.plan.allocation.storages
        a = int(s.arena[k])
        if self.debug_seed is not None:
            fill_storage(self.plan, self.memory, self.debug_seed, k, self.execution_mode)
        elif not self._fresh[a]:
            zero_tensor(self.memory, (self.plan.allocation.arenas[a].name, int(s.offset[k])), int(s.bytes[k]))
        return self.debug_seed is not None or not self._fresh[a]
