"""Choose the values to recompute so that a training graph fits a budget: try several policies, keep the cheapest.

A policy is judged by the plan that it leads to: the bytes of storages, with views and in-place results, that are live
at one step in the arenas that reuse bytes. First a policy must fit. Then the fewest repeated operations win, then the
lower peak, then the earlier policy. spec: M1.8, M1.10, M1.11
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ANYWHERE, UINT64_END, ArenaConfiguration, ArenaPolicy, Model
from tmmu.ir.program import build_program
from tmmu.planner import aliasing, liveness
from tmmu.planner.problem import AllocationProblem, problem_of_plan
from tmmu.planner.remat import schedules
from tmmu.planner.remat.rewrite import Joint, Policy, Schedule, apply_script, build_joint, rewrite
from tmmu.planner.remat.strategies import EXHAUSTIVE, Classes, all_policies, chen_policy, segment_policies
from tmmu.plans.sections import Plan

EFFORT, LIMIT = 80_000, 400_000
"""Bounds of the time: the nodes planned while one policy is improved, and while policies are tried, approximately."""


def rematerialise(
    joint: Model, arenas: tuple[ArenaConfiguration, ...], budget: int, arena_policy: ArenaPolicy = ANYWHERE
) -> Model:
    """Return `joint` with forward values recomputed so that at most `budget` bytes are live at a step.

    Parameters
    ----------
    joint
        A graph with both halves; if it fits already, it is returned unchanged.
    arenas, arena_policy
        Where tensors are placed: the bytes of all arenas that reuse bytes are added up.
    budget
        Bytes.

    Raises
    ------
    TmmuError
        ARENA_TOO_SMALL if no policy fits, with the least peak reached.

    Notes
    -----
    `spec/tmmu.md` M1.8 to M1.11. Some hundred policies at O(nodes + accesses) each.
    """
    search = _Search(build_joint(joint), arenas, budget, arena_policy)
    if search.unchanged <= budget:
        return joint
    best = search.best()
    if best is None:
        raise TmmuError(
            "ARENA_TOO_SMALL",
            f"the budget of {budget} bytes is too small: at least {search.least} are live at one step "
            f"({search.unchanged} without recomputation)",
            place="activations and gradients",
            fix="raise the budget, or plan smaller shapes",
            arena="activations",
            capacity=budget,
            required=search.least,
        )
    return best.model


def measure_peak(model: Model, arenas: tuple[ArenaConfiguration, ...], arena_policy: ArenaPolicy = ANYWHERE) -> int:
    """Return the most bytes live at one step in all arenas that reuse bytes, in mode backward. O(nodes + accesses)."""
    run = build_program(model)
    alias = aliasing.form_storages(run, liveness.analyze(run, "backward"), arenas, "backward", policy=arena_policy)
    return _reused_peak(alias.storages)


def _reused_peak(problem: AllocationProblem) -> int:
    """Return the most bytes live at one step in all arenas that reuse bytes."""
    return max(problem.live_bytes([k for k, a in enumerate(problem.preferred) if problem.arenas[a].reuse]))


def check_budget(plan: Plan, budget: int) -> None:
    """Raise ARENA_TOO_SMALL if a plan has more than `budget` bytes live at a step in the arenas that reuse bytes.

    A graph is fitted in its given order and with results in place. Another order, or a layout without in-place results,
    may need more. spec: M1.11
    """
    if (found := _reused_peak(problem_of_plan(plan))) > budget:
        raise TmmuError(
            "ARENA_TOO_SMALL",
            f"{found} bytes are live at one step in this layout and order, the budget is {budget}",
            place="activations and gradients",
            fix="raise the budget, or choose another layout or order",
            arena="activations",
            capacity=budget,
            required=found,
        )


@dataclass
class _Search:
    """The policies tried so far, and the least peak that one of them reached."""

    joint: Joint
    arenas: tuple[ArenaConfiguration, ...]
    budget: int
    arena_policy: ArenaPolicy = ANYWHERE
    tried: dict[Policy, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.classes = Classes(self.joint)
        self.unchanged = self.least = measure_peak(self.joint.model, self.arenas, self.arena_policy)
        self.spent = 0

    def judge(self, policy: Policy) -> tuple[int, int]:
        """Return the peak and the repeated operations of a policy."""
        if policy not in self.tried:
            made = rewrite(self.joint, policy)
            self.tried[policy] = self._peak(made) if made.complete else UINT64_END, made.cost
        return self.tried[policy]

    def _peak(self, made: Schedule) -> int:
        self.spent += len(made.nodes)
        found = measure_peak(made.model, self.arenas, self.arena_policy)
        self.least = min(self.least, found)
        return found

    def best(self) -> Schedule | None:
        """Return the schedule to use, or None if none fits."""
        by_policy = self._best_policy()
        return self._search_schedules(None if by_policy is None else by_policy.cost) or by_policy

    def _search_schedules(self, known: int | None) -> Schedule | None:
        """Search a moderate graph for a schedule that is cheaper than `known` and fits without in-place results."""
        script = schedules.find_cheapest(self.joint, self.arenas, self.budget, known, self.arena_policy)
        made = None if script is None else apply_script(self.joint, script)
        return made if made is not None and self._peak(made) <= self.budget else None

    def _best_policy(self) -> Schedule | None:
        """Return the cheapest policy that fits; for a small graph, among all policies."""
        if len(self.classes.roots) <= EXHAUSTIVE:
            return self._cheapest_of_all()
        self.judge(chen_policy(self.classes))
        self._drop_by_worth()
        for policy in segment_policies(self.classes):
            if self.spent < LIMIT:
                self.judge(policy)
        for policy in sorted(self._fitting(), key=self._rank)[:3]:
            self._improve(policy)
        best = min(self._fitting(), key=self._rank, default=None)
        return None if best is None else rewrite(self.joint, best)

    def _fitting(self) -> list[Policy]:
        return [policy for policy, (found, _) in self.tried.items() if found <= self.budget]

    def _rank(self, policy: Policy) -> tuple[int, int]:
        found, cost = self.tried[policy]
        return cost, found

    def _cheapest_of_all(self) -> Schedule | None:
        """Try every policy by its cost, until one fits."""
        priced = sorted(
            (rewrite(self.joint, policy).cost, k, policy) for k, policy in enumerate(all_policies(self.classes))
        )
        for _, _, policy in priced:
            if self.judge(policy)[0] <= self.budget:
                return rewrite(self.joint, policy)
        return None

    def _drop_by_worth(self) -> None:
        """Drop the values that free the most bytes for an operation: the fewest that fit, by bisection."""
        every = self.classes.all
        order = self.classes.by_worth
        for held in (None, frozenset[int]()):
            low, high = 0, len(order)
            while low < high:
                middle = (low + high) // 2
                if self.judge(Policy(every - frozenset(order[:middle]), held))[0] <= self.budget:
                    high = middle
                else:
                    low = middle + 1
            self.judge(Policy(every - frozenset(order[:low]), held))

    def _improve(self, policy: Policy) -> None:
        """Keep the values that cost most to repeat for their bytes: first as a block by bisection, then one by one."""
        cost, tensors, limit = self.joint.cost, self.joint.model.tensors, self.spent + EFFORT

        def worth(root: int) -> tuple[int, int]:
            return -(cost[self.joint.writer[root]] << 64) // (tensors[root].bytes + 1), root

        order = sorted(self.classes.all - policy.kept, key=worth)
        low, high = 0, len(order)
        while low < high:
            middle = (low + high + 1) // 2
            if self.judge(Policy(policy.kept | frozenset(order[:middle]), policy.held))[0] <= self.budget:
                low = middle
            else:
                high = middle - 1
        policy = self._better(policy, Policy(policy.kept | frozenset(order[:low]), policy.held))
        for root in order[low:]:
            if self.spent > limit:
                return
            policy = self._better(policy, Policy(policy.kept | {root}, policy.held))
            if policy.held is not None and root not in policy.held:
                policy = self._better(policy, Policy(policy.kept, policy.held | {root}))

    def _better(self, policy: Policy, other: Policy) -> Policy:
        """Return `other` if it fits and repeats less, or repeats the same with a lower peak; otherwise `policy`."""
        fits = self.judge(other)[0] <= self.budget
        return other if fits and self._rank(other) < self._rank(policy) else policy
