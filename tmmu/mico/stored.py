"""ONNX models with the values of their weights, or a refusal that names the missing ones. spec: MC8.2"""

from __future__ import annotations

import os
from typing import Any

import onnx
from numpy.typing import NDArray
from onnx import external_data_helper, numpy_helper

from tmmu.core.errors import TmmuError
from tmmu.core.reading import read_file
from tmmu.onnx.reading import FILE_LIMIT


def load_with_weights(path: str | os.PathLike[str]) -> onnx.ModelProto:
    """Read the model at `path` with its weights. Raises INVALID_IR if onnx cannot read it or weights are missing."""
    try:
        model: onnx.ModelProto = onnx.ModelProto.FromString(read_file(path, FILE_LIMIT))
        external_data_helper.load_external_data_for_model(model, os.path.dirname(os.path.abspath(path)))
        return model
    except Exception as error:  # onnx raises the exceptions of its libraries, also those of protobuf
        raise TmmuError(
            "INVALID_IR", f"onnx does not read it with its weights ({error})", file=os.fspath(path),
            fix="give an ONNX model with its weights beside it, as `tmmu example NAME --weights SEED` writes them",
        ) from error  # fmt: skip


def values(tensor: onnx.TensorProto) -> NDArray[Any]:
    """Return the elements of a stored tensor. Raises INVALID_IR if they are in a file that was not read."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        raise TmmuError(
            "INVALID_IR", "its values are in a file that was not read", place=f"initializer {tensor.name!r}",
            fix="read the model with onnx.load, and its weights beside it",
        )  # fmt: skip
    return numpy_helper.to_array(tensor)
