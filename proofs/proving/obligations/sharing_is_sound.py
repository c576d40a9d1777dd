"""Show that every byte of every read holds the tensor that is read, and that results take operand bytes only in place.

Only storages with several contents need more than the other obligations. In each of these, contents in the same bytes
follow one another (`holding`), and contents in other bytes are apart. If slices overlap in part, each pair of contents
is asked about. A content may replace another in the step that reads it last only as its permitted in-place result: in
the identical slice, and with no other operand of the step in these bytes. A view is exactly at its base's bytes.
spec: X4.5, X4.6, V1.5, V1.6, V1.7, V1.9, V1.10, V1.11, V1.13, V1.15, V2.1, T3.1, T3.4, T3.5, T3.6, T3.7, T3.8, T2.4
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations, pairwise

import numpy as np

from proofs.proving.lemmas.plan import chains
from proofs.proving.obligations.contents import (
    Content,
    ValueLiveRanges,
    clusters,
    last_need_of_common_bytes,
    shared_contents,
    tensors_at_step,
    value_live_ranges,
)
from proofs.proving.obligations.context import CALLER, Context, StepAccesses
from proofs.proving.obligations.rows import (
    BATCH,
    Batch,
    Chain,
    Place,
    Unprovable,
    batch_rows,
    call_for_each_row,
    false_rows,
    format_integer,
    walk_chain,
)
from tmmu.core.columns import NONE
from tmmu.core.vocabulary import Shares
from tmmu.plans.columns import SHARES

SENTENCE = "Every byte of every read holds the tensor read, and a result takes an operand's bytes only in place."
LEMMAS: tuple[str, ...] = ("every_content_is_kept", "holdings_join", *chains.lemmas_of("holding"))
DEFINITIONS = """
(define-fun shows ((storage Int) (base_storage Int) (window Int) (base_window Int) (offset Int)
                   (bytes Int) (base_bytes Int) (made Int) (base_made Int)) Bool
  (and (= storage base_storage) (= window (+ base_window offset)) (<= (+ offset bytes) base_bytes)
       (or (< base_made made) (= 0 base_made made))))
(define-fun ends_before ((window Int) (bytes Int) (next_window Int)) Bool (<= (+ window bytes) next_window))
(define-fun undisturbed ((written Int) (needed Int) (replaced Bool) (next_written Int)) Bool
  (and (< written next_written) (or (< needed next_written) (and replaced (= needed next_written)))))
(define-fun same_slice ((storage Int) (window Int) (bytes Int) (of_storage Int) (of_window Int) (of_bytes Int)) Bool
  (and (= storage of_storage) (= window of_window) (= bytes of_bytes)))
(define-fun elsewhere ((storage Int) (window Int) (bytes Int) (of_storage Int) (of_window Int) (of_bytes Int)) Bool
  (or (distinct storage of_storage) (= 0 bytes) (<= (+ window bytes) of_window) (<= (+ of_window of_bytes) window)))
"""
EFFORT_LIMIT = 2_000_000
"""A plan is not examined beyond this number of pairs of partly overlapping slices, times the tensors that show them."""
Asked = list[tuple[str, Place]]
"""Rows with their places, to be combined into batches."""


def rows(context: Context) -> Iterator[Batch]:
    """Yield a row for each tensor that is stated to share, and a cell for each content of storages with several."""
    yield from _views(context)
    yield from _stated(context)
    when = value_live_ranges(context)
    yield from _mutations(context, when)
    yield from _taken(context)
    chains: list[list[Content]] = []
    asked: Asked = []
    effort = 0
    for contents in shared_contents(context, when):
        found = list(clusters(contents))
        asked.extend(_neighbours(found))
        for cluster in found:
            in_order = sorted(cluster, key=lambda content: content.written)
            if _one_slice(cluster) or _one_after_the_other(in_order):
                chains.append(in_order)
                continue
            effort += len(cluster) * sum(len(when.tensors_showing(content.tensor)) for content in cluster)
            if effort > EFFORT_LIMIT:
                raise Unprovable("too many tensors of one storage overlap in part")
            asked.extend(_pairs(context, when, in_order))
        if len(asked) >= BATCH:
            yield from batch_rows(asked)
            asked = []
    yield from batch_rows(asked)
    yield from _holding(context, chains)


def _views(context: Context) -> Iterator[Batch]:
    """Show that each view shows its base's bytes at its offset.

    It was made after its base, or the caller wrote both.
    """
    t, links = context.plan.allocation.tensors, context.permissions.views
    view = np.array(list(links), np.int64)
    base = np.array([link[0] for link in links.values()], np.int64)
    offset = np.array([link[1] for link in links.values()], np.uint64)
    columns = (
        t.storage[view], t.storage[base], t.window[view], t.window[base], offset,
        t.bytes[view], t.bytes[base], context.writer[view] + 1, context.writer[base] + 1,
    )  # fmt: skip
    yield from call_for_each_row("shows", columns, lambda i: Place((int(view[i]), int(base[i]))))
    endless = [row for row in links if int(context.root[row]) in links]
    yield from false_rows(*(Place((row,)) for row in endless))


def _stated(context: Context) -> Iterator[Batch]:
    """Show that stated sharing is true and permitted. spec: V1.15

    A result stated in place has its operand's slice. A tensor stated as an alias begins at the first byte of the tensor
    that it names. A stated view or in-place result must be permitted.
    """
    t, permissions = context.plan.allocation.tensors, context.permissions
    pairs: list[tuple[int, int]] = []
    refused: list[Place] = []
    for row in np.flatnonzero((t.shares != SHARES.index(Shares.NONE)) & (t.of != NONE)).tolist():
        pair, shares = (row, int(t.of[row])), SHARES[int(t.shares[row])]
        if shares is Shares.ALIAS or row in permissions.in_place:
            pairs.append(pair)
        elif row not in permissions.views:
            refused.append(Place(pair))
    one, other = np.array(pairs, np.int64).reshape(-1, 2).T
    sizes = [np.where(t.shares[one] == SHARES.index(Shares.IN_PLACE), t.bytes[k], 0) for k in (one, other)]
    columns = t.storage[one], t.window[one], sizes[0], t.storage[other], t.window[other], sizes[1]
    yield from call_for_each_row("same_slice", columns, lambda i: Place(pairs[i]))
    yield from false_rows(*refused)


def _mutations(context: Context, when: ValueLiveRanges) -> Iterator[Batch]:
    """Show that a step mutates only tensors that the caller donated or a step made, and never a view.

    No view made before a mutation may be needed after it.
    """
    step, tensor = context.writes.step[context.changes], context.writes.tensor[context.changes]
    links = context.permissions.views
    refused: list[Place] = []
    mutated = defaultdict(list)
    for s, t in zip(step.tolist(), tensor.tolist(), strict=True):
        mutated[t].append(s)
        if t in links or (context.writer[t] == CALLER and not context.donated[t]):
            refused.append(Place((t,), step=s))
    for view in links if mutated else ():
        root, made, needed = int(context.root[view]), int(context.writer[view]), int(when.last_needed[view])
        steps = mutated.get(root, [])
        after = bisect_left(steps, made)
        if made < needed and after < len(steps) and steps[after] <= needed:
            refused.append(Place((view, root), step=steps[after]))
    yield from false_rows(*refused)


def _taken(context: Context) -> Iterator[Batch]:
    """Show that the results of the leave of exclusive branches are apart from the tensors that it takes. spec: X4.6

    A result may have the identical slice of an output that becomes it.
    """
    t, addresses = context.plan.allocation.tensors, context.plan.allocation.addresses()
    arena = context.plan.allocation.storages.arena[t.storage]
    taken = set(context.ways.taken.tensor.tolist())

    def place(tensor: int) -> str:
        return f"{int(arena[tensor])} {int(addresses[tensor])} {int(t.bytes[tensor])}"

    for node in context.branches:
        outputs = [r for r in node.taken if r in taken]
        written = [
            w for w in dict.fromkeys(tensors_at_step(context.writes, node.leave)) if w not in context.permissions.views
        ]
        if len(outputs) * len(written) > EFFORT_LIMIT:
            raise Unprovable("a node with exclusive branches takes and writes too many tensors")
        asked: Asked = []
        for w in written:
            for r in outputs:
                both = f"{place(w)} {place(r)}"
                may = f" (same_slice {both})" if r in node.become.get(w, ()) else ""
                asked.append((f"(or (apart {both}){may})", Place((w, r), step=node.leave)))
        yield from batch_rows(asked)


def _one_slice(cluster: list[Content]) -> bool:
    return all((c.window, c.bytes) == (cluster[0].window, cluster[0].bytes) for c in cluster)


def _one_after_the_other(in_order: list[Content]) -> bool:
    """Whether contents in different bytes can be walked like contents of the same bytes.

    They can if the last read of each is before the write of the next, so that none replaces another within a step.
    """
    return all(a.last_read < b.written for a, b in pairwise(in_order))


def _neighbours(found: list[list[Content]]) -> Iterator[tuple[str, Place]]:
    """Yield rows that each content of a cluster ends before the first byte of the next, and so of all later."""
    for cluster, after in pairwise(found):
        for content in cluster:
            yield _ends_before(content, after[0])


def _ends_before(a: Content, b: Content) -> tuple[str, Place]:
    return f"(ends_before {a.window} {a.bytes} {b.window})", Place((a.tensor, b.tensor), step=max(0, b.written))


def _pairs(context: Context, when: ValueLiveRanges, in_order: list[Content]) -> Iterator[tuple[str, Place]]:
    """Yield rows for each pair of partly overlapping contents: their common bytes are not needed when overwritten."""
    for a, b in combinations(in_order, 2):
        if a.end <= b.window or b.end <= a.window:
            yield _ends_before(*((a, b) if a.end <= b.window else (b, a)))
            continue
        needed = last_need_of_common_bytes(context, when, a, b)
        replaced = needed == b.written and _replaces(context, a, b)
        if replaced:
            yield from _in_place(context, b)
        written, until, then = (format_integer(when) for when in (a.written, needed, b.written))
        yield (
            f"(undisturbed {written} {until} {str(replaced).lower()} {then})",
            Place((a.tensor, b.tensor), step=max(0, b.written)),
        )


def _holding(context: Context, chains: list[list[Content]]) -> Iterator[Batch]:
    """Show that contents of the same bytes follow one another, and that any replacement within a step is permitted."""
    contents = [content for chain in chains for content in chain]
    bounds = np.cumsum([0, *map(len, chains)])
    begins = set(bounds.tolist())
    replaces = [False] * len(contents)
    allowed: Asked = []
    for i in range(1, len(contents)):
        a, b = contents[i - 1], contents[i]
        if i not in begins and a.last_read == b.written and _replaces(context, a, b):
            replaces[i] = True
            allowed.extend(_in_place(context, b))
    yield from batch_rows(allowed)

    def cells(lo: int, hi: int) -> list[str]:
        return [
            f"{format_integer(c.written)} {c.first_read} {format_integer(c.last_read)} {str(r).lower()}"
            for c, r in zip(contents[lo:hi], replaces[lo:hi], strict=True)
        ]

    chain = Chain(
        "holding", bounds, cells,
        states=lambda at: [
            f"{format_integer(contents[i].written)} {format_integer(contents[i].last_read)}" for i in at.tolist()
        ],
        initial=lambda _: "(- 2) (- 2)",
        constants=lambda _: "",
    )  # fmt: skip

    def place(lo: int, hi: int) -> Place:
        return Place([content.tensor for content in contents[lo:hi]], step=max(0, contents[hi - 1].written))

    yield from walk_chain(chain, place)


def _at(context: Context, step: int) -> StepAccesses:
    """Return the accesses of a step, gathered once."""
    if step not in context.at_step:
        reads: defaultdict[int, set[int]] = defaultdict(set)
        for tensor in tensors_at_step(context.reads, step):
            reads[int(context.plan.allocation.tensors.storage[tensor])].add(tensor)
        taken = frozenset(context.root[tensors_at_step(context.ways.taken, step)].tolist())
        context.at_step[step] = StepAccesses(reads, frozenset(tensors_at_step(context.writes, step)), taken)
    return context.at_step[step]


def _replaces(context: Context, a: Content, b: Content) -> bool:
    """Whether b's tensor is the permitted in-place result of an operand that shows a's, made by the step itself.

    It is not if the step also mutates a's tensor, because these would be two results in the same bytes. It is not if
    the step ends a branch and the `leave` then takes a's tensor.
    """
    operand = context.permissions.in_place.get(b.tensor)
    return (
        operand is not None
        and int(context.root[operand]) == a.tensor
        and int(context.writer[b.tensor]) == b.written
        and a.tensor not in (step := _at(context, b.written)).writes
        and a.tensor not in step.taken
    )


def _in_place(context: Context, content: Content) -> Iterator[tuple[str, Place]]:
    """Yield the rows of an in-place result: the identical slice of its operand, and no other operand in these bytes."""
    t = context.plan.allocation.tensors
    operand = context.permissions.in_place[content.tensor]

    def slice_of(tensor: int) -> str:
        return f"{int(t.storage[tensor])} {int(t.window[tensor])} {int(t.bytes[tensor])}"

    mine = slice_of(content.tensor)
    reads = _at(context, content.written).reads
    place = Place((content.tensor, operand), step=content.written)
    yield f"(same_slice {slice_of(operand)} {mine})" if operand in reads[int(t.storage[operand])] else "false", place
    for other in sorted(reads[int(t.storage[content.tensor])] - {operand}):
        place = Place((content.tensor, other), step=content.written)
        yield f"(elsewhere {slice_of(other)} {mine})", place
