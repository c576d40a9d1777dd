"""`tmmu explain`: why a plan needs its memory, or what a failure code means. spec: RP3.1 to RP3.4"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from tmmu.cli.options import TrainingOptions
from tmmu.core.errors import REGISTRY, TmmuError
from tmmu.core.flags import examples, model_file, plan_file
from tmmu.core.output import counted, did_you_mean, print_lines, size
from tmmu.core.vocabulary import LAYOUTS, ORDERS, Bindings

if TYPE_CHECKING:
    from tmmu.cli.planning import PlanningTask
    from tmmu.plans.sections import Plan
    from tmmu.report.arena_map import ArenaMap

SHOWN = 10
"""As many storages are named, and as many hints."""


def _completed(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Codes, and files of plans."""
    codes = [CompletionItem(code) for code in REGISTRY if begun and code.startswith(begun.upper())]
    return codes or plan_file.shell_complete(context, parameter, begun)


@click.command(
    epilog=examples(
        "tmmu explain unet.plan.cbor --model unet.onnx",
        "tmmu explain ARENA_TOO_SMALL",
    )
)
@click.argument("what", metavar="PLAN|CODE", shell_complete=_completed)
@click.option("--model", type=model_file, help="The plan's model: try what would save.")
def explain(what: str, model: str | None) -> int:
    """Say why a plan needs its memory, or what a failure code means and how to fix it.

    Of a plan: the peak of each arena, what is live there, and which tensors' absence would lower it most. With its
    model also what other orders, layouts and, in training, computing again would need, and why in-place hints were
    refused.
    """
    if not os.path.exists(what):
        return _code(what)
    from tmmu.plans import file
    from tmmu.plans.sections import Plan
    from tmmu.report.arena_map import arena_maps, step_names

    plan = file.load_any(what).plan
    names = step_names(plan)
    for one in arena_maps(plan):
        print_lines(*_arena(one, names))
    if model is not None:
        if not isinstance(plan, Plan):
            raise click.UsageError("--model: the plan states lifetimes and no steps, so that there is nothing to try")
        print_lines(*_others(plan, model))
    return 0


def _code(code: str) -> int:
    """What `spec/errors.md` has of a code."""
    from tmmu.core.pages import failure_page

    known = failure_page()
    if code.upper() not in known:
        hint = did_you_mean(code.upper(), REGISTRY, f"the codes are {', '.join(REGISTRY)}")
        raise click.UsageError(f"{code!r} is no file and no failure code; {hint}")
    entry, registered = known[code.upper()], REGISTRY[code.upper()]
    print_lines(
        f"{code.upper()} ({registered.numeric}, {registered.severity}): {registered.message}",
        f"  {entry.meaning}", f"  To fix it: {entry.fix}",
    )  # fmt: skip
    return 0


def _arena(one: ArenaMap, steps: list[str]) -> Iterator[str]:
    """The peak of one arena, what is live there, and what lowers it."""
    from tmmu.report.explanation import savings

    step = one.peak_step
    at = f"step {step}" + (f" ({steps[step]})" if step < len(steps) else "")
    live = one.at_peak(len(one.names))
    yield f"{one.name}: footprint {size(one.footprint)}; at most {size(one.peak)} are live, at {at}"
    yield f"  live there: {counted(len(live), 'storage')}"
    for k in live[:SHOWN]:
        yield f"    {size(int(one.bytes[k])):>12}  {_name(one, k)}  steps {one.birth[k]} to {one.death[k]}"
    best = savings(one, SHOWN)
    if one.is_constant:
        return
    if best:
        yield "  without one of these the peak would be lower by"
        for saving in best:
            yield f"    {size(saving.bytes):>12}  {_name(one, saving.row)}"
    else:
        yield "  no single storage lowers the peak: it is reached at steps that share none"


def _name(one: ArenaMap, row: int) -> str:
    first, _, others = one.names[row].partition("\n")
    return first if not others else f"{first} (and {counted(others.count(chr(10)) + 1, 'other tensor')} in its bytes)"


def _others(plan: Plan, model: str) -> Iterator[str]:
    """What the model would need otherwise, and which hints were refused."""
    from tmmu.cli.planning import task
    from tmmu.core.kind import is_ir
    from tmmu.ir.columns import digest
    from tmmu.planner import PlanOptions
    from tmmu.plans import metrics
    from tmmu.plans.sections import configured

    origin = plan.origin
    if origin.shard_spec:
        raise click.UsageError("--model: the plan is of one rank; give a plan of the whole model")
    arenas = (configured(plan), plan.configuration.policy)
    bindings = Bindings(donated=plan.bindings.donated) if is_ir(model) else plan.bindings
    asked = task(model, bindings, TrainingOptions(origin.mode), PlanOptions(order=origin.order), arenas)
    if digest(asked.graph) != origin.ir_hash:
        raise click.UsageError("--model: the plan is not of this model, or was made within a budget")
    needs = sum(metrics.footprints(plan.allocation))
    yield f"the model otherwise (now {size(needs)} in all, layout {origin.layout}, order {origin.order}):"
    for order in ORDERS:
        for layout in LAYOUTS:
            if layout == "hashed" or (layout, order) == (origin.layout, origin.order):
                continue
            other = replace(asked, options=replace(asked.options, layout=layout, order=order))
            try:
                found = sum(metrics.footprints(other.planned(asked.graph).plan.allocation))
            except TmmuError as error:
                yield f"  --order {order} --layout {layout}: {error.what}"
                continue
            yield f"  --order {order} --layout {layout}: {size(found)} ({(found - needs) / max(needs, 1):+.1%})"
    if origin.mode == "backward":
        yield _computed_again(asked)
    layout = "packed" if origin.layout == "hashed" else origin.layout
    refused = replace(asked, options=replace(asked.options, layout=layout)).planned(asked.graph).refused
    yield f"in-place hints refused: {len(refused)}"
    for one in refused[:SHOWN]:
        yield f"  {one.node}: {one.result} in place of {one.operand}: {one.reason}"


def _computed_again(asked: PlanningTask) -> str:
    """The least that computing activations again can do with: a budget of one byte is refused with it."""
    from tmmu.planner.modes import prepare

    try:
        prepare(asked.given, "backward", asked.arenas, 1, asked.policy)
    except TmmuError as error:
        if error.code_id != "ARENA_TOO_SMALL":
            raise
        return f"  --preset remat_enabled, at the least: {error.what}"
    return "  --preset remat_enabled: any budget will do"
