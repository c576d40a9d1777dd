"""An ONNX file read with its weights. spec: MC8.2"""

from __future__ import annotations

import os

import onnx

from tmmu.core.errors import TmmuError


def load_with_weights(path: str | os.PathLike[str]) -> onnx.ModelProto:
    """The model at `path` with its weights in memory; INVALID_IR where onnx does not read it, or they are not there."""
    try:
        return onnx.load(path)
    except Exception as error:  # onnx lets every library's exceptions through, protobuf's too
        raise TmmuError(
            "INVALID_IR", f"onnx does not read it with its weights ({error})", file=os.fspath(path),
            fix="give an ONNX model with its weights beside it, as `tmmu example NAME --weights SEED` writes them",
        ) from error  # fmt: skip
