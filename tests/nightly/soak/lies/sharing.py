"""Lies about whose bytes are whose: stale reads, results over operands, words that do not hold, donations not made."""

from __future__ import annotations

import random

from tests.nightly.soak.lies.telling import (
    Files,
    Lie,
    accesses,
    is_callers,
    is_kept,
    is_plain,
    is_view,
    meet,
    of_plan,
    returned,
    row_bounds,
)
from tests.nightly.soak.scenes import Scene
from tests.support.recipes import WHOLE_VIEWS
from tests.support.small import changed
from tmmu.core.vocabulary import NodePart, Shares
from tmmu.plan import file
from tmmu.plan.columns import PARTS, SHARES
from tmmu.plan.sections import Plan


def _operands(plan: Plan) -> list[tuple[int, int, int]]:
    """(step, result, operand) of steps that make no view, where the result has bytes of its own."""
    found = []
    lists = (plan.allocation.steps.listed(which) for which in ("reads", "writes", "mutates"))
    for n, (read, made, mutated) in enumerate(zip(*lists, strict=True)):
        op = plan.allocation.ops[int(plan.allocation.steps.op[n])][1]
        if op in WHOLE_VIEWS or PARTS[int(plan.allocation.steps.part[n])] is not NodePart.WHOLE:
            continue
        found += [
            (n, w, r) for w in made if is_plain(plan, w) and w not in mutated and w not in read
            for r in dict.fromkeys(read) if plan.allocation.tensors.bytes[w] and plan.allocation.tensors.bytes[r]
        ]  # fmt: skip
    return found


def _into(plan: Plan, row: int, other: int, **fields: int) -> Plan:
    """A tensor is put into the bytes of another."""
    t = plan.allocation.tensors
    return changed(plan, "tensors", row, storage=int(t.storage[other]), window=int(t.window[other]), **fields)


def over_operand(plan: Plan, chance: random.Random) -> Plan | None:
    """A result is put onto an operand that a later step reads, without a word."""
    last = accesses(plan)
    found = [
        (w, r)
        for n, w, r in _operands(plan)
        if last[r][-1] > n and plan.allocation.ops[int(plan.allocation.steps.op[n])][0] == ""
    ]
    return _into(plan, *chance.choice(found)) if found else None


def said_in_place(plan: Plan, chance: random.Random) -> Plan | None:
    """A result is said to be in place of, or a view of, an operand by an operator that can do neither."""
    found = [
        (w, r) for n, w, r in _operands(plan)
        if plan.allocation.ops[int(plan.allocation.steps.op[n])] in (("", "MatMul"), ("", "Concat"), ("", "Split"))
        and not meet(plan, w, r)
    ]  # fmt: skip
    if not found:
        return None
    w, r = chance.choice(found)
    word = chance.choice((Shares.IN_PLACE, Shares.VIEW, Shares.ALIAS))
    return _into(plan, w, r, shares=SHARES.index(word), of=r)


def stale(plan: Plan, chance: random.Random) -> Plan | None:
    """A step writes over what a later step, or the caller, still reads; half of them call it an alias group."""
    t, used = plan.allocation.tensors, accesses(plan)
    found = []
    for w in range(len(t)):
        if is_callers(plan, w) or not is_plain(plan, w) or not t.bytes[w]:
            continue
        n = int(t.writer[w])
        for r in range(len(t)):
            if r == w or not is_plain(plan, r) or not t.bytes[r] or t.storage[r] == t.storage[w]:
                continue
            written = -1 if is_callers(plan, r) else int(t.writer[r])
            read = [step for step in used.get(r, []) if step > n]
            # A step that changes it between would write it again.
            changed_again = any(r in plan.allocation.steps.listed("mutates")[step] for step in read)
            if written < n and (read or returned(plan, r)) and not changed_again:
                found.append((w, r))
    if not found:
        return None
    w, r = chance.choice(found)
    if chance.random() < 0.5:
        return _into(plan, w, r)
    return _into(plan, w, r, shares=SHARES.index(Shares.ALIAS), of=r)


def _given_pairs(plan: Plan) -> list[tuple[int, int]]:
    """(one, other): two that the caller writes; `other` is read, and has room for `one` in bytes, steps and arena."""
    t, s, used = plan.allocation.tensors, plan.allocation.storages, accesses(plan)
    rows = [r for r in range(len(t)) if is_callers(plan, r) and is_plain(plan, r) and t.bytes[r]]
    return [
        (a, b) for a in rows for b in rows
        if t.storage[a] != t.storage[b] and s.arena[t.storage[a]] == s.arena[t.storage[b]]
        and t.bytes[a] <= t.bytes[b] and t.death[a] <= s.death[t.storage[b]] and t.alignment[a] <= t.alignment[b]
        and (used.get(b) or returned(plan, b) or is_kept(plan, b))
    ]  # fmt: skip


def two_given(plan: Plan, chance: random.Random) -> Plan | None:
    """What the caller writes lies over something else that it writes, which is read, be itself read or not."""
    pairs = _given_pairs(plan)
    return _into(plan, *chance.choice(pairs)) if pairs else None


def displaced(plan: Plan, chance: random.Random) -> Plan | None:
    """A view lies where its base does not: at another byte of it, or in another storage."""
    t = plan.allocation.tensors
    views = [r for r in range(len(t)) if is_view(plan, r) and t.bytes[r] and not is_callers(plan, r)]
    by_table = [r for r in views if plan.allocation.ops[int(plan.allocation.steps.op[int(t.writer[r])])][0] == ""]
    if not by_table:
        return None
    r = chance.choice(by_table)
    homes = [k for k in range(len(plan.allocation.storages)) if k != t.storage[r]]
    if homes and chance.random() < 0.5:
        return changed(plan, "tensors", r, storage=chance.choice(homes))
    return changed(plan, "tensors", r, window=int(t.window[r]) + chance.randrange(1, 9))


def written_twice(plan: Plan, chance: random.Random) -> Plan | None:
    """A step writes what an earlier one wrote, and does not call it a change."""
    t, at, writes = (
        plan.allocation.tensors,
        plan.allocation.steps.writes_at.tolist(),
        plan.allocation.steps.writes.tolist(),
    )
    mutates = plan.allocation.steps.listed("mutates")
    found = []
    for k, w in enumerate(writes):
        first, end = row_bounds(at, k)
        n = max(step for step, bound in enumerate(at) if bound == first and at[step + 1] > k)
        found += [
            (k, r) for r in range(len(t))
            if r != w and r not in writes[first:end] and r not in mutates[n]
            and (int(t.writer[r]) < n or is_callers(plan, r))
        ]  # fmt: skip
    if not found:
        return None
    k, r = chance.choice(found)
    return changed(plan, "steps", k, writes=r)


def results_together(plan: Plan, chance: random.Random) -> Plan | None:
    """Two results of one step share a byte."""
    pairs = [
        (a, b) for made in plan.allocation.steps.listed("writes") for a in made for b in made
        if a != b and is_plain(plan, a) and is_plain(plan, b) and plan.allocation.tensors.bytes[[a, b]].all()
        and not is_callers(plan, a) and not is_callers(plan, b)
    ]  # fmt: skip
    return _into(plan, *chance.choice(pairs)) if pairs else None


def not_given_up(scene: Scene, chance: random.Random) -> Files | None:
    """The caller did not give up what a step changes, whatever the plan says that it did."""
    plan = scene.plan
    names = plan.allocation.tensors.name.list()
    changes = {names[r] for row in plan.allocation.steps.listed("mutates") for r in row if is_callers(plan, r)}
    kept = sorted(changes & scene.donated)
    if not kept:
        return None
    return Files((file.encode(plan),), donated=scene.donated - {chance.choice(kept)})


def caller_in_place(scene: Scene, chance: random.Random) -> Files | None:
    """The caller did not give up an input whose bytes a result takes in place."""
    plan = scene.plan
    t = plan.allocation.tensors
    names = t.name.list()
    taken = [
        names[int(t.of[r])] for r in range(len(t))
        if SHARES[int(t.shares[r])] is Shares.IN_PLACE and t.bytes[r]
        and is_callers(plan, int(t.of[r])) and names[int(t.of[r])] in scene.donated
    ]  # fmt: skip
    return Files((file.encode(plan),), donated=scene.donated - {chance.choice(taken)}) if taken else None


LIES = (
    *(
        Lie("sharing_is_sound", tell.__name__, of_plan(tell))
        for tell in (over_operand, said_in_place, stale, two_given, displaced, written_twice, results_together)
    ),
    Lie("sharing_is_sound", "not_given_up", not_given_up),
    Lie("sharing_is_sound", "caller_in_place", caller_in_place),
)
