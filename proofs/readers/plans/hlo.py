"""HLO as text, a scheduled module as XLA dumps it: computations, and their instructions in execution order.

A module is its title, tables of source positions, and computations. Each character of it is read by a rule of this
module or of `hlo_text`, or the file is refused with the line. An invalid module is refused too: one with an operand
that is not computed above, with a missing computation, or with a call whose operands do not fit the parameters.
spec: FP4.1, FP4.2, FP4.8, FP4.12
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from proofs.readers.plans.hlo_module import Computation, HloModule, Instruction, Parameter, difference
from proofs.readers.plans.hlo_opcodes import (
    CALLING,
    GROUP,
    IGNORED,
    NAMES,
    PREDECESSORS,
    TEXT,
    VALUE,
    Reads,
    opcode,
)
from proofs.readers.plans.hlo_text import BLANKS, NAME, WORD, HloLine, Index, Shape, is_like, part
from tmmu.core.source import Source

HEAD = re.compile(r"(ENTRY\s+)?%?([\w.\-]+)\s*(?=[({])", re.ASCII)
RESULT = re.compile(r"(ROOT\s+)?%?([\w.\-]+) = ", re.ASCII)
OPERATION = re.compile(r"([a-z][\w\-]*)\(", re.ASCII)
ATTRIBUTE = re.compile(r",\s*([A-Za-z_][\w\-]*)=", re.ASCII)
NUMBER = re.compile(r"\d{1,9}", re.ASCII)
SHAPED = re.compile(r"\(|[a-z]\w*\[", re.ASCII)
"""The beginning of an operand that has its shape before it."""
ALIAS = re.compile(r"\{([\d,\s]*)\}:\s*\((\d{1,9}),\s*\{([\d,\s]*)\}(?:,\s*(?:may|must)-alias)?\)", re.ASCII)
DONOR = re.compile(r"\((\d{1,9}),\s*\{([\d,\s]*)\}\)", re.ASCII)
NAME_ROW = re.compile(r'\d+ "(?:[^"\\]|\\.)*"', re.ASCII)
PLACE_ROW = re.compile(r"\d+ \{[\w= ]*\}", re.ASCII)
TABLES: Mapping[str, re.Pattern[str]] = {
    "FileNames": NAME_ROW, "FunctionNames": NAME_ROW, "FileLocations": PLACE_ROW, "StackFrames": PLACE_ROW,
}  # fmt: skip
"""Tables between the title and the first computation, and a row of each. They hold positions in a program's source."""
TITLE: Mapping[str, re.Pattern[str]] = {
    "is_scheduled": re.compile(r"true", re.ASCII), "input_output_alias": GROUP, "buffer_donor": GROUP,
    "entry_computation_layout": GROUP, "allow_spmd_sharding_propagation_to_parameters": VALUE,
    "allow_spmd_sharding_propagation_to_output": VALUE, "replica_count": NUMBER, "num_partitions": NUMBER,
    "alias_passthrough_params": re.compile(r"true|false", re.ASCII), "frontend_attributes": GROUP,
    "origin_recovery_table": GROUP,
}  # fmt: skip
"""The attributes of a module. The first three are read; the memory of the module does not depend on the others."""


def parse(source: Source) -> HloModule:
    """Return the module of a dump. Raises INVALID_PLAN with file and line. O(bytes)."""
    return _Parsing(source).module()


class _Parsing:
    """A module in the making."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.line = HloLine(source, "", 1)
        self.names: set[str] = set()
        self.numbers: set[int] = set()
        """The parameters of the current computation."""
        self.found: dict[str, Computation] = {}
        self.stated: tuple[list[tuple[str, Shape]], Shape] | None = None
        """The parameters and the result that the head of the current computation states."""

    def lines(self) -> Iterator[HloLine]:
        """Yield the lines that are not blank, each counted."""
        for number, text in enumerate(self.source.text().split("\n"), 1):
            self.source.count_work(8 + len(text) // 2, f"line {number}")
            self.line = HloLine(self.source, text.rstrip(BLANKS), number)
            if self.line.text:
                yield self.line

    def module(self) -> HloModule:
        """Read all lines."""
        lines = self.lines()
        first = next(lines, self.line)
        stated = self.title(first)
        entry, current, table = "", None, None
        for line in lines:
            if current is not None:
                current = self.inside(current, line)
            elif not self.found and line.text in TABLES:
                table = TABLES[line.text]
            elif not self.found and table is not None and line.text[0].isdigit():
                if table.fullmatch(line.text) is None:
                    raise line.refuse("expected a row of a table of source positions")
            else:
                current, is_entry = self.head(line)
                if is_entry and entry:
                    raise line.refuse("a second entry")
                entry = current.name if is_entry else entry
        if current is not None or not entry:
            raise self.line.refuse("the module ends before its entry does", "the dump is not whole")
        self.line = first
        aliased = {first.index(out): self.parameter(n, at) for out, n, at in self.items(stated, "input_output_alias")}
        donors = [self.parameter(number, at) for number, at in self.items(stated, "buffer_donor")]
        self.check_donors(self.found[entry], [*aliased.values(), *donors], aliased)
        for computation in self.found.values():
            for each in computation.instructions:
                self.source.count_work(4 + len(each.operands) + len(each.shape))
                if wrong := difference(self.found, computation, each):
                    raise self.source.refuse(wrong, f"line {each.line}")
        return HloModule(self.found, entry, [*aliased.values(), *donors], aliased)

    def title(self, line: HloLine) -> dict[str, str]:
        """Read the first line: what it states, by name. spec: FP4.1, FP4.12"""
        if not line.has("HloModule ") or line.take(WORD) is None:
            raise line.refuse("expected HloModule in the first line", "give XLA's dump as text")
        stated = self.attributes(line, TITLE, "attribute of a module")
        if "is_scheduled" not in stated:
            raise line.refuse("the module is not scheduled", "use the dump after optimizations")
        return stated

    def items(self, stated: Mapping[str, str], word: str) -> list[tuple[str, ...]]:
        """Return the parts of an entry of the title that names parameters. spec: FP4.8"""
        grammar = ALIAS if word == "input_output_alias" else DONOR
        text = stated.get(word, "{}")
        line = HloLine(self.source, text[1:-1], self.line.number)
        found: list[tuple[str, ...]] = []
        line.skip()
        while line.at < len(line.text):
            if found:
                line.expect(",", "a comma")
            item = line.take(grammar)
            if item is None:
                raise line.refuse(f"expected a parameter in {word}")
            found.append(item.groups())
            line.skip()
        return found

    def check_donors(
        self, entry: Computation, donated: Sequence[Parameter], aliased: Mapping[Index, Parameter]
    ) -> None:
        """Refuse a title that names a parameter, or a place in it or in the result, that is not there. spec: FP4.12"""
        parameters = entry.parameters()
        for number, index in donated:
            if number not in parameters or not part(parameters[number].shape, index):
                raise self.line.refuse(f"the title names parameter {number} at {index}, which the entry does not have")
        for index in aliased:
            if not part(entry.result.shape, index):
                raise self.line.refuse(f"the title names the result at {index}, which the entry does not have")

    def parameter(self, number: str, index: str) -> Parameter:
        """Return a parameter and a place in it."""
        return self.line.integer(number), self.line.index(index)

    def head(self, line: HloLine) -> tuple[Computation, bool]:
        """Begin a computation: its name, its parameters and its result, which its instructions must repeat."""
        head = line.take(HEAD)
        if head is None:
            raise line.refuse("expected the head of a computation")
        if head[2] in self.found:
            raise line.refuse(f"computation {head[2]} twice")
        computation = self.found[head[2]] = Computation(head[2], line.number)
        self.stated = self.signature(line) if line.has("(") else None
        self.numbers = set()
        line.expect("{", "the beginning of the instructions")
        line.end()
        return computation, head[1] is not None

    def signature(self, line: HloLine) -> tuple[list[tuple[str, Shape]], Shape]:
        """Read `NAME: SHAPE, …) -> SHAPE`."""
        parameters: list[tuple[str, Shape]] = []
        while not line.has(")"):
            if parameters:
                line.expect(",", "a comma or the end of the parameters")
            name = line.name("a parameter")
            line.expect(":", "the shape of the parameter")
            parameters.append((name, line.shape()))
        line.expect("->", "the shape of the result")
        return parameters, line.shape()

    def inside(self, computation: Computation, line: HloLine) -> Computation | None:
        """Read an instruction, or the end of the computation: None then."""
        if not line.text.startswith("}"):
            self.instruction(computation, line)
            return computation
        line.expect("}", "the end of the computation")
        self.attributes(line, {"execution_thread": TEXT}, "attribute of a computation")
        if not computation.root:
            raise line.refuse(f"computation {computation.name} has no root")
        parameters = computation.parameters()
        if sorted(parameters) != list(range(len(parameters))):
            raise line.refuse(f"the parameters of {computation.name} are not numbered from 0 on")
        found = [parameters[n] for n in range(len(parameters))]
        names, shapes = [each.name for each in found], [each.shape for each in (*found, computation.result)]
        if self.stated is not None and not (
            names == [name for name, _ in self.stated[0]]
            and all(map(is_like, shapes, (*(shape for _, shape in self.stated[0]), self.stated[1])))
        ):
            at = HloLine(self.source, "", computation.line)
            raise at.refuse(f"the head of {computation.name} has other parameters or another result than it")
        return None

    def instruction(self, computation: Computation, line: HloLine) -> None:
        """Read `ROOT %NAME = SHAPE OPERATION(OPERANDS), ATTRIBUTES`. spec: FP4.2, FP4.12"""
        head = line.take(RESULT)
        if head is None:
            raise line.refuse("expected %NAME = SHAPE OPERATION(…)")
        name = head[2]
        if name in self.names:
            raise line.refuse(f"instruction {name} twice")
        self.names.add(name)
        self.source.bound(len(self.names))
        shape = line.shape()
        found = line.take(OPERATION)
        if found is None:
            raise line.refuse(f"expected an operation after the shape of {name}")
        op, row = found[1], opcode(found[1])
        if row is None:
            raise line.unknown("operation", op)
        number, literal, operands = 0, "", tuple[str, ...]()
        if op == "parameter":
            digits = line.take(NUMBER)
            if digits is None:
                raise line.refuse("expected the number of the parameter")
            number = int(digits[0])
            if number in self.numbers:
                raise line.refuse(f"parameter {number} twice")
            self.numbers.add(number)
        elif op == "constant":
            literal = line.literal(shape)
        else:
            operands = self.operands(computation, line)
        if op in ("parameter", "constant"):
            line.expect(")", "the end of the operand")
        if row.arity is not None and len(operands) != row.arity:
            raise line.refuse(f"expected {row.arity} operands of {op}, got {len(operands)}")
        stated = self.attributes(line, row.attributes, f"attribute of {op}", is_instruction=True)
        missing = [name for name in row.required if name not in stated]
        if missing:
            raise line.refuse(f"{op} without {missing[0]}")
        for before in NAME.findall(stated.pop(PREDECESSORS, "")):
            if before not in computation.by_name:
                raise line.refuse(f"{before!r}, which must run before {name}, is not above it")
        called = {key: tuple(NAME.findall(stated[key])) for key in CALLING if key in stated}
        number = line.integer(stated["index"]) if row.reads is Reads.ELEMENT else number
        each = Instruction(name, shape, op, operands, called, number, line.number, stated, literal)
        computation.instructions.append(each)
        computation.by_name[name] = each
        if head[1]:
            if computation.root:
                raise line.refuse(f"computation {computation.name} has two roots")
            computation.root = name

    def operands(self, computation: Computation, line: HloLine) -> tuple[str, ...]:
        """Read operands up to the bracket: names of instructions above, each with or without its shape before it."""
        found: list[str] = []
        while not line.has(")"):
            if found:
                line.expect(",", "a comma or the end of the operands")
            line.skip()
            is_shaped = SHAPED.match(line.text, line.at) is not None
            stated = line.shape() if is_shaped else None
            name = line.name("an operand")
            if name not in computation.by_name:
                raise line.refuse(f"operand {name!r} is not computed above")
            if stated is not None and not is_like(stated, computation.by_name[name].shape):
                raise line.refuse(f"operand {name} has another shape than {name}")
            found.append(name)
        return tuple(found)

    def attributes(
        self, line: HloLine, known: Mapping[str, re.Pattern[str]], what: str, is_instruction: bool = False
    ) -> dict[str, str]:
        """Read attributes up to the end of the line: those that are not ignored. spec: FP4.2, FP4.12"""
        stated: dict[str, str] = {}
        seen: set[str] = set()
        while found := line.take(ATTRIBUTE):
            name = found[1]
            if name in seen:
                raise line.refuse(f"{name} twice")
            seen.add(name)
            grammar = known.get(name)
            if grammar is None and is_instruction:
                grammar = NAMES if name == PREDECESSORS else IGNORED.get(name)
            if grammar is None:
                raise line.unknown(what, name)
            value = line.value()
            if grammar.fullmatch(value) is None:
                raise line.refuse(f"{name} has the value {value[:40]!r}")
            if name in known or name == PREDECESSORS:
                stated[name] = value
        line.end()
        return stated
