"""Sets of buffers: `python -m tests.benchmarks.sets DIR [EFFORT]` packs each set below DIR; proves the plans.

A set is a CSV file `id,lower,upper,size` whose lifetimes are half-open, [lower, upper). The table gives the bytes that
are live at the peak, the footprint, their ratio and the verdict; the sets of one folder that have one capacity in their
names (as in `A.1048576.csv`) have a geometric mean of ratios.
A capacity in a name is that of the arena, and tried first where EFFORT is given; a set that does not get so low has the
footprint of the portfolio alone. Sets in a folder named `idealloc` are read with both ends open, as their authors say.
In place of DIR, `synthetic` stands for training graphs of 10,000 and 100,000 tensors, and for chains, as inference has
them, whose sizes are random.
"""

from __future__ import annotations

import csv
import math
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from proofs.verify.judge import verify
from proofs.verify.options import Options
from tests.benchmarks.training import training_model
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ArenaConfiguration, Body, Model, Node, Role, Tensor
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import file
from tmmu.plans.sections import Plan

BUFFERS = (ArenaConfiguration("buffers", tuple(Role), alignment=1),)
PORTFOLIO = PlanOptions(layout="packed")
SYNTHETIC = "synthetic"


def read(path: Path) -> list[tuple[str, int, int, int]]:
    """(name, birth, death, bytes) of each buffer, births and deaths as ranks of all moments, both included."""
    with open(path, newline="") as lines:
        rows = [(row["id"], int(row["lower"]), int(row["upper"]), int(row["size"])) for row in csv.DictReader(lines)]
    first = 1 if path.parent.name == "idealloc" else 0
    spans = [(name, lower + first, upper - 1, size) for name, lower, upper, size in rows if lower + first < upper]
    births = sorted({birth for _, birth, _, _ in spans})
    step = {birth: n for n, birth in enumerate(births)}
    # Between two births nothing but deaths happens: a buffer is live up to the last birth that it sees.
    last = _last_before(births, {death for _, _, death, _ in spans})
    return [(name, step[birth], step[last[death]], size) for name, birth, death, size in spans]


def _last_before(births: list[int], deaths: set[int]) -> dict[int, int]:
    """For each death the last birth that is not after it."""
    found, n = {}, 0
    for death in sorted(deaths):
        while n < len(births) and births[n] <= death:
            n += 1
        found[death] = births[n - 1]
    return found


def model(name: str, buffers: list[tuple[str, int, int, int]]) -> Model:
    """A model with one step for each birth, that writes what is born and reads what dies."""
    tensors = tuple(Tensor(f"b{name}", (size,), "uint8", Role.ACTIVATION, size) for name, _, _, size in buffers)
    steps = 1 + max(death for _, _, death, _ in buffers)
    reads: list[list[int]] = [[] for _ in range(steps)]
    writes: list[list[int]] = [[] for _ in range(steps)]
    for t, (_, birth, death, _) in enumerate(buffers):
        writes[birth].append(t)
        if death > birth:
            reads[death].append(t)
    nodes = tuple(Node(f"n{s}", "MatMul", tuple(reads[s]), tuple(writes[s])) for s in range(steps))
    return Model(name, tensors, nodes, (Body(-1, "", (), ()),))


def packed(graph: Model, capacity: int | None, effort: int | None) -> Plan:
    """The plan with that effort, which ends at the capacity if one is found; else that of the portfolio."""
    if effort is None:
        return plan_memory(graph, BUFFERS, PORTFOLIO).plan
    arenas = tuple(replace(arena, capacity=capacity or arena.capacity) for arena in BUFFERS)
    try:
        return plan_memory(graph, arenas, replace(PORTFOLIO, effort=effort)).plan
    except TmmuError as error:
        if error.code_id != "ARENA_TOO_SMALL":
            raise
        print(f"{graph.name}: {error}")
        return plan_memory(graph, BUFFERS, PORTFOLIO).plan


def chain(buffers: int) -> Model:
    """Each step reads what the step before it wrote; sizes over three orders of magnitude."""
    rng = random.Random(buffers)
    sizes = [4 * rng.choice((1, 4, 16, 64)) * rng.randrange(1, 512) for _ in range(buffers)]
    return model(f"chain {buffers}", [(str(i), i, min(i + 1, buffers - 1), size) for i, size in enumerate(sizes)])


def graphs(folder: str) -> Iterator[tuple[str, Model, int | None]]:
    """The group, the buffers as a model, and the capacity that its name states, of each set."""
    if folder == SYNTHETIC:
        for tensors in (10_000, 100_000):
            yield "training", replace(training_model(tensors), name=f"training {tensors}"), None
            yield "chains", chain(tensors), None
        return
    for path in sorted(Path(folder).rglob("*.csv")):
        capacity = path.stem.rpartition(".")[2]
        bound = int(capacity) if "." in path.stem and capacity.isdigit() else None
        yield f"{path.parent.name} {path.stem.partition('.')[2]}".strip(), model(path.stem, read(path)), bound


def main(folder: str, effort: int | None = None) -> None:
    """Print the table of all sets below `folder`."""
    head = f"{'set':28} {'buffers':>8} {'peak live':>12} {'packed':>12} {'ratio':>8}"
    print(f"{head} {'slots':>7} {'plan s':>7} {'verify s':>9}")
    ratios: dict[str, list[float]] = {}
    for group, graph, capacity in graphs(folder):
        loose = plan_memory(graph, BUFFERS, PlanOptions(layout="slots")).plan.usage[0]
        start = time.perf_counter()
        plan = packed(graph, capacity, effort)
        planned = time.perf_counter() - start
        with tempfile.TemporaryDirectory() as place:
            file.save(plan, Path(place) / "plan.cbor")
            start = time.perf_counter()
            verdict = verify(str(Path(place) / "plan.cbor"), Options())
            proved = time.perf_counter() - start
        usage = plan.usage[0]
        ratio = usage.footprint / usage.peak_live_bytes
        ratios.setdefault(group, []).append(ratio)
        print(
            f"{graph.name:28} {len(plan.allocation.storages):>8} "
            f"{usage.peak_live_bytes:>12} {usage.footprint:>12} {ratio:>8.4f} "
            f"{loose.footprint / usage.peak_live_bytes:>7.3f} {planned:>7.2f} {proved:>9.2f} {verdict.verdict}",
            flush=True,
        )
    for group, found in ratios.items():
        mean = math.exp(sum(map(math.log, found)) / len(found))
        print(f"geometric mean of {len(found)} in {group}: {mean:.4f}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None)
