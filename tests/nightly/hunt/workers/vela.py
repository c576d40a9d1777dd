"""Vela: its plan of a model that stays on the CPU but for what an Ethos-U takes, run by TensorFlow Lite Micro at these
addresses where that has the operators and no part is for the NPU. `unplanned` is the model with TFLM's own plan.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path = [str(Path(__file__).parents[1]), *sys.path[1:]]  # this folder's names are those of packages

import numpy as np
import programs as p
from ethosu.vela import vela
from in_tflite import Writer
from serving import Array, Compiled, Refused, serve
from tflite_micro.python.tflite_micro import runtime

FEATURES = p.FEATURES - {"scan", "subbyte", "call", "cond", "while", "zero", "returned", "twice"}
VARIANTS = ("HillClimb", "Greedy", "LinearAlloc")


def run(model: bytes, inputs: Sequence[Sequence[Array]], outputs: int) -> list[list[Array]] | None:
    """What TFLM returns; None where it does not take the model."""
    try:
        it = runtime.Interpreter.from_bytes(model)
        found = []
        for one in inputs:
            for k, given in enumerate(one):
                it.set_input(given, k)
            it.invoke()
            found.append([it.get_output(k) for k in range(outputs)])
        return found
    except (RuntimeError, ValueError, SystemError):
        return None


def compile_and_run(
    program: p.Program, inputs: Sequence[Sequence[Array]], variant: str, folder: Path, runs: bool
) -> Compiled:
    """Let Vela plan a model, and run it."""
    model = Writer(program).bytes()
    path = folder / "program.tflite"
    path.write_bytes(model)
    printed = io.StringIO()
    options = ["--verbose-allocation", "--output-dir", str(folder), "--accelerator-config", "ethos-u55-64"]
    try:
        with contextlib.redirect_stdout(printed):
            vela.main([str(path), *options, "--tensor-allocator", variant])
    except SystemExit as end:
        if end.code:
            raise Refused(printed.getvalue()[-300:]) from end
    path.unlink()
    plans = [folder / "program_vela.tflite"]
    text = printed.getvalue()
    if "Start Addr" in text:
        plans.append(folder / "table.txt")
        plans[-1].write_text(text[text.index("#" * 80) :])
    unplanned = run(model, inputs, len(program.outputs))
    return Compiled(
        plans, None if unplanned is None else run(plans[0].read_bytes(), inputs, len(program.outputs)), unplanned
    )


if __name__ == "__main__":
    np.seterr(all="ignore")
    serve("Vela", importlib.metadata.version("ethos-u-vela"), compile_and_run, FEATURES, VARIANTS)
