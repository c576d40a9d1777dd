"""`tmmu run`: a plan's steps in its arenas beside the same steps in private memory.

spec: SIM6.1 to SIM6.9, SIM8.3, C2.6
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from tmmu.cli import options
from tmmu.cli.options import RecordOptions
from tmmu.cli.run_options import RunOptions, compute_options
from tmmu.core.errors import TmmuError
from tmmu.core.extras import require_package
from tmmu.core.flags import (
    MODEL_SUFFIXES,
    PLAN_SUFFIXES,
    FileOrSet,
    OnceCommand,
    binding_option,
    format_examples,
    gather_options,
    parse_successive,
    plan_file,
)
from tmmu.core.kind import IR, is_plan, kind_of
from tmmu.core.output import format_json, print_lines, print_text
from tmmu.core.progress import progress
from tmmu.core.vocabulary import Bindings

if TYPE_CHECKING:
    from tmmu.plans.sections import Plan


@dataclass(frozen=True)
class BatchBindings:
    """The sizes of each dimension, for the batches in turn, and bindings that hold for all of these."""

    sizes: dict[str, tuple[int, ...]]
    bindings: Bindings


def _of_batches(dim: dict[str, str], bindings: Bindings) -> BatchBindings:
    """Return what --dim gives batch by batch; a dimension of several sizes is bound to their range."""
    sizes = parse_successive(dim)
    bound_to = replace(
        bindings, dims={name: each[0] for name, each in sizes.items() if len(set(each)) == 1},
        ranges={name: (min(each), max(each)) for name, each in sizes.items() if len(set(each)) > 1},
    )  # fmt: skip
    return BatchBindings(sizes, bound_to)


@click.command(
    cls=OnceCommand,
    epilog=format_examples(
        "tmmu run mlp.onnx --sanitize",
        "tmmu run mlp.onnx --plan mlp.plan.cbor -o outputs.npz",
        "tmmu run mlp.plan.cbor --batches 20",
        "tmmu run session/ --calls prefill,decode*8 --sanitize",
    ),
)
@click.argument("target", type=FileOrSet((*MODEL_SUFFIXES, *PLAN_SUFFIXES)), metavar="MODEL|PLAN|SET")
@click.option("--plan", "path", type=plan_file, help="The plan to run MODEL in [one is made as `tmmu plan` would].")
@compute_options
@binding_option(
    "--dim", "The size of a dimension, or one for each batch in turn: seq=4,8,16 [the plan's own, or largest]."
)
@options.bindings(
    batches=True,
    shape="The shape of an input to plan with, or the plan's own.",
    value="The same for an input's value.",
    donate="The caller gives this up and does not read it again.",
    trust_shapes="Use the shapes that the model file states.",
)
@options.address_token
@click.option("-o", "--output", type=options.output, help="Where to write the outputs of the last batch (.npz).")
@options.records(checkpoint=True)
@options.style
@gather_options("batches", _of_batches)
def run(
    target: str,
    path: str | None,
    computing: RunOptions,
    batches: BatchBindings,
    address_token: bytes | None,
    output: str | None,
    files: RecordOptions,
    style: str,
) -> int:
    """Run a plan and compare with private memory.

    Runs MODEL (ONNX) in the arenas of its plan, or PLAN alone with stand-in kernels. Of a plan set SET, the programs
    are called one after the other in one memory, and what they share is kept from call to call.

    Before each batch there is a safepoint: a shape outside the plan's envelope is refused there, or planned for again,
    proved and checkpointed, as the plan's policy says. With --trace, --ledger, --journal, --checkpoint, --events or
    --contents the batches are those of the runtime, each sealed.

    \b
    Exit codes: 0 identical, 1 corrupted, 2 command line, 4 unreadable, not runnable or outside, 70 internal error.
    """
    from tmmu.cli import run_report
    from tmmu.cli.run_loop import BatchLoop

    if os.path.isdir(target):
        from tmmu.cli import run_set

        given = (path, output, address_token, computing.inputs, computing.batches)
        if any(each is not None for each in given) or batches.sizes or batches.bindings != Bindings():
            raise click.UsageError(
                "--plan, -o, --inputs, --batches, bindings and tokens are for one program, not a set"
            )
        return run_set.run_set(target, computing, files, style)
    if computing.calls is not None or computing.models:
        raise click.UsageError("--calls and --model go with a plan set")
    if computing.kernels == "onnxruntime":
        require_package("onnxruntime", "--kernels onnxruntime", "judges")
    sizes, bindings = batches.sizes, batches.bindings
    computing = replace(
        computing, kernels=computing.kernels or ("hash" if is_plan(target) else "onnx"),
        borrows=computing.kernels is None,
        batches=computing.batches or max((len(each) for each in sizes.values() if len(each) > 1), default=None),
    )  # fmt: skip
    _check_usage(target, path, computing, output, bindings)
    if computing.is_overlapping:
        return _run_overlapping(target, path, computing, batches, output, files, style)
    read = {os.path.realpath(each): each for each in (target, path, computing.inputs) if each is not None}
    options.check_apart(*read.values(), output, *files.paths)
    if computing.sanitize:
        from tmmu.runtime.filling import check_fill

        check_fill(files.mode, 0)  # its pattern is one
    plan, made = _plan(target, path, bindings)
    computing = computing.for_plan(plan)
    name = path or target
    donated = _donated(name, plan, bindings.donated)
    try:
        with progress(name) as doing:
            loop = BatchLoop(target, name, plan, donated, sizes, computing, address_token)
            found = list(loop.run(files, doing))
    except TmmuError as error:
        error.in_file(name)
        raise
    last = found[-1]
    if style == "json":
        print_text(format_json(run_report.document(name, computing, found)))
    else:
        print_lines(*run_report.text(name, computing, found, made))
    if output is not None and last.report.identical:
        run_report.write(output, last.outputs)
    return 0 if last.report.identical else 1


def _run_overlapping(
    target: str,
    path: str | None,
    computing: RunOptions,
    batches: BatchBindings,
    output: str | None,
    files: RecordOptions,
    style: str,
) -> int:
    """Run interleavings of the steps of several streams; return the exit code."""
    from tmmu.cli import run_schedules

    run_schedules.check_usage(computing, files, output)
    name = path or target
    plan, _ = _plan(target, path, batches.bindings)
    donated = _donated(name, plan, batches.bindings.donated)
    try:
        if kind_of(target) == IR and path is not None:
            run_schedules.check_model(target, path, plan)
        with progress(name) as doing:
            found = run_schedules.run_schedules(plan, donated, computing, files.events, doing)
    except TmmuError as error:
        error.in_file(name)
        raise
    if style == "json":
        print_text(format_json(run_schedules.document(name, plan, computing, found)))
    else:
        print_lines(*run_schedules.text(name, plan, computing, found))
    return 0 if found[-1].report.identical else 1


def _check_usage(target: str, path: str | None, computing: RunOptions, output: str | None, bindings: Bindings) -> None:
    """Refuse what does not go together."""
    alone, kernels = is_plan(target), computing.kernels
    is_ir = kind_of(target) == IR or (kind_of(target) is None and target.endswith(".ir.cbor"))
    if is_ir and not (computing.is_overlapping and kernels == "hash"):
        how = f"run its plan alone: tmmu run {path or 'FILE.plan.cbor'}"
        raise click.UsageError(f"{target}: only ONNX models have kernels here; {how}")
    if alone and path is not None:
        raise click.UsageError("a plan is run alone: leave out --plan, or name an ONNX model beside it")
    if alone and kernels != "hash":
        raise click.UsageError(f"--kernels {kernels} needs the model: tmmu run MODEL --plan PLAN")
    if alone and replace(bindings, donated=()) != Bindings():
        raise click.UsageError("bindings are for a model: a plan has its own")
    if kernels == "hash" and (computing.inputs is not None or output is not None):
        raise click.UsageError("--inputs and -o go with kernels of the model: stand-ins compute nothing of it")


def _plan(target: str, path: str | None, bindings: Bindings) -> tuple[Plan, bool]:
    """The plan to run, and whether it was made here."""
    from tmmu.plans import file

    if is_plan(target):
        return file.load(target).plan, False
    if path is not None:
        plan = file.load(path).plan
        _check_bindings(path, plan, bindings)
        return plan, False
    from tmmu.planner import PlanOptions, plan_memory
    from tmmu.tasks.models import load

    model = load(target, bindings)
    try:
        return plan_memory(model, options=PlanOptions(layout="packed")).plan, True
    except TmmuError as error:
        error.in_file(target)
        raise


def _donated(path: str, plan: Plan, patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the inputs that the patterns fit. Raises INVALID_BINDING for a pattern that fits none. spec: SIM6.5"""
    from tmmu.core.columns import NONE
    from tmmu.tasks.models import fitting

    writers = plan.allocation.tensors.writer.tolist()
    callers = {name for name, writer in zip(plan.allocation.tensors.name, writers, strict=True) if writer == NONE}
    return tuple(sorted(fitting(patterns, callers, path)))


def _check_bindings(path: str, plan: Plan, bindings: Bindings) -> None:
    """INVALID_BINDING where a shape or value is not the plan's, if that states its bindings; sizes are the loop's."""
    if plan.provenance is None:
        return
    pairs: tuple[tuple[str, Mapping[str, Any], Mapping[str, Any]], ...] = (
        ("--shape", bindings.shapes, plan.bindings.shapes),
        ("--value", bindings.values, plan.bindings.values),
    )
    for flag, asked, stated in pairs:
        for name, value in asked.items():
            if stated.get(name) != value:
                raise TmmuError(
                    "INVALID_BINDING", f"{flag} {name}: the plan was made with {stated.get(name, 'nothing')}",
                    file=path, fix="leave the flag out, or plan again", binding=name,
                )  # fmt: skip
