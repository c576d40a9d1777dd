"""ExecuTorch's `.pte`: values with addresses, and instructions whose accesses are followed from first to last.

A kernel writes its last argument, a delegate those of its last arguments that nothing used before. `MoveCall` moves a
pointer: from then on a value is the tensor that was moved to it. `JumpFalseCall` is a cond with two branches if it
leads forward, and a loop if it leads back. A view that the compiler left out is a value that no instruction writes. It
shows the tensor that was last written at its bytes. Values are in the order of the program, so its place among them
says when that is.

If the branches of a cond move different tensors to one value, a later read may be of any of them. Each branch then ends
with a step that reads the tensors that it made and moves. A step after the cond writes the bytes of all of these anew,
as one tensor for each range of bytes. A step that reads the value reads each tensor that it may be, so that the bytes
of none are used again before. A tensor that a branch moves and that was made outside of the cond is read as itself.

The methods of a file may also be read as programs of a set (`read_programs`), which find one another's state in the
memories that they have in common.
spec: FP1.15, FP1.16, FP5.1 to FP5.16
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from proofs.readers.plans.executorch_file import (
    DELEGATE,
    JUMP,
    KERNEL,
    LISTS,
    MOVE,
    TENSOR,
    EValue,
    Method,
    PlacedBytes,
    ProgramCall,
    methods,
)
from proofs.readers.plans.foreign_plan import ForeignPlan, FreshNames, describe_branch_names, name_program
from tmmu.core.dtypes import element_alignment
from tmmu.core.output import list_names
from tmmu.core.source import Source
from tmmu.core.vocabulary import Role
from tmmu.plans.allocation import Arena
from tmmu.plans.building import AllocationBuilder, StatedTensor
from tmmu.plans.columns import IS_INPUT, IS_OUTPUT, IS_RETURNED
from tmmu.plans.reading import ACCESSES_WORKED_OUT, Reading, UndecidedConstruct
from tmmu.plans.sections import Plan

DOMAIN = "executorch"
VIEWS = frozenset({"executorch_prim::et_view.default", "executorch_prim::et_select.default"})
"""The last argument of these becomes a pointer into the first."""
APPENDS = "executorch_prim::et_copy_index.tensor"
"""A kernel that writes a part of its first argument in each iteration, and has no result."""
CHANGES = {"llama::update_cache": 1, "llama::update_cache_with_indices": 1}
"""The argument that a kernel writes beside its result, by the kernel's name without overload."""
OUT = ("aten::", "dim_order_ops::")
"""Namespaces whose kernels name a result as an argument and once more after all arguments."""
INSTRUCTION_VISITS = 16
"""The visits that an instruction counts beyond those of its values."""
NOTHING = -1
"""In the place of a row: the bytes of a value that became a pointer."""
SEPARATE = "each method has separate memory"
IN_COMMON = "memories 1 and 2 are those of all methods, each as large as the largest that a method states"
"""The memories of several methods that are judged one by one, and as a set: with `share_memory_arenas`."""
SHARED_MEMORIES = 2
"""The number of memories that the runtime can give to all methods: of activations, and of state."""


def read(source: Source) -> ForeignPlan:
    """Return the plan of all methods of a file.

    Raises INVALID_PLAN. O(file + moves x conds), within the bounds of readers.
    """
    building, findings = AllocationBuilder(), Findings()
    found = methods(source)
    names = FreshNames()
    for method in found:
        prefix = f"{names(method.name.replace('/', '_'))}/" if len(found) > 1 else ""
        notes = Notes()
        MethodWalk(source, method, AllocationBuilder(), Findings(), notes, prefix).run()
        MethodWalk(source, method, building, findings, notes, prefix).run()
    if not building.tensors:
        raise _unplanned(source)
    return ForeignPlan(Plan(building.allocation()), findings.reading(SEPARATE if len(found) > 1 else ""))


def read_programs(source: Source) -> dict[str, ForeignPlan]:
    """Return the plan of each method that uses planned memory, as a program of a set. Raises as `read`.

    A memory that all methods have in common has the bytes of the largest. A method that needs more than it states
    keeps what it states, and so does not fit. spec: FP5.16
    """
    found, names, programs = methods(source), FreshNames(), dict[str, ForeignPlan]()
    sizes = [max(method.memories[k : k + 1] or [0] for method in found)[0] for k in range(SHARED_MEMORIES)]
    for method in found:
        name, notes = names(name_program(method.name)), Notes()
        building, findings = AllocationBuilder(), Findings()
        for target in ((AllocationBuilder(), Findings()), (building, findings)):
            MethodWalk(source, method, *target, notes, f"{name}/", is_program=True).run()
        if not building.tensors:
            continue
        for k, arena in enumerate(building.arenas[:SHARED_MEMORIES]):
            end = max((t.offset + t.bytes for t in building.tensors if t.arena == k), default=0)
            if end <= arena.capacity:
                building.arenas[k] = replace(arena, capacity=sizes[k])
        reading = findings.reading(IN_COMMON if len(found) > 1 else "")
        programs[name] = ForeignPlan(Plan(building.allocation()), reading)
    if not programs:
        raise _unplanned(source)
    return programs


def _unplanned(source: Source) -> Exception:
    return source.refuse("no instruction uses a tensor of planned memory", None, "plan its memory")


@dataclass
class Notes:
    """Facts that the first walk finds out for the second.

    `reserved` has for each loop, by its jump, the values that are written in it and used after it, or filled over its
    iterations. `joined` has for each cond, by its jump, the values that it moves and that are read after it.
    """

    reserved: dict[int, set[int]] = field(default_factory=dict)
    joined: dict[int, set[int]] = field(default_factory=dict)


@dataclass
class Findings:
    """The facts, assumptions and approximations of a reading."""

    views: list[str] = field(default_factory=list)
    outside: dict[str, str] = field(default_factory=dict)
    joined: list[str] = field(default_factory=list)
    reserved: list[str] = field(default_factory=list)
    donated: dict[str, None] = field(default_factory=dict)
    state: dict[str, bool] = field(default_factory=dict)
    delegates: bool = False
    undecided: dict[UndecidedConstruct, None] = field(default_factory=dict)

    def reading(self, memories: str) -> Reading:
        """Return the reading as the verdict prints it. `memories` is the assumption about those of several methods."""
        assumptions = ["a kernel writes its last argument, llama::update_cache its cache, and nothing else"]
        if self.views:
            assumptions.append(f"views that were left out show the values at their bytes: {list_names(self.views)}")
        if self.delegates:
            assumptions.append("a delegate writes those of its last arguments that nothing used before")
        if memories:
            assumptions.append(memories)
        approximations = []
        if self.joined:
            approximations.append(describe_branch_names(self.joined))
        if self.reserved:
            approximations.append(f"what a loop fills or leaves is kept from before it: {list_names(self.reserved)}")
        return Reading(
            "ExecuTorch program", ACCESSES_WORKED_OUT, tuple(assumptions), self.outside, tuple(approximations),
            tuple(self.donated), undecided=tuple(self.undecided), state=self.state,
        )  # fmt: skip


class MethodWalk:
    """A walk over the instructions of a method that states its steps.

    `row` has the row of each planned tensor. `moved` has, for each value that a pointer was moved to, the rows that it
    may be, or None if an earlier iteration moved it. `shows` has the row that a view shows, if the view was left out.
    `written` has, for each row that is written on the way here, the first instruction that did so; `home` has the loops
    around that instruction. A program of a set has the names that the file gives to state, and `prefix` is that of all
    other values and of the memories that it has for itself.
    """

    def __init__(
        self, source: Source, method: Method, building: AllocationBuilder, findings: Findings, notes: Notes,
        prefix: str, *, is_program: bool = False,
    ) -> None:  # fmt: skip
        self.source, self.building, self.findings, self.notes = source, building, findings, notes
        self.values, self.outputs, self.prefix, self.chains = method.values, method.outputs, prefix, method.chains
        self.is_program, self.titles = is_program, FreshNames()
        self.inputs = set(method.inputs)
        self.arena = len(building.arenas)
        for k, size in enumerate(method.memories, 1):
            is_shared = is_program and k <= SHARED_MEMORIES
            building.arenas.append(Arena(f"{'' if is_shared else prefix}memory {k}", size))
        self.calls = [call for chain in method.chains for call in chain]
        self.row: dict[int, int] = {}
        self.value_of: dict[int, int] = {}
        self.moved: dict[int, tuple[int, ...] | None] = {}
        self.origins: dict[int, frozenset[tuple[int, int]]] = {}
        self.shows: dict[int, int] = {}
        self.written: dict[int, int] = {}
        self.home: dict[int, tuple[int, ...]] = {}
        self.last: dict[PlacedBytes, int] = {}  # the row last written at these bytes, in the order of writes
        self.loops: list[int] = []
        self.depth = 0

    def run(self) -> None:
        """State the whole method: the writes of the caller, the steps of its chains, and the reads of the caller."""
        program = Outline(self.source, self.values, self.inputs, self.calls)
        self.results, self.loops_at, self.views_at = program.results, program.loops, program.views
        made = {v for v in program.state if self.is_program and program.makes(v)}
        for v in sorted(self.inputs | program.state - made):
            if self.values[v].at is not None:
                is_input = v in self.inputs
                kept = 0 if is_input else IS_RETURNED
                role, flags = (Role.INPUT, IS_INPUT) if is_input else (Role.PARAMETER, kept)
                self.wrote(self.row_of(v, role, flags), -1)
        if any(v not in program.first for v in self.inputs.difference(self.outputs) if self.values[v].at is not None):
            # Such an input must be whole when the method begins, even if nothing needs it after that. spec: FP5.12
            given = [row for v in sorted(self.inputs) for row in self.own(v)]
            self.building.step(f"{self.prefix}inputs", (DOMAIN, "inputs"), given, ())
        start = 0
        for chain in self.chains:
            self.block(start, start + len(chain))
            start += len(chain)
        for row in (*self.rows(self.outputs), *(self.row[v] for v in sorted(made))):
            held = self.building.tensors[row]
            self.building.tensors[row] = held._replace(flags=held.flags | IS_OUTPUT | IS_RETURNED)
        for v in sorted(program.state - self.inputs):
            self.findings.state[self.building.tensors[self.row[v]].name] = self.values[v].is_filled

    def block(self, first: int, end: int, opened: int = 0) -> None:
        """State the instructions from `first` up to, but without, `end`.

        `opened` is the number of loops that begin at `first` and are open.
        """
        self.depth += 1
        self.source.check_depth(self.depth, f"instruction {first}")
        k = first
        while k < end:
            jumps, is_open = self.loops_at.get(k, ()), opened if k == first else 0
            if is_open < len(jumps):
                k = self.loop(k, jumps[is_open], end, is_open + 1)
                continue
            for v in self.views_at.get(k, ()):
                self.place_view(v)
            self.source.count_work(INSTRUCTION_VISITS)
            call = self.calls[k]
            k = self.cond(k, end) if call.kind == JUMP else self.instruction(k, call)
        self.depth -= 1

    # Control flow

    def loop(self, first: int, jump: int, end: int, opened: int) -> int:
        """State a loop that ends with a jump back to its first instruction. spec: FP5.7"""
        if jump >= end:
            raise self.astray(jump)
        reserved = [self.row_of(v) for v in sorted(self.notes.reserved.get(jump, ()))]
        if reserved := [row for row in reserved if row not in self.written]:
            self.step(jump, "memory of the loop", (), reserved)
            self.findings.reserved += [self.building.tensors[row].name for row in reserved]
        self.source.count_work(jump - first)
        for call in self.calls[first:jump]:
            if (target := find_moved_value(call)) is not None:
                self.moved[target] = None
        self.building.begin(self.named(jump, "loop"), (DOMAIN, "JumpFalseCall loop"), (), (), iterates=True)
        self.loops.append(jump)
        self.block(first, jump, opened)
        self.step(jump, "JumpFalseCall", self.rows(self.calls[jump].args), ())
        self.loops.pop()
        self.building.end((), ())
        return jump + 1

    def cond(self, k: int, end: int) -> int:
        """State a jump forward: the branch that follows it, and the one that it leads to. spec: FP5.5, FP5.6"""
        arms = arms_of(self.calls, self.values, k)
        if arms is None or arms[-1][1] > end:
            raise self.astray(k)
        before, joined = self.moved, self.notes.joined.get(k, set())
        name = self.named(k, "JumpFalseCall")
        self.building.begin(name, (DOMAIN, "JumpFalseCall"), self.rows(self.calls[k].args), (), exclusive=True)
        ends: list[dict[int, tuple[int, ...] | None]] = []
        hidden: dict[int, int] = {}
        came: dict[int, frozenset[tuple[int, int]]] = {}
        for n, (first, stop) in enumerate(arms):
            if n:
                self.building.arm()
            self.source.count_work(len(before) + len(self.written))
            self.moved, known = dict(before), dict(self.written)
            self.block(first, stop)
            results = (self.moved[v] if v in self.moved else self.own(v) for v in joined)
            taken = {row for rows in results for row in rows or () if self.written.get(row, -1) > k}
            self.step(k, f"end of arm {n}", sorted(taken), ())
            ends.append(self.moved)
            for v in self.moved:
                came[v] = came.get(v, frozenset()) | self.origins.get(v, frozenset())
            hidden |= {row: at for row, at in self.written.items() if row not in known}
            self.written = known
        self.building.end((), ())
        self.written |= hidden
        self.moved = dict(before)
        self.origins |= came
        self.join(k, ends, before, joined)
        return arms[-1][1]

    def join(
        self, k: int, ends: list[dict[int, tuple[int, ...] | None]], before: dict[int, tuple[int, ...] | None],
        joined: set[int],
    ) -> None:  # fmt: skip
        """State which tensors values may be after a cond, if its branches moved pointers to them."""
        self.source.count_work(sum(map(len, ends)))
        changed = [v for v in dict.fromkeys(v for e in ends for v in e) if any(e.get(v) != before.get(v) for e in ends)]
        may_be: dict[int, tuple[int, ...] | None] = {}
        for v in changed:
            found: set[int] = set()
            for each in ends:
                rows = each[v] if v in each else self.own(v) if v in joined else ()
                if rows is None:
                    break
                found.update(rows)
            else:
                may_be[v] = tuple(sorted(found))
                self.origins[v] = self.origins.get(v, frozenset()) | {(k, v)}
                continue
            may_be[v] = None
        made = {row for v in joined for row in may_be.get(v) or () if self.written.get(row, -1) > k}
        place = self.ranges(k, made)
        for v, rows in may_be.items():
            self.moved[v] = None if rows is None else tuple(sorted({place.get(row, row) for row in rows}))
            self.leave(v)

    def ranges(self, k: int, made: set[int]) -> dict[int, int]:
        """Write the bytes of tensors of branches anew, a tensor for each range, and return the new row of each."""
        tensors = self.building.tensors
        rows = sorted((tensors[row].arena, tensors[row].offset, row) for row in made if tensors[row].bytes)
        found: dict[int, int] = {}
        groups: list[list[int]] = []
        arena, reached = -1, 0
        for at, offset, row in rows:
            if at != arena or offset >= reached:
                groups.append([])
                arena, reached = at, 0
            groups[-1].append(row)
            reached = max(reached, offset + tensors[row].bytes)
        fresh_rows = []
        for n, group in enumerate(groups):
            first = tensors[group[0]]
            reach = max(tensors[row].offset + tensors[row].bytes for row in group)
            name = f"{self.prefix}results of {k}" + (f" part {n}" if n else "")
            merged = len(tensors)
            tensors.append(StatedTensor(name, reach - first.offset, first.arena, first.offset))
            fresh_rows.append(merged)
            found |= dict.fromkeys(group, merged)
            self.findings.joined.append(name)
        self.step(k, "results", (), fresh_rows)
        for row in fresh_rows:
            self.wrote(row, k)
        return found

    # Instructions

    def instruction(self, k: int, call: ProgramCall) -> int:
        """State an instruction that is not a jump, and return the number of the next one."""
        if (target := find_moved_value(call)) is not None:
            self.move(call.args[0], target)
        elif call.kind in (KERNEL, DELEGATE):
            self.call(k, call)
        return k + 1

    def move(self, source: int, target: int) -> None:
        """Make a value a pointer to another's tensor. spec: FP5.4"""
        value = self.values[source]
        if value.kind in LISTS:
            raise self.source.refuse("a list is moved by pointer", value.name, "move its tensors")
        if source in self.moved:
            self.moved[target] = self.moved[source]
        else:
            self.moved[target] = self.own(source)
        self.origins[target] = self.origins.get(source, frozenset())
        self.source.count_work(1 + len(self.origins[target]))
        self.leave(target)

    def leave(self, target: int) -> None:
        """State that a value's own bytes do not hold the tensor that was moved to it: no view shows it there."""
        at, rows = self.values[target].at, self.moved[target]
        if at is not None and not (rows is not None and len(rows) == 1 and self.last.get(at) == rows[0]):
            self.last.pop(at, None)
            self.last[at] = NOTHING

    def call(self, k: int, call: ProgramCall) -> None:
        """State a kernel or a delegate, which reads all arguments except its results. spec: FP5.3"""
        results = frozenset(self.results[k])
        writes = self.rows(self.results[k], is_read=False)
        again, made = [row for row in writes if row in self.written], frozenset(writes)
        reads = [row for row in self.rows([v for v in call.args if v not in results]) if row not in made]
        for row in again:
            self.look(row)
            if self.building.tensors[row].role in (Role.INPUT, Role.PARAMETER):
                self.findings.donated[self.building.tensors[row].name] = None
        if call.op == APPENDS and self.loops:
            for row in writes:
                if row not in self.written:
                    self.reserve(self.loops[-1], row)
        if call.kind == KERNEL and not self.names_results(call):
            text = f"the last argument of {call.op} is none of its results (instruction {k})"
            self.findings.undecided[UndecidedConstruct("kernel of ExecuTorch", text)] = None
        if call.kind == DELEGATE:
            self.findings.delegates = True
            self.findings.outside[f"delegate {call.op}"] = "its memory is its own"
        self.step(k, call.op, dict.fromkeys((*reads, *again)), writes, again)

    def names_results(self, call: ProgramCall) -> bool:
        """Decide whether a kernel's results are among its arguments and once more after them, as they are exported.

        spec: FP5.15
        """
        if not call.op.startswith(OUT) or not call.op.endswith("out"):
            return True
        if not call.args:
            return False
        *args, last = call.args
        items = self.values[last].items
        given = args[-1:] if args and self.values[args[-1]].kind in LISTS else args[len(args) - len(items) :]
        if args[-1:] == [last] or (items and tuple(given) == items):
            return True
        return bool(items) and len(given) == 1 and self.values[given[0]].items == items

    def step(
        self, k: int, op: str, reads: Iterable[int], writes: Sequence[int], changes: Sequence[int] = ()
    ) -> None:  # fmt: skip
        """State a step, if it touches planned memory at all."""
        reads = tuple(reads)
        if not (reads or writes):
            return
        self.building.step(self.named(k, op), (DOMAIN, op.replace("\0", "_")), reads, writes, changes)
        self.source.bound(len(self.building.steps))
        for row in writes:
            self.wrote(row, k)

    def named(self, k: int, op: str) -> str:
        """Return the name of a step: the number of its instruction, and its operation."""
        return f"{'' if self.is_program else self.prefix}{k} {op}".replace("\0", "_")

    # Values

    def rows(self, values: Iterable[int], *, is_read: bool = True) -> list[int]:
        """Return the rows that some values may be, each once."""
        found: dict[int, None] = {}
        for v in values:
            for each in self.values[v].items if self.values[v].kind in LISTS else (v,):
                rows = self.moved.get(each, ()) if each in self.moved else self.own(each)
                if rows is None:
                    text = "it is used as an iteration before moved it"
                    raise self.source.refuse(text, self.values[each].name, "such loops are not read")
                self.source.count_work(1 + len(rows))
                if is_read or each in self.moved:
                    for k, of in self.origins.get(each, ()):
                        self.notes.joined.setdefault(k, set()).add(of)
                found |= dict.fromkeys(rows)
        for row in found if is_read else ():
            self.look(row)
        return list(found)

    def look(self, row: int) -> None:
        """Note a read of a row. If a loop that has ended made it, it must be there before that loop."""
        ended = [loop for loop in self.home.get(row, ()) if loop not in self.loops]
        if ended:
            self.reserve(ended[0], row)

    def reserve(self, loop: int, row: int) -> None:
        """Note that a row must be there before a loop, for the second walk."""
        if row in self.value_of:
            self.notes.reserved.setdefault(loop, set()).add(self.value_of[row])

    def own(self, v: int) -> tuple[int, ...]:
        """Return the row of a value without a move to it, or the row that it shows; none outside planned memory."""
        value = self.values[v]
        if v in self.shows:
            return (self.shows[v],)
        if value.kind == TENSOR and value.at is None:
            what = "constants" if value.is_constant else "tensors without a planned place"
            self.findings.outside[what] = "they are in the file" if value.is_constant else "the runtime allocates them"
        return (self.row_of(v),) if value.at is not None else ()

    def row_of(self, v: int, role: Role = Role.ACTIVATION, flags: int = 0) -> int:
        """Return the row of a planned tensor, and state the tensor at its first use."""
        if v not in self.row:
            value = self.values[v]
            assert value.at is not None  # the callers ask only for planned tensors
            self.row[v] = row = len(self.building.tensors)
            self.value_of[row] = v
            is_titled = self.is_program and value.title
            name = self.titles(value.title) if is_titled else f"{self.prefix}{value.name}".replace("\0", "_")
            self.building.tensors.append(StatedTensor(
                name, value.at.bytes, self.arena + value.at.memory, value.at.first, role, flags, value.dtype,
                element_alignment(value.dtype),
            ))  # fmt: skip
            self.source.bound(len(self.building.tensors))
        return self.row[v]

    def wrote(self, row: int, k: int) -> None:
        """Note that instruction `k` writes a row."""
        if row not in self.written:
            self.written[row] = k
            self.home.setdefault(row, tuple(self.loops))
        if row in self.value_of:
            at = self.values[self.value_of[row]].at
            assert at is not None
            self.last.pop(at, None)
            self.last[at] = row

    def place_view(self, v: int) -> None:
        """Let a view that was left out show the row last written at its bytes, or around them. spec: FP5.8"""
        at = self.values[v].at
        assert at is not None
        row = self.last.get(at)
        if row in self.value_of and self.values[self.value_of[row]].dtype != self.values[v].dtype:
            row = NOTHING
        if row is None:
            for other in reversed(self.last):
                self.source.count_work(1)
                ends = other.first + other.bytes, at.first + at.bytes
                if other.memory == at.memory and other.first <= at.first and ends[1] <= ends[0] and at.bytes:
                    row = self.last[other]
                    break
        if row is not None and row != NOTHING:
            self.shows[v] = row
            self.findings.views.append(f"{self.prefix}{self.values[v].name}")

    def astray(self, k: int) -> Exception:
        """Return the error for a jump that makes no cond or loop. spec: FP5.9"""
        return self.source.refuse("it leads into or out of a cond or loop", f"instruction {k}", "export it again")


class Outline:
    """Facts of a program that are known before it is walked.

    These are the results of each instruction, the beginnings of loops, the values that are state, and the instruction
    that comes after each view that was left out.
    """

    def __init__(self, source: Source, values: list[EValue], inputs: set[int], calls: list[ProgramCall]) -> None:
        self.source, self.values, self.inputs, self.calls = source, values, inputs, calls
        self.first: dict[int, int] = {}  # the instruction that mentions a value first
        self.reads_first: set[int] = set()
        self.latest: dict[PlacedBytes, int] = {}
        self.used: set[int] = set()  # values mentioned since they were written
        self.order: list[tuple[int, int]] = []  # (value, instruction) of each result that is new
        self.results = [self.find_written(k, call) for k, call in enumerate(calls)]
        self.loops: dict[int, list[int]] = {}
        for k in range(len(calls) - 1, -1, -1):
            if calls[k].kind == JUMP and 0 <= calls[k].to <= k:
                self.loops.setdefault(calls[k].to, []).append(k)
        self.state: set[int] = set()
        self.views: dict[int, list[int]] = {}
        self._views()

    def find_mentioned(self, call: ProgramCall) -> list[int]:
        """Return the values that an instruction names, those of a list one by one."""
        found: dict[int, None] = {}
        for v in call.args:
            items = self.values[v].items if self.values[v].kind in LISTS else (v,)
            self.source.count_work(len(items))
            found |= dict.fromkeys(items)
        return list(found)

    def find_written(self, k: int, call: ProgramCall) -> tuple[int, ...]:
        """Return the values that an instruction writes, those of a list one by one."""
        mentioned, results = self.find_mentioned(call), list[int]()
        if call.kind == KERNEL and call.args and call.op not in VIEWS:
            last = call.args[0] if call.op == APPENDS else call.args[-1]
            results = list(self.values[last].items if self.values[last].kind in LISTS else (last,))
            changed = CHANGES.get(call.op.split(".")[0])
            results += [call.args[changed]] if changed is not None and changed < len(call.args) else []
        elif call.kind == DELEGATE:
            for v in reversed(call.args):
                if not self.is_new(v):
                    break
                results.append(v)
            results.reverse()
        results = [v for v in dict.fromkeys(results) if self.values[v].kind == TENSOR]
        written = frozenset(results)
        in_place = call.op.split(".")[0].endswith("_") or call.op == APPENDS
        for v in mentioned:
            if v not in self.first:
                self.first[v] = k
                is_overwritten = v in written and (not in_place or call.op.startswith(("aten::copy_", APPENDS)))
                is_changed = CHANGES.get(call.op.split(".")[0]) is not None and v != call.args[-1]
                if not is_overwritten or is_changed:
                    self.reads_first.add(v)
                elif not in_place:
                    self.order.append((v, k))
        self.used.update(v for v in mentioned if v not in written)
        for v in results:
            if (at := self.values[v].at) is not None:
                self.latest[at] = v
                self.used.discard(v)
        return tuple(results)

    def is_new(self, v: int) -> bool:
        """Decide whether a delegate makes a value.

        It does if no instruction mentioned it before, and no value at its bytes is still to be read.
        """
        at = self.values[v].at
        if v in self.first or v in self.inputs or at is None or self.values[v].is_kept:
            return False
        return at not in self.latest or self.latest[at] in self.used

    def makes(self, v: int) -> bool:
        """Decide whether an instruction outside of conds and loops writes all of a value before anything reads it.

        A kernel names its result as an argument and once more after all arguments. A result that it names further is
        also an operand.
        """
        k = self.first[v]
        args, op = self.calls[k].args, self.calls[k].op
        self.source.count_work(len(self.ranges) + len(args))
        is_named_twice = args[-2:] == (v, v) or (op.startswith("aten::copy_") and args[0] == v)
        is_result = args[-1:] == (v,) and args.count(v) == 1 + is_named_twice
        is_inner = any(first <= k < end for first, end in self.ranges)
        return is_result and v in self.results[k] and v not in self.reads_first and not is_inner

    def _views(self) -> None:
        """Find the values that are read before any write: state if they are before all results, else views."""
        written = frozenset(v for results in self.results for v in results)
        targets = {target for call in self.calls if (target := find_moved_value(call)) is not None}
        self.order.sort()
        results = [v for v, _ in self.order]
        reached, latest = [0], 0
        for _, k in self.order:
            latest = max(latest, k + 1)
            reached.append(latest)
        self.ranges = ranges = sorted(self._ranges(), key=lambda each: each[1] - each[0])
        given = {self.values[v].at for v in self.inputs}
        for v in sorted(self.first):
            value = self.values[v]
            if value.at is None or v in self.inputs or v in targets:
                continue
            at = reached[bisect_left(results, v)]
            is_first = v in self.reads_first and at == 0
            if value.is_kept or (is_first and (v in written or value.at not in given)):
                self.state.add(v)
                given.add(value.at)
            elif v not in written:
                mention = self.first[v]
                self.source.count_work(len(ranges))
                for first, end in ranges:
                    at = end if first < at < end <= mention else at
                self.views.setdefault(min(at, mention), []).append(v)

    def _ranges(self) -> list[tuple[int, int]]:
        """Return the branches of conds and the bodies of loops: the first instruction, and the one after the last."""
        found = [(first, jump + 1) for first, jumps in self.loops.items() for jump in jumps]
        for k, call in enumerate(self.calls):
            if call.kind == JUMP:
                found += arms_of(self.calls, self.values, k) or ()
        return found


def find_moved_value(call: ProgramCall) -> int | None:
    """Return the value that an instruction makes a pointer to another's tensor, None if it makes none."""
    is_move = call.kind == MOVE or (call.kind == KERNEL and call.op in VIEWS and len(call.args) > 1)
    return call.args[-1] if is_move else None


def arms_of(
    calls: Sequence[ProgramCall], values: Sequence[EValue], k: int
) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Return the branches of a cond, each as its first instruction and the one after its last.

    The first branch ends with a jump on the constant False to the end of the second. Without such a jump the second
    branch is empty. Return None if the jump is not a cond.
    """
    second = calls[k].to
    if not k < second <= len(calls):
        return None
    over = calls[second - 1]
    if second - 1 > k and over.kind == JUMP and values[over.args[0]].is_false and second <= over.to <= len(calls):
        return (k + 1, second - 1), (second, over.to)
    return (k + 1, second), (second, second)
