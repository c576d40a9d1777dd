"""A failure as text for people, and as a case that is saved and shown again.

A case is a text plan: what the planner answered, as `verify-plan` reads it, with comments that hold the problem. So one
file shows the wrong plan to a person, to the verifier, and to the planner's next version. spec: TP3.1, TP3.2, TP3.3
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from proofs.definition.violations import Obligation
from proofs.verify.boxes import boxes
from proofs.verify.picture import in_text
from tmmu.core.columns import Names
from tmmu.core.errors import TmmuError
from tmmu.core.reading import parse_json, read_file
from tmmu.core.source import MAX_BYTES
from tmmu.plans import text, text_writer
from tmmu.plans.allocation import Buffers
from tmmu.plans.sections import BufferPlan, Plan
from tmmu.testing.problems import PlannerProblem, read_problem
from tmmu.testing.properties import OF_ALLOCATORS, PROPERTIES, Examination, Figures, Planner, PropertyFailure

SUFFIX = ".plan.txt"
MARK = "# case "
"""The line of a case that holds the problem."""
SHOWN = 60
"""The most lines of a plan in a message; the saved case has all."""


class PlannerFailure(AssertionError):
    """A property that does not hold. `failure` has the problem and the plan, `saved` is the file of the case."""

    def __init__(self, message: str, failure: PropertyFailure, saved: Path | None = None) -> None:
        super().__init__(message)
        self.failure, self.saved = failure, saved


class NotACase(ValueError):
    """A file is not a saved case. The message names the file and the fix."""


class CaseOrigin(NamedTuple):
    """Where a case comes from: the planner, the strategy that drew the problem, as text, and the unit of offsets.

    A function has the name MODULE:NAME, which others may have as well, such as all lambdas of a module. So a case is
    tried again only with a planner of that name that is given what the same strategy draws.
    """

    planner: str
    given: str
    granularity: int = 1


class SavedCase(NamedTuple):
    """A saved problem: where it comes from, the property, the capacity that the planner was given, and the file."""

    origin: CaseOrigin
    name: str
    problem: PlannerProblem
    capacity: int | None
    path: Path

    def examine(self, planner: Planner, wanted: Collection[str]) -> PropertyFailure | None:
        """Return the first failure of a planner on the problem, in one of some properties, or None."""
        capacity = None if self.name == "refuses" else self.capacity  # which it tries itself
        examination = Examination(wanted, capacity, self.origin.granularity)
        return next(examination.failures(planner, self.problem, Figures()), None)


def describe(planner: str, failure: PropertyFailure, saved: Path | None = None, note: str = "") -> str:
    """Return the message of a failure: the sentence, the two rectangles, the plan, and how it is shown again."""
    lines = [f"{planner}: {failure.obligation}: {failure.text}"]
    if failure.name != failure.obligation or failure.violation is None:
        lines.append(f"  property: {failure.name}: {(OF_ALLOCATORS | PROPERTIES)[failure.name]}")
    if failure.capacity is not None:
        lines.append(f"  capacity: {failure.capacity}")
    lines += (f"  {line}" for line in draw(failure))
    plan = [] if failure.plan is None else text_of(failure.plan).splitlines()
    lines += plan[:SHOWN] + ([f"… and {len(plan) - SHOWN} further lines"] if len(plan) > SHOWN else [])
    example = failure.problem.example
    lines.append(f"@example({example if len(example) < 2000 else '…'})")
    if saved is not None:
        lines.append(f"saved: {saved}{' (verify-plan judges the plan in it)' if plan else ''}")
    return "\n".join([*lines, *filter(None, [note])])


def draw(failure: PropertyFailure) -> Iterator[str]:
    """Yield the place of a violation, and the rectangles of its tensors as `verify-plan` draws them."""
    found = failure.violation
    if found is None or failure.plan is None:
        return
    if found.tensors:
        yield f"tensors: {', '.join(found.tensors)}"
    if found.step is not None:
        yield f"step: {found.step}"
    witness = found.witness()
    shown = boxes(failure.plan, found.tensors, of_storages=found.obligation is Obligation.NO_LIVE_OVERLAP)
    if shown and witness.get("first_byte") is not None:
        yield f"bytes: {witness['first_byte']} to {witness['last_byte']} of {witness['arena']}"
    if shown:
        yield from in_text(witness | {"boxes": [box._asdict() for box in shown]})


def text_of(plan: Plan | BufferPlan) -> str:
    """Return a plan as text; one whose lifetimes do not follow from its steps as storages with lifetimes."""
    if not len(plan.placement.storages):
        return _without_plan()
    if isinstance(plan, BufferPlan):
        return text_writer.write(BufferPlan(plan.buffers))
    try:
        return text_writer.write(Plan(plan.allocation))
    except TmmuError:
        a = plan.allocation
        return text_writer.write(BufferPlan(Buffers(a.arenas, a.storages, (), Names.of(a.storage_names()))))


def save(origin: CaseOrigin, failure: PropertyFailure, folder: Path) -> Path:
    """Write a failure as a case and return its file. One file for each planner and obligation: the last is kept."""
    title, *rest = (text_of(failure.plan) if failure.plan is not None else _without_plan()).splitlines()
    document = {
        **origin._asdict(), "property": failure.name, "kind": failure.problem.kind, "capacity": failure.capacity,
        "problem": failure.problem.document(),
    }  # fmt: skip
    lines = [
        title,
        f"# {origin.planner} broke {failure.obligation}: {_one_line(failure.text)}",
        f"{MARK}{json.dumps(document)}",
        f"# @example({_one_line(failure.problem.example)})",
        *rest,
    ]
    name = re.sub(r"[^A-Za-z0-9_.]+", "-", f"{origin.planner}-{failure.obligation}").strip("-.")
    path = folder / f"{name[:120]}{SUFFIX}"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _without_plan() -> str:
    return f"{text.FORMAT.title} {text.FORMAT.version}\n# no plan: nothing is placed, or the answer cannot be read\n"


def _one_line(given: str) -> str:
    return given.replace("\n", "\\n")


def read_case(path: Path) -> SavedCase:
    """Read a saved case. Raises NotACase for any other file."""
    try:
        lines = read_file(path, MAX_BYTES).decode().splitlines()
        [stated] = (line[len(MARK) :] for line in lines if line.startswith(MARK))
        found: dict[str, Any] = parse_json(stated)
        problem = read_problem(found["kind"], found["problem"])
        capacity, unit = found["capacity"], found["granularity"]
        for number in (unit,) if capacity is None else (capacity, unit):
            if isinstance(number, bool) or not isinstance(number, int):
                raise ValueError(f"expected an integer, got {number!r}")
        origin = CaseOrigin(str(found["planner"]), str(found["given"]), unit)
        return SavedCase(origin, str(found["property"]), problem, capacity, path)
    except (OSError, ValueError, KeyError, TypeError, TmmuError) as error:
        what = str(error) or type(error).__name__
        raise NotACase(f"{path}: not a saved case ({what}); give a file that tmmu.testing saved") from error


def saved_cases(origin: CaseOrigin, folder: Path) -> list[SavedCase]:
    """Return the saved cases of an origin in a folder, which need not exist. Other plans in it are ignored."""
    found = []
    for path in sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []:
        try:
            case = read_case(path)
        except NotACase:
            continue
        if case.origin == origin:
            found.append(case)
    return found
