"""Plan several models for one memory and check their plans, as `tmmu plan --share` does.

Each plan is checked as a single one is, and the set by the function that `verify-plan` uses. The bytes that are written
are the bytes that were checked. spec: PS3.1, PS3.2, PS3.3, PS3.7, PS3.11, C2.1
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from proofs.sets.contents import FIX, compare_contents
from proofs.sets.members import SetMember
from proofs.sets.violations import find_violations
from proofs.verify.checks import Subject
from tmmu.core import kind
from tmmu.core.bindings import remove_binding
from tmmu.core.errors import NotOfModel, TmmuError
from tmmu.core.vocabulary import ArenaConfiguration, ArenaPolicy, Bindings
from tmmu.planner.options import PlanOptions
from tmmu.planner.plan import PreparedModel
from tmmu.planner.remat import check_budget
from tmmu.planner.sets.plan import PlannedSet, SetOptions, plan_programs
from tmmu.planner.sets.programs import prepare_program
from tmmu.planner.sets.shares import TensorOfProgram, share_error
from tmmu.plans import file, sets
from tmmu.plans.sections import Plan
from tmmu.simulator.values import InitializerDigest, initializer_digests
from tmmu.tasks.checking import PlanCheck, bug_error
from tmmu.tasks.planning import PlanningTask, task
from tmmu.tasks.training import TrainingOptions

Arenas = tuple[tuple[ArenaConfiguration, ...], ArenaPolicy]


class SetRequest(NamedTuple):
    """How the programs of a set are planned: the model of each, and the options of all."""

    models: Mapping[str, str]
    bindings: Bindings
    training: TrainingOptions
    options: PlanOptions
    arenas: Arenas
    wanted: SetOptions
    extended: str | None = None
    """The folder of a set to which the programs are added."""


@dataclass(frozen=True)
class CheckedSet:
    """A set whose plans are checked: the bytes of each plan, and how it was planned."""

    planned: PlannedSet
    data: dict[str, bytes]
    tasks: dict[str, PlanningTask]
    uncompared: str = ""
    """Why the values of weights that a set was extended with were not compared with those of its own programs."""

    def write(self, folder: str) -> list[str]:
        """Write the set into a folder, and return the paths. Raises as `sets.save`."""
        return sets.save(folder, self.planned.plan_set, self.data)


def plan_and_check(
    request: SetRequest,
    doing: Callable[[str], None] = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
) -> CheckedSet:
    """Plan the programs of a set, and check its plans. Raises `TmmuError`; nothing is written."""
    options = request.options
    if options.symbolic:
        fix = "plan it without --symbolic: offsets of shared tensors do not move with a shape"
        raise TmmuError("INVALID_BINDING", "a plan set has one offset for each tensor", fix=fix, binding="symbolic")
    known, plans = None, dict[str, Plan]()
    if request.extended is not None:
        known = sets.load(request.extended)
        plans = {name: file.load(sets.plan_path(request.extended, name)).plan for name in known.agreement.programs}
    doing("reading")
    tasks = _read(request)
    prepared = {name: _prepare(one, request.models[name]) for name, one in tasks.items()}
    doing("planning")
    files = {name: {} if kind.is_ir(path) else dict(initializer_digests(path)) for name, path in request.models.items()}
    wanted = replace(request.wanted, equal=tuple(_equal_weights(files, prepared)))
    made = plan_programs(
        prepared, wanted, options.layout, fallback=options.fallback, effort=options.effort, stopped=stopped,
        planned=plans, known=known,
    )  # fmt: skip
    doing("checking")
    data, members = {}, list[SetMember]()
    for name, plan in made.plans.items():
        if name not in tasks:
            data[name] = file.encode(plan)
            stated = file.require_steps(file.decode(data[name]))
            members.append(_member(name, Subject(stated, donated=frozenset(plan.bindings.donated))))
            continue
        one = tasks[name]
        if one.budget is not None:
            check_budget(plan, one.budget)
        try:
            check = PlanCheck(one.graph, is_ir=one.is_ir)
            data[name] = check(plan)
            members.append(_member(name, check.subject_of(plan, data[name])))
        except TmmuError as error:
            raise error.in_file(request.models[name]) from None
    agreement = made.plan_set.agreement
    added = tuple(one for one in agreement.shared if not tasks.keys().isdisjoint(one.uses))
    contents = compare_contents(members, replace(agreement, shared=added), request.models)
    for difference in contents.differing:
        raise share_error(difference.shared, difference.what, FIX)
    for violation in find_violations(members, agreement, made.plan_set):
        raise bug_error(violation.obligation, violation.text)
    return CheckedSet(made, data, tasks, "" if request.extended is None else contents.unknown)


def _member(name: str, subject: Subject) -> SetMember:
    """Return a plan as the verifier sees a program of a set. spec: PS3.7"""
    return SetMember(name, name, subject.plan, subject.run, subject.stated.hashes["file_digest"])


def _read(request: SetRequest) -> dict[str, PlanningTask]:
    """Read each model with the bindings that it has. Raises a binding's error if no model has it."""
    tasks, refused = dict[str, PlanningTask](), defaultdict[str, list[TmmuError]](list)
    for program, path in request.models.items():
        bindings = bindings_of_program(request.bindings, program, request.models)
        while program not in tasks:
            try:
                tasks[program] = task(path, bindings, request.training, request.options, request.arenas)
            except TmmuError as error:
                name = _absent(error, bindings)
                if name is None or f"{program}:{name}" in _names_of(request.bindings):
                    raise error.in_file(path) from None
                refused[name].append(error.in_file(path))
                bindings = _without(bindings, name)
    for errors in refused.values():
        if len(errors) == len(request.models):
            raise errors[-1]
    return tasks


def bindings_of_program(bindings: Bindings, program: str, programs: Mapping[str, object]) -> Bindings:
    """Return the bindings of one program: `PROGRAM:NAME` is of that program alone, and counts more than `NAME`.

    >>> given = Bindings({"batch": 1, "seq": 1, "prefill:seq": 128})
    >>> bindings_of_program(given, "prefill", {"prefill": 0, "decode": 0}).dims
    {'batch': 1, 'seq': 128}
    """

    def strip(name: str) -> str | None:
        """The name in this program, or None for one that is of another program."""
        head, colon, tail = name.partition(":")
        return name if not colon or head not in programs else tail if head == program else None

    def of(values: Mapping[str, Any]) -> dict[str, Any]:
        named = {key: (strip(key), value) for key, value in values.items()}
        common = {name: value for key, (name, value) in named.items() if name is not None and name == key}
        return common | {name: value for key, (name, value) in named.items() if name is not None and name != key}

    owned = {strip(key): key for key in (*bindings.dims, *bindings.ranges) if strip(key) not in (None, key)}
    steps = {name: step._replace(unit=strip(step.unit) or step.unit) for name, step in of(bindings.steps).items()}
    return replace(
        bindings,  # a size of the program's own counts more than a range for all, and a range more than a size
        dims={key: size for key, size in of(bindings.dims).items() if owned.get(key, key) in bindings.dims},
        ranges={key: ends for key, ends in of(bindings.ranges).items() if owned.get(key, key) in bindings.ranges},
        shapes=of(bindings.shapes), values=of(bindings.values), stated=of(bindings.stated), steps=steps,
        donated=tuple(dict.fromkeys(name for each in bindings.donated if (name := strip(each)) is not None)),
    )  # fmt: skip


def _absent(error: TmmuError, bindings: Bindings) -> str | None:
    """Return the name of a binding, or of a donated tensor, that a model does not have; None for another error."""
    if isinstance(error, NotOfModel):
        return error.binding
    name = error.diagnostics.get("binding") if error.code_id == "INVALID_BINDING" else None
    return name if isinstance(name, str) and name in bindings.donated else None


def _names_of(bindings: Bindings) -> set[str]:
    """Return the names that are bound, of a program alone as `PROGRAM:NAME`."""
    named = (bindings.dims, bindings.ranges, bindings.shapes, bindings.values, bindings.stated, bindings.donated)
    return {name for names in named for name in names}


def _without(bindings: Bindings, name: str) -> Bindings:
    if name in bindings.donated:
        return replace(bindings, donated=tuple(one for one in bindings.donated if one != name))
    return remove_binding(bindings, name)


def _prepare(one: PlanningTask, path: str) -> PreparedModel:
    try:
        return prepare_program(one.graph, one.arenas, one.options, one.policy)
    except TmmuError as error:
        raise error.in_file(path) from None


def _equal_weights(
    files: Mapping[str, Mapping[str, InitializerDigest]], prepared: Mapping[str, PreparedModel]
) -> list[tuple[TensorOfProgram, TensorOfProgram]]:
    """Return pairs of initializers of different programs that are equal and that no step changes. spec: PS3.3"""
    found: dict[tuple[InitializerDigest, int], TensorOfProgram] = {}
    pairs = []
    for program, digests in files.items():
        t = prepared[program].tensors
        changed = frozenset(prepared[program].steps.mutates.tolist())
        donated = frozenset(prepared[program].model.bindings.donated)
        rows = {name: row for row, name in enumerate(t.name.list())}
        seen = dict[InitializerDigest, int]()
        for name, digest in digests.items():
            row = rows.get(name)
            if row is None or row in changed or name in donated:
                continue
            seen[digest] = seen.get(digest, 0) + 1  # the k-th of equal ones is paired with the k-th
            end = TensorOfProgram(program, name)
            first = found.setdefault((digest, seen[digest]), end)
            if first.program != program:
                pairs.append((first, end))
    return pairs
