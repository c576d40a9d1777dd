"""Plans in the order `memory` whose steps stand in an order that the model does not allow.

What is moved over a change reads other bytes than the model says, although every read comes after a write: only the
model shows it. spec: O1.6, V3.4
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tmmu import canonical
from tmmu.examples.broken.editing import edit, laid_out, reordered, right
from tmmu.examples.broken.kinds import Wrong, wrong
from tmmu.examples.broken.models import skip
from tmmu.examples.broken.sketch import Sketch
from tmmu.ir import columns
from tmmu.plan.columns import Plan
from tmmu.vocabulary import Model


def _changed() -> Model:
    """`t` is read by step 2, changed by step 3, and read again by step 4; step 1 makes `v`, which joins them."""
    m = Sketch("changed")
    x, w = m.input("x"), m.weight("w", 4096)
    t = m.node("MatMul", x, w, result="t")
    v = m.node("MatMul", x, w, result="v")
    before = m.node("MatMul", t, w, result="before")
    m.rewrite("Relu", t, result=t)
    after = m.node("MatMul", t, w, result="after")
    return m.model(m.node("Concat", before, after, v, result="y"))


def _in_order(model: Model, order: Sequence[int]) -> Wrong:
    """The right plan of the model in another order, said to be `memory`, handed out with the model as it is."""
    moved = right(replace(model, nodes=tuple(model.nodes[n] for n in order)))
    data = canonical.encode(columns.to_object(model))
    return Wrong(replace(moved, order="memory"), model=data, suffix=".ir.cbor")


@wrong("steps_are_the_model", "t")
def read_moved_after_a_change() -> Wrong:
    """The step that makes `before` of `t` stands after the step that changes `t`, and reads what that has left."""
    return _in_order(_changed(), (0, 1, 3, 2, 4, 5))


@wrong("lifetimes_cover_accesses", "d")
def memory_order_against_an_edge() -> Plan:
    """In the order `memory` the step that reads `d` stands before the step that makes it."""
    plan = reordered(right(skip(), order="memory"), (0, 1, 2, 4, 3))
    return laid_out(edit(plan, tensors={"d": {"writer": 4, "birth": 3, "death": 4}, "y": {"writer": 3, "birth": 3}}))
