"""The kernels of an ONNX model: every node by onnx's reference evaluator. spec: SIM5.1, SIM5.3, SIM5.4"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import numpy_helper

from tmmu.core.errors import TmmuError
from tmmu.simulator.bodies import Holder
from tmmu.simulator.elements import Array, decode, encode, numpy_type
from tmmu.simulator.machine import Rounds
from tmmu.simulator.memories import Raw
from tmmu.simulator.onnx_bodies import ROUNDS, unknown
from tmmu.simulator.onnx_model import OnnxModel
from tmmu.simulator.onnx_node import NodeKernel
from tmmu.simulator.program import PlanProgram
from tmmu.simulator.values import drawn, stored


class OnnxKernels:
    """Kernels for a program that is bound to a model.

    Parameters
    ----------
    program, model
        After `model.bind(program)`.
    inputs
        Arrays for graph inputs, of the planned shapes and types; what is missing is drawn from the seed.
    seed
        What inputs and weights that are not there are drawn from.
    """

    def __init__(
        self, program: PlanProgram, model: OnnxModel, inputs: Mapping[str, Array] | None = None, seed: int = 0
    ) -> None:
        self.program, self.model, self.inputs, self.seed = program, model, dict(inputs or {}), seed
        self.kernels: dict[int, NodeKernel] = {}

    def given(self, t: int) -> Raw:
        """What the caller writes: an input, a bound value, a stored weight, or what is drawn for want of them."""
        name, (shape, dtype) = self.program.names[t], self.model.size(self.program, t)
        array: Array | None = None
        tensor = self.model.stored.get(name)
        if name in self.inputs:
            array = self.inputs[name]
        elif isinstance(tensor, onnx.TensorProto):
            array = stored(tensor, self.model.folder)
        elif tensor is not None:
            array = _dense(tensor)
        elif name in self.program.plan.bindings.values:
            text = self.program.plan.bindings.values[name].lower()
            words = [{"true": "1", "false": "0"}.get(word, word) for word in text.split(",") if word]
            array = np.array([float(word) if "." in word else int(word) for word in words]).astype(numpy_type(dtype))
            array = array.reshape(shape)
        if array is None:
            return drawn(self.seed, name, (shape, dtype))
        if (array.shape, array.dtype) != (shape, numpy_type(dtype)):
            raise TmmuError(
                "INVALID_IR", f"its data are {array.dtype} {list(array.shape)}, planned was {dtype} {list(shape)}",
                place=f"tensor {name!r}", fix="write the model again", node_id=name,
            )  # fmt: skip
        return encode(array, dtype)

    def scratch(self, t: int) -> Raw:
        """The kernels need none."""
        return np.zeros(self.program.sizes[t], np.uint8)

    def compute(self, n: int, operands: Sequence[Raw]) -> list[Raw]:
        """The results of a step, by the reference evaluator."""
        kernel, step = self.kernels.get(n), self.program.steps[n]
        sizes = [self.model.size(self.program, t) for t in step.operands]
        if kernel is None:
            place = self.model.nodes[step.node]
            results = [None if name is None else self.model.sizes[name] for name in self.model.writes(place)]
            kernel = NodeKernel(step.node, place.node, self.model.proto.opset_import, sizes, results)
            self.kernels[n] = kernel
        made = kernel.run([decode(operand, size) for operand, size in zip(operands, sizes, strict=True)])
        return [encode(array, self.program.dtypes[t]) for array, t in zip(made, step.results, strict=True)]

    def rounds(self, holder: Holder, operands: Sequence[Raw]) -> Rounds:
        """Begin to execute an If, a Loop or a Scan."""
        step = self.program.steps[holder.enter]
        domain, op = step.op
        if domain or op not in ROUNDS:
            raise unknown(step.node, op)
        return ROUNDS[op](self.model.holder(holder, self.program), operands)

    def arrays(self, outputs: Mapping[int, Raw]) -> dict[str, Array]:
        """What the caller reads, as arrays by name."""
        names = self.program.names
        return {names[t]: decode(raw, self.model.sizes[names[t]]) for t, raw in outputs.items()}


def _dense(sparse: onnx.SparseTensorProto) -> Array:
    """The elements of a sparse initializer, zeros included."""
    values, indices = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    array = np.zeros(tuple(sparse.dims), values.dtype)
    if indices.ndim == 1:
        array.reshape(-1)[indices] = values
    else:
        array[tuple(indices.T)] = values
    return array
