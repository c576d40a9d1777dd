"""Differences from the model: a plan that may be right in itself, but does not belong to the model given with it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from tmmu.core.columns import NONE, Names
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Phase, Shares
from tmmu.examples.broken.editing import changed
from tmmu.planner.training.expand import expand_to_joint
from tmmu.plans import file
from tmmu.plans.columns import IS_INPUT, IS_OUTPUT, IS_SAVED, ROLES, SHARES
from tmmu.plans.sections import Plan, amend_plan
from tmmu.testing.catalogue.fault import Case, Fault, Injected, NoPlace, fault, in_case, require, some
from tmmu.testing.catalogue.reading import is_kept, is_view

CODE = "steps_are_the_model"


def _pick_row(plan: Plan, chance: random.Random) -> int:
    """Return a random tensor."""
    return some(chance, range(len(plan.allocation.tensors)))


@fault(CODE, with_model=True)
def other_operation(plan: Plan, chance: random.Random) -> Plan:
    """A step has another operator."""
    ops, op = plan.allocation.ops, plan.allocation.steps.op
    n = some(chance, range(len(op)))
    others = [k for k in range(len(ops)) if k != int(op[n])]
    more = amend_plan(plan, ops=ops if others else (*ops, ("", "Sin")))
    return changed(more, "steps", n, op=chance.choice(others or [len(ops)]))


def _other_entry(which: str) -> Callable[[Plan, random.Random], Plan]:
    def edit(plan: Plan, chance: random.Random) -> Plan:
        entries, rows = getattr(plan.allocation.steps, which).tolist(), range(len(plan.allocation.tensors))
        require(len(rows) > 1)
        k = some(chance, range(len(entries)))
        return changed(plan, "steps", k, **{which: chance.choice([r for r in rows if r != entries[k]])})

    edit.__name__, edit.__doc__ = f"other_{which}", f"A step {which} another tensor."
    return edit


other_reads, other_writes, other_mutates = (
    fault(CODE, with_model=True)(_other_entry(which)) for which in ("reads", "writes", "mutates")
)


@fault(CODE, with_model=True)
def other_node(plan: Plan, chance: random.Random) -> Plan:
    """A step belongs to a node that the model does not have."""
    names = [*plan.allocation.steps.node]
    names[some(chance, range(len(names)))] += "~"
    return amend_plan(plan, steps=replace(plan.allocation.steps, node=Names.of(names)))


@fault(CODE, with_model=True)
def renamed(plan: Plan, chance: random.Random) -> Plan:
    """A tensor has a name that the model does not have."""
    names = [*plan.allocation.tensors.name]
    # The tensors that the user donates must be there, or the command line is wrong.
    names[some(chance, [r for r, name in enumerate(names) if name not in plan.bindings.donated])] += "~"
    return amend_plan(plan, tensors=replace(plan.allocation.tensors, name=Names.of(names)))


@fault(CODE, with_model=True)
def other_size(plan: Plan, chance: random.Random) -> Plan:
    """A tensor has another number of bytes than in the model."""
    require(plan.envelope is None)
    r = _pick_row(plan, chance)
    old = int(plan.allocation.tensors.bytes[r])
    return changed(plan, "tensors", r, bytes=chance.choice([n for n in range(old + 9) if n != old]))


@fault(CODE, with_model=True)
def other_role(plan: Plan, chance: random.Random) -> Plan:
    """A tensor has another role."""
    r = _pick_row(plan, chance)
    others = [k for k in range(len(ROLES)) if k != plan.allocation.tensors.role[r]]
    return changed(plan, "tensors", r, role=chance.choice(others))


@fault(CODE, with_model=True)
def other_use(plan: Plan, chance: random.Random) -> Plan:
    """A tensor is an input, an output or saved, but not in the model, or the other way round."""
    r = _pick_row(plan, chance)
    # The role of a parameter states whether it is an input.
    bit = chance.choice((IS_OUTPUT, IS_SAVED) if is_kept(plan, r) else (IS_INPUT, IS_OUTPUT, IS_SAVED))
    return changed(plan, "tensors", r, flags=int(plan.allocation.tensors.flags[r]) ^ bit)


@fault(CODE, with_model=True)
def claimed_view(plan: Plan, chance: random.Random) -> Plan:
    """A tensor is declared to be a view, but is not one in the model, or has another base there."""
    t = plan.allocation.tensors
    require(len(t) > 1)
    r = _pick_row(plan, chance)
    now = int(t.of[r]) if is_view(plan, r) else NONE
    base = some(chance, [k for k in range(len(t)) if k not in (r, now)])
    return changed(plan, "tensors", r, shares=SHARES.index(Shares.VIEW), of=base)


@fault(CODE, with_model=True)
def other_conflict(plan: Plan, chance: random.Random) -> Plan:
    """A pair that must not alias is left out, or one that the model does not have is listed."""
    pairs, count = plan.allocation.must_not_alias, len(plan.allocation.tensors)
    if pairs and chance.random() < 0.5:
        gone = frozenset(chance.choice(pairs))
        return amend_plan(plan, must_not_alias=tuple(pair for pair in pairs if frozenset(pair) != gone))
    known = {frozenset(pair) for pair in pairs}
    free = [(a, b) for a in range(count) for b in range(a) if frozenset((a, b)) not in known]
    return amend_plan(plan, must_not_alias=(*pairs, some(chance, free)))


@fault(CODE, with_model=True)
def other_records(plan: Plan, chance: random.Random) -> Plan:
    """The unproduced names, the digest of the model file, or a binding are not those of the model."""
    how, absent = chance.randrange(4), plan.allocation.unproduced
    if how == 0:
        return amend_plan(plan, unproduced=() if absent and chance.random() < 0.5 else (*absent, "mark"))
    if how == 1:
        require(plan.origin.source_digest is not None)  # without a digest in the model, the plan may state any
        return amend_plan(plan, source_digest=chance.randbytes(32))
    if how == 2:
        dims = dict(plan.bindings.dims)
        dims["batch"] = dims.get("batch", 0) + 1
        return amend_plan(plan, bindings=replace(plan.origin.bindings, dims=dims))
    return amend_plan(plan, bindings=replace(plan.origin.bindings, donated=(*plan.bindings.donated, "nobody")))


@fault(CODE, with_model=True)
def weaker(plan: Plan, chance: random.Random) -> Plan:
    """A tensor is less aligned than the model requires."""
    alignment = plan.allocation.tensors.alignment.tolist()
    r = some(chance, [r for r, least in enumerate(alignment) if least > 1])
    return changed(plan, "tensors", r, alignment=chance.choice((alignment[r] // 2, 1, alignment[r] + 1)))


DIFFERENCES = tuple(each for each in list(vars().values()) if isinstance(each, Fault))
"""The faults that make a plan differ from the model."""


def _make_wrong(case: Case, chance: random.Random) -> Plan:
    """Return the plan with one thing wrong, or unchanged if there is no place for the fault."""
    try:
        plan: Plan = chance.choice(DIFFERENCES).edit(case.plan, chance)
    except NoPlace:
        return case.plan
    return plan


def wrong_besides(case: Case, chance: random.Random) -> bytes:
    """Return the file of a plan that is right, or not: a model that cannot be read or expanded is refused first."""
    return file.encode(_make_wrong(case, chance)) if chance.random() < 0.75 else case.plan_files[0]


@fault("MODE_VIOLATION", in_case, with_model=True)
def no_gradient(case: Case, chance: random.Random) -> Injected:
    """A plan, possibly wrong in another way, has the mode `backward`, but the model has no gradient."""
    nodes = case.model.nodes
    require(case.plan.origin.mode != "backward" and nodes and all(n.phase is not Phase.BACKWARD for n in nodes))
    try:
        expand_to_joint(case.model)
    except TmmuError as error:
        require(error.code_id == "MODE_VIOLATION")
        return Injected((file.encode(amend_plan(_make_wrong(case, chance), mode="backward")),))
    raise NoPlace
