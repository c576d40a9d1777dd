"""tract: an If whose branches are constants gives the first one to the next operator, whatever the condition is."""

import tempfile
from pathlib import Path

import numpy as np
import onnx
import tract
from onnx import TensorProto, helper


def branch(number: float, name: str, operands: list[str]) -> onnx.GraphProto:
    value = helper.make_tensor("value", TensorProto.FLOAT, [2], [number, number])
    constant = helper.make_node("Constant", [], [f"c{name}"], name=f"c{name}", value=value)
    last = helper.make_node("Add" if operands else "Identity", [f"c{name}", *operands], [name], name=name)
    return helper.make_graph([constant, last], name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])])


def result(operands: list[str]) -> list[float]:
    flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, [])
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    branches = {"then_branch": branch(1, "t", operands), "else_branch": branch(2, "e", operands)}
    nodes = [helper.make_node("If", ["flag"], ["z"], name="z", **branches)]
    nodes.append(helper.make_node("Neg", ["z"], ["y"], name="y"))
    opset = [helper.make_opsetid("", 18)]
    path = Path(tempfile.mkdtemp(), "branches.onnx")
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [flag, x], [y]), opset_imports=opset, ir_version=8), path)
    made = tract.onnx().load(path).into_model().into_runnable()
    return made.run([np.array(False), np.zeros(2, np.float32)])[0].to_numpy().tolist()


print("expected:", [-2.0, -2.0])
print("counter-test (each branch adds x, zeros):", result(["x"]))
print("actual:", result([]), flush=True)
