"""The corpus's programs, planned by ExecuTorch and by `tmmu.exporters.executorch`, and run:
with executorch installed and this project's folder on PYTHONPATH,

    python tests/support/executorch_runs.py DIR [NAME …]

writes DIR/NAME-theirs.pte and DIR/NAME-ours.pte, and prints as JSON for each: the bytes of its memories, and for how
many inputs the runtime computes something else than the eager program.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from executorch.exir import ExecutorchBackendConfig, to_edge
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite
from executorch.exir.passes import MemoryPlanningPass
from executorch.runtime import Runtime

from tmmu.exporters.executorch import packed

ALGORITHMS = {"theirs": None, "ours": MemoryPlanningAlgorithmSuite([packed])}
WAYS = {"all": (True, True), "callers": (False, False)}
"""Who has the memory of inputs and of outputs: the plan, or the caller."""


def main(folder: str, *chosen: str) -> None:
    """Write, run and print."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "corpus/foreign/make"))
    from executorch_programs import PROGRAMS

    found = {}
    for name in chosen or PROGRAMS:
        module, examples = PROGRAMS[name]
        for way, (inputs, outputs) in WAYS.items() if name == "transformer" else [("all", WAYS["all"])]:
            for whose, algorithm in ALGORITHMS.items():
                memory = MemoryPlanningPass(
                    memory_planning_algo=algorithm, alloc_graph_input=inputs, alloc_graph_output=outputs
                )
                edge = to_edge(torch.export.export(module.eval(), examples[0], strict=True))
                data = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=memory)).buffer
                path = Path(folder, f"{name}-{way}-{whose}.pte")
                path.write_bytes(data)
                sizes = deserialize_pte_binary(data).program.execution_plan[0].non_const_buffer_sizes
                found[path.stem] = {"bytes": sizes, "wrong": wrong(path, module, examples) if way == "all" else 0}
    print(json.dumps(found))


def wrong(path, module, examples) -> int:
    """For how many inputs the runtime computes something else."""
    method, count = Runtime.get().load_program(str(path)).load_method("forward"), 0
    for example in examples:
        expected = module(*example)
        expected = expected if isinstance(expected, tuple) else (expected,)
        got = method.execute(example)
        count += not all(torch.allclose(a, b, atol=1e-4) for a, b in zip(got, expected, strict=True))
    return count


if __name__ == "__main__":
    main(*sys.argv[1:])
