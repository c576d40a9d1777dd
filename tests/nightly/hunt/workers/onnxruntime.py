"""ONNX Runtime on the CPU: results with its memory patterns and reuse of memory, at each level of optimization.

It states no plan. `unplanned` is the session without arena, memory pattern and reuse, `plain` without optimization too.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path = [str(Path(__file__).parents[1]), *sys.path[1:]]  # this folder's names are those of packages

import onnxruntime as ort
import programs as p
from in_onnx import FEATURES, model_of
from serving import Array, Compiled, Refused, serve

LEVELS = {
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "none": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
}
REFUSALS = ("NOT_IMPLEMENTED", "INVALID_GRAPH", "NotImplemented")


def session(model: bytes, level: str, is_planned: bool) -> ort.InferenceSession:
    """Return a session of one thread. Refuses a type that an operator does not have."""
    options = ort.SessionOptions()
    options.graph_optimization_level = LEVELS[level]
    options.enable_mem_pattern = options.enable_mem_reuse = options.enable_cpu_mem_arena = is_planned
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return ort.InferenceSession(model, options, ["CPUExecutionProvider"])
    except Exception as error:  # the runtime's own classes are not public
        if any(word in f"{type(error).__name__} {error}" for word in REFUSALS):
            raise Refused(str(error)) from error
        raise


def run(made: ort.InferenceSession, inputs: Sequence[Array]) -> list[Array]:
    """Return what a model returns. The second run of three has the memory pattern that the first one recorded."""
    names = [each.name for each in made.get_inputs()]
    given = dict(zip(names, inputs, strict=True))
    for _ in range(2):
        made.run(None, given)
    return made.run(None, given)


def compile_and_run(
    program: p.Program, inputs: Sequence[Sequence[Array]], variant: str, folder: Path, runs: bool
) -> Compiled:
    """Run it planned, and without a plan."""
    model = model_of(program).SerializeToString()
    sessions = session(model, variant, True), session(model, variant, False), session(model, "none", False)
    return Compiled([], *([run(made, one) for one in inputs] for made in sessions))


if __name__ == "__main__":
    serve("ONNX Runtime", ort.__version__, compile_and_run, FEATURES, tuple(LEVELS))
