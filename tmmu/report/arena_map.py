"""The content of a map of memory: each storage of an arena as a rectangle of steps and bytes, with its tensors.

spec: RP1.1, RP1.2
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tmmu.core.columns import NONE
from tmmu.plans import metrics
from tmmu.plans.columns import ROLES
from tmmu.plans.sections import BufferPlan, Plan

Int = NDArray[np.int64]
RELEASE = "free"
"""The operator of a step that only gives bytes back, in plans of other producers."""


@dataclass(frozen=True)
class ArenaMap:
    """The storages of one arena, in the order of the plan, as columns of equal length.

    Steps are counted from 0 and lifetimes include both ends; offsets and sizes are in bytes. `names` has the tensors of
    each storage, one per line; `slot` is -1 if no slots are claimed. `producer` and `reader` are steps, -1 for a
    storage that the caller writes or that no step reads.
    """

    name: str
    capacity: int
    footprint: int
    last_step: int
    offset: NDArray[np.float64]
    """As float64, which is exact up to 2^53; JavaScript has no other numbers."""
    bytes: NDArray[np.float64]
    birth: Int
    death: Int
    slot: Int
    role: list[str]
    operator: list[str]
    producer: Int
    reader: Int
    names: list[str]
    live: NDArray[np.float64]
    """The bytes that are live at each step."""

    @property
    def peak_step(self) -> int:
        """The first step with the most live bytes."""
        return int(self.live.argmax()) if len(self.live) else 0

    @property
    def peak(self) -> int:
        """The most bytes that are live at one step: no plan of these lifetimes needs fewer."""
        return int(self.live.max(initial=0))

    @property
    def changes(self) -> Int:
        """The steps at which the live bytes change, including the first step."""
        return np.flatnonzero(np.diff(self.live, prepend=-1.0))

    @property
    def is_constant(self) -> bool:
        """Whether the live bytes are equal at every step, as those of weights are."""
        return len(self.changes) <= 1

    def at_peak(self, most: int) -> list[int]:
        """Return the rows of the `most` largest storages that are live at the peak, the largest first."""
        step = self.peak_step
        rows = np.flatnonzero((self.birth <= step) & (self.death >= step))
        found: list[int] = rows[np.argsort(-self.bytes[rows], kind="stable")][:most].tolist()
        return found


def step_names(plan: Plan | BufferPlan) -> list[str]:
    """Return the node of each step; [] for a plan of lifetimes, whose steps only have numbers."""
    return plan.allocation.steps.node.list() if isinstance(plan, Plan) else []


def find_released(plan: Plan | BufferPlan) -> NDArray[np.bool_]:
    """Return for each storage whether it only states that its bytes are given back, as readers of dumps state it.

    Such a storage is written by a step `free` and read by none: it forbids that anything is found there later, and
    holds nothing.
    """
    found = np.zeros(len(plan.placement.storages), np.bool_)
    if isinstance(plan, Plan):
        ops, tensors = plan.allocation.ops, plan.allocation.tensors
        free = np.array([op == RELEASE and domain not in ("", "ai.onnx") for domain, op in ops], np.bool_)
        made = np.flatnonzero(tensors.writer != NONE)
        made = made[free[plan.allocation.steps.op[tensors.writer[made]]]] if len(ops) else made
        found[tensors.storage[made]] = True
    return found


def arena_maps(plan: Plan | BufferPlan, *, with_released: bool = True) -> list[ArenaMap]:
    """Return a map of each arena with storages, first those that change with time. O(plan).

    Without `with_released` storages that hold nothing (`find_released`) are left out; footprints count them.
    """
    placement = plan.placement
    left_out = find_released(plan) & (not with_released)
    storages = placement.storages
    count = len(storages)
    names, roles, operators = [[""] * count for _ in range(3)]
    producer, reader = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    if isinstance(plan, Plan):
        names, roles, operators, producer, reader = _describe_contents(plan)
    else:
        names = plan.buffers.name.list()
    claims = plan.claims
    slot = np.full(count, -1, np.int64)
    if claims is not None and claims.slots is not None:
        first = np.zeros(len(placement.arenas), np.int64)
        for a, row in metrics.first_slot(claims.slots).items():
            first[a] = row
        slot = claims.slots.of.astype(np.int64) - first[storages.arena]
    found = []
    for a, (arena, footprint) in enumerate(zip(placement.arenas, metrics.compute_footprints(placement), strict=True)):
        rows = np.flatnonzero((storages.arena == a) & ~left_out)
        if not len(rows):
            continue
        # A plan that would be refuted may state births behind the last step; they are drawn at it.
        birth = np.minimum(storages.birth[rows].astype(np.int64), placement.last_step)
        death = storages.death[rows].astype(np.int64)
        size = storages.bytes[rows].astype(np.float64)
        change = np.zeros(placement.last_step + 2)
        np.add.at(change, birth, size)
        np.subtract.at(change, np.minimum(death, placement.last_step) + 1, size)
        chosen = rows.tolist()
        found.append(
            ArenaMap(
                arena.name, arena.capacity, footprint, placement.last_step, storages.offset[rows].astype(np.float64),
                size, birth, death, slot[rows], [roles[k] for k in chosen], [operators[k] for k in chosen],
                producer[rows], reader[rows], [names[k] for k in chosen], np.cumsum(change)[:-1],
            )
        )  # fmt: skip
    return sorted(found, key=lambda one: one.is_constant)


def _describe_contents(plan: Plan) -> tuple[list[str], list[str], list[str], Int, Int]:
    """Return tensors, role, operator, producer and reader of each storage.

    The role, the operator and the producer are those of its first tensor; the reader is the last step that reads it.
    """
    allocation = plan.allocation
    tensors, steps = allocation.tensors, allocation.steps
    count = len(allocation.storages)
    storage = tensors.storage.astype(np.int64)
    grouped: list[list[str]] = [[] for _ in range(count)]
    first = [-1] * count
    for t, (k, name) in enumerate(zip(storage.tolist(), tensors.name, strict=True)):
        grouped[k].append(name)
        first[k] = t if first[k] < 0 else first[k]
    reader = np.full(count, -1, np.int64)
    step_of = np.repeat(np.arange(len(steps)), steps.reads_at[1:].astype(np.int64) - steps.reads_at[:-1])
    np.maximum.at(reader, storage[steps.reads.astype(np.int64)], step_of)
    writer = tensors.writer.astype(np.int64)
    writer[tensors.writer == NONE] = -1
    producer = np.array([writer[t] if t >= 0 else -1 for t in first], np.int64)
    role = [str(ROLES[int(tensors.role[t])]) if t >= 0 else "" for t in first]
    operator = [allocation.ops[int(steps.op[s])][1] if s >= 0 else "the caller" for s in producer.tolist()]
    return ["\n".join(names) for names in grouped], role, operator, producer, reader
