"""The sizes that a file, or the user, states for tensors; they are used only if a size is unknown.

Those of the file are used only with `--trust-shapes`; the user states them tensor by tensor (`--shape`, `--bytes`).
spec: T10.6, T10.14
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import onnx

from tmmu.core.bindings import parse_size
from tmmu.core.dims.expressions import Dim
from tmmu.core.errors import TmmuError
from tmmu.onnx.sizes import Size, Type, from_proto, refuse
from tmmu.onnx.structure import GraphScope, Structure


class StatedSize(NamedTuple):
    """The size that the user states for one tensor; `is_bytes` if it is only the number of its bytes."""

    text: str
    type: Type
    is_bytes: bool

    def fill(self, name: str, known: Type) -> Size | None:
        """Return the size of the tensor `name`, whose known type is `known`; None if nothing needs to be stated.

        Raises INVALID_BINDING if the two contradict each other, or if no element type is known.
        """
        if known.size() is not None and not self.is_bytes and _agree(known, self.type):
            return None
        if known.size() is not None or not (self.is_bytes or _agree(known, self.type)):
            raise _make_refusal(
                name, f"the model gives it {known}, not {self.text}", "leave the flag out", {name: self.text}
            )
        size = self.type if self.is_bytes else Type(self.type.dims, known.dtype or self.type.dtype)
        if size.dtype is None:
            what = "its element type is not known"
            raise _make_refusal(name, what, f"state it, as in --shape {name}=float32:{self.text}, or --bytes {name}=N")
        return size.size()


def separate_sizes(
    found: Structure, shapes: Mapping[str, tuple[int, ...]], stated: Mapping[str, str]
) -> tuple[dict[str, tuple[int, ...]], dict[str, StatedSize]]:
    """Separate the shapes of graph inputs from the sizes stated for other tensors (and the bytes of inputs).

    Raises INVALID_BINDING for an unknown name, for the name of a stored tensor, and for a text that is not a size.
    """
    inputs = found.main.listed
    texts = {name: "x".join(map(str, shape)) or "scalar" for name, shape in shapes.items() if name not in inputs}
    tensors = {scope.scoped(name) for scope in found.scopes for name in scope.defined}
    stored = {scope.scoped(name) for scope in found.scopes for name in scope.initializers}
    of_inputs = {name: shape for name, shape in shapes.items() if name in inputs}
    for name in {**texts, **stated}:
        if name not in tensors or name in stored:
            what = "its size is stored" if name in stored else f"no tensor is named {name!r}"
            listed = ", ".join(map(repr, sorted(inputs)[:12])) or "none"
            raise _make_refusal(
                name, what, f"the inputs are {listed}, and a result of a node can be named", {**texts, **stated}
            )
    sizes = {}
    for name, text in {**texts, **stated}.items():
        try:
            shape, dtype = parse_size(text)
        except ValueError as error:
            raise _make_refusal(name, str(error), "write it so", {name: text}) from None
        is_bytes = text.startswith("bytes:")
        if name in inputs and not is_bytes:
            raise _make_refusal(
                name, "the model states the element type of a graph input", f"--shape {name}={text.split(':')[1]}"
            )
        sizes[name] = StatedSize(text, Type(shape, dtype), is_bytes)
    return of_inputs, sizes


def _make_refusal(name: str, what: str, fix: str, given: Mapping[str, str] = {}) -> TmmuError:
    flag = "--bytes" if given.get(name, "").startswith("bytes:") else "--shape"
    return TmmuError("INVALID_BINDING", what, place=f"{flag} {name}", fix=fix, binding=name)


class StatedShapes:
    """The types that value_info, outputs and formal inputs of a file state; `used` is true once one was needed."""

    def __init__(self, dims: Mapping[str, Dim]) -> None:
        self._dims = dims
        self._by_scope: dict[str, dict[str, onnx.TypeProto]] = {}
        self.used = False

    @staticmethod
    def names(structure: Structure) -> set[str]:
        """Return the names of dimensions in all types that a model states."""
        return {
            dim.dim_param
            for scope in structure.scopes
            for value in (*scope.graph.value_info, *scope.graph.output, *scope.graph.input)
            for dim in value.type.tensor_type.shape.dim
            if dim.dim_param
        }

    def fill(self, scope: GraphScope, name: str, known: Type, place: str) -> Size | None:
        """Return the size that `known` and the stated shape of `name` give together; None if they do not suffice.

        Raises INVALID_IR_SHAPES if the file contradicts the known type.
        """
        if scope.name not in self._by_scope:
            values = (*scope.graph.input, *scope.graph.value_info, *scope.graph.output)
            self._by_scope[scope.name] = {value.name: value.type for value in values}
        stated = self._by_scope[scope.name].get(name)
        if stated is None:
            return None
        type_ = self._with_open(stated, from_proto(self._with_dims(stated), place))
        if not _agree(known, type_):
            what = f"the file states {type_}, but it is {known}"
            raise refuse("INVALID_IR_SHAPES", place, what, "correct the model")
        dims = known.dims if known.dims is not None else type_.dims
        if dims is not None and type_.dims is not None:
            dims = tuple(b if a is None else a for a, b in zip(dims, type_.dims, strict=True))
        size = Type(dims, known.dtype or type_.dtype).size()
        self.used = self.used or size is not None
        return size

    def _with_dims(self, stated: onnx.TypeProto) -> onnx.TypeProto:
        """Return a stated type with the bound dimensions substituted."""
        bound = onnx.TypeProto()
        bound.CopyFrom(stated)
        for dim in bound.tensor_type.shape.dim if bound.WhichOneof("value") == "tensor_type" else ():
            known = self._dims.get(dim.dim_param)
            if isinstance(known, int):
                dim.dim_value = known
            elif dim.dim_value <= 0:
                dim.ClearField("value")  # exporters write 0 or -1 for open dimensions
        return bound

    def _with_open(self, stated: onnx.TypeProto, found: Type) -> Type:
        """Return the type with an expression for each dimension whose name has a range."""
        if found.dims is None:
            return found
        named = [self._dims.get(dim.dim_param) for dim in stated.tensor_type.shape.dim]
        dims = [a if a is not None else b for a, b in zip(found.dims, named, strict=True)]
        return Type(tuple(dims), found.dtype)


def _agree(known: Type, stated: Type) -> bool:
    """Return whether two partial types can be those of one tensor."""
    if known.dtype != stated.dtype and None not in (known.dtype, stated.dtype):
        return False
    if known.dims is None or stated.dims is None:
        return True
    return len(known.dims) == len(stated.dims) and all(
        a == b or None in (a, b) for a, b in zip(known.dims, stated.dims, strict=True)
    )
