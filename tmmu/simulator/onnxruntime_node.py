"""A kernel of onnxruntime for one ONNX node: a session of only this node, without graph rewriting, in one thread.

spec: SIM5.5, SIM5.9
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime

from tmmu.core.dtypes import nbytes
from tmmu.onnx.sizes import NUMBERS
from tmmu.simulator.elements import Array, Size, decode, encode, numpy_type
from tmmu.simulator.onnx_node import NodeKernel

IR_VERSION = 10
"""The format version of a node's model, which every onnxruntime of the extra `judges` reads."""


def session(model: bytes) -> onnxruntime.InferenceSession:
    """Create a session that computes a model without optimizations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class SessionKernel(NodeKernel):
    """A node as onnxruntime computes it.

    Equal nodes with operands of equal sizes share a session. A node that draws numbers gets a new one each time,
    because a session continues its sequence of numbers.
    """

    judge, instead = "onnxruntime", ""

    def __init__(
        self,
        name: str,
        node: onnx.NodeProto,
        opsets: Sequence[onnx.OperatorSetIdProto],
        operands: Sequence[Size],
        results: Sequence[Size | None],
        *,
        sessions: dict[bytes, onnxruntime.InferenceSession],
        is_bounded: bool = False,
    ) -> None:
        self.sessions = sessions
        super().__init__(name, node, opsets, operands, results, is_bounded=is_bounded)

    def load(self, model: onnx.ModelProto) -> None:
        """Create the session unless there is one; raises onnxruntime's exceptions if it has no kernel."""
        model.ir_version = IR_VERSION
        for result in model.graph.output:
            result.type.tensor_type.ClearField("shape")  # the shape is checked afterwards, not assumed
        self.model = model.SerializeToString()
        if self.model not in self.sessions:
            self.sessions[self.model] = session(self.model)

    def compute(self, operands: Sequence[Array]) -> list[Array]:
        """Compute the results. Operands of NumPy's own types are read in place, others are copied."""
        runs = session(self.model) if self.draws else self.sessions[self.model]
        dtypes = [dtype for _, dtype in self.operands]
        feeds = {f"operand{k}": _value(*each) for k, each in enumerate(zip(operands, dtypes, strict=True))}
        made = runs.run_with_ort_values(self.outputs, feeds)
        sizes = [size for size in self.wanted if size is not None]
        return [_array(value, dtype) for value, (_, dtype) in zip(made, sizes, strict=True)]


def _value(array: Array, dtype: str) -> onnxruntime.OrtValue:
    if array.dtype.isbuiltin == 1:
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    value, raw = onnxruntime.OrtValue.ortvalue_from_shape_and_type(array.shape, NUMBERS[dtype]), encode(array, dtype)
    if len(raw):
        ctypes.memmove(value.data_ptr(), raw.ctypes.data, len(raw))
    return value


def _array(value: onnxruntime.OrtValue, dtype: str) -> Array:
    shape = tuple(value.shape())
    if numpy_type(dtype).isbuiltin == 1:
        array: Array = value.numpy()
        return array
    size = nbytes(shape, dtype)
    raw = np.frombuffer(ctypes.string_at(value.data_ptr(), size) if size else b"", np.uint8)
    return decode(raw, (shape, dtype))
