"""Local functions, before they are inlined: none may call itself, and together they may not grow beyond reason.

A file of a few hundred bytes can describe a model of as many nodes as there are atoms, by functions that call
others twice each. So the expanded size is added up first, without expanding.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import NamedTuple

import onnx
from onnx.inliner import inline_local_functions

from tmmu.importers.shapes.naming import bodies_of, domain_of
from tmmu.importers.shapes.sizes import refuse

NODE_LIMIT, BYTE_LIMIT = 1 << 20, 1 << 28
"""The most nodes and bytes that a model's calls may expand to."""

Key = tuple[str, str, str]


class _Cost(NamedTuple):
    nodes: int
    bytes: int


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its local functions inlined; `model` itself is changed where a function is.

    An output that is an input of its function, or that stands twice, is given a value of its own by an Identity: the
    inliner leaves what such an output is called in the caller undefined (finding 91). Raises as `check_expansion`.
    """
    check_expansion(model)
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


def check_expansion(model: onnx.ModelProto) -> None:
    """Raise INVALID_IR where functions call themselves, are called as operators are, or expand to more than the limits.

    O(model). spec: T10.9
    """
    functions: dict[Key, onnx.FunctionProto] = {}
    for function in model.functions:
        key = (function.domain, function.name, function.overload)
        if key in functions:
            raise refuse("INVALID_IR", f"function {function.name!r}", "it is defined twice", "rename one")
        if onnx.defs.has(function.name, domain_of(function)):
            what = "an operator of ONNX has its name, and the runtime chooses which of the two runs"
            raise refuse("INVALID_IR", f"function {function.name!r}", what, "rename it")
        functions[key] = function
    costs: dict[Key, _Cost] = {}
    started: set[Key] = set()
    for root in functions:
        work = [root]
        while work:
            key = work[-1]
            missing = [callee for callee in _calls(functions[key].node, functions) if callee not in costs]
            if missing and key in started:
                place = f"function {key[1]!r}"
                raise refuse("INVALID_IR", place, "it calls itself, directly or through others", "break the cycle")
            if missing and key not in costs:
                started.add(key)
                work.extend(dict.fromkeys(missing))
                continue
            costs[work.pop()] = _cost(functions[key], functions, costs)
    nodes = bytes_ = 0
    for callee in _calls(model.graph.node, functions):
        nodes, bytes_ = nodes + costs[callee].nodes, bytes_ + costs[callee].bytes
    if nodes > NODE_LIMIT or bytes_ > BYTE_LIMIT:
        what = f"its functions expand to {nodes} nodes of {bytes_} bytes, the limits are {NODE_LIMIT} and {BYTE_LIMIT}"
        raise refuse("INVALID_IR", "the model", what, "write its layers as a Loop or Scan")


def _cost(function: onnx.FunctionProto, functions: dict[Key, onnx.FunctionProto], costs: dict[Key, _Cost]) -> _Cost:
    nodes, size = len(function.node), function.ByteSize()
    for callee in _calls(function.node, functions):
        nodes, size = nodes + costs[callee].nodes, size + costs[callee].bytes
    return _Cost(nodes, size)


def _calls(nodes: Iterable[onnx.NodeProto], functions: dict[Key, onnx.FunctionProto]) -> list[Key]:
    """The functions that `nodes` call, bodies included, once for each call."""
    found, work = [], list(nodes)
    while work:
        node = work.pop()
        key = (node.domain, node.op_type, node.overload)
        if key in functions:
            found.append(key)
        work.extend(inner for _, body in bodies_of(node) for inner in body.node)
    return found
