"""`tmmu run`: a plan's steps in its arenas beside the same steps in private memory.

spec: SIM6.1 to SIM6.7, SIM8.3, C2.6
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from tmmu.cli import options
from tmmu.cli.options import RecordOptions
from tmmu.cli.run_options import RunOptions, compute_options
from tmmu.core.errors import TmmuError
from tmmu.core.extras import needed
from tmmu.core.flags import existing
from tmmu.core.kind import IR, PLAN, kind_of
from tmmu.core.output import json_text, print_lines, print_text, progress
from tmmu.core.vocabulary import Bindings

if TYPE_CHECKING:
    from tmmu.cli.run_report import BatchResult
    from tmmu.plan.sections import Plan
    from tmmu.simulator import PlanProgram
    from tmmu.simulator.onnx_kernels import OnnxKernels
    from tmmu.simulator.onnx_model import OnnxModel


@click.command()
@click.argument("target", type=existing, metavar="MODEL|PLAN")
@click.option("--plan", "path", type=existing, help="The plan to run MODEL in [one is made as `tmmu plan` would].")
@compute_options
@options.bindings(
    ranges=False,
    dim="A binding to plan with, or the plan's own; of a plan for ranges, a size inside [the largest].",
    shape="The same for a whole input shape.",
    value="The same for an input's value.",
    donate="The caller gives this up and does not read it again.",
    trust_shapes="Use the shapes that the model file states.",
)
@click.option("-o", "--output", type=options.output, help="Where to write the outputs of the last batch (.npz).")
@options.records(checkpoint=True)
@options.style
def run(
    target: str,
    path: str | None,
    computing: RunOptions,
    bindings: Bindings,
    output: str | None,
    files: RecordOptions,
    style: str,
) -> int:
    """Run a plan and compare with private memory.

    Runs MODEL (ONNX) in the arenas of its plan, or PLAN alone with stand-in kernels.

    With --trace, --ledger, --journal, --checkpoint or --contents the batches are those of the runtime, each sealed.

    \b
    Exit codes: 0 identical, 1 corrupted, 2 command line, 4 unreadable or not runnable, 70 internal error.
    """
    from tmmu.cli import run_report

    computing = replace(computing, kernels=computing.kernels or ("hash" if _is_plan(target) else "onnx"))
    _check_usage(target, path, computing, output, bindings)
    read = {os.path.realpath(each): each for each in (target, path, computing.inputs) if each is not None}
    options.check_apart(*read.values(), output, *files.paths)
    if computing.sanitize:
        from tmmu.runtime.filling import check_fill

        check_fill(files.mode, 0)  # its pattern is one
    plan, made = _plan(target, path, bindings)
    name = path or target
    donated = _donated(name, plan, bindings.donated)
    try:
        found = list(_runs(target, name, plan, donated, computing, files))
    except TmmuError as error:
        error.in_file(name)
        raise
    last = found[-1]
    if style == "json":
        print_text(json_text(run_report.document(name, plan, computing, found)))
    else:
        print_lines(*run_report.text(name, plan, computing, found, made))
    if output is not None and last.report.identical:
        run_report.write(output, last.outputs)
    return 0 if last.report.identical else 1


def _is_plan(target: str) -> bool:
    """Whether what is to be run is a plan: by its content, or, where that is unclear, by the suffix `.cbor`."""
    found = kind_of(target)
    return found == PLAN or (found is None and target.endswith(".cbor"))


def _check_usage(target: str, path: str | None, computing: RunOptions, output: str | None, bindings: Bindings) -> None:
    """Refuse what does not go together."""
    is_plan, kernels = _is_plan(target), computing.kernels
    if kind_of(target) == IR or (kind_of(target) is None and target.endswith(".ir.cbor")):
        how = f"run its plan alone: tmmu run {path or 'FILE.plan.cbor'}"
        raise click.UsageError(f"{target}: only ONNX models have kernels here; {how}")
    if is_plan and path is not None:
        raise click.UsageError("a plan is run alone: leave out --plan, or name an ONNX model beside it")
    if is_plan and kernels == "onnx":
        raise click.UsageError("--kernels onnx needs the model: tmmu run MODEL --plan PLAN")
    if is_plan and replace(bindings, donated=()) != Bindings():
        raise click.UsageError("bindings are for a model: a plan has its own")
    if kernels == "hash" and (computing.inputs is not None or output is not None):
        raise click.UsageError("--inputs and -o go with --kernels onnx: stand-ins compute nothing of the model's")


def _plan(target: str, path: str | None, bindings: Bindings) -> tuple[Plan, bool]:
    """The plan to run, and whether it was made here."""
    from tmmu.plan import file

    if _is_plan(target):
        return file.load(target).plan, False
    if path is not None:
        from tmmu.cli.run_envelope import at_shape, shape_of

        plan = file.load(path).plan
        try:
            plan = at_shape(plan, shape_of(plan, bindings.dims))
        except TmmuError as error:
            raise error.in_file(path) from None
        _check_bindings(path, plan, bindings)
        return plan, False
    from tmmu.cli.models import load
    from tmmu.planner import PlanOptions, plan_memory

    model = load(target, bindings)
    try:
        return plan_memory(model, options=PlanOptions(layout="packed")).plan, True
    except TmmuError as error:
        error.in_file(target)
        raise


def _donated(path: str, plan: Plan, patterns: tuple[str, ...]) -> tuple[str, ...]:
    """The names that the patterns fit; INVALID_BINDING where one fits nothing that the caller writes. spec: SIM6.5"""
    from tmmu.cli.models import expanded
    from tmmu.core.columns import NONE

    writers = plan.allocation.tensors.writer.tolist()
    callers = {name for name, writer in zip(plan.allocation.tensors.name, writers, strict=True) if writer == NONE}
    found = set[str]()
    for pattern in patterns:
        fitting = expanded(pattern, callers)
        if not fitting:
            raise TmmuError(
                "INVALID_BINDING", f"--donate {pattern}: no graph input or parameter has this name",
                file=path, fix=f"donate one of {', '.join(sorted(callers)[:8])}", binding=pattern,
            )  # fmt: skip
        found |= fitting
    return tuple(sorted(found))


def _check_bindings(path: str, plan: Plan, bindings: Bindings) -> None:
    """INVALID_BINDING where the command line binds something else than the plan, if that states its bindings."""
    if plan.provenance is None:
        return
    pairs: tuple[tuple[str, Mapping[str, Any], Mapping[str, Any]], ...] = (
        ("--dim", bindings.dims, plan.bindings.dims),
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


def _runs(
    target: str, name: str, plan: Plan, donated: tuple[str, ...], computing: RunOptions, files: RecordOptions
) -> Iterator[BatchResult]:
    """One batch for each seed, up to the first that shows a corruption."""
    from tmmu.cli.recording import recording
    from tmmu.cli.run_report import BatchResult
    from tmmu.plan import metrics
    from tmmu.simulator import Batches, Corrupted, HashKernels, PlanProgram, SimulationReport

    needed = metrics.footprints(plan.allocation)
    try:
        program = PlanProgram(plan, frozenset(donated))
        model = _bound(target, program) if computing.kernels == "onnx" else None
    except Corrupted as error:
        yield BatchResult(SimulationReport(error.corruption, 0, [0] * len(needed), needed), {})
        return
    with recording(plan, files) as record:
        batches = Batches(program, record.where, sanitize=computing.sanitize)
        doing = progress(name)

        def step(number: int) -> None:
            doing(f"step {number} of {len(program.steps)}")

        for number in range(computing.count):
            arrays: dict[str, Any] = {}
            if model is None:
                report = batches.run(HashKernels(program, computing.seed + number), step)
            else:
                own = _onnx(program, model, computing.inputs, computing.seed + number)
                report = batches.run(own, step)
                arrays = {k: array for k, array in own.arrays(report.outputs).items() if k in model.outputs}
            doing("")
            record.corruption = report.corruption
            yield BatchResult(report, arrays, record)
            if not report.identical:
                return
        if record.refused is not None:
            raise record.refused


def _bound(target: str, program: PlanProgram) -> OnnxModel:
    """The ONNX model of a program, with which it agrees."""
    with needed("onnx", "running an ONNX model"):
        from tmmu.importers.shapes import resolve
        from tmmu.simulator.onnx_model import OnnxModel

    bindings = program.plan.bindings
    model = OnnxModel(
        resolve(
            target, dims=bindings.dims, shapes=bindings.shapes, values=bindings.values,
            trust_shapes=bindings.trust_shapes,
        )
    )  # fmt: skip
    model.bind(program)
    return model


def _onnx(program: PlanProgram, model: OnnxModel, inputs: str | None, seed: int) -> OnnxKernels:
    from tmmu.simulator.onnx_kernels import OnnxKernels
    from tmmu.simulator.values import read_inputs

    given = {} if inputs is None else read_inputs(inputs, {name: model.sizes[name] for name in model.inputs})
    return OnnxKernels(program, model, given, seed)
