"""MiniMalloc's CSV, which idealloc reads and writes too: buffers with half-open lifetimes, and an offset for each.

A buffer with gaps is several storages at its offset: all of its bytes outside of the gaps, and the stated window inside
of each. MiniMalloc's own `--validate` accepts overlaps in a gap without a step. Here such a gap does not count.
spec: FP1.15, FP3.1 to FP3.6, FP3.12
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from proofs.readers.plans.foreign_plan import ForeignPlan
from tmmu.core.columns import NONE, Names
from tmmu.core.source import Source
from tmmu.core.vocabulary import UINT64_END
from tmmu.plans.allocation import Arena, Buffers
from tmmu.plans.building import build_storages
from tmmu.plans.reading import LIFETIMES_STATED, Reading
from tmmu.plans.sections import BufferPlan

ROW_VISITS, GAP_VISITS = 9, 6
"""The visits that a row and a gap count."""
ARENA = "memory"
"""The one arena; the format has no name for it."""
ALIASES = {"begin": "lower", "start": "lower", "end": "upper", "buffer": "id", "buffer_id": "id"}
NEEDED = ("id", "lower", "upper", "size", "offset")
OPTIONAL = ("alignment", "hint", "gaps")
BLANKS = " \t"
"""The characters that may be around a cell."""


class _Gap(NamedTuple):
    """Steps from `lower` up to, but without, `upper`. Bytes `first` to, but without, `end` are in use then."""

    lower: int
    upper: int
    first: int
    end: int


class _Piece(NamedTuple):
    """A storage: part of a buffer, for part of its lifetime."""

    name: str
    lower: int
    upper: int
    first: int
    size: int


def read(source: Source) -> ForeignPlan:
    """Return the buffers of a file that has offsets. O(bytes).

    Raises INVALID_PLAN with FILE, line and column of the table.
    """
    return _Reading(source).plan()


class _Reading:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.line = 1
        self.empty_gaps: list[str] = []

    def plan(self) -> ForeignPlan:
        lines = self.source.text().replace("\r\n", "\n").rstrip("\n").split("\n")
        self.source.bound(len(lines))
        header = [cell.strip(BLANKS) for cell in lines[0].split(",")]
        columns = self.columns(header)
        is_inclusive = "end" in header
        names: dict[str, None] = {}
        rows: list[tuple[int, ...]] = []
        for self.line, text in enumerate(lines[1:], 2):
            self.source.count_work(ROW_VISITS + len(text) // 32, f"line {self.line}")
            if not text.strip():
                raise self.refuse("a blank line before further rows, where MiniMalloc stops reading", "remove it")
            cells = [cell.strip(BLANKS) for cell in text.split(",")]
            if len(cells) != len(header):
                raise self.refuse(f"expected {len(header)} cells, got {len(cells)}")
            row = {name: cells[k] for name, k in columns.items()}
            name = row["id"]
            if not name or '"' in name or not name.isprintable():
                raise self.refuse(f"the id {name!r} is empty, or not a name", "give each buffer a unique id")
            if row.get("hint") and not _is_integer(row["hint"].removeprefix("-")):
                raise self.refuse(f"expected an integer as hint, got {row['hint']!r}")
            size, offset = self.integer(row, "size"), self.integer(row, "offset")
            alignment = self.integer(row, "alignment", 1) if row.get("alignment") else 1
            if alignment & (alignment - 1):
                raise self.refuse(f"the alignment {alignment} is not a power of two", "only those are checked")
            for piece in self.pieces(row, name, size, is_inclusive):
                # The address of a buffer is aligned; a window may begin at any byte.
                aligned = alignment if piece.first == 0 else 1
                rows.append((0, piece.size, aligned, piece.lower, piece.upper - 1, offset + piece.first))
                if piece.name in names:
                    what = f"the id {piece.name!r} is stated twice, or that of a part of another buffer"
                    raise self.refuse(what, "give each buffer a unique id")
                names[piece.name] = None
            if offset + size >= UINT64_END:
                raise self.refuse("the buffer ends beyond 64 bits")
            self.source.bound(len(rows))
        limit = self.source.capacity
        arena = Arena(ARENA) if limit is None else Arena(ARENA, limit)
        plan = BufferPlan(Buffers((arena,), build_storages(rows), (), Names.of(list(names))))
        return ForeignPlan(plan, self.reading(columns))

    def reading(self, columns: dict[str, int]) -> Reading:
        outside = {"hint": "it places nothing"} if "hint" in columns else {}
        if self.source.capacity is None:
            outside["capacity of the memory"] = "the file states none, and --capacity is not given"
        shown = ", ".join(self.empty_gaps[:8]) + (", …" if len(self.empty_gaps) > 8 else "")
        assumptions = (f"gaps without a step are none: {shown}",) if shown else ()
        return Reading("MiniMalloc CSV", LIFETIMES_STATED, assumptions, outside)

    def columns(self, header: list[str]) -> dict[str, int]:
        """Return the position of each column, by its proper name. spec: FP3.1"""
        found: dict[str, int] = {}
        for k, cell in enumerate(header):
            name = ALIASES.get(cell, cell)
            if name in found or name not in (*NEEDED, *OPTIONAL):
                construct = "" if name in found else f"column {cell[:60]}"
                raise self.refuse(f"column {cell!r} is not one of MiniMalloc's, or stated twice", construct=construct)
            found[name] = k
        for name in NEEDED:
            if name not in found:
                fix = "a file without offsets is a problem, not a plan" if name == "offset" else None
                raise self.refuse(f"no column {name!r}", fix)
        return found

    def pieces(self, row: dict[str, str], name: str, size: int, is_inclusive: bool) -> Iterator[_Piece]:
        """Yield the storages of a buffer: one, or those around and inside of its gaps. spec: FP3.3, FP3.4"""
        lower, upper = self.integer(row, "lower"), self.integer(row, "upper") + is_inclusive
        if not lower < upper < NONE:
            raise self.refuse(f"expected a lifetime of a step or more below {NONE}, got {lower} to {upper}")
        gaps = [gap for gap in self.gaps(row.get("gaps", ""), name, size, is_inclusive) if gap.lower < gap.upper]
        at, k = lower, 0
        for gap in sorted(gaps):
            if not at <= gap.lower < gap.upper <= upper:
                raise self.refuse(f"the gap {gap.lower}-{gap.upper} overlaps another one or is outside of the lifetime")
            if at < gap.lower:
                yield _Piece(f"{name} part {k}" if k else name, at, gap.lower, 0, size)
                k += 1
            if gap.first < gap.end:
                yield _Piece(f"{name} part {k}" if k else name, gap.lower, gap.upper, gap.first, gap.end - gap.first)
                k += 1
            at = gap.upper
        if at < upper:
            yield _Piece(f"{name} part {k}" if k else name, at, upper, 0, size)

    def gaps(self, text: str, name: str, size: int, is_inclusive: bool) -> Iterator[_Gap]:
        """Yield gaps, `a-b` or `a-b@lo:hi`, separated by blanks. Those without a step are listed as an assumption."""
        for item in text.split():
            self.source.count_work(GAP_VISITS)
            steps, _, window = item.partition("@")
            first, _, last = steps.partition("-")
            low, colon, high = window.partition(":") if window else ("0", ":", "0")
            parts = (first, last, low, high)
            if not colon or not all(_is_integer(part) for part in parts):
                raise self.refuse(f"expected a gap such as 3-5 or 3-5@0:64, got {item!r}")
            lower, upper, begin, end = map(int, parts)
            upper += is_inclusive
            if not begin <= end <= size:
                raise self.refuse(f"the window of the gap {item!r} is outside of the buffer")
            if lower >= upper:
                self.empty_gaps.append(f"{item} of {name}")
            yield _Gap(lower, upper, begin, end)

    def integer(self, row: dict[str, str], column: str, low: int = 0) -> int:
        text = row[column]
        if not _is_integer(text) or not low <= int(text) < UINT64_END:
            raise self.refuse(f"expected an integer from {low} to {UINT64_END - 1} as {column}, got {text!r}")
        return int(text)

    def refuse(self, what: str, fix: str | None = None, *, construct: str = "") -> Exception:
        return self.source.refuse(what, f"line {self.line}", fix, construct=construct)


def _is_integer(text: str) -> bool:
    """Decide whether a text has only decimal digits, few enough that Python reads them. spec: FP2.4"""
    return text.isascii() and text.isdigit() and len(text) <= 20
