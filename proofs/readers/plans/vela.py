"""The tables that Vela prints with `--verbose-allocation`: for each memory its buffers, with lifetimes and addresses.

Tensors that Vela gives one live range are rows with the same times and addresses, and one buffer here. Both times are
included, since Vela counts the bytes in use so. After a table Vela prints the bytes that it takes, and after the last
one a summary of the network. A file without them was cut off. spec: FP1.15, FP6.10 to FP6.12, FP6.15, FP6.19
"""

from __future__ import annotations

import re
from typing import NamedTuple

from proofs.readers.plans.foreign_plan import ForeignPlan, FreshNames
from tmmu.core.columns import NONE, Names
from tmmu.core.source import Source
from tmmu.core.vocabulary import UINT64_END
from tmmu.plans.allocation import Arena, Buffers
from tmmu.plans.building import build_storages
from tmmu.plans.reading import LIFETIMES_STATED, Reading
from tmmu.plans.sections import BufferPlan

HEADER = ["Start Time - End Time", "Start Addr - End Addr", "Tensor Size", "Memory Usage"]
"""The columns that come first."""
LATER = (["Format", "Name"], ["Purpose", "Name"], ["Purpose", "Format", "Name"])
"""The columns after these. Of their cells only the name is read."""
WORD = re.compile(r"[\w+\-]+", re.ASCII)
"""A cell that is not read."""
TITLE = re.compile(
    r"(?:Allocation, memory (?P<memory>[^,:]+), usage mask: [\w|]+"
    r"|Tensor Allocation for (?:mem_area (?P<area>[^,:]+), .*|(?P<purpose>[^,:]+)):)", re.ASCII,
)  # fmt: skip
PEAK = re.compile(
    r"Allocation Peak (Memory Usage|Tensor Size): +(\d{1,20}) "
    r"(?:bytes == [\d.]+ KiB|\( *0x[0-9a-fA-F]+\) Bytes +[\d.]+ KiB)", re.ASCII,
)  # fmt: skip
"""The lines after a table. If there are both lines, as the older compilation core prints them, the first has the most
bytes that live at once, and the second the memory; the other core calls the memory `Peak Tensor Size`.
"""
OVERHEAD = re.compile(r"Allocation Overhead: +\d+ Bytes \([\d.]+ %\)", re.ASCII)
"""The line that the older core prints after both."""
IGNORED = re.compile(r"#*|(?:Warning|Info): .*")
"""The lines outside of tables that say nothing of memory."""
SUMMARY = re.compile(r"Network summary for .+")
"""The line after the last table."""
STATISTIC = re.compile(r"|[A-Z][\w\-/. ]*(?: {2,}| = )[\w.]+(?: .*)?", re.ASCII)
"""A line after the summary."""
LINE_VISITS = 10
"""The visits that a line counts."""
SHOWN = 8
UNKNOWN_LINE = "run vela with --verbose-allocation and no other option that prints"


def is_header(line: str) -> bool:
    """Decide whether a line is the header of a table."""
    cells = [" ".join(cell.split()) for cell in line.split(":")]
    return cells[: len(HEADER)] == HEADER and cells[len(HEADER) :] in LATER


class _Row(NamedTuple):
    arena: int
    birth: int
    death: int
    first: int
    end: int


def read(source: Source) -> ForeignPlan:
    """Return the buffers of all tables. Raises INVALID_PLAN with the line. O(bytes)."""
    arenas, memories, ends = list[str](), FreshNames(), list[tuple[str, int]]()
    peaks: list[dict[str, int]] = []
    is_whole = False
    rows: dict[_Row, list[str]] = {}
    title, columns = "memory", 0
    lines = source.text().splitlines()
    source.bound(len(lines))
    for number, line in enumerate(lines, 1):
        place = f"line {number}"
        source.count_work(LINE_VISITS + len(line) // 32, place)
        if is_whole:
            if not STATISTIC.fullmatch(line):
                raise source.refuse("expected a line of the summary", place, UNKNOWN_LINE)
        elif start := TITLE.fullmatch(line):
            title, columns = next(filter(None, start.groups())).strip(), 0
        elif is_header(line):
            arenas.append(memories(title))
            ends.append((place, 0))
            peaks.append({})
            columns = line.count(":")
        elif peaks and (found := PEAK.fullmatch(line)) and found[1] not in peaks[-1]:
            peaks[-1][found[1]] = int(found[2])
            columns = 0
        elif columns and not SUMMARY.fullmatch(line) and not IGNORED.fullmatch(line):
            row, name = _row(source, line, columns, len(arenas) - 1, place)
            rows.setdefault(row, []).append(name)
            ends[-1] = place, max(ends[-1][1], row.end)
        elif SUMMARY.fullmatch(line):
            is_whole, columns = True, 0
        elif IGNORED.fullmatch(line):
            columns = 0
        elif not (peaks and peaks[-1] and OVERHEAD.fullmatch(line)):
            raise source.refuse("expected a table of Vela's, or its summary", place, UNKNOWN_LINE)
    for (place, end), taken in zip(ends, peaks, strict=True):
        if not taken:
            raise source.truncated_error("this table ends without its line Allocation Peak", place)
        size = taken.get("Memory Usage", taken.get("Tensor Size"))
        if size != end:
            raise source.truncated_error(f"the rows of this table end at byte {end}, and it takes {size} bytes", place)
    if not rows:
        raise source.refuse("no table has a row", None, "run vela with --verbose-allocation")
    if not is_whole:
        raise source.truncated_error(
            "no line Network summary for … is behind the tables, so that a further one may be missing"
        )
    return _plan(source, arenas, rows)


def _row(source: Source, line: str, columns: int, arena: int, place: str) -> tuple[_Row, str]:
    cells = [cell.strip() for cell in line.split(":", columns)]
    if len(cells) <= columns:
        raise source.refuse(f"expected {columns + 1} columns, got {len(cells)}", place)
    times, addresses = ([part.strip() for part in cell.split("-")] for cell in cells[:2])
    texts = [*((text, 10) for text in times), *((text, 16) for text in addresses), (cells[2], 10)]
    numbers = [number for text, base in texts if (number := _number(text, base)) is not None]
    if (
        (len(times), len(addresses), len(numbers)) != (2, 2, 5)
        or _number(cells[3], 10) is None
        or (not all(WORD.fullmatch(cell) for cell in cells[4:-1]))
    ):
        raise source.refuse("expected two times, two addresses and a size, such as `0 - 3: 0x10 - 0x20: 16`", place)
    birth, death, first, end, size = numbers
    if not birth <= death < NONE or not first <= end < UINT64_END or end - first != size:
        raise source.refuse("a time or address ends before it begins, or the size is another one", place)
    return _Row(arena, birth, death, first, end), cells[-1]


def _number(text: str, base: int) -> int | None:
    digits = text.removeprefix("0x") if base == 16 else text
    known = "0123456789abcdefABCDEF" if base == 16 else "0123456789"
    return int(digits, base) if 0 < len(digits) <= 20 and set(digits) <= set(known) else None


def _plan(source: Source, arenas: list[str], rows: dict[_Row, list[str]]) -> ForeignPlan:
    unique = FreshNames()
    names = [unique(", ".join(dict.fromkeys(found))) for found in rows.values()]
    table = build_storages([(row.arena, row.end - row.first, 1, row.birth, row.death, row.first) for row in rows])
    limit = () if source.capacity is None else (source.capacity,)
    memories = tuple(Arena(name, *limit) for name in arenas)
    shared = [name for name, found in zip(names, rows.values(), strict=True) if len(found) > 1]
    shown = "; ".join(shared[:SHOWN]) + (f" and {len(shared) - SHOWN} more" if len(shared) > SHOWN else "")
    text = f"rows with the same times and addresses are one live range: {shown}"
    outside = {} if limit else {"capacity of the memories": "the file states none, and --capacity is not given"}
    reading = Reading("Vela's table", LIFETIMES_STATED, (text,) if shared else (), outside)
    return ForeignPlan(BufferPlan(Buffers(memories, table, (), Names.of(names))), reading)
