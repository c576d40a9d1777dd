"""The reasons for the place of each storage, computed from the plan, so that each reason is true of it.

A plan states the arena of a storage and the rules, not why the planner chose it. For each choice that was passed over
this looks at the other storages in the plan: the step where the storage would be too much, and by how many bytes.
spec: M3.14, M3.15
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from tmmu.core.output import format_size
from tmmu.core.vocabulary import Shares
from tmmu.planner.arenas import permitted
from tmmu.planner.arenas.permitted import PermittedArenas
from tmmu.plans.columns import SHARES
from tmmu.plans.memories import Division, divide_memories, strictest_alignments
from tmmu.plans.metrics import compute_footprints
from tmmu.plans.sections import Plan, arena_configurations


def divisions(plan: Plan) -> list[Division]:
    """How the arenas of a plan divide its memories."""
    arenas, s = arena_configurations(plan), plan.allocation.storages
    alignments = zip(s.arena.tolist(), s.alignment.tolist(), strict=True)
    return divide_memories(
        arenas, plan.configuration.policy, compute_footprints(plan.allocation), strictest_alignments(arenas, alignments)
    )


def remarks(plan: Plan) -> Iterator[str]:
    """How far each memory is filled, and which rules decide for no tensor; nothing where neither is claimed."""
    if plan.claims is None or plan.claims.configuration is None:
        return
    for memory in divisions(plan) if plan.configuration.policy.devices else ():
        parts = ", ".join(plan.allocation.arenas[a].name for a in memory.arenas)
        yield (
            f"  memory {memory.name}: {parts} end at {memory.end} of {memory.capacity} ({format_size(memory.capacity)})"
        )
    if plan.configuration.policy.rules:
        used = {found.rule for found in permitted.permitted_arenas_of_plan(plan)}
        for r in range(len(plan.configuration.policy.rules)):
            if r not in used:
                yield f"  rule {r + 1} decides for no tensor: its patterns match none, or earlier rules come first"


def rows(plan: Plan) -> list[dict[str, Any]]:
    """One record a storage, in row order: its bytes, lifetime, arena and offset, its choices, and the reasons."""
    s, members = plan.allocation.storages, _members(plan)
    looked_up = permitted.permitted_arenas_of_plan(plan)
    names, arena_names = plan.allocation.tensors.name.list(), [arena.name for arena in plan.allocation.arenas]
    room = _Room(plan)
    columns = (s.arena, s.bytes, s.birth, s.death, s.offset)
    result = []
    for k, (arena, count, birth, death, offset) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        found = looked_up[members[k]] if k in members else PermittedArenas((), None)
        result.append(
            {
                "storage": k, "name": names[members[k]] if k in members else f"storage {k}",
                "arena": arena_names[arena], "offset": offset, "bytes": count, "birth": birth, "death": death,
                "choices": [arena_names[a] for a in found.choices],
                "why": _why(plan, found, arena, k, room),
            }
        )  # fmt: skip
    return result


def _members(plan: Plan) -> dict[int, int]:
    """The first tensor of each storage that is not a view: the rule that matches it holds for the storage."""
    views = SHARES.index(Shares.VIEW)
    first: dict[int, int] = {}
    for wanted in (False, True):
        for t, (k, word) in enumerate(
            zip(plan.allocation.tensors.storage.tolist(), plan.allocation.tensors.shares.tolist(), strict=True)
        ):
            if (word == views) == wanted:
                first.setdefault(k, t)
    return first


def _why(plan: Plan, found: PermittedArenas, arena: int, k: int, room: _Room) -> str:
    """One sentence without its stop."""
    if arena not in found.choices:
        return "its node asks for this arena"
    if found.rule is None:
        return "the arena of its role"
    if len(found.choices) == 1:
        return f"pinned by rule {found.rule + 1}"
    place = found.choices.index(arena)
    which = f"choice {place + 1} of rule {found.rule + 1}"
    return "; ".join([which, *(room.full(other, k) for other in found.choices[:place])])


class _Room:
    """The live storages in each arena at each step, computed on first use."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.footprint = plan, compute_footprints(plan.allocation)
        self.live: dict[int, list[int]] = {}
        self.division = {a: division for division in divisions(plan) for a in division.arenas}

    def _live(self, arena: int) -> list[int]:
        if arena not in self.live:
            plan, s = self.plan, self.plan.allocation.storages
            end = plan.allocation.last_step + 1
            change = [0] * (end + 1)
            here = s.arena == arena
            for birth, death, count in zip(
                s.birth[here].tolist(), s.death[here].tolist(), s.bytes[here].tolist(), strict=True
            ):
                first, last = (birth, min(death, end - 1)) if plan.allocation.arenas[arena].reuse else (0, end - 1)
                change[first] += max(1, count)
                change[last + 1] -= max(1, count)
            self.live[arena] = list(accumulate(change[:-1]))
        return self.live[arena]

    def full(self, arena: int, k: int) -> str:
        """Return the reason why the storage `k` is not in `arena`, a permitted one."""
        plan, live = self.plan, self._live(arena)
        where = plan.allocation.arenas[arena]
        first, last = int(plan.allocation.storages.birth[k]), int(plan.allocation.storages.death[k])
        if not where.reuse:
            first, last = 0, len(live) - 1
        step = max(range(first, last + 1), key=lambda n: live[n])
        needed = live[step] + max(1, int(plan.allocation.storages.bytes[k]))
        if needed > where.capacity:
            return f"{where.name} is full at step {step}, by {needed - where.capacity} bytes"
        division = self.division.get(arena)
        if division is not None:
            others = sum(self.footprint[a] for a in division.arenas if a != arena)
            if (excess := others + max(needed, plan.usage[arena].peak_live_bytes or 0) - division.capacity) > 0:
                return f"the memory {division.name} of {where.name} is full at step {step}, by {excess} bytes"
        return f"{where.name} has room for it live, but no place was found: it needs {self.footprint[arena]} as it is"


def line(row: dict[str, Any]) -> str:
    """A row as text."""
    where = f"{row['arena']} [{row['offset']}, {row['offset'] + row['bytes']})"
    return f"{row['name']}  {where}  steps [{row['birth']}, {row['death']}]  {row['why']}"
