"""LiteRT: the addresses that its arena planner gave the tensors of each subgraph, as an offline plan of the model.

The interpreter runs without delegates. Each subgraph has an arena of its own; only the main one's can be read, so that
a model with others has a plan of its main subgraph alone. `unplanned` is the interpreter that keeps all tensors.
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path = [str(Path(__file__).parents[1]), *sys.path[1:]]  # this folder's names are those of packages

import numpy as np
import programs as p
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from in_tflite import OP, Writer
from serving import Array, Compiled, Refused, serve

FEATURES = p.FEATURES - {"scan", "subbyte"}
RESHAPE = OP.RESHAPE
VARIANTS = (*["once"] * 9, "twice")
"""Whether a subgraph may return a tensor twice, which LiteRT gets wrong (`spec/hunt.md`)."""


def interpreter(model: bytes, keeps_all: bool) -> Interpreter:
    """An interpreter with its memory planned, or with all tensors kept. Refuses what LiteRT does."""
    made = Interpreter(
        model_content=model, experimental_preserve_all_tensors=keeps_all, num_threads=1,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )  # fmt: skip
    try:
        made.allocate_tensors()
    except (RuntimeError, ValueError) as error:
        raise Refused(str(error)) from error
    return made


def run(it: Interpreter, inputs: Sequence[Array]) -> list[Array]:
    """What a model returns."""
    graph = it.get_input_details()
    for detail, given in zip(graph, inputs, strict=True):
        it.set_tensor(detail["index"], given)
    try:
        it.invoke()
    except RuntimeError as error:
        raise Refused(str(error)) from error
    return [it.get_tensor(detail["index"]).copy() for detail in it.get_output_details()]


def addresses(it: Interpreter, writer: Writer) -> list[int | None]:
    """Where each tensor of the main subgraph lies; None where the interpreter has no place for it."""
    found: list[int | None] = []
    for t, tensor in enumerate(writer.model.subgraphs[0].tensors):
        found.append(None)
        if not tensor.buffer:
            try:
                array = it.tensor(t)()
            except (ValueError, RuntimeError):
                continue
            if array.size and array.shape:  # of no axes, NumPy makes a number, which is elsewhere
                found[-1] = array.__array_interface__["data"][0]
    return found


def compile_and_run(
    program: p.Program, inputs: Sequence[Sequence[Array]], variant: str, folder: Path, runs: bool
) -> Compiled:
    """Plan, read the addresses before and after runs, and run with all tensors kept as well."""
    writer = Writer(program, copies_results=variant != "twice")
    model = writer.bytes()
    planned = interpreter(model, keeps_all=False)
    outputs, at = [], addresses(planned, writer)
    for one in inputs:
        outputs.append(run(planned, one))
        after = addresses(planned, writer)
        # What the runtime moves has no place of its own in the plan.
        at = [old if old == new else None for old, new in zip(at, after, strict=True)]
    kept = interpreter(model, keeps_all=True)
    unplanned = [run(kept, one) for one in inputs]
    return Compiled(plans(writer, at, folder), outputs, unplanned)


def plans(writer: Writer, at: Sequence[int | None], folder: Path) -> list[Path]:
    """The addresses as offsets from the lowest."""
    at, main = list(at), writer.model.subgraphs[0]
    for each in main.operators:
        source = each.inputs[0]
        if writer.model.operatorCodes[each.opcodeIndex].builtinCode == RESHAPE and not main.tensors[source].buffer:
            at[each.outputs[0]] = (
                None if at[source] is None else at[each.outputs[0]]
            )  # it shows what has no known place
    known = [each for each in at if each is not None]
    if not known:
        return []
    rest = sum(len(graph.tensors) for graph in writer.model.subgraphs[1:])
    writer.plan([-1 if each is None else each - min(known) for each in at] + [-1] * rest)
    path = folder / "program.tflite"
    path.write_bytes(writer.bytes())
    return [path]


if __name__ == "__main__":
    np.seterr(all="ignore")
    serve("LiteRT", importlib.metadata.version("ai-edge-litert"), compile_and_run, FEATURES, VARIANTS)
