"""Check tensors whose offsets in their arenas are fixed, by the user or by the plan's own provenance.

An offset is one of an arena. The user names the arena, or leaves it out if the configuration permits one arena only for
the tensor, by its role or a rule. The tensor must then be in that arena. The offsets that a model fixes are compared
with the model (`proofs.definition.model.compare_tensors`). spec: A10.6, A10.7, A10.8
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from proofs.definition.checker.arenas import BY_ROLE, rule_of
from proofs.definition.violations import Obligation, Violation
from tmmu.core.columns import NONE
from tmmu.core.output import suggest_names
from tmmu.core.vocabulary import FixedByte, Role, Shares
from tmmu.plans.columns import ROLES, SHARES
from tmmu.plans.configuration_file import Configuration
from tmmu.plans.sections import ArenaUse, BufferPlan, ClaimedConfiguration, Plan

PROVENANCE, USER = "provenance.fixed", "--fix"
"""The sources of a mapping of offsets."""

PlacedByte = tuple[str | None, int]
"""The name of an arena, None for any, and a byte of it."""


def find_arenas(
    plan: Plan | BufferPlan, asked: Mapping[str, FixedByte], given: Configuration | None = None
) -> dict[str, PlacedByte]:
    """Return the offsets that the user requests, each with its arena. O(tensors x rules).

    The configuration is `given`, else the one that the plan claims. A name that the plan does not have gets no arena.
    Raises ValueError for an arena that the plan does not have, and if no arena is named and several may hold the
    tensor.
    """
    if not asked:
        return {}
    names = [arena.name for arena in plan.placement.arenas]
    tensors = plan.allocation.tensors.name if isinstance(plan, Plan) else plan.buffers.name
    row = {name: k for k, name in enumerate(tensors) if name in asked}
    permitted = _permitted(plan, list(row.values()), given)
    found: dict[str, PlacedByte] = {}
    for name, place in asked.items():
        arena, byte = place if isinstance(place, tuple) else (None, place)
        if arena is not None and arena not in names:
            hint = suggest_names(arena, names, f"there are {', '.join(names)}")
            raise ValueError(f"{name}={arena}:{byte}: the plan has no arena {arena!r}; {hint}")
        if arena is None and name in row:
            if len(may := permitted[row[name]]) != 1:
                how = f"name one, as in {name}={(may or names)[0]}:{byte}"
                raise ValueError(f"{name}={byte}: {', '.join(may) or 'no arena'} may hold it; {how}")
            arena = may[0]
        found[name] = arena, byte
    return found


def _permitted(plan: Plan | BufferPlan, rows: Sequence[int], given: Configuration | None) -> dict[int, list[str]]:
    """Return the arenas that may hold each of some tensors: all arenas if no configuration is known."""
    everywhere = [arena.name for arena in plan.placement.arenas]
    if len(everywhere) == 1 or not isinstance(plan, Plan):
        return dict.fromkeys(rows, everywhere)
    if given is not None:
        names = [arena.name for arena in given.arenas]
        configuration = ClaimedConfiguration(tuple(map(ArenaUse.of, given.arenas)), given.policy)
    elif plan.claims is not None and plan.claims.configuration is not None:
        names, configuration = everywhere, plan.claims.configuration
    else:
        return dict.fromkeys(rows, everywhere)
    rules, found = rule_of(plan, configuration.policy), {}
    for row in rows:
        shown = _shown(plan, row)
        role, rule = ROLES[plan.allocation.tensors.role[shown]], int(rules[shown])
        if role == Role.SCRATCH:
            found[row] = everywhere
        elif rule == BY_ROLE:
            found[row] = [name for name, use in zip(names, configuration.uses, strict=True) if role in use.roles]
        else:
            found[row] = list(configuration.policy.rules[rule].arenas)
    return found


def _shown(plan: Plan, row: int) -> int:
    """Return the tensor whose bytes a view shows, as the plan states it. A tensor that is not a view shows itself."""
    t, seen = plan.allocation.tensors, {NONE}
    while SHARES[t.shares[row]] == Shares.VIEW and row not in seen and int(t.of[row]) != NONE:
        seen.add(row)
        row = int(t.of[row])
    return row


def find_misplaced(plan: Plan | BufferPlan, asked: Mapping[str, PlacedByte], by: str) -> Iterator[Violation]:
    """Yield every tensor or buffer that is missing or does not begin at its requested offset. O(tensors)."""
    if not asked:
        return
    if isinstance(plan, Plan):
        names, offsets = plan.allocation.tensors.name, plan.allocation.addresses().tolist()
        arenas = plan.allocation.storages.arena[plan.allocation.tensors.storage].tolist()
    else:
        names, offsets = plan.buffers.name, plan.buffers.storages.offset.tolist()
        arenas = plan.buffers.storages.arena.tolist()
    found = {
        name: (plan.placement.arenas[arena].name, offset)
        for name, offset, arena in zip(names, offsets, arenas, strict=True)
        if name in asked
    }
    for name, (arena, byte) in asked.items():
        if name in found and found[name][1] == byte and arena in (None, found[name][0]):
            continue
        here = f"{found[name][1]} of arena {found[name][0]!r}" if name in found else "no such tensor"
        there = f"byte {byte}" if arena is None else f"byte {byte} of arena {arena!r}"
        text = f"{by} asks for {name!r} at {there}; it is at {here}"
        stated = _written(*found[name], arena) if name in found else "no such tensor"
        yield Violation(
            Obligation.OFFSETS_ARE_FIXED,
            text,
            (name,),
            field=by,
            stated=stated,
            recomputed=_written(arena, byte, arena),
        )


def _written(arena: str | None, byte: int, asked: str | None) -> str:
    """Return an offset as text, with its arena if one is requested."""
    return str(byte) if asked is None else f"{arena}:{byte}"
