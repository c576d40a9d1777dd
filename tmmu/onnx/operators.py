"""The types of the results of one node, as ONNX's own shape inference gives them for that node only.

No statement of the file about a result is used: only the definition of the operator, its attributes, the types of its
operands and, if their values decide a shape, these values. spec: T10.1
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import onnx
from onnx import defs, helper, inliner, numpy_helper, shape_inference

from tmmu.core.dims.expressions import Dim, Expression, Unwieldy
from tmmu.core.errors import TmmuError
from tmmu.onnx.naming import domain_of
from tmmu.onnx.rules import NodeFacts, Unfit
from tmmu.onnx.sizes import (
    NUMBERS,
    UNKNOWN,
    Array,
    Dims,
    Size,
    Type,
    from_proto,
    is_numeric,
    is_open,
    refuse,
    to_proto,
    unshown,
)
from tmmu.onnx.table import row_of


class Operators:
    """The operators of one model: the versions that it imports, and the inference of the types of results."""

    def __init__(self, model: onnx.ModelProto, block: int = 0) -> None:
        self.block = block
        self.imports = list(model.opset_import)
        self.versions = {domain_of(each): each.version for each in self.imports}
        self.ir_version = model.ir_version
        self._schemas: dict[tuple[str, str], defs.OpSchema | None] = {}
        self._protos = cache(to_proto)

    def schema(self, node: onnx.NodeProto) -> defs.OpSchema | None:
        """Return the definition of a node's operator, None if it has none."""
        key = domain_of(node), node.op_type
        if key not in self._schemas:
            self._schemas[key] = None
            if key[0] in self.versions:
                # The first version of Constant only defines floating-point numbers; exporters always wrote any type.
                version = max(self.versions[key[0]], 9 if key == ("", "Constant") else 0)
                with contextlib.suppress(defs.SchemaError):
                    self._schemas[key] = defs.get_schema(node.op_type, version, key[0])
        return self._schemas[key]

    def version(self, node: onnx.NodeProto) -> int:
        """Return the version that introduced the node's operator as this model uses it, 0 for an unknown operator."""
        schema = self.schema(node)
        return schema.since_version if schema is not None else 0

    def may_be_left_out(self, node: onnx.NodeProto, output: int) -> bool:
        """Return whether the operator's definition makes this output optional (T9)."""
        schema = self.schema(node)
        return (
            schema is not None
            and output < len(schema.outputs)
            and schema.outputs[output].option == defs.OpSchema.FormalParameterOption.Optional
        )

    def infer(
        self,
        node: onnx.NodeProto,
        place: str,
        sizes: Mapping[str, Size],
        values: Mapping[str, Array],
        in_bytes: frozenset[str] = frozenset(),
    ) -> list[Type]:
        """Return the type of each output, unknown if the types of the operands and these `values` do not decide it.

        The outputs `in_bytes` may be of a kind that no plan can contain, and are unknown then. Raises INVALID_IR_SHAPES
        if the operands do not fit the operator.
        """
        schema = self.schema(node)
        if schema is None:
            return [UNKNOWN] * len(node.output)
        if any(map(is_open, sizes.values())) or any(value.dtype == object for value in values.values()):
            return self._infer_open(node, place, sizes, values)
        types = {name: self._protos(size) for name, size in sizes.items()}
        types_found = self._run_inference(schema, node, place, types, values, in_bytes=in_bytes)
        if row_of(domain_of(node), node.op_type).same_elements and (size := types_found[0].size()) is not None:
            given = sizes[node.input[0]][0]
            if math.prod(given) != math.prod(size[0]):
                raise _make_unfit(place, f"{node.op_type}: {list(given)} cannot become {list(size[0])}")
        return types_found

    def _infer_open(
        self, node: onnx.NodeProto, place: str, sizes: Mapping[str, Size], values: Mapping[str, Array]
    ) -> list[Type]:
        """Return the types of the outputs if dimensions are expressions, which ONNX's inference carries as names.

        A dimension of a result that has such a name is that expression. `rules` computes dimensions that the operator
        derives from others, or checks its requirements. A dimension that neither gives is unknown.
        """
        schema = self.schema(node)
        assert schema is not None  # the caller has checked this
        named: dict[Dim, str] = {}
        types = {name: _with_names(size, named) for name, size in sizes.items()}
        known = {name: value for name, value in values.items() if value.dtype != object}
        dims = {name: dim for dim, name in named.items()}
        found = self._run_inference(schema, node, place, types, known, dims)
        rule = row_of(domain_of(node), node.op_type).shapes
        if rule is None:
            return found
        try:
            shapes = rule(NodeFacts(node, sizes, values, schema.since_version))
        except (Unfit, Unwieldy) as error:
            raise unshown(place, f"{node.op_type}: {error}") from error
        except (ValueError, IndexError, TypeError, ZeroDivisionError, AttributeError) as error:
            raise _make_unfit(place, f"{node.op_type}: its operands do not fit it ({error})") from error
        given: list[Dims | None] = [*(shapes or ()), *[None] * len(found)]
        return [Type(shape, type_.dtype) for shape, type_ in zip(given, found, strict=False)]

    def _run_inference(
        self,
        schema: defs.OpSchema,
        node: onnx.NodeProto,
        place: str,
        types: dict[str, onnx.TypeProto],
        values: Mapping[str, Array],
        dims: Mapping[str, Dim] = {},
        in_bytes: frozenset[str] = frozenset(),
    ) -> list[Type]:
        """Return the type of each output by ONNX's own inference; `dims` are the dimensions of the names in it."""
        _check_attributes(node, place)
        if node.op_type == "Range":  # runtimes take a vector of one for a scalar; the rule does not
            values = {name: value.reshape(()) if value.size == 1 else value for name, value in values.items()}
        data = {name: numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()}
        try:
            if has_rule(schema):
                asked = _with_defaults(node, schema) if row_of(domain_of(node), node.op_type).spelt_out else node
                found = shape_inference.infer_node_outputs(
                    schema, asked, types, data, None, self.imports, self.ir_version
                )
            else:
                found = self._infer_by_function(_with_defaults(node, schema), types, data)
        except Exception as error:  # the library raises five unrelated kinds; each means that the node is wrong
            what = " ".join(str(error).replace("[ShapeInferenceError]", "").split()) or type(error).__name__
            raise _make_unfit(place, f"{node.op_type}: {what}") from error
        return [
            from_proto(found[name], f"tensor {name!r} of {place}", dims)
            if name in found and (name not in in_bytes or is_numeric(found[name]))
            else UNKNOWN
            for name in node.output
        ]

    def _infer_by_function(
        self, node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto], data: Mapping[str, onnx.TensorProto]
    ) -> dict[str, onnx.TypeProto]:
        """Infer the types of an operator without a rule, by the operators that define it."""
        inputs = [helper.make_value_info(name, types[name]) for name in dict.fromkeys(filter(None, node.input))]
        outputs = [helper.make_value_info(name, onnx.TypeProto()) for name in node.output if name]
        graph = helper.make_graph([node], "alone", inputs, outputs, list(data.values()))
        model = helper.make_model(graph, opset_imports=self.imports, ir_version=self.ir_version)
        by_others = [(node.domain, node.op_type)]
        model = inliner.inline_selected_functions(model, by_others, inline_schema_functions=True)
        inferred = shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
        return {value.name: value.type for value in inferred.graph.output}


def _check_attributes(node: onnx.NodeProto, place: str) -> None:
    """Refuse attributes with which the library writes beyond its results, or ends the process (finding 129)."""
    given = {a.name: a.i for a in node.attribute}
    if node.op_type == "Split" and (count := given.get("num_outputs", len(node.output))) != len(node.output):
        raise _make_unfit(place, f"Split: num_outputs is {count}, but there are {len(node.output)} outputs")
    if node.op_type == "GatherND" and (batch := given.get("batch_dims", 0)) < 0:
        raise _make_unfit(place, f"GatherND: expected batch_dims from 0, got {batch}")


def _with_names(size: Size, named: dict[Dim, str]) -> onnx.TypeProto:
    """Return a type with a name instead of each expression; equal expressions have one name."""
    dims = [named.setdefault(d, f"dim {len(named)}") if isinstance(d, Expression) else d for d in size[0]]
    return helper.make_tensor_type_proto(NUMBERS[size[1]], dims)


def has_rule(schema: defs.OpSchema) -> bool:
    """Return whether the definition of the operator has a rule for the types of its results."""
    return bool(schema.has_type_and_shape_inference_function)


def _with_defaults(node: onnx.NodeProto, schema: defs.OpSchema) -> onnx.NodeProto:
    """Return the node with explicit defaults for the attributes that it leaves out."""
    spelt = onnx.NodeProto()
    spelt.CopyFrom(node)
    present = {attribute.name for attribute in node.attribute}
    absent = [name for name in sorted(schema.attributes) if name not in present]
    defaults = [schema.attributes[name].default_value for name in absent]
    spelt.attribute.extend(default for default in defaults if default.type != onnx.AttributeProto.UNDEFINED)
    return spelt


def _make_unfit(place: str, what: str) -> TmmuError:
    return refuse("INVALID_IR_SHAPES", place, what, "correct the model or its bindings")


def names_of(node: onnx.NodeProto) -> Sequence[str]:
    """Return the operands of a node, each once, without absent ones."""
    return list(dict.fromkeys(filter(None, node.input)))
