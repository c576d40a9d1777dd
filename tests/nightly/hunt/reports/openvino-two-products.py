"""OpenVINO, CPU: two products of matrices and two differences cannot be compiled for one thread."""

import numpy as np
import openvino as ov
from openvino import opset13 as op


def first_row(threads: int) -> list[float]:
    x = op.parameter([3, 3], np.float32)
    wide = op.matmul(x, op.constant(np.ones((3, 6), np.float32)), False, False)
    y = op.matmul(wide, op.constant(np.ones((6, 3), np.float32)), False, False)
    model = ov.Model([op.result(op.subtract(op.subtract(y, x), y))], [x])
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": threads})
    return compiled([np.ones((3, 3), np.float32)])[0][0].tolist()


print("expected:", [-1.0, -1.0, -1.0])
print("counter-test (two threads):", first_row(2), flush=True)
print("actual:", first_row(1), flush=True)
