"""How much memory ONNX Runtime itself uses for a model: the figures of its profile, of a first and a second run.

spec: C3.4
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tmmu.core.dims.expressions import evaluate
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model, RuntimeGraph
from tmmu.onnx.optimized import LEVELS, load_runtime, make_options

PEAK, HELD, IN_USE, DELTA = "mem_in_use_peak", "mem_arena_held", "mem_bytes_in_use", "mem_in_use_delta"
"""What the profile states of each node: the most bytes in use so far, what the arena holds, and what is in use."""

EXPLANATION = (
    "its figures are of all that kernels request: results, their workspaces and weights packed anew, each rounded up",
    "graph inputs and the weights of the file are not in them; a plan's activations are results and graph inputs only",
    "the first run requests each result when it is made, the second all in one block, and the arena keeps what it held",
)
"""What the difference between its figures and a plan's is."""


@dataclass(frozen=True)
class RunFigures:
    """One run: the most bytes in use at a time so far, and the bytes that the arena holds at its end."""

    in_use_peak: int
    arena_held: int


@dataclass(frozen=True)
class RuntimeFigures:
    """Two runs of one session, and the bytes in use `before` the first."""

    graph: RuntimeGraph
    before: int
    runs: tuple[RunFigures, ...]


def measure(path: str | os.PathLike[str], model: Model) -> RuntimeFigures | None:
    """Run the model file twice by ONNX Runtime on one thread, and return what its profile states of memory.

    Open dimensions have their largest size. Inputs are zeros, except bound values. Returns None if this version's
    profile states nothing of memory. Raises INVALID_IR with its reason if it does not run the model. Costs two runs.
    """
    graph = model.bindings.runtime
    assert graph is not None  # the caller has planned the graph of a runtime
    runtime = load_runtime(f"the memory of {graph.name}")
    with TemporaryDirectory(prefix="tmmu-onnxruntime-") as folder:
        options = make_options(runtime)
        options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, LEVELS[graph.level])
        options.enable_profiling, options.profile_file_prefix = True, os.path.join(folder, "profile")
        try:
            session = runtime.InferenceSession(os.fspath(path), options, providers=["CPUExecutionProvider"])
            feeds = _feeds(model)
            for _ in range(2):
                session.run(None, feeds)
            events = json.loads(Path(session.end_profiling()).read_bytes())
        except Exception as error:  # onnxruntime raises exceptions of a dozen unrelated kinds
            reason = next(iter(str(error).splitlines()), type(error).__name__)[:300]
            fix = "bind inputs that it can run with (--dim, --shape, --value)"
            raise TmmuError(
                "INVALID_IR", f"{graph.name} does not run it: {reason}", place="the file", fix=fix, node_id=""
            ) from error
    return read_profile(events, graph)


def _feeds(model: Model) -> dict[str, np.ndarray[Any, Any]]:
    """Return the caller's inputs at the largest sizes."""
    at, values = {name: high for name, (_, high) in model.bindings.ranges.items()}, model.bindings.values
    feeds = {}
    for tensor in (model.tensors[t] for t in model.inputs):
        shape = tuple(evaluate(dim, at) for dim in tensor.shape)
        feeds[tensor.name] = np.zeros(shape, np.dtype(tensor.dtype))
        if tensor.name in values:
            words = [{"true": "1", "false": "0"}.get(word, word) for word in values[tensor.name].lower().split(",")]
            feeds[tensor.name] = np.array(list(map(float, words))).astype(tensor.dtype).reshape(shape)
    return feeds


def read_profile(events: Iterable[Mapping[str, Any]], graph: RuntimeGraph) -> RuntimeFigures | None:
    """Return the figures of a profile: those of the nodes of each run, which an event of the whole run ends.

    Returns None if no node states memory.
    """
    runs, nodes, before = list[RunFigures](), list[dict[str, int]](), math.inf
    for event in sorted(events, key=lambda event: int(event["ts"]) + int(event["dur"])):
        stated = event.get("args", {})
        if event.get("cat") == "Node" and PEAK in stated:
            nodes.append({name: int(stated[name]) for name in (PEAK, HELD, IN_USE, DELTA)})
        elif event["name"] == "model_run" and nodes:
            if not runs:
                before = nodes[0][IN_USE] - nodes[0][DELTA]
            runs.append(RunFigures(max(node[PEAK] for node in nodes), nodes[-1][HELD]))
            nodes = []
    return RuntimeFigures(graph, int(before), tuple(runs)) if runs else None
