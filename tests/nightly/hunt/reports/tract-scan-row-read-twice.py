"""tract: an operator that reads a row of a Scan twice ends the process while the model is optimized."""

import tempfile
from pathlib import Path

import numpy as np
import onnx
import tract
from onnx import TensorProto, helper


def rows(second: str) -> list[list[float]]:
    def value(name: str, shape: list[int]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    kept = helper.make_node("Identity", ["s"], ["s1"], name="s1")
    made = helper.make_node("Add", ["row", second], ["o"], name="o")
    body = helper.make_graph(
        [kept, made], "body", [value("s", [2]), value("row", [2])], [value("s1", [2]), value("o", [2])]
    )
    scan = helper.make_node("Scan", ["a", "b"], ["c", "d"], name="c", body=body, num_scan_inputs=1)
    graph = helper.make_graph([scan], "g", [value("a", [2]), value("b", [3, 2])], [value("d", [3, 2])])
    path = Path(tempfile.mkdtemp(), "scan.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path)
    model = tract.onnx().load(path).into_model().into_runnable()
    ones = np.ones(2, np.float32)
    return model.run([ones, np.ones((3, 2), np.float32)])[0].to_numpy().tolist()


print("expected:", [[2.0, 2.0]] * 3)
print("counter-test (the row plus the carried value, both ones):", rows("s"), flush=True)
print("actual:", rows("row"), flush=True)
