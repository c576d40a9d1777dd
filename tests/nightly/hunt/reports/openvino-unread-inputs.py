"""OpenVINO: an input that a loop's body does not read is removed, though its length or its value is needed."""

import numpy as np
import openvino as ov
from openvino import opset13 as op

X, Y = np.array([1, 2], np.float32), np.array([3, 4], np.float32)


def run(result: ov.Output, parameters: list[ov.Node], *given: np.ndarray) -> list[float]:
    return ov.Core().compile_model(ov.Model([op.result(result)], parameters), "CPU")(list(given))[0].tolist()


def doubled_thrice(body_reads: bool) -> list[float]:
    x, rows = op.parameter([2], np.float32), op.parameter([3, 2], np.float32)
    a, row = op.parameter([2], np.float32), op.parameter([1, 2], np.float32)
    made = op.add(op.add(a, a), op.squeeze(row, op.constant([0]))) if body_reads else op.add(a, a)
    body = ov.Model([op.result(made)], [a, row])
    loop = op.tensor_iterator()
    loop.set_function(body)
    loop.set_sliced_input(row, rows.output(0), 0, 1, 1, -1, 0)  # three slices: three iterations
    loop.set_merged_input(a, x.output(0), made.output(0))
    return run(loop.get_iter_value(made.output(0), -1), [x, rows], X, np.zeros((3, 2), np.float32))


def not_entered(body_reads: bool) -> list[float]:
    x, y, a, b = (op.parameter([-1], np.float32) for _ in "xyab")
    enters = op.parameter([], np.bool_)
    made = op.add(a, b) if body_reads else op.negative(b)
    body = ov.Model([op.result(op.constant(True)), op.result(made)], [a, b])
    loop = op.loop(op.constant(1), enters)
    loop.set_function(body)
    loop.set_special_body_ports([-1, 0])
    loop.set_merged_input(a, x.output(0), made.output(0))
    loop.set_invariant_input(b, y.output(0))
    return run(loop.get_iter_value(made.output(0), -1), [x, y, enters], X, Y, np.array(False))


print("expected:", [[8.0, 16.0], [1.0, 2.0]])
print("counter-test (the body reads the input):", [doubled_thrice(True), not_entered(True)])
print("actual:", [doubled_thrice(False), not_entered(False)], flush=True)
