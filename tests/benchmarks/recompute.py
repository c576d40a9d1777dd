"""`python -m tests.benchmarks.recompute`: what a budget costs in operations on the example networks, and in seconds.

For each network the peak of activations and gradients without recomputation, then for several budgets the operations
repeated, in percent of the forward half's, by the planner and by √n segments alone (a dash where they do not fit).

`--optimum` (with the extra `exact`): the planner beside the optimum of Checkmate's integer program, on graphs that it
solves; its lines are the table of `tests/nightly/test_remat_optimum.py`. `--min-cut` (with torch and transformers): the
planner beside the min-cut partitioner of torch, on the joint graph of GPT-2 that torch traced.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time

from tests.support.recompute_graphs import hourglass, residual, varied_chain
from tmmu import examples
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Bindings, Phase
from tmmu.planner import DEFAULT
from tmmu.planner.modes import prepare_graph
from tmmu.planner.remat.choose import measure_peak
from tmmu.planner.remat.rewrite import build_joint, rewrite
from tmmu.planner.remat.strategies import Classes, chen_policy
from tmmu.tasks.models import load

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
            model = load(path, Bindings(dims))
        joint = prepare_graph(model, "backward", DEFAULT)
        full, source = measure_peak(joint, DEFAULT), build_joint(joint)
        cost = dict(zip((node.name for node in joint.nodes), source.cost, strict=True))
        forward = sum(cost[node.name] for node in joint.nodes if node.phase is Phase.FORWARD)
        segments = rewrite(source, chen_policy(Classes(source)))
        least = measure_peak(segments.model, DEFAULT)
        for percent in PERCENT:
            budget = full * percent // 100
            start = time.perf_counter()
            try:
                graph = prepare_graph(model, "backward", DEFAULT, budget)
                again = sum(cost[n.name.partition(".recompute")[0]] for n in graph.nodes if ".recompute" in n.name)
                said = f"{100 * again / forward:.1f} %"
            except TmmuError as error:
                said = f"≥{100 * int(error.diagnostics['required']) / full:.0f} %!"
            seconds = time.perf_counter() - start
            other = f"{100 * segments.cost / forward:.1f} %" if least <= budget else "–"
            print(f"{name:14} {full >> 20:>9} {percent:>5} % {said:>9} {other:>7} {seconds:>8.2f}", flush=True)


GRAPHS = {
    graph.name: graph
    for graph in (
        *(varied_chain(length, seed) for length, seed in ((8, 5), (10, 6), (12, 1), (14, 7), (16, 2))),
        *map(hourglass, (2, 3, 4)),
        *map(residual, (3, 4, 5)),
    )
}
"""The graphs that are compared with their optimum."""


def optimum() -> None:
    """Print the optimum of each graph and budget where it is proved, and what the planner repeats."""
    from tests.benchmarks.checkmate import graph_of, solve

    print(f"{'graph, percent':28} {'optimum':>8} {'ours':>8} {'ratio':>6} {'solver s':>9} {'ours s':>7}")
    for name, graph in GRAPHS.items():
        joint = prepare_graph(graph, "backward", DEFAULT)
        source, full = build_joint(joint), measure_peak(joint, DEFAULT)
        for percent in (90, 80, 70, 60, 50):
            budget, start = full * percent // 100, time.perf_counter()
            solved = solve(graph_of(source, DEFAULT), budget, seconds=60, early=True)
            middle = time.perf_counter()
            if solved.cost is None or not solved.proved:
                print(f"# {name}, {percent}: {'no schedule fits' if solved.proved else f'not solved, {solved}'}")
                continue
            again = prepare_graph(graph, "backward", DEFAULT, budget)
            cost = dict(zip((node.name for node in joint.nodes), source.cost, strict=True))
            ours = sum(cost[n.name.partition(".recompute")[0]] for n in again.nodes if ".recompute" in n.name)
            seconds = f"{middle - start:>9.1f} {time.perf_counter() - middle:>7.1f}"
            ratio = ours / solved.cost if solved.cost else float(ours == 0)
            print(
                f'("{name}", {percent}): {solved.cost},'.ljust(40) + f"# {ours:>8} {ratio:>6.3f} {seconds}", flush=True
            )


def min_cut() -> None:
    """Print what torch's partitioner saves and needs on GPT-2, and what the planner repeats for the same peak."""
    from tests.benchmarks.min_cut import compare

    compare()


if __name__ == "__main__":
    {"--optimum": optimum, "--min-cut": min_cut}.get(sys.argv[1] if sys.argv[1:] else "", table)()
