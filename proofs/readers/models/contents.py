"""Read the values that a model file stores, as digests: plans state only sizes and places. spec: PS1.12"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto, external_data_helper, numpy_helper

from proofs.readers.models.onnx_graph import bodies_of, node_names
from proofs.readers.operators import plain
from tmmu.core import kind
from tmmu.core.reading import read_file
from tmmu.onnx.functions import inline_functions
from tmmu.onnx.reading import FILE_LIMIT

NUMBERS = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
"""The element types of numbers that a Constant stores as attributes."""


def digest_contents(path: str, names: Collection[str]) -> dict[str, bytes]:
    """Return the SHA-256 of the elements of stored tensors of a model, by the names that a plan has for them.

    They are initializers and the results of Constant nodes, also those of bodies. A tensor is left out if its value is
    not stored, is stored as a sparse one, or can be replaced by the caller, and so are those of an IR file, which
    stores none. Raises OSError if the file cannot be read. O(bytes), one tensor at a time.
    """
    if not names or kind.is_ir(path):
        return {}
    folder, found = os.path.dirname(os.path.abspath(path)), dict[str, bytes]()
    model = onnx.ModelProto.FromString(read_file(path, FILE_LIMIT))
    for name, tensor in _stored((inline_functions(model) if model.functions else model).graph):
        if name in names and (content := _elements(tensor, folder)) is not None:
            found[name] = hashlib.sha256(content).digest()
    return found


def _stored(main: GraphProto) -> Iterator[tuple[str, TensorProto]]:
    """Yield the tensors that a model stores and the caller cannot replace, by scoped names."""
    work = [("", main)]
    while work:
        scope, graph = work.pop()
        replaceable = {value.name for value in graph.input}
        yield from ((scope + each.name, each) for each in graph.initializer if each.name not in replaceable)
        for name, node in zip(node_names(graph, scope), graph.node, strict=True):
            if node.op_type == "Constant" and not plain(node.domain) and (tensor := _constant(node)) is not None:
                yield scope + node.output[0], tensor
            work += [(f"{name}/{attribute}/", body) for attribute, body in bodies_of(node)]


def _constant(node: NodeProto) -> TensorProto | None:
    """Return the value of a Constant, or None if it is sparse or a text."""
    for each in node.attribute:
        if each.name == "value":
            value: TensorProto = each.t
            return value
        if each.name in NUMBERS:
            return numpy_helper.from_array(np.array(onnx.helper.get_attribute_value(each), NUMBERS[each.name]))
    return None


def _elements(tensor: TensorProto, folder: str) -> bytes | None:
    """Return the elements of a stored tensor; None if its data file cannot be read, or the data do not fit it."""
    try:
        if external_data_helper.uses_external_data(tensor):
            copy = TensorProto()
            copy.CopyFrom(tensor)
            external_data_helper.load_external_data_for_tensor(copy, folder)
            tensor = copy
        array = numpy_helper.to_array(tensor)
    except Exception:  # onnx raises exceptions of any kind over data that do not fit
        return None
    return None if array.dtype.hasobject else array.tobytes()
