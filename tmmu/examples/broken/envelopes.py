"""Plans for an envelope that do not hold at one of its shapes. spec: R6.1, R6.5, R6.6"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tmmu.core.columns import build_column
from tmmu.core.dims.expressions import symbol
from tmmu.core.vocabulary import Bindings, Body, Model, Node, Role, Tensor
from tmmu.examples.broken.editing import edit, in_place, laid_out, moved, right, row
from tmmu.examples.broken.kinds import Wrong, wrong
from tmmu.examples.broken.other_model import handed_out_with, plan_of
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.sections import Envelope, Plan

if TYPE_CHECKING:
    import onnx

RANGE = (1, 1000)
"""The range of `seq`; the cache of 1024 entries is longer."""


def _build_cached() -> onnx.ModelProto:
    """Build `tail = cache[seq:1024]`, which shrinks as `seq` grows, and `y = relu(x) + bias`, which grows."""
    from tmmu.examples.graph import OnnxGraph

    graph = OnnxGraph("cached")
    x, cache = graph.input("x", ("seq", 16)), graph.input("cache", (1024, 16))
    bias = graph.input("bias", (1, 16))
    start = graph.node("Slice", graph.node("Shape", x), graph.constant([0]), graph.constant([1]))
    tail = graph.node("Slice", cache, start, graph.constant([1024]), graph.constant([0]), result="tail")
    row_ = graph.node("Tanh", bias, result="row")
    made = graph.node("Add", graph.node("Relu", x, result="r"), row_, result="y")
    graph.output(tail, ("rest", 16))
    graph.output(made, ("seq", 16))
    return graph.model()


def _plan_cached() -> Plan:
    return plan_of(_build_cached(), Bindings(ranges={"seq": RANGE}))


def _envelope(plan: Plan) -> Envelope:
    assert plan.envelope is not None  # the plan has a range
    return plan.envelope


def _with_size(plan: Plan, tensor: str, size: int) -> Plan:
    """Return the plan with `size` bytes for `tensor`, laid out anew."""
    return laid_out(edit(plan, tensors={tensor: {"bytes": size}}))


def _largest_at(plan: Plan, tensor: str, seq: int) -> Plan:
    """Return the plan in which `tensor` is stated to be largest at `seq`."""
    envelope = _envelope(plan)
    points, at = [*envelope.points.tolist(), seq], envelope.largest_at.tolist()
    at[row(plan, tensor)] = len(points) - 1
    changed = replace(envelope, points=build_column(points, np.uint64), largest_at=build_column(at, np.uint32))
    return replace(plan, envelope=changed)


@wrong("sizes_over_envelope", "x")
def envelope_wider_than_its_sizes() -> Plan:
    """The sizes are those for `seq` up to 1000, and the plan states that it holds up to 1001."""
    plan = _plan_cached()
    return replace(plan, envelope=replace(_envelope(plan), ranges={"seq": (RANGE[0], RANGE[1] + 1)}))


@wrong("sizes_over_envelope", "tail")
def maximum_taken_at_the_upper_end() -> Plan:
    """`tail` has 1024 - `seq` rows, and is planned for the largest `seq`, at which it is smallest."""
    return _largest_at(_with_size(_plan_cached(), "tail", 64 * (1024 - RANGE[1])), "tail", RANGE[1])


@wrong("sizes_over_envelope", "tail")
def largest_at_another_shape() -> Plan:
    """The bytes of `tail` are right, but the shape that is stated to need them needs fewer."""
    return _largest_at(_plan_cached(), "tail", 2)


@wrong("sizes_over_envelope", "y", "row")
def broadcast_in_place_at_one_shape_only() -> Wrong:
    """`y` is planned in place of `row`, which is broadcast to it: the sizes are equal only if `seq` is 1."""
    return handed_out_with(_build_cached(), in_place(_plan_cached(), "y", "row"))


@wrong("sizes_over_envelope", "b", "a")
def in_place_of_what_shrinks_as_it_grows() -> Plan:
    """`a` has `n` elements and `b` 1001 - `n`: both have 1000 at most, but their sizes are never equal."""
    n = symbol("n", 1, 1000)
    shapes = {"x": (n,), "a": (n,), "b": (1001 - n,)}
    tensors = tuple(
        Tensor(name, shape, "float32", Role.INPUT if name == "x" else Role.ACTIVATION, 4000, 4)
        for name, shape in shapes.items()
    )
    nodes = (Node("make", "MatMul", (0, 0), (1,)), Node("relu", "Relu", (1,), (2,)))
    model = Model("shrinks", tensors, nodes, (Body(-1, "", (0,), (2,)),), bindings=Bindings(ranges={"n": (1, 1000)}))
    return in_place(right(model), "b", "a")


@wrong("sizes_over_envelope", "b", field="storages.offset")
def symbolic_offset_that_follows_from_no_slot() -> Plan:
    """Nothing overlaps, but `b` begins 128 bytes behind the end of the slots before its own."""
    n = symbol("n", 1, 1000)
    tensors = tuple(
        Tensor(name, (n,), "float32", Role.INPUT if name == "x" else Role.ACTIVATION, 4000, 4) for name in "xab"
    )
    nodes = (Node("first", "MatMul", (0, 0), (1,)), Node("second", "MatMul", (0, 1), (2,)))
    model = Model("chain", tensors, nodes, (Body(-1, "", (0,), (2,)),), bindings=Bindings(ranges={"n": (1, 1000)}))
    plan = plan_memory(model, options=PlanOptions(symbolic=True)).plan
    return moved(plan, "b", "b", 128)


@wrong("steps_are_the_model", "tail", field="bytes")
def open_size_stated_as_a_number() -> Wrong:
    """`tail` is stated to have its largest size at every shape, which is true of only one shape."""
    plan = _plan_cached()
    envelope = _envelope(plan)
    terms, sizes = envelope.terms, envelope.size.tolist()
    sizes[row(plan, "tail")] = len(terms)
    more = {"op": 0, "left": 0, "right": 0, "value": int(plan.allocation.tensors.bytes[row(plan, "tail")])}
    longer = {
        name: build_column([*getattr(terms, name).tolist(), value], getattr(terms, name).dtype.type)
        for name, value in more.items()
    }
    changed = replace(envelope, terms=replace(terms, **longer), size=build_column(sizes, np.uint32))
    return handed_out_with(_build_cached(), replace(plan, envelope=changed))
