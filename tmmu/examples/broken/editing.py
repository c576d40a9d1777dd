"""Edits that make a right plan wrong: `edit` changes single entries, `laid_out` derives everything else from them.

After `laid_out`, storages, slots, addresses and claims are those that the planner makes from the stated storages and
lifetimes of the tensors: one thing in the plan is false, and only a proof about its steps can find it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from tmmu.core.columns import NONE, Names, build_column, flatten_rows
from tmmu.core.vocabulary import ArenaConfiguration, Model, Shares
from tmmu.planner import DEFAULT, PlanOptions, plan_memory
from tmmu.planner.arenas.assignment import lay_out
from tmmu.planner.plan import build_slot_table
from tmmu.planner.problem import AllocationProblem
from tmmu.plans.columns import SHARES, Steps, Storages
from tmmu.plans.sections import Plan, Usage, amend_plan, arena_configurations

Changes = Mapping[str, Mapping[str, int]]


def right(
    model: Model, arenas: tuple[ArenaConfiguration, ...] = DEFAULT, mode: str = "inference", order: str = "given"
) -> Plan:
    """Return the right plan of `model`, in the layout `slots`."""
    return plan_memory(model, arenas, PlanOptions(mode, order=order)).plan


def row(plan: Plan, tensor: str) -> int:
    """Return the row of the tensor of that name."""
    return plan.allocation.tensors.name.list().index(tensor)


def storage_of(plan: Plan, tensor: str) -> int:
    """Return the row of the storage that holds `tensor`."""
    return int(plan.allocation.tensors.storage[row(plan, tensor)])


def slot_of(plan: Plan, tensor: str) -> int:
    """Return the row of the slot that holds `tensor`."""
    return int(plan.slots.of[storage_of(plan, tensor)])


def offset_of(plan: Plan, tensor: str) -> int:
    """Return the offset of the storage that holds `tensor`."""
    return int(plan.allocation.storages.offset[storage_of(plan, tensor)])


def step_of(plan: Plan, node: str) -> int:
    """Return the first step of the node of that name."""
    return plan.allocation.steps.node.list().index(node)


def changed(plan: Plan, table: str, row_or_tensor: int | str, **entries: int) -> Plan:
    """Return `plan` with entries of one row of one table changed and nothing adapted.

    A row of tensors may be given by name. Slots are a table of the claims; the `slot` of a storage is a column of
    theirs.
    """
    at = row(plan, row_or_tensor) if isinstance(row_or_tensor, str) else row_or_tensor
    for name, value in entries.items():
        where, which = ("slots", "of") if (table, name) == ("storages", "slot") else (table, name)
        rows = getattr(plan if where in ("slots", "shards") else plan.allocation, where)
        values = getattr(rows, which).tolist()
        values[at] = value
        plan = amend_plan(
            plan, **{where: replace(rows, **{which: build_column(values, getattr(rows, which).dtype.type)})}
        )
    return plan


def edit(
    plan: Plan,
    *,
    tensors: Changes | None = None,
    storages: Changes | None = None,
    slots: Changes | None = None,
    usage: Mapping[str, Mapping[str, int | bool]] | None = None,
    **whole: Any,
) -> Plan:
    """Return `plan` with single entries changed and nothing adapted.

    Parameters
    ----------
    tensors
        The new entries, by the name of the tensor and the column.
    storages, slots
        The same, by the name of any tensor in the storage or slot; the slot of a storage is entered as "slot".
    usage
        The new claims, by the name of the arena and the claim.
    whole
        Whole fields of the plan.
    """
    made = plan
    for table, of, changes in (
        ("tensors", row, tensors),
        ("storages", storage_of, storages),
        ("slots", slot_of, slots),
    ):
        for name, new in (changes or {}).items():
            made = changed(made, table, of(plan, name), **new)
    arenas = [arena.name for arena in plan.allocation.arenas]
    for name, claims in (usage or {}).items():
        made = claiming(made, arenas.index(name), **claims)
    return amend_plan(made, **whole)


def claiming(plan: Plan, arena: int = 0, **claims: Any) -> Plan:
    """Return `plan` with other claims of one arena."""
    usage = list(plan.usage)
    usage[arena] = usage[arena]._replace(**claims)
    return amend_plan(plan, usage=tuple(usage))


def with_arena(plan: Plan, arena: int, **entries: Any) -> Plan:
    """Return `plan` with other entries of one arena, in the allocation or in the configuration of the claims."""
    arenas, configuration = list(plan.allocation.arenas), plan.configuration
    uses = list(configuration.uses)
    for name, value in entries.items():
        if hasattr(arenas[arena], name):
            arenas[arena] = replace(arenas[arena], **{name: value})
        else:
            uses[arena] = uses[arena]._replace(**{name: value})
    return amend_plan(plan, arenas=tuple(arenas), configuration=configuration._replace(uses=tuple(uses)))


def with_accesses(plan: Plan, **lists: Mapping[int, Sequence[int]]) -> Plan:
    """Return `plan` with other reads, writes or mutations of some steps."""
    for which, steps in lists.items():
        rows = [steps.get(step, old) for step, old in enumerate(plan.allocation.steps.listed(which))]
        plan = amend_plan(plan, steps=replace(plan.allocation.steps, **_list_columns(which, rows)))
    return plan


def listed(plan: Plan, which: str, step: int, *names: str) -> Plan:
    """Return `plan` with other reads, writes or mutations of one step, by the names of the tensors."""
    return with_accesses(plan, **{which: {step: [row(plan, name) for name in names]}})


def in_layout(plan: Plan, layout: str) -> Plan:
    """Return `plan` with another layout in its provenance; `hashed` scatters the addresses of reused arenas."""
    arenas = tuple(replace(arena, scattered=layout == "hashed" and arena.reuse) for arena in plan.allocation.arenas)
    return amend_plan(plan, layout=layout, arenas=arenas)


def moved(plan: Plan, tensor: str, onto: str, by: int = 0) -> Plan:
    """Return `plan` with the storage of `tensor` `by` bytes after the begin of the slot of `onto`, with new claims."""
    slot, offset = slot_of(plan, onto), offset_of(plan, onto) + by
    return counted(edit(plan, storages={tensor: {"slot": slot, "offset": offset}}))


def shared(plan: Plan, tensor: str, of: str, word: Shares, window: int = 0) -> Plan:
    """Return `plan` with `tensor` in the storage of `of`, `window` bytes after the begin of `of`, and laid out anew."""
    base = row(plan, of)
    entry = {
        "storage": int(plan.allocation.tensors.storage[base]),
        "window": int(plan.allocation.tensors.window[base]) + window,
        "shares": SHARES.index(word),
        "of": NONE if word is Shares.NONE else base,
    }
    return laid_out(edit(plan, tensors={tensor: entry}))


def in_place(plan: Plan, result: str, operand: str) -> Plan:
    """Return `plan` with `result` in the bytes of `operand`, declared to be in place."""
    return shared(plan, result, operand, Shares.IN_PLACE)


def laid_out(plan: Plan) -> Plan:
    """Return `plan` with storages, slots, addresses and claims derived from the stated storages of its tensors."""
    t = plan.allocation.tensors
    number: dict[int, int] = {}
    storage = [number.setdefault(old, len(number)) for old in t.storage.tolist()]
    members = [[i for i, k in enumerate(storage) if k == new] for new in range(len(number))]
    window, size = t.window.tolist(), t.bytes.tolist()
    arena = [int(plan.allocation.storages.arena[old]) for old in number]
    problem = AllocationProblem(
        arenas=arena_configurations(plan),
        name=[t.name[group[0]] for group in members],
        bytes=[max(window[i] + size[i] for i in group) for group in members],
        alignment=[max(int(t.alignment[i]) for i in group) for group in members],
        birth=[min(int(t.birth[i]) for i in group) for group in members],
        death=[max(int(t.death[i]) for i in group) for group in members],
        choices=[(a,) for a in arena],
        made=[0] * len(members),
    )
    found = lay_out(problem, arena, "slots")
    assigned = found.slots
    u32, u64 = np.uint32, np.uint64
    rows = Storages(
        arena=build_column(arena, u32),
        bytes=build_column(problem.bytes, u64),
        alignment=build_column(problem.alignment, u64),
        birth=build_column(problem.birth, u32),
        death=build_column(problem.death, u32),
        offset=build_column(found.offset, u64),
    )
    return counted(
        amend_plan(
            plan,
            tensors=replace(t, storage=build_column(storage, u32)),
            storages=rows,
            slots=build_slot_table(assigned),
        )
    )


def counted(plan: Plan) -> Plan:
    """Return `plan` with the claims of each arena recounted from the storages: footprint, peak, slots and most live."""
    s = plan.allocation.storages
    usage = []
    for a in range(len(plan.allocation.arenas)):
        rows = [k for k in range(len(s)) if int(s.arena[k]) == a]
        live = [
            [k for k in rows if int(s.birth[k]) <= step <= int(s.death[k])]
            for step in range(plan.allocation.last_step + 1)
        ]
        loads, counts = [sum(int(s.bytes[k]) for k in now) for now in live], [len(now) for now in live]
        used = plan.slots.arena.tolist().count(a)
        footprint = max((int(s.offset[k]) + int(s.bytes[k]) for k in rows), default=0)
        most, peak = max(counts), max(loads)
        usage.append(Usage(footprint, peak, loads.index(peak), used, most, counts.index(most), used == most))
    return amend_plan(plan, usage=tuple(usage))


def reordered(plan: Plan, order: Sequence[int]) -> Plan:
    """Return `plan` with its steps in another order; each tensor keeps its lifetime.

    `order[i]` is the old number of the new step i.
    """
    steps = plan.allocation.steps
    lists: dict[str, Any] = {}
    for name in Steps.LISTS:
        old = steps.listed(name)
        lists |= _list_columns(name, [old[step] for step in order])
    picked = {name: build_column([int(getattr(steps, name)[step]) for step in order], dtype) for name, dtype in
              (("op", np.uint32), ("part", np.uint8), ("body", np.uint32))}  # fmt: skip
    names = Names.of([steps.node[step] for step in order])
    return amend_plan(plan, steps=replace(steps, node=names, **picked, **lists))


def without(plan: Plan, *names: str) -> Plan:
    """Return `plan` without these tensors and their accesses, laid out anew; no other tensor may be a view of them."""
    keep = [old for old, name in enumerate(plan.allocation.tensors.name) if name not in names]
    number = {old: new for new, old in enumerate(keep)} | {NONE: NONE}
    columns: dict[str, Any] = {
        f.name: getattr(plan.allocation.tensors, f.name) for f in fields(plan.allocation.tensors)
    }
    columns = {
        name: build_column([values[old] for old in keep], values.dtype.type)
        for name, values in columns.items()
        if name != "name"
    }
    columns["of"] = build_column([number[old] for old in columns["of"].tolist()], np.uint32)
    columns["name"] = Names.of([plan.allocation.tensors.name[old] for old in keep])
    lists: dict[str, Any] = {}
    for which in Steps.LISTS:
        rows = [[number[t] for t in accesses if t in number] for accesses in plan.allocation.steps.listed(which)]
        lists |= _list_columns(which, rows)
    return laid_out(
        amend_plan(
            plan, tensors=replace(plan.allocation.tensors, **columns), steps=replace(plan.allocation.steps, **lists)
        )
    )


def _list_columns(which: str, rows: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return the two columns that hold the reads, writes or mutations of each step."""
    bounds, flat = flatten_rows(rows)
    return {f"{which}_at": bounds, which: flat}
