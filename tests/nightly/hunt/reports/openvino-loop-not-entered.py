"""OpenVINO: a Loop whose condition is a constant that is false returns no elements in place of the initial value."""

import numpy as np
import openvino as ov
from openvino import opset13 as op


def carried(is_constant: bool) -> list[float]:
    x, a, enters = op.parameter([3], np.float32), op.parameter([3], np.float32), op.parameter([], np.bool_)
    made = op.negative(a)
    body = ov.Model([op.result(op.constant(True)), op.result(made)], [a])
    loop = op.loop(op.constant(1), op.constant(False) if is_constant else enters)
    loop.set_function(body)
    loop.set_special_body_ports([-1, 0])
    loop.set_merged_input(a, x.output(0), made.output(0))
    model = ov.Model([op.result(loop.get_iter_value(made.output(0), -1))], [x, enters])
    given = [np.array([1, 2, 3], np.float32), np.array(False)]
    return ov.Core().compile_model(model, "CPU")(given)[0].tolist()


print("expected:", [1.0, 2.0, 3.0])
print("counter-test (the condition is an input, and false):", carried(False))
print("actual:", carried(True), flush=True)
