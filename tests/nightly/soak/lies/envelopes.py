"""Lies about sizes inside an envelope: less than some shape needs, or bytes shared that are equal at one shape only."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.nightly.soak.lies.models import wrong_besides
from tests.nightly.soak.lies.telling import Files, Lie, of_plan
from tests.nightly.soak.scenes import Scene, encoded
from tmmu.core.columns import NONE, column
from tmmu.core.dims.expressions import evaluate, symbol
from tmmu.core.vocabulary import Shares
from tmmu.examples.broken.editing import changed
from tmmu.plan.columns import SHARES
from tmmu.plan.sections import Plan


def _shapes(plan: Plan) -> list[dict[str, int]]:
    """Every shape of the envelope, which has one dimension here."""
    ((name, (low, high)),) = plan.ranges.items()
    return [{name: size} for size in range(low, high + 1)]


def planned_smaller(plan: Plan, chance: random.Random) -> Plan | None:
    """A tensor is planned with fewer bytes than it has at its largest."""
    if plan.envelope is None:
        return None
    rows = [r for r in range(len(plan.allocation.tensors)) if plan.allocation.tensors.bytes[r]]
    if not rows:
        return None
    r = chance.choice(rows)
    return changed(plan, "tensors", r, bytes=chance.randrange(int(plan.allocation.tensors.bytes[r])))


def larger_elsewhere(plan: Plan, chance: random.Random) -> Plan | None:
    """A tensor is said to be largest at a shape where it is not."""
    if plan.envelope is None:
        return None
    sizes, shapes, e = plan.sizes(), _shapes(plan), plan.envelope
    found = [
        (r, shape) for r in range(len(plan.allocation.tensors)) for shape in shapes
        if evaluate(sizes[r], shape) != int(plan.allocation.tensors.bytes[r])
    ]  # fmt: skip
    if not found:
        return None
    r, shape = chance.choice(found)
    points = column([*e.points.tolist(), *shape.values()], e.points.dtype.type)
    at = e.largest_at.tolist()
    at[r] = len(e.points)
    return replace(plan, envelope=replace(e, points=points, largest_at=column(at, e.largest_at.dtype.type)))


def other_expression(plan: Plan, chance: random.Random) -> Plan | None:
    """A tensor's bytes follow another expression, with another largest value."""
    if plan.envelope is None:
        return None
    e, sizes = plan.envelope, plan.sizes()
    most = [max(evaluate(size, shape) for shape in _shapes(plan)) for size in sizes]
    found = [
        (r, other)
        for r in range(len(sizes))
        for other in range(len(sizes))
        if most[other] != plan.allocation.tensors.bytes[r]
    ]
    if not found:
        return None
    r, other = chance.choice(found)
    size = e.size.tolist()
    size[r] = size[other]
    return replace(plan, envelope=replace(e, size=column(size, e.size.dtype.type)))


def shared_at_some(plan: Plan, chance: random.Random) -> Plan | None:
    """A result is said to be in place of an operand whose size is another at some shape."""
    if plan.envelope is None:
        return None
    sizes, shapes, t = plan.sizes(), _shapes(plan), plan.allocation.tensors
    found = [
        (r, of) for r in range(len(t)) for of in range(len(t))
        if r != of and t.writer[r] != NONE and any(evaluate(sizes[r], x) != evaluate(sizes[of], x) for x in shapes)
    ]  # fmt: skip
    if not found:
        return None
    r, of = chance.choice(found)
    return changed(plan, "tensors", r, shares=SHARES.index(Shares.IN_PLACE), of=of)


def negative(scene: Scene, chance: random.Random) -> Files | None:
    """In the model a tensor has a dimension that is negative at some shape of the envelope."""
    model = scene.model
    if not model.bindings.ranges or not model.tensors:
        return None
    ((name, (low, high)),) = model.bindings.ranges.items()
    at, shape = (
        chance.randrange(len(model.tensors)),
        (symbol(name, low, high) - low - chance.randrange(1, high - low + 1),),
    )
    tensors = [replace(x, shape=shape) if t == at else x for t, x in enumerate(model.tensors)]
    wrong = replace(model, tensors=tuple(tensors))
    return Files((wrong_besides(scene, chance),), model=encoded(wrong))


LIES = (
    Lie("sizes_over_envelope", "planned_smaller", of_plan(planned_smaller)),
    Lie("sizes_over_envelope", "larger_elsewhere", of_plan(larger_elsewhere), by_rows=False),
    Lie("sizes_over_envelope", "other_expression", of_plan(other_expression), by_rows=False),
    Lie("sizes_over_envelope", "shared_at_some", of_plan(shared_at_some), by_rows=False),
    Lie("INVALID_IR_SHAPES", "negative", negative, with_model=True),
)
"""Where a plan says that a size is largest, and words on what shares no bytes, are for the naive checker alone."""
