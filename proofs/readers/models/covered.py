"""Find the nodes of ai.onnx that the row of their operator does not cover.

The fields of a row for sharing, gradients, loops and bodies are found by the operator's name. They hold for the
versions in the row and for any value of each name in it. Two fields are narrower: an attribute in `only` has one value,
and a name in `never` must be absent. A node with anything else is *opaque*. It counts as an operator without a row,
which neither views nor works in place, whose gradient reads everything, and whose loops are not divided. Whether a
Dropout trains is read from its operand, so that its `training_mode` may have any value. spec: V2.4
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from onnx import AttributeProto, NodeProto, defs

from proofs.readers.operators import KnownOperator, plain, row_of


def is_opaque(node: NodeProto, opsets: Mapping[str, int]) -> bool:
    """Check whether the row of a node's operator does not hold for the node. O(operands + attributes).

    `opsets` gives the version of each domain. An operator whose row has sizes only has no opaque nodes.
    """
    own = row_of(node.domain, node.op_type)
    if plain(node.domain) or not own.permits_anything:
        return False
    schema = _schema(node.op_type, opsets[""])
    if schema is None or schema.since_version not in own.versions or node.overload:
        return True
    return not (
        _attributes_fit(node, own, schema)
        and _operands_fit(node.input, schema.inputs, own)
        and _operands_fit(node.output, schema.outputs, own)
    )


@cache
def _schema(op: str, opset: int) -> defs.OpSchema | None:
    try:
        return defs.get_schema(op, opset, "")
    except defs.SchemaError:
        return None


def _attributes_fit(node: NodeProto, own: KnownOperator, schema: defs.OpSchema) -> bool:
    """Whether each attribute is one of this version, of its type, and of a value that the row is about."""
    for attribute in node.attribute:
        formal = schema.attributes.get(attribute.name)
        kind = AttributeProto.AttributeType.Name(attribute.type)
        if formal is None or formal.type != getattr(defs.OpSchema.AttrType, kind, None) or attribute.ref_attr_name:
            return False
        if attribute.name in own.only:
            if attribute.i != own.only[attribute.name]:
                return False
        elif attribute.name not in own.names.split():
            return False
    given = {attribute.name for attribute in node.attribute}
    return all(name in given for name, formal in schema.attributes.items() if formal.required)


def _operands_fit(given: Sequence[str], formals: Sequence[defs.OpSchema.FormalParameter], own: KnownOperator) -> bool:
    """Whether all that must be there is, and the row is about whatever else has a place, named or left out."""
    options = defs.OpSchema.FormalParameterOption
    if len(given) > len(formals) and all(formal.option != options.Variadic for formal in formals):
        return False
    for position in range(max(len(given), len(formals))):
        formal = formals[min(position, len(formals) - 1)]
        there = position < len(given)
        if formal.option == options.Optional:
            if there and formal.name not in own.names.split():
                return False
        elif not given[position] if there else formal.option == options.Single:
            return False
    return True
