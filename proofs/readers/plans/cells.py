"""The memory of a program whose buffers have addresses, while a reader goes through its steps.

A *cell* is bytes that hold one value after another writes it: a buffer at its address. Formats in which a name is a
pointer (Relax, Inductor) or an offset (IREE) come down to cells in arenas and to steps that read and write cells; what
is a view of a cell is the cell itself, whose bytes grow to whatever is used of them. A cell may take over another one's
bytes: until it is written, what it holds is the other one's value. spec: FP1.3, FP1.5, FP7.3, FP7.5, FP8.3
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from proofs.readers.plans.source import FreshNames, Source
from tmmu.core.columns import NONE
from tmmu.core.vocabulary import UINT64_END, Role, Shares
from tmmu.plans.allocation import Arena
from tmmu.plans.building import Building, Misplaced, StatedTensor
from tmmu.plans.columns import IS_INPUT, IS_OUTPUT, IS_RETURNED
from tmmu.plans.sections import Plan

WHOLE = "the first write of a buffer writes all of it"
"""What no program in buffers states: which bytes a kernel leaves as they were."""


@dataclass
class Cell:
    """Bytes of an arena that hold one value. `before` is the cell whose bytes it takes over, if it is made from one."""

    name: str
    arena: int
    offset: int
    bytes: int
    role: Role = Role.ACTIVATION
    before: int | None = None
    written: bool = False
    returned: bool = False
    of: int | None = None


@dataclass
class CellMemory:
    """Arenas, cells and steps in the making; cells and arenas are numbered as they are made."""

    source: Source
    arenas: list[Arena] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    steps: list[tuple[str, tuple[str, str], list[int], list[int], list[int]]] = field(default_factory=list)
    kept: set[int] = field(default_factory=set)
    """The cells of the caller that must stay as they are."""
    empty: set[int] = field(default_factory=set)
    _arena_names: FreshNames = field(default_factory=FreshNames)
    _cell_names: FreshNames = field(default_factory=FreshNames)
    _step_names: FreshNames = field(default_factory=FreshNames)

    def arena(self, name: str, capacity: int = UINT64_END - 1) -> int:
        """A further arena; without a capacity where the file states none. One of no bytes has room for nothing."""
        self.source.bound(len(self.arenas))
        if not 0 <= capacity < UINT64_END:
            raise self.source.refuse(f"a memory of {capacity} bytes", name)
        if capacity == 0:
            self.empty.add(len(self.arenas))
        # An arena has a byte at least, as what is of no bytes takes one in footprints (T7).
        self.arenas.append(Arena(self._arena_names(name), max(1, capacity)))
        return len(self.arenas) - 1

    def cell(
        self, name: str, arena: int, offset: int, size: int, *, role: Role = Role.ACTIVATION, before: int | None = None,
        place: str | None = None,
    ) -> int:  # fmt: skip
        """A further cell; refused where it ends beyond 64 bits."""
        self.source.bound(len(self.cells))
        self.cells.append(Cell(self._cell_names(name), arena, offset, 0, role, before))
        self.grow(len(self.cells) - 1, size, place)
        return len(self.cells) - 1

    def own(self, name: str, size: int, *, role: Role = Role.ACTIVATION, capacity: int = UINT64_END - 1) -> int:
        """A cell in memory of its own, which the file places nowhere."""
        return self.cell(name, self.arena(f"memory of {name}", capacity), 0, size, role=role)

    def grow(self, cell: int, end: int, place: str | None = None) -> None:
        """State that bytes of a cell up to `end` are used."""
        found = self.cells[cell]
        if not 0 <= found.offset + end < UINT64_END:
            raise self.source.refuse(f"{found.name} ends beyond 64 bits", place)
        if end and found.arena in self.empty:
            raise self.source.refuse(f"{found.name} lies in a memory of no bytes", place)
        found.bytes = max(found.bytes, end)

    def held(self, cell: int) -> int | None:
        """The cell whose value these bytes hold: itself once it is written, else what it was made from."""
        seen = cell
        while not self.cells[seen].written and self.cells[seen].role is Role.ACTIVATION:
            self.source.spend(1)
            before = self.cells[seen].before
            if before is None:
                return None
            seen = before
        return seen

    def step(
        self, name: str, op: tuple[str, str], reads: Iterable[int], writes: Iterable[int], keeps: Collection[int] = ()
    ) -> None:
        """The next step. `keeps` are the cells that are read where they hold a value, and written: results in place.

        What is read and holds no value stays a read, which the verifier refuses. A cell that is written again changes.
        """
        read: dict[int, None] = {}
        for cell in reads:
            held = self.held(cell)
            read[cell if held is None else held] = None
        apart = set(read)
        written: dict[int, None] = {}
        changed: dict[int, None] = {}
        for cell in dict.fromkeys((*writes, *keeps)):
            found, held = self.cells[cell], self.held(cell)
            written[cell] = None
            if held == cell:
                # A part may be written, so that what was there before counts as read.
                changed[cell] = read[cell] = None
                continue
            if held is not None and cell in keeps:
                read[held] = None
                old = self.cells[held]
                same = (old.arena, old.offset, old.bytes) == (found.arena, found.offset, found.bytes)
                # What is read by another operand as well may be read where it is overwritten.
                found.of = held if same and held not in apart else None
        for cell in written:
            self.cells[cell].written = True
        label = self._step_names(name)
        self.source.bound(len(self.steps) + len(self.cells))
        self.source.spend(1 + len(read) + len(written))
        self.steps.append((label, op, list(read), list(written), list(changed)))

    def plan(self) -> Plan:
        """The plan: the cells that a step or the caller touches. Raises INVALID_PLAN."""
        touched = {cell for _, _, reads, writes, _ in self.steps for cell in (*reads, *writes)}
        used = [
            k for k, c in enumerate(self.cells) if k in touched or c.returned or c.role is not Role.ACTIVATION
        ]  # fmt: skip
        row = {k: r for r, k in enumerate(used)}
        building = Building()
        building.arenas += self.arenas
        nowhere = len(self.arenas)
        if any(self.cells[k].bytes == 0 for k in used):
            # What has no bytes may be stated at the end of its memory, where it would take one (T7).
            building.arenas.append(Arena(self._arena_names("no bytes"), UINT64_END - 1))
        for k in used:
            c = self.cells[k]
            flags = IS_OUTPUT | IS_RETURNED if c.returned else 0
            flags |= IS_INPUT if c.role is Role.INPUT else 0
            shares = Shares.NONE if c.of is None else Shares.IN_PLACE
            of = NONE if c.of is None else row[c.of]
            arena, offset = (c.arena, c.offset) if c.bytes else (nowhere, 0)
            stated = StatedTensor(c.name, c.bytes, arena, offset, c.role, flags, shares=shares, of=of)
            building.tensors.append(stated)
        for name, op, *lists in self.steps:
            reads, writes, changes = ([row[k] for k in listed] for listed in lists)
            building.step(name, op, reads, writes, changes)
        try:
            return Plan(building.allocation())
        except Misplaced as error:
            raise self.source.refuse(error.what, self.cells[used[error.row]].name, error.fix) from error

    def returns(self, cells: Iterable[int]) -> None:
        """State that the caller reads these after the last step."""
        for cell in cells:
            held = self.held(cell)
            self.cells[cell if held is None else held].returned = True

    def keeps(self, cells: Iterable[int]) -> None:
        """State that these stay as the caller has written them."""
        self.kept.update(cells)

    def donated(self) -> tuple[str, ...]:
        """The names of the callers' cells that the program writes, without those that it gives back as they were."""
        changed = {cell for *_, changes in self.steps for cell in changes} - self.kept
        return tuple(c.name for k, c in enumerate(self.cells) if c.role is Role.INPUT and k in changed)
