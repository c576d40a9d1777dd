"""Random buffers with live ranges: what a planner of offsets is given if it sees no graph. spec: TP1.2, TP1.3"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from hypothesis import strategies as st

from tmmu.core.alignment import align_up
from tmmu.core.vocabulary import UINT64_END
from tmmu.testing.buffer import TimedBuffer

SMALL = (1, 2, 0, 3, 4, 8, 7, 5, 16, 12, 10, 9)
"""Sizes that are drawn most, the simplest first: ties are frequent, and so are sizes that no alignment divides."""
MEDIUM = (64, 63, 65, 100, 128, 127, 255, 256, 1000, 1024, 4095, 4096)
LARGE = (
    1 << 16,
    (1 << 16) + 1,
    1 << 20,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    (1 << 32) + 1,
    3 << 31,
    1 << 33,
)
"""Sizes around which 16, 31 and 32 bits overflow, alone or in a sum."""
ALIGNMENTS = (1, 1, 2, 4, 8, 16, 64, 256, 4096)
STEPS = 8
"""How many steps live ranges begin at, and how long they are: few, so that many ranges touch."""
SHAPES = ("any", "any", "chain", "together", "nested")
LARGEST = 1 << 33


class _Row(NamedTuple):
    """A buffer to be: small integers, each of which means something whatever the others are.

    Few draws make examples quick, and each integer shrinks by itself: to the first step, to one step, to one byte.
    """

    place: int
    size: int
    marks: int

    @property
    def first(self) -> int:
        """The step at which it begins, before it is shifted to fit a shape."""
        return self.place % STEPS

    @property
    def length(self) -> int:
        """The number of further steps."""
        return self.place // STEPS

    @property
    def alignment(self) -> int:
        """Its alignment, if there are any."""
        return ALIGNMENTS[self.marks % len(ALIGNMENTS)]


@st.composite
def buffers(
    draw: st.DrawFn,
    *,
    most: int = 24,
    largest: int = LARGEST,
    alignments: bool = False,
    gaps: bool = False,
    fixed: bool = False,
) -> list[TimedBuffer]:
    """Return a strategy for lists of `TimedBuffer` in any order, sometimes empty.

    Live ranges touch, nest, form chains, all cross at one step, or are anywhere. Sizes are often 0, often equal,
    and sometimes so large that 32 bits overflow.

    Parameters
    ----------
    most
        The most buffers.
    largest
        The largest size. `largest=1 << 63` draws sizes near the end of 64 bits; all buffers side by side still fit.
    alignments
        Whether buffers have alignments up to 4096.
    gaps
        Whether the bytes of some are free for others for some steps between their first and last.
    fixed
        Whether some have an offset at which they must begin. They leave room for the others.
    """
    marks = st.integers(0, 255) if alignments or gaps or fixed else st.just(0)
    drawn = st.builds(_Row, st.integers(0, STEPS * STEPS - 1), st.integers(0, 255), marks)
    few, many = st.lists(drawn, max_size=min(most, 4)), st.lists(drawn, min_size=min(most, 5), max_size=most)
    rows = draw(st.one_of(few, many))
    shape = SHAPES[draw(st.integers(0, len(SHAPES) - 1))]
    how = draw(st.integers(0, 15))
    stretch, start, is_reversed = (1000 if how & 3 == 3 else 1), (5 if how & 4 else 0), bool(how & 8)
    sizes = _sizes(largest)
    room = UINT64_END - 1 - len(rows) * ALIGNMENTS[-1]
    found: list[TimedBuffer] = []
    before = 0
    for k, row in enumerate(rows):
        first, last = _range(shape, row, k, before)
        before = last
        size = min(sizes[row.size * len(sizes) // 256], room)
        room -= size
        first, last = first * stretch + start, last * stretch + start
        found.append(TimedBuffer(
            f"b{len(rows) - 1 - k if is_reversed else k}", first, last, size,
            row.alignment if alignments else 1, _gaps(row, first, last) if gaps and row.marks & 32 else (),
        ))  # fmt: skip
    if fixed:
        at = first_fit(found)
        found = [
            replace(b, offset=at[b.name]) if row.marks & 192 == 192 else b for b, row in zip(found, rows, strict=True)
        ]
    return found


def _gaps(row: _Row, first: int, last: int) -> tuple[tuple[int, int], ...]:
    """Return a gap of all steps but the ends, of one beside an end, or one beside each; none in a short range."""
    begin, end = first + 1, last - 1
    if begin > end:
        return ()
    chosen = ((begin, end),), ((begin, begin),), ((end, end),), ((begin, begin), (end, end))
    return chosen[row.marks % 4 if begin + 1 < end else 0]


def _sizes(largest: int) -> tuple[int, ...]:
    """Return the sizes to choose from, most of them small."""
    extremes = (largest, largest - 1, largest // 2 + 1) if largest > LARGEST else (largest,)
    listed = (*SMALL * 8, *MEDIUM * 2, *LARGE, *extremes * (6 if largest > LARGEST else 1))
    return tuple(size for size in listed if size <= largest)


def _range(shape: str, row: _Row, k: int, before: int) -> tuple[int, int]:
    """Return the first and last step of the k-th buffer, after one that ends at `before`."""
    if shape == "chain":
        return before, before + min(row.length, 2)
    if shape == "together":
        return min(row.first, 3), 3 + row.length
    if shape == "nested":
        return k % 20, 40 - k % 20 + row.length % 2
    return row.first, row.first + row.length


def first_fit(buffers: Sequence[TimedBuffer], order: Sequence[int] | None = None) -> dict[str, int]:
    """Return a right placement: each buffer, in an order, at the lowest offset that is free. O(n^2 log n)."""
    placed: list[tuple[int, int, TimedBuffer]] = [
        (b.offset, b.offset + b.bytes, b) for b in buffers if b.offset is not None
    ]
    found = {b.name: b.offset for b in buffers if b.offset is not None}
    for k in range(len(buffers)) if order is None else order:
        buffer = buffers[k]
        if buffer.offset is not None:
            continue
        at = 0
        for low, end, other in sorted(placed, key=lambda each: each[:2]):
            if low < at + buffer.bytes and at < end and are_live_together(buffer, other):
                at = align_up(end, buffer.alignment)
        found[buffer.name] = at
        placed.append((at, at + buffer.bytes, buffer))
    return found


def are_live_together(one: TimedBuffer, other: TimedBuffer) -> bool:
    """Return whether two buffers are needed at one step.

    >>> are_live_together(TimedBuffer("a", 0, 1, 8), TimedBuffer("b", 1, 2, 8))
    True
    """
    return any(a <= d and c <= b for a, b in one.pieces() for c, d in other.pieces())
