"""`tmmu plan --share`: several programs planned for one memory, checked and written as a plan set.

spec: PS3.1, PS3.5, PS3.6, PS3.7, PS3.12, C2.2
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from tmmu.cli.plan_request import PlanPrinting, PlanRequest, until_interrupted
from tmmu.cli.units import seconds
from tmmu.core.flags import stem_of_model
from tmmu.core.output import STANDARD, format_json, list_names, print_lines, print_text
from tmmu.core.progress import progress

if TYPE_CHECKING:
    from tmmu.tasks.sets import CheckedSet


@dataclass(frozen=True)
class SetFlags:
    """The options about a set: shared and initial tensors, further programs, and the set to extend."""

    share: tuple[str, ...] = ()
    initial: tuple[str, ...] = ()
    program: tuple[str, ...] = ()
    extend: str | None = None
    one_memory: bool = False

    @property
    def is_asked(self) -> bool:
        """Whether the models are planned as a set."""
        return bool(self.share or self.initial or self.program or self.extend is not None or self.one_memory)

    def programs(self, models: Sequence[str]) -> dict[str, str]:
        """Return the model of each program. Raises UsageError for a name that is used twice or is no name."""
        from tmmu.core.errors import TmmuError
        from tmmu.plans.sets import check_program

        found: dict[str, str] = {}
        for path in models:
            stem = stem_of_model(path)
            name = next(each for each in _numbered(stem) if each not in found)
            found[name] = path
        for text in self.program:
            name, is_given, path = text.partition("=")
            if not is_given or name in found:
                raise click.UsageError(f"--program {text}: expected NAME=MODEL with a name that no other program has")
            if not os.path.isfile(path):
                raise click.UsageError(f"--program {text}: {path} is not a file")
            found[name] = path
        for name in found:
            try:
                check_program(name, "the name of a program")
            except TmmuError as error:
                raise click.UsageError(f"{error.place}: {error.what}; name it with --program NAME=MODEL") from error
        return found


def _numbered(stem: str) -> Iterator[str]:
    yield stem
    number = 2
    while True:
        yield f"{stem}-{number}"
        number += 1


def plan_set(
    models: Sequence[str], output: str | None, request: PlanRequest, flags: SetFlags, printing: PlanPrinting
) -> int:
    """Plan models as one set, check it, and write it into a folder. Raises `TmmuError` and UsageError."""
    from tmmu.planner.sets.plan import SetOptions
    from tmmu.tasks import sets as task

    folder = _folder(output, flags)
    if request.sharding.shard is not None or request.jobs is not None:
        raise click.UsageError("--shard and --jobs do not go with a plan set")
    if request.options.fixed:
        raise click.UsageError("--fix does not go with a plan set: state it in a model, as `at N`")
    wanted = SetOptions(flags.share, flags.initial)
    asked = task.SetRequest(
        flags.programs(models), request.bindings, request.training, request.options, request.arenas, wanted,
        flags.extend,
    )  # fmt: skip
    begun = time.perf_counter_ns()
    with progress(folder) as doing, until_interrupted(request.options.effort is not None) as stopped:
        made = task.plan_and_check(asked, doing, stopped)
    paths = made.write(folder)
    if printing.style == "json":
        from tmmu.cli import set_report

        document = set_report.document(made.planned.plan_set, made.planned.plans)
        print_text(format_json({"set": folder, "files": paths, **document}))
    elif not printing.quiet:
        print_lines(*_text(made, paths, time.perf_counter_ns() - begun, why=printing.why or printing.verbose))
    return 0


def _folder(output: str | None, flags: SetFlags) -> str:
    folder = output if output is not None else flags.extend
    if folder is None or folder == STANDARD:
        raise click.UsageError("a plan set is a folder: name it with -o FOLDER")
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise click.UsageError(f"{folder} is a file: a plan set is a folder")
    return folder


def _text(made: CheckedSet, paths: Sequence[str], spent: int, *, why: bool) -> Iterator[str]:
    from tmmu.cli import set_report

    planned = made.planned
    yield from (f"wrote {path}" for path in paths)
    yield from set_report.lines(planned.plan_set, planned.plans)
    yield from _not_carried_on(made)
    if made.uncompared:
        yield f"  not compared: contents of shared weights ({made.uncompared}): verify the set with --models of all"
    for name, refused in planned.refused.items():
        if why:
            yield from (f"  {name}: {r.node}: {r.result} in place of {r.operand}: {r.reason}" for r in refused)
    yield f"  success, planned in {seconds(spent)}"


def _not_carried_on(made: CheckedSet) -> Iterator[str]:
    """Yield the donated tensors in whose place a program returns nothing: the set keeps their values. spec: PS3.12"""
    found = [
        f"{program}:{use.entry}"
        for one in made.planned.plan_set.agreement.shared
        for program, use in one.uses.items()
        if use.exit is None and program in made.tasks and use.entry in made.tasks[program].graph.bindings.donated
    ]
    if found:
        pair = f"--share {found[0]}={found[0].partition(':')[0]}:OUTPUT"
        yield f"  donated, but only read: {list_names(found)}; the next call finds the old value, unless you add {pair}"
