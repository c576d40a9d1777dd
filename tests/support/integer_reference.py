"""QLinearAdd of ONNX Runtime in NumPy, for onnx's reference evaluator, which runs everything else of int8 networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

Array = NDArray[Any]


class QLinearAdd(OpRun):
    """The sum of two scaled integers as an integer of a third scale."""

    op_domain = "com.microsoft"

    def _run(
        self, a: Array, a_scale: Array, a_zero: Array, b: Array, b_scale: Array, b_zero: Array, scale: Array,
        zero: Array | None = None,
    ) -> tuple[Array]:  # fmt: skip
        parts = [
            (operand.astype(np.int32) - np.int32(off or 0)) * (step / scale).astype(np.float64)
            for operand, step, off in ((a, a_scale, a_zero), (b, b_scale, b_zero))
        ]
        limits = np.iinfo(a.dtype)
        whole = np.rint(parts[0] + parts[1] + float(0 if zero is None else zero))
        return (np.clip(whole, limits.min, limits.max).astype(a.dtype),)


def reference(model: onnx.ModelProto) -> Any:
    """The evaluator of a model that may add integers."""
    return ReferenceEvaluator(model, new_ops=[QLinearAdd])
