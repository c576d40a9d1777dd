"""OpenVINO: an Abs of a Concat is moved in front of the Concat, whose other readers then see absolute values."""

import numpy as np
import openvino as ov
from openvino import opset13 as op


def concatenation(absolute: object) -> list[float]:
    x = op.parameter([2], np.float32)
    both = op.concat([x, x], 0)
    model = ov.Model([op.result(both), op.result(absolute(both))], [x])
    compiled = ov.Core().compile_model(model, "CPU")
    return compiled({0: np.array([-1, 2], np.float32)})[compiled.output(0)].tolist()


print("expected:", [-1.0, 2.0, -1.0, 2.0])
print("counter-test (max(c, -c) in place of Abs):", concatenation(lambda c: op.maximum(c, op.negative(c))))
print("actual:", concatenation(op.absolute), flush=True)
