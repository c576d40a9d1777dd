"""Faults in shared bytes: stale reads, results over operands, false declarations, missing donations."""

from __future__ import annotations

import random

from tmmu.core.vocabulary import NodePart, Shares
from tmmu.examples.broken.editing import changed
from tmmu.plans.columns import PARTS, SHARES
from tmmu.plans.sections import Plan
from tmmu.testing.catalogue.fault import Case, Injected, fault, in_case, some
from tmmu.testing.catalogue.reading import (
    accesses,
    is_callers,
    is_kept,
    is_plain,
    is_view,
    meet,
    operator,
    returned,
    step_at,
    tables,
)

WHOLE_VIEWS = ("Reshape", "Identity", "Flatten", "Squeeze", "Unsqueeze")
"""The operators of ai.onnx whose result is a view of their whole operand."""


def _pair_operands(plan: Plan) -> list[tuple[int, int, int]]:
    """Return (step, result, operand) for steps that make no view and results that have separate bytes."""
    steps, size = plan.allocation.steps, plan.allocation.tensors.bytes
    found = []
    for n, (read, made, mutated) in enumerate(zip(*map(steps.listed, steps.LISTS), strict=True)):
        if operator(plan, n)[1] in WHOLE_VIEWS or PARTS[int(steps.part[n])] is not NodePart.WHOLE:
            continue
        found += [
            (n, w, r) for w in made if is_plain(plan, w) and w not in mutated and w not in read
            for r in dict.fromkeys(read) if size[w] and size[r]
        ]  # fmt: skip
    return found


def _put_into(plan: Plan, row: int, other: int, **fields: int) -> Plan:
    """Return the plan with a tensor in the bytes of another."""
    t = plan.allocation.tensors
    return changed(plan, "tensors", row, storage=int(t.storage[other]), window=int(t.window[other]), **fields)


@fault("sharing_is_sound")
def over_operand(plan: Plan, chance: random.Random) -> Plan:
    """A result is put onto an operand that a later step reads, without any declaration."""
    last = accesses(plan)
    found = [(w, r) for n, w, r in _pair_operands(plan) if last[r][-1] > n and not operator(plan, n)[0]]
    return _put_into(plan, *some(chance, found))


@fault("sharing_is_sound")
def declared_in_place(plan: Plan, chance: random.Random) -> Plan:
    """A result is declared to be in place of, or a view of, an operand, but its operator supports neither."""
    neither = (("", "MatMul"), ("", "Concat"), ("", "Split"))
    w, r = some(chance, [
        (w, r) for n, w, r in _pair_operands(plan) if operator(plan, n) in neither and not meet(plan, w, r)
    ])  # fmt: skip
    shares = chance.choice((Shares.IN_PLACE, Shares.VIEW, Shares.ALIAS))
    return _put_into(plan, w, r, shares=SHARES.index(shares), of=r)


@fault("sharing_is_sound")
def stale(plan: Plan, chance: random.Random) -> Plan:
    """A step overwrites a tensor that is still read; half of these faults declare an alias group."""
    t, used, mutates = plan.allocation.tensors, accesses(plan), plan.allocation.steps.listed("mutates")
    plain = [r for r in range(len(t)) if is_plain(plan, r) and t.bytes[r]]
    found = []
    for w in (w for w in plain if not is_callers(plan, w)):
        n = int(t.writer[w])
        for r in (r for r in plain if r != w and t.storage[r] != t.storage[w]):
            written = -1 if is_callers(plan, r) else int(t.writer[r])
            read = [step for step in used.get(r, []) if step > n]
            # A step that mutates it in between would write it again.
            changed_again = any(r in mutates[step] for step in read)
            if written < n and (read or returned(plan, r)) and not changed_again:
                found.append((w, r))
    w, r = some(chance, found)
    if chance.random() < 0.5:
        return _put_into(plan, w, r)
    return _put_into(plan, w, r, shares=SHARES.index(Shares.ALIAS), of=r)


@fault("sharing_is_sound")
def two_given(plan: Plan, chance: random.Random) -> Plan:
    """Two tensors that the caller writes overlap, and the lower one is read."""
    (t, s), used = tables(plan), accesses(plan)
    rows = [r for r in range(len(t)) if is_callers(plan, r) and is_plain(plan, r) and t.bytes[r]]
    return _put_into(plan, *some(chance, [
        (a, b) for a in rows for b in rows
        if t.storage[a] != t.storage[b] and s.arena[t.storage[a]] == s.arena[t.storage[b]]
        and t.bytes[a] <= t.bytes[b] and t.death[a] <= s.death[t.storage[b]] and t.alignment[a] <= t.alignment[b]
        and (used.get(b) or returned(plan, b) or is_kept(plan, b))
    ]))  # fmt: skip


@fault("sharing_is_sound")
def displaced(plan: Plan, chance: random.Random) -> Plan:
    """A view is not at the place of its base: it is at another byte of it, or in another storage."""
    t, s = tables(plan)
    views = [r for r in range(len(t)) if is_view(plan, r) and t.bytes[r] and not is_callers(plan, r)]
    r = some(chance, [r for r in views if not operator(plan, int(t.writer[r]))[0]])
    elsewhere = [k for k in range(len(s)) if k != t.storage[r]]
    if elsewhere and chance.random() < 0.5:
        return changed(plan, "tensors", r, storage=chance.choice(elsewhere))
    return changed(plan, "tensors", r, window=int(t.window[r]) + chance.randrange(1, 9))


@fault("sharing_is_sound")
def written_twice(plan: Plan, chance: random.Random) -> Plan:
    """A step writes a tensor that an earlier step wrote, and does not declare a mutation."""
    t, steps = plan.allocation.tensors, plan.allocation.steps
    at, writes, mutates = steps.writes_at.tolist(), steps.listed("writes"), steps.listed("mutates")
    found = []
    for k, w in enumerate(steps.writes.tolist()):
        n = step_at(at, k)
        found += [
            (k, r) for r in range(len(t))
            if r != w and r not in writes[n] and r not in mutates[n] and (t.writer[r] < n or is_callers(plan, r))
        ]  # fmt: skip
    k, r = some(chance, found)
    return changed(plan, "steps", k, writes=r)


@fault("sharing_is_sound")
def results_together(plan: Plan, chance: random.Random) -> Plan:
    """Two results of one step share a byte."""
    t = plan.allocation.tensors
    return _put_into(plan, *some(chance, [
        (a, b) for made in plan.allocation.steps.listed("writes") for a in made for b in made
        if a != b and all(is_plain(plan, r) and t.bytes[r] and not is_callers(plan, r) for r in (a, b))
    ]))  # fmt: skip


@fault("sharing_is_sound", in_case)
def not_given_up(case: Case, chance: random.Random) -> Injected:
    """The caller did not donate a tensor that a step mutates, although the plan states the donation."""
    plan, names = case.plan, case.plan.allocation.tensors.name
    changes = {names[r] for row in plan.allocation.steps.listed("mutates") for r in row if is_callers(plan, r)}
    kept = some(chance, sorted(changes & case.donated))
    return Injected(case.plan_files[:1], donated=case.donated - {kept})


@fault("sharing_is_sound", in_case)
def caller_in_place(case: Case, chance: random.Random) -> Injected:
    """The caller did not donate an input whose bytes a result takes in place."""
    plan, t = case.plan, case.plan.allocation.tensors
    of = [int(t.of[r]) for r in range(len(t)) if SHARES[int(t.shares[r])] is Shares.IN_PLACE and t.bytes[r]]
    taken = some(chance, [t.name[r] for r in of if is_callers(plan, r) and t.name[r] in case.donated])
    return Injected(case.plan_files[:1], donated=case.donated - {taken})
