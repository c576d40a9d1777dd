"""tract on the CPU: results of its optimized model. It states no plan, and cannot run without optimization.

It has no Loop.
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path = [str(Path(__file__).parents[1]), *sys.path[1:]]  # this folder's names are those of packages

import programs as p
import tract
from in_onnx import FEATURES, model_of
from serving import Array, Compiled, Refused, serve


def compile_and_run(
    program: p.Program, inputs: Sequence[Sequence[Array]], variant: str, folder: Path, runs: bool
) -> Compiled:
    """Run it."""
    path = folder / "program.onnx"
    path.write_bytes(model_of(program, functions=False).SerializeToString())
    try:
        made = tract.onnx().load(path).into_model().into_runnable()
        return Compiled([], [[each.to_numpy() for each in made.run(list(one))] for one in inputs])
    except tract.TractError as error:
        reason = str(error).partition("\n\nStack backtrace")[0]
        raise (Refused if "Unimplemented" in reason else RuntimeError)(reason) from None


if __name__ == "__main__":
    serve("tract", importlib.metadata.version("tract"), compile_and_run, FEATURES - {"call", "while"})
