"""Check which arenas a tensor may be in, and that the arenas of a memory fit into it: the checker's own reading.

Rules are read from the last to the first, each over all tensors at once, so that the first rule that matches prevails.
A tensor's node is the step that writes it or, if no step writes it, the first that reads it. A view is in the arena of
the tensor that it shows, whatever the rules state about it. Scratch may be in any arena, because its node may request a
separate one. spec: M3.7, M3.8, M3.10, M3.16, T2.9, T2.7, T3.3
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proofs.definition.checker.program import PlacedStorages, Program
from proofs.definition.violations import Obligation, Violation
from proofs.readers.patterns import Patterns
from tmmu.core.columns import NONE
from tmmu.core.vocabulary import ArenaPolicy, Role
from tmmu.plans.columns import ROLES
from tmmu.plans.sections import ClaimedConfiguration, Plan

Mask = NDArray[np.bool_]
BY_ROLE = -1
"""No rule matches: the tensor's role decides its arena."""


class ArenaPlace(NamedTuple):
    """The place of an arena in its memory: it begins at `base`, a multiple of `alignment`.

    The arena before it begins at `before` and needs `needs` bytes; both are 0 for the first.
    """

    memory: str
    capacity: int
    arena: int
    before: int
    needs: int
    base: int
    alignment: int


def _any(patterns: Sequence[str], texts: Sequence[str]) -> Mask:
    """Return which of the texts match one of the patterns."""
    return np.fromiter(map(Patterns(patterns).match, texts), np.bool_, len(texts))


def steps_of(plan: Plan) -> NDArray[np.int64]:
    """Return the step of each tensor's node, or the number of steps if no step accesses the tensor."""
    count = len(plan.allocation.steps)
    first = np.full(len(plan.allocation.tensors), count, np.int64)
    lengths = (plan.allocation.steps.reads_at[1:] - plan.allocation.steps.reads_at[:-1]).astype(np.int64)
    reading = np.repeat(np.arange(count), lengths)
    np.minimum.at(first, plan.allocation.steps.reads.astype(np.int64), reading)
    written = plan.allocation.tensors.writer != NONE
    first[written] = plan.allocation.tensors.writer[written]
    return first


def rule_of(plan: Plan, policy: ArenaPolicy) -> NDArray[np.int64]:
    """Return, for each tensor, the row of the first rule that matches it, or BY_ROLE."""
    found = np.full(len(plan.allocation.tensors), BY_ROLE, np.int64)
    if not policy.rules:
        return found
    at, nowhere = steps_of(plan), np.zeros(1, np.bool_)
    of_op = plan.allocation.steps.op.astype(np.int64)
    operators = [name for _, name in plan.allocation.ops]

    def by_op(patterns: Sequence[str]) -> Mask:
        return _any(patterns, operators)[of_op]

    device = np.full(len(plan.allocation.steps) + 1, BY_ROLE, np.int64)
    for d, table in reversed(list(enumerate(policy.devices))):
        device[:-1][_any(table.nodes, plan.allocation.steps.node.list()) | by_op(table.ops)] = d
    number = {table.name: d for d, table in enumerate(policy.devices)}
    for r, rule in reversed(list(enumerate(policy.rules))):
        meant = np.ones(len(plan.allocation.tensors), np.bool_)
        if rule.roles:
            meant &= np.isin(plan.allocation.tensors.role, [ROLES.index(role) for role in rule.roles])
        if rule.names:
            meant &= _any(rule.names, plan.allocation.tensors.name.list())
        if rule.ops:
            meant &= np.concatenate([by_op(rule.ops), nowhere])[at]
        if rule.devices:
            meant &= np.isin(device[at], [number[name] for name in rule.devices])
        found[meant] = r
    return found


def check_arena_assignment(plan: Plan, configuration: ClaimedConfiguration, run: Program) -> Iterator[Violation]:
    """Check that a tensor is in an arena that its rule lists or, if no rule matches, that holds its role.

    Views are exempt.
    """
    policy = configuration.policy
    by_role = [frozenset(a for a, use in enumerate(configuration.uses) if role in use.roles) for role in ROLES]
    number = {arena.name: a for a, arena in enumerate(plan.allocation.arenas)}
    by_rule = [frozenset(number[name] for name in rule.arenas) for rule in policy.rules]
    scratch = ROLES.index(Role.SCRATCH)
    roles, rules = plan.allocation.tensors.role.tolist(), rule_of(plan, policy).tolist()
    for i, (t, role, rule) in enumerate(zip(run.tensors, roles, rules, strict=True)):
        if i in run.views or role == scratch:
            continue
        here = run.arenas[t.arena].name
        if rule == BY_ROLE and t.arena not in by_role[role]:
            text = f"{t.name} has the role {ROLES[role]}, which {here} does not hold"
        elif rule != BY_ROLE and t.arena not in by_rule[rule]:
            listed = ", ".join(policy.rules[rule].arenas)
            text = f"{t.name} is in {here}; rule {rule + 1} allows {listed}"
        else:
            continue
        last = t.address + max(0, t.bytes - 1)
        yield Violation(Obligation.ROLES_HAVE_ARENAS, text, (t.name,), None, here, t.address, last)


def places(configuration: ClaimedConfiguration, needs: Sequence[int], strictest: Sequence[int]) -> list[ArenaPlace]:
    """Return the places of the arenas of each memory that need any byte, one behind the other in the order of the plan.

    `needs` are the bytes of each arena, `strictest` the strictest alignment in it.
    """
    capacity = {(d.name, m.name): m.capacity for d in configuration.policy.devices for m in d.memories}
    last: dict[tuple[str, str], tuple[int, int]] = {}
    found = []
    for a, (need, alignment, use) in enumerate(zip(needs, strictest, configuration.uses, strict=True)):
        key = use.device, use.memory
        if key not in capacity or not need:
            continue
        before, needed = last.get(key, (0, 0))
        base = -(-(before + needed) // alignment) * alignment
        last[key] = base, need
        found.append(ArenaPlace("/".join(key), capacity[key], a, before, needed, base, alignment))
    return found


def check_memory_capacity(configuration: ClaimedConfiguration, run: PlacedStorages) -> Iterator[Violation]:
    """Check that the arenas of a memory end within its capacity."""
    strictest = [max(arena.alignment, arena.base) for arena in run.arenas]
    for s in run.storages:
        strictest[s.arena] = max(strictest[s.arena], s.alignment)
    for place in places(configuration, [arena.footprint for arena in run.arenas], strictest):
        arena = run.arenas[place.arena]
        end = place.base + arena.footprint
        if end > place.capacity:
            members = [k for k, s in enumerate(run.storages) if s.arena == place.arena]
            highest = max(members, key=lambda k: run.storages[k].offset + run.storages[k].bytes, default=None)
            names = () if highest is None else (run.storage_names[highest],)
            text = (
                f"{arena.name} begins at byte {place.base} of the memory {place.memory} and ends at {end}; "
                f"it has {place.capacity}"
            )
            first = max(0, place.capacity - place.base)
            yield Violation(Obligation.CAPACITY, text, names, None, arena.name, first, arena.footprint - 1)
