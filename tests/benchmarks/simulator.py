"""`python -m tests.benchmarks.simulator [NAME...]`: what running a network in its plan's arenas costs.

Both run the same kernels (onnx's reference evaluator) on the same weights. *Plain* gives every tensor memory of its
own, *arena* runs in the planned bytes and writes in-place results once; neither compares anything. The ratio of the
two is what the arena costs. *Compared* is a whole `tmmu run --sanitize`: both memories, every look compared, in-place
results piece by piece. Each figure is the least of several, taken by turns.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from typing import Any

from tmmu import examples
from tmmu.core.vocabulary import Bindings
from tmmu.onnx import resolve
from tmmu.planner import PlanOptions, plan_memory
from tmmu.runtime.memory import MappedMemory
from tmmu.simulator import PlanProgram, simulate
from tmmu.simulator.machine import run
from tmmu.simulator.memories import PrivateMemory, Store
from tmmu.simulator.onnx_kernels import OnnxKernels
from tmmu.simulator.onnx_model import OnnxModel
from tmmu.simulator.placed import PlacedMemory
from tmmu.tasks.models import load

CASES: dict[str, dict[str, Any]] = {
    "mico-lenet": {},
    "loop": {},
    "gpt2": {"dims": {"batch": 1, "seq": 32}},
    "resnet50": {"dims": {"batch": 1}},
}
TURNS = 3


def _seconds(program: PlanProgram, memory: Store, kernels: OnnxKernels, given: dict[int, Any]) -> float:
    """Wall time of all steps, the caller's writes apart."""
    looks = run(program, memory, kernels, given.__getitem__)
    start = 0.0
    for look in looks:
        start = start or time.perf_counter()
        del look
    return time.perf_counter() - start


def measure(name: str, bindings: dict[str, Any]) -> None:
    """Print a line for one network."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        examples.write(name, path)
        model = load(path, Bindings(bindings.get("dims", {})))
        program = PlanProgram(plan_memory(model, options=PlanOptions(layout="packed")).plan)
        source = OnnxModel(resolve(path, Bindings(**bindings)))
        source.bind(program)
    kernels = OnnxKernels(program, source)
    given = {t: kernels.given(t) for t in program.given}
    plain, arena = [], []
    with MappedMemory.map(program.plan) as memory:
        for _ in range(TURNS):
            plain.append(_seconds(program, PrivateMemory(program), kernels, given))
            arena.append(_seconds(program, PlacedMemory(program, memory, careful=False), kernels, given))
        used = sum(memory.high_water(a) for a in range(len(program.plan.allocation.arenas)))
    del given
    start = time.perf_counter()
    report = simulate(program, kernels, sanitize=True)
    compared = time.perf_counter() - start
    assert report.identical
    print(
        f"{name:12} {len(program.steps):>6} {used >> 10:>10} {min(plain):>9.3f} {min(arena):>9.3f} "
        f"{min(arena) / min(plain):>7.3f} {compared:>10.2f}",
        flush=True,
    )


def main(names: list[str]) -> None:
    """Print the table of the named networks."""
    print(f"{'network':12} {'steps':>6} {'used KiB':>10} {'plain s':>9} {'arena s':>9} {'ratio':>7} {'compared s':>10}")
    for name in names or list(CASES):
        measure(name, CASES[name])


if __name__ == "__main__":
    main(sys.argv[1:])
