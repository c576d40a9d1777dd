"""The user's bindings of the open parts of a file: named dimensions, whole shapes, and values of small inputs.

A binding must name something in the model and contradict neither the model nor another binding. A binding of a name
applies to every dimension of that name. A name without a letter (`?`) does not count, because exporters write it on
unrelated dimensions. spec: T10.6, T10.7, T10.11
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import onnx

from tmmu.core.dims.expressions import Dim, format_dim, symbol
from tmmu.core.errors import NotOfModel, TmmuError
from tmmu.core.output import suggest_names
from tmmu.core.vocabulary import SteppedDim
from tmmu.onnx.sizes import Array, Size, check_extent, from_proto, refuse, stored_type
from tmmu.onnx.stated import StatedSize
from tmmu.onnx.structure import GraphScope

LARGEST = (1 << 63) - 1
"""The largest dimension that ONNX can state."""

Open = list[Dim | str | None] | None
"""A shape as a file states it: numbers, names, and None for open dimensions; None if it states no rank."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class Bound:
    """The sizes of the graph inputs, the values that the user gave, and the size of each named dimension."""

    sizes: dict[str, Size]
    values: dict[str, Array]
    dims: dict[str, Dim]


def bind(
    main: GraphScope,
    dims: Mapping[str, int],
    shapes: Mapping[str, tuple[int, ...]],
    values: Mapping[str, str],
    further_names: Iterable[str] = (),
    ranges: Mapping[str, tuple[int, int]] = {},
    stated: Mapping[str, StatedSize] = {},
    steps: Mapping[str, SteppedDim] = {},
) -> Bound:
    """Return the sizes of all graph inputs of the main graph, except those that are initializers.

    Parameters
    ----------
    main
        The main graph.
    dims, shapes, values
        The bindings of the user: dimensions by name, shapes and values by graph input.
    ranges
        The envelope: the range of each open dimension, both ends included.
    stated
        The sizes that the user states for tensors; for an input that is not a tensor of numbers, its bytes.
    steps
        Dimensions that are multiples of their units; `ranges` or `dims` contains the units.
    further_names
        Names of dimensions that occur elsewhere in the file and may be bound too.

    Raises
    ------
    TmmuError
        INVALID_BINDING for a binding that names nothing or contradicts something; INVALID_IR_SHAPES for an input that
        is still open.
    """
    inputs = {value.name: value for value in main.graph.input if value.name not in stated}
    open_inputs = {name: _stated_shape(value) for name, value in inputs.items()}
    defaults = {name: main.initializers[name] for name in inputs if name in main.initializers}
    open_shapes: dict[str, Open] = open_inputs | {name: list(default.dims) for name, default in defaults.items()}
    dtypes = {name: _dtype(value, main.initializers.get(name)) for name, value in inputs.items()}
    known = _bind_dims(dims, ranges, {*_collect_names(open_inputs), *further_names}, steps)
    arrays: dict[str, Array] = {}
    for name, shape in shapes.items():
        _check_named("--shape", name, inputs)
        if any(not 0 <= dim <= LARGEST for dim in shape):
            raise _make_contradiction(
                "--shape", name, f"{_show_shape(shape)} has a dimension outside of 0 to {LARGEST}"
            )
        open_shapes[name] = list(_agree("--shape", name, open_shapes[name], shape, known, {**dims, **ranges, **steps}))
    for name, text in values.items():
        _check_named("--value", name, inputs)
        arrays[name] = _parse(name, text, dtypes[name], _close(open_shapes[name], known))
        open_shapes[name] = list(
            _agree("--value", name, open_shapes[name], arrays[name].shape, known, {**dims, **ranges, **steps})
        )
    for name, default in defaults.items():
        if name not in shapes and name not in values and _close(open_inputs[name], known) != list(default.dims):
            bound = "x".join(map(str, default.dims)) or "scalar"
            what = f"its default has the shape [{bound}], but a caller may give another shape"
            raise refuse("INVALID_IR_SHAPES", f"input {name!r}", what, f"bind it with --shape {name}={bound}")
    closed = {name: _close(shape, known) for name, shape in open_shapes.items() if name not in main.initializers}
    unknown = [name for name, found in closed.items() if found is None or None in found]
    if unknown:
        flags = dict.fromkeys(flag for name in unknown for flag in _suggest_flags(name, open_shapes[name], known))
        shape_ = open_shapes[unknown[0]]
        shown = "of unknown rank" if shape_ is None else f"[{', '.join('?' if d is None else str(d) for d in shape_)}]"
        what, fix = f"its shape {shown} is not fixed", f"bind it with {' '.join(flags)}"
        raise refuse("INVALID_IR_SHAPES", f"input {unknown[0]!r}", what, fix)
    sizes = {
        name: check_extent((tuple(dim for dim in found or () if dim is not None), dtypes[name]), f"input {name!r}")
        for name, found in closed.items()
    }
    for name, size in (
        (value.name, stated[value.name].type.size()) for value in main.graph.input if value.name in stated
    ):
        if size is not None:
            sizes[name] = check_extent(size, f"input {name!r}")
    return Bound(sizes, arrays, known)


def _stated_shape(value: onnx.ValueInfoProto) -> Open:
    """Return the shape that the file states for an input."""
    if not value.type.tensor_type.HasField("shape"):
        return None
    # Exporters write 0 or -1 for open dimensions.
    return [
        dim.dim_param or None if not dim.HasField("dim_value") else dim.dim_value if dim.dim_value > 0 else None
        for dim in value.type.tensor_type.shape.dim
    ]


def _dtype(value: onnx.ValueInfoProto, initializer: onnx.TensorProto | None) -> str:
    place = f"input {value.name!r}"
    if initializer is not None:
        dtype = stored_type(initializer, place).dtype
    else:
        # A copy without dimensions, because open dimensions may be negative numbers.
        bare = onnx.TypeProto()
        bare.CopyFrom(value.type)
        if bare.WhichOneof("value") == "tensor_type":
            bare.tensor_type.ClearField("shape")
        dtype = from_proto(bare, place).dtype
    if dtype is None:
        raise refuse("INVALID_IR_SHAPES", place, "the file states no element type for it", "export the model again")
    return dtype


def _bind_dims(
    dims: Mapping[str, int], ranges: Mapping[str, tuple[int, int]], names: set[str], steps: Mapping[str, SteppedDim]
) -> dict[str, Dim]:
    of = {step.unit: (name, step) for name, step in steps.items()}
    sizes = [*dims.items(), *((name, end) for name, ends in ranges.items() for end in ends)]
    sizes = [(of[u][0], of[u][1].first + of[u][1].step * n) if u in of else (u, n) for u, n in sizes]
    for name, size in sizes:
        if name not in names:
            raise _make_not_there("--dim", name, "dimension", sorted(names))
        if not 0 <= size <= LARGEST:
            raise _make_contradiction("--dim", name, f"expected a dimension from 0 to {LARGEST}, got {size}")
    for name, (low, high) in ranges.items():
        if low > high or name in dims:
            raise _make_contradiction(
                "--dim", name, f"the range {low} to {high} is empty, or the dimension is bound twice"
            )
    known: dict[str, Dim] = {**dims, **{name: symbol(name, *ranges[name]) for name in ranges}}
    for name, step in steps.items():
        if name in known or step.unit not in known:
            raise _make_contradiction("--dim", name, "bound twice" if name in known else f"no range of {step.unit!r}")
        known[name] = step.step * known[step.unit] + step.first
    for step in steps.values():
        del known[step.unit]
    return known


def _collect_names(shapes: Mapping[str, Open]) -> set[str]:
    return {dim for shape in shapes.values() for dim in shape or () if isinstance(dim, str)}


def _check_named(flag: str, name: str, inputs: Mapping[str, object]) -> None:
    if name not in inputs:
        raise _make_not_there(flag, name, "graph input", list(inputs))


def _agree(
    flag: str, name: str, open_shape: Open, shape: tuple[int, ...], known: dict[str, Dim], given: Mapping[str, object]
) -> tuple[int, ...]:
    """Return `shape` if it agrees with the file and the other bindings; record the named dimensions that it fixes."""
    if open_shape is None:
        return shape
    if len(open_shape) != len(shape):
        raise _make_contradiction(flag, name, f"expected {len(open_shape)} dimensions, got {_show_shape(shape)}")
    for stated_dim, dim in zip(open_shape, shape, strict=True):
        if isinstance(stated_dim, str):
            if (_is_name(stated_dim) or stated_dim in given) and known.setdefault(stated_dim, dim) != dim:
                raise _make_contradiction(
                    flag, name, f"{stated_dim!r} is bound twice: {_show_given(known[stated_dim])} and {dim}"
                )
        elif stated_dim is not None and stated_dim != dim:
            raise _make_contradiction(
                flag, name, f"{_show_shape(shape)} has the dimension {dim}, but the model states {stated_dim}"
            )
    return shape


def _show_given(dim: Dim) -> str:
    return str(dim) if isinstance(dim, int) else f"from {dim.bounds.low} to {dim.bounds.high}"


def _close(open_shape: Open, known: Mapping[str, Dim]) -> list[Dim | None] | None:
    if open_shape is None:
        return None
    return [known.get(dim) if isinstance(dim, str) else dim for dim in open_shape]


def _suggest_flags(name: str, open_shape: Open, known: Mapping[str, Dim]) -> list[str]:
    """Return the flags that would bind the open dimensions of an input."""
    if open_shape is None:
        return [f"--shape {name}=..."]
    missing = [dim for dim in open_shape if dim is None or (isinstance(dim, str) and dim not in known)]
    if all(isinstance(dim, str) and _is_name(dim) for dim in missing):
        return [f"--dim {dim}=N" for dim in missing]
    shown = ["N" if dim is None else format_dim(dim) for dim in _close(open_shape, known) or ()]
    return [f"--shape {name}={'x'.join(shown)}"]


def _is_name(dim: str) -> bool:
    return any(character.isalpha() for character in dim)


def _parse(name: str, text: str, dtype: str, dims: list[Dim | None] | None) -> Array:
    """Parse the value of an input: one number for a scalar, numbers separated by commas for one dimension."""
    words = text.strip().removeprefix("[").removesuffix("]").split(",")
    if dims is not None and len(dims) > 1:
        raise _make_contradiction(
            "--value", name, f"expected an input of at most one dimension, got one of {len(dims)}"
        )
    read = _number_reader(dtype)
    if read is None:
        raise _make_contradiction("--value", name, f"a value of type {dtype} cannot be given")
    try:
        numbers = [read(word.strip()) for word in words]
        with np.errstate(over="raise"):
            array = np.array(numbers, np.dtype(dtype))
    except (KeyError, ValueError, OverflowError, FloatingPointError) as error:
        raise _make_contradiction("--value", name, f"expected a value of type {dtype}, got {text!r}") from error
    scalar = len(words) == 1 and not dims and not text.strip().startswith("[")
    return array.reshape(()) if scalar else array


def _number_reader(dtype: str) -> Callable[[str], float | bool] | None:
    if dtype == "bool":
        return _parse_bool
    if dtype in ("float16", "float32", "float64"):
        return float
    return int if dtype in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64") else None


def _parse_bool(word: str) -> bool:
    return {"true": True, "1": True, "false": False, "0": False}[word.lower()]


def _show_shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _list_names(words: str, names: list[str]) -> str:
    shown = [repr(name) for name in names[:12]]
    return f"{words} {', '.join(shown)}{', ...' if len(names) > 12 else ''}" if names else "the model has none"


def _make_contradiction(flag: str, name: str, what: str) -> TmmuError:
    return _make_bad_binding(flag, name, what, "give a value that the model allows")


def _make_not_there(flag: str, name: str, what: str, names: list[str]) -> NotOfModel:
    fix = (
        f"{suggest_names(name, names, '')} "
        f"{_list_names('the names are' if flag == '--dim' else 'the inputs are', names)}"
    )
    return NotOfModel(f"no {what} is named {name!r}", name, place=f"{flag} {name}", fix=fix.strip())


def _make_bad_binding(flag: str, name: str, what: str, fix: str) -> TmmuError:
    return TmmuError("INVALID_BINDING", what, place=f"{flag} {name}", fix=fix, binding=name)
