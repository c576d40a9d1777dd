"""ExecuTorch: the `.pte` of a program under each way of planning that its configuration has, run by its runtime."""

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
from in_torch import module, roots
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
    "both outside": partial(config, alloc_graph_input=False, alloc_graph_output=False),
    "default again": config,
    "inputs outside": partial(config, alloc_graph_input=False, reinplace=True),
    "outputs outside": partial(config, alloc_graph_output=False),
    "no overlap": partial(config, partial(greedy, allow_overlapping_allocations=False)),
    "views copied": partial(config, views=False, reinplace=True),
    "naive": partial(config, naive),
    "inputs returned": partial(config, alloc_graph_input=False, alloc_graph_output=False),
    "aligned to 1": partial(config, alignment=1, reinplace=True),
}
REFUSED = ("liasing", "differ in", "branches", "FunctionalTensor", "higher order operator", "is not supported")
"""Words of torch's messages about programs that it does not export."""


def compile_and_run(
    program: p.Program, inputs: Sequence[Sequence[Array]], variant: str, folder: Path, runs: bool
) -> Compiled:
    """Export, plan, run and run eagerly."""
    root = roots(program)
    if variant.endswith("outside") and {value.id for value in program.inputs} & {root[k] for k in program.outputs}:
        # The runtime's Python binding returns zeros in its place (`spec/hunt.md`).
        raise Refused("an input that is returned, with inputs or outputs outside of the plan")
    made_of = module(program)
    given = [tuple(torch.from_numpy(each.copy()) for each in one) for one in inputs]
    unplanned = [[each.numpy() for each in made_of(*(t.clone() for t in one))] for one in given]
    try:
        exported = torch.export.export(made_of, tuple(t.clone() for t in given[0]), strict=False)
        edge = to_edge(exported)
    except Exception as error:  # torch raises RuntimeError and what is none
        if any(word in str(error) for word in REFUSED):
            raise Refused(f"{type(error).__name__}: {error}") from error
        raise
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
