"""The operands that If, Loop and Scan give their bodies, and the results that they make of the bodies' results.

A body that may run more than once is resolved once, with the shapes that its values have in the first iteration. By
induction, every later iteration has the same shapes if the body returns its states with the shapes that it was given,
which is checked. The branches of an If whose condition is not known must agree. spec: T8.1, T10.5
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import onnx

from tmmu.core.dims.expressions import Dim, format_dim
from tmmu.core.dims.operations import maximum_of, minimum_of
from tmmu.core.errors import TmmuError
from tmmu.onnx.sizes import Array, Size, Type, refuse
from tmmu.onnx.structure import GraphScope
from tmmu.onnx.table import row_of

Sizes = Sequence[Size]


def check_bodies(node: onnx.NodeProto, place: str, bodies: Sequence[GraphScope], version: int) -> None:
    """Raise INVALID_IR if a node's bodies are not those of its operator, or do not fit its operands and results."""
    if {body.attribute for body in bodies} != set(row_of("", node.op_type).bodies):
        raise _make_refusal(
            place, f"{node.op_type} must not have the bodies {', '.join(sorted(body.attribute for body in bodies))}"
        )
    if node.op_type == "Scan" and version < 9:
        raise refuse("INVALID_IR", place, "Scan of opset 8 is not supported", "convert the model to opset 9 or later")
    if node.op_type == "If" and len(node.input) != 1:
        raise _make_refusal(place, f"expected one input, the condition, got {len(node.input)}")
    if not all(node.input[2 if node.op_type == "Loop" else 0 :]):
        raise _make_refusal(place, "one of its inputs is absent")
    for body in bodies:
        given, states = _count_inputs(node, len(body.inputs))
        if len(body.inputs) != given:
            raise _make_refusal(place, f"its body has {len(body.inputs)} inputs, but is given {given}")
        # The results of an If are those of its body; the body of a Loop also returns whether to continue.
        results = len(body.outputs) - (node.op_type == "Loop")
        if results < len(node.output) or results < states:
            raise _make_refusal(
                place, f"its body has {len(body.outputs)} outputs, too few for {len(node.output)} results"
            )


def _count_inputs(node: onnx.NodeProto, found: int) -> tuple[int, int]:
    """Return the number of formal inputs that a body of the node must have, and the number of states among them."""
    if node.op_type == "If":
        return 0, 0
    if node.op_type == "Loop":
        return max(2, len(node.input)), max(0, len(node.input) - 2)
    return len(node.input), len(node.input) - count_scanned(node)


def loop_inputs(body: GraphScope, states: Sizes) -> list[Size]:
    """Return the sizes of a Loop body's formal inputs: the iteration, whether to run it, and the states."""
    return [(_one_element(body.graph.input[0]), "int64"), (_one_element(body.graph.input[1]), "bool"), *states]


def _one_element(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    """Return a scalar, or a vector of one element if the file states it: runtimes pass the stated shape."""
    dims = value.type.tensor_type.shape.dim
    return (1,) if len(dims) == 1 and dims[0].dim_value == 1 else ()


def loop_results(place: str, states: Sizes, given: Sizes, trips: Dim | None) -> list[Type]:
    """Return the types of a Loop's outputs, given those of its body (without the condition) and its trips."""
    kept = _check_states(place, states, given)
    return [*kept, *(Type((trips, *shape), dtype) for shape, dtype in given[len(states) :])]


def trips(limit: Array, begins: Array | None = None, goes_on: Array | None = None) -> Dim | None:
    """Return the number of trips of a Loop with the limit `limit` and, if given, conditions before and after a trip.

    The condition is `begins` before the first trip and then `goes_on`. Returns None if one of them is not a single
    element.
    """
    conditions = [truth(each) for each in (begins, goes_on) if each is not None]
    if limit.size != 1 or None in conditions:
        return None
    most = maximum_of(0, limit.reshape(-1)[0] if limit.dtype == object else int(limit.reshape(-1)[0]))
    return most if all(conditions) else minimum_of(most, int(bool(conditions[0])))


class Scan(NamedTuple):
    """The attributes of a Scan: the axes of its scanned inputs and outputs, as far as they are stated."""

    inputs: int
    input_axes: list[int]
    output_axes: list[int]


def count_scanned(node: onnx.NodeProto) -> int:
    """Return the number of inputs of a Scan that are sliced, one slice for each iteration."""
    return next((attribute.i for attribute in node.attribute if attribute.name == "num_scan_inputs"), 0)


def scan_attributes(node: onnx.NodeProto) -> Scan:
    """Return the attributes of a Scan."""
    lists = {attribute.name: list(attribute.ints) for attribute in node.attribute}
    return Scan(count_scanned(node), lists.get("scan_input_axes", []), lists.get("scan_output_axes", []))


def scan_inputs(place: str, scan: Scan, operands: Sequence[Size]) -> tuple[list[Size], Dim]:
    """Return the sizes of a Scan body's formal inputs, and the number of iterations."""
    states = len(operands) - scan.inputs
    if not 1 <= scan.inputs <= len(operands):
        raise _make_refusal(place, f"it scans {scan.inputs} of its {len(operands)} inputs")
    formals = list(operands[:states])
    lengths: set[Dim] = set()
    for k, (shape, dtype) in enumerate(operands[states:]):
        axis = _normalize_axis(place, scan.input_axes, k, len(shape))
        lengths.add(shape[axis])
        formals.append(((*shape[:axis], *shape[axis + 1 :]), dtype))
    if len(lengths) > 1:
        what, fix = (
            f"it scans inputs of different lengths [{', '.join(sorted(map(format_dim, lengths)))}]",
            "correct the model or its bindings",
        )
        raise refuse("INVALID_IR_SHAPES", place, what, fix)
    return formals, lengths.pop()


def scan_results(place: str, scan: Scan, states: Sizes, given: Sizes, length: Dim) -> list[Type]:
    """Return the types of a Scan's outputs, given its body's: states unchanged, the others stacked along their axes."""
    found = _check_states(place, states, given)
    for k, (shape, dtype) in enumerate(given[len(states) :]):
        axis = _normalize_axis(place, scan.output_axes, k, len(shape) + 1)
        found.append(Type((*shape[:axis], length, *shape[axis:]), dtype))
    return found


def _normalize_axis(place: str, axes: Sequence[int], k: int, rank: int) -> int:
    axis = axes[k] if k < len(axes) else 0
    if not -rank <= axis < rank:
        raise _make_refusal(place, f"axis {axis} of a tensor of {rank} dimensions")
    return axis % rank


def _check_states(place: str, states: Sizes, given: Sizes) -> list[Type]:
    """Return the states. Raises INVALID_IR_SHAPES if the body returns one with another size."""
    for k, (before, after) in enumerate(zip(states, given, strict=False)):
        if before != after:
            what = f"its state {k} changes from {Type(*before)} to {Type(*after)} in one iteration"
            raise refuse("INVALID_IR_SHAPES", place, what, "no static plan exists; give the state a fixed shape")
    return [Type(*size) for size in states]


def join_types(place: str, branches: Sequence[Sizes], count: int) -> list[Type]:
    """Return the types of an If's outputs from those of its branches, unknown if these differ in shape."""
    found = []
    for k in range(count):
        sizes = {branch[k] for branch in branches}
        if len({dtype for _, dtype in sizes}) > 1:
            raise _make_refusal(place, f"its branches give result {k} different types")
        shape, dtype = next(iter(sizes))
        found.append(Type(shape if len(sizes) == 1 else None, dtype))
    return found


def truth(array: Array) -> bool | None:
    """Return the value of a condition; None if it is not one element."""
    return bool(array.reshape(-1)[0]) if array.size == 1 and array.dtype != object else None


def _make_refusal(place: str, what: str) -> TmmuError:
    return refuse("INVALID_IR", place, what, "write the model again")
