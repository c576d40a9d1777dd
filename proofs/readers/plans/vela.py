"""The tables that Vela prints with `--verbose-allocation`: for each memory its buffers, with lifetimes and addresses.

Tensors that Vela gives one live range are rows with the same times and addresses, and one buffer here. Both times are
included: so Vela counts the bytes that are in use. Behind a table Vela prints the bytes that it takes, and behind the
last one a summary of the network; a file without them was cut off. spec: FP6.10 to FP6.12, FP6.15
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

HEADER = ("Start Time -", "Start Addr -", "Tensor Size", "Memory Usage")
"""How the columns begin that come first; the last one is the name, those between are not read."""
TITLES = ("Allocation, memory ", "Tensor Allocation for mem_area ", "Tensor Allocation for ")
PEAK = re.compile(r"Allocation Peak (?:Memory Usage|Tensor Size): +(\d{1,20}) (?:bytes|\(.*\) Bytes) ", re.ASCII)
"""What stands behind a table. Where both lines do, as the older compilation core prints them, the first is the most
bytes that live at once, and the second the memory; the other core calls the memory `Peak Tensor Size`.
"""
SUMMARY = "Network summary for "
"""What stands behind the last table."""
LINE_VISITS = 10
"""What a line counts."""
SHOWN = 8


def is_header(line: str) -> bool:
    """Whether a line is the header of a table."""
    cells = line.split(":")
    return len(cells) > len(HEADER) and all(
        cell.strip().startswith(title) for cell, title in zip(cells, HEADER, strict=False)
    )


class _Row(NamedTuple):
    arena: int
    birth: int
    death: int
    first: int
    end: int


def read(source: Source) -> ForeignPlan:
    """The buffers of all tables. Raises INVALID_PLAN with the line. O(bytes)."""
    arenas, memories, ends = list[str](), FreshNames(), list[tuple[str, int]]()
    taken: dict[int, int] = {}
    is_whole = False
    rows: dict[_Row, list[str]] = {}
    title, columns = "memory", 0
    lines = source.text().splitlines()
    source.bound(len(lines))
    for number, line in enumerate(lines, 1):
        source.count_work(LINE_VISITS + len(line) // 32, f"line {number}")
        start = next((each for each in TITLES if line.startswith(each)), None)
        if start is not None:
            title, columns = line[len(start) :].partition(",")[0].strip(" :"), 0
        elif is_header(line):
            arenas.append(memories(title))
            ends.append((f"line {number}", 0))
            columns = line.count(":")
        elif columns and line[:1] in " 0123456789" and line.strip():
            row, name = _row(source, line, columns, len(arenas) - 1, f"line {number}")
            rows.setdefault(row, []).append(name)
            ends[-1] = f"line {number}", max(ends[-1][1], row.end)
        else:
            if arenas and (found := PEAK.match(line)):
                taken[len(arenas) - 1] = int(found[1])
            is_whole |= line.startswith(SUMMARY)
            columns = 0
    for k, (place, end) in enumerate(ends):
        if k not in taken:
            raise source.truncated_error("this table ends without its line Allocation Peak", place)
        if taken[k] != end:
            raise source.truncated_error(
                f"the rows of this table end at byte {end}, and it takes {taken[k]} bytes", place
            )
    if not rows:
        raise source.refuse("no table has a row", None, "run vela with --verbose-allocation")
    if not is_whole:
        raise source.truncated_error(f"no line {SUMMARY}… is behind the tables, so that a further one may be missing")
    return _plan(source, arenas, rows)


def _row(source: Source, line: str, columns: int, arena: int, place: str) -> tuple[_Row, str]:
    cells = [cell.strip() for cell in line.split(":", columns)]
    if len(cells) <= columns:
        raise source.refuse(f"expected {columns + 1} columns, got {len(cells)}", place)
    times, addresses = ([part.strip() for part in cell.split("-")] for cell in cells[:2])
    texts = [*((text, 10) for text in times), *((text, 16) for text in addresses), (cells[2], 10)]
    numbers = [number for text, base in texts if (number := _number(text, base)) is not None]
    if (len(times), len(addresses), len(numbers)) != (2, 2, 5):
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
