"""Track the memory of a program whose buffers have addresses, while a reader goes through its steps.

A *cell* is a buffer at its address: bytes that hold a value after a step writes it. If names are pointers (Relax,
Inductor) or offsets (IREE), the program reduces to cells in arenas and to steps that read and write cells. A view of a
cell is the cell itself, whose bytes grow to all that are used. A cell may take over the bytes of another one: until it
is written, it holds the other one's value.

Steps outside of branches may be put on lanes, other streams than the main one. `wait` adds a step that waits for steps
of lanes. A program without lanes has no streams.

Each exclusive branch begins with the cells as they were before the first. After the branches no name refers to a cell
that only some of them wrote. A name that may refer to a cell of a branch makes that cell a read at the end of its
branch, and its bytes are written anew after the branches, as one cell for each range.
spec: FP1.3, FP1.5, FP7.3, FP7.5, FP7.10, FP8.3
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from proofs.readers.plans.foreign_plan import FreshNames
from tmmu.core.columns import NONE
from tmmu.core.source import NAME_PER_VISIT, Source
from tmmu.core.streams import WAIT
from tmmu.core.vocabulary import UINT64_END, Role, Shares
from tmmu.plans.allocation import Arena
from tmmu.plans.building import AllocationBuilder, MisplacedTensor, StatedTensor
from tmmu.plans.columns import IS_INPUT, IS_OUTPUT, IS_RETURNED
from tmmu.plans.sections import Plan

WHOLE = "the first write of a buffer writes all of it"
"""An assumption: no program in buffers states the bytes that a kernel leaves unchanged."""


MAIN_STREAM = "main"
"""The stream of all steps that are not on a lane, if there are lanes."""

START, NEXT, END = "start of branches", "next branch", "end of branches"
"""The brackets of exclusive branches. Any other step is a plain one."""


class Pointer(NamedTuple):
    """A cell and the byte of it that a name points to."""

    cell: int
    start: int


@dataclass(eq=False)
class Cell:
    """Bytes of an arena that hold one value. `before` is the cell whose bytes it takes over, if it is made from one.

    `number` is its place in the memory. Another cell takes that place after branches of a node if not all
    of them wrote this one.
    `is_sized` is False if its bytes are 0 because they are not known.
    """

    number: int
    name: str
    arena: int
    offset: int
    bytes: int
    role: Role = Role.ACTIVATION
    before: int | None = None
    written: bool = False
    returned: bool = False
    of: Cell | None = None
    is_sized: bool = True


class CellStep(NamedTuple):
    """A step, or a bracket of exclusive branches, with the cells that it accesses, as they were then.

    `lane` is "" on the main stream, and `after` are the numbers of the steps that it waits for directly.
    """

    name: str
    op: tuple[str, str]
    reads: list[Cell]
    writes: list[Cell]
    changes: list[Cell]
    bracket: str = ""
    lane: str = ""
    after: tuple[int, ...] = ()


@dataclass
class _Arms:
    """An open node with exclusive branches: the cells that each wrote first, and the step at the end of each."""

    name: str
    op: tuple[str, str]
    made: list[dict[int, Cell]]
    ends: list[CellStep] = field(default_factory=list)
    renewed: dict[int, Cell] = field(default_factory=dict)


@dataclass
class CellMemory:
    """Builds arenas, cells and steps. Cells and arenas are numbered in order of creation."""

    source: Source
    arenas: list[Arena] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    steps: list[CellStep] = field(default_factory=list)
    joined: list[str] = field(default_factory=list)
    """The names of cells that hold the value of one of several branches."""
    kept: set[int] = field(default_factory=set)
    """The cells of the caller that must stay as they are."""
    empty: set[int] = field(default_factory=set)
    lane: str = ""
    """The lane of the next steps, or "" for the main stream."""
    after: tuple[int, ...] = ()
    """The numbers of the steps that the next step waits for directly."""
    has_lanes: bool = False
    last_on_main: int | None = None
    """The number of the last step of the main stream."""
    _open: list[_Arms] = field(default_factory=list)
    _arena_names: FreshNames = field(default_factory=FreshNames)
    _cell_names: FreshNames = field(default_factory=FreshNames)
    _step_names: FreshNames = field(default_factory=FreshNames)

    def arena(self, name: str, capacity: int = UINT64_END - 1) -> int:
        """Add an arena, unlimited if the file states no capacity, and return its number. An empty one holds nothing."""
        self.source.bound(len(self.arenas))
        if not 0 <= capacity < UINT64_END:
            raise self.source.refuse(f"a memory of {capacity} bytes", name)
        if capacity == 0:
            self.empty.add(len(self.arenas))
        # An arena has at least one byte, since an empty tensor takes one in footprints (T7).
        self.arenas.append(Arena(self._arena_names(name), max(1, capacity)))
        return len(self.arenas) - 1

    def cell(
        self, name: str, arena: int, offset: int, size: int, *, role: Role = Role.ACTIVATION, before: int | None = None,
        place: str | None = None,
    ) -> int:  # fmt: skip
        """Add a cell and return its number. Refuse one that ends beyond 64 bits."""
        self.source.bound(len(self.cells))
        self.source.count_work(len(name) // NAME_PER_VISIT)
        self.cells.append(Cell(len(self.cells), self._cell_names(name), arena, offset, 0, role, before))
        self.grow(len(self.cells) - 1, size, place)
        return len(self.cells) - 1

    def own(self, name: str, size: int, *, role: Role = Role.ACTIVATION, capacity: int = UINT64_END - 1) -> int:
        """Add a cell in a new arena, for a buffer that the file does not place."""
        cell = self.cell(name, self.arena(f"memory of {name}", capacity), 0, size, role=role)
        self.cells[cell].is_sized = size > 0
        return cell

    def grow(self, cell: int, end: int, place: str | None = None) -> None:
        """State that bytes of a cell up to `end` are used."""
        found = self.cells[cell]
        if not 0 <= found.offset + end < UINT64_END:
            raise self.source.refuse(f"{found.name} ends beyond 64 bits", place)
        if end and found.arena in self.empty:
            raise self.source.refuse(f"{found.name} is in a memory of no bytes", place)
        found.bytes = max(found.bytes, end)

    def held(self, cell: int) -> int | None:
        """Return the cell whose value these bytes hold: itself once it is written, else the one it was made from."""
        seen = cell
        while not self.cells[seen].written and self.cells[seen].role is Role.ACTIVATION:
            self.source.count_work(1)
            before = self.cells[seen].before
            if before is None:
                return None
            seen = before
        return seen

    def step(
        self, name: str, op: tuple[str, str], reads: Iterable[int], writes: Iterable[int], keeps: Collection[int] = ()
    ) -> None:
        """State the next step. `keeps` are written, and read if they hold a value: results in place.

        A read of a cell without a value remains a read, which the verifier refuses. A cell that is written again is
        changed.
        """
        read: dict[Cell, None] = {}
        for cell in reads:
            held = self.held(cell)
            read[self.cells[cell if held is None else held]] = None
        apart = set(read)
        written: dict[Cell, None] = {}
        changed: dict[Cell, None] = {}
        for cell in dict.fromkeys((*writes, *keeps)):
            found, held = self.cells[cell], self.held(cell)
            written[found] = None
            if held == cell:
                # The step may write a part of the cell, so the old value counts as read.
                changed[found] = read[found] = None
                continue
            if self._open:
                self._open[-1].made[-1][cell] = found
            if held is not None and cell in keeps:
                old = self.cells[held]
                read[old] = None
                same = (old.arena, old.offset, old.bytes) == (found.arena, found.offset, found.bytes)
                # Another operand of the step may read the old value at a place that is overwritten.
                found.of = old if same and old not in apart else None
        for each in written:
            each.written = True
        self._state(CellStep(self._step_names(name), op, list(read), list(written), list(changed)))

    def renew(self, cell: int) -> None:
        """State that the next write of a cell writes all of it: another value in the same bytes."""
        old = self.cells[cell]
        self.source.count_work(1 + len(old.name) // NAME_PER_VISIT)
        if self._open:
            self._open[-1].renewed.setdefault(cell, old)
        self.cells[cell] = replace(old, name=self._cell_names(old.name), of=None, written=False, returned=False)

    @property
    def is_branching(self) -> bool:
        """Whether the next step is inside of a branch, where steps are on no stream."""
        return bool(self._open)

    def wait(self, name: str, after: tuple[int, ...]) -> None:
        """State a step of the main stream that accesses nothing and waits for other steps. spec: X5.8"""
        self.after = (*self.after, *after)
        self._state(CellStep(self._step_names(name), WAIT, [], [], []))

    def _state(self, step: CellStep) -> CellStep:
        if not self._open:
            step = step._replace(lane=self.lane, after=self.after)
            self.after = ()
            self.has_lanes |= self.lane != ""
        self.source.bound(len(self.steps) + len(self.cells))
        self.source.count_work(1 + len(step.reads) + len(step.writes))
        self.steps.append(step)
        if not step.lane:
            self.last_on_main = len(self.steps) - 1
        return step

    def begin(self, name: str, op: tuple[str, str], reads: Iterable[int]) -> None:
        """Begin a node with exclusive branches, which reads its condition, and the first branch. spec: FP7.10, FP8.8"""
        self.step(name, op, reads, ())
        entered = self.steps[-1]
        self.steps[-1] = entered._replace(bracket=START)
        self._open.append(_Arms(entered.name, op, [{}]))

    def arm(self, *, apart: bool = False) -> None:
        """End a branch and begin the next one, with the cells as they were before the first.

        A cell that several branches write is one value after them, which lives over all of them. If they are `apart`,
        as a loop that need not run is, it is a value in each.
        """
        node = self._open[-1]
        self._leave_arm(node)
        for cell, old in node.made[-1].items() if apart else ():
            if self.cells[cell] is old:
                self.source.count_work(1 + len(old.name) // NAME_PER_VISIT)
                self.cells[cell] = replace(old, name=self._cell_names(old.name), of=None, returned=False)
        node.made.append({})
        self._state(CellStep(node.name, node.op, [], [], [], NEXT))

    def _leave_arm(self, node: _Arms) -> None:
        name = self._step_names(f"{node.name}, end of arm {len(node.ends)}")
        node.ends.append(self._state(CellStep(name, node.op, [], [], [])))
        self.source.count_work(1 + 2 * len(node.made[-1]))
        for cell in node.made[-1].values():
            cell.written = False
        for number, cell in node.renewed.items():
            self.cells[number] = cell
        node.renewed.clear()

    def end(self, taken: Sequence[Iterable[Pointer]]) -> list[dict[Pointer, Pointer]]:
        """End the last branch and the node, and return the new pointer for each of `taken`.

        `taken` has for each branch the pointers that names refer to after the node, if the branches do not agree on
        them.
        """
        node = self._open[-1]
        self._leave_arm(node)
        self._open.pop()
        first, *others = node.made
        everywhere = {cell for cell, old in first.items() if all(made.get(cell) is old for made in others)}
        held = [self._held_in(made, everywhere, pointers) for made, pointers in zip(node.made, taken, strict=True)]
        for made in node.made:
            for cell, old in made.items():
                if cell in everywhere:
                    old.written = True
                elif self.cells[cell] is old:
                    self.source.count_work(1 + len(old.name) // NAME_PER_VISIT)
                    # The others do not have the value of this branch.
                    self.cells[cell] = replace(old, name=self._cell_names(old.name), of=None, returned=False)
        if self._open:
            self._open[-1].made[-1].update((cell, first[cell]) for cell in everywhere)
        self._state(CellStep(node.name, node.op, [], [], [], END))
        for end, found in zip(node.ends, held, strict=True):
            end.reads.extend(dict.fromkeys(found.values()))
        place = self._join(node, dict.fromkeys(cell for found in held for cell in found.values()))
        moved = []
        for found in held:
            to: dict[Pointer, Pointer] = {}
            for pointer, old in found.items():
                anew, shown = place[old], self.cells[pointer.cell]
                shift = shown.offset - anew.offset if shown.arena == anew.arena else 0
                to[pointer] = Pointer(anew.number, shift + pointer.start)
            moved.append(to)
        return moved

    def _held_in(self, made: dict[int, Cell], everywhere: set[int], taken: Iterable[Pointer]) -> dict[Pointer, Cell]:
        """Return the cells that a branch wrote and that pointers refer to at its end."""
        found = {}
        for pointer in taken:
            seen: int | None = pointer.cell
            while seen is not None and seen not in made and not self.cells[seen].written:
                self.source.count_work(1)
                seen = self.cells[seen].before
            if seen is not None and seen in made and seen not in everywhere:
                found[pointer] = made[seen]
        self.source.count_work(len(made) + len(found))
        return found

    def _join(self, node: _Arms, made: Collection[Cell]) -> dict[Cell, Cell]:
        """Write the bytes of cells of branches anew, as a cell for each range. Return the new cell of each."""
        groups: list[list[Cell]] = []
        ends: list[int] = []
        self.source.count_work(len(made))
        for cell in sorted(made, key=lambda cell: (cell.arena, cell.offset, cell.number)):
            if not groups or cell.arena != groups[-1][0].arena or cell.offset >= ends[-1]:
                groups.append([])
                ends.append(cell.offset)
            groups[-1].append(cell)
            ends[-1] = max(ends[-1], cell.offset + max(1, cell.bytes))
        place: dict[Cell, Cell] = {}
        for group in groups:
            start = group[0].offset
            size = max(cell.offset + cell.bytes for cell in group) - start
            number = self.cell(f"{group[0].name} of either arm", group[0].arena, start, size)
            self.joined.append(self.cells[number].name)
            place |= dict.fromkeys(group, self.cells[number])
        anew = [cell.number for cell in dict.fromkeys(place.values())]
        if anew:
            self.step(f"{node.name}, results", node.op, (), anew)
        return place

    def plan(self) -> Plan:
        """Return the plan, with the cells that a step or the caller accesses. Raises INVALID_PLAN."""
        touched = dict.fromkeys(cell for step in self.steps for cell in (*step.reads, *step.writes))
        touched |= dict.fromkeys(c for c in self.cells if c.returned or c.role is not Role.ACTIVATION)
        written = {cell for step in self.steps for cell in step.writes}
        # A read of an empty cell needs no write before it.
        touched = {c: None for c in touched if c.bytes or not c.is_sized or c in written}
        used = {cell: row for row, cell in enumerate(sorted(touched, key=lambda cell: cell.number))}
        building = AllocationBuilder()
        building.arenas += self.arenas
        nowhere = len(self.arenas)
        if any(c.bytes == 0 for c in used):
            # An empty cell may be stated at the end of its memory, and would take a byte there (T7).
            building.arenas.append(Arena(self._arena_names("no bytes"), UINT64_END - 1))
        for c in used:
            flags = IS_OUTPUT | IS_RETURNED if c.returned else 0
            flags |= IS_INPUT if c.role is Role.INPUT else 0
            flags |= IS_RETURNED if c.role is Role.INPUT and c.number in self.kept else 0
            shares = Shares.NONE if c.of is None else Shares.IN_PLACE
            of = NONE if c.of is None else used[c.of]
            arena, offset = (c.arena, c.offset) if c.bytes else (nowhere, 0)
            stated = StatedTensor(c.name, c.bytes, arena, offset, c.role, flags, shares=shares, of=of)
            building.tensors.append(stated)
        row: list[int] = []  # the step of the plan that each step ends with
        for step in self.steps:
            reads, writes, changes = (
                [used[c] for c in cells if c in used] for cells in (step.reads, step.writes, step.changes)
            )
            if step.bracket == START:
                building.begin(step.name, step.op, reads, writes, exclusive=True)
            elif step.bracket == NEXT:
                building.arm()
            elif step.bracket == END:
                building.end((), ())
            elif reads or writes or self.has_lanes:
                building.step(step.name, step.op, reads, writes, changes)
            if self.has_lanes and step.bracket in ("", START) and building.depth == (step.bracket == START):
                building.place_on_stream(step.lane or MAIN_STREAM, sorted({row[s] for s in step.after}))
            row.append(len(building.steps) - 1)
        try:
            return Plan(building.allocation())
        except MisplacedTensor as error:
            raise self.source.refuse(error.what, list(used)[error.row].name, error.fix) from error

    def returns(self, cells: Iterable[int]) -> None:
        """State that the caller reads these after the last step."""
        for cell in cells:
            held = self.held(cell)
            self.cells[cell if held is None else held].returned = True

    def keeps(self, cells: Iterable[int]) -> None:
        """State that these stay as the caller has written them, until after the last step. spec: Z1.4"""
        self.kept.update(cells)

    def donated(self) -> tuple[str, ...]:
        """Return the names of the callers' cells that the program writes and does not return unchanged."""
        changed = {cell.number for step in self.steps for cell in step.changes} - self.kept
        return tuple(c.name for k, c in enumerate(self.cells) if c.role is Role.INPUT and k in changed)
