"""A running total over the steps of an arena never exceeds a stated value, and reaches it at a stated step.

Used for the live bytes (`peak`) and for the number of live storages (`slot_count`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from proofs.certificate.slots import Changes, running
from proofs.lemmas.plan import chains
from proofs.obligations.context import StorageContext
from proofs.obligations.rows import Batch, Chain, Place, false, listed, number, walk

TERMS = 50
"""The most storages that one cell adds up."""
LEMMAS: tuple[str, ...] = (
    "level_stays_below_the_ceiling",
    "level_reaches_its_end",
    "levels_join",
    *chains.lemmas_of("level"),
)


def reached(
    context: StorageContext, arena: int, amount: NDArray[np.uint64], ceiling: int, step: int
) -> Iterator[Batch]:
    """A cell for each step at which the total changes, and a row for the total at `step`. `amount` is by storage."""
    changes = context.certificate.changes[arena]
    if not _complete(context, arena, changes):
        yield from false(Place())
        return
    size, frees, step_of = amount[changes.storage].tolist(), changes.frees.tolist(), changes.step
    total = running([-x if f else x for x, f in zip(size, frees, strict=True)])
    # One cell for what changes at one step, up to some number; what is freed comes first.
    new = np.ones(len(size), np.bool_)
    new[1:] = step_of[1:] != step_of[:-1]
    first = np.flatnonzero(new)
    new |= (np.arange(len(size)) - np.repeat(first, np.diff([*first, len(size)]))) % TERMS == 0
    cell = np.append(np.flatnonzero(new), len(size))
    split = int(np.searchsorted(step_of[cell[:-1]], min(step, context.last) + 1))

    def cells(lo: int, hi: int) -> list[str]:
        texts = []
        bounds, at = cell[lo : hi + 1].tolist(), step_of[cell[lo:hi]].tolist()
        for when, (a, b) in zip(at, pairwise(bounds), strict=True):
            texts.append(f"{when} {_net(size[a:b], frees[a:b].count(True))}")
        return texts

    def state(position: int) -> str:
        return f"{int(step_of[cell[position]])} {number(total[cell[position + 1]])}"

    chain = Chain(
        "level", np.array([0, split, len(cell) - 1]), cells,
        states=lambda at: [state(position) for position in at.tolist()],
        initial=lambda part: state(split - 1) if part and split else "0 0",
        constants=lambda _: f" {ceiling}",
    )  # fmt: skip

    def place(lo: int, hi: int) -> Place:
        return Place(storages=changes.storage[cell[lo] : cell[hi]].tolist(), step=int(step_of[cell[lo]]))

    yield from walk(chain, place)
    # The first part ends where the changes up to the stated step end: its total is the total at that step.
    reached = number(total[int(cell[split])])
    yield from listed([(f"(and (= {ceiling} {reached}) (<= {step} {context.last}))", Place(step=step))])


def _net(sizes: list[int], frees: int) -> str:
    """What a cell adds to the total, as a term: first come the sizes that are freed.

    >>> _net([5], 0), _net([5], 1), _net([5, 7, 8], 2), _net([7, 8], 0)
    ('5', '(- 0 5)', '(- 8 5 7)', '(+ 7 8)')
    """
    freed, born = sizes[:frees], sizes[frees:]
    gain = str(born[0]) if len(born) == 1 else f"(+ {' '.join(map(str, born))})" if born else "0"
    return f"(- {gain} {' '.join(map(str, freed))})" if freed else gain


def _complete(context: StorageContext, arena: int, changes: Changes) -> bool:
    """Whether the evidence lists each storage of the arena once when it is born and once after it died."""
    s = context.placement.storages
    members = np.flatnonzero(s.arena == arena)
    for frees, when in ((False, s.birth), (True, s.death)):
        mine = changes.frees == frees
        storage = changes.storage[mine]
        if not np.array_equal(np.sort(storage), members):
            return False
        if not np.array_equal(changes.step[mine], when[storage].astype(np.int64) + frees):
            return False
    return True
