"""ONNX models written as text, and the files that tests of the importer read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import parser

from tmmu.core.errors import TmmuError
from tmmu.importers.shapes import Resolved, resolve

LIGHT = sorted(Path(os.path.dirname(onnx.__file__), "backend", "test", "data", "light").glob("light_*.onnx"))
"""The networks that the onnx wheel carries, as exporters wrote them."""


def model_of(text: str, opset: int = 18, ir_version: int = 8, more: str = "") -> onnx.ModelProto:
    """The model that `text` describes: `main (inputs) => (outputs) <stored> { nodes }`, functions after it."""
    return parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["" : {opset}{more}]> {text}')


def written(folder: Path, model: onnx.ModelProto | bytes) -> str:
    """The path of a file that holds `model`."""
    path = folder / "model.onnx"
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    return str(path)


def resolved(folder: Path, model: onnx.ModelProto | str, **bindings: Any) -> Resolved:
    """The sizes of a model that is given as itself or as text."""
    return resolve(written(folder, model_of(model) if isinstance(model, str) else model), **bindings)


def refusal(folder: Path, model: onnx.ModelProto | bytes | str, **bindings: Any) -> TmmuError:
    """The error with which a model is refused; it is one line that names the file, the place and a fix."""
    path = written(folder, model_of(model) if isinstance(model, str) else model)
    with pytest.raises(TmmuError) as caught:
        resolve(path, **bindings)
    error = caught.value
    assert (error.file, bool(error.place), bool(error.fix)) == (path, True, True)
    assert "\n" not in str(error)
    return error
