"""What a planner returned, as offsets or a plan; or one sentence that says what is wrong with it. spec: TP2.3, TP2.4"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from operator import index
from typing import Any, NamedTuple

from proofs.readers.plans.formats import load_any
from tmmu.core.errors import TmmuError
from tmmu.core.output import list_names, suggest_names
from tmmu.core.reading import parse_json, read_file
from tmmu.core.source import MAX_BYTES
from tmmu.core.vocabulary import UINT64_END
from tmmu.plans import file, text
from tmmu.plans.sections import BufferPlan, Plan
from tmmu.testing.problems import BufferProblem, PlannerProblem

SHAPES = "a dict of offsets by name, a list or an array of offsets, a plan, or a file or text with one"
"""The forms of an answer, for messages."""
NAME_COLUMNS = ("id", "name", "buffer", "buffer_id")


class BadAnswer(ValueError):
    """The planner's answer cannot be read. The message is one sentence with the tensor that it is about."""


class Refusal(Exception):
    """A program refuses a problem, by its exit code or in words."""


class PlannerAnswer(NamedTuple):
    """Offsets by name, or a whole plan; and the footprint that the planner stated, if it did.

    `is_changed` is whether the planner changed its argument.
    """

    offsets: dict[str, int] | None
    plan: Plan | BufferPlan | None
    footprint: int | None = None
    is_changed: bool = False


def read_answer(value: Any, problem: PlannerProblem) -> PlannerAnswer:
    """Read what a planner returned for a problem.

    Raises BadAnswer if an offset is missing, stated twice, of an unknown name, or no integer of 64 bits.
    """
    footprint = None
    if isinstance(value, tuple) and len(value) == 2 and not _is_number(value[0]):
        value, stated = value
        footprint = _integer(stated, "the footprint")
    if hasattr(value, "encoded") and callable(value.encoded):  # a `tmmu.MemoryPlan`
        value = value.encoded()
    if isinstance(value, (Plan, BufferPlan)):
        return _of_plan(value, problem, footprint)
    if isinstance(value, bytes):
        try:
            return _of_plan(file.read_any(value, "the answer").plan, problem, footprint)
        except TmmuError as error:
            raise BadAnswer(f"the answer is not a plan: {error}") from error
    if isinstance(value, os.PathLike) or (isinstance(value, str) and "\n" not in value and os.path.isfile(value)):
        return _of_file(os.fspath(value), problem, footprint)
    if isinstance(value, str):
        return _of_text(value, problem, footprint)
    if isinstance(value, Mapping):
        return PlannerAnswer(_checked(value.items(), problem), None, footprint)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Sequence):
        return PlannerAnswer(_of_list(value, problem), None, footprint)
    raise BadAnswer(f"expected {SHAPES}, got {type(value).__name__}")


def _of_list(values: Sequence[Any], problem: PlannerProblem) -> dict[str, int]:
    """Return the offsets of a list, which has one for each name that must have one."""
    names = problem.names
    if len(values) < len(names):
        raise BadAnswer(f"no offset for {names[len(values)]!r}: expected {len(names)} offsets, got {len(values)}")
    if len(values) > len(names):
        raise BadAnswer(f"expected {len(names)} offsets, got {len(values)}")
    return _checked(zip(names, values, strict=True), problem)


def _checked(pairs: Iterable[tuple[Any, Any]], problem: PlannerProblem) -> dict[str, int]:
    """Return the offsets as integers, all of them and no others."""
    known, found = {*problem.names, *problem.optional}, dict[str, int]()
    for name, value in pairs:
        name = str(name) if isinstance(name, str) else name  # with the hash of a text
        if name not in known:
            raise BadAnswer(f"unknown name {name!r}: {suggest_names(str(name), known, _listed(problem))}")
        if name in found:
            raise BadAnswer(f"two offsets for {name!r}: expected one")
        found[name] = _integer(value, f"the offset of {name!r}")
    for name in problem.names:
        if name not in found:
            raise BadAnswer(f"no offset for {name!r}: expected one for each {problem.noun}")
    return found


def _listed(problem: PlannerProblem) -> str:
    return f"there are {list_names(list(problem.names))}" if problem.names else "the problem has none"


def _is_number(value: Any) -> bool:
    """Whether it is one offset, right or wrong, and not many. An array has `__index__` too."""
    return isinstance(value, (int, float)) or (hasattr(value, "__index__") and not getattr(value, "shape", ()))


def _integer(value: Any, what: str) -> int:
    """Return an integer from 0 to 2^64 - 1. Raises BadAnswer for anything else, truth values included."""
    try:
        if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
            raise TypeError
        found = index(value)
    except TypeError:
        raise BadAnswer(f"expected an integer as {what}, got {value!r}"[:300]) from None
    if not 0 <= found < UINT64_END:
        raise BadAnswer(f"expected {what} to be from 0 to 2^64 - 1, got {found}")
    return found


def _of_plan(plan: Plan | BufferPlan, problem: PlannerProblem, footprint: int | None) -> PlannerAnswer:
    """Take a plan: of buffers its offsets by name, of a model the whole."""
    if not isinstance(problem, BufferProblem):
        if isinstance(plan, BufferPlan):
            raise BadAnswer("expected a plan with the steps of the model, got one that states lifetimes")
        return PlannerAnswer(None, plan, footprint)
    names, storages = plan.placement.storage_names(), plan.placement.storages
    found: dict[str, int] = {}
    for k, name in enumerate(names):
        whole = name.partition(" part ")[0]
        if found.setdefault(whole, int(storages.offset[k])) != storages.offset[k]:
            raise BadAnswer(f"two offsets for {whole!r}: the pieces around a gap must have one")
    if footprint is None and isinstance(plan, BufferPlan) and plan.claims is not None:
        footprint = plan.claims.usage[0].footprint
    return PlannerAnswer(_checked(found.items(), problem), None, footprint)


def _of_file(path: str, problem: PlannerProblem, footprint: int | None) -> PlannerAnswer:
    """Read a file: a plan of any format that `verify-plan` reads, or the text of offsets."""
    try:
        data = read_file(path, MAX_BYTES)
        try:
            given = data.decode()
        except UnicodeDecodeError:
            return _of_plan(load_any(path).plan, problem, footprint)
        return _of_text(given, problem, footprint)
    except (OSError, TmmuError) as error:
        raise BadAnswer(f"the answer cannot be read: {error}") from error


def _of_text(given: str, problem: PlannerProblem, footprint: int | None) -> PlannerAnswer:
    """Read a text: a plan (`spec/text-plan.md`), JSON, or CSV with the columns `id` and `offset`."""
    start = given.lstrip()
    if start.startswith(text.FORMAT.title):
        try:
            return _of_plan(file.read_any(start.encode(), "the answer").plan, problem, footprint)
        except TmmuError as error:
            raise BadAnswer(str(error)) from error
    if start[:1] in ("{", "["):
        return _of_json(start, problem, footprint)
    try:
        header, *rows = list(csv.reader(io.StringIO(start))) or [[]]
    except csv.Error as error:
        raise BadAnswer(f"the answer is not CSV ({error})") from error
    header = [cell.strip() for cell in header]
    names = [column for column in header if column in NAME_COLUMNS]
    if not names or "offset" not in header:
        shown = start.splitlines()[0][:60] if start else ""
        raise BadAnswer(f"expected CSV with the columns id and offset, JSON or a text plan, got {shown!r}")
    pairs = []
    for row in filter(None, rows):
        cells = dict(zip(header, (cell.strip() for cell in row), strict=False))
        if len(row) != len(header):
            raise BadAnswer(f"expected {len(header)} cells in the row of {cells.get(names[0], '')!r}, got {len(row)}")
        pairs.append((cells[names[0]], _number_of(cells["offset"])))
    return PlannerAnswer(_checked(pairs, problem), None, footprint)


def _number_of(cell: str) -> int | str:
    """Return the number that a cell of CSV states, or the cell itself."""
    return int(cell) if re.fullmatch(r"-?[0-9]{1,30}", cell) else cell


def _of_json(given: str, problem: PlannerProblem, footprint: int | None) -> PlannerAnswer:
    """Read a JSON object of offsets by name, also as `offsets` beside a `footprint`, or a list of offsets."""
    try:
        value = parse_json(given, _Pairs)
    except ValueError as error:
        raise BadAnswer(f"the answer is not JSON ({error})") from error
    if isinstance(value, _Pairs):
        stated = dict(value)
        if isinstance(stated.get("offsets"), (list, _Pairs)) and set(stated) <= {"offsets", "footprint"}:
            if stated.get("footprint") is not None:
                footprint = _integer(stated["footprint"], "the footprint")
            value = stated["offsets"]
    if isinstance(value, _Pairs):
        return PlannerAnswer(_checked(value, problem), None, footprint)
    return PlannerAnswer(_of_list(value, problem), None, footprint)


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object, those of one name included."""
