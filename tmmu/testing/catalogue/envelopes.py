"""Faults in sizes inside an envelope: fewer bytes than some shape needs, or sharing of sizes that differ."""

from __future__ import annotations

import random
from dataclasses import replace

from tmmu.core.columns import NONE, build_column
from tmmu.core.dims.expressions import evaluate, symbol
from tmmu.core.vocabulary import Shares
from tmmu.examples.broken.editing import changed
from tmmu.plans.columns import SHARES
from tmmu.plans.sections import Envelope, Plan, require_section
from tmmu.testing.catalogue.fault import Case, Injected, encoded, fault, in_case, require, some
from tmmu.testing.catalogue.model import wrong_besides


def _envelope(plan: Plan) -> Envelope:
    require(plan.envelope is not None)
    return require_section(plan.envelope, "envelope")


def _shapes(plan: Plan) -> list[dict[str, int]]:
    """Return every shape of the envelope, which has one dimension here."""
    ((name, (low, high)),) = plan.ranges.items()
    return [{name: size} for size in range(low, high + 1)]


@fault("sizes_over_envelope")
def planned_smaller(plan: Plan, chance: random.Random) -> Plan:
    """A tensor is planned with fewer bytes than it has at its largest."""
    require(plan.envelope is not None)
    size = plan.allocation.tensors.bytes.tolist()
    r = some(chance, [r for r, most in enumerate(size) if most])
    return changed(plan, "tensors", r, bytes=chance.randrange(size[r]))


# Only the naive checker checks where a size is stated to be largest, and declarations that share no bytes.


@fault("sizes_over_envelope", by_rows=False)
def larger_elsewhere(plan: Plan, chance: random.Random) -> Plan:
    """A tensor is stated to be largest at a shape at which it is smaller."""
    e = _envelope(plan)
    sizes, shapes, planned = plan.sizes(), _shapes(plan), plan.allocation.tensors.bytes.tolist()
    r, shape = some(chance, [
        (r, shape) for r in range(len(sizes)) for shape in shapes if evaluate(sizes[r], shape) != planned[r]
    ])  # fmt: skip
    points = build_column([*e.points.tolist(), *shape.values()], e.points.dtype.type)
    at = e.largest_at.copy()
    at[r] = len(e.points)
    return replace(plan, envelope=replace(e, points=points, largest_at=at))


@fault("sizes_over_envelope", by_rows=False)
def other_expression(plan: Plan, chance: random.Random) -> Plan:
    """The bytes of a tensor follow another expression, with another largest value."""
    e = _envelope(plan)
    most = [max(evaluate(size, shape) for shape in _shapes(plan)) for size in plan.sizes()]
    planned = plan.allocation.tensors.bytes.tolist()
    rows = range(len(most))
    r, other = some(chance, [(r, other) for r in rows for other in rows if most[other] != planned[r]])
    size = e.size.copy()
    size[r] = size[other]
    return replace(plan, envelope=replace(e, size=size))


@fault("sizes_over_envelope", by_rows=False)
def shared_at_some(plan: Plan, chance: random.Random) -> Plan:
    """A result is declared to be in place of an operand whose size differs at some shape."""
    require(plan.envelope is not None)
    sizes, shapes, t = plan.sizes(), _shapes(plan), plan.allocation.tensors
    r, of = some(chance, [
        (r, of) for r in range(len(t)) for of in range(len(t))
        if r != of and t.writer[r] != NONE and any(evaluate(sizes[r], x) != evaluate(sizes[of], x) for x in shapes)
    ])  # fmt: skip
    return changed(plan, "tensors", r, shares=SHARES.index(Shares.IN_PLACE), of=of)


@fault("INVALID_IR_SHAPES", in_case, with_model=True)
def negative(case: Case, chance: random.Random) -> Injected:
    """In the model, a tensor has a dimension that is negative at some shape of the envelope."""
    tensors, ranges = list(case.model.tensors), case.model.bindings.ranges
    require(ranges and tensors)
    ((name, (low, high)),) = ranges.items()
    at = chance.randrange(len(tensors))
    tensors[at] = replace(tensors[at], shape=(symbol(name, low, high) - low - chance.randrange(1, high - low + 1),))
    wrong = replace(case.model, tensors=tuple(tensors))
    return Injected((wrong_besides(case, chance),), model=encoded(wrong))
