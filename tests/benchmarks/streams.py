"""What overlap costs in bytes and in planning: `python -m tests.benchmarks.streams`, or `… growth LAYOUT [COUNT...]`.

Without arguments it plans the examples whose steps overlap, and the same nodes one after another: in the order of the
model, and in one with fewer live bytes. Figures are the bytes of all arenas that reuse their bytes.

`growth` plans the synthetic training graph without streams, and on eight streams, in runs of 64 nodes or of one. Each
measurement is a process of its own.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import time
from dataclasses import replace

from tests.benchmarks.training import training_model
from tmmu import examples
from tmmu.core.columns import attribute_values
from tmmu.core.vocabulary import Model
from tmmu.ir import text
from tmmu.ir.order import find_dependencies
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import metrics
from tmmu.plans.sections import Plan

STREAMS, LAYOUT = 8, "packed"
RUNS = (0, 64, 1)
"""How many nodes follow each other on one stream; 0: no streams. With 1, almost each node waits for others."""
SIZES = (10_000, 100_000, 1_000_000)
NAMES = [name for name in examples.TEXTS if name.startswith("streams-")]


def read_example(name: str) -> Model:
    """Return the model of an example."""
    module, words = examples.TEXTS[name].split(":")
    written: str = getattr(__import__(f"tmmu.examples.{module}", fromlist=[words]), words)
    return text.read(written.encode(), name)


def drop_streams(model: Model) -> Model:
    """Return a model whose nodes run one after another."""
    return replace(model, nodes=tuple(replace(node, stream="", after=()) for node in model.nodes))


def count_bytes(plan: Plan) -> int:
    """Return the bytes of the arenas that reuse theirs."""
    footprints = metrics.compute_footprints(plan.allocation)
    return sum(size for arena, size in zip(plan.allocation.arenas, footprints, strict=True) if arena.reuse)


def compare_examples() -> None:
    """Print a row for each example."""
    print(f"{'example':24} {'streams':>8} {'slots':>6} {'overlapping':>12} {'one by one':>12} {'fewest live':>12}")
    for name in NAMES:
        model = read_example(name)
        plan = plan_memory(model, options=PlanOptions(layout=LAYOUT)).plan
        assert plan.claims is not None
        slots = sum(len(used.antichain or ()) for used, arena in zip(
            plan.claims.usage, plan.allocation.arenas, strict=True) if arena.reuse)  # fmt: skip
        alone = drop_streams(model)
        orders = [
            count_bytes(plan_memory(alone, options=PlanOptions(layout=LAYOUT, order=order)).plan)
            for order in ("given", "memory")
        ]
        sizes = " ".join(f"{size / 1024:>8.0f} KiB" for size in (count_bytes(plan), *orders))
        print(f"{name:24} {len(plan.allocation.streams):>8} {slots:>6} {sizes}")


def spread(model: Model, count: int = STREAMS, run: int = 1) -> Model:
    """Return the model with each `run` nodes on the next of `count` streams, and the waits that operands need."""
    names = list(attribute_values(model.nodes, "name"))
    on = [n // run % count for n in range(len(names))]
    waits: list[dict[int, int]] = [{} for _ in names]
    for earlier, later in find_dependencies(model):
        if on[earlier] != on[later]:
            of = waits[later]
            of[on[earlier]] = max(earlier, of.get(on[earlier], earlier))
    nodes = tuple(
        replace(node, stream=str(on[n]), after=tuple(names[k] for k in sorted(waits[n].values())))
        for n, node in enumerate(model.nodes)
    )
    return replace(model, nodes=nodes)


def measure(count: int, run: int, layout: str) -> None:
    """Plan a model, and print the processor's seconds and the most memory of this process."""
    model = training_model(count)
    model = spread(model, run=run) if run else model
    before = time.process_time()
    plan = plan_memory(model, options=PlanOptions(layout=layout)).plan
    took = time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"cpu": took, "peak_mib": peak, "bytes": count_bytes(plan)}))


def growth(layout: str, sizes: tuple[int, ...]) -> None:
    """Print seconds, memory and the exponent without streams, and with each `run` nodes on the next stream."""
    print(f"{'tensors':>9} {'run':>4} {'CPU s':>8} {'exponent':>9} {'peak MiB':>9} {'time x':>7} {'memory x':>9}")
    last: dict[int, tuple[int, float]] = {}
    for count in sizes:
        found = {}
        for run in RUNS:
            command = [sys.executable, "-m", "tests.benchmarks.streams", "measure", str(count), str(run), layout]
            found[run] = got = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            exponent = ""
            if run in last:
                before, seconds = last[run]
                exponent = f"{math.log(got['cpu'] / seconds) / math.log(count / before):.2f}"
            last[run] = count, got["cpu"]
            ratios = [f"{got[key] / found[0][key]:.2f}" for key in ("cpu", "peak_mib")] if run else ["", ""]
            row = f"{count:>9} {run or '-':>4} {got['cpu']:>8.2f} {exponent:>9} {got['peak_mib']:>9.0f}"
            print(f"{row} {ratios[0]:>7} {ratios[1]:>9}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    elif sys.argv[1:2] == ["growth"]:
        growth(sys.argv[2], tuple(map(int, sys.argv[3:])) or SIZES)
    else:
        compare_examples()
