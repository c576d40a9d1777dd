"""MNN on the CPU: results of a session, whose memory it plans for all tensors at once. It states no plan.

`unplanned` is a session that is told to save every tensor. Numbers are float32: products of int32 matrices are wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path = [str(Path(__file__).parents[1]), *sys.path[1:]]  # this folder's names are those of packages

import numpy as np
import programs as p
from in_onnx import FEATURES, model_of
from serving import Array, Compiled, Refused, claim_output, serve

claim_output()  # both packages print what the processor has

import _tools
import MNN

TYPES = {"float32": MNN.Halide_Type_Float, "int32": MNN.Halide_Type_Int, "bool": MNN.Halide_Type_Int}


def run(
    made: MNN.Interpreter, session: MNN.Session, program: p.Program, names: Sequence[str], inputs: Sequence[Array]
) -> list[Array]:
    """Return what a model returns, of the second of two runs in the same memory."""
    known, taken = program.values(), made.getSessionInputAll(session)  # without those that nothing reads
    for _ in range(2):
        for k, (value, given) in enumerate(zip(program.inputs, inputs, strict=True)):
            if f"in{k}" not in taken:
                continue
            kind = TYPES[value.dtype]
            stored = given.astype(np.float32 if value.dtype == "float32" else np.int32)
            held = MNN.Tensor(value.shape, kind, stored, MNN.Tensor_DimensionType_Caffe)
            taken[f"in{k}"].copyFrom(held)
        made.runSession(session)
    found = []
    for name, number in zip(names, program.outputs, strict=True):
        value = known[number]
        empty = np.zeros(value.shape, np.float32 if value.dtype == "float32" else np.int32)
        held = MNN.Tensor(value.shape, TYPES[value.dtype], empty, MNN.Tensor_DimensionType_Caffe)
        made.getSessionOutput(session, name).copyToHostTensor(held)
        found.append(np.array(held.getNumpyData()).reshape(value.shape))
    return found


def compile_and_run(
    program: p.Program, inputs: Sequence[Sequence[Array]], variant: str, folder: Path, runs: bool
) -> Compiled:
    """Convert it, and run it planned and with every tensor saved."""
    model = model_of(program, functions=False)
    source, target = folder / "program.onnx", folder / "program.mnn"
    source.write_bytes(model.SerializeToString())
    _tools.mnnconvert(
        ["mnnconvert", "-f", "ONNX", "--modelFile", str(source), "--MNNModel", str(target), "--bizCode", "h"]
    )
    if not target.exists():
        raise Refused("the converter does not take it")
    names = [each.name for each in model.graph.output]
    made = MNN.Interpreter(str(target))
    config = {"backend": "CPU", "numThread": 1, "precision": "high"}
    planned = made.createSession(config)
    outputs = [run(made, planned, program, names, one) for one in inputs]
    kept = MNN.Interpreter(str(target))
    session = kept.createSession(
        {**config, "saveTensors": tuple(name for node in model.graph.node for name in node.output)}
    )
    return Compiled([], outputs, [run(kept, session, program, names, one) for one in inputs])


if __name__ == "__main__":
    serve("MNN", MNN.version(), compile_and_run, FEATURES - {"call", "cond", "int32", "int8", "scan", "while"})
