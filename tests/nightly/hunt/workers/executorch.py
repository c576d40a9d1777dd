"""ExecuTorch: the `.pte` of a program under each way of planning that its configuration has, run by the portable runtime."""

from __future__ import annotations

import importlib.metadata
import logging
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path

sys.path = [str(Path(__file__).parents[1]), *sys.path[1:]]  # this folder's names are those of packages

import programs as p
import torch
from executorch.exir import ExecutorchBackendConfig, to_edge
from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, greedy, naive
from executorch.exir.passes import MemoryPlanningPass
from executorch.runtime import Runtime
from in_torch import module
from serving import Array, Compiled, Refused, serve


def config(algorithm=None, reinplace=False, views=True, **planning) -> ExecutorchBackendConfig:
    """A configuration with a memory planning of its own."""
    algorithms = None if algorithm is None else MemoryPlanningAlgorithmSuite([algorithm])
    return ExecutorchBackendConfig(
        memory_planning_pass=MemoryPlanningPass(algorithms, **planning), run_reinplace_pass=reinplace,
        remove_view_copy=views,
    )  # fmt: skip


VARIANTS = {
    "default": config,
    "reinplace": partial(config, reinplace=True),
    "outside": partial(config, alloc_graph_input=False, alloc_graph_output=False),
    "default again": config,
    "inputs outside": partial(config, alloc_graph_input=False, reinplace=True),
    "outputs outside": partial(config, alloc_graph_output=False),
    "no overlap": partial(config, partial(greedy, allow_overlapping_allocations=False)),
    "views copied": partial(config, views=False, reinplace=True),
    "naive": partial(config, naive),
    "aligned to 1": partial(config, alignment=1, reinplace=True),
}
REFUSED = (
    "Cond", "cond", "alias", "while_loop", "scan", "Unsupported", "not supported", "unsupported", "Missing out variant",
    "SpecViolationError", "not in Core ATen", "dtype", "missing",
)  # fmt: skip


def compile_and_run(program: p.Program, inputs: Sequence[Sequence[Array]], variant: str, folder: Path) -> Compiled:
    """Export, plan, run and run eagerly."""
    made_of = module(program)
    given = [tuple(torch.from_numpy(each.copy()) for each in one) for one in inputs]
    unplanned = [[each.numpy() for each in made_of(*(t.clone() for t in one))] for one in given]
    edge = to_edge(torch.export.export(made_of, tuple(t.clone() for t in given[0]), strict=False))
    path = folder / "program.pte"
    path.write_bytes(edge.to_executorch(VARIANTS[variant]()).buffer)
    method = Runtime.get().load_program(str(path)).load_method("forward")
    outputs = []
    for one in given:
        made = method.execute(tuple(t.clone() for t in one))
        outputs.append([torch.as_tensor(each).clone().numpy() for each in made])
    return Compiled([path], outputs, unplanned)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    version = importlib.metadata.version("executorch")
    serve("ExecuTorch", version, compile_and_run, p.FEATURES - {"subbyte", "while"}, tuple(VARIANTS))
