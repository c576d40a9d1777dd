"""Plan a model: liveness, aliasing, arenas, slots, layout, plan (001 PlanMemory_v2).

Planning is pure: the same model, arenas, mode, layout and token give the same plan on every machine. Nothing here reads
a clock, the environment or a file, and no float occurs.
spec: D1.1, D1.2, R2.1, A4.1, A4.2, A4.3, A4.4, A7.1, M1.2, M1.3, M2.13, M3.6
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tmmu.core import canonical
from tmmu.core.columns import NONE, U8, U32, Names, build_column, disable_collector, flatten_rows
from tmmu.core.vocabulary import ANYWHERE, MAIN, ArenaConfiguration, ArenaPolicy, Model, NodePart, Role
from tmmu.ir import arrivals
from tmmu.ir import columns as ir_columns
from tmmu.ir.program import ModelProgram, build_program
from tmmu.planner import aliasing, envelope, fixed, liveness
from tmmu.planner.aliasing import Aliasing, RefusedHint
from tmmu.planner.allocation import allocate
from tmmu.planner.arenas import DEFAULT, check_configuration
from tmmu.planner.arenas.assignment import Solution
from tmmu.planner.layouts import IN_PLACE
from tmmu.planner.mutations import check_mutations
from tmmu.planner.options import DEFAULT_OPTIONS, PlanOptions, check_options
from tmmu.planner.orders import REORDER
from tmmu.planner.orders.listed import arrange_as_listed
from tmmu.planner.problem import AllocationProblem
from tmmu.planner.slots import MoveObserver, SlotAssignment
from tmmu.planner.streams import program
from tmmu.planner.streams.assignment import assign_streams
from tmmu.planner.streams.program import StreamColumns
from tmmu.planner.streams.steps import StepOrder
from tmmu.planner.streams.storages import StoragePrecedence, order_storages
from tmmu.plans import columns as table
from tmmu.plans.allocation import Allocation, Arena, state_base_alignments
from tmmu.plans.columns import IS_INPUT, IS_OUTPUT, IS_RETURNED, IS_SAVED
from tmmu.plans.sections import ArenaUse, ClaimedConfiguration, Claims, Envelope, Plan, Provenance, Usage
from tmmu.plans.shapes import compute_peaks, live_at_each_step


@dataclass(frozen=True)
class Planned:
    """A plan, and the in-place hints that were refused, with reasons."""

    plan: Plan
    refused: list[RefusedHint]


def replay_token(seed: int = 0) -> bytes:
    """Return the 32-byte token of a seed: the commitment `replay_token_v1` of seven fields (`spec/tmmu.md`). spec: A4.1

    >>> len(replay_token(0)), replay_token(0) == replay_token(1)
    (32, False)
    """
    nothing = canonical.digest({})
    return canonical.commitment("replay_token_v1", ["1.0", nothing, nothing, nothing, nothing, nothing, seed])


@dataclass(frozen=True)
class PreparedModel:
    """A model up to its allocation problem, with all parts of its plan that do not depend on the placement.

    `refused` are the in-place hints that were refused. `fixed_at` are the offsets that were requested.
    """

    model: Model
    arenas: tuple[ArenaConfiguration, ...]
    policy: ArenaPolicy
    options: PlanOptions
    ir_hash: bytes
    problem: AllocationProblem
    refused: list[RefusedHint]
    ops: tuple[tuple[str, str], ...]
    dtypes: tuple[str, ...]
    tensors: table.Tensors
    steps: table.Steps
    bodies: table.Bodies
    must_not_alias: tuple[tuple[int, int], ...]
    streams: tuple[str, ...]
    step_order: StepOrder | None
    sizes: Envelope | None
    fixed_at: dict[str, int]


def plan_memory(
    model: Model,
    arenas: tuple[ArenaConfiguration, ...] = DEFAULT,
    options: PlanOptions = DEFAULT_OPTIONS,
    *,
    policy: ArenaPolicy = ANYWHERE,
    observer: MoveObserver | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Planned:
    """Plan the memory of a valid model whose nodes are in execution order.

    Parameters
    ----------
    model
        A model that `tmmu.ir.validate` accepts.
    arenas
        The role, capacity and alignment of each arena.
    options
        The mode, the layout, the order and the tokens.
    policy
        The devices with their memories, and the arenas that a tensor may use if its role does not determine it.
    observer
        Called with each move that assigns slots and pools of the plan; it does not affect the plan.
    stopped
        Called repeatedly while effort is spent; once it returns True, the best placement found so far is used.

    Raises
    ------
    TmmuError
        INVALID_ARENA_CONFIG, ARENA_TOO_SMALL, ALLOCATION_OVERFLOW, ADDRESS_COLLISION, MODE_VIOLATION, INVALID_BINDING
        or INVALID_IR.

    Notes
    -----
    O(N log N) time and O(N) memory for N tensors, nodes and accesses.
    """
    with disable_collector():
        prepared = prepare_model(model, arenas, options, policy)
        layout, found = allocate(
            prepared.problem,
            options.layout,
            options.fallback,
            recorded=observer is not None,
            effort=options.effort,
            stopped=stopped,
        )
        if observer is not None:
            for event, facts in found.moves:
                observer(event, **facts)
        return Planned(assemble_plan(prepared, layout, found), prepared.refused)


def prepare_model(
    model: Model,
    arenas: tuple[ArenaConfiguration, ...],
    options: PlanOptions,
    policy: ArenaPolicy,
    shared: Collection[str] = (),
    rules: aliasing.InPlaceRules = aliasing.ANY_IN_PLACE,
) -> PreparedModel:
    """Work out what a model requires of its placement: lifetimes, and which tensors share bytes. As `plan_memory`.

    The requested offsets of the tensors in `shared` are noted, and constrain nothing yet: a plan set decides on their
    places, and has `rules` of its own about in-place results.
    """
    check_options(options, model)
    mode = options.mode
    check_configuration(arenas, policy)
    in_place = IN_PLACE[options.layout]
    written = ir_columns.to_object(model)
    ir_hash = canonical.digest(written)
    if options.listed:
        ordered = arrange_as_listed(model, options.listed)
    else:
        ordered = REORDER[options.order](model, arenas, mode, in_place, policy)
    if options.streams is not None:
        ordered = assign_streams(ordered, options.streams)
    ordered = arrivals.delay_seeds(ordered) if options.late_seeds else arrivals.settle_arrivals(ordered)
    if ordered is not model:
        written = ir_columns.to_object(ordered)
    stated_streams = written.get("streams")
    written = _needed_columns(written)
    run = build_program(ordered)
    check_mutations(run, mode)
    streams = program.state_streams(run, stated_streams)
    order_of_steps = None if streams is None else streams.order()
    if order_of_steps is not None:
        program.check_model_races(run, order_of_steps)
    live = liveness.analyze(run, mode)
    requested = fixed.fixed_offsets(run.tensors, options.fixed, partly=options.is_stage)
    staying = {t: place for t, place in requested.items() if run.tensors[t].name not in shared}
    rules = rules._replace(allowed=in_place)
    alias = aliasing.form_storages(run, live, arenas, mode, rules, policy, staying, order_of_steps)
    problem = replace(alias.storages, address_token=options.address_token)
    if order_of_steps is not None:
        problem = replace(problem, order=_order_storages(run, alias, problem, order_of_steps))
    dtypes, tensors = _tensors(run, live, alias, written, mode)
    return PreparedModel(
        model, arenas, policy, options, ir_hash, problem, alias.refused,
        _ops(written), dtypes, tensors, _steps(run, written["nodes"], streams), _bodies(run), ordered.must_not_alias,
        () if streams is None else streams.names, order_of_steps,
        envelope.build_envelope(
            run.tensors, ordered.bindings.ranges, options.replan_policy, symbolic=options.symbolic
        ),
        {run.tensors[t].name: place.byte for t, place in sorted(requested.items())},
    )  # fmt: skip


def assemble_plan(prepared: PreparedModel, layout: str, found: Solution) -> Plan:
    """Return the plan of a prepared model whose problem has this solution. `layout` is the layout that was used."""
    problem, options, model = prepared.problem, prepared.options, prepared.model
    storages = _storages(problem, found)
    placed = tuple(
        Arena(a.name, a.capacity, a.alignment, a.reuse, layout == "hashed" and a.reuse) for a in problem.arenas
    )
    allocation = Allocation(
        placed, storages, prepared.must_not_alias, prepared.ops, prepared.dtypes, prepared.tensors, prepared.steps,
        prepared.bodies, model.unproduced, prepared.streams,
    )  # fmt: skip
    usage = _usage(problem, allocation, found, prepared.step_order)
    uses = tuple(map(ArenaUse.of, prepared.arenas))
    return Plan(
        state_base_alignments(allocation),
        Claims(usage, build_slot_table(found.slots), ClaimedConfiguration(uses, prepared.policy)),
        Provenance(
            model.name, options.mode, layout, options.order, options.replay_token or replay_token(), prepared.ir_hash,
            model.source_digest, replace(model.bindings, ranges={}),
            address_token_digest=options.address_token and hashlib.sha256(options.address_token).digest(),
            effort=found.effort, bounds=found.bounds, fixed=prepared.fixed_at,
        ),
        envelope=prepared.sizes,
    )  # fmt: skip


def build_slot_table(assigned: SlotAssignment) -> table.Slots:
    """Return logical slots as columns."""
    u32, u64 = np.uint32, np.uint64
    return table.Slots(
        build_column(assigned.arena, u32), build_column(assigned.bytes, u64), build_column(assigned.alignment, u64),
        build_column(assigned.slot, u32),
    )  # fmt: skip


def _needed_columns(written: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of the model that its plan needs, so that the others can be freed."""
    tensors, nodes = ("name", "dtype", "role", "alignment", "saved"), ("name", "op", "body", *table.Steps.BOUNDED)
    of = {"tensors": tensors, "nodes": nodes}
    found = {part: {name: written[part][name] for name in names} for part, names in of.items()}
    return found | {name: written[name] for name in ("dtypes", "ops")}


def _usage(
    problem: AllocationProblem, allocation: Allocation, found: Solution, order: StepOrder | None
) -> tuple[Usage, ...]:
    """Compute the usage of each arena: footprint, peak live bytes and max live, with the first step of each.

    With streams the slots are minimal if an antichain has as many storages. spec: X5.10
    """
    result = []
    storages, steps = allocation.storages, max(1, len(allocation.steps))
    for a, (peak, at_peak) in enumerate(compute_peaks(storages, len(problem.arenas), steps)):
        here = storages.arena == a
        count = live_at_each_step(storages.birth[here], storages.death[here] + 1, np.int64(1), steps)
        joined = any(
            found.arena[k] == a
            and any(
                found.arena[o] == a and problem.death[k] < problem.birth[o]
                for o in others  # the reverse case is found when `o` is `k`
            )
            for k, others in problem.conflicts.items()
        )
        most, opened = int(count.max()), found.slots.arena.count(a)
        minimal = opened == most and not joined
        antichain = None
        if order is not None:
            shown = sorted(found.slots.antichains[a])
            may_be = opened == len(shown) > 0 and not joined
            minimal = may_be and program.is_antichain_of_plan(allocation, shown, order)
            antichain = tuple(shown) if minimal else None
        fullest = int(count.argmax())  # the first step that has the most
        result.append(Usage(found.footprint[a], peak, at_peak, opened, most, fullest, minimal, antichain))
    return tuple(result)


def _tensors(
    run: ModelProgram, live: liveness.Liveness, alias: Aliasing, written: dict[str, Any], mode: str
) -> tuple[tuple[str, ...], table.Tensors]:
    """Return the element types, and the tensors as columns: the model's as written, then scratch and copies."""
    t, made, u8, u32, u64 = written["tensors"], run.tensors[len(run.model.tensors) :], np.uint8, np.uint32, np.uint64
    types = tuple(dict.fromkeys([*written["dtypes"], *(x.dtype for x in made)]))

    def extend(name: str, more: list[int]) -> NDArray[Any]:
        given: NDArray[Any] = t[name]
        return (
            build_column(np.concatenate([given, build_column(more, given.dtype.type)]), given.dtype.type)
            if made
            else given
        )

    names = Names(t["name"], len(run.model.tensors))
    roles = extend("role", [table.ROLES.index(x.role) for x in made])
    word = {s: i for i, s in enumerate(table.SHARES)}
    return types, table.Tensors(
        name=Names.of([*names, *(x.name for x in made)]) if made else names,
        dtype=extend("dtype", [types.index(x.dtype) for x in made]),
        role=roles,
        flags=_flags(run, roles, extend("saved", [x.saved_for_backward for x in made]), mode),
        bytes=build_column([x.bytes for x in run.tensors], u64),
        alignment=extend("alignment", [x.alignment for x in made]),
        birth=build_column(live.birth, u32),
        death=build_column(live.death, u32),
        storage=build_column(alias.storage, u32),
        window=build_column(alias.window, u64),
        writer=_or_none(live.writer, liveness.NO_STEP),
        shares=build_column([word[s] for s in alias.shares], u8),
        of=_or_none(alias.of, aliasing.NO_TENSOR),
    )


def _ops(written: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the operators in the model's order."""
    return tuple((domain, op) for domain, op in written["ops"])


def _order_storages(
    run: ModelProgram, alias: Aliasing, problem: AllocationProblem, order: StepOrder
) -> StoragePrecedence:
    """Return the order of the storages under an order of steps. O((accesses + storages) x streams)."""
    accesses = program.accesses_of_steps(run.steps.reads, run.steps.writes)
    storage = np.asarray(alias.storage)[accesses.tensor]
    return order_storages(order, (storage, accesses.step), np.asarray(problem.birth), np.asarray(problem.death))


def _steps(run: ModelProgram, nodes: dict[str, Any], streams: StreamColumns | None) -> table.Steps:
    """Return the steps as columns. Without bodies and scratch they are the nodes as written. spec: O1.7"""
    steps, names = run.steps, Names(nodes["name"], len(run.model.nodes))
    if run.is_plain:
        whole = build_column(np.full(len(steps), table.PARTS.index(NodePart.WHOLE)), np.uint8)
        bounded = map(nodes.__getitem__, table.Steps.BOUNDED)
        return table.Steps(names, nodes["op"], whole, nodes["body"], *bounded, *program.stream_columns(streams))
    part = {p: i for i, p in enumerate(table.PARTS)}
    return table.Steps(
        Names.of([names[n] for n in steps.node]),
        build_column(nodes["op"][build_column(steps.node, np.uint32)], np.uint32),
        build_column([part[p] for p in steps.part], np.uint8),
        build_column(steps.body, np.uint32),
        *(found for name in table.Steps.LISTS for found in flatten_rows(getattr(steps, name))),
        *program.stream_columns(streams),
    )


def _bodies(run: ModelProgram) -> table.Bodies:
    """Return the bodies as columns."""
    model, u8, u32 = run.model, np.uint8, np.uint32
    return table.Bodies(
        name=Names.of(list(run.body_names)),
        parent=build_column([NONE if b == MAIN else p for b, p in enumerate(run.parents)], u32),
        enter=build_column([NONE if r.enter < 0 else r.enter for r in run.ranges], u32),
        leave=build_column([NONE if r.leave < 0 else r.leave for r in run.ranges], u32),
        iterates=build_column([body.iterates for body in model.bodies], u8),
        exclusive=build_column([0] * len(model.bodies), u8),  # this planner lays out branches one after the other
    )


def _storages(problem: AllocationProblem, found: Solution) -> table.Storages:
    """Return the place of each storage, as columns. spec: P2.3"""
    u32, u64 = np.uint32, np.uint64
    return table.Storages(
        arena=build_column(found.arena, u32),
        bytes=build_column(problem.bytes, u64),
        alignment=build_column(problem.alignment, u64),
        birth=build_column(problem.birth, u32),
        death=build_column(problem.death, u32),
        offset=build_column(found.offset, u64),
    )


def _flags(run: ModelProgram, roles: U8, saved: U8, mode: str) -> U8:
    """Compute the flags of each tensor: the caller's writes and reads, and tensors kept for a backward half."""
    model, tensors = run.model, run.tensors
    is_input, is_output = np.zeros(len(tensors), np.bool_), np.zeros(len(tensors), np.bool_)
    is_input[list(model.inputs)], is_output[list(model.outputs)] = True, True
    is_saved = saved.astype(np.bool_)
    kept = np.isin(roles, [table.ROLES.index(role) for role in (Role.PARAMETER, Role.OPTIMIZER)])
    if donated := frozenset(model.bindings.donated):
        kept &= [x.name not in donated for x in tensors]
    if mode == "forward":
        kept |= is_saved
    kept[model.kept_inputs] = True
    named = (is_input, IS_INPUT), (is_output, IS_OUTPUT), (is_saved, IS_SAVED), (is_output | kept, IS_RETURNED)
    flags = np.zeros(len(tensors), np.uint8)
    for mask, flag in named:
        flags[mask] |= flag
    return build_column(flags, np.uint8)


def _or_none(values: Sequence[int], absent: int) -> U32:
    """Return a column of indices, with `NONE` for `absent`."""
    found = np.asarray(values, np.int64)
    return build_column(np.where(found == absent, NONE, found), np.uint32)
