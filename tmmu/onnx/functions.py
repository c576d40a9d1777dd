"""Local functions, before they are inlined: none may call itself, and their total expanded size is bounded.

A file of a few hundred bytes can describe a model with an astronomic number of nodes, by functions that call others
twice each. Therefore the expanded size is computed first, without expanding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import NamedTuple

import onnx
from onnx.inliner import inline_local_functions

from tmmu.onnx.naming import bodies_of, domain_of
from tmmu.onnx.sizes import refuse

NODE_LIMIT, BYTE_LIMIT = 1 << 20, 1 << 28
"""The most nodes and bytes to which the calls of a model may expand."""

RUNTIMES = ("com.microsoft",)
"""The prefixes of domains whose operators a runtime implements, whatever functions a model has."""

Key = tuple[str, str, str]


class _Cost(NamedTuple):
    nodes: int
    bytes: int


def inline_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with its local functions inlined; `model` itself may be changed.

    An output that is an input of its function, or that occurs twice, gets a separate value by an Identity: otherwise
    the inliner leaves the name of such an output in the caller undefined (finding 91). Attributes of functions are
    substituted before, because the inliner loses their defaults (finding 132). Raises as `check_expansion`.
    """
    check_expansion(model)
    _check_metadata(model)
    _substitute_attributes(model)
    versions = [opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")]
    for function in model.functions:
        taken = {*function.input, *(name for node in function.node for name in (*node.input, *node.output))}
        handed_on = set(function.input)
        for k, name in enumerate(function.output):
            if name in handed_on:
                own = next(made for n in count() if (made := f"{name}.{k}.{n}") not in taken)
                taken.add(own)
                function.node.add(op_type="Identity", input=[name], output=[own])
                function.output[k] = own
            handed_on.add(name)
        if all(opset.domain not in ("", "ai.onnx") for opset in function.opset_import) and versions:
            function.opset_import.add(domain="", version=versions[0])
    return inline_local_functions(model)


def _check_metadata(model: onnx.ModelProto) -> None:
    """Raise INVALID_IR if a call of a function states a stream or waits, which inlining would lose. spec: X7.6"""
    functions = {(f.domain, f.name, f.overload) for f in model.functions}
    for node in _iterate_nodes((*model.graph.node, *(node for f in model.functions for node in f.node))):
        is_call = (node.domain, node.op_type, node.overload) in functions
        if is_call and any(str(entry.key).startswith("tmmu.") for entry in node.metadata_props):
            what = "it calls a local function, and states a stream or waits"
            raise refuse("INVALID_IR", f"node {node.name!r}", what, "state them at the nodes of the function")


def _substitute_attributes(model: onnx.ModelProto) -> None:
    """Replace each call of a function with attributes by one of a function with the values substituted.

    If neither the call nor the defaults of the function have a value, every attribute that refers to it is left out.
    Calls with the same values share one function. O(expanded nodes).
    """
    with_attributes = {
        (f.domain, f.name, f.overload): f for f in model.functions if len(f.attribute) or len(f.attribute_proto)
    }
    others = [f for f in model.functions if (f.domain, f.name, f.overload) not in with_attributes]
    if not with_attributes:
        return
    made: dict[tuple[Key, tuple[bytes, ...]], onnx.FunctionProto] = {}
    names = {f.name for f in model.functions}
    work = [model.graph.node, *(f.node for f in others)]
    while work:
        for node in _iterate_nodes(work.pop()):
            called = with_attributes.get(key := (node.domain, node.op_type, node.overload))
            if called is None:
                continue
            values = {a.name: a for a in (*called.attribute_proto, *node.attribute)}
            stated = tuple(values[name].SerializeToString(deterministic=True) for name in sorted(values))
            if (key, stated) not in made:
                own = made[key, stated] = onnx.FunctionProto()
                own.CopyFrom(called)
                del own.attribute[:], own.attribute_proto[:]
                own.name = next(name for n in count() if (name := f"{called.name}.{n}") not in names)
                names.add(own.name)
                for inner in _iterate_nodes(own.node):
                    _substitute(inner, values)
                work.append(own.node)
            node.op_type = made[key, stated].name
            del node.attribute[:]
    del model.functions[:]
    model.functions.extend([*others, *made.values()])


def _substitute(node: onnx.NodeProto, values: Mapping[str, onnx.AttributeProto]) -> None:
    """Substitute the values for the attributes of a node that refer to them."""
    kept = []
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            kept.append(attribute)
        elif attribute.ref_attr_name in values:
            written = onnx.AttributeProto()
            written.CopyFrom(values[attribute.ref_attr_name])
            written.name = attribute.name
            kept.append(written)
    del node.attribute[:]
    node.attribute.extend(kept)


def _iterate_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield nodes and those of their bodies; the caller may change a node that was yielded."""
    work = list(nodes)
    while work:
        node = work.pop()
        yield node
        work.extend(inner for _, body in bodies_of(node) for inner in body.node)


def check_expansion(model: onnx.ModelProto) -> None:
    """Check that functions do not call themselves, are not named like operators, and expand to no more than the limits.

    Raises INVALID_IR otherwise. O(model). spec: T10.9
    """
    functions: dict[Key, onnx.FunctionProto] = {}
    for function in model.functions:
        key = (function.domain, function.name, function.overload)
        if key in functions:
            raise refuse("INVALID_IR", f"function {function.name!r}", "it is defined twice", "rename one")
        if onnx.defs.has(function.name, domain_of(function)) or domain_of(function).startswith(RUNTIMES):
            what = "an operator of ONNX or of a runtime has the same name, and the runtime chooses between them"
            raise refuse("INVALID_IR", f"function {function.name!r}", what, "rename it")
        functions[key] = function
    costs: dict[Key, _Cost] = {}
    started: set[Key] = set()
    for root in functions:
        work = [root]
        while work:
            key = work[-1]
            missing = [callee for callee in _list_calls(functions[key].node, functions) if callee not in costs]
            if missing and key in started:
                place = f"function {key[1]!r}"
                raise refuse("INVALID_IR", place, "it calls itself, directly or through others", "break the cycle")
            if missing and key not in costs:
                started.add(key)
                work.extend(dict.fromkeys(missing))
                continue
            costs[work.pop()] = _compute_cost(functions[key], functions, costs)
    nodes = bytes_ = 0
    for callee in _list_calls(model.graph.node, functions):
        nodes, bytes_ = nodes + costs[callee].nodes, bytes_ + costs[callee].bytes
    if nodes > NODE_LIMIT or bytes_ > BYTE_LIMIT:
        what = (
            f"its functions expand to {nodes} nodes of {bytes_} bytes, but the limits are {NODE_LIMIT} and {BYTE_LIMIT}"
        )
        raise refuse("INVALID_IR", "the model", what, "write its layers as a Loop or Scan")


def _compute_cost(
    function: onnx.FunctionProto, functions: dict[Key, onnx.FunctionProto], costs: dict[Key, _Cost]
) -> _Cost:
    nodes, size = len(function.node), function.ByteSize()
    for callee in _list_calls(function.node, functions):
        nodes, size = nodes + costs[callee].nodes, size + costs[callee].bytes
    return _Cost(nodes, size)


def _list_calls(nodes: Iterable[onnx.NodeProto], functions: dict[Key, onnx.FunctionProto]) -> list[Key]:
    """Return the functions that `nodes` call, bodies included, once for each call."""
    keys = ((node.domain, node.op_type, node.overload) for node in _iterate_nodes(nodes))
    return [key for key in keys if key in functions]
