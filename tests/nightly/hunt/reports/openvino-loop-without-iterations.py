"""OpenVINO, CPU: of two carried values that a Loop's body makes equal, the first is zeros after no iterations."""

import numpy as np
import openvino as ov
from openvino import opset13 as op


def first_result(iterations_of_body: object) -> list[float]:
    x = op.parameter([3], np.float32)
    a, b = (op.parameter([3], np.float32) for _ in "ab")
    goes = op.constant(True)
    first, second = iterations_of_body(a, b)
    body = ov.Model([op.result(each) for each in (goes, first, second)], [a, b])
    loop = op.loop(op.constant(0), op.constant(True))
    loop.set_function(body)
    loop.set_special_body_ports([-1, 0])
    for inner, made in ((a, body.results[1]), (b, body.results[2])):
        loop.set_merged_input(inner, x.output(0), made.input_value(0))
    outputs = [loop.get_iter_value(each.input_value(0), -1) for each in body.results[1:]]
    compiled = ov.Core().compile_model(ov.Model([op.result(each) for each in outputs], [x]), "CPU")
    return compiled({0: np.array([1, 2, 3], np.float32)})[compiled.output(0)].tolist()


print("expected:", [1.0, 2.0, 3.0])
print("counter-test (the body makes two values):", first_result(lambda a, b: (op.negative(a), op.negative(b))))
print("actual:", first_result(lambda a, b: (op.negative(b), op.negative(b))), flush=True)
