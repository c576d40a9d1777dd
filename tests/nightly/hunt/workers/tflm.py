"""TensorFlow Lite Micro: results of a model in the arena that its greedy planner plans. It states no plan.

`unplanned` is the model with an offline plan in which each tensor has bytes that no other one has. Numbers are float32:
few kernels take int32. Those that sum int64 are missing, so that flags are inputs.
"""

from __future__ import annotations

import importlib.metadata
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path = [str(Path(__file__).parents[1]), *sys.path[1:]]  # this folder's names are those of packages

import numpy as np
import programs as p
from in_tflite import Writer
from serving import Array, Compiled, Refused, serve
from tflite_micro.python.tflite_micro import runtime

FEATURES = p.FEATURES - {"scan", "subbyte", "call", "zero", "int32"}
ARENA = 1 << 22
"""Bytes of the arena: more than any program needs if each tensor has its own."""
ALIGNMENT = 16


def run(model: bytes, inputs: Sequence[Sequence[Array]], outputs: int) -> list[list[Array]]:
    """Return what TFLM returns for each set of inputs, run one after another in one arena."""
    try:
        made = runtime.Interpreter.from_bytes(model, arena_size=ARENA)
        found = []
        for one in inputs:
            for k, given in enumerate(one):
                made.set_input(given, k)
            made.invoke()
            found.append([np.array(made.get_output(k)) for k in range(outputs)])
    except (RuntimeError, ValueError, SystemError) as error:
        raise Refused(f"{type(error).__name__}: {error}"[:300]) from error
    return found


def offsets(writer: Writer) -> list[int]:
    """Return an offset for each tensor of the main subgraph, one behind the other; -1 for constants."""
    tensors = writer.model.subgraphs[0].tensors
    sizes = [0 if each.buffer else 8 * max(1, int(np.prod(each.shape))) for each in tensors]  # int64 is the largest
    rounded = [-(-size // ALIGNMENT) * ALIGNMENT for size in sizes]
    starts = itertools.accumulate(rounded, initial=0)
    return [start if size else -1 for start, size in zip(starts, sizes, strict=False)]


def compile_and_run(
    program: p.Program, inputs: Sequence[Sequence[Array]], variant: str, folder: Path, runs: bool
) -> Compiled:
    """Run a model in memory that TFLM plans, and without reuse."""
    writer = Writer(program)
    outputs = run(writer.bytes(), inputs, len(program.outputs))
    unplanned = None
    if len(writer.model.subgraphs) == 1:
        writer.plan(offsets(writer))
        unplanned = run(writer.bytes(), inputs, len(program.outputs))
    return Compiled([], outputs, unplanned)


if __name__ == "__main__":
    np.seterr(all="ignore")
    serve("TensorFlow Lite Micro", importlib.metadata.version("tflite-micro"), compile_and_run, FEATURES)
