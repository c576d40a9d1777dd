"""`tmmu compare`: what each layout needs of each model. spec: A9.4, C3.1, C3.2, C3.4, MC9.4"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from tmmu.cli import options
from tmmu.cli.options import Arenas
from tmmu.core.errors import TmmuError
from tmmu.core.flags import OnceCommand, format_examples, model_file
from tmmu.core.output import format_json, format_kib, print_lines, print_text
from tmmu.core.progress import progress
from tmmu.core.vocabulary import LAYOUTS, Bindings
from tmmu.tasks.training import TrainingOptions

if TYPE_CHECKING:
    from tmmu.plans.sections import Plan
    from tmmu.tasks.runtime_figures import RuntimeFigures


@click.command(
    cls=OnceCommand,
    epilog=format_examples(
        "tmmu compare mlp.onnx lenet.onnx",
        "tmmu compare unet.onnx --dim batch=4 --order memory",
        "tmmu compare mlp.onnx lenet.onnx --memory-stats",
        "tmmu compare unet.onnx --dim batch=1 --as onnxruntime",
    ),
)
@click.argument("models", nargs=-1, required=True, type=model_file, metavar="MODEL...")
@options.bindings(runtimes=True)
@options.training
@options.address_token
@options.order
@options.arenas
@click.option("--memory-stats", is_flag=True, help="What MiCo's scripts print of the layout pools, for each model.")
@options.style
def compare(
    models: tuple[str, ...],
    bindings: Bindings,
    training: TrainingOptions,
    address_token: bytes | None,
    order: str,
    arenas: Arenas,
    memory_stats: bool,
    style: str,
) -> int:
    """Compare the layouts on each model.

    Plans each MODEL in every layout and prints the bytes that each needs; hashed only with an address token. With --as
    onnxruntime it also has ONNX Runtime run the model twice, and prints the memory that it has used.
    """
    from tmmu.planner import PlanOptions
    from tmmu.tasks import memory_pools, runtime_figures
    from tmmu.tasks.planning import task

    found: dict[str, list[ComparisonRow]] = {}
    measured: list[memory_pools.MemoryStatistics] = []
    figures: dict[str, RuntimeFigures | None] = {}
    layouts = ["pools"] if memory_stats else [one for one in LAYOUTS if one != "hashed" or address_token is not None]
    total = len(models) * len(layouts)
    with progress(models[0] if len(models) == 1 else f"{len(models)} models") as doing:
        for number, model in enumerate(models):
            try:
                doing("planning", number * len(layouts), total)
                asked = task(model, bindings, training, PlanOptions(order=order), arenas)
                for done, layout in enumerate(layouts, number * len(layouts)):
                    doing("planning", done, total)
                    token = address_token if layout == "hashed" else None
                    one = replace(asked, options=replace(asked.options, layout=layout, address_token=token))
                    made = one.planned(asked.graph).plan
                    one.check(made)
                    found.setdefault(model, []).extend(rows(made))
                    measured += [memory_pools.MemoryStatistics.of(made)] if memory_stats else []
                if asked.given.bindings.runtime is not None and not memory_stats:
                    doing("running onnxruntime")
                    figures[model] = runtime_figures.measure(model, asked.given)
            except TmmuError as error:
                error.in_file(model)
                raise
    if memory_stats:
        if style == "json":
            print_text(format_json(list(map(memory_pools.record, measured))))
        else:
            print_lines(*chain.from_iterable(map(memory_pools.format_statistics, measured)))
            print_lines(*memory_pools.summary(measured))
        return 0
    if style == "json":
        listed = [{"model": model, **row} for model, each in found.items() for row in document(each)]
        listed += [{"model": model, **row} for model, each in figures.items() for row in runtime_document(each)]
        print_text(format_json(listed))
        return 0
    for model, each in found.items():
        heading = [model] if len(found) > 1 else []
        print_lines(*heading, *table(each))
        if model in figures:
            print_lines(*runtime_table(figures[model]))
    return 0


@dataclass(frozen=True)
class ComparisonRow:
    """One arena under one layout; `places` are its slots, or its pools, and `before` the bytes of all its storages."""

    layout: str
    arena: str
    places: int
    footprint: int
    peak: int
    before: int

    @property
    def ratio(self) -> float:
        """Footprint ÷ peak live bytes of the layout's own storages."""
        from tmmu.plans.metrics import ratio

        return ratio(self.footprint, self.peak)


def rows(plan: Plan) -> list[ComparisonRow]:
    """A row for each reused arena that holds anything."""
    from tmmu.cli.summary import pools

    s = plan.allocation.storages
    return [
        ComparisonRow(
            plan.origin.layout, arena.name, pools(plan, a) if plan.origin.layout == "pools" else usage.slots or 0,
            usage.footprint or 0, usage.peak_live_bytes or 0, sum(s.bytes[s.arena == a].tolist()),
        )
        for a, (arena, usage) in enumerate(zip(plan.allocation.arenas, plan.usage, strict=True))
        if usage.slots and arena.reuse
    ]  # fmt: skip


def table(found: list[ComparisonRow]) -> Iterator[str]:
    """All layouts side by side, then of pools what MiCo prints: the bytes before, after and saved."""
    width = max((len(row.arena) for row in found), default=0)
    yield f"{'layout':8} {'arena':{width}} {'slots or pools':>14} {'footprint':>14} {'peak live':>14} {'ratio':>7}"
    for row in found:
        yield (
            f"{row.layout:8} {row.arena:{width}} {row.places:>14} {row.footprint:>14} {row.peak:>14} {row.ratio:>7.3f}"
        )
    for row in found:
        if row.layout == "pools":
            saved = row.before - row.footprint
            share = saved / row.before if row.before else 0.0
            yield (
                f"pools in {row.arena}: before {format_kib(row.before)}, after {format_kib(row.footprint)}, "
                f"saved {format_kib(saved)}, "
                f"{share:.1%}"
            )


def runtime_table(found: RuntimeFigures | None) -> Iterator[str]:
    """The figures of the runtime itself, and what they are. spec: C3.4"""
    from tmmu.core.bindings import describe_runtime  # which loads NumPy
    from tmmu.tasks.runtime_figures import EXPLANATION

    if found is None:
        yield "onnxruntime: the profile of this version states nothing of memory"
        return
    yield f"{'onnxruntime itself':24} {'mem_in_use_peak':>16} {'mem_arena_held':>16}"
    for name, run in zip(("first run", "second run"), found.runs, strict=False):
        yield f"{name:24} {run.in_use_peak:>16} {run.arena_held:>16}"
    yield f"{'before the first run':24} {found.before:>16}"
    yield f"  it ran the graph {describe_runtime(found.graph)}, on one thread"
    yield from (f"  {sentence}" for sentence in EXPLANATION)


def runtime_document(found: RuntimeFigures | None) -> list[dict[str, Any]]:
    """The same as JSON: a row for each run."""
    if found is None:
        return []
    return [
        {
            "runtime": found.graph.name, "version": found.graph.version, "run": number,
            "mem_in_use_peak": run.in_use_peak, "mem_arena_held": run.arena_held, "before_bytes": found.before,
        }
        for number, run in enumerate(found.runs, 1)
    ]  # fmt: skip


def document(found: list[ComparisonRow]) -> list[dict[str, Any]]:
    """The same as JSON."""
    return [
        {
            "layout": row.layout, "arena": row.arena, "pools" if row.layout == "pools" else "slots": row.places,
            "footprint_bytes": row.footprint, "peak_live_bytes": row.peak, "footprint_per_peak": row.ratio,
            "before_bytes": row.before,
        }
        for row in found
    ]  # fmt: skip
