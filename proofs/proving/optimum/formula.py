"""Build the formula that the storages of an arena can be placed lower. If it has no solution, they cannot.

A *lower placement* gives every storage of at least one byte an offset that is a multiple of its alignment and its
arena's. All storages end at or before `height`, and those that live at one step, or must not alias, share no byte. (A
storage without bytes shares none, and fits wherever there is one byte.) The formula has a variable for each storage and
each offset that must be tried for it, and one for each cell of a section that no storage covers:

- each storage is at one of its offsets;
- each cell of a *section*, storages that must pairwise share no byte, is covered by one of them or by none.

*Which offsets.* Take a lower placement with the least sum of offsets. There each storage is at 0, or one alignment
further down it would share a byte with a lower storage that it must not overlap. Its offset is then the end of that
storage, rounded up. The offsets that are reached from 0 by such steps are therefore enough.

*Which cells.* If two storages of a section share a byte, the one with the same or the higher offset begins within the
other. It is therefore enough that the cells at the offsets of a section are covered once.

The formula is therefore satisfiable if and only if there is a lower placement. spec: V5.6, V5.7
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from tmmu.plans.allocation import Placement

SPANS = 400
"""The maximum number of storages, and of pairs of them that must not alias, in a formula."""
LITERALS = 200_000
"""The maximum number of literals of a formula. Twenty storages have some ten thousand."""


class LiveStorage(NamedTuple):
    """A storage: its row in the plan, first and last step, bytes, and the alignment that its address must have."""

    row: int
    birth: int
    death: int
    bytes: int
    alignment: int


class Choice(NamedTuple):
    """The meaning of a variable: a storage (by number) is at an offset, or a cell of a section (by number) is free."""

    storage: int
    section: int
    offset: int


class SectionCell(NamedTuple):
    """The bytes of a section from an offset to the next one, and the variables that cover them. One of these is true.

    The last cell ends at the height, rounded up to `unit`.
    """

    offset: int
    bytes: int
    covered_by: list[int]


@dataclass(frozen=True)
class LowerPlacement:
    """The formula. Variables count from 1. In each constraint (`ones`, in that order) exactly one variable is true."""

    height: int
    unit: int
    """All offsets are multiples of this."""
    spans: tuple[LiveStorage, ...]
    choices: list[Choice]
    places: list[list[int]]
    """For each storage the variables of its offsets."""
    cells: list[list[SectionCell]]
    """For each section its cells, the lowest first."""
    members: list[list[int]]
    """For each section its storages."""

    def padded(self, storage: int) -> int:
        """Return the bytes that a storage takes from others of its section, up to the next possible offset."""
        return _multiple(self.spans[storage].bytes, self.unit)

    def ones(self) -> Iterator[list[int]]:
        """Yield the constraints: those of the storages, then of the cells, section by section."""
        yield from self.places
        for cells in self.cells:
            for cell in cells:
                yield cell.covered_by

    def opb_lines(self) -> Iterator[str]:
        """Yield the lines of the formula in the OPB format of pseudo-Boolean solvers."""
        constraints = list(self.ones())
        yield f"* #variable= {len(self.choices)} #constraint= {len(constraints)} #equal= {len(constraints)} intsize= 64"
        yield f"* storages that end at or before byte {self.height}"
        for number, choice in enumerate(self.choices, start=1):
            if choice.storage >= 0:
                yield f"* x{number}: storage {self.spans[choice.storage].row} at byte {choice.offset}"
            else:
                yield f"* x{number}: nothing of section {choice.section} at byte {choice.offset}"
        for variables in constraints:
            yield " ".join(f"1 x{number}" for number in variables) + " = 1 ;"


def live_storages_of(placement: Placement, arena: int) -> tuple[tuple[LiveStorage, ...], set[tuple[int, int]]]:
    """Return the storages of an arena that have bytes, and the pairs, by number, that may never share a byte."""
    s, strictest = placement.storages, placement.arenas[arena].alignment
    spans = tuple(
        LiveStorage(row, birth, death, size, max(own, strictest))
        for row, (home, birth, death, size, own) in enumerate(
            zip(*(column.tolist() for column in (s.arena, s.birth, s.death, s.bytes, s.alignment)), strict=True)
        )
        if home == arena and size and birth <= death
    )
    number = {span.row: i for i, span in enumerate(spans)}
    apart = {(number[a], number[b]) for a, b in placement.storages_apart() if a != b and a in number and b in number}
    return spans, apart


def build_lower_placement(
    spans: tuple[LiveStorage, ...], apart: set[tuple[int, int]], height: int
) -> LowerPlacement | None:
    """Return the formula for storages that end at or before `height`, or None if it would be too large.

    O(literals + storages³).
    """
    if len(spans) + len(apart) > SPANS:
        return None
    sections = _sections(spans, apart)
    bound: list[set[int]] = [set() for _ in spans]
    for members in sections:
        for i in members:
            bound[i].update(members)
    offsets = _offsets(spans, bound, height)
    if offsets is None:
        return None
    unit = min((span.alignment for span in spans), default=1)  # of powers of two
    end_of_all = _multiple(height, unit)
    choices, places = list[Choice](), list[list[int]]()
    for i, tried in enumerate(offsets):
        places.append(list(range(len(choices) + 1, len(choices) + len(tried) + 1)))
        choices += [Choice(i, -1, at) for at in tried]
    cells, literals = list[list[SectionCell]](), len(choices)
    for c, members in enumerate(sections):
        begins = sorted({at for i in members for at in offsets[i]})
        found = [SectionCell(at, end - at, []) for at, end in pairwise([*begins, end_of_all])]
        where = {at: k for k, at in enumerate(begins)}
        for i in members:
            for variable, at in zip(places[i], offsets[i], strict=True):
                k = where[at]
                while k < len(begins) and begins[k] < at + spans[i].bytes:
                    found[k].covered_by.append(variable)
                    k += 1
                    literals += 1
                if literals > LITERALS:
                    return None
        for cell in found:
            choices.append(Choice(-1, c, cell.offset))
            cell.covered_by.append(len(choices))
        cells.append(found)
    return LowerPlacement(height, unit, spans, choices, places, cells, sections)


def _sections(spans: Sequence[LiveStorage], apart: set[tuple[int, int]]) -> list[list[int]]:
    """Return the largest sets of storages that live at one step, and the pairs that must not alias and never do so."""
    steps = {span.birth for span in spans}
    live = {frozenset(i for i, span in enumerate(spans) if span.birth <= step <= span.death) for step in steps}
    pairs = {pair for pair in map(frozenset, apart) if not any(pair <= one for one in live)}
    return sorted(sorted(one) for one in live | pairs if not any(one < other for other in live))


def _offsets(spans: Sequence[LiveStorage], bound: Sequence[set[int]], height: int) -> list[list[int]] | None:
    """Return, for each storage, the offsets reached from 0 by ends of storages that it must not overlap."""
    found: list[set[int]] = [{0} if span.bytes <= height else set() for span in spans]
    more = [(i, 0) for i, one in enumerate(found) if one]
    for count, (i, at) in enumerate(more):
        if count > LITERALS:
            return None
        for j in bound[i] - {i}:
            there = _multiple(at + spans[i].bytes, spans[j].alignment)
            if there + spans[j].bytes <= height and there not in found[j]:
                found[j].add(there)
                more.append((j, there))
    return [sorted(one) for one in found]


def _multiple(value: int, of: int) -> int:
    """Return the least multiple of `of` that is not below a value."""
    return -(-value // of) * of
