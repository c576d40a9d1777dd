"""ONNX models written as text, and the files that tests of the importer read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper, parser

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Bindings
from tmmu.onnx import Resolved, resolve

LIGHT = sorted(Path(os.path.dirname(onnx.__file__), "backend", "test", "data", "light").glob("light_*.onnx"))
"""The networks that the onnx wheel carries, as exporters wrote them."""

IF = """g (float[2] x, bool c) => (float[2] z) <float[2] w = {1, 2}> {
  [pre] p = Relu(x)
  [pick] y = If (c) <
    else_branch = e () => (float[2] p) <float[2] k = {1, 2}> { [n] u = Add(p, k) },
    then_branch = t () => (float[2] b) { [n] a = Add(p, w) [m] b = Relu(a) }
  >
  z = Relu(y)
}"""
"""An If with a captured value that its else branch returns, and a parameter of that branch's own."""

NESTED = """g (bool c, float[2] x) => (float[2] y) {
  [out] y = If (c) <
    then_branch = t () => (float[2] b) {
      a = Relu(x)
      [in] b = If (c) <then_branch = tt () => (float[2] d) { d = Add(a, x) e = Add(d, d) },
                       else_branch = ee () => (float[2] a) { }>
    },
    else_branch = e () => (float[2] f) { f = Neg(x) }>
}"""
"""An If within a branch of another; one inner branch returns what the branch around it computed."""


def model_of(text: str, opset: int = 18, ir_version: int = 8, more: str = "") -> onnx.ModelProto:
    """The model that `text` describes: `main (inputs) => (outputs) <stored> { nodes }`, functions after it."""
    return parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["" : {opset}{more}]> {text}')


def network(*nodes: onnx.NodeProto, dims: list[str | int] | None = None) -> bytes:
    """An ONNX model from `x` to `y`, by default a Relu over a symbolic dimension."""
    given = nodes or (helper.make_node("Relu", ["x"], ["y"], name="relu"),)
    graph = helper.make_graph(
        list(given),
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8] if dims is None else dims)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    content: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    return content


def written(folder: Path, model: onnx.ModelProto | bytes) -> str:
    """The path of a file that holds `model`."""
    path = folder / "model.onnx"
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    return str(path)


def resolved(folder: Path, model: onnx.ModelProto | str, **bindings: Any) -> Resolved:
    """The sizes of a model that is given as itself or as text."""
    return resolve(written(folder, model_of(model) if isinstance(model, str) else model), Bindings(**bindings))


def refusal(folder: Path, model: onnx.ModelProto | bytes | str, **bindings: Any) -> TmmuError:
    """The error with which a model is refused; it is one line that names the file, the place and a fix."""
    path = written(folder, model_of(model) if isinstance(model, str) else model)
    with pytest.raises(TmmuError) as caught:
        resolve(path, Bindings(**bindings))
    error = caught.value
    assert (error.file, bool(error.place), bool(error.fix)) == (path, True, True)
    assert "\n" not in str(error)
    return error
