"""A model file as a graph: read whole but bounded, with its local functions inlined, without the data of its weights.

No weight file is ever opened. The data of large weights stored inline are dropped at once, because only shapes are
needed and copying the data would take gigabytes. A file that parses need not be a model (the empty file parses), so the
fields that every model has are checked by name.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

import onnx

from tmmu.core import kind
from tmmu.core.errors import TmmuError
from tmmu.core.reading import NotRegular, TooLarge, read_file
from tmmu.onnx import encodings
from tmmu.onnx.functions import inline_functions
from tmmu.onnx.naming import bodies_of, domain_of
from tmmu.onnx.sizes import refuse

FILE_LIMIT = (1 << 31) - 1
"""The largest file that is read, in bytes: no protobuf message is larger."""

DATA_LIMIT = 1 << 20
"""The most bytes of a stored tensor whose data may decide a shape (T10)."""

OLDEST_OPSET = 7
"""The oldest supported version of the ai.onnx operators."""


EXPORT = "export the model again"


def read(path: str | os.PathLike[str]) -> tuple[onnx.ModelProto, bytes]:
    """Read the model in the file at `path`, local functions inlined, and the SHA-256 of the bytes of the file.

    Raises INVALID_IR with the reason if the file cannot be read or states a value twice. spec: T10.8
    """
    model, digest = parse(path)
    return accept(model, path), digest


def parse(path: str | os.PathLike[str]) -> tuple[onnx.ModelProto, bytes]:
    """Return the message in the file at `path`, and the SHA-256 of the file. Raises INVALID_IR if it has none."""
    data = _read_content(path)
    digest = hashlib.sha256(data).digest()
    try:
        return onnx.ModelProto.FromString(data), digest
    except Exception as error:  # protobuf's DecodeError, which has no type stubs
        raise refuse("INVALID_IR", "the file", "it is not an ONNX model", kind.advise(path, EXPORT)) from error


def accept(model: onnx.ModelProto, path: str | os.PathLike[str]) -> onnx.ModelProto:
    """Return a model with its local functions inlined, and without the data of its large weights.

    Raises INVALID_IR with the reason if it lacks what every model has, or states a value twice. spec: T10.8
    """
    _check_header(model, kind.advise(path, EXPORT))
    graphs, nodes = _list_parts(model)
    if not all(isinstance(text, str) for text in _iterate_texts(model, graphs, nodes)):
        raise refuse("INVALID_IR", "the file", "a name in it is not UTF-8", EXPORT)
    if "" not in {domain_of(opset) for opset in model.opset_import} and any(domain_of(node) == "" for node in nodes):
        raise refuse("INVALID_IR", "the file", "it uses operators of ai.onnx but does not state their version", EXPORT)
    encodings.check(graphs, nodes)
    _drop_data(graphs, nodes)
    if model.functions:
        model = inline_functions(model)
    if model.functions:
        name = model.functions[0].name
        what = "it is written for another version of the operators than the model"
        raise refuse("INVALID_IR", f"function {name!r}", what, "convert it to the model's opset")
    return model


def _read_content(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of the file. Raises INVALID_IR if it cannot be read, or is too large for a model."""
    try:
        return read_file(path, FILE_LIMIT)
    except NotRegular as error:
        raise refuse("INVALID_IR", "the path", "it is not a regular file", "name a model file") from error
    except TooLarge as error:
        what, fix = f"expected at most {FILE_LIMIT} bytes, got {error.size}", "store the weights outside of the model"
        raise refuse("INVALID_IR", "the file", what, fix) from error
    except OSError as error:
        raise refuse("INVALID_IR", "the file", f"it cannot be read ({error.strerror})", "check the path") from error


def _check_header(model: onnx.ModelProto, advice: str) -> None:
    def bad(what: str, fix: str) -> TmmuError:
        return refuse("INVALID_IR", "the file", what, fix)

    if model.ir_version <= 0 or not model.HasField("graph"):
        raise bad("it does not contain an ONNX model", advice)
    if model.ir_version > onnx.IR_VERSION:
        raise bad(f"expected an IR version up to {onnx.IR_VERSION}, got {model.ir_version}", "update onnx")
    versions = [opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")]
    newest = onnx.defs.onnx_opset_version()
    if not model.opset_import or len(set(versions)) > 1:
        raise bad("it does not state the version of the operators that it uses", EXPORT)
    for version in versions:
        if not OLDEST_OPSET <= version <= newest:
            fix = "update onnx" if version > newest else "convert the model with onnx.version_converter"
            raise bad(f"expected an opset from {OLDEST_OPSET} to {newest}, got {version}", fix)


def _list_parts(model: onnx.ModelProto) -> tuple[list[onnx.GraphProto], list[onnx.NodeProto]]:
    """Return all graphs and all nodes of a model, including those in bodies and functions."""
    graphs, nodes = [model.graph], [node for function in model.functions for node in function.node]
    at_graph = at_node = 0
    while at_graph < len(graphs) or at_node < len(nodes):
        if at_graph < len(graphs):
            nodes.extend(graphs[at_graph].node)
            at_graph += 1
        else:
            graphs.extend(body for _, body in bodies_of(nodes[at_node]))
            at_node += 1
    return graphs, nodes


def _iterate_texts(
    model: onnx.ModelProto, graphs: list[onnx.GraphProto], nodes: list[onnx.NodeProto]
) -> Iterator[object]:
    """Yield every name that is used later."""
    yield from (opset.domain for opset in model.opset_import)
    for function in model.functions:
        yield from (function.name, function.domain, function.overload, *function.input, *function.output)
        yield from (opset.domain for opset in function.opset_import)
    for graph in graphs:
        yield graph.name
        for value in (*graph.input, *graph.output, *graph.value_info):
            yield value.name
            yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
        yield from (tensor.name for tensor in graph.initializer)
        yield from (sparse.values.name for sparse in graph.sparse_initializer)
    for node in nodes:
        yield from (node.name, node.op_type, node.domain, node.overload, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)


def _drop_data(graphs: list[onnx.GraphProto], nodes: list[onnx.NodeProto]) -> None:
    """Drop the elements of every stored tensor that is too large to decide a shape."""
    stored = [tensor for graph in graphs for tensor in graph.initializer]
    for sparse in (sparse for graph in graphs for sparse in graph.sparse_initializer):
        stored += [sparse.values, sparse.indices]
    stored += [each.t for node in nodes for each in node.attribute if each.type == onnx.AttributeProto.TENSOR]
    for tensor in stored:
        if tensor.ByteSize() > DATA_LIMIT:
            for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
                tensor.ClearField(field)
