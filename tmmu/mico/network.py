"""An ONNX model for C generation: its nodes by name, the sizes of its tensors, its weights, and the known values.

spec: MC1.4, MC1.5, MC5.3
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import onnx
from onnx import external_data_helper, numpy_helper

from tmmu.core.dims.expressions import close_shape
from tmmu.core.errors import TmmuError
from tmmu.core.reading import read_file
from tmmu.core.vocabulary import Bindings
from tmmu.importers.constants import constant_nodes
from tmmu.mico.kernels.node import Array
from tmmu.onnx import resolve
from tmmu.onnx.folding import compute, dimensions, fits, is_folded
from tmmu.onnx.functions import inline_functions
from tmmu.onnx.naming import domain_of
from tmmu.onnx.reading import FILE_LIMIT
from tmmu.onnx.structure import structure
from tmmu.onnx.table import row_of

Size = tuple[tuple[int, ...], str]


class OnnxNetwork:
    """A model file whose sizes are bound.

    Raises the exceptions of `resolve`; REPLAY_DIVERGENCE if the file does not have the `digests`.
    """

    def __init__(self, path: str, bindings: Bindings, digests: Collection[bytes]) -> None:
        resolved = resolve(path, replace(bindings, ranges={}))
        data = read_file(path, FILE_LIMIT)
        found = hashlib.sha256(data).digest()
        if other := next((each for each in (*digests, resolved.source_digest) if each != found), None):
            raise TmmuError(
                "REPLAY_DIVERGENCE", "the plan was made from another model, or from another version of this one",
                file=path, place="source_digest", fix="name the model that was planned, or plan it again",
                expected=other, found=found,
            )  # fmt: skip
        self.path, self.digest = path, found
        self.sizes: dict[str, Size] = {
            name: (close_shape(shape), dtype) for name, (shape, dtype) in resolved.sizes.items()
        }
        model = onnx.ModelProto.FromString(data)
        self.model = inline_functions(model) if model.functions else model
        found_scopes = structure(self.model.graph)
        self.main = found_scopes.main
        self.constant = constant_nodes(found_scopes, resolved.sizes, resolved.ruled_out)
        self.nodes = dict(zip(self.main.ids, self.main.nodes, strict=True))
        self.version = next((each.version for each in self.model.opset_import if domain_of(each) == ""), 1)
        self.stored = {tensor.name: tensor for tensor in self.model.graph.initializer}
        self.inputs = [name for name in self.main.inputs if name not in self.main.initializers]
        self.outputs = list(self.main.outputs)
        self._known: dict[str, Array | None] = {}

    def is_weight(self, name: str) -> bool:
        """Return whether a tensor is stored or a constant, so that no step writes it. spec: T10.12"""
        at = self.main.defined.get(name)
        return name in self.main.initializers or (at is not None and at >= 0 and self.main.ids[at] in self.constant)

    def weight(self, name: str) -> Array:
        """Return the elements of an initializer or of a constant. Raises INVALID_IR if they are missing."""
        if self._find_writer(name) is not None:
            return self._compute_constant(name)
        tensor = self.stored.get(name)
        if tensor is None:
            raise self._make_refusal(name, "it is stored sparsely, which the C does not support", "store it densely")
        folder = os.path.dirname(os.path.abspath(self.path))
        try:
            if external_data_helper.uses_external_data(tensor):
                location = external_data_helper.ExternalDataInfo(tensor).location
                if not os.path.exists(os.path.join(folder, location)):
                    what = f"its weights are missing: {location} does not exist"
                    raise self._make_refusal(
                        name, what, "put the file beside the model (of an example: tmmu example NAME --weights SEED)"
                    )
                copy = onnx.TensorProto()
                copy.CopyFrom(tensor)
                external_data_helper.load_external_data_for_tensor(copy, folder)
                tensor = copy
            array = numpy_helper.to_array(tensor)
        except TmmuError:
            raise
        except Exception as error:  # onnx raises exceptions of any kind over data that do not fit
            what = f"its data cannot be read ({error})"
            raise self._make_refusal(name, what, "write its weights again") from error
        if array.shape != self.sizes[name][0]:
            raise self._make_refusal(name, f"its data have the shape {list(array.shape)}", "write its weights again")
        return array

    def _make_refusal(self, name: str, what: str, fix: str) -> TmmuError:
        place = f"initializer {name!r}"
        return TmmuError("INVALID_IR", what, file=self.path, place=place, fix=fix, node_id=name)

    def _compute_constant(self, name: str) -> Array:
        """Compute the result of a node without a step from the constants that it reads."""
        work, found = [name], dict[str, Array]()
        while work:
            here = work[-1]
            node = self._find_writer(here)
            if node is None:
                found[here] = self.weight(here)
            waiting = [] if node is None else [each for each in node.input if each and each not in found]
            if waiting:
                work.extend(waiting)
                continue
            work.pop()
            if node is not None and here not in found:
                made = compute(node, [found[each] if each else None for each in node.input], self.version)
                found.update(zip(filter(None, node.output), made or (), strict=False))
                if here not in found or (found[here].shape, found[here].dtype.name) != self.sizes[here]:
                    raise self._make_refusal(
                        here, f"its {node.op_type} gives no dense value", "store the value in the model"
                    )
        return found[name]

    def known(self, name: str) -> Array | None:
        """Return the value that a tensor has in every run, None if it depends on the inputs or is large.

        The results of operators on known values are computed as in the resolution of shapes.
        """
        work = [name]
        while work:
            here = work[-1]
            needs = [each for each in self._list_needs(here) if each not in self._known]
            if here in self._known or not needs:
                work.pop()
                if here not in self._known:
                    self._known[here] = self._compute_value(here)
            else:
                work.extend(needs)
        return self._known[name]

    def _find_writer(self, name: str) -> onnx.NodeProto | None:
        position = self.main.defined[name]
        return self.main.nodes[position] if position >= 0 else None

    def _list_needs(self, name: str) -> list[str]:
        node = self._find_writer(name)
        if node is None or not is_folded(node) or row_of("", node.op_type).by_shape:
            return []
        return [each for each in node.input if each]

    def _compute_value(self, name: str) -> Array | None:
        node = self._find_writer(name)
        if name not in self.sizes or not fits(self.sizes[name]):
            return None
        if node is None:
            is_default = name in self.main.listed
            return None if is_default or name not in self.stored else self.weight(name)
        if not is_folded(node):
            return None
        if row_of("", node.op_type).by_shape:
            return dimensions(node, self.sizes[node.input[0]][0])
        operands = [self._known[each] if each else None for each in node.input]
        if any(value is None for each, value in zip(node.input, operands, strict=True) if each):
            return None
        results = compute(node, operands, self.version)
        return None if results is None else dict(zip(node.output, results, strict=False)).get(name)


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """Return the attributes of a node; texts are decoded."""
    found = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in found.items()}
