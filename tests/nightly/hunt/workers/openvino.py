"""OpenVINO on the CPU: results of a compiled model, whose memory its plugin plans. It states no plan.

The body of a Scan that does not read its slices runs once (`spec/hunt.md`): one variant of ten keeps such bodies.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path = [str(Path(__file__).parents[1]), *sys.path[1:]]  # this folder's names are those of packages

import openvino as ov
import programs as p
from in_onnx import FEATURES, model_of
from serving import Array, Compiled, Refused, serve

SETTINGS = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": "1", "NUM_STREAMS": "1"}
CORE = ov.Core()
VARIANTS = (*["once", "twice", "twice"] * 3, "unread")
"""How often it is run in the same memory, or with bodies that read no slices."""


def run(made: ov.CompiledModel, inputs: Sequence[Array], times: int) -> list[Array]:
    """Return what a model returns when it is run for the last time, in the same memory each time."""
    request, given = made.create_infer_request(), {f"in{k}": each for k, each in enumerate(inputs)}
    taken = [each.any_name for each in made.inputs]  # without those that nothing reads
    for _ in range(times):
        request.infer({name: given[name].copy() for name in taken})
    return [request.get_output_tensor(k).data.copy() for k in range(len(made.outputs))]


def compile_and_run(
    program: p.Program, inputs: Sequence[Sequence[Array]], variant: str, folder: Path, runs: bool
) -> Compiled:
    """Run it on the CPU."""
    try:
        written = model_of(program, functions=False, reads_slices=variant != "unread")
        model = CORE.read_model(written.SerializeToString())
    except RuntimeError as error:
        raise Refused(str(error)) from error
    made = CORE.compile_model(model, "CPU", SETTINGS)
    return Compiled([], [run(made, one, 2 if variant == "twice" else 1) for one in inputs])


if __name__ == "__main__":
    serve("OpenVINO", ov.__version__.partition("-")[0], compile_and_run, FEATURES - {"call"}, VARIANTS)
