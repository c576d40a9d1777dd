"""A program of a set: its allocation problem, its tensors, and the entry and exit that each shared tensor has in it.

A program is a model that is prepared, or a plan that has its addresses (of a set that is extended). What is asked of
either is in the same tables. spec: PS1.1, PS1.2, PS1.6, PS3.6, PS3.10
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from tmmu.core.columns import NONE
from tmmu.core.vocabulary import ArenaConfiguration, ArenaPolicy, Model, Role, Shares
from tmmu.planner.aliasing import InPlaceRules
from tmmu.planner.options import PlanOptions
from tmmu.planner.plan import PreparedModel, prepare_model
from tmmu.planner.problem import AllocationProblem, Fixed, problem_of_plan
from tmmu.planner.sets.shares import TensorOfProgram, share_error
from tmmu.plans import columns as table
from tmmu.plans.columns import IS_OUTPUT, IS_RETURNED, ROLES, SHARES
from tmmu.plans.sections import Plan, arena_configurations
from tmmu.plans.sets import SharedUse

KEPT = (Role.PARAMETER, Role.OPTIMIZER)
PERSISTENT = tuple(ROLES.index(role) for role in KEPT)
CALLERS = (*PERSISTENT, ROLES.index(Role.INPUT))
IN_PLACE, VIEW = SHARES.index(Shares.IN_PLACE), SHARES.index(Shares.VIEW)


@dataclass(frozen=True)
class SetProgram:
    """A program of a set. `prepared` is None for one that has a plan, whose tensors may not move."""

    name: str
    problem: AllocationProblem
    arenas: tuple[ArenaConfiguration, ...]
    tensors: table.Tensors
    dtypes: tuple[str, ...]
    mutated: frozenset[int]
    steps: int
    fixed_at: Mapping[str, int]
    prepared: PreparedModel | None = None
    plan: Plan | None = None
    uses: Mapping[str, SharedUse] = field(default_factory=dict)
    """The entry and exit of each shared tensor that it has."""

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each tensor."""
        return {name: row for row, name in enumerate(self.tensors.name.list())}

    def is_callers(self, row: int) -> bool:
        """Whether the caller writes a tensor."""
        return int(self.tensors.writer[row]) == NONE and int(self.tensors.role[row]) in CALLERS

    def is_persistent(self, row: int) -> bool:
        """Whether a tensor is a parameter or optimizer state."""
        return int(self.tensors.role[row]) in PERSISTENT

    @property
    def candidates(self) -> list[str]:
        """The tensors that may be shared: those that the caller writes, or reads after the last step."""
        t = self.tensors
        of_caller = (t.writer == NONE) & np.isin(t.role, CALLERS)
        names = t.name.list()
        return [names[row] for row in np.flatnonzero(of_caller | (t.flags & (IS_OUTPUT | IS_RETURNED) != 0)).tolist()]

    def own_state(self) -> set[int]:
        """Return the storages of parameters and optimizer state that the program keeps."""
        t = self.tensors
        is_kept = np.isin(t.role, PERSISTENT) & (t.writer == NONE) & (t.flags & IS_RETURNED != 0)
        return set(t.storage[is_kept].tolist())


def of_model(prepared: PreparedModel, name: str) -> SetProgram:
    """Return the program of a prepared model, in which no requested offset decides on in-place results yet."""
    return SetProgram(
        name, prepared.problem, prepared.arenas, prepared.tensors, prepared.dtypes,
        frozenset(prepared.steps.mutates.tolist()), max(1, len(prepared.steps)), prepared.fixed_at, prepared,
    )  # fmt: skip


def prepare_program(
    model: Model, arenas: tuple[ArenaConfiguration, ...], options: PlanOptions, policy: ArenaPolicy
) -> PreparedModel:
    """Return a prepared model for a set, in which every tensor may still be shared. As `prepare_model`.

    A result takes the bytes of a donated operand rather than those of another one, because state is changed like this.
    Parameters and optimizer state that a step mutates are state of the set, though they are donated to that step.
    spec: PS3.10, PS3.11
    """
    mutated = {t for node in model.nodes for t in node.mutates if model.tensors[t].role in KEPT}
    model = replace(model, kept=model.kept | mutated)
    every, rules = {tensor.name for tensor in model.tensors}, InPlaceRules(first=model.bindings.donated)
    return prepare_model(model, arenas, options, policy, every, rules)


def of_plan(plan: Plan, name: str) -> SetProgram:
    """Return the program of a plan, with every storage fixed where it is. Raises INVALID_PLAN without provenance."""
    problem, names = problem_of_plan(plan), plan.placement.storage_names()
    fixed = {k: Fixed(at, names[k]) for k, at in enumerate(plan.allocation.storages.offset.tolist())}
    return SetProgram(
        name, replace(problem, fixed=fixed), arena_configurations(plan), plan.allocation.tensors,
        plan.allocation.dtypes, frozenset(plan.allocation.steps.mutates.tolist()),
        max(1, len(plan.allocation.steps)), plan.origin.fixed, plan=plan,
    )  # fmt: skip


def find_exits(
    programs: Sequence[SetProgram], groups: Mapping[str, Sequence[TensorOfProgram]]
) -> list[tuple[TensorOfProgram, TensorOfProgram]]:  # fmt: skip
    """Return the entries whose exits are in another group, each with its exit."""
    group_of = {end: name for name, ends in groups.items() for end in ends}
    pairs = []
    for program in programs:
        for end in [end for end in group_of if end.program == program.name]:
            row = program.rows[end.tensor]
            exit_ = _find_exit(program, row) if program.is_callers(row) else None
            other = TensorOfProgram(program.name, exit_) if exit_ is not None else end
            if group_of.get(other, group_of[end]) != group_of[end]:
                pairs.append((end, other))
    return pairs


def with_uses(program: SetProgram, groups: Mapping[str, Sequence[TensorOfProgram]]) -> SetProgram:
    """Return the program with the entry and exit of each shared tensor, and prepared such that it keeps them.

    Raises INVALID_BINDING for two entries or two exits, and for a planned program that does not keep an entry.
    """
    uses = {
        name: _use_of(program, name, [end.tensor for end in ends if end.program == program.name])
        for name, ends in groups.items()
        if any(end.program == program.name for end in ends)
    }
    if program.prepared is None:
        return replace(program, uses=uses)
    model, rows = program.prepared.model, program.rows
    kept = {use.entry for use in uses.values() if use.entry is not None and use.exit in (None, use.entry)}
    unchanged = {use.entry for use in uses.values() if use.entry is not None and use.exit is None}
    given = _with_kept(model, {rows[name] for name in kept}, unchanged)
    apart = {use.exit for use in uses.values() if use.exit is not None and _is_written_too_early(program, use)}
    if given is model and not program.fixed_at and not apart:
        return replace(program, uses=uses)
    shared = {name for use in uses.values() for name in use.names}
    prepared = prepare_model(
        given, program.prepared.arenas, program.prepared.options, program.prepared.policy, shared,
        InPlaceRules(True, model.bindings.donated, apart),
    )  # fmt: skip
    return replace(of_model(prepared, program.name), uses=uses)


def _is_written_too_early(program: SetProgram, use: SharedUse) -> bool:
    """Return whether the exit takes the bytes of another tensor than the entry, written while the entry is in use."""
    if use.entry is None or use.exit is None:
        return False
    t, lives, row = program.tensors, program.problem, program.rows[use.exit]
    old, new = int(t.storage[program.rows[use.entry]]), int(t.storage[row])
    return old != new and int(t.shares[row]) == IN_PLACE and lives.death[old] >= lives.birth[new]


def _with_kept(model: Model, rows: Iterable[int], unchanged: Collection[str]) -> Model:
    """Return the model that keeps these tensors to the end, and does not donate those that no step may overwrite."""
    donated = tuple(name for name in model.bindings.donated if name not in unchanged)
    if model.kept.issuperset(rows) and donated == model.bindings.donated:
        return model
    return replace(model, kept=model.kept.union(rows), bindings=replace(model.bindings, donated=donated))


def _use_of(program: SetProgram, shared: str, names: Sequence[str]) -> SharedUse:
    """Return the entry and the exit among the tensors of one program. spec: PS1.1, PS1.2"""
    t, rows = program.tensors, program.rows
    entries = [name for name in names if program.is_callers(rows[name])]
    exits = [name for name in names if name not in entries]
    for what, found in (("entries", entries), ("exits", exits)):
        if len(found) > 1:
            text = f"{program.name} would have two {what} of it: {found[0]!r} and {found[1]!r}"
            raise share_error(shared, text, "pair one tensor that the caller writes and one that it reads")
    for name in exits:
        if not int(t.flags[rows[name]]) & (IS_OUTPUT | IS_RETURNED):
            raise share_error(shared, f"{name!r} of {program.name} is not an output", "make it an output of the model")
    entry, exit_ = next(iter(entries), None), next(iter(exits), None)
    if entry is not None and exit_ is None:
        exit_ = _find_exit(program, rows[entry])
    return SharedUse(entry, exit_)


def _find_exit(program: SetProgram, entry: int) -> str | None:
    """Return the output that has the bytes of an entry by in-place results, or the entry if it is mutated, or None."""
    if entry in program.mutated:
        return str(program.tensors.name[entry])
    t = program.tensors
    for row in np.flatnonzero((t.flags & IS_OUTPUT != 0) & (t.writer != NONE)).tolist():
        at, changed = row, False
        for _ in range(len(t)):
            if int(t.of[at]) == NONE or int(t.shares[at]) not in (IN_PLACE, VIEW):
                break
            changed |= int(t.shares[at]) == IN_PLACE
            at = int(t.of[at])
        same = (int(t.window[row]), int(t.bytes[row])) == (int(t.window[entry]), int(t.bytes[entry]))
        if at == entry and changed and same:
            return str(t.name[row])
    return None
