"""`tmmu explain`: why a plan needs its memory, or what a failure code or a name in a verdict means.

spec: RP3.1 to RP3.6, V9.1
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from tmmu.core.errors import REGISTRY, TmmuError
from tmmu.core.flags import OnceCommand, format_examples, model_file, plan_file
from tmmu.core.output import count_noun, format_size, print_lines, suggest_names
from tmmu.core.pages import read_failures, verdict_page
from tmmu.core.progress import Doing, progress
from tmmu.core.vocabulary import LAYOUTS, ORDERS, Bindings, Model
from tmmu.tasks.training import TrainingOptions

if TYPE_CHECKING:
    from tmmu.planner.aliasing import RefusedHint
    from tmmu.plans.sections import Plan
    from tmmu.report.arena_map import ArenaMap
    from tmmu.tasks.planning import PlanningTask

SHOWN = 10
"""As many storages are named."""
SHOWN_OF_REASON = 3
"""As many hints are named that were refused for one reason."""
MOST_NODES = 20_000
"""Of a larger model no other order is tried, and nothing computed again: each takes minutes."""


def _completed(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete failure codes, names of obligations, and files of plans."""
    codes = [CompletionItem(code) for code in REGISTRY if begun and code.startswith(begun.upper())]
    names = [CompletionItem(name) for name in verdict_page() if begun and name.startswith(begun) and " " not in name]
    return codes + names or plan_file.shell_complete(context, parameter, begun)


@click.command(
    cls=OnceCommand,
    epilog=format_examples(
        "tmmu explain unet.plan.cbor --model unet.onnx",
        "tmmu explain step-buffer-assignment.txt --repack",
        "tmmu explain ARENA_TOO_SMALL",
        "tmmu explain sharing_is_sound",
    ),
)
@click.argument("what", metavar="PLAN|CODE|NAME", shell_complete=_completed)
@click.option("--model", type=model_file, help="The plan's model: try what would save.")
@click.option("--repack", is_flag=True, help="Pack the same lifetimes anew, and print what that would save.")
def explain(what: str, model: str | None, repack: bool) -> int:
    """Say why a plan needs its memory, or what a failure code or a name in a verdict means.

    Of a plan: the peak of each arena, what is live there, and which tensors' absence would lower it most. With its
    model also what other orders and layouts would need, no in-place reuse, donated inputs and, in training,
    computing again; and why in-place hints were refused. What is not tried is named. The plan may be another
    compiler's, such as a dump of XLA or Inductor: then all of its allocations are added up first.
    """
    if not os.path.exists(what):
        return _code(what)
    from tmmu.cli import dumps
    from tmmu.cli.streams import explain_streams
    from tmmu.plans.sections import Plan
    from tmmu.report.arena_map import arena_maps, step_names

    what = dumps.find_dump(what)
    if os.path.isdir(what):
        if model is not None or repack:
            raise click.UsageError("--model and --repack are for one plan, not a set")
        print_lines(*_of_set(what))
        return 0
    stated = dumps.load(what)
    plan, foreign = stated.plan, dumps.is_foreign(stated)
    names, maps = step_names(plan), arena_maps(plan, with_released=False)
    if foreign:
        print_lines(*dumps.describe_whole(maps, names))
    for one in dumps.choose_detailed(maps) if foreign else maps:
        print_lines(*_arena(one, names))
    if repack:
        print_lines(*dumps.describe_repacking(plan))
    elif foreign:
        print_lines("not tried without --repack: another packing of the same lifetimes")
    if isinstance(plan, Plan):
        print_lines(*explain_streams(plan))
    if model is not None:
        if not isinstance(plan, Plan):
            raise click.UsageError("--model: the plan states lifetimes and no steps, so that there is nothing to try")
        with progress(what) as doing:
            for line in _others(plan, model, doing):
                print_lines(line)
    elif isinstance(plan, Plan) and not foreign:
        tried = "other orders and layouts, other in-place reuse and computing again"
        print_lines(f"not tried without --model: {tried}, and why hints were refused")
    return 0


def _of_set(folder: str) -> Iterator[str]:
    """Yield what each program of a set needs at its peak, on top of the state of the others."""
    from tmmu.core.kind import MANIFEST, is_set
    from tmmu.plans import sets
    from tmmu.report.arena_map import step_names
    from tmmu.report.set_map import set_maps

    if not is_set(folder):
        raise click.UsageError(f"{folder} is a folder without {MANIFEST}: name a file, or the folder of a plan set")
    plan_set = sets.load(folder)
    plans = sets.load_plans(folder, plan_set)
    maps = set_maps(plan_set, plans)
    for arena in plan_set.agreement.arenas:
        own = {name: one for name, of in maps.items() for one in of if one.name == arena.name}
        if not own:
            continue
        most = max(own, key=lambda name: own[name].peak)
        yield f"{arena.name}: {most} needs most of its programs: {format_size(own[most].peak)} live at once"
        for name, one in own.items():
            yield f"  {name}: at most {format_size(one.peak)}"
        yield from (f"  {line}" for line in _arena(own[most], step_names(plans[most])))


def _code(code: str) -> int:
    """Print the row of `spec/errors.md` for a failure code, or that of `spec/verdicts.md` for a name in a verdict."""
    names = {name.replace("_", " ").lower(): name for name in verdict_page()}
    if code.upper() in (known := read_failures()):
        entry, registered = known[code.upper()], REGISTRY[code.upper()]
        print_lines(
            f"{code.upper()} ({registered.numeric}, {registered.severity}): {registered.message}",
            f"  {entry.meaning}", f"  To fix it: {entry.fix}",
        )  # fmt: skip
        return 0
    asked = code.replace("_", " ").lower()
    name = names.get(asked) or names.get(asked.partition(".")[0])
    if name is None:
        hint = suggest_names(code, [*REGISTRY, *names.values()], f"the codes are {', '.join(REGISTRY)}")
        raise click.UsageError(f"{code!r} is not a file, failure code or name in a verdict; {hint}")
    entry_of_name = verdict_page()[name]
    advice = [f"  What to do: {entry_of_name.advice}"] if entry_of_name.advice else []
    print_lines(f"{name}: {entry_of_name.meaning}", *advice)
    return 0


def _arena(one: ArenaMap, steps: list[str]) -> Iterator[str]:
    """The peak of one arena, what is live there, and what lowers it."""
    from tmmu.report.explanation import savings

    step = one.peak_step
    at = f"step {step}" + (f" ({steps[step]})" if step < len(steps) else "")
    live = one.at_peak(len(one.names))
    yield f"{one.name}: footprint {format_size(one.footprint)}; at most {format_size(one.peak)} are live, at {at}"
    yield f"  live there: {count_noun(len(live), 'storage')}"
    for k in live[:SHOWN]:
        yield f"    {format_size(int(one.bytes[k])):>12}  {_name(one, k)}  steps {one.birth[k]} to {one.death[k]}"
    best = savings(one, SHOWN)
    if one.is_constant:
        return
    if best:
        yield "  without one of these the peak would be lower by"
        for saving in best:
            yield f"    {format_size(saving.bytes):>12}  {_name(one, saving.row)}"
    else:
        yield "  no single storage lowers the peak: it is reached at steps that share none"


def _name(one: ArenaMap, row: int) -> str:
    first, _, others = one.names[row].partition("\n")
    return (
        first if not others else f"{first} (and {count_noun(others.count(chr(10)) + 1, 'other tensor')} in its bytes)"
    )


def _others(plan: Plan, model: str, doing: Doing) -> Iterator[str]:
    """Yield the bytes that the model would need otherwise, and the hints that were refused."""
    from tmmu.core.kind import is_ir
    from tmmu.ir.columns import model_digest
    from tmmu.planner import PlanOptions
    from tmmu.plans import metrics
    from tmmu.plans.sections import arena_configurations
    from tmmu.tasks.planning import task

    origin = plan.origin
    if origin.shard_spec:
        raise click.UsageError("--model: the plan is of one rank; give a plan of the whole model")
    arenas = (arena_configurations(plan), plan.configuration.policy)
    stated = plan.bindings
    bindings = Bindings(donated=stated.donated, keep_inputs=stated.keep_inputs) if is_ir(model) else stated
    doing("reading the model")
    asked = task(model, bindings, TrainingOptions(origin.mode), PlanOptions(order=origin.order), arenas)
    if model_digest(asked.graph) != origin.ir_hash:
        raise click.UsageError("--model: the plan is not of this model, or was made within a budget")
    layout = "packed" if origin.layout == "hashed" else origin.layout
    own = replace(asked, options=replace(asked.options, layout=layout))
    now = sum(metrics.compute_footprints(plan.allocation))
    yield f"the model otherwise (now {format_size(now)} in all, layout {origin.layout}, order {origin.order}):"
    large = len(asked.graph.nodes) > MOST_NODES

    def needs(what: str, other: PlanningTask, graph: Model) -> str:
        doing(f"trying {what}")
        try:
            found = sum(metrics.compute_footprints(other.planned(graph).plan.allocation))
        except TmmuError as error:
            return f"  {what}: {error.what}"
        return f"  {what}: {format_size(found)} ({(found - now) / max(now, 1):+.1%})"

    for order in ORDERS:
        if large and order not in ("given", origin.order):
            yield f"  --order {order}: not tried, as the model has more than {MOST_NODES} nodes"
            continue
        for choice in LAYOUTS:
            if choice != "hashed" and (choice, order) != (origin.layout, origin.order):
                other = replace(asked, options=replace(asked.options, layout=choice, order=order))
                yield needs(f"--order {order} --layout {choice}", other, asked.graph)
    yield "  --layout hashed: not tried, as it needs an address token"
    refused = own.planned(asked.graph).refused
    yield needs("without in-place reuse", own, _without_hints(asked.graph))
    if inputs := [t for t in _inputs(asked.graph) if t not in asked.graph.bindings.donated]:
        given_up = replace(asked.graph.bindings, donated=tuple(sorted({*asked.graph.bindings.donated, *inputs})))
        more = f" and {len(inputs) - 1} more" if len(inputs) > 1 else ""
        yield needs(f"--donate {inputs[0]}{more}", own, replace(asked.graph, bindings=given_up))
    if origin.mode != "backward":
        yield "  computing again: not tried, as nothing is kept for backward steps"
    elif large:
        yield f"  --preset remat_enabled: not tried, as the model has more than {MOST_NODES} nodes"
    else:
        doing("trying --preset remat_enabled")
        yield _computed_again(asked)
    yield f"in-place hints refused: {len(refused)}"
    for reason, hints in _by_reason(refused):
        yield f"  {count_noun(len(hints), 'hint')}: {reason}"
        shown = hints[:SHOWN_OF_REASON]
        yield from (f"    {one.node}: {one.result} in place of {one.operand}" for one in shown)
        if len(hints) > len(shown):
            yield f"    and {len(hints) - len(shown)} more (tmmu plan --why lists them)"


def _without_hints(graph: Model) -> Model:
    """Return the graph with a separate result for every node that could work in place."""
    return replace(graph, nodes=tuple(replace(node, in_place=()) for node in graph.nodes))


def _inputs(graph: Model) -> list[str]:
    """The graph's inputs that hold anything."""
    return [graph.tensors[t].name for t in graph.inputs if graph.tensors[t].bytes]


def _by_reason(refused: Sequence[RefusedHint]) -> list[tuple[str, list[RefusedHint]]]:
    """The hints of each reason, the most frequent reason first."""
    found: dict[str, list[RefusedHint]] = {}
    for one in refused:
        found.setdefault(one.reason, []).append(one)
    return sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))


def _computed_again(asked: PlanningTask) -> str:
    """The least that computing activations again can do with: a budget of one byte is refused with it."""
    from tmmu.planner.modes import prepare_graph

    try:
        prepare_graph(asked.given, "backward", asked.arenas, 1, asked.policy)
    except TmmuError as error:
        if error.code_id != "ARENA_TOO_SMALL":
            raise
        return f"  --preset remat_enabled, at the least: {error.what}"
    return "  --preset remat_enabled: any budget will do"
