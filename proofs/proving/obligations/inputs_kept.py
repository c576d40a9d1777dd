"""Show that each input that the caller does not donate holds the caller's bytes after the last step.

An input that the plan keeps is read by the caller at the end, and `sharing_is_sound` shows what that read finds. Of the
others it is shown that no step writes to their bytes: all of an arena lie in a few hulls, and every write is clear of
every hull. If one of them is overwritten, that is stated in the verdict, and nothing is asked about them here.
spec: Z1.1, Z1.2
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from proofs.definition.checker.inputs import find_writes_after
from proofs.proving.lemmas.plan import hulls
from proofs.proving.obligations.context import CALLER, Context
from proofs.proving.obligations.lifetimes_cover_accesses import GIVEN
from proofs.proving.obligations.rows import (
    Batch,
    Column,
    Place,
    Unprovable,
    call_for_each_distinct_row,
    call_for_each_row,
)
from proofs.readers.arrivals import find_late_inputs
from tmmu.core.columns import find_distinct

SENTENCE = "Each input that is not donated holds the caller's bytes after the last step."
LEMMAS: tuple[str, ...] = ("what_is_clear_of_a_hull_is_clear_of_its_parts",)
DEFINITIONS = f"""{hulls.HULLS}
(define-fun stays ((birth Int) (given Int) (death Int) (last Int)) Bool (and (= given birth) (<= last death)))
"""
MANY = 1 << 18
"""The most rows about writes and hulls; a plan with more keeps its inputs in so many places that it should say so."""


def rows(context: Context) -> Iterator[Batch]:
    """Yield a row for each kept input, and for the others one for each hull and each distinct place of a write."""
    t = context.plan.allocation.tensors
    late = find_late_inputs(context.plan.allocation)
    inputs = (((context.writer == CALLER) & np.isin(t.role, GIVEN)) | late) & (t.bytes > 0) & ~context.donated
    kept = np.flatnonzero(inputs & context.returned)
    last = np.full(len(kept), context.last)
    given = np.where(late, context.writer, 0)[kept]
    yield from call_for_each_distinct_row("stays", [t.birth[kept], given, t.death[kept], last], _place(kept))
    for row in np.flatnonzero(inputs & late & ~context.returned).tolist():
        yield from _clear_after_arrival(context, row)
    others = np.flatnonzero(inputs & ~late & ~context.returned)
    if not len(others):
        return
    written = np.zeros(len(t), np.bool_)
    written[context.writes.tensor] = True
    written[list(context.permissions.views)] = False
    writes = np.flatnonzero(written & (t.bytes > 0))
    address = context.plan.allocation.addresses()
    arena = context.plan.allocation.storages.arena[t.storage]
    found = []
    for a in find_distinct(arena[others])[0].tolist():
        of_arena, beside = others[arena[others] == a], writes[arena[writes] == a]
        hulls = _find_hulls(address, t.bytes, of_arena, beside)
        if hulls is None:
            return
        found.append((of_arena, beside, *hulls))
    if sum(len(beside) * len(find_distinct(low)[0]) for _, beside, low, _ in found) > MANY:
        raise Unprovable(f"the inputs need more than {MANY} rows: plan with --keep-inputs")
    for of_arena, beside, low, high in found:
        place = _place(of_arena)
        yield from call_for_each_row("in_hull", [address[of_arena], t.bytes[of_arena], low, high], place)
        for first, end in dict.fromkeys(zip(low.tolist(), high.tolist(), strict=True)):
            hull = [np.full(len(beside), bound, np.uint64) for bound in (first, end)]
            columns = [address[beside], t.bytes[beside], *hull]
            yield from call_for_each_distinct_row("clear_of", columns, _place(beside))


def _clear_after_arrival(context: Context, row: int) -> Iterator[Batch]:
    """Yield a row for each place of a write after a late input has arrived: it is clear of the input's bytes."""
    allocation = context.plan.allocation
    t, address = allocation.tensors, allocation.addresses()
    after = find_writes_after(allocation, row, context.permissions.views)
    first, end = int(address[row]), int(address[row]) + int(t.bytes[row])
    if not ((address[after] < end) & (address[after] + t.bytes[after] > first)).any():
        hull = [np.full(len(after), bound, np.uint64) for bound in (first, end)]
        yield from call_for_each_distinct_row("clear_of", [address[after], t.bytes[after], *hull], _place(after))


def _find_hulls(
    address: NDArray[np.uint64], bytes_: NDArray[np.uint64], inputs: Column, writes: Column
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]] | None:
    """Return the bounds of the hull of each input of an arena, or None if a write overlaps one.

    Inputs with the same writes below them have one hull: no write begins between two of them.
    """
    first, end = address[inputs], address[inputs] + bytes_[inputs]
    starts = np.sort(address[writes])
    order = np.argsort(address[writes], kind="stable")
    furthest = np.maximum.accumulate((address + bytes_)[writes][order])
    below = np.searchsorted(starts, end)
    if len(writes) and ((below > 0) & (furthest[np.maximum(below, 1) - 1] > first)).any():
        return None
    low, high = np.full(len(writes) + 1, np.iinfo(np.uint64).max, np.uint64), np.zeros(len(writes) + 1, np.uint64)
    np.minimum.at(low, below, first)
    np.maximum.at(high, below, end)
    return low[below], high[below]


def _place(tensors: Column) -> Callable[[int], Place]:
    return lambda i: Place((int(tensors[i]),))
