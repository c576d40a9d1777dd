"""From a model to its plan: liveness, storages, slots, addresses, columns (001 PlanMemory_v2).

Planning is pure: the same model, arenas, mode, layout and token give the same plan on every machine. Nothing here
reads a clock, the environment or a file, and no float occurs.
spec: D1.1, D1.2, R2.1, A4.1, A4.2, A4.3, A4.4, A7.1, M1.2, M1.3, M2.13, M3.6
"""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from tmmu.core import canonical
from tmmu.core.columns import NONE, Names, column, index_of, ragged
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ANYWHERE, MAIN, Arena, ArenaPolicy, Model, Phase, Usage
from tmmu.ir import columns as ir_columns
from tmmu.ir.program import Program, program, shown
from tmmu.ir.validate import CALLERS
from tmmu.plan import columns as table
from tmmu.plan.columns import IS_INPUT, IS_OUTPUT, IS_SAVED, Plan
from tmmu.planner import envelope, liveness, slots, storages
from tmmu.planner.arenas import DEFAULT, check
from tmmu.planner.orders import ORDERS
from tmmu.planner.placing import LAYOUTS, Storing, fitted, too_small
from tmmu.planner.storages import Refused, Sharing

MODES = ("inference", "forward", "backward")


@dataclass(frozen=True)
class Planned:
    """A plan, and the in-place hints that were refused, with reasons."""

    plan: Plan
    refused: list[Refused]


def replay_token(seed: int = 0) -> bytes:
    """The 32-byte token of a seed: the commitment `replay_token_v1` over the seven fields of `spec/tmmu.md`. spec: A4.1

    >>> len(replay_token(0)), replay_token(0) == replay_token(1)
    (32, False)
    """
    nothing = canonical.digest({})
    return canonical.commitment("replay_token_v1", ["1.0", nothing, nothing, nothing, nothing, nothing, seed])


def plan_memory(
    model: Model,
    arenas: tuple[Arena, ...] = DEFAULT,
    *,
    mode: str = "inference",
    layout: str = "slots",
    order: str = "given",
    token: bytes | None = None,
    address_token: bytes | None = None,
    fallback: str | None = None,
    is_stage: bool = False,
    policy: ArenaPolicy = ANYWHERE,
    replan_policy: str = "ABORT",
    tell: slots.Tell | None = None,
) -> Planned:
    """Plan the memory of a valid model whose nodes stand in execution order.

    Parameters
    ----------
    model
        A model that `tmmu.ir.validate` accepts.
    arenas
        Which arena holds which role, how large each may be, and how it is aligned.
    mode
        "inference" retains nothing; "forward" keeps what is saved for backward to the end; "backward" runs both
        halves of a joint graph. `tmmu.planner.training.modes.prepare` makes a joint graph, and marks what is saved.
    layout
        A key of `LAYOUTS`.
    order
        A key of `ORDERS`: the execution order that is planned.
    token
        The 32-byte replay token; by default that of seed 0. It moves no slot and no offset.
    address_token
        What the layout `hashed` derives addresses from, 64 bytes or more; no other layout takes one.
    fallback
        "packed": use it where the layout is `slots`, an arena is too small for its slots, and packed fits.
    is_stage
        Whether the model is a part of a joint graph (a pipeline stage, or its forward half): it may then have no
        backward nodes of its own, and nothing that they read.
    policy
        The devices with their memories, and which arenas a tensor may use where its role does not say it.
    replan_policy
        What a run does with a shape outside the envelope, if the model has one: a word of `POLICIES`.
    tell
        Hears of each move by which the slots of the plan were given out; it changes nothing.

    Raises
    ------
    TmmuError
        INVALID_ARENA_CONFIG, ARENA_TOO_SMALL, ALLOCATION_OVERFLOW, ADDRESS_COLLISION, MODE_VIOLATION, INVALID_BINDING
        or INVALID_IR.

    Notes
    -----
    O(N log N) time and O(N) memory for N tensors, nodes and accesses.
    """
    if mode not in MODES:
        raise TmmuError(
            "MODE_VIOLATION", f"mode {mode!r} is not known", fix=f"use one of {', '.join(MODES)}", mode=mode
        )
    if mode == "backward" and not is_stage and model.nodes and all(node.phase is Phase.FORWARD for node in model.nodes):
        raise TmmuError(
            "MODE_VIOLATION",
            "mode 'backward' of a model that has only forward nodes",
            place=f"model {model.name!r}",
            fix="expand it to a joint graph first",
            mode=mode,
        )
    if mode == "forward" and not is_stage and (node := _without_gradient(model)) is not None:
        raise TmmuError(
            "MODE_VIOLATION",
            "it has bodies or changes a tensor, so that no gradient is made, and the model does not say what is saved",
            place=f"node {node!r}",
            fix="mark what backward reads as saved, or plan it with --mode inference",
            mode=mode,
        )
    if token is not None and len(token) != 32:
        raise TmmuError(
            "INVALID_BINDING", f"a replay token of {len(token)} bytes", fix="give 32 bytes", binding="replay_token"
        )
    if address_token is not None and layout != "hashed":
        raise TmmuError(
            "INVALID_BINDING",
            f"an address token binds nothing in the layout {layout}",
            fix="drop it, or choose --layout hashed",
            binding="address_token",
        )
    if replan_policy not in table.POLICIES:
        raise TmmuError(
            "INVALID_BINDING",
            f"replan policy {replan_policy!r} is not known",
            fix=f"use one of {', '.join(table.POLICIES)}",
            binding="replan_policy",
        )
    with _uncollected():
        tokens = token or replay_token(), address_token
        return _plan(model, check(arenas, policy), mode, layout, order, *tokens, fallback, policy, replan_policy, tell)


def _without_gradient(model: Model) -> str | None:
    """The first node for which nobody knows what backward reads: neither its model nor a joint graph says it."""
    if any(node.phase is Phase.BACKWARD for node in model.nodes) or any(t.saved_for_backward for t in model.tensors):
        return None
    owners = {body.owner for body in model.bodies[1:]}
    for n, node in enumerate(model.nodes):
        if n in owners or (node.phase is Phase.FORWARD and node.mutates):
            return node.name
    return None


@contextmanager
def _uncollected() -> Iterator[None]:
    """Planning makes no reference cycles: the collector, which would walk the model again and again, may rest."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _plan(
    model: Model,
    arenas: tuple[Arena, ...],
    mode: str,
    layout: str,
    order: str,
    token: bytes,
    address_token: bytes | None,
    fallback: str | None,
    policy: ArenaPolicy,
    replan_policy: str,
    tell: slots.Tell | None,
) -> Planned:
    chosen = LAYOUTS[layout]
    graph, model = model, ORDERS[order](model, arenas, mode, chosen.IN_PLACE, policy)
    run = program(model)
    _check_mutations(run, mode)
    live = liveness.analyze(run, mode)
    sharing = storages.form(run, live, arenas, mode, chosen.IN_PLACE, policy)
    conflicts = _conflicting_storages(model, sharing)
    storing = Storing(run, live, sharing, arenas, policy, conflicts, address_token)
    layout, found = fitted(storing, layout, fallback)
    sharing, assigned, placed = found.request.sharing, found.request.slots, found.placed
    usage = _usage(sharing, assigned, arenas, placed.footprint, conflicts, max(1, len(run.steps)))
    if found.over:
        raise too_small(storing, found, layout, usage)
    if tell is not None:  # of the candidates that were tried, those moves count that gave this plan its slots
        slots.assign(sharing, [run.tensors[t].name for t in sharing.root], arenas, conflicts, tell)
    plan = _columns(run, live, sharing, assigned, placed.offset, arenas, usage, mode, layout, order, token, graph)
    plan = replace(plan, policy=policy, envelope=envelope.of(run.tensors, model.bindings.ranges, replan_policy))
    if address_token is not None:
        plan = replace(plan, address_token_digest=hashlib.sha256(address_token).digest())
    return Planned(plan, sharing.refused)


def _check_mutations(run: Program, mode: str) -> None:
    """Who may change a tensor: no view may be changed, nor what the caller did not donate; and once a tensor is
    changed, no view that was made of it before may be read. spec: V1.10, I1.11
    """
    changed: dict[int, list[int]] = {}
    for s, step in enumerate(run.steps):
        for t in step.mutates:
            tensor, place = run.tensors[t], f"node {run.model.nodes[step.node].name!r}"
            if tensor.view is not None:
                raise TmmuError("INVALID_IR", f"it changes {tensor.name!r}, a view", place=place, fix="change its base")
            if tensor.role in CALLERS and tensor.name not in run.model.bindings.donated:
                raise TmmuError(
                    "INVALID_BINDING",
                    f"it changes {tensor.name!r}, which the caller has not donated",
                    place=place,
                    fix=f"--donate {tensor.name}",
                    binding=tensor.name,
                )
            changed.setdefault(t, []).append(s)
    if not changed:
        return
    made = {t: s for s, step in enumerate(run.steps) for t in step.writes if t not in step.mutates}
    reads = [(s, step.node, t) for s, step in enumerate(run.steps) for t in step.reads]
    # The caller reads outputs, and backward what is saved, after the last step; the node that made one is named for it.
    end = len(run.steps)
    kept = [t for t, tensor in enumerate(run.tensors) if mode == "forward" and tensor.saved_for_backward]
    reads += [(end, run.steps[made[t]].node, t) for t in (*run.model.outputs, *kept) if t in made]
    for s, node, t in reads:
        born = made.get(t, end)  # what nobody makes in this mode is refused where lifetimes are worked out
        root = shown(run.tensors, t)
        if root != t and any(born <= change <= s for change in changed.get(root, ())):
            raise TmmuError(
                "INVALID_IR",
                f"{run.tensors[t].name!r}, a view made before {run.tensors[root].name!r} was changed, is read after it",
                place=f"node {run.model.nodes[node].name!r}",
                fix="make the view again, or copy the value",
            )


def _conflicting_storages(model: Model, sharing: Sharing) -> dict[int, set[int]]:
    """For each storage those that must never share its slot (T5)."""
    found: dict[int, set[int]] = {}
    for a, b in model.must_not_alias:
        first, second = sharing.storage[a], sharing.storage[b]
        found.setdefault(first, set()).add(second)
        found.setdefault(second, set()).add(first)
    return found


def _usage(
    sharing: Sharing,
    assigned: slots.Assignment,
    arenas: tuple[Arena, ...],
    footprint: list[int],
    conflicts: dict[int, set[int]],
    steps: int,
) -> tuple[Usage, ...]:
    """What each arena needs: footprint, peak live bytes and max live with the first step that reaches each."""
    result = []
    arena = np.asarray(sharing.arena, np.int64)
    birth, death = np.asarray(sharing.birth, np.int64), np.asarray(sharing.death, np.int64)
    # A storage's size may exceed int64 by a factor of two; sums are made in Python integers where they might.
    wide = sum(sharing.bytes) >= 1 << 63
    for a in range(len(arenas)):
        members = np.flatnonzero(arena == a)
        born, gone = birth[members], death[members] + 1
        count = _running(born, gone, [1] * len(members), steps, wide=False)
        live = _running(born, gone, [sharing.bytes[k] for k in members.tolist()], steps, wide=wide)
        joined = any(
            sharing.arena[k] == a
            and any(
                sharing.arena[o] == a and sharing.death[k] < sharing.birth[o]
                for o in others  # the other way round where it is `o` whose others are looked at
            )
            for k, others in conflicts.items()
        )
        most, peak, opened = max(count), max(live), assigned.arena.count(a)
        minimal = opened == most and not joined
        result.append(Usage(footprint[a], peak, live.index(peak), opened, most, count.index(most), minimal))
    return tuple(result)


def _running(born: np.ndarray, gone: np.ndarray, amount: list[int], steps: int, *, wide: bool) -> list[int]:
    """The total amount that is live at each step."""
    if wide:
        changes = [0] * (steps + 1)
        for b, g, x in zip(born.tolist(), gone.tolist(), amount, strict=True):
            changes[b] += x
            changes[g] -= x
        return list(accumulate(changes[:steps]))
    delta = np.zeros(steps + 1, np.int64)
    np.add.at(delta, born, amount)
    np.subtract.at(delta, gone, amount)
    total: list[int] = np.cumsum(delta[:steps]).tolist()
    return total


def _columns(
    run: Program,
    live: liveness.Liveness,
    sharing: Sharing,
    assigned: slots.Assignment,
    offsets: list[int],
    arenas: tuple[Arena, ...],
    usage: tuple[Usage, ...],
    mode: str,
    layout: str,
    order: str,
    token: bytes,
    graph: Model,
) -> Plan:
    """Every fact of the plan, as columns; `graph` is the model in its own order. spec: O1.7"""
    model, tensors, steps = run.model, run.tensors, run.steps
    outputs, inputs = set(model.outputs), set(model.inputs)
    dtypes, dtype = index_of([x.dtype for x in tensors])
    ops, op = index_of([(n.domain, n.op) for n in model.nodes])
    listed = {name: ragged([getattr(step, name) for step in steps]) for name in table.Steps.LISTS}
    u8, u32, u64 = np.uint8, np.uint32, np.uint64
    role = {r: i for i, r in enumerate(table.ROLES)}
    word = {s: i for i, s in enumerate(table.SHARES)}
    part = {p: i for i, p in enumerate(table.PARTS)}
    return Plan(
        model=model.name,
        mode=mode,
        layout=layout,
        order=order,
        replay_token=token,
        ir_hash=ir_columns.digest(graph),
        source_digest=model.source_digest,
        arenas=arenas,
        usage=usage,
        bindings=model.bindings,
        ops=tuple(ops),
        dtypes=tuple(dtypes),
        tensors=table.Tensors(
            name=Names.of([x.name for x in tensors]),
            dtype=column(dtype, u8),
            role=column([role[x.role] for x in tensors], u8),
            flags=column(
                [
                    (t in inputs) * IS_INPUT + (t in outputs) * IS_OUTPUT + x.saved_for_backward * IS_SAVED
                    for t, x in enumerate(tensors)
                ],
                u8,
            ),
            bytes=column([x.bytes for x in tensors], u64),
            alignment=column([x.alignment for x in tensors], u64),
            birth=column(live.birth, u32),
            death=column(live.death, u32),
            storage=column(sharing.storage, u32),
            window=column(sharing.window, u64),
            writer=column([NONE if w == liveness.NO_STEP else w for w in live.writer], u32),
            shares=column([word[s] for s in sharing.shares], u8),
            of=column([NONE if x == storages.NO_TENSOR else x for x in sharing.of], u32),
        ),
        storages=table.Storages(
            arena=column(sharing.arena, u32),
            bytes=column(sharing.bytes, u64),
            alignment=column(sharing.alignment, u64),
            birth=column(sharing.birth, u32),
            death=column(sharing.death, u32),
            slot=column(assigned.slot, u32),
            offset=column(offsets, u64),
        ),
        slots=table.Slots(
            arena=column(assigned.arena, u32),
            bytes=column(assigned.bytes, u64),
            alignment=column(assigned.alignment, u64),
        ),
        steps=table.Steps(
            node=Names.of([model.nodes[s.node].name for s in steps]),
            op=column([op[s.node] for s in steps], u32),
            part=column([part[s.part] for s in steps], u8),
            body=column([s.body for s in steps], u32),
            **{f"{name}_at": at for name, (at, _) in listed.items()},
            **{name: flat for name, (_, flat) in listed.items()},
        ),
        bodies=table.Bodies(
            name=Names.of(list(run.body_names)),
            parent=column([NONE if b == MAIN else p for b, p in enumerate(run.parents)], u32),
            enter=column([NONE if r.enter < 0 else r.enter for r in run.ranges], u32),
            leave=column([NONE if r.leave < 0 else r.leave for r in run.ranges], u32),
            iterates=column([body.iterates for body in model.bodies], u8),
        ),
        must_not_alias=model.must_not_alias,
        unproduced=model.unproduced,
    )
