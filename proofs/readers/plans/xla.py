"""XLA's buffer assignment, and the accesses of the scheduled HLO beside it, worked out again.

A dump has `NAME-buffer-assignment.txt`, a slice of an allocation for each value, and `NAME.txt`, the module in
execution order. The program is laid out flat, as steps one after the other, in which each value has the slice that the
assignment states and lives from its definition to its last use *in the program*:

- Fusions and other instructions are steps; their results may take an operand's identical slice.
- `tuple`, `get-tuple-element`, `bitcast` and calls move no bytes. Where the assignment has a slice for what they pass
  on (a *phi*: the parameter of a loop's body, the result of a conditional), the flat program has a view there: it is
  refuted unless the slice is the one that is passed on.
- A `while` is its condition, its body, the condition, the body and the condition. Whatever the number of iterations, a
  run is a part of this but for names: an iteration begins with what the operand or the iteration before left, and after
  each condition all that is carried must be whole, in the slices of the result.
- The arms of a `conditional` stand one after the other, at the end of each its results, whole and in the slices of the
  conditional. What an arm is given and an arm before has overwritten is written anew before it: a run has one of them,
  which begins with what there was before the conditional. What is read after it must be whole in spite of all arms.
- What a start begins may be read and written until its done.

spec: FP4.1 to FP4.11
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from proofs.readers.plans.foreign_plan import ForeignPlan, FreshNames
from proofs.readers.plans.hlo import TYPES, Computation, HloModule, Index, Instruction, Leaf, parse
from tmmu.core.columns import NONE
from tmmu.core.dtypes import element_alignment
from tmmu.core.source import NAME_PER_VISIT, Source
from tmmu.core.vocabulary import Role, Shares
from tmmu.plans.allocation import Arena
from tmmu.plans.building import Building, Misplaced, StatedTensor
from tmmu.plans.columns import IS_INPUT, IS_OUTPUT, IS_RETURNED
from tmmu.plans.reading import ACCESSES_WORKED_OUT, Reading
from tmmu.plans.sections import Plan

SUFFIX = "-buffer-assignment.txt"
DOMAIN = "xla"
ITERATIONS = 2
"""How often the body of a loop is laid out: from its operand, and from what an iteration left. spec: FP4.5"""

ALLOCATION = re.compile(r"allocation (\d{1,9}): (?:0x[0-9a-f]+, )?size (\d{1,19})(.*):\s*")
VALUE = re.compile(
    r" value: <\d+ ([\w.\-]+)(?:\{([\d,]*)\})?(?: \(\w+\))? @(\d{1,9})> \(size=(\d{1,19}),offset=(\d{1,19})\): .*"
)
COLOR = re.compile(r", color (\d{1,9})")
KEPT = re.compile(r", (?:parameter|constant|maybe-live-out)\b")
"""What an allocation is that is not given back when the module ends."""
ENDS = ("Total bytes used:", "Used values:", "Peak buffers:")
"""What follows the allocations in some versions."""

PASSES = ("bitcast", "optimization-barrier", "add-dependency", "domain", "opt-barrier")
"""The result is the first operand, its tables included."""
STARTS = ("send", "recv")
"""What begins like a start, without the name of one."""

Binding = Mapping[Index, int]
"""The rows of the tensors that hold a result, by place in it; none for what has no bytes."""
Key = tuple[str, Index]
ABSENT = -1
"""In the place of a row: a constant that has no buffer, since it is part of the code."""


class Slice(NamedTuple):
    """Where a value lies: the row of its allocation's arena, and the bytes there."""

    arena: int
    offset: int
    size: int


class Assignment(NamedTuple):
    """Allocations as arenas, the slice of each value by instruction and index, and how many values threads own.

    `temporary` are the rows of allocations that are neither the caller's nor constant: they end with the module.
    """

    arenas: list[Arena]
    slices: dict[Key, Slice]
    thread_local: int
    temporary: list[int]


class _Pending(NamedTuple):
    """What was started and is not done: the rows that may still be read, and those that may still be written."""

    reads: tuple[int, ...]
    writes: tuple[int, ...]


def schedule_of(path: str) -> str:
    """The file of the module in scheduled order, beside the one of its buffer assignment."""
    return f"{path.removesuffix(SUFFIX)}.txt"


def read(source: Source) -> ForeignPlan:
    """The plan of a module: the assignment in `source`, the schedule in the file beside it.

    Raises INVALID_PLAN with file and line. O(bytes + instructions × 2^d) for loops that nest d deep, within the bounds.
    """
    assignment = assigned(source)
    if source.path is None or not source.path.name.endswith(SUFFIX):
        raise source.refuse(f"the schedule is in the file beside it, which the name ending {SUFFIX} gives", None)
    beside = source.beside(schedule_of(source.path.name))
    return flattened(beside, assignment)


def flattened(source: Source, assignment: Assignment) -> ForeignPlan:
    """The plan of the scheduled HLO in `source` at the slices of an assignment. Raises and costs as `read`."""
    return _Flattening(source, assignment, parse(source)).plan()


def assigned(source: Source) -> Assignment:
    """The assignment that a dump states. O(bytes). spec: FP4.1, FP4.3"""
    lines = source.text().split("\n")
    if lines[0].strip() != "BufferAssignment:":
        raise source.refuse("expected BufferAssignment: in the first line", "line 1")
    arenas: list[Arena] = []
    slices: dict[Key, Slice] = {}
    numbers: set[str] = set()
    temporary: list[int] = []
    thread_local, color, is_local, size = 0, "0", False, 0
    for number, text in enumerate(lines[1:], 2):
        if not text.strip():
            continue
        if text.startswith(ENDS):
            break
        at = f"line {number}"
        source.spend(4 + len(text) // 16, at)
        if found := ALLOCATION.fullmatch(text):
            if found[1] in numbers:
                raise source.refuse(f"allocation {found[1]} twice", at)
            numbers.add(found[1])
            attributes = re.sub(r"\|[^|]*\|", "", found[3])
            is_local = ", thread-local" in attributes
            stated = COLOR.search(attributes)
            color = stated[1] if stated else "0"
            space = f" in memory space {color}" if color != "0" else ""
            if not is_local:
                if not KEPT.search(attributes):
                    temporary.append(len(arenas))
                arenas.append(Arena(f"allocation {found[1]}{space}", max(1, int(found[2]))))
                size = int(found[2])
            continue
        value = VALUE.fullmatch(text)
        if value is None or not numbers:
            raise source.refuse("expected an allocation or a value", at, "give the dump as XLA writes it")
        if value[3] != color:
            raise source.refuse(f"a value of memory space {value[3]} in an allocation of {color}", at)
        if is_local:
            thread_local += 1
            continue
        key = value[1], tuple(int(n) for n in (value[2] or "").split(",") if n)
        if key in slices:
            raise source.refuse(f"{value[1]}{{{value[2] or ''}}} has two slices", at)
        slices[key] = Slice(len(arenas) - 1, int(value[5]), int(value[4]))
        if size == 0 and slices[key].size:
            raise source.refuse(f"{value[1]} has bytes, and its allocation has none", at)
    return Assignment(arenas, slices, thread_local, temporary)


class _Flattening:
    """The flat program in the making."""

    def __init__(self, source: Source, assignment: Assignment, module: HloModule) -> None:
        self.source, self.slices, self.module = source, assignment.slices, module
        self.temporary = assignment.temporary
        self.thread_local = assignment.thread_local
        self.building = Building()
        self.building.arenas += assignment.arenas
        self.tensor_names = FreshNames()
        self.step_names = FreshNames()
        self.constants: dict[str, Binding] = {}
        self.unassigned: set[str] = set()
        self.met: set[Key] = set()
        self.ops: set[str] = set()
        self.used: dict[str, frozenset[int]] = {}
        self.tables: dict[int, tuple[tuple[Index, tuple[int, int, int]], ...]] = {}
        """What the tables of tuples hold: the places of what is in them, by index."""

    def plan(self) -> ForeignPlan:
        entry = self.computation(self.module.entry, None)
        for each in (each for one in self.module.computations.values() for each in one.instructions):
            if each.op == "constant" and any((each.name, leaf.at) in self.slices for leaf in each.shape):
                self.constant(each)  # also where it is a kernel that reads it
        donated: list[str] = []
        parameters: list[Binding] = []
        for number, parameter in sorted(entry.parameters().items()):
            if number != len(parameters):
                raise self.refuse(f"parameter {len(parameters)} of the entry is missing", parameter)
            binding: dict[Index, int] = {}
            for leaf in parameter.shape:
                given_up = any(n == number and leaf.at[: len(i)] == i for n, i in self.module.donated)
                role = Role.INPUT if given_up else Role.PARAMETER
                row = self.made(parameter, leaf, "", role=role)
                if row is not None:
                    binding[leaf.at] = row
                    donated += [self.building.tensors[row].name] if given_up else []
            parameters.append(binding)
        # Parameters come before all other instructions, so that one that is never read is gone when the first runs.
        self.building.step(f"parameters of {entry.name}", (DOMAIN, "parameter"), (), ())
        root = self.with_equal_tables(self.run(entry, parameters, "", 0))
        self.returned(entry, root, parameters)
        try:
            plan = Plan(self.building.allocation())
        except Misplaced as error:  # a slice beyond 64 bits
            raise self.source.refuse(error.what, self.building.tensors[error.row].name) from error
        return ForeignPlan(plan, self.reading(tuple(donated)))

    def reading(self, donated: tuple[str, ...]) -> Reading:
        """What the plan rests on. spec: FP4.5, FP4.6, FP4.7, FP4.9"""
        outside = {"alignment beyond the width of elements": "the file states none"}
        if self.thread_local:
            outside["thread-local allocations"] = f"{self.thread_local} values of computations inside of kernels"
        if self.unassigned:
            outside["constants without a buffer"] = "they are part of the code"
        left = len(self.slices) - len(self.met)
        if left:
            outside["values that no step of the entry makes"] = f"{left} of them"
        assumptions = []
        if "while" in self.ops:
            assumptions.append("two iterations of a loop stand for all: a third one finds what the second one found")
        if donated:
            assumptions.append("the caller gives up the parameters that the module's title names as aliased or donated")
        approximations = []
        if any(op.endswith("-start") or op in STARTS for op in self.ops):
            approximations.append("what is started is read and written until it is done")
        return Reading("XLA buffer assignment", ACCESSES_WORKED_OUT, tuple(assumptions), outside, tuple(approximations),
                       donated)  # fmt: skip

    def with_equal_tables(self, root: Binding) -> Binding:
        """Take tables of one slice that hold the same as one: the rows of the root after it. XLA keeps tuples so.

        A table holds the places of what is in it. Where those are equal the tables are, byte for byte, so that a table
        that is written over an equal one changes nothing: it is one in place of that, and what reads the older one
        later reads the newer one. Where anything else is written between the two, the older one is lost, as it was.
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
        table = {row: row for row in group}  # of which table a view is
        written: dict[int, list[int]] = {}  # the tables of a group, in the order in which they are written
        order: dict[int, tuple[int, int]] = {}  # of a table, its place in its group, and its step

        def newest(row: int) -> int:
            """The table that holds what `row` shows, after all that is written so far."""
            if row not in table:
                return row
            of = table[row]
            tables = written[group[of]]
            for k in range(len(tables) - 1, order[of][0], -1):
                self.source.spend(1)
                at = order[tables[k]][1]
                if tensors[tables[k]].of == NONE:
                    tensors[tables[k]] = tensors[tables[k]]._replace(shares=Shares.IN_PLACE, of=tables[k - 1])
                    access = steps[at].access
                    reads = tuple(dict.fromkeys((*access.reads, tables[k - 1])))
                    steps[at] = steps[at]._replace(access=access._replace(reads=reads))
            return row if tables[-1] == of else tables[-1]

        for number, step in enumerate(steps):
            access = step.access
            self.source.spend(1 + len(access.reads) + len(access.writes))
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

    def returned(self, entry: Computation, root: Binding, parameters: list[Binding]) -> None:
        """What the caller reads at the end, where it looks for it, after all temporary memory is given back.

        spec: FP4.10
        """
        last = next(each for each in entry.instructions if each.name == entry.root)
        if ABSENT in root.values():
            raise self.refuse("the module returns a constant that has no buffer", last)
        result, moved = dict(root), dict[int, int]()
        for index, (number, at) in self.module.aliased.items():
            row, parameter = root.get(index), parameters[number].get(at) if number < len(parameters) else None
            if row is None and parameter is None and number < len(parameters):
                continue  # neither has bytes
            if row is None or parameter is None:
                raise self.refuse(f"the title aliases {_shown(index)} with what has no bytes", last)
            if self.place(row) == self.place(parameter):
                continue
            there, tensor = self.building.tensors[parameter], self.building.tensors[row]
            name = self.tensor_names(f"{tensor.name} for the caller")
            self.building.tensors.append(
                tensor._replace(name=name, arena=there.arena, offset=there.offset, shares=Shares.VIEW, of=row, shift=0)
            )
            result[index] = len(self.building.tensors) - 1
            moved[row] = result[index]
        if moved:  # which is refuted: nothing moves them
            self.step(last, "for the caller: ", moved.keys(), moved.values())
        freed = []
        for arena in self.temporary:
            memory = self.building.arenas[arena]
            if memory.capacity:
                self.building.tensors.append(StatedTensor(f"{memory.name} given back", memory.capacity, arena, 0))
                freed.append(len(self.building.tensors) - 1)
        if freed:
            self.building.step("temporary memory is given back", (DOMAIN, "free"), (), freed)
        for row in result.values():
            tensor = self.building.tensors[row]
            self.building.tensors[row] = tensor._replace(flags=tensor.flags | IS_OUTPUT | IS_RETURNED)

    # Computations

    def computation(self, name: str, caller: Instruction | None) -> Computation:
        if name not in self.module.computations:
            raise self.refuse(f"computation {name!r} is not in the module", caller)
        return self.module.computations[name]

    def run(self, computation: Computation, given: Sequence[Binding], prefix: str, depth: int) -> Binding:
        """Lay out a computation whose parameters are bound; the rows of its root. spec: FP4.4"""
        self.source.descend(depth, f"line {computation.line}")
        env: dict[str, Binding] = {}
        pending: dict[str, _Pending] = {}
        for each in computation.instructions:
            self.source.spend(1 + len(each.operands), f"line {each.line}")
            self.ops.add(each.op)
            operands = [self.operand(env, name, each) for name in each.operands]
            if each.op == "parameter":
                if each.number >= len(given):
                    raise self.refuse(f"parameter {each.number} of {computation.name} is not given", each)
                env[each.name] = given[each.number] if depth == 0 else self.passed(each, given[each.number], prefix)
            elif each.op == "constant":
                env[each.name] = self.constant(each)
            elif each.op in ("while", "conditional", "call"):
                env[each.name] = self.control(each, operands, prefix, depth)
            elif each.op.endswith("-start") or each.op in STARTS:
                env[each.name] = self.start(each, operands, prefix, depth, pending)
            elif each.op.endswith(("-done", "-update")):
                env[each.name] = self.done(each, operands, prefix, pending)
            else:
                env[each.name] = self.plain(each, operands, prefix)
        if pending:
            raise self.refuse(f"{next(iter(pending))} is started and never done", computation.instructions[-1])
        return env[computation.root]

    def operand(self, env: Mapping[str, Binding], name: str, user: Instruction) -> Binding:
        if name not in env:
            raise self.refuse(f"operand {name!r} of {user.name} is not computed before it", user)
        return env[name]

    def control(self, each: Instruction, operands: list[Binding], prefix: str, depth: int) -> Binding:
        if each.op == "while":
            return self.loop(each, self.only(each, operands), prefix, depth)
        if each.op == "conditional":
            return self.branches(each, operands, prefix, depth)
        inner = self.computation(self.callee(each, "to_apply", "calls"), each)
        return self.passed(each, self.run(inner, operands, f"{prefix}{each.name}/", depth + 1), prefix)

    def loop(self, each: Instruction, carried: Binding, prefix: str, depth: int) -> Binding:
        """spec: FP4.5"""
        condition = self.computation(self.callee(each, "condition"), each)
        body = self.computation(self.callee(each, "body"), each)
        if 0 not in condition.parameters() or 0 not in body.parameters():
            raise self.refuse(f"the condition or the body of {each.name} has no parameter", each)
        for k in range(ITERATIONS + 1):
            inside = f"{prefix}{each.name}[{k}]/"
            proceeds = self.run(condition, [carried], f"{inside}condition/", depth + 1)
            left = self.passed(each, carried, inside, also=proceeds.values(), always=True)
            if k == ITERATIONS:
                break
            was, carried = carried, self.run(body, [carried], inside, depth + 1)
            for leaf in each.shape:
                names = (each.name, *(one.parameters()[0].name for one in (condition, body)))
                placed = all((name, leaf.at) in self.slices for name in names)
                if not placed and was.get(leaf.at) != carried.get(leaf.at):
                    raise self.refuse(f"{each.name}{_shown(leaf.at)} changes in the loop, and has no slice", each)
        return left

    def branches(self, each: Instruction, operands: list[Binding], prefix: str, depth: int) -> Binding:
        """spec: FP4.6"""
        names = each.called.get("branch_computations") or tuple(
            self.callee(each, key) for key in ("true_computation", "false_computation")
        )
        if not names or len(operands) != len(names) + 1:
            raise self.refuse(f"expected a branch for each of {len(operands) - 1} operands, got {len(names)}", each)
        self.step(each, f"{prefix}{each.name}/", (row for operand in operands for row in operand.values()), ())
        written, ends = _Extents(), []
        for k, (name, operand) in enumerate(zip(names, operands[1:], strict=True)):
            inside = f"{prefix}{each.name}/{k}/"
            first = len(self.building.steps)
            given = self.restored(each, operand, written, inside)
            result = self.run(self.computation(name, each), [given], inside, depth + 1)
            ends.append(self.passed(each, result, inside, always=True))
            for step in self.building.steps[first:]:
                for row in step.access.writes:
                    written.add(*self.place(row))
        for leaf in each.shape:
            if (each.name, leaf.at) not in self.slices and len({end.get(leaf.at) for end in ends}) > 1:
                raise self.refuse(f"the arms of {each.name}{_shown(leaf.at)} differ, and it has no slice", each)
        return ends[-1]

    def restored(self, each: Instruction, given: Binding, written: _Extents, prefix: str) -> Binding:
        """What an arm is given: in place of what the arms before have overwritten, `written`, the same written anew.

        It was whole before the arms, which a step has read. spec: FP4.6
        """
        again: dict[int, int] = {}
        for row in given.values():
            if row not in again and written.meet(*self.place(row)):
                tensor = self.building.tensors[row]
                name = self.tensor_names(f"{tensor.name} in {prefix}")
                again[row] = len(self.building.tensors)
                shown = row
                while shown not in self.tables and self.building.tensors[shown].shares is Shares.VIEW:
                    self.source.spend(1)
                    shown = self.building.tensors[shown].of
                if shown in self.tables and self.place(shown) == self.place(row):
                    self.tables[again[row]] = self.tables[shown]
                plain = StatedTensor(name, tensor.bytes, tensor.arena, tensor.offset, Role.ACTIVATION, 0, tensor.dtype)
                self.building.tensors.append(plain._replace(alignment=tensor.alignment))
        if again:
            self.step(each, f"{prefix}begins ", (), again.values())
        return {index: again.get(row, row) for index, row in given.items()}

    def callee(self, each: Instruction, *keys: str) -> str:
        found = [name for key in keys for name in each.called.get(key, ())]
        if len(found) != 1:
            raise self.refuse(f"expected a computation as {' or '.join(keys)} of {each.name}, got {len(found)}", each)
        return found[0]

    # Instructions

    def plain(self, each: Instruction, operands: list[Binding], prefix: str) -> Binding:
        """An instruction that runs as one step, or moves no bytes. spec: FP4.4"""
        if each.op == "tuple":
            parts = {(k, *index): row for k, part in enumerate(operands) for index, row in part.items()}
            return self.with_table(each, parts, (), prefix)
        if each.op == "copy" and each.shape[0].dtype == "" and len(each.shape) > 1:  # the table alone is copied
            copied = dict(self.only(each, operands))
            table = copied.pop((), None)
            return self.with_table(each, copied, () if table is None else (table,), prefix)
        if each.op == "get-tuple-element":
            whole = self.only(each, operands)
            part = {index[1:]: row for index, row in whole.items() if index[:1] == (each.number,)}
            table = whole.get(())
            return self.passed(each, part, prefix, also=() if table is None else (table,))
        if each.op in PASSES:
            return self.passed(each, operands[0] if operands else {}, prefix)
        reads = [row for k, operand in enumerate(operands) if self.is_read(each, k) for row in operand.values()]
        return self.computed(each, reads, prefix)

    def only(self, each: Instruction, operands: list[Binding]) -> Binding:
        if len(operands) != 1:
            raise self.refuse(f"expected one operand of {each.name}, got {len(operands)}", each)
        return operands[0]

    def with_table(self, each: Instruction, parts: Binding, reads: Iterable[int], prefix: str) -> Binding:
        """A tuple: its own table is written, all else is passed on."""
        table = self.made(each, each.shape[0], prefix, is_needed=False)
        if table is not None:
            self.step(each, prefix, reads, (table,))
            if ABSENT not in parts.values():
                self.tables[table] = tuple(sorted((index, self.place(row)) for index, row in parts.items()))
        passed = self.passed(each, parts, prefix)
        return {**passed, **({} if table is None else {(): table})}

    def is_read(self, each: Instruction, k: int) -> bool:
        """Whether a fusion reads its operand k: whether anything inside uses the parameter. spec: FP4.4"""
        if each.op != "fusion":
            return True
        name = self.callee(each, "calls")
        if name not in self.used:
            inner = self.computation(name, each)
            names = {operand for one in inner.instructions for operand in one.operands} | {inner.root}
            self.source.spend(len(inner.instructions))
            self.used[name] = frozenset(n for n, one in inner.parameters().items() if one.name in names)
        return k in self.used[name]

    def computed(
        self, each: Instruction, reads: Sequence[int], prefix: str, leaves: Iterable[Leaf] | None = None
    ) -> dict[Index, int]:
        """A step that reads rows and writes its leaves, each in an operand's identical slice or in one of its own.

        spec: FP4.3, FP4.4
        """
        where = {self.place(row): row for row in reversed(reads)}
        found: dict[Index, int] = {}
        for leaf in each.shape if leaves is None else leaves:
            row = self.made(each, leaf, prefix, is_needed=leaf.dtype != "")
            if row is None:
                continue
            found[leaf.at] = row
            operand = where.get(self.place(row))
            if operand is not None:
                shared = self.building.tensors[row]._replace(shares=Shares.IN_PLACE, of=operand)
                self.building.tensors[row] = shared
        self.step(each, prefix, reads, found.values())
        return found

    def constant(self, each: Instruction) -> Binding:
        """A constant: written before the module runs, once however often its computation runs. spec: FP4.8"""
        if each.name not in self.constants:
            rows: dict[Index, int | None] = {
                leaf.at: self.made(each, leaf, "", role=Role.PARAMETER, is_needed=False) for leaf in each.shape
            }
            for leaf in each.shape:
                if rows[leaf.at] is None and leaf.bytes:
                    self.unassigned.add(each.name)
                    rows[leaf.at] = ABSENT
            self.constants[each.name] = {index: row for index, row in rows.items() if row is not None}
        return self.constants[each.name]

    def start(
        self, each: Instruction, operands: list[Binding], prefix: str, depth: int, pending: dict[str, _Pending]
    ) -> Binding:
        """What begins here and may go on until its done. spec: FP4.7"""
        reads = tuple(row for operand in operands for row in operand.values())
        parts: dict[Index, int] = {}
        first = len(self.building.steps)
        if "calls" in each.called:
            inner = self.computation(self.callee(each, "calls"), each)
            result = self.run(inner, operands, f"{prefix}{each.name}/", depth + 1)
            parts |= {(1, *index): row for index, row in result.items()}
            parts |= {(0, k, *index): row for k, operand in enumerate(operands) for index, row in operand.items()}
        elif each.op == "copy-start":
            parts |= {(1, *index): row for index, row in self.only(each, operands).items()}
        elif len(operands) == 1:
            parts |= {(0, *index): row for index, row in operands[0].items()}
        else:
            parts |= {(0, k, *index): row for k, operand in enumerate(operands) for index, row in operand.items()}
        parts = {index: row for index, row in parts.items() if (each.name, index) not in self.slices}
        made = self.computed(each, reads, prefix, [leaf for leaf in each.shape if leaf.at not in parts])
        accesses = [step.access for step in self.building.steps[first:]]
        written = dict.fromkeys(row for access in accesses for row in access.writes)
        pending[each.name] = _Pending(
            tuple(dict.fromkeys(row for access in accesses for row in access.reads)),
            tuple(row for row in written if self.building.tensors[row].shares is not Shares.VIEW),
        )
        return {**parts, **made}

    def done(self, each: Instruction, operands: list[Binding], prefix: str, pending: dict[str, _Pending]) -> Binding:
        """The end of what was started: all of it was read and written until now. spec: FP4.7"""
        started = self.only(each, operands)
        name = each.operands[0]
        if name not in pending:
            raise self.refuse(f"{each.name} ends what does not start in its computation", each)
        open_ = pending.pop(name)
        if each.op.endswith("-update"):
            pending[each.name] = open_
            return self.passed(each, started, prefix)
        self.step(each, prefix, (*open_.reads, *open_.writes), open_.writes, changes=open_.writes)
        if each.op in ("copy-done", "recv-done"):
            result = {index[1:]: row for index, row in started.items() if index[:1] == (0,)}
            result = {(0, *index): row for index, row in result.items()} if each.op == "recv-done" else result
        elif any(index[:1] == (1,) for index in started) and each.op != "all-reduce-done":
            result = {index[1:]: row for index, row in started.items() if index[:1] == (1,)}
        else:
            result = dict(started)
        return self.passed(each, result, prefix, is_whole=each.op != "send-done")

    # Rows and steps

    def passed(
        self, each: Instruction, parts: Binding, prefix: str, also: Iterable[int] = (), *,
        always: bool = False, is_whole: bool = True,
    ) -> Binding:  # fmt: skip
        """What an instruction passes on without a byte moved: a view wherever it has a slice of its own.

        The step reads all of it where `always`, else what it shows, and `also`. spec: FP4.4
        """
        found: dict[Index, int] = {}
        self.source.spend(len(each.shape))
        reads, writes = list(also), []
        for leaf in each.shape:
            base = parts.get(leaf.at)
            if base is None:
                if leaf.bytes and is_whole:
                    raise self.refuse(f"{each.name}{_shown(leaf.at)} has no buffer", each)
                continue
            found[leaf.at] = base
            if base == ABSENT:
                if (each.name, leaf.at) in self.slices:
                    raise self.refuse(f"{each.name}{_shown(leaf.at)} has a slice, and its constant none", each)
                continue
            row = self.made(each, leaf, prefix, is_needed=False, of=base)
            if row is not None:
                found[leaf.at] = row
                writes.append(row)
            if row is not None or always:
                reads.append(base)
        if reads:
            self.step(each, prefix, reads, writes)
        return found

    def made(
        self, each: Instruction, leaf: Leaf, prefix: str, *, role: Role = Role.ACTIVATION, is_needed: bool = True,
        of: int = NONE,
    ) -> int | None:  # fmt: skip
        """The row of a new tensor in the slice that is assigned; None where it has none or no bytes. spec: FP4.3"""
        found = self.slices.get((each.name, leaf.at))
        if found is None:
            if is_needed and leaf.bytes:
                what = f"no slice is assigned to {each.name}{_shown(leaf.at)}"
                raise self.refuse(what, each, "give both files of one dump")
            return None
        self.met.add((each.name, leaf.at))
        # The program decides how many bytes are read and written; padding is the assignment's.
        size = max(leaf.bytes, found.size)
        if size == 0:
            return None
        dtype = TYPES.get(leaf.dtype, "uint8")
        name = self.tensor_names(f"{prefix}{each.name}{_shown(leaf.at) if len(each.shape) > 1 else ''}")
        self.source.spend(len(name) // NAME_PER_VISIT, f"line {each.line}")
        shares = Shares.NONE if of == NONE else Shares.VIEW
        rows = self.building.tensors
        flags, alignment = IS_INPUT if role is Role.INPUT else 0, element_alignment(dtype)
        rows.append(StatedTensor(name, size, found.arena, found.offset, role, flags, dtype, alignment, shares, of))
        self.source.bound(len(rows) + len(self.building.steps))
        return len(rows) - 1

    def place(self, row: int) -> tuple[int, int, int]:
        if row == ABSENT:
            return ABSENT, 0, 0
        tensor = self.building.tensors[row]
        return tensor.arena, tensor.offset, tensor.bytes

    def step(
        self, each: Instruction, prefix: str, reads: Iterable[int], writes: Iterable[int], changes: Iterable[int] = ()
    ) -> None:
        name = self.step_names(f"{prefix}{each.name}")
        reads, writes, changes = (
            tuple(row for row in dict.fromkeys(rows) if row != ABSENT) for rows in (reads, writes, changes)
        )
        self.source.spend(1 + len(reads) + len(writes) + len(name) // NAME_PER_VISIT, f"line {each.line}")
        self.building.step(name, (DOMAIN, each.op), reads, writes, changes)

    def refuse(self, what: str, each: Instruction | None, fix: str | None = None) -> Exception:
        return self.source.refuse(what, None if each is None else f"line {each.line}", fix)


class _Extents:
    """The bytes of some places, (arena, offset, bytes), as ranges that do not meet, in order."""

    def __init__(self) -> None:
        self.starts: dict[int, list[int]] = {}
        self.ends: dict[int, list[int]] = {}

    def add(self, arena: int, offset: int, size: int) -> None:
        """Add a place. O(log n) and what it joins."""
        starts, ends = self.starts.setdefault(arena, []), self.ends.setdefault(arena, [])
        first, last = bisect_left(ends, offset), bisect_right(starts, offset + size)
        if first < last:
            offset, end = min(offset, starts[first]), max(offset + size, ends[last - 1])
        else:
            end = offset + size
        starts[first:last], ends[first:last] = [offset], [end]

    def meet(self, arena: int, offset: int, size: int) -> bool:
        """Whether a byte of a place is among them. O(log n)."""
        k = bisect_right(self.ends.get(arena, []), offset)
        starts = self.starts.get(arena, [])
        return k < len(starts) and starts[k] < offset + size


def _shown(index: Index) -> str:
    return f"{{{','.join(map(str, index))}}}"
