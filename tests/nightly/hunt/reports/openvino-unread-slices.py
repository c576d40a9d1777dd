"""OpenVINO: a TensorIterator whose body does not read the slices of its input runs one iteration."""

import numpy as np
import openvino as ov
from openvino import opset13 as op


def doubled(reads_slices: bool) -> list[float]:
    x, rows = op.parameter([2], np.float32), op.parameter([3, 2], np.float32)
    a, row = op.parameter([2], np.float32), op.parameter([1, 2], np.float32)
    twice = op.add(a, a)
    made = op.add(twice, op.squeeze(row, op.constant([0]))) if reads_slices else twice
    body = ov.Model([op.result(made)], [a, row])
    loop = op.tensor_iterator()
    loop.set_function(body)
    loop.set_sliced_input(row, rows.output(0), 0, 1, 1, -1, 0)  # three slices: three iterations
    loop.set_merged_input(a, x.output(0), body.results[0].input_value(0))
    last = loop.get_iter_value(body.results[0].input_value(0), -1)
    compiled = ov.Core().compile_model(ov.Model([op.result(last)], [x, rows]), "CPU")
    return compiled([np.array([1, 2], np.float32), np.zeros((3, 2), np.float32)])[0].tolist()


print("expected:", [8.0, 16.0])
print("counter-test (the body adds the slice, zeros):", doubled(True))
print("actual:", doubled(False), flush=True)
