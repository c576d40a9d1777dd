"""The shapes that a file states of its own results: used only with `--trust-shapes`, and only for what is unknown.

spec: T10.6
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from tmmu.core.dims.expressions import Dim
from tmmu.importers.shapes.sizes import Size, Type, from_proto, refuse
from tmmu.importers.shapes.structure import GraphScope, Structure


class StatedShapes:
    """What value_info, outputs and formal inputs of a file state; `used` once one of them was needed."""

    def __init__(self, dims: Mapping[str, Dim]) -> None:
        self._dims = dims
        self._by_scope: dict[str, dict[str, onnx.TypeProto]] = {}
        self.used = False

    @staticmethod
    def names(structure: Structure) -> set[str]:
        """The names of dimensions in all that a model states."""
        return {
            dim.dim_param
            for scope in structure.scopes
            for value in (*scope.graph.value_info, *scope.graph.output, *scope.graph.input)
            for dim in value.type.tensor_type.shape.dim
            if dim.dim_param
        }

    def fill(self, scope: GraphScope, name: str, known: Type, place: str) -> Size | None:
        """The size that `known` and the shape stated of `name` give together; None where they do not suffice.

        Raises INVALID_IR_SHAPES where the file contradicts what is known.
        """
        if scope.name not in self._by_scope:
            values = (*scope.graph.input, *scope.graph.value_info, *scope.graph.output)
            self._by_scope[scope.name] = {value.name: value.type for value in values}
        stated = self._by_scope[scope.name].get(name)
        if stated is None:
            return None
        type_ = self._with_open(stated, from_proto(self._with_dims(stated), place))
        if not _agree(known, type_):
            what = f"the file states {type_} where it is {known}"
            raise refuse("INVALID_IR_SHAPES", place, what, "correct the model")
        dims = known.dims if known.dims is not None else type_.dims
        if dims is not None and type_.dims is not None:
            dims = tuple(b if a is None else a for a, b in zip(dims, type_.dims, strict=True))
        size = Type(dims, known.dtype or type_.dtype).size()
        self.used = self.used or size is not None
        return size

    def _with_dims(self, stated: onnx.TypeProto) -> onnx.TypeProto:
        """A stated type with the bound dimensions put in."""
        bound = onnx.TypeProto()
        bound.CopyFrom(stated)
        for dim in bound.tensor_type.shape.dim if bound.WhichOneof("value") == "tensor_type" else ():
            known = self._dims.get(dim.dim_param)
            if isinstance(known, int):
                dim.dim_value = known
            elif dim.dim_value <= 0:
                dim.ClearField("value")  # exporters write 0 or -1 for what they leave open
        return bound

    def _with_open(self, stated: onnx.TypeProto, found: Type) -> Type:
        """The type with an expression for each dimension whose name has a range."""
        if found.dims is None:
            return found
        named = [self._dims.get(dim.dim_param) for dim in stated.tensor_type.shape.dim]
        dims = [a if a is not None else b for a, b in zip(found.dims, named, strict=True)]
        return Type(tuple(dims), found.dtype)


def _agree(known: Type, stated: Type) -> bool:
    """Whether two partial types can be those of one tensor."""
    if known.dtype != stated.dtype and None not in (known.dtype, stated.dtype):
        return False
    if known.dims is None or stated.dims is None:
        return True
    return len(known.dims) == len(stated.dims) and all(
        a == b or None in (a, b) for a, b in zip(known.dims, stated.dims, strict=True)
    )
