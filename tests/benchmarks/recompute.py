"""`python -m tests.benchmarks.recompute`: what a budget costs in operations on the example networks, and in seconds.

For each network the peak of activations and gradients without recomputation, then for several budgets the operations
repeated, in percent of the forward half's, by the planner and by √n segments alone (a dash where they do not fit).
"""

from __future__ import annotations

import os
import tempfile
import time

from tmmu import examples
from tmmu.cli.models import load
from tmmu.errors import TmmuError
from tmmu.planner import DEFAULT
from tmmu.planner.remat.choose import peak
from tmmu.planner.remat.rewrite import joint_of, rewrite
from tmmu.planner.remat.strategies import Classes, chen
from tmmu.planner.training.modes import prepare
from tmmu.vocabulary import Phase

CASES = (
    ("resnet50", {"batch": 32}),
    ("unet", {"batch": 16}),
    ("llama-block", {"batch": 16, "seq": 2048}),
    ("gpt2", {"batch": 8, "seq": 512}),
)
PERCENT = (90, 70, 50, 40, 30)


def table() -> None:
    """Print the table."""
    print(f"{'model':14} {'peak MiB':>9} {'budget':>7} {'repeated':>9} {'√n':>7} {'seconds':>8}")
    for name, dims in CASES:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            examples.write(name, path)
            model = load(path, dims, {}, {}, (), False)
        joint = prepare(model, "backward", DEFAULT)
        full, source = peak(joint, DEFAULT), joint_of(joint)
        cost = dict(zip((node.name for node in joint.nodes), source.cost, strict=True))
        forward = sum(cost[node.name] for node in joint.nodes if node.phase is Phase.FORWARD)
        segments = rewrite(source, chen(Classes(source)))
        least = peak(segments.model, DEFAULT)
        for percent in PERCENT:
            budget = full * percent // 100
            start = time.perf_counter()
            try:
                graph = prepare(model, "backward", DEFAULT, budget)
                again = sum(cost[n.name.partition(".recompute")[0]] for n in graph.nodes if ".recompute" in n.name)
                said = f"{100 * again / forward:.1f} %"
            except TmmuError as error:
                said = f"≥{100 * int(error.diagnostics['required']) / full:.0f} %!"
            seconds = time.perf_counter() - start
            other = f"{100 * segments.cost / forward:.1f} %" if least <= budget else "–"
            print(f"{name:14} {full >> 20:>9} {percent:>5} % {said:>9} {other:>7} {seconds:>8.2f}", flush=True)


if __name__ == "__main__":
    table()
