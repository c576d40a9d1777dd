"""Find the nodes of ai.onnx that the row of their operator does not cover.

A row is found by the operator's name. It lists the versions that it covers, and the attributes, optional inputs and
optional outputs that make no difference to it. Any other node, and one with a value that makes a difference,
is marked `opaque` and planned as an operator without a row. spec: T3.11
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx
from onnx import defs

from tmmu.onnx.naming import domain_of
from tmmu.operators import OPERATORS, PlannedOperator, row_of


def is_opaque(node: onnx.NodeProto, schema: defs.OpSchema | None) -> bool:
    """Check whether a node's operator has a row that does not hold for the node.

    `schema` is the definition of the operator in the version that the model imports.

    >>> is_opaque(onnx.helper.make_node("Relu", ["x"], ["y"]), defs.get_schema("Relu", 21, ""))
    False
    >>> is_opaque(onnx.helper.make_node("Relu", ["x"], ["y"], slope=2), defs.get_schema("Relu", 21, ""))
    True
    """
    row = row_of("", node.op_type)
    if domain_of(node) or ("", node.op_type) not in OPERATORS:
        return False
    if schema is None or schema.since_version not in row.versions or node.overload:
        return True
    harmless = row.harmless.split()
    if any(name not in harmless for name in (*_list_optional(node, schema), *_list_attributes(node, schema, row))):
        return True
    stated = {attribute.name for attribute in node.attribute}
    if any(formal.required and name not in stated for name, formal in schema.attributes.items()):
        return True
    return _lacks(list(node.input), schema.inputs) or _lacks(list(node.output), schema.outputs)


def _list_attributes(node: onnx.NodeProto, schema: defs.OpSchema, row: PlannedOperator) -> Iterator[str]:
    """Yield the attributes with a value that the row does not cover, and "" for an attribute of another kind."""
    for attribute in node.attribute:
        formal, kind = schema.attributes.get(attribute.name), onnx.AttributeProto.AttributeType.Name(attribute.type)
        if formal is None or formal.type != getattr(defs.OpSchema.AttrType, kind, None) or attribute.ref_attr_name:
            yield ""
        elif attribute.name not in row.deciding or row.deciding[attribute.name] != attribute.i:
            yield attribute.name


def _list_optional(node: onnx.NodeProto, schema: defs.OpSchema) -> Iterator[str]:
    """The optional inputs and outputs that have a place, an empty one included."""
    for given, formals in ((node.input, schema.inputs), (node.output, schema.outputs)):
        for _, formal in zip(given, formals, strict=False):
            if formal.option == defs.OpSchema.FormalParameterOption.Optional:
                yield formal.name


def _lacks(given: list[str], formals: Sequence[defs.OpSchema.FormalParameter]) -> bool:
    """Whether something that is not optional is absent, or there is more than the operator takes."""
    kinds = defs.OpSchema.FormalParameterOption
    variadic = bool(formals) and formals[-1].option == kinds.Variadic
    if len(given) > len(formals) and not variadic:
        return True
    for k, formal in enumerate(formals):
        if formal.option == kinds.Single and not (k < len(given) and given[k]):
            return True
    return variadic and not all(given[len(formals) - 1 :])
