"""Show that every access of every step and of the caller is in its tensor's lifetime, and each read after its write.

Lifetimes are not recomputed and compared. A row for each tensor asks whether the stated lifetime covers the first and
the last of its reads, and so those between. A row for each write asks whether it covers the write. For a tensor that is
born at its one write, one row asks both. The operands, captures and results of a loop live from its enter to its leave,
because any iteration may access them. The stated writer of a tensor is the step that writes it, and the caller writes
what no step writes.
spec: V1.4, V1.7, V2.3, T1.1, T1.2, T1.3, T1.4, T1.5, T1.6, T8.2, T8.3, T8.4, T8.5, T8.9, X4.3, X4.4, X4.5, X4.8, M1.1,
I1.10, V1.18
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from proofs.proving.lemmas.plan import merged
from proofs.proving.obligations.arms import Accesses, Mask, Rows
from proofs.proving.obligations.context import CALLER, Context, Loop, span
from proofs.proving.obligations.rows import Batch, Place, call_for_each_row, false_rows
from proofs.readers.arrivals import find_late_inputs, find_wrong_arrivals
from tmmu.core.columns import are_among, find_distinct
from tmmu.core.vocabulary import Role
from tmmu.plans.columns import IS_INPUT, ROLES

SENTENCE = "Every access falls into the lifetime of its tensor, each read after its write."
LEMMAS: tuple[str, ...] = ("what_is_used_is_written_and_read",)
DEFINITIONS = f"""{merged.READS_AND_WRITES}{merged.USED}
(define-fun uses ((birth Int) (death Int) (writer Int) (first Int) (last Int)) Bool
  (and (<= birth first) (<= first last) (<= last death) (<= writer first)))
(define-fun touches ((birth Int) (death Int) (first Int) (last Int)) Bool
  (and (<= birth first) (<= first last) (<= last death)))
(define-fun given ((birth Int) (entitled Int)) Bool (and (= 0 birth) (= 1 entitled)))
(define-fun spans ((birth Int) (death Int) (enter Int) (leave Int)) Bool (and (<= birth enter) (<= leave death)))
"""
GIVEN = tuple(ROLES.index(role) for role in (Role.INPUT, Role.PARAMETER, Role.OPTIMIZER))
"""The roles of the tensors that the caller writes before step 0."""


def rows(context: Context) -> Iterator[Batch]:
    """Yield rows for the span of each tensor's reads, for each write, for the caller's accesses, and for loops."""
    yield from false_rows(*(Place(step=step) for step in context.faults))
    used = _used(context)
    yield from _accesses(context, "used", used[context.reads.tensor], context.reads)
    yield from _read(context, ~used[context.reads.tensor])
    yield from _written(context, ~used[context.writes.tensor])
    yield from _caller(context)
    for loop in context.loops:
        kept = _kept(context, loop)
        t = context.plan.allocation.tensors
        ends = [np.full(len(kept), step) for step in loop]
        yield from call_for_each_row("spans", [t.birth[kept], t.death[kept], *ends], _at(Accesses(ends[0], kept)))


def _used(context: Context) -> Mask:
    """Mark the tensors that are written once, at their birth by their stated writer, and are read after that."""
    reads, writes, writer = context.reads, context.writes, context.writer
    count, birth = len(writer), context.plan.allocation.tensors.birth
    made = ~context.changes & (writes.step == writer[writes.tensor])
    used: Mask = (writer == birth) & (np.bincount(reads.tensor, minlength=count) > 0)
    used &= context.plan.allocation.tensors.role != ROLES.index(Role.SCRATCH)
    used[writes.tensor[~made]] = False
    used[reads.tensor[context.ways.source != writer[reads.tensor]]] = False
    return used


def _read(context: Context, others: Mask) -> Iterator[Batch]:
    """Show that reads come after the write on every path. Only scratch may be read by the step that writes it."""
    tensor = context.reads.tensor
    given = context.writer[tensor] == CALLER
    scratch = context.plan.allocation.tensors.role[tensor] == ROLES.index(Role.SCRATCH)
    source = context.ways.source
    yield from _accesses(context, "touches", given, context.reads)
    yield from _accesses(context, "uses", ~given & scratch & others, context.reads, source)
    yield from _accesses(context, "reads", ~given & ~scratch & others, context.reads, source)
    taken, missing = context.ways.taken, context.ways.missing
    yield from _accesses(context, "touches", np.ones(len(taken.step), np.bool_), taken)
    yield from false_rows(*map(_at(missing), range(len(missing.step))))


def _written(context: Context, others: Mask) -> Iterator[Batch]:
    """Show that each tensor is written by its stated writer, later in other exclusive branches, and by mutations."""
    writes, changes, further = context.writes, context.changes, context.ways.further
    source = context.writer[writes.tensor]
    given = context.writer[writes.tensor] == CALLER
    yield from _accesses(context, "touches", given & changes, writes)
    yield from _accesses(context, "reads", ~given & changes, writes, source)
    first = ~given & ~changes & ~further & others
    made, t = writes.chosen(first), context.plan.allocation.tensors
    columns = [t.birth[made.tensor], t.death[made.tensor], source[first], made.step]
    yield from call_for_each_row("writes", columns, _at(made))
    yield from _accesses(context, "reads", further, writes, source)
    overwritten = np.flatnonzero(given & ~changes)
    again = Accesses(writes.step[overwritten], writes.tensor[overwritten])
    yield from false_rows(*map(_at(again), range(len(overwritten))))
    listed = np.zeros(len(context.writer), np.bool_)
    listed[writes.tensor[~changes]] = True
    unwritten = np.flatnonzero(~listed & (context.writer != CALLER)).tolist()
    yield from false_rows(*(Place((tensor,), step=int(context.writer[tensor])) for tensor in unwritten))
    if len(context.plan.allocation.steps.mutates) != np.count_nonzero(
        changes
    ):  # a mutation that is not a write, or is listed twice
        yield from false_rows(Place())
    changed, count = Accesses(writes.step[changes], writes.tensor[changes]), len(context.writer)
    read = are_among(changed.step * count + changed.tensor, context.reads.step * count + context.reads.tensor)
    yield from false_rows(*map(_at(changed), np.flatnonzero(~read).tolist()))


def _caller(context: Context) -> Iterator[Batch]:
    """Show that only the caller writes its tensors, before step 0, and that returned tensors live to the end.

    Inputs that arrive late are written by steps of the plan, arrivals, which do nothing else.
    """
    t = context.plan.allocation.tensors
    caller, role = context.writer == CALLER, np.isin(t.role, GIVEN)
    late = find_late_inputs(context.plan.allocation)
    wrong = [Place(() if t is None else (t,), step=n) for n, t, _ in find_wrong_arrivals(context.plan.allocation)]
    yield from false_rows(*wrong)
    caller_owned = np.flatnonzero((caller | role | (t.flags & IS_INPUT != 0)) & ~late)
    entitled = (caller & role)[caller_owned].astype(np.uint8)
    yield from call_for_each_row(
        "given", [t.birth[caller_owned], entitled], lambda i: Place((int(caller_owned[i]),), step=0)
    )
    returned = np.flatnonzero(context.returned)
    last = np.full(len(returned), context.last)
    columns = [t.birth[returned], t.death[returned], last, last]
    yield from call_for_each_row("touches", columns, lambda i: Place((int(returned[i]),), step=context.last))


def _accesses(
    context: Context, macro: str, which: Mask, accesses: Accesses, source: Rows | None = None
) -> Iterator[Batch]:
    """Yield a row for all accesses to one tensor that `which` marks: birth, death, and the first and the last access.

    With `source`, a row is for one tensor and one step that has written it, and has that step too. The place of a row
    is the last access if that is after the death, and otherwise the first.
    """
    t, chosen = context.plan.allocation.tensors, accesses.chosen(which)
    before = np.zeros(len(chosen.step), np.int64) if source is None else source[which]
    order = np.lexsort((chosen.step, before, chosen.tensor))
    step, tensor, before = chosen.step[order], chosen.tensor[order], before[order]
    new = np.ones(len(step), np.bool_)
    new[1:] = (tensor[1:] != tensor[:-1]) | (before[1:] != before[:-1])
    begins = np.flatnonzero(new)
    ends = np.append(begins[1:], len(step))[: len(begins)] - 1
    tensor, first, last = tensor[begins], step[begins], step[ends]
    birth, death, given = t.birth[tensor], t.death[tensor], [] if source is None else [before[begins]]

    def place(i: int) -> Place:
        return Place((int(tensor[i]),), step=int(last[i] if last[i] > death[i] else first[i]))

    yield from call_for_each_row(macro, [birth, death, *given, first, last], place)


def _at(accesses: Accesses) -> Callable[[int], Place]:
    return lambda i: Place((int(accesses.tensor[i]),), step=int(accesses.step[i]))


def _kept(context: Context, loop: Loop) -> Rows:
    """Return the tensors that any iteration of a loop may access: operands, captures, results and body inputs."""
    captured = []
    for accesses in (context.reads, context.writes):
        tensor = accesses.tensor[span(accesses, loop.enter, loop.leave)]
        captured.append(tensor[context.writer[tensor] <= loop.enter])
    return find_distinct(np.concatenate([*captured, context.results[loop.leave]]))[0]
