"""The order of the steps of a model or a plan, and of its storages; and the races that a model has by itself.

A model or plan without streams has no order beside its list, and every function here answers None or nothing.
spec: X5.1, X5.2, X5.3, X5.5, X6.3
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tmmu.core.columns import NONE, U32, build_column, flatten_rows
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import MAIN, NodePart
from tmmu.ir.program import ModelProgram, view_root
from tmmu.planner.streams.steps import Integers, StepOrder, order_steps
from tmmu.planner.streams.storages import StoragePrecedence, order_storages
from tmmu.plans.allocation import Allocation
from tmmu.plans.columns import IS_RETURNED, PARTS


@dataclass(frozen=True)
class StreamColumns:
    """The streams of a program as a plan states them: names, the stream of each step, and its direct waits."""

    names: tuple[str, ...]
    stream: U32
    after_at: U32
    after: U32
    barriers: U32

    def order(self) -> StepOrder:
        """Return the order of the steps."""
        step = np.repeat(np.arange(len(self.stream)), list_lengths(self.after_at))
        waits = zip(step.tolist(), self.after.tolist(), strict=True)
        return order_steps(self.stream, waits, self.barriers.tolist(), len(self.names))


def state_streams(program: ModelProgram, stated: Mapping[str, Any] | None) -> StreamColumns | None:
    """Return the streams of a program, or None if its model states none. O(steps + waits log waits).

    `stated` has the columns of the model's streams (`tmmu.ir.columns.streams_object`). Raises INVALID_IR if nodes were
    added that have no stream, as for a backward pass.
    """
    if stated is None:
        return None
    nodes, steps, u32 = program.model.nodes, program.steps, np.uint32
    node, count = np.asarray(steps.node, np.int64), len(steps)
    main = np.flatnonzero(np.asarray(steps.body, np.int64) == MAIN)
    of = stated["of"][node[main]]
    if len(alone := np.flatnonzero(of == NONE)):
        name = nodes[node[main[alone[0]]]].name
        what = "it was added to a model with streams, and runs on none"
        fix = "plan the model as it is, or state the streams of all nodes of the expanded graph"
        raise TmmuError("INVALID_IR", what, place=f"node {name!r}", fix=fix, node_id=name)
    stream = np.repeat(of, np.diff(main, append=count))  # what is inside of a body is on the stream of its node
    barriers = [s for s in main.tolist() if steps.part[s] is not NodePart.WHOLE] if not program.is_plain else []
    begins, ends = np.full(len(nodes), count), np.full(len(nodes), count)
    begins[node[main[::-1]]], ends[node[main]] = main[::-1], main
    step, after = begins[stated["node"]], ends[stated["after"]]
    after_at = np.concatenate([[0], np.cumsum(np.bincount(step, minlength=count))])
    return StreamColumns(
        tuple(stated["name"]), build_column(stream, u32), build_column(after_at, u32),
        build_column(after[np.lexsort((after, step))], u32), build_column(barriers, u32),
    )  # fmt: skip


def streams_of_plan(allocation: Allocation) -> StreamColumns | None:
    """Return the streams of a plan, or None if it states none."""
    steps = allocation.steps
    if not allocation.streams:
        return None
    whole = PARTS.index(NodePart.WHOLE)
    barriers = np.flatnonzero((steps.part != whole) & (steps.body == MAIN))
    return StreamColumns(
        allocation.streams, steps.stream, steps.after_at, steps.after, build_column(barriers, np.uint32)
    )


class AccessColumns(NamedTuple):
    """AccessColumns as two columns, a tensor and the step that reads or writes it."""

    tensor: U32
    step: U32


def accesses_of_steps(reads: Sequence[Sequence[int]], writes: Sequence[Sequence[int]]) -> AccessColumns:
    """Return the accesses of steps, each with the tensors that it reads and writes. O(accesses)."""
    tensors, steps = [], []
    for listed in (reads, writes):
        at, flat = flatten_rows(listed)
        tensors.append(flat)
        steps.append(np.repeat(np.arange(len(listed)), list_lengths(at)))
    return AccessColumns(*(build_column(np.concatenate(columns), np.uint32) for columns in (tensors, steps)))


def order_of_plan(allocation: Allocation, streams: StreamColumns | None = None) -> StoragePrecedence | None:
    """Return the order of the storages of a plan, or None if it has no streams. O((accesses + storages) x streams).

    `streams` are those of the plan by default.
    """
    found = streams or streams_of_plan(allocation)
    if found is None:
        return None
    storages, accesses = allocation.storages, _plan_accesses(allocation)
    return order_storages(
        found.order(), (allocation.tensors.storage[accesses.tensor], accesses.step), storages.birth, storages.death
    )


def is_antichain_of_plan(allocation: Allocation, storages: Sequence[int], order: StepOrder) -> bool:
    """Return whether no two of these storages are ordered by their accesses alone, the caller's among them. spec: X5.10

    `order` is that of the plan's steps.

    The lifetimes of a plan may keep two storages apart that no access does: what a loop captures lives to its end, and
    an input that nothing reads is there at step 0.
    """
    number = np.full(len(allocation.storages), -1)
    number[np.asarray(storages, np.int64)] = np.arange(len(storages))
    of_tensors = number[allocation.tensors.storage]
    tensors, accesses = allocation.tensors, _plan_accesses(allocation)
    mine = of_tensors[accesses.tensor]
    chosen = mine >= 0
    storage, step = mine[chosen], accesses.step[chosen].astype(np.int64)
    count = len(allocation.steps)
    birth, death = np.full(len(storages), count), np.full(len(storages), -1)
    np.minimum.at(birth, storage, step)
    np.maximum.at(death, storage, step)
    birth[of_tensors[(tensors.writer == NONE) & (of_tensors >= 0)]] = -1
    death[of_tensors[((tensors.flags & IS_RETURNED) > 0) & (of_tensors >= 0)]] = count
    return order_storages(order, (storage, step), birth, death).is_antichain(range(len(storages)))


def _plan_accesses(allocation: Allocation) -> AccessColumns:
    """Return the accesses of a plan's steps."""
    steps, tensors, rows = allocation.steps, [], []
    for which in ("reads", "writes"):
        at = getattr(steps, f"{which}_at")
        tensors.append(getattr(steps, which))
        rows.append(np.repeat(np.arange(len(steps)), list_lengths(at)))
    return AccessColumns(*(build_column(np.concatenate(columns), np.uint32) for columns in (tensors, rows)))


def list_lengths(bounds: U32) -> Integers:
    """Return the length of each list between neighbouring bounds."""
    at = bounds.astype(np.int64)
    return at[1:] - at[:-1]


class ModelRace(NamedTuple):
    """Two steps that access a tensor, at least one of them a write, and that nothing orders."""

    tensor: int
    earlier: int
    later: int
    is_written: bool
    """Whether the later step writes."""


class Suspects(NamedTuple):
    """The base of each tensor, whether accesses to a base may race, and the steps with such an access, in order.

    `early` are the reads of views that nothing orders after the step that makes the view.
    """

    root_of: list[int]
    may_race: NDArray[np.bool_]
    steps: list[int]
    early: list[ModelRace]


def _find_suspects(program: ModelProgram, order: StepOrder) -> Suspects:
    """Find the bases that are not written once, before all other accesses. O(accesses)."""
    tensors = program.tensors
    root_of = [view_root(tensors, t) for t in range(len(tensors))]
    root, is_view = np.asarray(root_of, np.int64), np.asarray([tensor.view is not None for tensor in tensors], np.bool_)
    reads = accesses_of_steps(program.steps.reads, ())
    writes = accesses_of_steps((), program.steps.writes)
    shown = is_view[writes.tensor]
    read = np.concatenate((root[reads.tensor], root[writes.tensor[shown]]))
    at = np.concatenate((reads.step, writes.step[shown])).astype(np.int64)
    written, by = root[writes.tensor[~shown]], writes.step[~shown].astype(np.int64)
    times = np.bincount(written, minlength=len(tensors))
    writer = np.full(len(tensors), -1, np.int64)
    writer[written] = by
    first = writer[read]
    is_open = (first >= 0) & (at != first) & ~order.are_before(np.maximum(first, 0), at)
    may_race = times > 1
    may_race[read[is_open]] = True
    steps = np.concatenate((at[may_race[read]], by[may_race[written]]))
    maker = np.full(len(tensors), -1, np.int64)
    maker[writes.tensor[shown]] = writes.step[shown]
    made, step = maker[reads.tensor], reads.step.astype(np.int64)
    rows = np.flatnonzero((made >= 0) & (made < step) & ~order.are_before(np.maximum(made, 0), step))
    early = [ModelRace(int(reads.tensor[i]), int(made[i]), int(step[i]), False) for i in rows]
    return Suspects(root_of, may_race, np.unique(steps).tolist(), early)


def find_model_races(program: ModelProgram, order: StepOrder, most: int = 1) -> list[ModelRace]:
    """Return races that every plan of a model has: accesses to one tensor, or its views. O(accesses x streams).

    spec: X5.3, X5.13
    """
    tensors = program.tensors
    suspects = _find_suspects(program, order)
    found = suspects.early[:most]
    if len(found) == most:
        return found
    accessed: dict[int, dict[int, int]] = {}  # by tensor and stream: the last step that reads or writes it
    written: dict[int, dict[int, int]] = {}
    stream = order.stream.tolist()
    for s in suspects.steps:
        reads, writes = program.steps.reads[s], program.steps.writes[s]
        shown = {t for t in writes if tensors[t].view is not None}  # a view writes nothing: it reads
        for t, is_write in (*((t, False) for t in (*reads, *shown)), *((t, True) for t in writes if t not in shown)):
            root = suspects.root_of[t]
            if not suspects.may_race[root]:
                continue
            earlier = (accessed if is_write else written).get(root, {})
            for other in earlier.values():
                if other != s and not order.is_before(other, s):
                    found.append(ModelRace(t, other, s, is_write))
                    if len(found) == most:
                        return found
            accessed.setdefault(root, {})[stream[s]] = s
            if is_write:
                written.setdefault(root, {})[stream[s]] = s
    return found


def check_model_races(program: ModelProgram, order: StepOrder) -> None:
    """Raise INVALID_IR if two nodes access a tensor at the same time, one of them writing or making it.

    No plan could be right.
    """
    for t, earlier, later, is_written in find_model_races(program, order):
        nodes, steps = program.model.nodes, program.steps
        first, second = nodes[steps.node[earlier]].name, nodes[steps.node[later]].name
        name = program.tensors[t].name
        accessed = "writes" if is_written else "reads"
        raise TmmuError(
            "INVALID_IR",
            f"{second!r} {accessed} {name!r} while {first!r} may still use it: no stream or wait orders the two",
            place=f"node {second!r}",
            fix=f"let it wait: after {first}",
            node_id=second,
        )


def stream_columns(found: StreamColumns | None) -> tuple[U32, ...]:
    """Return the columns of a plan's steps for streams, none without streams."""
    return () if found is None else (found.stream, found.after_at, found.after)
