"""MNN: the converter gives a Reshape that the model returns the values of the unary operator that reads it."""

import tempfile
from pathlib import Path

import _tools
import MNN
import numpy as np
import onnx
from onnx import TensorProto, helper


def convert(has_second_reader: bool) -> str:
    x, *made = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xyzw"[: 3 + has_second_reader])
    shape = helper.make_tensor("shape", TensorProto.INT64, [1], [4])
    nodes = [("Reshape", ["x", "shape"], ["y"]), ("Neg", ["y"], ["z"])]
    nodes += [("Add", ["y", "y"], ["w"])] * has_second_reader
    graph = helper.make_graph([helper.make_node(*node) for node in nodes], "g", [x], made, [shape])
    folder = Path(tempfile.mkdtemp())
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), folder / "m.onnx")
    files = ["--modelFile", str(folder / "m.onnx"), "--MNNModel", str(folder / "m.mnn")]
    _tools.mnnconvert(["mnnconvert", "-f", "ONNX", *files, "--bizCode", "x"])
    return str(folder / "m.mnn")


def reshaped(has_second_reader: bool) -> list[float]:
    model = MNN.Interpreter(convert(has_second_reader))
    session = model.createSession({"backend": "CPU", "precision": "high"})

    def tensor(*values: float) -> MNN.Tensor:
        array = np.array(values, np.float32)
        return MNN.Tensor((4,), MNN.Halide_Type_Float, array, MNN.Tensor_DimensionType_Caffe)

    model.getSessionInput(session).copyFrom(tensor(1, 2, 3, 4))
    model.runSession(session)
    held = tensor(0, 0, 0, 0)
    model.getSessionOutput(session, "y").copyToHostTensor(held)
    return np.array(held.getNumpyData()).ravel().tolist()


print("expected:", [1.0, 2.0, 3.0, 4.0])
print("counter-test (an Add reads the Reshape too):", reshaped(True), flush=True)
print("actual:", reshaped(False), flush=True)
