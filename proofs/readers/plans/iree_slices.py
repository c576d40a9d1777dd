"""The memory that names of a function denote in IREE's dumps: resources, slices of them, and who uses them when.

A slice is a cell of its resource. A use of memory before it is allocated, after it is freed, or beside an execute that
does not await the use, is stated as a read of an unwritten cell. spec: FP9.2, FP9.3, FP9.7, FP9.8, FP9.10
"""

from __future__ import annotations

from collections.abc import Iterable

from proofs.readers.plans.cells import WHOLE, CellMemory, Pointer
from proofs.readers.plans.iree_text import SSA, FunctionText
from proofs.readers.plans.iree_values import (
    NEVER,
    EndedExecutes,
    HostMoment,
    NamedValue,
    SliceReference,
    Ways,
    in_order,
)
from tmmu.core.source import Source
from tmmu.core.streams import Lanes
from tmmu.core.vocabulary import UINT64_END, Role

DOMAIN = "iree"
LATE = "as written at once"


class DumpState:
    """The state that the functions of a dump share: the memory, the assumptions and approximations.

    `prefix` is the beginning of the names of the current function.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.memory = CellMemory(source)
        self.assumed: dict[str, None] = {WHOLE: None}
        self.approximations: dict[str, None] = {}
        self.prefix = ""
        self.lanes = Lanes("concurrent")


class FunctionMemory(FunctionText):
    """The names of a function with their values on the current line, and the uses of its cells until there."""

    def __init__(self, dump: DumpState, after: tuple[int, str], before: tuple[int, str] | None) -> None:
        super().__init__(dump.source, after, before)
        self.dump, self.memory = dump, dump.memory
        self.references: dict[str, frozenset[SliceReference]] = {}
        self.arenas: dict[str, int] = {}
        self.cells: dict[tuple[str, str | None], int] = {}
        self.external: set[str] = set()
        self.imported: dict[str, frozenset[SliceReference]] = {}
        """The memory of the caller's buffer views; `exported` has those that are made here."""
        self.exported: dict[str, frozenset[SliceReference]] = {}
        self.views: dict[str, frozenset[str]] = {}
        """The buffer views that a view made from others may be."""
        self.consumed: set[str] = set()
        """The buffer views that the caller donates."""
        self.initial: dict[str, frozenset[SliceReference]] = {}
        """The memory of globals before the function runs."""
        self.handed_over: list[tuple[int, Ways, int]] = []
        """Cells that the caller gets, the alternatives that return them, and the executes that do not run in these."""
        self.label = ""
        self.times: dict[str, EndedExecutes] = {}
        self.now = HostMoment()
        self.executes = 0
        self.needs: dict[str, int] = {}
        """For each allocation, the execute that it begins with, as a bit."""
        self.uses: dict[int, tuple[int, int]] = {}
        """For each cell, the executes that touch it and those that write it, as bits."""
        self.apart = 0
        """The executes that do not run if this branch does."""
        self.choices = 0
        self.perhaps: dict[int, int] = {}
        """Cells that were written as one of several, with the number of the choice."""

    # Names.

    def bind(self, name: str, value: NamedValue) -> None:
        """Make a name denote a value from now on, and nothing else."""
        self.references.pop(name, None)
        self.times.pop(name, None)
        self.views.pop(name, None)
        if value.references:
            self.references[name] = value.references
        if value.times:
            self.times[name] = value.times
        if value.views:
            self.views[name] = value.views

    def value(self, name: str) -> NamedValue:
        """Return the value of a name."""
        return NamedValue(self.references.get(name, frozenset()), self.times.get(name, NEVER), self.view(name))

    def view(self, name: str) -> frozenset[str]:
        """Return the buffer views that a name may be: itself, if nothing has made it."""
        return self.views.get(name, frozenset((name,)))

    def all_of(self, names: Iterable[str]) -> frozenset[SliceReference]:
        """Return the memory that some names denote."""
        return frozenset[SliceReference]().union(*(self.references.get(name, ()) for name in names))

    def find_ended_executes(self, operands: Iterable[str]) -> EndedExecutes:
        """Return the executes that have ended when all of some points in time are reached."""
        found = NEVER
        for operand in operands:
            if operand in self.times:
                found |= self.times[operand]
                self.source.count_work((1 + len(found.when)) * (1 + self.executes // 64))
        return found

    def chosen(self, refs: frozenset[SliceReference]) -> frozenset[SliceReference]:
        """Mark memory as one of several, not known which: a value that is written by this name is read by no other.

        spec: FP1.14
        """
        self.choices += 1
        return frozenset(ref._replace(choice=self.choices) for ref in refs) if len(refs) > 1 else refs

    # Resources.

    def allocate(self, results: list[str], size: int, ended: EndedExecutes) -> None:
        """State an allocation, which exists from its point in time on, if it has one."""
        name = results[0]
        root = self.root(name)
        self.arenas[root] = self.memory.arena(self.dump.prefix + name.removeprefix("%"), size)
        self.references[name] = frozenset((SliceReference(root, 0, None, 0),))
        if len(results) > 1:
            self.needs[root] = 1 << self.executes
            self.times |= dict.fromkeys(results[1:], ended | EndedExecutes(1 << self.executes))
            self.executes += 1

    def free(self, body: str, results: list[str]) -> None:
        """State `stream.resource.dealloca … await(%t) => %r`: its bytes are lost, and no later step may use it.

        spec: FP9.7, FP9.8
        """
        head, _, what = body.rpartition(" => ")[0].rpartition(" => ")
        ended = self.now.host | self.find_ended_executes(SSA.findall(head))
        for name in SSA.findall(what.partition(" : ")[0]):
            for ref in in_order(self.known(name)):
                arena = self.arenas[ref.resource]
                self.label = "dealloca"
                for cell in self.cells_of(ref).values():
                    if self.uses.get(cell, (0, 0))[0] & ~(ended.where(ref.ways) | self.apart):
                        self.late(cell, "before its dealloca")
                    if ref.resource in self.now.freed:
                        self.late(cell, "after its dealloca")
                if ref.resource not in self.external:
                    label = f"{self.dump.prefix}{name.removeprefix('%')} after dealloca"
                    size = self.memory.arenas[arena].capacity
                    self.memory.step("dealloca", (DOMAIN, "dealloca"), (), [self.memory.cell(label, arena, 0, size)])
                self.now.freed |= {ref.resource}
        self.times |= dict.fromkeys(results, ended)

    def root(self, name: str) -> str:
        """Return a unique name of a resource: a region beside this one may have one of the same name."""
        return f"{name} of {len(self.arenas)}" if name in self.arenas else name

    def external_resource(self, name: str, size: int, capacity: int) -> None:
        """State a resource from elsewhere: an import, a global, a constant."""
        cell = self.memory.own(self.dump.prefix + name.removeprefix("%"), size, role=Role.INPUT, capacity=capacity)
        root = self.root(name)
        self.arenas[root] = self.memory.cells[cell].arena
        self.cells[root, None] = cell
        self.external.add(root)
        self.references[name] = frozenset((SliceReference(root, 0, None, 0),))

    def known(self, name: str) -> frozenset[SliceReference]:
        """Return the memory that a name denotes: memory from elsewhere if nothing here allocates it."""
        if name not in self.references:
            self.external_resource(name, 0, UINT64_END - 1)
        return self.references[name]

    def initial_of(self, symbol: str) -> frozenset[SliceReference]:
        """Return the memory of a global before the function runs."""
        if symbol not in self.initial:
            self.external_resource(f"%{symbol.removeprefix('@')}", 0, UINT64_END - 1)
            self.initial[symbol] = self.references.pop(f"%{symbol.removeprefix('@')}")
        return self.initial[symbol]

    # Slices and their cells.

    def at(self, name: str, offset: str, before: str) -> set[SliceReference]:
        """Return the references to a byte further on in a resource."""
        value = self.number(offset)
        found = set()
        before, shift = self.parts.get(before, (before, 0))
        for ref in self.known(name):
            is_named = before in self.slices or (not self.has_both and ref.resource not in self.external)
            if is_named and ref.slice is not None and ref.shift + value:
                raise self.refuse(f"a slice in the slice {ref.slice}")
            if is_named and ref.slice is None:
                found.add(ref._replace(offset=ref.offset + value, slice=before, shift=shift))
            else:
                found.add(ref._replace(offset=ref.offset + value, shift=ref.shift + value))
        self.source.count_work(len(found))
        return found

    def whole(self, ref: SliceReference, offset: str) -> tuple[SliceReference, int]:
        """Return all of the slice or resource around an offset that is not a constant, and its bytes."""
        size = self.stated.get(ref.slice or "", 0)
        if ref.slice is None:
            size = self.memory.arenas[self.arenas[ref.resource]].capacity
            if size >= UINT64_END - 1 or any(of == ref.resource and part for of, part in self.cells):
                self.number(offset)  # refused
        return ref._replace(offset=ref.offset - ref.shift, shift=0), size

    def cell(self, ref: SliceReference, length: int) -> int:
        """Return the cell of a slice, which must be at one offset."""
        key = ref.resource, ref.slice
        start = ref.offset - ref.shift
        if key not in self.cells:
            label = ref.resource.removeprefix("%") + (f" {ref.slice.removeprefix('%')}" if ref.slice else "")
            size = self.stated.get(ref.slice or "", 0)
            if ref.slice is None:
                size = self.memory.arenas[self.arenas[ref.resource]].capacity
            place = f"line {self.line}"
            self.cells[key] = self.memory.cell(
                self.dump.prefix + label, self.arenas[ref.resource], start, size, place=place
            )
        cell = self.cells[key]
        found = self.memory.cells[cell]
        if found.offset != start and found.name not in self.memory.joined:
            raise self.refuse(f"the slice {found.name} is at two offsets")
        self.memory.grow(cell, ref.offset + length - found.offset, f"line {self.line}")
        return cell

    def cells_of(self, ref: SliceReference) -> dict[str | None, int]:
        """Return all cells of a reference's resource, by slice."""
        self.source.count_work(len(self.cells))
        return {part: cell for (resource, part), cell in self.cells.items() if resource == ref.resource}

    def cells_in(self, refs: Iterable[SliceReference]) -> list[int]:
        """Return the written cells that references denote."""
        return [cell for ref in refs for cell in self.within(ref)]

    def within(self, ref: SliceReference) -> list[int]:
        """Return the written cells that a reference to a resource or a slice denotes."""
        if ref.slice is not None:
            keys: list[tuple[str, str | None]] = [(ref.resource, ref.slice)]
        else:
            keys = [key for key in self.cells if key[0] == ref.resource]
            self.source.count_work(len(self.cells))
        return [self.cells[key] for key in keys if key in self.cells and self.memory.held(self.cells[key]) is not None]

    def joined(self, ref: SliceReference, cells: dict[str | None, int], to: dict[Pointer, Pointer]) -> SliceReference:
        """Return a reference as it is after exclusive branches: its resource, with cells that either has made."""
        places = {part: to.get(Pointer(cell, 0), Pointer(cell, 0)).cell for part, cell in cells.items()}
        if places == cells:
            return ref
        root = self.root(ref.resource)
        self.arenas[root] = self.arenas[ref.resource]
        if ref.resource in self.external:
            self.external.add(root)
        for part, cell in places.items():
            self.cells[root, part] = cell
            if cell != cells[part]:
                all_of, written = self.uses.get(cell, (0, 0))
                before = self.uses.get(cells[part], (0, 0))
                self.uses[cell] = all_of | before[0], written | before[1]
        return ref._replace(resource=root)

    # Uses.

    def touch(self, what: str, refs: list[SliceReference]) -> None:
        """State a read of the written cells that references point to."""
        cells = self.cells_in(refs)
        if cells:
            self.memory.step(what, (DOMAIN, what), cells, ())

    def keep(self, results: Iterable[tuple[str, frozenset[SliceReference]]]) -> None:
        """State results. The caller reads them when the function is over, and all uses of them must have ended then.

        A buffer view of the caller's keeps its value. spec: FP9.3, FP9.8
        """
        for name, refs in results:
            for ref in in_order(ref for view in self.view(name) for ref in self.imported.get(view, ())):
                self.memory.keeps(self.within(ref))
            for ref in in_order(refs):
                cells = self.within(ref)
                if not cells and self.arenas[ref.resource] not in self.memory.empty:
                    cells = [self.cell(ref, 0)]
                self.memory.returns(cells)
                for cell in cells:
                    self.seen(ref, cell)
                self.handed_over += [(cell, ref.ways, self.apart) for cell in cells]
                if ref.resource in self.now.freed:
                    self.label = "return"
                    for cell in cells:
                        self.late(cell, "after its dealloca")

    def keep_arguments(self) -> None:
        """State that arguments that the caller does not donate keep their values. spec: FP9.11"""
        for view, refs in self.imported.items():
            if view not in self.consumed:
                self.memory.keeps([self.cells[ref.resource, None] for ref in refs])

    def ordered(self, cell: int, ended: int) -> None:
        """Refute a cell that is handed on while an execute that is not in `ended` may write it. spec: FP9.8"""
        if self.uses.get(cell, (0, 0))[1] & ~ended:
            self.memory.step("await", (DOMAIN, "await"), [cell], [self.at_once_with(cell)])

    def seen(self, ref: SliceReference, cell: int) -> None:
        """Note the use of a cell by a name. If it was written as one of several, it must be by the same choice."""
        if self.perhaps.get(cell, ref.choice) != ref.choice:
            self.late(cell, "as another choice has left it")

    def late(self, cell: int, why: str) -> None:
        """State that a cell is used while it does not exist: a read of a cell that no step writes."""
        c = self.memory.cells[cell]
        self.memory.step(
            self.label,
            (DOMAIN, self.label),
            [self.memory.cell(f"{c.name} {why}", c.arena, c.offset, max(1, c.bytes))],
            (),
        )

    def at_once_with(self, cell: int) -> int:
        """Return a new cell over another one, for a write that may run while the other is used."""
        c = self.memory.cells[cell]
        return self.memory.cell(f"{c.name} {LATE}", c.arena, c.offset, c.bytes)
