"""MNN: the fusion of one region of one element with another takes it for empty, so that a Slice of a Pad is zero."""

import tempfile
from pathlib import Path

import _tools
import MNN
import numpy as np
import onnx
from onnx import TensorProto, helper


def convert() -> str:
    x, z = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1]) for name in "xz")
    rows = {"pads": [2, 0, 0, 1], "starts": [2, 0], "ends": [3, 1]}
    constants = [helper.make_tensor(name, TensorProto.INT64, [len(row)], row) for name, row in rows.items()]
    nodes = [helper.make_node("Pad", ["x", "pads"], ["y"], name="y")]
    nodes.append(helper.make_node("Slice", ["y", "starts", "ends"], ["z"], name="z"))
    graph = helper.make_graph(nodes, "g", [x], [z], constants)
    folder = Path(tempfile.mkdtemp())
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), folder / "m.onnx")
    files = ["--modelFile", str(folder / "m.onnx"), "--MNNModel", str(folder / "m.mnn")]
    _tools.mnnconvert(["mnnconvert", "-f", "ONNX", *files, "--bizCode", "x"])
    return str(folder / "m.mnn")


def result(mask: int) -> list[float]:
    model = MNN.Interpreter(convert())
    model.setSessionHint(4, mask)  # GEOMETRY_COMPUTE_MASK
    session = model.createSession({"backend": "CPU", "precision": "high"})

    def tensor(value: float) -> MNN.Tensor:
        array = np.full((1, 1), value, np.float32)
        return MNN.Tensor((1, 1), MNN.Halide_Type_Float, array, MNN.Tensor_DimensionType_Caffe)

    model.getSessionInput(session).copyFrom(tensor(7))
    model.runSession(session)
    held = tensor(0)
    model.getSessionOutput(session, "z").copyToHostTensor(held)
    return np.array(held.getNumpyData()).ravel().tolist()


print("expected:", [7.0])
print("counter-test (GEOMETRCOMPUTEMASK_FUSEREGION is off):", result(0xFFFE), flush=True)
print("actual:", result(0xFFFF), flush=True)
