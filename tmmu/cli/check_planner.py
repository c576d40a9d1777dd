"""`tmmu check-planner`: a planner in any language on random problems, by the suite of `tmmu.testing`.

Exit 0 if all properties hold, 1 if one fails, 2 for the command line. spec: TP5.1 to TP5.5
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tmmu.core import folders
from tmmu.core.extras import require_package
from tmmu.core.flags import MemorySize, OnceCommand, format_examples, gather_options
from tmmu.core.output import print_lines
from tmmu.core.progress import progress

if TYPE_CHECKING:
    from tmmu.testing.programs import BatchProgram, ProgramPlanner

PROMISES = ("relabelled", "monotone", "growth")


@dataclass(frozen=True)
class Drawn:
    """What problems are drawn: their kind, and what buffers may have."""

    given: str
    most: int
    largest: int | None
    alignments: bool
    gaps: bool
    fixed: bool

    def strategy(self) -> Any:
        """Return the strategy. Buffers are never empty: a table without rows is no input of a program."""
        from tmmu import testing

        if self.given == "buffers":
            bounds = {"most": self.most} | ({} if self.largest is None else {"largest": self.largest})
            marks = {"alignments": self.alignments, "gaps": self.gaps, "fixed": self.fixed}
            drawn: Any = testing.buffers
            return drawn(**bounds, **marks).filter(bool)
        if self.largest is not None or self.gaps or self.fixed:
            raise click.UsageError(f"--largest, --gaps and --fixed are about buffers; --given is {self.given}")
        if self.given == "models":
            return testing.models(most=self.most)
        return {"dags": testing.dags, "graphs": testing.graphs}[self.given](most=self.most, alignments=self.alignments)


@dataclass(frozen=True)
class Spoken:
    """How a program gets problems: the format of buffers, the time it has, and whether it answers line by line."""

    form: str
    timeout: float
    batch: bool

    def program(self, command: tuple[str, ...]) -> ProgramPlanner | BatchProgram:
        """Return the planner. Raises UsageError for a command that cannot be run."""
        from tmmu.testing.programs import IN, OUT, BatchProgram, ProgramPlanner

        if folders.find_program(command[0]) is None:
            if os.path.isfile(command[0]):
                raise click.UsageError(
                    f"{command[0]!r} is not executable: chmod +x it, or name its interpreter before it"
                )
            raise click.UsageError(f"there is no program {command[0]!r}")
        if not self.batch:
            return ProgramPlanner(command, self.form, self.timeout)
        if any(mark in word for word in command for mark in (IN, OUT)):
            raise click.UsageError(f"--batch: the program reads lines and writes lines; leave {IN} and {OUT} out")
        return BatchProgram(command, self.timeout)


@dataclass(frozen=True)
class Chosen:
    """Which properties are examined, on how many examples from which seed, and where a failure is saved."""

    examples: int
    seed: int
    also: tuple[str, ...]
    without: tuple[str, ...]
    capacity: int | None
    granularity: int
    folder: str


@click.command(
    "check-planner",
    cls=OnceCommand,
    context_settings={"ignore_unknown_options": False},
    epilog=format_examples(
        "tmmu check-planner --examples 20 -- python planner.py '{in}' '{out}'",
        "tmmu check-planner --examples 20 --alignments --format json -- python planner.py",
        "tmmu check-planner --examples 20 --given graphs -- python graph_planner.py '{in}' '{out}'",
    ),
)
@click.argument("command", nargs=-1, required=True, metavar="-- PROGRAM [ARGUMENT]...", type=click.UNPROCESSED)
@gather_options(
    "drawn", Drawn,
    click.option("--given", type=click.Choice(["buffers", "dags", "graphs", "models"]), default="buffers",
                 help="The problems: buffers with live ranges, or models as text (spec/text-ir.md)."),
    click.option("--most", type=click.IntRange(1), default=12, help="The most buffers or nodes."),
    click.option("--largest", type=MemorySize(), help="The largest buffer; 8EiB draws sizes near the end of 64 bits."),
    click.option("--alignments", is_flag=True, help="Draw alignments up to 4096."),
    click.option("--gaps", is_flag=True, help="Draw buffers that are not needed for some steps in between."),
    click.option("--fixed", is_flag=True, help="Draw buffers that must begin at an offset."),
)  # fmt: skip
@gather_options(
    "spoken", Spoken,
    click.option("--format", "form", type=click.Choice(["csv", "json"]), default="csv",
                 help="How buffers are written: MiniMalloc's CSV, with `upper` excluded, or JSON."),
    click.option("--timeout", type=click.FloatRange(0, min_open=True), default=10.0,
                 help="The seconds that the program has for a problem."),
    click.option("--batch", is_flag=True,
                 help="Start the program once: each line that it reads is a problem as JSON, each line it writes an "
                      "answer."),
)  # fmt: skip
@gather_options(
    "chosen", Chosen,
    click.option("--examples", type=click.IntRange(1), default=100, help="How many problems are drawn."),
    click.option("--seed", type=int, default=0, help="The seed that the problems follow from."),
    click.option("--also", type=click.Choice(PROMISES), multiple=True, help="A property that only some planners have."),
    click.option("--without", metavar="PROPERTY", multiple=True, help="A property that this planner does not have."),
    click.option("--capacity", type=MemorySize(), help="The bytes that every plan must fit into."),
    click.option("--granularity", type=click.IntRange(1), default=1, help="The unit of the planner's offsets."),
    click.option("--folder", type=click.Path(file_okay=False), default="plan-regressions",
                 help="Where a problem that fails is saved."),
)  # fmt: skip
def check_planner(command: tuple[str, ...], drawn: Drawn, spoken: Spoken, chosen: Chosen) -> int:
    """Check a memory planner, a program in any language, on random problems.

    In the command, {in} is the file with a problem and {out} the file for the answer; without them, the program reads
    its standard input and writes its standard output. An answer is the CSV with a column `offset`, JSON with offsets by
    name, or a text plan. A command with {capacity} is also run with capacities, and must end with an exit code other
    than 0 if nothing fits. The smallest problem that fails is printed, and saved with the program's input.
    """
    for package in ("hypothesis", "networkx"):
        require_package(package, "tmmu check-planner", "testing")
    from tmmu.testing.cases import PlannerFailure
    from tmmu.testing.planners import check_planner as check
    from tmmu.testing.profiles import ExampleRun, running
    from tmmu.testing.programs import BatchProgram, write_input
    from tmmu.testing.properties import PROPERTIES, Planner

    for name in chosen.without:
        if name not in PROPERTIES:
            raise click.UsageError(f"--without: expected one of {', '.join(PROPERTIES)}, got {name!r}")
    program = spoken.program(command)
    planner = Planner(program, shlex.join(command), takes_capacity=program.takes_capacity)
    try:
        with (
            progress(planner.name) as doing,
            running(ExampleRun(chosen.examples, chosen.seed, Path(chosen.folder), doing)),
        ):
            figures = check(
                planner, drawn.strategy(), capacity=chosen.capacity, granularity=chosen.granularity, also=chosen.also,
                without=chosen.without,
            )  # fmt: skip
    except PlannerFailure as failure:
        print_lines(*str(failure).splitlines())
        if failure.saved is not None:
            found, form = failure.failure, "json" if spoken.batch else spoken.form
            text, suffix = write_input(found.problem, form, found.capacity)
            given = Path(f"{os.fspath(failure.saved).removesuffix('.plan.txt')}{suffix}")
            given.write_text(text, encoding="utf-8")
            print_lines(f"input: {given}")
        return 1
    finally:
        if isinstance(program, BatchProgram):
            program.close()
    print_lines(f"all properties hold: {planner.name}, {chosen.examples} examples from seed {chosen.seed}")
    print_lines(*(f"  {name:16} {count:6}  {PROPERTIES[name]}" for name, count in figures.held.items() if count))
    print_lines(f"  footprint ÷ peak: mean {figures.mean:.3f}, worst {figures.worst:.3f}")
    return 0
