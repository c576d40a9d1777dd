"""A plan for an envelope at one of its shapes: sizes, and the offsets of a symbolic plan. spec: R6.15, R6.16, SIM6.7"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tmmu.core.alignment import align_up
from tmmu.core.columns import U32, build_column
from tmmu.core.dims.table import evaluate_rows
from tmmu.core.vocabulary import UINT64_END
from tmmu.plans.columns import Storages
from tmmu.plans.sections import Plan, amend_plan


def shape_of(plan: Plan, asked: Mapping[str, int]) -> dict[str, int]:
    """Return the size of each open dimension: the requested one, else the largest. The plan holds for it."""
    return {name: asked.get(name, high) for name, (_, high) in plan.ranges.items()}


def at_shape(plan: Plan, shape: Mapping[str, int]) -> Plan:
    """Return the plan with `shape` bound: tensors have the sizes there. O(terms + tensors).

    Tensors stay at their planned offsets. In a symbolic plan storages and slots have the sizes that their tensors
    need at the shape, and offsets are the prefix sums of these slots. An impossible size (of a wrong plan) is brought
    into the range of sizes; no model has a tensor of such a size. The shape has each open dimension.
    """
    if plan.envelope is None:
        return plan
    values = evaluate_rows(plan.envelope.terms.rows(), [shape[name] for name in plan.ranges])
    sizes = [min(max(0, values[row]), UINT64_END - 1) for row in plan.envelope.size.tolist()]
    found = amend_plan(
        plan,
        tensors=replace(plan.allocation.tensors, bytes=build_column(sizes, np.uint64)),
        bindings=replace(plan.origin.bindings, dims={**plan.origin.bindings.dims, **shape}),
        envelope=None,
    )
    return _at_prefix_sums(found) if plan.envelope.symbolic else found


def _at_prefix_sums(plan: Plan) -> Plan:
    """Return a plan whose storages have the sizes of their tensors, at the prefix sums of the slots. O(tensors)."""
    t, s, slots = plan.allocation.tensors, plan.allocation.storages, plan.slots
    ends = [window + size for window, size in zip(t.window.tolist(), t.bytes.tolist(), strict=True)]
    needed = [0] * len(s)
    for k, end in zip(t.storage.tolist(), ends, strict=True):
        needed[k] = max(needed[k], end)
    held = [1] * len(slots)
    for slot, size in zip(slots.of.tolist(), needed, strict=True):
        held[slot] = max(held[slot], size)
    slots = replace(slots, bytes=build_column(held, np.uint64))
    offsets, footprints = prefix_sums(slots.arena.tolist(), held, slots.alignment.tolist(), len(plan.allocation.arenas))
    storages = replace(
        s,
        bytes=build_column(needed, np.uint64),
        offset=build_column([offsets[slot] for slot in slots.of.tolist()], np.uint64),
    )
    peaks = compute_peaks(storages, len(footprints), max(1, len(plan.allocation.steps)))
    usage = tuple(
        used._replace(footprint=footprint, peak_live_bytes=peak, peak_step=step)
        for used, footprint, (peak, step) in zip(plan.usage, footprints, peaks, strict=True)
    )
    return amend_plan(plan, storages=storages, slots=slots, usage=usage)


def prefix_sums(
    arena: Sequence[int], size_of: Sequence[int], alignment_of: Sequence[int], arenas: int
) -> tuple[list[int], list[int]]:
    """Return the offset of each slot behind those before it in its arena, and the footprint of each arena.

    The integers are exact: a sum may exceed 64 bits. O(slots). spec: A1.1
    """
    offsets, footprints = list[int](), [0] * arenas
    for a, size, alignment in zip(arena, size_of, alignment_of, strict=True):
        offsets.append(align_up(footprints[a], alignment))
        footprints[a] = offsets[-1] + size
    return offsets, footprints


def compute_peaks(storages: Storages, arenas: int, steps: int) -> list[tuple[int, int]]:
    """Return the most live bytes of each arena, and the first step that has them. O(storages + arenas * steps)."""
    # A storage's size may exceed int64 by a factor of two; sums are made in Python integers where they might.
    exact: type = object if sum(storages.bytes.tolist()) >= 1 << 63 else np.int64
    found = []
    for a in range(arenas):
        here = storages.arena == a
        live = live_at_each_step(
            storages.birth[here], storages.death[here] + 1, storages.bytes[here].astype(exact), steps
        )
        fullest = int(live.argmax())
        found.append((int(live[fullest]), fullest))
    return found


def live_at_each_step(born: U32, gone: U32, amount: np.int64 | NDArray[Any], steps: int) -> NDArray[Any]:
    """Return the total amount that is live at each step."""
    delta = np.zeros(steps + 1, amount.dtype)
    np.add.at(delta, born, amount)
    np.subtract.at(delta, gone, amount)
    return np.cumsum(delta[:steps])
