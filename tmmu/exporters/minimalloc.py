"""Offsets for a set of buffers in MiniMalloc's CSV: the same file with the column `offset` filled in.

An offset that a row already states is fixed. A gap is a time during which the bytes of the buffer are free for others.
A gap with a window is ignored, which may cost bytes but is never wrong. spec: FP3.8, FP3.9, FP3.10
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tmmu.core.source import Source
from tmmu.core.vocabulary import UINT64_END, ArenaConfiguration, Role
from tmmu.planner import fixed
from tmmu.planner.allocation import allocate
from tmmu.planner.layouts.around import merge_intervals
from tmmu.planner.layouts.boxes import build_boxes
from tmmu.planner.problem import AllocationProblem, Fixed
from tmmu.plans.sections import BOUNDS, PlacementBound

ARENA = "memory"
"""The name of the only arena of a CSV."""
ALIASES = {"begin": "lower", "start": "lower", "end": "upper", "buffer": "id", "buffer_id": "id"}
"""Other names of columns. The verifier's reader has a separate table."""
NEEDED = ("id", "lower", "upper", "size")
FREE = ("", "-1")
"""The values in the column `offset` of a buffer without a fixed offset."""


@dataclass(frozen=True)
class PlacedBuffers:
    """The file with offsets, the bytes that they need, those live at the peak, and the bound of a search, if any.

    `fixed` are the offsets that the file stated, by id; `windows` is the number of gaps with a window.
    """

    data: bytes
    footprint: int
    peak: int
    buffers: int
    fixed: dict[str, int]
    windows: int
    bound: PlacementBound | None

    @property
    def shown(self) -> str:
        """The summary that the command prints."""
        found = f"{self.buffers} buffers in {self.footprint} bytes, {self.peak} of them live at the peak"
        if self.bound is not None:
            found += f"; no placement is below {self.bound.bytes} ({BOUNDS[self.bound.by]})"
        return found + (f"; {self.windows} gaps with a window were ignored" if self.windows else "")


@dataclass
class _Buffers:
    """The columns of a set; times are half-open, as in the file."""

    name: list[str] = field(default_factory=list)
    lower: list[int] = field(default_factory=list)
    upper: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    alignment: list[int] = field(default_factory=list)
    gaps: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    fixed: dict[int, Fixed] = field(default_factory=dict)
    windows: int = 0


def place_buffers(
    source: Source,
    alignment: int = 1,
    effort: int | None = None,
    capacity: int | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> PlacedBuffers:
    """Give each buffer of a set an offset, by the layout `packed`. Cost: that of `allocate`, and O(bytes).

    Raises INVALID_PLAN with file and line for a file that is not such a set; ARENA_TOO_SMALL, after a search with the
    proof that nothing fits; and the exceptions of `planner.fixed.check` for offsets that the file states.
    """
    lines, header, found = _read(source)
    moments = sorted(
        {*found.lower, *found.upper, *(edge for gaps in found.gaps.values() for gap in gaps for edge in gap)}
    )
    at = {moment: step for step, moment in enumerate(moments)}
    n = len(found.name)
    arena = ArenaConfiguration(ARENA, (Role.ACTIVATION,), UINT64_END - 1 if capacity is None else capacity, alignment)
    problem = AllocationProblem(
        (arena,), found.name, found.size, found.alignment,
        [at[lower] for lower in found.lower], [at[upper] - 1 for upper in found.upper], [(0,)] * n, [0] * n,
        fixed=found.fixed,
        gaps={i: tuple((at[low], at[high] - 1) for low, high in gaps) for i, gaps in found.gaps.items()},
    )  # fmt: skip
    fixed.check_fixed(problem)
    _, solution = allocate(problem, "packed", effort=effort, stopped=stopped)
    column = header.index("offset") if "offset" in header else len(header)
    rows = [line.split(",") for line in lines[1:]]
    for row, offset in zip(rows, solution.offset, strict=True):
        row[column:] = [str(offset), *row[column + 1 :]]
    head = lines[0] if "offset" in header else f"{lines[0]},offset"
    return PlacedBuffers(
        "".join(f"{line}\n" for line in (head, *map(",".join, rows))).encode(), solution.footprint[0],
        build_boxes(problem, list(range(n)), alignment).peak(), n,
        {one.tensor: one.offset for one in found.fixed.values()}, found.windows, next(iter(solution.bounds), None),
    )  # fmt: skip


def _read(source: Source) -> tuple[list[str], list[str], _Buffers]:
    """Return the lines of the file, the canonical names of its columns, and the set. spec: FP3.1, FP3.2, FP3.8"""
    lines = source.text().replace("\r\n", "\n").rstrip("\n").split("\n")
    stated = [cell.strip() for cell in lines[0].split(",")]
    header = [ALIASES.get(cell, cell) for cell in stated]
    known = (*NEEDED, "alignment", "hint", "gaps", "offset")
    if len(set(header)) != len(header) or not set(NEEDED) <= set(header) <= set(known):
        raise source.refuse(f"expected the columns {', '.join(NEEDED)}, and {', '.join(known[4:])} if any", "line 1")
    found, seen = _Buffers(), set[str]()
    for number, line in enumerate(lines[1:], 2):
        source.bound(number)
        row = dict(zip(header, (cell.strip() for cell in line.split(",")), strict=False))
        try:
            if line.count(",") + 1 != len(header) or not row["id"] or row["id"] in seen:
                raise ValueError(f"expected {len(header)} cells and a unique id")
            seen.add(row["id"])
            _add(found, row, "end" in stated)
        except ValueError as error:
            raise source.refuse(str(error), f"line {number}") from error
    return lines, header, found


def _add(found: _Buffers, row: dict[str, str], is_inclusive: bool) -> None:
    """Add one buffer. Raises ValueError if the row is invalid."""
    i = len(found.name)
    lower, upper = _parse_number(row["lower"]), _parse_number(row["upper"]) + is_inclusive
    gaps: list[tuple[int, int]] = []
    for item in row.get("gaps", "").split():
        steps, _, window = item.partition("@")
        low, high = (_parse_number(part) for part in steps.split("-", 1)) if "-" in steps else (0, 0)
        high += is_inclusive
        first, end = (_parse_number(part) for part in window.split(":", 1)) if ":" in window else (0, 0)
        if not lower <= low <= high <= upper or (":" in window) != bool(window) or "-" not in steps:
            raise ValueError(f"expected a gap such as 3-5 or 3-5@0:64 within the lifetime, got {item!r}")
        if first < end:
            found.windows += 1
        elif low < high:
            gaps.append((low, high))
    gaps = merge_intervals(gaps)
    if gaps and gaps[0][0] == lower:
        lower = gaps.pop(0)[1]
    if gaps and gaps[-1][1] == upper:
        upper = gaps.pop()[0]
    alignment = _parse_number(row.get("alignment") or "1")
    if lower >= upper or alignment < 1 or alignment & (alignment - 1):
        raise ValueError("expected a lifetime of a step or more, and an alignment that is a power of two")
    if gaps:
        found.gaps[i] = gaps
    if (stated := row.get("offset", "")) not in FREE:
        found.fixed[i] = Fixed(_parse_number(stated), row["id"])
    for column, value in (
        ("lower", lower),
        ("upper", upper),
        ("size", _parse_number(row["size"])),
        ("alignment", alignment),
    ):
        getattr(found, column).append(value)
    found.name.append(row["id"])


def _parse_number(text: str) -> int:
    """Parse a decimal integer of 64 bits. Raises ValueError."""
    if not (text.isascii() and text.isdigit() and len(text) <= 20 and int(text) < UINT64_END):
        raise ValueError(f"expected an integer of 64 bits, got {text!r}")
    return int(text)
