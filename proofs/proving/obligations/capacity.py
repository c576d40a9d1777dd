"""Show that every storage ends within its arena's claimed footprint, and within its capacity.

The footprint is exactly the end of the last storage. If addresses are scattered over 64 bits, storages end within 64
bits, and the footprint is the sum of the largest storage at each address. All sums are exact integers, so that an end
beyond 64 bits is beyond every capacity instead of wrapping to a small number. The arenas of a memory are placed in it
one behind the other. spec: V1.3, A3.1, A1.3, A2.4, A8.6, M3.10
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from proofs.definition.checker.arenas import places
from proofs.proving.obligations.context import StorageContext
from proofs.proving.obligations.rows import Batch, Place, batch_rows, call_for_each_distinct_row
from tmmu.plans.allocation import Arena
from tmmu.plans.sections import Usage

SENTENCE = "Every storage ends within its arena's footprint, that within its capacity, and arenas within their memory."
LEMMAS: tuple[str, ...] = ()
TERMS = 50
"""The maximum number of sizes that one row adds."""
DEFINITIONS = """
(define-fun ends_within ((offset Int) (bytes Int) (footprint Int)) Bool (<= (+ offset bytes) footprint))
(define-fun ends_in_64_bits ((offset Int) (bytes Int) (footprint Int)) Bool
  (<= (+ offset bytes) 18446744073709551616))
(define-fun ends_at ((offset Int) (bytes Int) (footprint Int)) Bool (= (+ offset bytes) footprint))
(define-fun holds_footprint ((footprint Int) (capacity Int)) Bool
  (and (<= footprint capacity) (< capacity 18446744073709551616)))
(define-fun lies_behind ((before Int) (needs Int) (base Int) (alignment Int) (footprint Int) (capacity Int)) Bool
  (and (<= (+ before needs) base) (= 0 (mod base alignment)) (<= (+ base footprint) capacity)))
"""


def rows(context: StorageContext) -> Iterator[Batch]:
    """Yield a row for each distinct extent of a storage, and two for each arena, or three if it shares a memory."""
    s, arenas = context.placement.storages, context.placement.arenas
    usage = [Usage()] * len(arenas) if context.claims is None else context.claims.usage
    # A storage of zero bytes counts as one byte (T7), as its slot does.
    extent = np.maximum(s.bytes, np.uint64(1))
    ends = [
        arena.capacity if used.footprint is None else used.footprint for arena, used in zip(arenas, usage, strict=True)
    ]
    end = np.array(ends, np.uint64)
    wide = np.array([arena.scattered for arena in arenas], np.bool_)[s.arena]
    for macro, some in (("ends_within", np.flatnonzero(~wide)), ("ends_in_64_bits", np.flatnonzero(wide))):
        columns = [s.offset[some], extent[some], end[s.arena[some]]]
        yield from call_for_each_distinct_row(macro, columns, lambda i, some=some: Place(storages=(int(some[i]),)))  # type: ignore[misc]  # a default binds the loop's value
    found: list[tuple[str, Place]] = []
    needed = []
    for a, (arena, used) in enumerate(zip(arenas, usage, strict=True)):
        members = np.flatnonzero(s.arena == a)
        row, total = _needed(arena, s.offset[members], extent[members])
        needed.append(total if used.footprint is None else used.footprint)
        found.append((f"(holds_footprint {needed[a]} {arena.capacity})", Place(storages=members[:1].tolist())))
        if arena.scattered:
            found += _sum(row, needed[a])
        elif used.footprint is not None and row:
            highest = members[int(np.argmax(s.offset[members] + (extent[members] - np.uint64(1))))]
            at = f"{int(s.offset[highest])} {int(extent[highest])}"
            found.append((f"(ends_at {at} {used.footprint})", Place(storages=(int(highest),))))
        elif used.footprint is not None:
            found.append((f"(= 0 {used.footprint})", Place()))
    configuration = None if context.claims is None else context.claims.configuration
    if configuration is not None:
        strictest = np.array([max(arena.alignment, arena.base_alignment) for arena in arenas], np.uint64)
        np.maximum.at(strictest, s.arena, s.alignment)
        for at_ in places(configuration, needed, strictest.tolist()):
            row_ = f"{at_.before} {at_.needs} {at_.base} {at_.alignment} {needed[at_.arena]} {at_.capacity}"
            place = Place(storages=np.flatnonzero(s.arena == at_.arena)[:1].tolist())
            found.append((f"(lies_behind {row_})", place))
    yield from batch_rows(found)


def _needed(arena: Arena, offset: NDArray[np.uint64], extent: NDArray[np.uint64]) -> tuple[list[int], int]:
    """Return the extents that an arena's bytes are the sum of: one for each scattered address, or else only the end."""
    if not len(offset):
        return [], 0
    if not arena.scattered:
        end = max(o + x for o, x in zip(offset.tolist(), extent.tolist(), strict=True))
        return [end], end
    order = np.lexsort((extent, offset))
    last = np.append(offset[order][1:] != offset[order][:-1], True)
    sizes = extent[order][last].tolist()
    return sizes, sum(sizes)


def _sum(sizes: list[int], total: int) -> Iterator[tuple[str, Place]]:
    """Yield rows that state that `sizes` add up to `total`, a few sizes at a time."""
    so_far = 0
    for first in range(0, len(sizes), TERMS):
        some = sizes[first : first + TERMS]
        yield f"(= {so_far + sum(some)} (+ {so_far} {' '.join(map(str, some))}))", Place()
        so_far += sum(some)
    yield f"(= {so_far} {total})", Place()
