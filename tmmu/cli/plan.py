"""`tmmu plan`: models planned, their plans checked, and written. spec: C2.1, C2.7, C2.12, C5.7, C5.8, C5.11, R7.22"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import click

from tmmu.cli import options as shared
from tmmu.cli.failures import note_failures
from tmmu.cli.options import Arenas
from tmmu.cli.plan_request import PlanPrinting, PlanRequest, until_interrupted
from tmmu.cli.plan_sets import SetFlags, plan_set
from tmmu.cli.units import memory, seconds
from tmmu.core.errors import NotOfModel, TmmuError
from tmmu.core.extras import require_package
from tmmu.core.flags import (
    MODEL_SUFFIXES,
    Files,
    Listing,
    OnceCommand,
    Output,
    SetFolder,
    format_examples,
    gather_options,
    stem_of_model,
    workspace_option,
)
from tmmu.core.output import (
    STANDARD,
    count_noun,
    escape_line,
    format_json,
    format_size,
    list_names,
    print_lines,
    print_text,
)
from tmmu.core.process import WORST_FIRST, explain
from tmmu.core.progress import Doing, progress
from tmmu.core.vocabulary import Model

if TYPE_CHECKING:
    from tmmu.planner import Planned
    from tmmu.plans.sections import Plan
    from tmmu.plans.workspace_file import Workspace
    from tmmu.runtime.events import EventLog
    from tmmu.tasks.planning import PlanningTask


def _capacities(_context: object, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, int]:
    """The bytes of each arena that is named."""
    found = {}
    for text in given:
        name, _, amount = text.rpartition("=")
        if not name or name in found:
            raise click.BadParameter(f"{text!r} is not ARENA=BYTES, or names an arena again", param=parameter)
        found[name] = memory(_context, parameter, amount) or 0
    return found


def _load_workspace(path: str) -> Workspace:
    """Return what a file states of workspaces."""
    from tmmu.plans import workspace_file  # which loads more than a help text needs

    return workspace_file.load(path)


def _with_capacities(arenas: Arenas, capacity: dict[str, int]) -> Arenas:
    """Return arenas with other capacities. UsageError for an arena that is not there."""
    if unknown := capacity.keys() - {arena.name for arena in arenas[0]}:
        known = ", ".join(arena.name for arena in arenas[0])
        raise click.UsageError(f"--capacity: no arena is named {min(unknown)!r}; there are {known}")
    return tuple(replace(a, capacity=capacity.get(a.name, a.capacity)) for a in arenas[0]), arenas[1]


@click.command(
    cls=OnceCommand,
    epilog=format_examples(
        "tmmu plan unet.onnx --dim batch=1 -o unet.plan.cbor",
        "tmmu plan unet.onnx --dim batch=1..8 --order memory -o - > range.plan.cbor",
        "tmmu plan unet.onnx --dim batch=1 --as onnxruntime",
        "tmmu plan models -o plans",
        "tmmu plan mlp.onnx lenet.onnx --one-memory -o firmware",
    ),
)
@click.argument("given", nargs=-1, type=Files(MODEL_SUFFIXES), metavar="MODEL|FOLDER...")
@click.option(
    "-o", "--output", type=Output(standard=True, folder=True),
    help="Where to write the plan, or the folder of several [MODEL.plan.cbor; of several, beside each].",
)  # fmt: skip
@click.option(
    "--share", multiple=True, metavar="NAME",
    help="Plan the models for one memory, as a plan set in the folder of -o, in which tensors of this name are one; * "
    "is any text. PROGRAM:NAME=PROGRAM:NAME pairs tensors of different names. May be repeated.",
)  # fmt: skip
@click.option("--initial", multiple=True, metavar="NAME", help="The caller writes this shared tensor before all calls.")
@click.option(
    "--program", multiple=True, metavar="NAME=MODEL",
    help="A further program of the set. --dim NAME:seq=1 binds a dimension of it alone. May be repeated.",
)  # fmt: skip
@click.option("--extend", type=SetFolder(), help="Add the models to this plan set.")
@click.option("--one-memory", is_flag=True, help="Plan the models as a plan set, even if they share nothing.")
@shared.bindings(keeps=True, runtimes=True)
@shared.training
@shared.planning
@shared.sharding
@shared.arenas
@click.option(
    "--capacity",
    multiple=True,
    callback=_capacities,
    metavar="ARENA=BYTES",
    help="The capacity of an arena, in place of the configuration's: 1MiB, or a number.",
)
@workspace_option(_load_workspace)
@click.option("--why", is_flag=True, help="List the in-place hints that were refused, with reasons.")
@click.option("--events", type=shared.record, help="Append each step of the slot assignment to this log.")
@click.option(
    "--jobs", type=click.IntRange(1, 1024), metavar="N",
    help="With --shard: check and write the plans of all ranks in N processes.",
)  # fmt: skip
@shared.style
@click.option("-q", "--quiet", is_flag=True, help="Print only errors.")
@click.option("-v", "--verbose", is_flag=True, help="Print how long each phase took, and what --why lists.")
@gather_options("arenas", _with_capacities)
@gather_options("request", PlanRequest)
@gather_options("printing", PlanPrinting)
@gather_options("flags", SetFlags)
def plan(
    given: tuple[Listing, ...],
    output: str | None,
    request: PlanRequest,
    events: str | None,
    printing: PlanPrinting,
    flags: SetFlags,
) -> int:
    """Plan the memory of models.

    Reads each MODEL (ONNX, or IR as .ir.cbor or .ir.txt), checks its plan as verify-plan does, and writes it. A FOLDER
    means its files that end with .onnx, .ir.cbor or .ir.txt, at any depth. Of several models each is bound by
    those names that it has. If a model of several, or of a FOLDER, fails, failed.txt beside the plans names it, until
    all are planned. With --share the models are the programs of one plan set, which run in turn in one memory.

    \b
    Exit codes: 0 written, 4 a model that cannot be planned, 2 command line, 70 internal error; of several the worst.
    """
    from tmmu.cli import rank_files, ranks

    sharding, options = request.sharding, request.options
    if request.jobs is not None:
        require_package("loky", "--jobs", "fleet")
    if not given and not flags.program:
        raise click.UsageError("name a model, or a folder of models")
    if flags.is_asked:
        if events is not None:
            raise click.UsageError("--events does not go with a plan set")
        if request.workspace is not None:
            raise click.UsageError("--workspace does not go with a plan set")
        return plan_set(list(chain.from_iterable(listing.files for listing in given)), output, request, flags, printing)
    models = list(dict.fromkeys(chain.from_iterable(listing.files for listing in given)))
    several = len(models) > 1
    if several and (output == STANDARD or events is not None):
        raise click.UsageError(f"{count_noun(len(models), 'model')}: -o - and --events go with one")
    if several and options.fixed:
        raise click.UsageError(f"{count_noun(len(models), 'model')}: --fix goes with one")
    if output == STANDARD and sharding.shard is not None and sharding.rank is None:
        raise click.UsageError("-o - takes one plan: name a rank with --rank")
    targets = _targets(models, output, events)
    spec = ranks.load(sharding, request.training.budget, options.order)
    documents, codes = [], set[int]()
    absent = defaultdict[str, list[NotOfModel]](list) if several else None
    is_set = several or any(listing.is_folder for listing in given)
    with note_failures(dict(zip(models, targets, strict=True)), is_set=is_set) as notes:
        for number, (model, target) in enumerate(zip(models, targets, strict=True)):
            try:
                with progress(f"{model} ({number + 1} of {len(models)})" if several else model) as doing:
                    made = _plan_model(model, request, spec, events, doing, absent)
                    of_stages = [plans for _, _, plans in made.stages]
                    paths = (
                        _written(made, target)
                        if request.jobs is None
                        else rank_files.check_and_write(made.task, of_stages, target, request.jobs, doing)
                    )
            except TmmuError as error:
                notes.planned[model] = str(error).removeprefix(f"{escape_line(model)}: ")
                if not several:
                    raise
                codes.add(explain(error))
                documents.append({"model": model, "error": str(error)})
                continue
            codes.add(0)
            notes.planned[model] = None
            if printing.style == "json":
                documents.append(_document(model, made, paths))
            elif several and not printing.quiet:
                print_lines(_line(model, made, paths))
            elif not printing.quiet:
                print_lines(*_text(made, paths, spec, why=printing.why or printing.verbose, phases=printing.verbose))
        codes |= {explain(errors[-1]) for errors in (absent or {}).values() if len(errors) == len(models)}
        notes.is_success = codes == {0}
        if printing.style == "json":
            print_text(format_json({"models": documents}))
        return next(code for code in WORST_FIRST if code in codes)


@dataclass
class PlannedModel:
    """The plans of one model: its task, for each stage its model and the plan of each rank, and the times."""

    task: PlanningTask
    stages: list[tuple[Model, Planned, Sequence[Plan]]]
    allocation_time_ns: int = 0
    phases: dict[str, int] = field(default_factory=dict)
    """Nanoseconds of each phase."""
    is_stopped: bool = False
    """Whether Ctrl-C ended a search."""
    checked: bytes | None = None
    """The checked bytes of its only plan, which are written; None if it has several, for memory."""


def _plan_model(
    model: str,
    request: PlanRequest,
    spec: dict[str, Any] | None,
    events: str | None,
    doing: Doing,
    absent: dict[str, list[NotOfModel]] | None,
) -> PlannedModel:
    """Plan one model, by a shard spec if there is one, and check its plans; with `jobs` they are checked when written.

    Names that the model does not have bind nothing and are noted in `absent`; with None they are refused. Raises
    `TmmuError`, which names the file.
    """
    from tmmu.planner.fixed import check_found
    from tmmu.runtime.events import EventLog

    begun = [time.perf_counter_ns()]
    try:
        doing("reading")
        found = PlannedModel(_read(model, request, absent, divided=spec is not None), [])
        log = None if events is None else EventLog(events)
        begun.append(time.perf_counter_ns())
        doing("planning")
        _plan_stages(found, spec, request.sharding.rank, log)
        if request.sharding.rank is None:
            check_found(request.options.fixed, (planned.plan for _, planned, _ in found.stages))
        begun.append(time.perf_counter_ns())
        if request.jobs is None:
            _check_plans(found, doing)
        if log is not None:
            _log_plans(found, log)
        begun.append(time.perf_counter_ns())
    except TmmuError as error:
        error.in_file(model)
        raise
    spans = (after - before for before, after in pairwise(begun))
    found.phases = dict(zip(("reading", "planning", "checking"), spans, strict=True))
    return found


def _read(
    model: str, request: PlanRequest, absent: dict[str, list[NotOfModel]] | None, *, divided: bool
) -> PlanningTask:  # fmt: skip
    """Read a model, with those bindings that it has; the others are noted in `absent`, or refused if that is None."""
    from tmmu.core.bindings import remove_binding
    from tmmu.tasks.planning import task

    bindings = request.bindings
    while True:
        try:
            return task(
                model,
                bindings,
                request.training,
                request.options,
                request.arenas,
                divided=divided,
                workspace=request.workspace,
            )
        except NotOfModel as error:
            if absent is None:
                raise
            absent[error.binding].append(error.in_file(model))
            bindings = remove_binding(bindings, error.binding)


def _plan_stages(found: PlannedModel, spec: dict[str, Any] | None, rank: int | None, log: EventLog | None) -> None:
    """Add the plans of each stage of a task, or of one rank, and the time that planning took."""
    from tmmu.cli import ranks

    def timed(graph: Model) -> Planned:
        before = time.perf_counter_ns()
        with until_interrupted(found.task.options.effort is not None) as stopped:
            planned = found.task.planned(graph, log, stopped)
            found.is_stopped |= stopped()
        found.allocation_time_ns += time.perf_counter_ns() - before
        return planned

    found.stages.extend(ranks.plans(found.task.graph, spec, rank, timed))


def _log_plans(found: PlannedModel, events: EventLog) -> None:
    """Log each plan with its hash and its storages, so that a log of its use can be compared with it."""
    from tmmu.plans.file import plan_identity
    from tmmu.runtime.apply import list_storages

    for one in chain.from_iterable(plans for _, _, plans in found.stages):
        events("planned", plan=plan_identity(one).hex(), storages=list_storages(one))


def _check_plans(found: PlannedModel, doing: Doing) -> None:
    """Check each plan; of a single one what was checked is kept."""
    plans = [plans for _, _, plans in found.stages]
    count = sum(map(len, plans))
    for number, one in enumerate(chain.from_iterable(plans)):
        doing("checking", number, count)
        checked = found.task.check(one)
        found.checked = checked if count == 1 else None


def _targets(models: list[str], output: str | None, events: str | None) -> list[str]:
    """The file of each model's plan; UsageError where one file would be two things."""
    several = len(models) > 1
    if several and output is not None:
        if os.path.exists(output) and not os.path.isdir(output):
            raise click.UsageError(f"{output} is a file: the plans of several models need a folder")
        try:
            os.makedirs(output, exist_ok=True)
        except OSError as error:
            raise click.UsageError(f"{output}: the folder cannot be made ({error.strerror})") from error
    targets: list[str] = []
    for model in models:
        name = f"{stem_of_model(model)}.plan.cbor"
        if output == STANDARD or (output is not None and not several and not os.path.isdir(output)):
            target = output
        elif output is not None:
            target = os.path.join(output, name)
        else:
            target = os.path.join(os.path.dirname(model), name) if several else name
        if os.path.realpath(target) == os.path.realpath(model):
            raise click.UsageError(f"{target} is the model itself; choose another file with -o")
        if target in targets:
            other = models[targets.index(target)]
            raise click.UsageError(f"{other} and {model} would be planned to {target}; plan one of them by itself")
        shared.check_apart(model, target, events)
        targets.append(target)
    return targets


def _written(made: PlannedModel, target: str) -> list[str]:
    """Write the plans; the paths."""
    from tmmu.cli import ranks
    from tmmu.core import canonical
    from tmmu.plans import file

    paths = []
    for _, _, plans in made.stages:
        for one in plans:
            paths.append(target if target == STANDARD else ranks.target(target, one))
            canonical.write_atomically(paths[-1], made.checked or file.encode(one))
    return paths


def _text(
    made: PlannedModel, paths: list[str], spec: dict[str, Any] | None, *, why: bool, phases: bool
) -> Iterator[str]:
    """Yield the lines for one model."""
    from tmmu.cli import alternatives, ranks, storages, streams, summary

    path = iter(paths)
    for local, planned, plans in made.stages:
        yield from (f"wrote {next(path)}" for _ in plans)
        yield from (*summary.summary(planned.plan), *summary.remarks(planned.plan), *storages.remarks(planned.plan))
        yield from _added(made.task)
        yield from streams.describe_streams(planned.plan)
        if spec is None:
            yield from streams.compare_sequential(made.task, local, planned.plan)
            yield from alternatives.remarks(made.task, planned.plan)
        if spec is not None:
            yield from ranks.summary(spec, local, planned.plan)
        yield summary.hints(planned.plan, planned.refused)
        if why:
            yield from (f"  {r.node}: {r.result} in place of {r.operand}: {r.reason}" for r in planned.refused)
    if made.is_stopped:
        yield "  stopped by Ctrl-C: the best placement until then"
    if phases:
        yield f"  {', '.join(f'{phase} {seconds(spent)}' for phase, spent in made.phases.items())}"
    yield f"  success, planned in {seconds(made.allocation_time_ns)}"


def _line(model: str, made: PlannedModel, paths: list[str]) -> str:
    """One of several models."""
    from tmmu.plans import metrics

    needs = sum(sum(metrics.compute_footprints(plans[0].allocation)) for _, _, plans in made.stages if plans)
    where = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    return f"{model}: wrote {where}, {format_size(needs)} in all, planned in {seconds(made.allocation_time_ns)}"


def _document(model: str, made: PlannedModel, paths: list[str]) -> dict[str, Any]:
    """The same for programs: each plan as `tmmu show --format json` has it."""
    from tmmu.cli.show_report import document

    path = iter(paths)
    refused = [refusal for _, planned, _ in made.stages for refusal in planned.refused]
    return {
        "model": model,
        "plans": [{"file": next(path), **document(one)} for _, _, plans in made.stages for one in plans],
        "refused_hints": [refusal._asdict() for refusal in refused],
        "added_steps": _counts(made.task)[0], "recomputed_steps": _counts(made.task)[1],
        "allocation_time_ns": made.allocation_time_ns,
    }  # fmt: skip


def _counts(task: PlanningTask) -> tuple[int, int]:
    """How many steps were added to the model's nodes, and how many compute a value again."""
    own = {node.name for node in task.given.nodes}
    added = [node.name for node in task.graph.nodes if node.name not in own]
    again = sum(".recompute" in name for name in added)
    return len(added) - again, again


def _added(task: PlanningTask) -> Iterator[str]:
    """Yield a line that counts the nodes that were added to a model, if any were."""
    added, again = _counts(task)
    if added or again:
        yield f"  backward: {count_noun(added, 'step')} added, {again} computed again{_describe_gradients(task)}"


def _describe_gradients(task: PlanningTask) -> str:
    """Return how many parameters, or inputs in their place, have a gradient, and some of those without."""
    from tmmu.planner.training.expand import list_gradients

    found = list_gradients(task.given, task.graph)
    if not found.of:
        return ""
    without = [name for name in found.of if name not in found.having]
    named = f" (not {escape_line(list_names(without, 3))})" if without else ""
    return f"; {len(found.of) - len(without)} of {count_noun(len(found.of), found.word)} have a gradient{named}"
