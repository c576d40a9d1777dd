"""Compute the sizes of the graph inputs under the user's bindings, and the values that they bind. spec: T10.6, V3.7"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from onnx import ValueInfoProto

from proofs.readers.operators.sizes.call import NUMBERS, NotKnown, Shape, TensorSize, Value
from proofs.readers.operators.sizes.stored import of_numpy
from tmmu.core.dims.expressions import Dim, symbol
from tmmu.core.vocabulary import Bindings

_TRUTH = {"true": True, "1": True, "false": False, "0": False}


def dimensions(inputs: Iterable[ValueInfoProto], bindings: Bindings) -> dict[str, Dim]:
    """Return the value of each named dimension: bound by itself, a range, or bound by an input's whole shape.

    A dimension with a step is a multiple of its unit. Exporters write names without a letter on dimensions that have
    nothing in common; these are left out.
    """
    known: dict[str, Dim] = dict(bindings.dims)
    known.update((name, symbol(name, *ends)) for name, ends in bindings.ranges.items())
    known.update((name, step * known[unit] + first) for name, (unit, first, step) in bindings.steps.items())
    for value in inputs:
        dims = value.type.tensor_type.shape.dim
        bound = bindings.shapes.get(value.name) or (_value_shape(value, bindings) if _is_bound(value, bindings) else ())
        for dim, size in zip(dims, bound, strict=False):
            if any(letter.isalpha() for letter in dim.dim_param):
                known.setdefault(dim.dim_param, size)
    return known


def input_size(value: ValueInfoProto, bindings: Bindings, known: Mapping[str, Dim]) -> TensorSize:
    """Return the size of an input that has no default."""
    tensor = value.type.tensor_type
    if tensor.elem_type not in NUMBERS:
        raise NotKnown(f"input {value.name!r} has no element type that a plan holds")
    dtype = NUMBERS[tensor.elem_type]
    if value.name in bindings.shapes:
        return TensorSize(tuple(bindings.shapes[value.name]), dtype)
    if _is_bound(value, bindings):
        return TensorSize(_value_shape(value, bindings), dtype)
    shape: list[Dim] = []
    for dim in tensor.shape.dim:
        # Exporters write 0 or -1 for an open dimension.
        if dim.HasField("dim_value") and dim.dim_value > 0:
            shape.append(dim.dim_value)
        elif dim.dim_param in known:
            shape.append(known[dim.dim_param])
        else:
            raise NotKnown(f"a dimension of input {value.name!r} is open")
    if not tensor.HasField("shape"):
        raise NotKnown(f"the rank of input {value.name!r} is open")
    return TensorSize(tuple(shape), dtype)


def input_value(value: ValueInfoProto, bindings: Bindings) -> Value | None:
    """Return the value that the user bound to an input: numbers with commas between them."""
    dtype = NUMBERS.get(value.type.tensor_type.elem_type, "")
    if not _is_bound(value, bindings):
        return None
    words = [word.strip() for word in _words(value, bindings)]
    try:
        if dtype == "bool":
            found = np.array([_TRUTH[word.lower()] for word in words])
        elif dtype.startswith("float"):
            found = np.array([float(word) for word in words], dtype)
        else:
            found = np.array([int(word) for word in words], dtype)
    except (KeyError, ValueError, OverflowError, TypeError):
        return None
    shape = _value_shape(value, bindings)
    return of_numpy(found.reshape(shape), dtype)


def _is_bound(value: ValueInfoProto, bindings: Bindings) -> bool:
    return value.name in bindings.values


def _words(value: ValueInfoProto, bindings: Bindings) -> list[str]:
    return bindings.values[value.name].strip().removeprefix("[").removesuffix("]").split(",")


def _value_shape(value: ValueInfoProto, bindings: Bindings) -> tuple[int, ...]:
    """Return a scalar's shape for one number, unless brackets or the file state a list."""
    words, tensor = _words(value, bindings), value.type.tensor_type
    rank = len(tensor.shape.dim) if tensor.HasField("shape") else len(bindings.shapes.get(value.name, ()))
    scalar = len(words) == 1 and not rank and not bindings.values[value.name].strip().startswith("[")
    return () if scalar else (len(words),)


__all__ = ["Shape", "dimensions", "input_size", "input_value"]
