"""Show what a plan with streams claims of its slots: storages of a slot are ordered, those of an antichain are not.

Storages of one slot follow one another if each last access of one, on each stream, happens before each first access of
the next. Two storages are not ordered if both are live at a step of the list, which keeps the order. Otherwise two
accesses show it: the clock of the later one, which is complete, does not show the earlier one. By the pigeonhole
principle an antichain then needs as many slots as it has storages.
spec: X5.10, X5.11, V5.1
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from proofs.proving.certificate.clocks import Numbers
from proofs.proving.certificate.storage_ends import StorageEnds, find_storage_ends
from proofs.proving.obligations.context import CALLER, Context
from proofs.proving.obligations.races import clock_rows, count_reached
from proofs.proving.obligations.rows import (
    Batch,
    Place,
    Unprovable,
    batch_rows,
    call_for_each_distinct_row,
    call_for_each_row,
    false_rows,
)
from tmmu.plans.columns import Slots
from tmmu.plans.sections import Usage

LEMMAS: tuple[str, ...] = (
    "a_clock_shows_what_happens_before", "what_a_join_shows_happens_before_later_steps",
    "a_complete_clock_shows_all_that_happens_before", "last_and_first_accesses_order_storages",
    "different_numbers_below_a_bound_are_at_most_as_many",
)  # fmt: skip
MOST_PAIRS = 4_000_000
"""More pairs of storages of an antichain are not asked about."""


def storage_ends(context: Context) -> StorageEnds:
    """Return the first and last accesses of the storages of a plan."""
    steps, home = context.plan.allocation.steps, context.plan.allocation.tensors.storage.astype(np.int64)
    listed = [
        (
            np.repeat(np.arange(len(steps)), np.diff(getattr(steps, f"{which}_at").astype(np.int64))),
            getattr(steps, which),
        )
        for which in ("reads", "writes")
    ]
    step, tensor = (np.concatenate([pair[k] for pair in listed]).astype(np.int64) for k in range(2))
    given, returned = (np.zeros(len(context.placement.storages), np.bool_) for _ in range(2))
    given[home[context.writer == CALLER]] = True
    returned[home[context.returned]] = True
    return find_storage_ends(context.clocks, step, home[tensor], given, returned)


def turn_rows(context: Context, slots: Slots) -> Iterator[Batch]:
    """Show that the storages of each slot follow one another."""
    ends = storage_ends(context)
    yield from clock_rows(context.clocks)
    earliest = np.where(ends.first < 0, len(context.clocks.stream), ends.first).min(axis=1, initial=1 << 62)
    earliest[ends.given] = -1
    order = np.lexsort((earliest, slots.of))
    same = slots.of[order[1:]] == slots.of[order[:-1]]
    one, other = order[:-1][same], order[1:][same]
    wrong = np.flatnonzero(ends.returned[one] | ends.given[other])
    yield from false_rows(*(Place(storages=(int(one[i]), int(other[i]))) for i in wrong.tolist()))
    streams = range(ends.first.shape[1])
    for k in streams:
        for m in streams:
            pair = np.flatnonzero((ends.last[one, k] >= 0) & (ends.first[other, m] >= 0))
            yield from _ordered(context, one[pair], other[pair], ends.last[one[pair], k], ends.first[other[pair], m])


def _ordered(context: Context, one: Numbers, other: Numbers, a: Numbers, b: Numbers) -> Iterator[Batch]:
    clocks = context.clocks
    columns = [clocks.position[a], clocks.shown(b, clocks.stream[a])]
    yield from call_for_each_distinct_row("ordered", columns, lambda i: Place(storages=(int(one[i]), int(other[i]))))


def antichain_rows(context: Context, arena: int, usage: Usage, slots: int) -> Iterator[Batch]:
    """Show that the antichain of an arena has as many storages as there are slots, no two of them ordered."""
    members = np.array(usage.antichain or (), np.int64)
    yield from batch_rows([(f"(= {slots} {len(members)})", Place(storages=members[:2].tolist()))])
    s = context.placement.storages
    columns = [s.arena[members], np.full(len(members), arena)]
    yield from call_for_each_distinct_row("=", columns, lambda i: Place(storages=(int(members[i]),)))
    yield from _complete(context)
    ends = storage_ends(context)
    first, last = _span(ends)
    step = _find_common_step(first[members], last[members])
    is_common = (first[members] <= step) & (step <= last[members])
    common, others = members[is_common], members[~is_common]
    columns = [first[common], last[common], np.full(len(common), step)]
    yield from call_for_each_distinct_row("lives_at", columns, lambda i: Place(storages=(int(common[i]),)))
    if len(others) * len(members) > MOST_PAIRS:
        raise Unprovable(f"an antichain has more than {MOST_PAIRS} pairs of storages that are not live at one step")
    for i, one in enumerate(others.tolist()):
        yield from _unordered(context, ends, one, np.concatenate([common, others[:i]]), (first, last))


def _span(ends: StorageEnds) -> tuple[Numbers, Numbers]:
    """Return the first and the last step at which each storage is accessed, from 1; the caller begins with step 0."""
    end = np.iinfo(np.int64).max >> 1
    first = np.where(ends.first < 0, end, ends.first + 1).min(axis=1, initial=end)
    last = ends.last.max(axis=1, initial=-1) + 1
    return np.where(ends.given, 0, first), np.where(ends.returned, end, last)


def _find_common_step(first: Numbers, last: Numbers) -> int:
    """Return a step at which the most of some storages are live."""
    at = np.concatenate([first, last + 1])
    change = np.concatenate([np.ones(len(first), np.int64), -np.ones(len(last), np.int64)])
    order = np.lexsort((change, at))
    return int(at[order][int(np.argmax(np.cumsum(change[order])))]) if len(at) else 0


def _unordered(
    context: Context, ends: StorageEnds, one: int, others: NDArray[np.int64], span: tuple[Numbers, Numbers]
) -> Iterator[Batch]:  # fmt: skip
    """Show that a storage is not ordered against others: both are live at a step, or two accesses are not ordered."""
    clocks, (first, last), texts = context.clocks, span, []
    for other in others.tolist():
        early, late = (one, other) if last[one] < first[other] else (other, one)
        if first[late] <= last[early]:
            texts.append((f"(<= {first[late]} {last[early]})", Place(storages=(one, other))))
            texts.append((f"(<= {first[early]} {last[late]})", Place(storages=(one, other))))
            continue
        ours, theirs = ends.last[early][ends.last[early] >= 0], ends.first[late][ends.first[late] >= 0]
        a, b = (pair.ravel() for pair in np.meshgrid(ours, theirs))
        shown, position = clocks.shown(b, clocks.stream[a]), clocks.position[a]
        best = int(np.argmax(position - shown)) if len(a) else -1
        row = f"(unordered {int(shown[best])} {int(position[best])})" if best >= 0 else "false"
        texts.append((row, Place(storages=(one, other))))
    yield from batch_rows(texts)


def _complete(context: Context) -> Iterator[Batch]:
    """Show that the clock of each join shows all that the steps show which it follows directly, and these steps."""
    clocks = context.clocks
    join = np.repeat(np.arange(len(clocks.steps)), [len(direct) for direct in clocks.follows])
    step = np.array(clocks.steps, np.int64)[join]
    followed = np.array([p for direct in clocks.follows for p in direct], np.int64)
    for stream in range(int(clocks.stream.max(initial=-1)) + 1):
        at = np.full(len(join), stream)
        columns = [clocks.shown(step, at), clocks.shown(followed, at), count_reached(clocks, followed, at)]
        yield from call_for_each_row("complete", columns, lambda i: Place(step=clocks.steps[int(join[i])]))
