"""The rows of the flat program of a module of XLA: tensors at their slices, views, tables of tuples, and steps.

spec: FP4.3, FP4.4, FP4.11
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence

from proofs.readers.plans.foreign_plan import FreshNames
from proofs.readers.plans.hlo_module import Instruction
from proofs.readers.plans.hlo_text import TYPES, Index, Leaf
from proofs.readers.plans.xla_buffers import BOTH, Assignment, Key
from tmmu.core.columns import NONE
from tmmu.core.dtypes import element_alignment
from tmmu.core.source import NAME_PER_VISIT, Source
from tmmu.core.streams import WAIT, Lanes
from tmmu.core.vocabulary import Role, Shares
from tmmu.plans.building import AllocationBuilder, StatedTensor
from tmmu.plans.columns import IS_INPUT

DOMAIN = "xla"
COMPUTE = "compute"
"""The stream of the instructions of the module, if it starts asynchronous operations."""

Binding = Mapping[Index, int]
"""The rows of the tensors that hold a result, by place in it. A part without bytes has no row."""
ABSENT = -1
"""In the place of a row: a constant that has no buffer, since it is part of the code."""


class Rows:
    """Tensors and steps in the making."""

    def __init__(self, source: Source, assignment: Assignment) -> None:
        self.source, self.slices = source, assignment.slices
        self.building = AllocationBuilder()
        self.building.arenas += assignment.arenas
        self.tensor_names = FreshNames()
        self.step_names = FreshNames()
        self.met: set[Key] = set()
        self.tables: dict[int, tuple[tuple[Index, tuple[int, int, int]], ...]] = {}
        """The places that the table of each tuple holds, by index."""
        self.lanes = Lanes()
        self.stream = COMPUTE
        """The stream of the steps that are being stated."""
        self.last: dict[str, int] = {}
        """The last step so far of each stream."""

    def make(
        self, each: Instruction, leaf: Leaf, prefix: str, *, role: Role = Role.ACTIVATION, is_needed: bool = True,
        of: int = NONE,
    ) -> int | None:  # fmt: skip
        """Return the row of a new tensor in its slice; None if it has no slice or no bytes. spec: FP4.3"""
        found = self.slices.get((each.name, leaf.at))
        if found is None:
            if is_needed and leaf.bytes:
                what = f"no slice is assigned to {each.name}{format_place(leaf.at)}"
                raise self.refuse(what, each, BOTH)
            return None
        self.met.add((each.name, leaf.at))
        # The program decides how many bytes are read and written; padding is the assignment's.
        size = max(leaf.bytes, found.size)
        if size == 0:
            return None
        dtype = TYPES.get(leaf.dtype, "uint8")
        name = self.tensor_names(f"{prefix}{each.name}{format_place(leaf.at) if len(each.shape) > 1 else ''}")
        self.source.count_work(2 + len(name) // NAME_PER_VISIT, f"line {each.line}")
        shares = Shares.NONE if of == NONE else Shares.VIEW
        rows = self.building.tensors
        flags, alignment = IS_INPUT if role is Role.INPUT else 0, element_alignment(dtype)
        rows.append(StatedTensor(name, size, found.arena, found.offset, role, flags, dtype, alignment, shares, of))
        self.source.bound(len(rows) + len(self.building.steps))
        return len(rows) - 1

    def place(self, row: int) -> tuple[int, int, int]:
        """Return the arena, the offset and the bytes of a row."""
        if row == ABSENT:
            return ABSENT, 0, 0
        tensor = self.building.tensors[row]
        return tensor.arena, tensor.offset, tensor.bytes

    def step(
        self, each: Instruction, prefix: str, reads: Iterable[int], writes: Iterable[int], changes: Iterable[int] = ()
    ) -> None:
        """State the next step, which an instruction takes."""
        name = self.step_names(f"{prefix}{each.name}")
        reads, writes, changes = (
            tuple(row for row in dict.fromkeys(rows) if row != ABSENT) for rows in (reads, writes, changes)
        )
        self.source.count_work(2 + len(reads) + len(writes) + len(name) // NAME_PER_VISIT, f"line {each.line}")
        self.add_step(name, (DOMAIN, each.op), reads, writes, changes)

    def add_step(
        self, name: str, op: tuple[str, str], reads: Sequence[int], writes: Sequence[int],
        changes: Sequence[int] = (), after: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """Add a step to the current stream, to begin when the steps `after` have ended."""
        self.building.step(name, op, reads, writes, changes)
        self.building.place_on_stream(self.stream, after)
        self.last[self.stream] = len(self.building.steps) - 1

    def wait(self, each: Instruction, prefix: str, lane: str) -> None:
        """State the step that waits for the operation of a lane. spec: FP4.7, X5.8"""
        name = self.step_names(f"{prefix}{each.name}")
        self.source.count_work(2 + len(name) // NAME_PER_VISIT, f"line {each.line}")
        self.add_step(name, WAIT, (), (), after=[self.last[lane]])
        self.lanes.give_back(lane, self.stream)

    def pass_on(
        self, each: Instruction, parts: Binding, prefix: str, also: Iterable[int] = (), *,
        always: bool = False, is_whole: bool = True,
    ) -> Binding:  # fmt: skip
        """State the parts that an instruction passes on without moving a byte: a view for each that has a slice.

        The step reads `also` and the parts that it shows; if `always`, it reads all parts. spec: FP4.4
        """
        found: dict[Index, int] = {}
        self.source.count_work(len(each.shape))
        reads, writes = list(also), []
        for leaf in each.shape:
            base = parts.get(leaf.at)
            if base is None:
                if leaf.bytes and is_whole:
                    raise self.refuse(f"{each.name}{format_place(leaf.at)} has no buffer", each)
                continue
            found[leaf.at] = base
            if base == ABSENT:
                if (each.name, leaf.at) in self.slices:
                    raise self.refuse(f"{each.name}{format_place(leaf.at)} has a slice, and its constant none", each)
                continue
            if self.building.tensors[base].bytes < leaf.bytes:
                raise self.refuse(
                    f"{each.name}{format_place(leaf.at)} has more bytes than the value that it passes on", each
                )
            row = self.make(each, leaf, prefix, is_needed=False, of=base)
            if row is not None:
                found[leaf.at] = row
                writes.append(row)
            if row is not None or always:
                reads.append(base)
        if reads:
            self.step(each, prefix, reads, writes)
        return found

    def make_tuple(self, each: Instruction, parts: Binding, reads: Iterable[int], prefix: str) -> Binding:
        """State a tuple, whose table is written and whose parts are passed on."""
        table = self.make(each, each.shape[0], prefix, is_needed=False)
        if table is not None:
            self.step(each, prefix, reads, (table,))
            if ABSENT not in parts.values():
                self.tables[table] = tuple(sorted((index, self.place(row)) for index, row in parts.items()))
        passed = self.pass_on(each, parts, prefix)
        return {**passed, **({} if table is None else {(): table})}

    def merge_equal_tables(self, root: Binding) -> Binding:
        """Merge equal tables that have one slice, and return the rows of the root after that. XLA keeps tuples so.

        A table holds the places of a tuple's parts. If the places are equal, so are the bytes of the tables, and a
        table that is written over an equal one changes nothing. It is stated in place of the older one, and later reads
        of the older one read it. If any other value is written between the two, the older one is lost, as before.
        O(accesses). spec: FP4.11
        """
        changed = {row for step in self.building.steps for row in step.changes}
        groups: dict[object, list[int]] = {}
        for row, held in self.tables.items():
            groups.setdefault((self.place(row), held), []).append(row)
        tensors, steps = self.building.tensors, self.building.steps
        group = {row: rows[0] for rows in groups.values() if len(rows) > 1 and changed.isdisjoint(rows) for row in rows}
        if not group:
            return root
        table = {row: row for row in group}  # the table that a view shows
        written: dict[int, list[int]] = {}  # the tables of a group, in the order of their steps
        order: dict[int, tuple[int, int]] = {}  # the place of a table in its group, and its step

        def newest(row: int) -> int:
            """Return the last table so far that holds the places of `row`."""
            if row not in table:
                return row
            of = table[row]
            tables = written[group[of]]
            for k in range(len(tables) - 1, order[of][0], -1):
                self.source.count_work(1)
                at = order[tables[k]][1]
                if tensors[tables[k]].of == NONE:
                    tensors[tables[k]] = tensors[tables[k]]._replace(shares=Shares.IN_PLACE, of=tables[k - 1])
                    access = steps[at].access
                    reads = tuple(dict.fromkeys((*access.reads, tables[k - 1])))
                    steps[at] = steps[at]._replace(access=access._replace(reads=reads))
            return row if tables[-1] == of else tables[-1]

        for number, step in enumerate(steps):
            access = step.access
            self.source.count_work(1 + len(access.reads) + len(access.writes))
            reads = tuple(dict.fromkeys(newest(row) for row in access.reads))
            if reads != access.reads:
                steps[number] = step._replace(access=access._replace(reads=reads))
            for row in access.writes:
                of = tensors[row].of
                if row in group:
                    tables = written.setdefault(group[row], [])
                    order[row] = len(tables), number
                    tables.append(row)
                elif tensors[row].shares is Shares.VIEW and of in table and self.place(of) == self.place(row):
                    tensors[row] = tensors[row]._replace(of=newest(of))
                    table[row] = table[tensors[row].of]
        return {index: newest(row) for index, row in root.items()}

    def refuse(self, what: str, each: Instruction | None, fix: str | None = None) -> Exception:
        """Return the error that names the line of an instruction."""
        return self.source.refuse(what, None if each is None else f"line {each.line}", fix)


def format_place(index: Index) -> str:
    """Return a place in a result as HLO writes it.

    >>> format_place((1, 0))
    '{1,0}'
    """
    return f"{{{','.join(map(str, index))}}}"


class ByteRanges:
    """The bytes of some places, (arena, offset, bytes), as disjoint ranges in order."""

    def __init__(self) -> None:
        self.starts: dict[int, list[int]] = {}
        self.ends: dict[int, list[int]] = {}

    def add(self, arena: int, offset: int, size: int) -> None:
        """Add a place. O(log n + ranges that it joins)."""
        starts, ends = self.starts.setdefault(arena, []), self.ends.setdefault(arena, [])
        first, last = bisect_left(ends, offset), bisect_right(starts, offset + size)
        if first < last:
            offset, end = min(offset, starts[first]), max(offset + size, ends[last - 1])
        else:
            end = offset + size
        starts[first:last], ends[first:last] = [offset], [end]

    def overlaps(self, arena: int, offset: int, size: int) -> bool:
        """Decide whether a place has a byte among them. O(log n)."""
        k = bisect_right(self.ends.get(arena, []), offset)
        starts = self.starts.get(arena, [])
        return k < len(starts) and starts[k] < offset + size
