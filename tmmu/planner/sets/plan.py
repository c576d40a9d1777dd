"""Plan a set: the shared tensors, the joint placement, and the plan of each program. spec: PS3.1 to PS3.6, PS3.8, PS3.9

Pure, like `plan_memory`: the same models, requests and options give the same plans.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tmmu.core.columns import disable_collector
from tmmu.core.dims.expressions import format_dim
from tmmu.core.dims.maxima import minimum
from tmmu.core.errors import TmmuError
from tmmu.planner.aliasing import RefusedHint
from tmmu.planner.allocation import allocate
from tmmu.planner.arenas.assignment import Solution
from tmmu.planner.patterns import match_pattern
from tmmu.planner.plan import PreparedModel, assemble_plan
from tmmu.planner.sets.joint import join_programs
from tmmu.planner.sets.programs import SetProgram, find_exits, of_model, of_plan, with_uses
from tmmu.planner.sets.shares import Groups, TensorOfProgram, group_shared, set_error, share_error
from tmmu.plans import file
from tmmu.plans.sections import Plan
from tmmu.plans.sets import LAYOUTS, Agreement, PlanSet, SharedTensor, arenas_of

Pairs = Sequence[tuple[TensorOfProgram, TensorOfProgram]]


@dataclass(frozen=True)
class SetOptions:
    """The requests of a user: the tensors to share, and those that the caller writes before the first call.

    `equal` are pairs of tensors that are shared because they have equal content.
    """

    share: tuple[str, ...] = ()
    initial: tuple[str, ...] = ()
    equal: Pairs = ()


@dataclass(frozen=True)
class PlannedSet:
    """A set with the plan of each program, the refused hints of each new one, and a lower bound for each arena."""

    plan_set: PlanSet
    plans: dict[str, Plan]
    refused: dict[str, list[RefusedHint]]
    peaks: dict[str, int]


def plan_programs(
    models: Mapping[str, PreparedModel],
    wanted: SetOptions,
    layout: str,
    *,
    fallback: str | None = None,
    effort: int | None = None,
    stopped: Callable[[], bool] = lambda: False,
    planned: Mapping[str, Plan] | None = None,
    known: PlanSet | None = None,
) -> PlannedSet:
    """Plan models that are prepared, by the names of their programs, for one memory.

    `planned` are the plans of `known`, a set that is extended: no tensor of them moves. Raises INVALID_BINDING for
    tensors that cannot be shared, and the errors of `plan_memory`. O(N log N) for all programs together.
    """
    if layout not in LAYOUTS:
        raise set_error(f"a set has no layout {layout}", f"plan it as {' or '.join(LAYOUTS)}")
    with disable_collector():
        programs = [of_plan(plan, name) for name, plan in (planned or {}).items()]
        programs += [of_model(prepared, name) for name, prepared in models.items()]
        _check_names(programs)
        _check_streams(programs)
        candidates = {program.name: program.candidates for program in programs}
        pairs, names = [*wanted.equal, *_known_pairs(known)], _known_names(known)
        entries = {
            TensorOfProgram(p.name, name) for p in programs for name in p.candidates if p.is_callers(p.rows[name])
        }
        groups = group_shared(wanted.share, candidates, pairs, names, entries)
        if more := find_exits(programs, groups):  # an exit that is shared by its own name is that of its entry
            groups = group_shared(wanted.share, candidates, [*pairs, *more], names, entries)
        programs = [with_uses(program, groups) for program in programs]
        joint = join_programs(programs)
        if planned:
            layout = "packed"  # in slots, further storages would move the others
        used, found = allocate(joint.problem, layout, fallback, effort=effort, stopped=stopped)
        plans = _plans(programs, joint.parts(programs, found))
        _check_sizes(programs, plans)
        initial = _initial(programs, groups, wanted.initial, known)
        shared = tuple(_shared_tensor(name, programs, plans, name in initial) for name in groups)
        agreement = Agreement(tuple(plans), arenas_of(plans), shared)
        made = PlanSet(agreement, used)
        plans = {name: replace(plan, membership=made.membership(name)) for name, plan in plans.items()}
        members = {name: file.compute_hashes(plan)["file_digest"] for name, plan in plans.items()}
        peaks = dict(zip((arena.name for arena in joint.problem.arenas), joint.peaks(found), strict=True))
        refused = {p.name: p.prepared.refused for p in programs if p.prepared is not None}
        return PlannedSet(replace(made, members=members), plans, refused, peaks)


def _check_names(programs: Sequence[SetProgram]) -> None:
    seen = set[str]()
    for program in programs:
        if program.name in seen:
            raise set_error(
                f"two programs are named {program.name!r}", "give one another name with --program NAME=MODEL"
            )
        seen.add(program.name)


def _check_streams(programs: Sequence[SetProgram]) -> None:
    """Raise INVALID_BINDING for steps that overlap: the joint problem has all steps on one line. spec: PS3.9"""
    for program in programs:
        if program.problem.order is not None:
            fix = "plan its steps one after another, or plan it alone and let verify-plan --shared judge the plans"
            raise set_error(f"the steps of {program.name} run on streams", fix)


def _known_names(known: PlanSet | None) -> dict[TensorOfProgram, str]:
    """Return the name of the shared tensor of each tensor of a set."""
    return {
        TensorOfProgram(program, name): one.name
        for one in (() if known is None else known.agreement.shared)
        for program, use in one.uses.items()
        for name in use.names
    }


def _known_pairs(known: PlanSet | None) -> list[tuple[TensorOfProgram, TensorOfProgram]]:
    """Return the pairs that a set has already."""
    pairs = []
    for one in () if known is None else known.agreement.shared:
        ends = [TensorOfProgram(program, name) for program, use in one.uses.items() for name in use.names]
        pairs += [(ends[0], end) for end in ends]
    return pairs


def _plans(programs: Sequence[SetProgram], parts: Sequence[Solution]) -> dict[str, Plan]:
    """Return the plan of each program; the plan of a set that is extended stays as it is.

    The offsets of a program do not follow from its own slots, so that its layout is `packed`. spec: PS3.4
    """
    found = {}
    for program, part in zip(programs, parts, strict=True):
        if program.plan is not None:
            found[program.name] = program.plan
        elif program.prepared is not None:
            found[program.name] = assemble_plan(program.prepared, "packed", part)
    return found


def _check_sizes(programs: Sequence[SetProgram], plans: Mapping[str, Plan]) -> None:
    """Raise INVALID_BINDING for a shared tensor that is smaller at another shape than planned. spec: PS1.11, PS3.2"""
    for program in programs:
        plan = plans[program.name]
        sizes = plan.sizes() if plan.envelope is not None else []
        for which, tensor in [(which, name) for which, use in program.uses.items() for name in use.names if sizes]:
            size = sizes[program.rows[tensor]]
            least = minimum(size)
            if least is None or least.value != int(plan.allocation.tensors.bytes[program.rows[tensor]]):
                at = "" if least is None else " at " + ", ".join(f"{name}={n}" for name, n in least.point.items())
                what = f"{program.name}:{tensor} has {format_dim(size)} bytes" + (
                    f", {least.value}{at}" if least else ""
                )
                dims = ", ".join(f"{name}={high}" for name, (_, high) in plan.ranges.items())
                raise share_error(which, what, f"give it one size at every shape, such as with {dims}")


def _initial(
    programs: Sequence[SetProgram], groups: Groups, patterns: Sequence[str], known: PlanSet | None
) -> Collection[str]:
    """Return the shared tensors that the caller writes before the first call. spec: PS3.8"""
    found = {one.name for one in known.agreement.shared if one.is_initial} if known is not None else set[str]()
    for pattern in patterns:
        names = {name for name in groups if name == pattern or ("*" in pattern and match_pattern(pattern, name))}
        if not names:
            raise TmmuError(
                "INVALID_BINDING", f"--initial {pattern}: no shared tensor has this name",
                fix=f"the shared tensors are {', '.join(sorted(groups)) or 'none'}", binding=pattern,
            )  # fmt: skip
        found |= names
    for name in groups:
        uses = [(program, program.uses[name]) for program in programs if name in program.uses]
        persists = any(
            use.entry is not None and program.is_persistent(program.rows[use.entry]) for program, use in uses
        )
        if persists or all(use.entry is not None for _, use in uses):
            found.add(name)
    return found


def _shared_tensor(
    name: str, programs: Sequence[SetProgram], plans: Mapping[str, Plan], is_initial: bool
) -> SharedTensor:
    """Return a shared tensor as its first program has it."""
    uses = {program.name: program.uses[name] for program in programs if name in program.uses}
    first = next(program for program in programs if program.name in uses)
    allocation = plans[first.name].allocation
    row = first.rows[uses[first.name].names[0]]
    t, k = allocation.tensors, int(allocation.tensors.storage[row])
    return SharedTensor(
        name, allocation.arenas[int(allocation.storages.arena[k])].name,
        int(allocation.storages.offset[k]) + int(t.window[row]), int(t.bytes[row]), int(t.alignment[row]),
        allocation.dtypes[int(t.dtype[row])], is_initial, uses,
    )  # fmt: skip
