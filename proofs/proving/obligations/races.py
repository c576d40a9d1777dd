"""Show that no two accesses race: each is ordered after the last ones that it could disturb, and after what it reads.

Rows compare the clock of each join with the clocks of the steps that it follows directly, so that a clock shows only
what happens before. Then one row for each two accesses that follow one another in a byte asks the clock of the later
one whether the earlier one happens before it, and one for each read of a view or of a tensor without bytes whether it
is made before. The accesses of the caller are before and after all others.
spec: X5.2, X5.3, X5.8, X5.13, V4.3
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from proofs.proving.certificate.clocks import Clocks, Numbers
from proofs.proving.certificate.turns import find_turns
from proofs.proving.lemmas.plan import streams
from proofs.proving.obligations.context import Context
from proofs.proving.obligations.rows import Batch, Place, call_for_each_distinct_row, call_for_each_row

SENTENCE = (
    "Two accesses of a byte by different steps, one of them a write, are ordered by happens-before, and each tensor is"
    " made before another step reads it."
)
LEMMAS: tuple[str, ...] = (
    "a_clock_shows_what_happens_before", "what_a_join_shows_happens_before_later_steps",
    "the_last_accesses_of_a_byte_are_enough",
)  # fmt: skip
DEFINITIONS = streams.ORDERED


def rows(context: Context) -> Iterator[Batch]:
    """Yield a row for each number of a join's clock, and one for each two accesses that must be ordered."""
    clocks = context.clocks
    yield from clock_rows(clocks)
    turns = find_turns(context.plan.allocation, context.permissions.views)
    if not turns:
        return
    earlier, later, tensor, other = np.array(turns, np.int64).T
    columns = [clocks.position[earlier], clocks.shown(later, clocks.stream[earlier])]

    def place(i: int) -> Place:
        return Place((int(tensor[i]), int(other[i])), step=int(earlier[i]))

    yield from call_for_each_distinct_row("ordered", columns, place)


def clock_rows(clocks: Clocks) -> Iterator[Batch]:
    """Yield rows that each clock shows no more than a step that the join follows directly."""
    join, stream = np.nonzero(clocks.clock)
    if not len(join):
        return
    through = clocks.through[join, stream]
    columns = [clocks.clock[join, stream], clocks.shown(through, stream), count_reached(clocks, through, stream)]
    yield from call_for_each_row("clocked", columns, lambda i: Place(step=clocks.steps[int(join[i])]))


def count_reached(clocks: Clocks, step: Numbers, stream: Numbers) -> Numbers:
    """Return the number of steps of a stream up to and including a step, or 0 if it is on another stream."""
    found: Numbers = np.where(clocks.stream[step] == stream, clocks.position[step] + 1, 0)
    return found
