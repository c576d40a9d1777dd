"""Show that a running total over the steps of an arena never exceeds a stated value, and reaches it at a stated step.

It is used for the live bytes (`peak`) and for the number of live storages (`slot_count`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from proofs.proving.certificate.slots import Changes, running_totals
from proofs.proving.lemmas.plan import chains
from proofs.proving.lemmas.plan.chains import BLOCK
from proofs.proving.obligations.context import StorageContext
from proofs.proving.obligations.rows import (
    BATCH,
    Batch,
    Chain,
    Place,
    batch_rows,
    false_rows,
    format_integer,
    walk_chain,
)

TERMS = 50
"""The maximum number of storages that one cell adds."""
LEMMAS: tuple[str, ...] = (
    "level_stays_below_the_ceiling",
    "level_reaches_its_end",
    "levels_join",
    "level_in_block_is_enough",
    *chains.lemmas_of("level"),
)


def level_rows(
    context: StorageContext, arena: int, amount: NDArray[np.uint64], ceiling: int, step: int
) -> Iterator[Batch]:
    """Yield a cell for each step that changes the total, and a row for the total at `step`. `amount` is by storage.

    If the total is well below the ceiling, one row has the cells of `BLOCK` steps. In such a row, the amounts that are
    born and freed are literals without a sign.
    """
    changes = context.certificate.changes[arena]
    if not _complete(context, arena, changes):
        yield from false_rows(Place())
        return
    size, frees, step_of = amount[changes.storage].tolist(), changes.frees.tolist(), changes.step
    total = running_totals([-x if f else x for x, f in zip(size, frees, strict=True)])
    # A cell has the changes of one step, up to some number, with the freed sizes first.
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
        return f"{int(step_of[cell[position]])} {format_integer(total[cell[position + 1]])}"

    def place(lo: int, hi: int) -> Place:
        return Place(storages=changes.storage[cell[lo] : cell[hi]].tolist(), step=int(step_of[cell[lo]]))

    born = list(accumulate((0 if f else x for x, f in zip(size, frees, strict=True)), initial=0))
    ends: list[int] = cell.tolist()

    def fits(first: int) -> bool:
        """Whether the total stays below the ceiling in a block of cells even if all births come first."""
        at_first, at_next, end = ends[first], ends[first + 1], ends[first + BLOCK]
        freed = total[at_first] + born[at_next] - born[at_first] - total[at_next]
        return total[at_first] + born[end] - born[at_first] <= ceiling + freed

    def block(first: int) -> str:
        """Return the row of a block of cells."""
        bounds = list(pairwise(ends[first : first + BLOCK + 1]))
        split_at = [lo + frees[lo:hi].count(True) for lo, hi in bounds]
        births = [_sum(size[middle:hi]) for middle, (_, hi) in zip(split_at, bounds, strict=True)]
        freed = [_sum(size[lo:middle]) for middle, (lo, _) in zip(split_at, bounds, strict=True)]
        at = " ".join(map(str, step_of[cell[first : first + BLOCK]].tolist()))
        around = f"{state(first - 1) if first else '0 0'} {state(first + BLOCK - 1)} {ceiling}"
        return f"(level_in_block {around} {at} {' '.join(births)} {' '.join(freed)})"

    count = len(cell) - 1
    starts = [*range(0, split - BLOCK + 1, BLOCK), *range(split, count - BLOCK + 1, BLOCK)]
    blocks = [first for first in starts if fits(first)]
    for k in range(0, len(blocks), BATCH // BLOCK):
        some = blocks[k : k + BATCH // BLOCK]
        yield Batch(list(map(block, some)), _of_block(place, some), BLOCK * len(some))
    # The cells outside of blocks, a list for each run of them.
    left = np.ones(count, np.bool_)
    left[(np.array(blocks, np.int64)[:, None] + np.arange(BLOCK)).ravel()] = False
    rest = np.flatnonzero(left)
    apart = np.ones(len(rest), np.bool_)
    apart[1:] = rest[1:] != rest[:-1] + 1
    begins = np.flatnonzero(apart | (rest == split))
    chain = Chain(
        "level", np.append(begins, len(rest)),
        cells=lambda lo, hi: [text for at in rest[lo:hi].tolist() for text in cells(at, at + 1)],
        states=lambda at: [state(position) for position in rest[at].tolist()],
        initial=lambda part: state(int(rest[begins[part]]) - 1) if rest[begins[part]] else "0 0",
        constants=lambda _: f" {ceiling}",
    )  # fmt: skip
    yield from walk_chain(chain, lambda lo, hi: place(int(rest[lo]), int(rest[hi - 1]) + 1))
    # The first part ends with the changes up to the stated step, so that its total is the total at that step.
    reached = format_integer(total[int(cell[split])])
    yield from batch_rows([(f"(and (= {ceiling} {reached}) (<= {step} {context.last}))", Place(step=step))])


def _of_block(place: Callable[[int, int], Place], blocks: list[int]) -> Callable[[int], Place]:
    return lambda i: place(max(0, blocks[i] - 1), blocks[i] + BLOCK)


def _sum(sizes: list[int]) -> str:
    """Return a sum as a term.

    >>> _sum([]), _sum([5]), _sum([5, 7])
    ('0', '5', '(+ 5 7)')
    """
    return str(sizes[0]) if len(sizes) == 1 else f"(+ {' '.join(map(str, sizes))})" if sizes else "0"


def _net(sizes: list[int], frees: int) -> str:
    """Return what a cell adds to the total, as a term. The sizes that are freed come first in `sizes`.

    >>> _net([5], 0), _net([5], 1), _net([5, 7, 8], 2), _net([7, 8], 0)
    ('5', '(- 0 5)', '(- 8 5 7)', '(+ 7 8)')
    """
    freed, born = sizes[:frees], sizes[frees:]
    return f"(- {_sum(born)} {' '.join(map(str, freed))})" if freed else _sum(born)


def _complete(context: StorageContext, arena: int, changes: Changes) -> bool:
    """Whether the evidence lists each storage of the arena once at its birth and once after its death."""
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
