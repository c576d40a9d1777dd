"""XLA's buffer assignment, and the accesses of the scheduled HLO beside it, worked out again.

A dump has `NAME-buffer-assignment.txt`, a slice of an allocation for each value, and `NAME.txt`, the module in
execution order. The program is laid out flat, as steps one after the other. Each value has the slice that the
assignment states, and lives from its definition to its last use *in the program*:

- Fusions and other instructions are steps. Their results may take an operand's identical slice if `hlo_in_place` shows
  that the instruction reads that operand at the element that it writes.
- `tuple`, `get-tuple-element`, `bitcast` and calls move no bytes. If the assignment has a slice for a value that they
  pass on (a *phi*: the parameter of a loop's body, the result of a conditional), the flat program has a view there. It
  is refuted unless the slice is the one that is passed on.
- A `while` is its condition, its body, the condition, the body and the condition. Whatever the number of iterations, a
  run is a part of this but for names: an iteration begins with the values that the operand or the iteration before
  left, and after each condition all that is carried must be whole, in the slices of the result.
- The branches of a `conditional` follow one another, at the end of each its results, whole and in the slices of the
  conditional. If a branch is given bytes that a branch before has overwritten, they are written anew before it: a run
  has one of them, which begins with the values from before the conditional. All that is read after it must be whole in
  spite of all branches.
- An asynchronous operation is a step on a separate stream, from its start on. Its done waits for that step, so that the
  operation may read and write until then. Without such operations the plan has no streams.

spec: FP4.1 to FP4.16
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from proofs.readers.plans.foreign_plan import ForeignPlan
from proofs.readers.plans.hlo import parse
from proofs.readers.plans.hlo_in_place import InPlace, Operand, find_updated_operands
from proofs.readers.plans.hlo_module import Computation, HloModule, Instruction
from proofs.readers.plans.hlo_opcodes import Reads, is_start
from proofs.readers.plans.hlo_text import Index, Leaf
from proofs.readers.plans.xla_buffers import (
    Assignment,
    Slice,
    check_values,
    find_shared_by_threads,
    read_assignment,
)
from proofs.readers.plans.xla_rows import ABSENT, DOMAIN, Binding, ByteRanges, Rows, format_place
from tmmu.core.source import Source
from tmmu.core.vocabulary import Role, Shares
from tmmu.plans.building import MisplacedTensor, StatedTensor
from tmmu.plans.columns import IS_OUTPUT, IS_RETURNED
from tmmu.plans.reading import ACCESSES_WORKED_OUT, Reading, UndecidedConstruct
from tmmu.plans.sections import Plan

__all__ = ["SUFFIX", "Assignment", "Slice", "flatten", "read", "read_assignment", "schedule_of"]

SUFFIX = "-buffer-assignment.txt"
ITERATIONS = 2
"""How often the body of a loop is laid out: from its operand, and from an iteration. spec: FP4.5"""

TWO_ITERATIONS = "two iterations of a loop represent all: a third one finds what the second one found"
DONATED = "the caller donates the parameters that the module's title names as aliased or donated"
READS_FIRST = "a kernel reads all that its results at an index are computed from before it writes any of them there"


def schedule_of(path: str) -> str:
    """Return the file of the module in scheduled order, beside the one of its buffer assignment."""
    return f"{path.removesuffix(SUFFIX)}.txt"


def read(source: Source) -> ForeignPlan:
    """Return the plan of a module: the assignment in `source`, the schedule in the file beside it.

    Raises INVALID_PLAN with file and line. O(bytes + instructions × 2^d) for loops that nest d deep, within the bounds.
    """
    assignment = read_assignment(source)
    if source.path is None or not source.path.name.endswith(SUFFIX):
        raise source.refuse(f"the schedule is in the file beside it, which the name ending {SUFFIX} gives", None)
    beside = source.beside(schedule_of(source.path.name))
    return flatten(beside, assignment)


def flatten(source: Source, assignment: Assignment) -> ForeignPlan:
    """Return the plan of the scheduled HLO in `source` at the slices of an assignment. Raises and costs as `read`."""
    module = parse(source)
    check_values(assignment, module)
    return _Flattening(source, assignment, module).plan()


class _Flattening(Rows):
    """The flat program in the making."""

    def __init__(self, source: Source, assignment: Assignment, module: HloModule) -> None:
        super().__init__(source, assignment)
        self.module, self.assignment = module, assignment
        self.constants: dict[str, Binding] = {}
        self.unassigned: set[str] = set()
        self.ops: set[str] = set()
        self.used: dict[str, frozenset[int]] = {}
        self.in_place = InPlace(source, module)
        self.is_shown = False
        self.denied: dict[str, str] = {}
        self.exits: dict[str, str] = {}
        self.undecided: dict[UndecidedConstruct, None] = {}

    def plan(self) -> ForeignPlan:
        """Lay out the module."""
        entry = self.module.computations[self.module.entry]
        for each in (each for one in self.module.computations.values() for each in one.instructions):
            if each.op == "constant" and any((each.name, leaf.at) in self.slices for leaf in each.shape):
                self.state_constant(each)  # kernels may read it as well
        donated: list[str] = []
        parameters: list[Binding] = []
        for number, parameter in sorted(entry.parameters().items()):
            binding: dict[Index, int] = {}
            for leaf in parameter.shape:
                is_donated = any(n == number and leaf.at[: len(i)] == i for n, i in self.module.donated)
                role = Role.INPUT if is_donated else Role.PARAMETER
                row = self.make(parameter, leaf, "", role=role)
                if row is not None:
                    binding[leaf.at] = row
                    donated += [self.building.tensors[row].name] if is_donated else []
            parameters.append(binding)
        # Parameters come before all other instructions, so that one that is never read is gone when the first runs.
        self.add_step(f"parameters of {entry.name}", (DOMAIN, "parameter"), (), ())
        root = self.merge_equal_tables(self.lay_out(entry, parameters, "", 0))
        self.return_results(entry, root, parameters)
        if not self.lanes.names:
            steps = self.building.steps
            steps[:] = [step._replace(stream="") for step in steps]
        try:
            plan = Plan(self.building.allocation())
        except MisplacedTensor as error:  # a slice beyond 64 bits
            raise self.source.refuse(error.what, self.building.tensors[error.row].name) from error
        return ForeignPlan(plan, self.reading(tuple(donated)))

    def reading(self, donated: tuple[str, ...]) -> Reading:
        """Return the facts that the plan relies on. spec: FP4.5, FP4.6, FP4.7, FP4.9, FP4.13, FP4.15, FP4.16"""
        outside = {"alignment beyond the width of elements": "the file states none"}
        if self.assignment.thread_local:
            count = len(self.assignment.thread_local)
            outside["thread-local allocations"] = f"{count} values of computations inside of kernels"
        if self.unassigned:
            outside["constants without a buffer"] = "they are part of the code"
        left = len(self.slices) - len(self.met)
        if left:
            outside["values that no step of the entry makes"] = f"{left} of them"
        assumptions = [TWO_ITERATIONS] if "while" in self.ops else []
        assumptions += [DONATED] if donated else []
        assumptions += [READS_FIRST] if self.is_shown else []
        for one, other in find_shared_by_threads(self.assignment):
            text = f"{one} and {other} are in the same bytes of a thread, and computations of kernels are not laid out"
            self.undecided[UndecidedConstruct("thread-local allocation", text)] = None
        return Reading(
            "XLA buffer assignment", ACCESSES_WORKED_OUT, tuple(assumptions), outside, donated=donated,
            denied=self.denied, undecided=tuple(self.undecided), exits=self.exits,
        )  # fmt: skip

    def return_results(self, entry: Computation, root: Binding, parameters: list[Binding]) -> None:
        """State the results, in the place where the caller reads them, after all temporary memory ends.

        spec: FP4.10
        """
        last = entry.result
        if ABSENT in root.values():
            raise self.refuse("the module returns a constant that has no buffer", last)
        result, moved = dict(root), dict[int, int]()
        for index, (number, at) in self.module.aliased.items():
            row, parameter = root.get(index), parameters[number].get(at) if number < len(parameters) else None
            if row is None and parameter is None and number < len(parameters):
                continue  # neither has bytes
            if row is None or parameter is None:
                raise self.refuse(f"the title aliases {format_place(index)}, and only one of the pair has bytes", last)
            self.exits[self.building.tensors[parameter].name] = self.building.tensors[row].name
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
        for arena in self.assignment.temporary:
            memory = self.building.arenas[arena]
            if memory.capacity:
                self.building.tensors.append(StatedTensor(f"{memory.name} given back", memory.capacity, arena, 0))
                freed.append(len(self.building.tensors) - 1)
        if freed:
            self.add_step("temporary memory is given back", (DOMAIN, "free"), (), freed)
        for row in result.values():
            tensor = self.building.tensors[row]
            self.building.tensors[row] = tensor._replace(flags=tensor.flags | IS_OUTPUT | IS_RETURNED)

    # Computations

    def lay_out(self, computation: Computation, given: Sequence[Binding], prefix: str, depth: int) -> Binding:
        """Lay out a computation whose parameters are bound, and return the rows of its root. spec: FP4.4"""
        self.source.check_depth(depth, f"line {computation.line}")
        env: dict[str, Binding] = {}
        pending: dict[str, str] = {}
        for each in computation.instructions:
            self.source.count_work(6 + len(each.operands), f"line {each.line}")
            self.ops.add(each.op)
            operands = [env[name] for name in each.operands]
            if each.op == "parameter":
                env[each.name] = given[each.number] if depth == 0 else self.pass_on(each, given[each.number], prefix)
            elif each.op == "constant":
                env[each.name] = self.state_constant(each)
            elif each.op in ("while", "conditional", "call"):
                env[each.name] = self.lay_out_control(each, operands, prefix, depth)
            elif is_start(each.op):
                env[each.name], pending[each.name] = self.lay_out_start(each, computation, operands, prefix, depth)
            elif each.op.endswith(("-done", "-update")):
                env[each.name] = self.lay_out_done(each, operands[0], prefix, pending)
            else:
                env[each.name] = self.lay_out_plain(computation, each, operands, prefix)
        if pending:
            raise self.refuse(f"{next(iter(pending))} is started and never done", computation.instructions[-1])
        return env[computation.root]

    def lay_out_control(self, each: Instruction, operands: list[Binding], prefix: str, depth: int) -> Binding:
        """Lay out an instruction that runs computations."""
        if each.op == "while":
            return self.lay_out_loop(each, operands[0], prefix, depth)
        if each.op == "conditional":
            return self.lay_out_branches(each, operands, prefix, depth)
        inner = self.callee(each, "to_apply")
        return self.pass_on(each, self.lay_out(inner, operands, f"{prefix}{each.name}/", depth + 1), prefix)

    def lay_out_loop(self, each: Instruction, carried: Binding, prefix: str, depth: int) -> Binding:
        """Lay out a loop with two iterations, and return the rows of its result. spec: FP4.5"""
        condition, body = self.callee(each, "condition"), self.callee(each, "body")
        for k in range(ITERATIONS + 1):
            inside = f"{prefix}{each.name}[{k}]/"
            proceeds = self.lay_out(condition, [carried], f"{inside}condition/", depth + 1)
            left = self.pass_on(each, carried, inside, also=proceeds.values(), always=True)
            if k == ITERATIONS:
                break
            was, carried = carried, self.lay_out(body, [carried], inside, depth + 1)
            for leaf in each.shape:
                names = (each.name, *(one.parameters()[0].name for one in (condition, body)))
                placed = all((name, leaf.at) in self.slices for name in names)
                if not placed and was.get(leaf.at) != carried.get(leaf.at):
                    raise self.refuse(f"{each.name}{format_place(leaf.at)} changes in the loop, and has no slice", each)
        return left

    def lay_out_branches(self, each: Instruction, operands: list[Binding], prefix: str, depth: int) -> Binding:
        """Lay out the branches of a conditional one after the other. spec: FP4.6"""
        names = each.called.get("branch_computations") or tuple(
            self.callee(each, key).name for key in ("true_computation", "false_computation")
        )
        if len(operands) != len(names) + 1:
            raise self.refuse(f"expected a branch for each of {len(operands) - 1} operands, got {len(names)}", each)
        self.step(each, f"{prefix}{each.name}/", (row for operand in operands for row in operand.values()), ())
        written, ends = ByteRanges(), []
        for k, (name, operand) in enumerate(zip(names, operands[1:], strict=True)):
            inside = f"{prefix}{each.name}/{k}/"
            first = len(self.building.steps)
            given = self.restore(each, operand, written, inside)
            result = self.lay_out(self.module.computations[name], [given], inside, depth + 1)
            ends.append(self.pass_on(each, result, inside, always=True))
            for step in self.building.steps[first:]:
                for row in step.access.writes:
                    written.add(*self.place(row))
        for leaf in each.shape:
            if (each.name, leaf.at) not in self.slices and len({end.get(leaf.at) for end in ends}) > 1:
                raise self.refuse(f"the arms of {each.name}{format_place(leaf.at)} differ, and it has no slice", each)
        return ends[-1]

    def restore(self, each: Instruction, given: Binding, written: ByteRanges, prefix: str) -> Binding:
        """Return the operand of a branch, written anew if the branches before have overwritten it: `written`.

        It was whole before the branches, as a step has read it. spec: FP4.6
        """
        again: dict[int, int] = {}
        for row in given.values():
            if row not in again and written.overlaps(*self.place(row)):
                tensor = self.building.tensors[row]
                name = self.tensor_names(f"{tensor.name} in {prefix}")
                again[row] = len(self.building.tensors)
                base = row
                while base not in self.tables and self.building.tensors[base].shares is Shares.VIEW:
                    self.source.count_work(1)
                    base = self.building.tensors[base].of
                if base in self.tables and self.place(base) == self.place(row):
                    self.tables[again[row]] = self.tables[base]
                plain = StatedTensor(name, tensor.bytes, tensor.arena, tensor.offset, Role.ACTIVATION, 0, tensor.dtype)
                self.building.tensors.append(plain._replace(alignment=tensor.alignment))
        if again:
            self.step(each, f"{prefix}begins ", (), again.values())
        return {index: again.get(row, row) for index, row in given.items()}

    def callee(self, each: Instruction, key: str) -> Computation:
        """Return the computation that an attribute names."""
        found = each.called.get(key, ())
        if len(found) != 1:
            raise self.refuse(f"expected a computation as {key} of {each.name}, got {len(found)}", each)
        return self.module.computations[found[0]]

    # Instructions

    def lay_out_plain(
        self, computation: Computation, each: Instruction, operands: list[Binding], prefix: str
    ) -> Binding:
        """Lay out an instruction that runs as one step, or moves no bytes. spec: FP4.4"""
        reads = each.row.reads
        if reads is Reads.TUPLED:
            parts = {(k, *index): row for k, part in enumerate(operands) for index, row in part.items()}
            return self.make_tuple(each, parts, (), prefix)
        if each.op == "copy" and each.shape[0].dtype == "" and len(each.shape) > 1:  # only the table is copied
            copied = dict(operands[0])
            table = copied.pop((), None)
            return self.make_tuple(each, copied, () if table is None else (table,), prefix)
        if reads is Reads.ELEMENT:
            whole = operands[0]
            part = {index[1:]: row for index, row in whole.items() if index[:1] == (each.number,)}
            table = whole.get(())
            return self.pass_on(each, part, prefix, also=() if table is None else (table,))
        if reads in (Reads.WHOLE, Reads.BYTES):
            return self.pass_on(each, operands[0], prefix)
        return self.compute(computation, each, operands, prefix)

    def is_read(self, each: Instruction, k: int) -> bool:
        """Decide whether a fusion reads its operand k: whether anything inside uses the parameter. spec: FP4.4"""
        if each.op != "fusion":
            return True
        inner = self.callee(each, "calls")
        if inner.name not in self.used:
            names = {operand for one in inner.instructions for operand in one.operands} | {inner.root}
            self.source.count_work(len(inner.instructions))
            self.used[inner.name] = frozenset(n for n, one in inner.parameters().items() if one.name in names)
        return k in self.used[inner.name]

    def compute(
        self, computation: Computation, each: Instruction, operands: list[Binding], prefix: str,
        leaves: Iterable[Leaf] | None = None,
    ) -> dict[Index, int]:  # fmt: skip
        """State a step that reads operands and writes its leaves, and return their rows.

        A leaf in an operand's identical slice is in place of it, unless that is denied. spec: FP4.3, FP4.4, FP4.13
        """
        read = [
            ((k, index), row)
            for k, operand in enumerate(operands)
            if self.is_read(each, k)
            for index, row in operand.items()
            if row != ABSENT
        ]
        there: dict[tuple[int, int, int], list[tuple[Operand, int]]] = {}
        for of, row in read:
            there.setdefault(self.place(row), []).append((of, row))
        found: dict[Index, int] = {}
        for leaf in each.shape if leaves is None else leaves:
            made = self.make(each, leaf, prefix, is_needed=leaf.dtype != "")
            if made is None:
                continue
            found[leaf.at] = made
            if leaf.dtype and (taken := there.get(self.place(made))):
                self.take(computation, each, leaf, made, taken)
        self.step(each, prefix, (row for _, row in read), found.values())
        return found

    def take(
        self, computation: Computation, each: Instruction, leaf: Leaf, row: int, taken: list[tuple[Operand, int]]
    ) -> None:
        """Put a result in place of the operands that have its bytes, unless that is denied.

        A result that is denied it is an ordinary write over bytes that its step reads, which the checker refutes.
        spec: FP4.13, FP4.15
        """
        operands = [of for of, _ in taken]
        denial = self.in_place.denial(computation, each, leaf, operands)
        tensor = self.building.tensors[row]
        if denial is not None and denial.is_certain:
            self.denied[tensor.name] = denial.why
            return
        if denial is not None:
            text = f"{tensor.name} is in the bytes of {each.operands[operands[0][0]]}, and {denial.why}"
            self.undecided[UndecidedConstruct(denial.kind, text)] = None
        elif (leaf.at, operands[0]) not in find_updated_operands(each):
            self.is_shown = True
        self.building.tensors[row] = tensor._replace(shares=Shares.IN_PLACE, of=taken[0][1])

    def state_constant(self, each: Instruction) -> Binding:
        """State a constant: written before the module runs, once however often its computation runs. spec: FP4.8"""
        if each.name not in self.constants:
            rows: dict[Index, int | None] = {
                leaf.at: self.make(each, leaf, "", role=Role.PARAMETER, is_needed=False) for leaf in each.shape
            }
            for leaf in each.shape:
                if rows[leaf.at] is None and leaf.bytes:
                    self.unassigned.add(each.name)
                    rows[leaf.at] = ABSENT
            self.constants[each.name] = {index: row for index, row in rows.items() if row is not None}
        return self.constants[each.name]

    def lay_out_start(
        self, each: Instruction, computation: Computation, operands: list[Binding], prefix: str, depth: int
    ) -> tuple[Binding, str]:
        """Lay out an operation that begins here and may go on until its done, and return its lane. spec: FP4.7"""
        issuer, first = self.stream, len(self.building.steps)
        self.stream = self.lanes.take(issuer)
        self.source.count_work(len(self.lanes.names), f"line {each.line}")
        parts: dict[Index, int] = {}
        if "calls" in each.called:
            result = self.lay_out(self.callee(each, "calls"), operands, f"{prefix}{each.name}/", depth + 1)
            parts |= {(1, *index): row for index, row in result.items()}
            parts |= {(0, k, *index): row for k, operand in enumerate(operands) for index, row in operand.items()}
        elif each.op == "copy-start":
            parts |= {(1, *index): row for index, row in operands[0].items()}
        elif len(operands) == 1 or each.op == "send":
            parts |= {(0, *index): row for index, row in operands[0].items()}
        else:
            parts |= {(0, k, *index): row for k, operand in enumerate(operands) for index, row in operand.items()}
        parts = {index: row for index, row in parts.items() if (each.name, index) not in self.slices}
        made = self.compute(computation, each, operands, prefix, [leaf for leaf in each.shape if leaf.at not in parts])
        lane, self.stream = self.stream, issuer
        # All steps so far of the stream that issues it happen before it. A computation that starts has at least one.
        begun = self.building.steps[first]
        after = {*begun.after, *((self.last[issuer],) if issuer in self.last else ())}
        self.building.steps[first] = begun._replace(after=tuple(sorted(after)))
        return {**parts, **made}, lane

    def lay_out_done(self, each: Instruction, started: Binding, prefix: str, pending: dict[str, str]) -> Binding:
        """End an operation that was started: the stream waits for it here. spec: FP4.7"""
        name = each.operands[0]
        if name not in pending:
            raise self.refuse(f"{each.name} ends what does not start in its computation", each)
        lane = pending.pop(name)
        if each.op.endswith("-update"):
            pending[each.name] = lane
            return self.pass_on(each, started, prefix)
        self.wait(each, prefix, lane)
        if each.op in ("copy-done", "recv-done"):
            result = {index[1:]: row for index, row in started.items() if index[:1] == (0,)}
            result = {(0, *index): row for index, row in result.items()} if each.op == "recv-done" else result
        elif any(index[:1] == (1,) for index in started) and each.op != "all-reduce-done":
            result = {index[1:]: row for index, row in started.items() if index[:1] == (1,)}
        else:
            result = dict(started)
        return self.pass_on(each, result, prefix, is_whole=each.op != "send-done")
