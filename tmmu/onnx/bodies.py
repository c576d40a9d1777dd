"""What If, Loop and Scan give their bodies, and what they make of the bodies' results.

A body that may run more than once is worked out once, with the shapes that its values have in the first iteration;
that every later iteration finds the same shapes follows by induction if the body hands on what it was given, which
is checked. The branches of an If whose condition is not known must agree. spec: T8.1, T10.5
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import onnx

from tmmu.core.dims.expressions import Dim, show
from tmmu.core.dims.operations import larger, smaller
from tmmu.core.errors import TmmuError
from tmmu.onnx.sizes import Array, Size, Type, refuse
from tmmu.onnx.structure import GraphScope
from tmmu.onnx.table import row_of

Sizes = Sequence[Size]


def check_bodies(node: onnx.NodeProto, place: str, bodies: Sequence[GraphScope], version: int) -> None:
    """Raise INVALID_IR where a node's bodies are not those of its operator, or do not have what it gives and takes."""
    if {body.attribute for body in bodies} != set(row_of("", node.op_type).bodies):
        raise _bad(place, f"{node.op_type} has the bodies {', '.join(sorted(body.attribute for body in bodies))}")
    if node.op_type == "Scan" and version < 9:
        raise refuse("INVALID_IR", place, "Scan of opset 8 is not understood", "convert the model to opset 9 or later")
    if node.op_type == "If" and len(node.input) != 1:
        raise _bad(place, f"it has {len(node.input)} inputs instead of a condition")
    if not all(node.input[2 if node.op_type == "Loop" else 0 :]):
        raise _bad(place, "one of its inputs is absent")
    for body in bodies:
        given, states = _given(node, len(body.inputs))
        if len(body.inputs) != given:
            raise _bad(place, f"its body has {len(body.inputs)} inputs, it is given {given}")
        # An If's results are its body's; a Loop's body also returns whether to go on.
        results = len(body.outputs) - (node.op_type == "Loop")
        if results < len(node.output) or results < states:
            raise _bad(place, f"its body has {len(body.outputs)} outputs, too few for {len(node.output)} results")


def _given(node: onnx.NodeProto, found: int) -> tuple[int, int]:
    """How many formal inputs a body of the node must have, and how many of them are states."""
    if node.op_type == "If":
        return 0, 0
    if node.op_type == "Loop":
        return max(2, len(node.input)), max(0, len(node.input) - 2)
    return len(node.input), len(node.input) - scanned(node)


def loop_inputs(body: GraphScope, states: Sizes) -> list[Size]:
    """The sizes of a Loop body's formal inputs: the iteration, whether to run it, and the states."""
    return [(_one(body.graph.input[0]), "int64"), (_one(body.graph.input[1]), "bool"), *states]


def _one(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    """A scalar, or a vector of one where the file states it: both are one element, and runtimes give what is stated."""
    dims = value.type.tensor_type.shape.dim
    return (1,) if len(dims) == 1 and dims[0].dim_value == 1 else ()


def loop_results(place: str, states: Sizes, given: Sizes, trips: Dim | None) -> list[Type]:
    """The types of a Loop's outputs, given its body's outputs (the condition left out) and the trips it makes."""
    kept = _handed_on(place, states, given)
    return [*kept, *(Type((trips, *shape), dtype) for shape, dtype in given[len(states) :])]


def trips(limit: Array, begins: Array | None = None, goes_on: Array | None = None) -> Dim | None:
    """How often a Loop runs that ends at `limit`; with a condition, one that is `begins` before it and then `goes_on`.

    None where one of them is not a single element.
    """
    conditions = [truth(each) for each in (begins, goes_on) if each is not None]
    if limit.size != 1 or None in conditions:
        return None
    most = larger(0, limit.reshape(-1)[0] if limit.dtype == object else int(limit.reshape(-1)[0]))
    return most if all(conditions) else smaller(most, int(bool(conditions[0])))


class Scan(NamedTuple):
    """The attributes of a Scan: the axes of its scanned inputs and outputs, as far as they are stated."""

    inputs: int
    input_axes: list[int]
    output_axes: list[int]


def scanned(node: onnx.NodeProto) -> int:
    """How many inputs of a Scan are taken apart, one slice for each iteration."""
    return next((attribute.i for attribute in node.attribute if attribute.name == "num_scan_inputs"), 0)


def scan_attributes(node: onnx.NodeProto) -> Scan:
    """The attributes of a Scan."""
    lists = {attribute.name: list(attribute.ints) for attribute in node.attribute}
    return Scan(scanned(node), lists.get("scan_input_axes", []), lists.get("scan_output_axes", []))


def scan_inputs(place: str, scan: Scan, operands: Sequence[Size]) -> tuple[list[Size], Dim]:
    """The sizes of a Scan body's formal inputs, and the number of iterations."""
    states = len(operands) - scan.inputs
    if not 1 <= scan.inputs <= len(operands):
        raise _bad(place, f"it scans {scan.inputs} of its {len(operands)} inputs")
    formals = list(operands[:states])
    lengths: set[Dim] = set()
    for k, (shape, dtype) in enumerate(operands[states:]):
        axis = _axis(place, scan.input_axes, k, len(shape))
        lengths.add(shape[axis])
        formals.append(((*shape[:axis], *shape[axis + 1 :]), dtype))
    if len(lengths) > 1:
        what, fix = (
            f"it scans inputs of different lengths [{', '.join(sorted(map(show, lengths)))}]",
            "correct the model or its bindings",
        )
        raise refuse("INVALID_IR_SHAPES", place, what, fix)
    return formals, lengths.pop()


def scan_results(place: str, scan: Scan, states: Sizes, given: Sizes, length: Dim) -> list[Type]:
    """The types of a Scan's outputs, given its body's: states as they are, the others stacked along their axes."""
    found = _handed_on(place, states, given)
    for k, (shape, dtype) in enumerate(given[len(states) :]):
        axis = _axis(place, scan.output_axes, k, len(shape) + 1)
        found.append(Type((*shape[:axis], length, *shape[axis:]), dtype))
    return found


def _axis(place: str, axes: Sequence[int], k: int, rank: int) -> int:
    axis = axes[k] if k < len(axes) else 0
    if not -rank <= axis < rank:
        raise _bad(place, f"axis {axis} of a tensor of {rank} dimensions")
    return axis % rank


def _handed_on(place: str, states: Sizes, given: Sizes) -> list[Type]:
    """The states, where the body hands on each as it was given."""
    for k, (before, after) in enumerate(zip(states, given, strict=False)):
        if before != after:
            what = f"its state {k} changes from {Type(*before)} to {Type(*after)} in one iteration"
            raise refuse("INVALID_IR_SHAPES", place, what, "no static plan exists; give the state a fixed shape")
    return [Type(*size) for size in states]


def joined(place: str, branches: Sequence[Sizes], count: int) -> list[Type]:
    """The types of an If's outputs from those of its branches, unknown where these differ in shape."""
    found = []
    for k in range(count):
        sizes = {branch[k] for branch in branches}
        if len({dtype for _, dtype in sizes}) > 1:
            raise _bad(place, f"its branches give result {k} different types")
        shape, dtype = next(iter(sizes))
        found.append(Type(shape if len(sizes) == 1 else None, dtype))
    return found


def truth(array: Array) -> bool | None:
    """The value of a condition; None for what is not one element."""
    return bool(array.reshape(-1)[0]) if array.size == 1 and array.dtype != object else None


def _bad(place: str, what: str) -> TmmuError:
    return refuse("INVALID_IR", place, what, "write the model again")
