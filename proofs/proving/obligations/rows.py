"""Represent what an obligation asks about a plan as rows: SMT-LIB terms that a solver evaluates, in large batches.

A row is a call of a short function (a *macro*, or a chain of `proofs.proving.lemmas.plan.chains`) with numbers of the
plan. Every number comes from a Python int, so that nothing can be injected and nothing is rounded. A batch records the
tensors, storages and step of each of its rows, to name them if one is false. spec: V4.1
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from proofs.proving.lemmas.plan.chains import WIDTHS
from tmmu.core.columns import find_distinct

BATCH = 4000
"""Rows, or cells of chains, in one batch. Fewer cost more round trips, more cost the solver memory."""

Column = NDArray[np.integer[Any]]
"""Numbers of one kind, one for each row."""


class Place(NamedTuple):
    """The subject of a row: rows of the plan's tables, and a step."""

    tensors: Sequence[int] = ()
    storages: Sequence[int] = ()
    step: int | None = None


class Batch(NamedTuple):
    """Rows for one query.

    `place(i)` is the subject of the i-th; `weight` is the number of the plan's rows that they cover.
    """

    rows: list[str]
    place: Callable[[int], Place]
    weight: int


class Unprovable(Exception):
    """This obligation has no proof for this plan; the message gives the reason."""


def format_calls(template: str, columns: Sequence[Column]) -> list[str]:
    """Fill the template with the numbers of each row, as Python ints.

    >>> format_calls("(f %d %d)", [np.array([1, 2]), np.array([3, 4])])
    ['(f 1 3)', '(f 2 4)']
    """
    return [template % numbers for numbers in zip(*(column.tolist() for column in columns), strict=True)]


def format_integer(value: int) -> str:
    """Return an integer as an SMT-LIB term, which has no negative literals.

    >>> format_integer(7), format_integer(-7)
    ('7', '(- 7)')
    """
    return str(value) if value >= 0 else f"(- {-value})"


def call_for_each_row(macro: str, columns: Sequence[Column], place: Callable[[int], Place]) -> Iterator[Batch]:
    """Yield one call of `macro` for each row of `columns`. No number may be negative."""
    template = f"({macro}{' %d' * len(columns)})"
    for first in range(0, len(columns[0]), BATCH):
        rows = format_calls(template, [column[first : first + BATCH] for column in columns])
        yield Batch(rows, _shifted(place, first), len(rows))


def call_for_each_distinct_row(macro: str, columns: Sequence[Column], place: Callable[[int], Place]) -> Iterator[Batch]:
    """Yield one call of `macro` for each *different* row of `columns`: equal calls mean the same."""
    order = np.lexsort(columns)
    new = np.ones(len(order), np.bool_)
    new[1:] = False
    for column in columns:
        new[1:] |= column[order[1:]] != column[order[:-1]]
    first = order[new]
    yield from call_for_each_row(macro, [column[first] for column in columns], lambda i: place(int(first[i])))


def _shifted(place: Callable[[int], Place], first: int) -> Callable[[int], Place]:
    return lambda i: place(first + i)


def batch_rows(rows: Sequence[tuple[str, Place]]) -> Iterator[Batch]:
    """Yield a few given rows, each with its place, in batches."""
    for first in range(0, len(rows), BATCH):
        part = rows[first : first + BATCH]
        yield Batch([text for text, _ in part], _nth([place for _, place in part]), len(part))


def _nth(places: Sequence[Place]) -> Callable[[int], Place]:
    return lambda i: places[i]


def false_rows(*places: Place) -> Iterator[Batch]:
    """Yield rows that cannot hold, one for each place, for a fault that no number expresses."""
    return batch_rows([("false", place) for place in places])


def combine_small_batches(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yield the same rows in fewer batches: small batches are combined until they are worth a query."""
    small: list[Batch] = []
    for batch in batches:
        small.append(batch)
        if sum(one.weight for one in small) >= BATCH:
            yield _joined(small)
            small = []
    if small:
        yield _joined(small)


def _joined(batches: list[Batch]) -> Batch:
    ends = list(accumulate(len(batch.rows) for batch in batches))

    def place(i: int) -> Place:
        which = bisect_right(ends, i)
        return batches[which].place(i - (ends[which - 1] if which else 0))

    rows = [row for batch in batches for row in batch.rows]
    return Batch(rows, place, sum(batch.weight for batch in batches))


class Chain(NamedTuple):
    """Lists of cells, one after the other in common columns. The function `call` walks each list.

    List g is cells `bounds[g]` to `bounds[g + 1]`. `cells(lo, hi)` are the fields of cells lo to hi,
    `states(positions)` the states after the cells at those positions, `initial(g)` the state before list g, and
    `constants(g)` the parameters that do not change along it. All of them are texts.
    """

    call: str
    bounds: NDArray[np.int64]
    cells: Callable[[int, int], list[str]]
    states: Callable[[NDArray[np.int64]], list[str]]
    initial: Callable[[int], str]
    constants: Callable[[int], str]


def walk_chain(chain: Chain, place: Callable[[int, int], Place]) -> Iterator[Batch]:
    """Yield the lists of a chain in rows of `WIDE` cells, then of fewer, each from the state that ended the last one.

    `place(lo, hi)` is the subject of cells lo to hi. Those are the cells of a row and the cell before them, whose state
    it continues. Empty lists yield no row.
    """
    low, high, group = _pieces(chain.bounds)
    starts = chain.bounds[group] == low
    cuts = [*find_distinct(low // BATCH)[1].tolist(), len(low)]
    for first, last in pairwise(cuts):
        part = slice(first, last)
        lo, hi, groups = low[part].tolist(), high[part].tolist(), group[part].tolist()
        cells = chain.cells(lo[0], hi[-1])
        before = chain.states(np.where(starts[part], low[part], low[part] - 1))
        after = chain.states(high[part] - 1)
        rows = []
        for a, b, g, begins, came, goes in zip(lo, hi, groups, starts[part].tolist(), before, after, strict=True):
            state = chain.initial(g) if begins else came
            inside = " ".join(cells[a - lo[0] : b - lo[0]])
            rows.append(f"({chain.call}_of_{b - a} {state} {goes}{chain.constants(g)} {inside})")
        since = (low[part] - ~starts[part]).tolist()
        yield Batch(rows, _stretch(place, since, hi), hi[-1] - lo[0])


def _stretch(place: Callable[[int, int], Place], lo: list[int], hi: list[int]) -> Callable[[int], Place]:
    return lambda i: place(lo[i], hi[i])


def _pieces(bounds: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the first and last cell (exclusive) and the list of each row: wide rows first, then narrower ones.

    Cells are counted from 0.
    """
    lengths = np.diff(bounds)
    group = np.repeat(np.arange(len(lengths)), lengths)
    nth = np.arange(len(group)) - bounds[group]
    width = np.ones(len(nth), np.int64)
    for wide in WIDTHS[1:]:
        width[nth < (lengths // wide * wide)[group]] = wide
    low = np.flatnonzero(nth % width == 0)
    return low, low + width[low], group[low]
