"""Compute sizes for If, Loop and Scan: their bodies' inputs, and their results from the bodies' outputs. spec: V3.7

A body that may run again is read once, with the shapes of its first iteration. It is checked that each state has the
same size after the iteration as before; the rest follows by induction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from proofs.readers.operators.sizes.call import (
    Call,
    Misfit,
    NotKnown,
    TensorSize,
    Value,
    axis_of,
    same,
    whole,
)
from tmmu.core.dims.expressions import Dim
from tmmu.core.dims.operations import maximum_of, minimum_of

if TYPE_CHECKING:  # see `call`
    from onnx import ValueInfoProto

Handed = Sequence[Sequence[TensorSize]]
"""The sizes of the outputs of each body that may run."""


class BodySizes(NamedTuple):
    """The rules for the sizes of an operator with bodies.

    `formals` computes the sizes of a body's formal inputs from the node and the inputs that the body lists. `results`
    computes the sizes of the node's results from those of each body's outputs. For a Loop it also takes the condition
    before the first iteration and after each iteration, if they are known.
    """

    formals: Callable[[Call, Sequence[ValueInfoProto]], list[TensorSize]]
    results: Callable[[Call, Handed, Value | None, Value | None], list[TensorSize]]


def _no_formals(call: Call, inputs: Sequence[ValueInfoProto]) -> list[TensorSize]:
    """Return no sizes: a branch of an If has no formal inputs."""
    return []


def _loop_formals(call: Call, inputs: Sequence[ValueInfoProto]) -> list[TensorSize]:
    """Return the sizes that a Loop gives its body: a count, a condition and the states."""
    # The text has scalars; a body that states a list of one element gets that.
    one, running = (_one(value) for value in inputs[:2])
    return [TensorSize(one, "int64"), TensorSize(running, "bool"), *_states(call)]


def _scan_formals(call: Call, inputs: Sequence[ValueInfoProto]) -> list[TensorSize]:
    """Return the sizes that a Scan gives its body: the states, and a slice of each scanned operand."""
    states, scanned, _ = _scan(call)
    axes = call.attribute("scan_input_axes", [0] * len(scanned))
    found = []
    for size, axis in zip(scanned, axes, strict=True):
        axis = axis_of(axis, len(size.shape))
        found.append(TensorSize((*size.shape[:axis], *size.shape[axis + 1 :]), size.dtype))
    return [*states, *found]


def _one(value: ValueInfoProto) -> tuple[int, ...]:
    dims = value.type.tensor_type.shape.dim
    return (1,) if len(dims) == 1 and dims[0].dim_value == 1 else ()


def _states(call: Call) -> list[TensorSize]:
    found = [size for size in call.operands[2:] if size is not None]
    if len(found) < len(call.operands) - 2:
        raise Misfit("a state is absent")
    return found


def _scan(call: Call) -> tuple[list[TensorSize], list[TensorSize], Dim]:
    """Return the states of a Scan, its scanned operands, and its number of iterations."""
    count = call.attribute("num_scan_inputs", 0)
    if not 1 <= count <= len(call.operands) or None in call.operands:
        raise Misfit(f"{count} of {len(call.operands)} operands are scanned")
    states, scanned = call.present()[:-count], call.present()[-count:]
    axes = call.attribute("scan_input_axes", [0] * count)
    if len(axes) != count:
        raise Misfit(f"{len(axes)} axes for {count} scanned operands")
    length: Dim | None = None
    for size, axis in zip(scanned, axes, strict=True):
        found = size.shape[axis_of(axis, len(size.shape))]
        length = found if length is None else same(length, found, "lengths of the scanned operands")
    assert length is not None  # at least one operand is scanned
    return states, scanned, length


def _loop_results(call: Call, handed: Handed, begins: Value | None, goes_on: Value | None) -> list[TensorSize]:
    """Return the states of a Loop after its last iteration, and its stacked results."""
    states = _states(call)
    if not handed[0] or handed[0][0].dtype != "bool":
        raise Misfit("the body has no condition among its outputs")
    kept, stacked = _handed_on(states, handed[0][1:])
    return [*kept, *(TensorSize((_trips(call, begins, goes_on), *size.shape), size.dtype) for size in stacked)]


def _scan_results(call: Call, handed: Handed, begins: Value | None, goes_on: Value | None) -> list[TensorSize]:
    """Return the states of a Scan after its last iteration, and its stacked results."""
    states, _, length = _scan(call)
    kept, stacked = _handed_on(states, handed[0])
    axes = call.attribute("scan_output_axes", [0] * len(stacked))
    if len(axes) != len(stacked):
        raise Misfit(f"{len(axes)} axes for {len(stacked)} results")
    for size, axis in zip(stacked, axes, strict=True):
        axis = axis_of(axis, len(size.shape) + 1)
        kept.append(TensorSize((*size.shape[:axis], length, *size.shape[axis:]), size.dtype))
    return kept


def _branch_results(call: Call, handed: Handed, begins: Value | None, goes_on: Value | None) -> list[TensorSize]:
    """Return the sizes of the results of an If. All branches must agree on them."""
    found: list[TensorSize] = []
    for sizes in zip(*handed, strict=True):
        if len({size.dtype for size in sizes}) > 1:
            raise Misfit("the branches give one result different types")
        if len(set(sizes)) > 1:
            raise NotKnown("the branches give one result different shapes")
        found.append(sizes[0])
    return found


def _handed_on(states: Sequence[TensorSize], handed: Sequence[TensorSize]) -> tuple[list[TensorSize], list[TensorSize]]:
    """Return the states, each with an unchanged size, and the outputs that are stacked."""
    if len(handed) < len(states):
        raise Misfit(f"{len(handed)} results of the body for {len(states)} states")
    for k, (given, found) in enumerate(zip(states, handed, strict=False)):
        if given != found:
            raise Misfit(f"state {k} changes from {given} to {found} in one iteration")
    return list(states), list(handed[len(states) :])


def _trips(call: Call, begins: Value | None, goes_on: Value | None) -> Dim:
    """Return the number of iterations of a Loop: its limit, or less.

    Its condition may end it before or after the first iteration.
    """
    most = maximum_of(0, call.number(0)) if call.has(0) else None
    if most is None or (call.has(1) and (begins is None or goes_on is None)):
        raise NotKnown("how often it runs is not known")
    if not call.has(1) or (truth(begins) and truth(goes_on)):
        return most
    return minimum_of(most, int(truth(begins)))


def truth(value: Value | None) -> bool:
    """Return the truth of a condition, which is one boolean."""
    if value is None or value.dtype != "bool" or value.cells.size != 1:
        raise NotKnown("a condition is not known")
    return bool(whole(int(value.cells.reshape(-1)[0])))


OF_IF = BodySizes(_no_formals, _branch_results)
OF_LOOP = BodySizes(_loop_formals, _loop_results)
OF_SCAN = BodySizes(_scan_formals, _scan_results)
