"""`tmmu plan`: a model planned, the plan checked, and written. spec: C2.1, C2.7, R7.22"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tmmu.cli import options as shared
from tmmu.cli.options import Arenas, ShardOptions, TrainingOptions
from tmmu.cli.units import seconds
from tmmu.core.errors import TmmuError
from tmmu.core.flags import existing
from tmmu.core.output import counted, print_lines
from tmmu.core.vocabulary import Bindings, Model

if TYPE_CHECKING:
    from tmmu.planner import Planned, PlanOptions


@click.command()
@click.argument("model", type=existing)
@click.option("-o", "--output", type=shared.output, help="Where to write the plan [MODEL.plan.cbor].")
@shared.bindings()
@shared.training
@shared.planning
@shared.sharding
@shared.arenas
@click.option("--why", is_flag=True, help="List the in-place hints that were refused, with reasons.")
@click.option("--events", type=shared.output, help="Append each step of the slot assignment to this log.")
def plan(
    model: str,
    output: str | None,
    bindings: Bindings,
    training: TrainingOptions,
    options: PlanOptions,
    sharding: ShardOptions,
    arenas: Arenas,
    why: bool,
    events: str | None,
) -> int:
    """Plan the memory of a model.

    Reads MODEL (ONNX, or IR as .ir.cbor or .ir.txt), checks the plan as verify-plan does, and writes it.
    """
    from tmmu.cli import ranks, storages, summary
    from tmmu.cli.planning import task
    from tmmu.plans import file
    from tmmu.runtime.events import EventLog

    target = _target(model, output, events)
    spec = ranks.load(sharding, training.budget, options.order)
    allocation_time_ns = 0
    try:
        asked = task(model, bindings, training, options, arenas, divided=spec is not None)
        log = None if events is None else EventLog(events)

        def timed(graph: Model) -> Planned:
            nonlocal allocation_time_ns
            begun = time.perf_counter_ns()
            planned = asked.planned(graph, log)
            allocation_time_ns += time.perf_counter_ns() - begun
            return planned

        made = list(ranks.plans(asked.graph, spec, sharding.rank, timed))
        for _, _, plans in made:
            for one in plans:
                asked.check(one)
    except TmmuError as error:
        error.in_file(model)
        raise
    for local, planned, plans in made:
        for one in plans:
            path = ranks.target(target, one)
            file.save(one, path)
            print_lines(f"wrote {path}")
        lines = [*summary.summary(planned.plan), *summary.remarks(planned.plan), *storages.remarks(planned.plan)]
        lines += _added(asked.given, asked.graph)
        if spec is not None:
            lines += ranks.summary(spec, local, planned.plan)
        lines.append(summary.hints(planned.plan, planned.refused))
        if why:
            lines += [f"  {r.node}: {r.result} in place of {r.operand}: {r.reason}" for r in planned.refused]
        print_lines(*lines)
    print_lines(f"  success, planned in {seconds(allocation_time_ns)}")
    return 0


def _target(model: str, output: str | None, events: str | None) -> str:
    """The file of the plan; UsageError where one file would be two things."""
    stem = Path(model).name.removesuffix(".cbor").removesuffix(".txt").removesuffix(".ir").removesuffix(".onnx")
    target = output or f"{stem}.plan.cbor"
    if os.path.realpath(target) == os.path.realpath(model):
        raise click.UsageError(f"{target} is the model itself; choose another file with -o")
    shared.check_apart(model, target, events)
    return target


def _added(given: Model, planned: Model) -> Iterator[str]:
    """A line for what was added to a model's nodes, if anything was."""
    own = {node.name for node in given.nodes}
    added = [node.name for node in planned.nodes if node.name not in own]
    again = sum(".recompute" in name for name in added)
    if added:
        yield f"  backward: {counted(len(added) - again, 'step')} added, {again} computed again"
