"""`tmmu run --schedules` and `--threads`: steps of streams overlap on planned bytes. spec: SIM10.1 to SIM10.5"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import click

from tmmu.cli.options import RecordOptions
from tmmu.cli.run_options import RunOptions
from tmmu.core.errors import TmmuError
from tmmu.core.output import count_noun
from tmmu.core.progress import Doing
from tmmu.plans.sections import Plan
from tmmu.runtime.events import EventLog
from tmmu.simulator import Corrupted, HashKernels, PlanProgram
from tmmu.simulator.schedules import ScheduleReport, Schedules, check_runnable


def check_usage(computing: RunOptions, files: RecordOptions, output: str | None) -> None:
    """Refuse what does not go with schedules: they run stand-in kernels, and seal no batch."""
    if computing.kernels != "hash":
        raise click.UsageError("--schedules and --threads go with --kernels hash")
    if computing.batches is not None or output is not None or replace(files, events=None).is_recorded:
        what = "--schedules and --threads go with neither --batches nor -o nor records, apart from --events"
        raise click.UsageError(what)


def check_model(model: str, path: str, plan: Plan) -> None:
    """Raise INVALID_BINDING unless a plan was made of an IR model."""
    from tmmu.ir.columns import model_digest
    from tmmu.tasks.models import load

    if plan.provenance is not None and plan.provenance.ir_hash != model_digest(load(model, plan.bindings)):
        what = f"it is not a plan of {model}, or of another half or order of it"
        raise TmmuError("INVALID_BINDING", what, file=path, fix="plan the model, or run the plan alone", binding="plan")


def run_schedules(
    plan: Plan, donated: Sequence[str], computing: RunOptions, events: str | None, doing: Doing
) -> list[ScheduleReport]:  # fmt: skip
    """Run the schedules up to the first that shows a corruption, and log them to the file `events`, if one is given.

    Raises INVALID_PLAN for a plan without streams.
    """
    count, found = computing.schedules or 1, list[ScheduleReport]()
    try:
        program = PlanProgram(plan, frozenset(donated))
    except Corrupted as error:
        report = ScheduleReport.of_corruption(plan, error.corruption, computing.seed)
        return [report]
    check_runnable(program)
    log = None if events is None else EventLog(events)
    schedules = Schedules(program, sanitize=computing.sanitize, events=log)
    kernels = HashKernels(program, computing.seed)
    for number in range(count):
        doing("schedule", number, count)
        seed = computing.seed + number
        run = schedules.run_threads if computing.threads else schedules.run
        found.append(run(kernels, seed))
        if not found[-1].report.identical:
            break
    return found


def text(name: str, plan: Plan, computing: RunOptions, found: Sequence[ScheduleReport]) -> Iterator[str]:
    """Yield the verdict, then the witness, or how far steps overlapped."""
    last, seed = found[-1], computing.seed
    kind = "run with threads" if computing.threads else "schedule"
    if (corruption := last.report.corruption) is not None:
        yield f"CORRUPTED {name}: {corruption.text}"
        if corruption.tensors:
            yield f"  tensors: {', '.join(corruption.tensors)}"
        if corruption.step is not None:
            yield f"  step: {corruption.step}"
        if corruption.arena is not None:
            yield f"  bytes: {corruption.first_byte} to {corruption.last_byte} of {corruption.arena}"
        yield f"  {kind} {len(found)} of {computing.schedules or 1}, seed {last.seed}"
        begun = [plan.allocation.steps.node[n] for word, n in last.log if word == "begin"]
        yield f"  steps in the order in which they began: {', '.join(begun)}"
        return
    looks = sum(each.report.looks for each in found)
    steps = count_noun(len(plan.allocation.steps), "step")
    streams = count_noun(len(plan.allocation.streams), "stream")
    runs = "1 run with threads" if len(found) == 1 and computing.threads else (
        f"{len(found)} runs with threads" if computing.threads else count_noun(len(found), "schedule")
    )  # fmt: skip
    seeds = f"seed {seed}" if len(found) == 1 else f"seeds {seed} to {last.seed}"
    yield f"IDENTICAL {name}: {steps} on {streams}, {runs}, {looks} reads compared, kernels hash, {seeds}"
    yield f"  at most {count_noun(max(each.widest for each in found), 'step')} ran at a time"


def document(name: str, plan: Plan, computing: RunOptions, found: Sequence[ScheduleReport]) -> dict[str, Any]:
    """Return the same for programs, with the log of each schedule."""
    corruption, nodes = found[-1].report.corruption, plan.allocation.steps.node
    return {
        "file": name,
        "verdict": "IDENTICAL" if corruption is None else "CORRUPTED",
        "exit": 0 if corruption is None else 1,
        "kernels": "hash",
        "sanitize": computing.sanitize,
        "threads": computing.threads,
        "streams": list(plan.allocation.streams),
        "steps": len(plan.allocation.steps),
        "compared": sum(each.report.looks for each in found),
        "schedules": [
            {
                "seed": each.seed,
                "most_at_a_time": each.widest,
                "log": [{"event": word, "step": n, "node": nodes[n]} for word, n in each.log],
            }
            for each in found
        ],
        "witness": corruption
        and {
            "text": corruption.text,
            "tensors": list(corruption.tensors),
            "step": corruption.step,
            "arena": corruption.arena,
            "first_byte": corruption.first_byte,
            "last_byte": corruption.last_byte,
            "seed": found[-1].seed,
        },
    }
