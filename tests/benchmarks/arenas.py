"""How often the choice among arenas misses a division that fits: `python -m tests.benchmarks.arenas [LAYOUT]`.

Small random models in two or three arenas that are together little larger than what is live, some in one memory. All
ways to divide the storages are laid out; a miss is a model of which one fits, and the planner says that none does.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from itertools import product

import numpy as np

from tmmu.core.vocabulary import (
    ArenaConfiguration,
    ArenaPolicy,
    Body,
    DeviceConfiguration,
    Memory,
    Model,
    Node,
    Role,
    Rule,
    Tensor,
)
from tmmu.ir.program import build_program
from tmmu.planner import aliasing, liveness, plan_memory
from tmmu.planner.arenas.assignment import assign_arenas, lay_out
from tmmu.planner.problem import AllocationProblem

MODELS = 1_000
NODES = 7
SIZES = (64, 128, 192, 256, 320, 512, 1024)


def model(chance: random.Random) -> Model:
    """A chain of `NODES` nodes, each of which also reads one or two values made before."""
    sizes = [chance.choice(SIZES) for _ in range(NODES + 1)]
    tensors = tuple(
        Tensor(f"t{i}", (size,), "uint8", Role.INPUT if i == 0 else Role.ACTIVATION, size)
        for i, size in enumerate(sizes)
    )
    reads = [tuple({i, *chance.choices(range(i + 1), k=chance.randrange(3))}) for i in range(NODES)]
    nodes = tuple(Node(f"n{i}", "MatMul", reads[i], (i + 1,)) for i in range(NODES))
    return Model("random", tensors, nodes, (Body(-1, "", (0,), (NODES,)),))


def configuration(chance: random.Random, peak: int) -> tuple[tuple[ArenaConfiguration, ...], ArenaPolicy]:
    """Two or three arenas for all tensors: together from 1 to 1.5 times the peak, half of the time in one memory."""
    count, total = chance.choice((2, 3)), peak * chance.randrange(100, 151) // 100
    cuts = sorted(chance.randrange(1, total) for _ in range(count - 1))
    parts = [b - a for a, b in zip([0, *cuts], [*cuts, total], strict=True)]
    memory = chance.choice(("", "sram"))
    names = ("a", "b", "c")[:count]
    arenas = tuple(
        ArenaConfiguration(
            name, tuple(Role) if name == "a" else (), max(1, part + (part // 4 if memory else 0)), 64, memory=memory
        )
        for name, part in zip(names, parts, strict=True)
    )
    device = DeviceConfiguration("default", (Memory("sram", total),))
    return arenas, ArenaPolicy((device,), (Rule(names),))


def missed(layout: str, count: int = MODELS) -> tuple[int, int, int]:
    """How many models fit, how many of those the planner misses, and how many do not fit in any way."""
    fits = misses = none = 0
    for number in range(count):
        chance = random.Random(number)
        graph = model(chance)
        arenas, policy = configuration(chance, plan_memory(graph).plan.usage[2].peak_live_bytes)
        run = build_program(graph)
        problem = aliasing.form_storages(
            run, liveness.analyze(run, "inference"), arenas, "inference", policy=policy
        ).storages
        if not assign_arenas(problem, layout).short:
            fits += 1
            continue
        if any(not lay_out(problem, way, layout).short for way in _ways(problem)):
            fits, misses = fits + 1, misses + 1
        else:
            none += 1
    return fits, misses, none


def _ways(problem: AllocationProblem) -> Iterator[list[int]]:
    """The ways to divide the storages in which no arena holds more than its capacity at any step."""
    birth, death, size = (np.array(values) for values in (problem.birth, problem.death, problem.bytes))
    steps = np.arange(death.max() + 1)[:, None]
    live = np.where((birth <= steps) & (steps <= death), size, 0)
    ways = np.array(list(product(range(len(problem.arenas)), repeat=len(problem))))
    fits = np.ones(len(ways), bool)
    for a, arena in enumerate(problem.arenas):
        fits &= ((ways == a) @ live.T).max(axis=1) <= arena.capacity
    yield from ways[fits].tolist()


if __name__ == "__main__":
    for name in sys.argv[1:] or ("packed", "slots"):
        fit, miss, no = missed(name)
        print(
            f"{name}: of {MODELS} models {fit} fit in some way, of which {miss} are missed; {no} fit in none",
            flush=True,
        )
