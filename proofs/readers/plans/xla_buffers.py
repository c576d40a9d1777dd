"""XLA's buffer assignment as text: allocations, and the slice of one that each value has.

Each line is an allocation, a value of the allocation above it, or belongs to one of the lists that some versions print
after them, which repeat the module; any other line is refused. spec: FP4.1, FP4.3, FP4.9, FP4.12, FP4.16
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from proofs.readers.plans.hlo_module import HloModule
from proofs.readers.plans.hlo_text import BLANKS, HloLine, Index, Shape, is_like, part
from tmmu.core.source import Source
from tmmu.plans.allocation import Arena

CONTROL = ("while", "conditional", "call", "async-start")
"""Operations that run computations whose values have slices of the module's allocations."""

ALLOCATION = re.compile(r"allocation (\d{1,9}): (?:0x[0-9a-f]+, )?size (\d{1,19})", re.ASCII)
PROPERTY = re.compile(
    r", (?:(color) (\d{1,9})|(parameter) (\d{1,9})|(constant|thread-local|maybe-live-out|preallocated-temp)"
    r"|((?:output shape is|shape) \|))",
    re.ASCII,
)
"""A property of an allocation; after the last one is a shape, which repeats that of a value."""
AT_INDEX = re.compile(r"\|(?: at ShapeIndex \{[\d,]*\})?", re.ASCII)
UNKNOWN_SHAPE = re.compile(r"<unknown shape>", re.ASCII)
VALUE = re.compile(
    r" value: <\d+ ([\w.\-]+)(?:\{([\d,]*)\})?(?: \(\w+\))? @(\d{1,9})> \(size=(\d{1,19}),offset=(\d{1,19})\):",
    re.ASCII,
)
KEPT = ("parameter", "constant", "maybe-live-out")
"""Properties of allocations that outlive the module."""
TOTAL = re.compile(r"Total bytes used: \d+ \([\d.]+\w*\)", re.ASCII)
GROUPED = r"\d+(?: \d{3})*"
"""A number with a blank between thousands, as the breakdown of the peak has them."""
REPEATED = re.compile(
    r"Used values:|<\d+ [\w.\-]+(?:\{[\d,]*\})?(?: \(\w+\))? @\d+>| positions:| uses:"
    r"|  [\w.\-]+(?: \{[\d,]*\})?|  [\w.\-]+, operand \d+(?: \{[\d,]*\})?| from instruction: .*"
    r"|HloLiveRange \(max \d+\):|  InstructionSequence:|    \d+:[\w.\-]+|  BufferLiveRange:"
    r"|    [\w.\-]+(?:\{[\d,]*\})?:\d+-\d+|  Live ranges at \d+ \(peak\):"
    r"|    [\w.\-]+(?:\{[\d,]*\})?: \d+ bytes(?: \(cumulative: \d+ bytes\))?"
    rf"|  Stack trace breakdown for peak usage: {GROUPED} bytes"
    rf"|    .* \([\d.]+%, total: {GROUPED} bytes, current: {GROUPED} bytes, remaining: {GROUPED} bytes\)",
    re.ASCII,
)
"""The lines after the total, of versions that list each value with its uses and its live range. They repeat the
module, and results that follow from it.
"""

Key = tuple[str, Index]


class Slice(NamedTuple):
    """The place of a value: the row of its allocation's arena, and the bytes there."""

    arena: int
    offset: int
    size: int


class StatedValue(NamedTuple):
    """A value as its line states it: the number of the line, and the shape of the value."""

    line: int
    shape: Shape


class Assignment(NamedTuple):
    """Allocations as arenas, and the slice of each value by instruction and index.

    `thread_local` are the slices of allocations that threads own; their `arena` is the number of the allocation.
    `temporary` are the rows of allocations that are neither the caller's nor constant: they end with the module.
    """

    source: Source
    arenas: list[Arena]
    slices: dict[Key, Slice]
    thread_local: dict[Key, Slice]
    temporary: list[int]
    stated: dict[Key, StatedValue]


class _Allocation(NamedTuple):
    number: int
    size: int
    color: str
    is_local: bool


def read_assignment(source: Source) -> Assignment:
    """Return the assignment that a dump states. Raises INVALID_PLAN with the line. O(bytes). spec: FP4.1, FP4.3"""
    found = Assignment(source, [], {}, {}, [], {})
    lines = _lines(source)
    first = next(lines, HloLine(source, "", 1))
    if first.text != "BufferAssignment:" or first.number != 1:
        raise source.refuse("expected BufferAssignment: in the first line", "line 1")
    numbers: set[int] = set()
    current: _Allocation | None = None
    for line in lines:
        if TOTAL.fullmatch(line.text):
            _repeated(lines)
            break
        if line.text.startswith("allocation "):
            current = _allocation(line, found)
            if current.number in numbers:
                raise line.refuse(f"allocation {current.number} twice")
            numbers.add(current.number)
        elif current is None:
            raise line.refuse("expected an allocation", "give the dump as XLA writes it")
        else:
            _value(line, found, current)
    return found


def _lines(source: Source) -> Iterator[HloLine]:
    """Yield the lines that are not blank, each counted."""
    for number, text in enumerate(source.text().split("\n"), 1):
        source.count_work(8 + len(text) // 8, f"line {number}")
        if text.strip(BLANKS):
            yield HloLine(source, text.rstrip(BLANKS), number)


def _allocation(line: HloLine, found: Assignment) -> _Allocation:
    """Read `allocation N: size BYTES, PROPERTY, …:`."""
    head = ALLOCATION.match(line.text)
    if head is None:
        raise line.refuse("expected an allocation with its size")
    line.at = head.end()
    color, properties = "0", set[str]()
    while stated := PROPERTY.match(line.text, line.at):
        line.at = stated.end()
        color = stated[2] or color
        properties |= {word for word in (stated[3], stated[5]) if word}
        if stated[6]:
            if line.take(UNKNOWN_SHAPE) is None:
                line.shape()
            if line.take(AT_INDEX) is None:
                raise line.refuse("expected the end of the shape of the allocation")
    line.expect(":", "a known property of the allocation, or the end of the line")
    line.end()
    number, size, is_local = int(head[1]), int(head[2]), "thread-local" in properties
    if not is_local:
        if properties.isdisjoint(KEPT):
            found.temporary.append(len(found.arenas))
        space = f" in memory space {color}" if color != "0" else ""
        found.arenas.append(Arena(f"allocation {number}{space}", max(1, size)))
    return _Allocation(number, size, color, is_local)


def _value(line: HloLine, found: Assignment, allocation: _Allocation) -> None:
    """Read ` value: <ID NAME{INDEX} @COLOR> (size=BYTES,offset=BYTE): SHAPE`."""
    value = VALUE.match(line.text)
    if value is None:
        raise line.refuse("expected an allocation or a value", "give the dump as XLA writes it")
    line.at = value.end()
    shape = line.shape()
    line.end()
    if value[3] != allocation.color:
        raise line.refuse(f"a value of memory space {value[3]} in an allocation of {allocation.color}")
    key = value[1], line.index(value[2] or "")
    if key in found.stated:
        raise line.refuse(f"{value[1]}{{{value[2] or ''}}} has two slices")
    found.stated[key] = StatedValue(line.number, shape)
    size, offset = int(value[4]), int(value[5])
    if allocation.size == 0 and size:
        raise line.refuse(f"{value[1]} has bytes, and its allocation has none")
    if allocation.is_local:
        found.thread_local[key] = Slice(allocation.number, offset, size)
        if offset + size > allocation.size:
            raise line.refuse(f"{value[1]} ends beyond its allocation")
    else:
        found.slices[key] = Slice(len(found.arenas) - 1, offset, size)


def _repeated(lines: Iterable[HloLine]) -> None:
    """Read the lists that some versions have after the total."""
    for line in lines:
        if REPEATED.fullmatch(line.text) is None:
            raise line.refuse("expected a line of the list of used values")


def check_values(assignment: Assignment, module: HloModule) -> None:
    """Refuse an assignment with a value that the module does not have, or has with another shape, or whose slice is of
    a thread and not of the module. Raises INVALID_PLAN with the line. O(values + instructions). spec: FP4.1, FP4.16
    """
    source = assignment.source
    by_name = {each.name: each for one in module.computations.values() for each in one.instructions}
    running = computations_of_module(module)
    of = {each.name: name for name, one in module.computations.items() for each in one.instructions}
    for (name, index), (line, shape) in assignment.stated.items():
        source.count_work(2 + len(shape) + len(by_name[name].shape if name in by_name else ()))
        if name not in by_name or not is_like(part(by_name[name].shape, index), shape):
            what = "has another shape in the module" if name in by_name else "is not in the module"
            raise source.refuse(f"{name}{{{','.join(map(str, index))}}} {what}", f"line {line}", BOTH)
        if (name, index) in assignment.thread_local and of[name] in running:
            raise source.refuse(f"{name} has a slice of a thread, but is not a value of a kernel", f"line {line}")


BOTH = "give both files of one dump"


def computations_of_module(module: HloModule) -> frozenset[str]:
    """Return the computations that run as parts of the module, and not inside of a kernel. O(instructions)."""
    found, todo = {module.entry}, [module.entry]
    while todo:
        for each in module.computations[todo.pop()].instructions:
            called = (name for names in each.called.values() for name in names) if each.op in CONTROL else ()
            for name in called:
                if name not in found:
                    found.add(name)
                    todo.append(name)
    return frozenset(found)


def find_shared_by_threads(assignment: Assignment) -> list[tuple[str, str]]:
    """Return pairs of values in thread-local allocations that have a byte in common. O(n log n)."""
    found, last, end = [], ("", -1), 0
    for (name, _), place in sorted(assignment.thread_local.items(), key=lambda item: item[1]):
        if place.arena == last[1] and place.size and place.offset < end:
            found.append((last[0], name))
        if place.arena != last[1] or place.offset + place.size > end:
            last, end = (name, place.arena), place.offset + place.size
    return found
