"""IREE's IR around `iree-stream-layout-slices`: slices of resources at offsets, and the commands that touch them.

The dump before the pass names each slice, the one after it has its offset; both are the same program, line by line.
A slice is a cell of the resource that it lies in. Commands of one concurrent region are one step; what two of them
touch at once, one of them writing, is written over what the other one touches. spec: FP9.1 to FP9.12
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from proofs.readers.plans.cells import WHOLE, CellMemory, Pointer
from proofs.readers.plans.iree_text import RESULTS, SSA, FunctionText
from proofs.readers.plans.iree_values import (
    ALWAYS,
    MOST_WAYS,
    NEVER,
    EndedExecutes,
    HostMoment,
    NamedValue,
    RegionPath,
    SliceAccess,
    SliceReference,
    Ways,
    at_once,
)
from proofs.readers.plans.source import ForeignPlan, FreshNames, Source, kept_of_arms
from tmmu.core.vocabulary import UINT64_END, Role
from tmmu.plans.reading import ACCESSES_WORKED_OUT, Reading

DOMAIN = "iree"
SECTION = re.compile(r"^// -----// IR Dump (Before|After) LayoutSlices[^\n]*\n", re.MULTILINE)
FUNCTION = re.compile(r"^[ \t]*+util\.(?:func|initializer)\b[^\n@]*+(?:@([^\s(]++))?", re.MULTILINE)
END = re.compile(r"^\}", re.MULTILINE)
OPERAND = re.compile(r"\s*+(ro|wo|rw) (%[\w$.#-]++)\[(%[\w$.#-]++) for (%[\w$.#-]++)\]", re.ASCII)
WINDOW = re.compile(r"(%[\w$.#-]++)\[(%[\w$.#-]++)(?: for (%[\w$.#-]++))?\]", re.ASCII)
BOUND = re.compile(r"(%[\w$.#-]++) as (%[\w$.#-]++): !stream\.resource<[^>]*+>(?:\{(%[\w$.#-]++)\})?", re.ASCII)
GIVEN = re.compile(r"(%[\w$.-]++) = (%[\w$.#-]++)", re.ASCII)
BOUNDS = re.compile(r"= (%[\w$.#-]++) to (%[\w$.#-]++) step (%[\w$.#-]++)", re.ASCII)
SIZE = re.compile(r"!stream\.resource<[^>]*+>\{(%[\w$.#-]++)\}", re.ASCII)
SYMBOL = re.compile(r"@[\w$.]++", re.ASCII)
ELEMENT = re.compile(r": (?:i|f|bf|u|si|ui)(\d{1,3})\b|-> (?:i|f|bf|u|si|ui)(\d{1,3})\b", re.ASCII)
CONSUME = re.compile(r"\bconsume %", re.ASCII)
EVALUATED = re.compile(r"jit_eval(?:_\d+)?", re.ASCII)
"""The functions that IREE runs itself, for constants."""
MAX_DUMP = 1 << 26
"""The largest dump that is read, in bytes."""
MAX_LINE = 1 << 16
"""The longest line with a resource. Constants are longer, and none is in it."""
ITERATIONS = range(2, 5)
"""How often the body of a loop is laid out, until it is given memory that it was given before; it may also run less
often, and not at all. spec: FP9.6
"""
LOOPS = "two iterations of a loop stand for all, or as many as are given other memory: one more finds what one found"
LATE = "as written at once"
PURE = frozenset({"arith.select", "stream.resource.size", "stream.timepoint.barrier", "util.optimization_barrier"})
"""What uses a resource or a buffer view and no byte of it; a result stands for any of its operands. spec: FP9.10"""
UNKNOWN = "a window at an offset that is no constant counts as all of its slice or resource, part of which stays"
REGIONS = "a concurrent region counts as one step"


@dataclass
class _Region:
    """An open brace of an execute: its kind, the number of its next child where it is concurrent, what it defines."""

    kind: str
    number: int = 0
    child: int = 0
    results: list[str] = field(default_factory=list)


def read(source: Source) -> ForeignPlan:
    """The plan in a dump: the functions that execute commands. Raises INVALID_PLAN with FILE and line. O(bytes)."""
    return _Dump(source).plan()


class _Dump:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.memory = CellMemory(source)
        self.assumed: dict[str, None] = {WHOLE: None}
        self.approximations: dict[str, None] = {}
        self.prefix = ""

    def plan(self) -> ForeignPlan:
        if len(self.source.data) > MAX_DUMP:
            raise self.source.refuse(f"more than {MAX_DUMP} bytes", None, "dump fewer functions")
        text = self.source.text()
        found: dict[str, dict[str, list[tuple[int, str]]]] = {}
        marks = list(SECTION.finditer(text))
        self.source.spend(len(text) // 8)
        line, reached = 1, 0
        for k, mark in enumerate(marks):
            until = marks[k + 1].start() if k + 1 < len(marks) else len(text)
            body = text[mark.end() : until]
            line, reached = line + text.count("\n", reached, mark.end()), mark.end()
            named = FUNCTION.search(body)
            if named is not None and END.search(body) is None:
                raise self.source.not_whole("this function does not end", f"line {line}")
            if named is not None and "stream.cmd.execute" in body:
                dumps = found.setdefault(named[1] or "initializer", {"Before": [], "After": []})
                dumps[mark[1]].append((line + body.count("\n", 0, named.start()), body[named.start() :]))
        if not any(dumps["After"] for dumps in found.values()):
            fix = "print it with --mlir-print-ir-before and -after=iree-stream-layout-slices, --compile-to=stream"
            raise self.source.refuse("no function that executes commands, dumped after LayoutSlices", None, fix)
        functions = [each for name, dumps in found.items() for each in self.paired(name, dumps)]
        unique = FreshNames()
        for name, after, before in functions:
            self.prefix = f"{unique(name)}." if len(functions) > 1 else ""
            function = _Function(self, after, before)
            function.read()
            if EVALUATED.fullmatch(name):
                self.assumed["what IREE evaluates as it compiles is given memory of its own"] = None
            else:
                function.keep_arguments()
        outside = {"alignment of slices": "the dump does not state it"}
        if self.memory.joined:
            self.approximations[kept_of_arms(self.memory.joined)] = None
        reading = Reading(
            "IREE stream dump", ACCESSES_WORKED_OUT, tuple(self.assumed), outside, tuple(self.approximations),
            self.memory.donated(),
        )  # fmt: skip
        return ForeignPlan(self.memory.plan(), reading)

    def paired(
        self, name: str, dumps: dict[str, list[tuple[int, str]]]
    ) -> Iterator[tuple[str, tuple[int, str], tuple[int, str] | None]]:
        """The functions of a name, as of initializers or of modules that are evaluated one by one: each with its dumps
        after and before the pass. spec: FP1.12, FP9.12
        """
        after, before = dumps["After"], dumps["Before"]
        if before and len(before) != len(after):
            number, _ = (before if len(before) > len(after) else after)[-1]
            what = f"{name} has {len(before)} dumps before LayoutSlices and {len(after)} after it"
            raise self.source.not_whole(what, f"line {number}")
        for k, each in enumerate(after):
            yield name, each, before[k] if before else None


class _Loop(NamedTuple):
    """The names and lines of a loop's body, and those of the condition behind it; none of these where it counts."""

    names: list[str]
    body: tuple[int, int]
    condition: tuple[int, int]
    condition_names: list[str]


class _Function(FunctionText):
    """A function, run line by line, before and after the pass at once."""

    def __init__(self, dump: _Dump, after: tuple[int, str], before: tuple[int, str] | None) -> None:
        self.dump, self.memory = dump, dump.memory
        super().__init__(dump.source, after, before)
        if before is None:
            self.dump.assumed[
                "each slice has a name of its own for its offset: the dump before the pass is missing"
            ] = None
        self.references: dict[str, frozenset[SliceReference]] = {}
        self.arenas: dict[str, int] = {}
        self.cells: dict[tuple[str, str | None], int] = {}
        self.external: set[str] = set()
        self.imported: dict[str, frozenset[SliceReference]] = {}
        """What a buffer view of the caller's is in memory; `exported` has those that are made here."""
        self.exported: dict[str, frozenset[SliceReference]] = {}
        self.views: dict[str, frozenset[str]] = {}
        """The buffer views that one made from others may be."""
        self.initial: dict[str, frozenset[SliceReference]] = {}
        """What globals hold before the function runs."""
        self.handed_over: list[tuple[int, Ways, int]] = []
        """Cells that the caller is given, in which alternatives, and the executes that do not run where they are."""
        self.chained = NEVER
        """The executes that the caller awaits by a fence."""
        self.consumed: set[str] = set()
        """The buffer views that the caller gives up."""
        self.open: list[_Region] = []
        self.accesses: list[SliceAccess] = []
        self.label = ""
        self.times: dict[str, EndedExecutes] = {}
        self.now = HostMoment()
        self.current = NEVER
        self.executes = self.nodes = 0
        self.needs: dict[str, int] = {}
        """Of each allocation the point in time from which on it is there."""
        self.made_by: dict[int, int] = {}
        """The line that wrote a slice first, and all of it: where it runs again, it does so again."""
        self.touched: dict[int, tuple[int, int]] = {}
        """Of each memory the executes that touch it and that write it, as bits; `uses` has those of each cell."""
        self.uses: dict[int, tuple[int, int]] = {}
        self.apart = 0
        """The executes that do not run where this arm does."""
        self.unordered: set[int] = set()
        self.either: set[int] = set()
        """What one of several names may write."""
        self.regions = 0
        self.handed: list[NamedValue] = []
        self.choices = 0
        self.perhaps: dict[int, int] = {}
        """Cells that were written as one of several, with the choice."""
        self.depth = 0
        self.is_settled = False
        """Whether what one more iteration were given is what an earlier one was."""

    def read(self) -> None:
        self.block(0, len(self.pairs))
        self.keep(self.now.globals.items())
        for cell, ways, apart in self.handed_over:
            self.ordered(cell, (self.now.host | self.chained).where(ways) | apart)

    def block(self, at: int, end: int) -> None:
        """Lines from `at` up to `end`."""
        nothing: dict[str, str] = {}
        while at < end:
            line, old = self.pairs[at]
            self.line = line.number
            self.source.spend(1 + len(line.text) // 64)
            if len(line.text) > MAX_LINE and "!stream." in line.text:
                raise self.refuse(f"a line of more than {MAX_LINE} characters")
            self.define(line, self.constants, nothing)
            for noted in line.noted:  # a region beside this one may have used the name
                self.bind(noted.name, NamedValue())
            self.define(old, self.earlier, self.slices)
            at = self.statement(at, line.text, old.text)

    def region(self, at: int, end: int) -> list[NamedValue]:
        """A region of control flow: what it hands on."""
        self.handed, self.depth = [], self.depth + 1
        self.block(at, end)
        self.depth -= 1
        return self.handed

    def keep_arguments(self) -> None:
        """State that what the caller does not give up stays as it was given. spec: FP9.11"""
        for view, refs in self.imported.items():
            if view not in self.consumed:
                self.memory.keeps([self.cells[ref.resource, None] for ref in refs])

    def statement(self, at: int, text: str, old: str) -> int:
        """One line, or a whole region of control flow; the line behind it. Names are those after the pass; `old` is the
        line before it.
        """
        if text.startswith(("//", "util.func", "util.initializer")) or not text:
            return at + 1
        if text.startswith("}"):
            self.close()
            return at + 1
        if text.startswith("^bb"):
            raise self.refuse(
                "branches between blocks are not read", "control flow of scf.for, scf.while and scf.if is"
            )
        if self.open:
            self.command(text, old)
            return at + 1
        match = RESULTS.fullmatch(text)
        results = self.names(match[1]) if match else []
        body = match[2] if match else text
        old_match = RESULTS.fullmatch(old)
        before = old_match[2] if old_match else old
        op = body.split(None, 1)[0].split("(")[0] if body else ""
        operands = SSA.findall(body)
        if op.startswith("scf.") and body.endswith("{"):
            return self.control(op, at, body, before, results)
        for result in results:  # a region beside this one may have used the name
            self.bind(result, NamedValue())
        if op == "stream.cmd.execute":
            self.execute(body, results)
        elif op in ("stream.resource.alloca", "stream.resource.alloc"):
            sizes = SIZE.findall(body)
            if not results or len(sizes) != 1:
                raise self.refuse("expected the size of an allocation")
            self.allocate(results, self.number(sizes[0]), self.timed(operands))
        elif op == "stream.resource.subview":
            window, earlier = WINDOW.search(body), WINDOW.search(before)
            if window is None or earlier is None or len(results) != 1:
                raise self.refuse("expected a resource and an offset in it")
            self.references[results[0]] = frozenset(self.at(window[1], window[2], earlier[2]))
        elif op == "stream.resource.dealloca":
            self.free(body, results)
        elif op == "stream.timepoint.await":
            self.now.host |= self.timed(operands)
            for result, given in zip(results, SSA.findall(body.partition("=>")[2].partition(":")[0]), strict=False):
                self.references[result] = self.references.get(given, frozenset())
                for ref in self.references[result]:
                    for cell in self.within(ref):
                        self.ordered(cell, self.now.host.where(ref.ways) | self.apart)
        elif op == "stream.timepoint.chain_external":
            self.chained |= self.timed(operands)
        elif op == "util.global.load" and "!stream.resource" in body:
            self.loaded(body, results)
        elif op == "util.global.store":
            if (symbol := SYMBOL.search(body)) is not None and "!stream.resource" in body:
                self.initial_of(symbol[0])
                self.now.globals[symbol[0]] = self.all_of(operands)
        elif op in ("stream.tensor.export", "util.return"):
            self.keep([(name, self.references.get(name, frozenset())) for name in operands])
            if op == "stream.tensor.export":
                self.exported |= dict.fromkeys(results, self.all_of(operands))
        elif op == "util.call":
            self.called(body, results, operands)
        elif op == "stream.tensor.import":
            self.importing(body, results, operands)
            self.times |= dict.fromkeys(results, self.timed(operands))
        elif op in ("stream.resource.load", "stream.resource.store"):
            self.by_the_host(op, body, before)
        elif op == "stream.file.read":
            self.file(body, before, results)
        elif op == "scf.yield" or op.startswith("scf.condition"):
            self.hand_on(body)
        elif body.endswith("{") or op.startswith(("cf.", "scf.")):
            raise self.refuse(f"{op} is not read", "control flow of scf.for, scf.while and scf.if is")
        else:
            self.other(op, body, results, operands)
        return at + 1

    def other(self, op: str, body: str, results: list[str], operands: list[str]) -> None:
        """What runs no command: points in time, numbers, and names of what has one. spec: FP9.10"""
        names = [operand for operand in operands if self.references.get(operand)]
        if names and op not in PURE and "!stream.resource" in body:
            raise self.refuse(f"{op} is not read")
        ended = self.timed(operands)
        if op == "arith.select" and len(operands) > 2:  # one of them, and nothing says which
            ended = self.times.get(operands[1], NEVER) & self.times.get(operands[2], NEVER)
        for result in results:
            views = frozenset[str]().union(*map(self.view, operands)) if "!hal.buffer_view" in body else frozenset()
            refs = self.all_of(names) if "!stream.resource" in body else frozenset[SliceReference]()
            self.bind(result, NamedValue(self.chosen(refs) if op == "arith.select" else refs, ended, views))

    def called(self, body: str, results: list[str], operands: list[str]) -> None:
        """A call of another function, which may write what it is given, and return it or memory of its own."""
        for operand in operands:
            for ref in self.references.get(operand, ()):
                for cell in self.within(ref):
                    self.ordered(cell, self.now.host.where(ref.ways) | self.apart)
                    self.memory.returns([cell])
        if "!stream.resource" in body.partition("->")[2]:
            given = self.all_of(operands)
            for result in results:
                self.external_resource(result, 0, UINT64_END - 1)
                self.references[result] = self.chosen(self.references[result] | given)

    def bind(self, name: str, value: NamedValue) -> None:
        """A name stands for a value from now on, and for nothing else."""
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
        return NamedValue(self.references.get(name, frozenset()), self.times.get(name, NEVER), self.view(name))

    def view(self, name: str) -> frozenset[str]:
        """The buffer views that a name may be: itself, where nothing has made it."""
        return self.views.get(name, frozenset((name,)))

    def all_of(self, names: Iterable[str]) -> frozenset[SliceReference]:
        return frozenset[SliceReference]().union(*(self.references.get(name, ()) for name in names))

    def importing(self, body: str, results: list[str], operands: list[str]) -> None:
        """`stream.tensor.import … consume %arg0 : … in !stream.resource<external>{%size}`. spec: FP9.11"""
        if not operands or len(results) != 1:
            raise self.refuse("expected a buffer view")
        if CONSUME.search(body):
            self.consumed.add(operands[0])
        size = SIZE.search(body)
        known = self.constants.get(size[1]) if size is not None else None
        found = frozenset[SliceReference]()
        for view in sorted(self.view(operands[0])):
            if view in self.exported:
                found |= self.exported[view]
                continue
            if view not in self.imported:
                self.external_resource(results[0], known or 0, UINT64_END - 1 if known is None else known)
                self.imported[view] = self.references[results[0]]
            found |= self.imported[view]
        self.references[results[0]] = found

    def loaded(self, body: str, results: list[str]) -> None:
        """`%r = util.global.load @name : !stream.resource<…>`: one memory, however often it is loaded. spec: FP9.3"""
        symbol = SYMBOL.search(body)
        if len(results) != 1 or symbol is None:
            raise self.refuse("expected a global")
        initial = self.initial_of(symbol[0])
        if "!stream.resource<constant>" in body:
            self.memory.keeps([self.cells[ref.resource, None] for ref in initial])
        self.references[results[0]] = self.now.globals.get(symbol[0], initial)

    def initial_of(self, symbol: str) -> frozenset[SliceReference]:
        """What a global holds before the function runs."""
        if symbol not in self.initial:
            self.external_resource(f"%{symbol.removeprefix('@')}", 0, UINT64_END - 1)
            self.initial[symbol] = self.references.pop(f"%{symbol.removeprefix('@')}")
        return self.initial[symbol]

    def timed(self, operands: Iterable[str]) -> EndedExecutes:
        """What has been executed where all of some points in time are reached."""
        found = NEVER
        for operand in operands:
            if operand in self.times:
                found |= self.times[operand]
                self.source.spend((1 + len(found.when)) * (1 + self.executes // 64))
        return found

    # Control flow.

    def control(self, op: str, at: int, body: str, old: str, results: list[str]) -> int:
        """A whole region of control flow; the line behind it. spec: FP9.6"""
        if op not in ("scf.for", "scf.while", "scf.if"):
            raise self.refuse(f"{op} is not read", "control flow of scf.for, scf.while and scf.if is")
        first, last = self.ends[at], self.ends[at]
        second = (first, first)
        if self.pairs[first][0].text.endswith("{"):
            last = self.ends[first]
            second = first + 1, last
        if (op == "scf.while") != (second != (first, first)) and op != "scf.if":
            raise self.refuse(f"expected the regions of {op}")
        if op == "scf.if":
            self.arms(op, [partial(self.region, at + 1, first), partial(self.region, *second)], results)
            return last + 1
        inits = body.partition("iter_args" if op == "scf.for" else "scf.while")[2].partition(")")[0]
        given = GIVEN.findall(inits)
        self.argued([name for name, _ in GIVEN.findall(body.partition("->")[0])], self.constants, {})
        self.argued([name for name, _ in GIVEN.findall(old.partition("->")[0])], self.earlier, self.slices)
        names, values = [name for name, _ in given], [self.value(value) for _, value in given]
        if op == "scf.for":
            loop = _Loop(names, (at + 1, first), (first, first), [])
        else:
            values = self.pass_of(names, values, (at + 1, first))  # its condition is always run
            loop = _Loop(self.block_names(second[0]), (second[0] + 1, last), (at + 1, first), names)
        times = self.times_of(body) if op == "scf.for" else None
        if times is not None and times in range(ITERATIONS.stop):
            handed = self.iterated(loop, values, times)
            for k, result in enumerate(results):
                self.bind(result, handed[k] if k < len(handed) else NamedValue())
            return last + 1
        self.dump.assumed[LOOPS] = None
        self.arms(op, self.turns(loop, values, 0 if times is None else 1), results)
        return last + 1

    def times_of(self, body: str) -> int | None:
        """How often `scf.for %i = %lower to %upper step %step` runs, where that follows from constants."""
        found = BOUNDS.search(body)
        known = [self.constants.get(name) for name in found.groups()] if found is not None else [None]
        lower, upper, step = known if len(known) == 3 else (None, None, None)
        if lower is None or upper is None or step is None or step < 1:
            return None
        return max(0, -((lower - upper) // step))

    def turns(self, loop: _Loop, values: list[NamedValue], least: int) -> Iterator[Callable[[], list[NamedValue]]]:
        """Runs of `least` iterations, one, two, and more until one is given what one before it was given."""
        for count in range(least, ITERATIONS.stop):
            yield partial(self.iterated, loop, values, count)
            if count in ITERATIONS and self.is_settled:
                return
        raise self.refuse(f"a loop hands on memory in turns of more than {ITERATIONS[-1]} iterations")

    def argued(self, names: list[str], constants: dict[str, int], slices: dict[str, str]) -> None:
        """Names of what a region is given are no constants, whatever they are in a region beside it. spec: FP9.1"""
        for name in names:
            self.forget(name, constants, slices)

    def block_names(self, at: int) -> list[str]:
        """`^bb0(%arg3: …):` behind `do {`: what the condition hands on."""
        line, old = self.pairs[at]
        if not line.text.startswith("^bb"):
            raise self.refuse("expected the arguments of a loop's body")
        self.argued(SSA.findall(line.text), self.constants, {})
        self.argued(SSA.findall(old.text), self.earlier, self.slices)
        return SSA.findall(line.text)

    def pass_of(self, names: list[str], values: list[NamedValue], lines: tuple[int, int]) -> list[NamedValue]:
        """A region once, with what it is given; what it hands on."""
        for k, name in enumerate(names):
            self.bind(name, values[k] if k < len(values) else NamedValue())
        return self.region(*lines) if lines[0] < lines[1] else values

    def iterated(self, loop: _Loop, values: list[NamedValue], count: int) -> list[NamedValue]:
        """So many iterations, each with what the one before it has handed on. spec: FP9.6"""
        given = [self.memory_of(values)]
        for _ in range(count):
            values = self.pass_of(loop.names, values, loop.body)
            values = self.pass_of(loop.condition_names, values, loop.condition)
            given.append(self.memory_of(values))
        self.is_settled = given[-1] in given[:-1]
        return values

    def memory_of(self, values: list[NamedValue]) -> list[frozenset[SliceReference]]:
        """Which memory values are; what each iteration allocates is the same for all."""
        return [
            frozenset(
                ref._replace(resource=ref.resource.partition(" of ")[0], choice=0, ways=ALWAYS)
                for ref in value.references
            )
            for value in values
        ]

    def hand_on(self, body: str) -> None:
        """`scf.yield` and `scf.condition`: the values that a region hands on. They are read there."""
        if not self.depth:
            raise self.refuse("a yield outside of control flow")
        head = body.partition(" : ")[0]
        self.handed = [
            self.value(name) for name in SSA.findall(head.partition(") ")[2] if "condition" in body else head)
        ]
        self.touch("yield", [ref for value in self.handed for ref in value.references])

    def arms(self, kind: str, runs: Iterable[Callable[[], list[NamedValue]]], results: list[str]) -> None:
        """Exclusive arms, each of which hands on values; what `results` stand for behind them. spec: FP9.6

        What has been awaited behind them is what each arm has awaited, and the executes of the others, which did not
        run where it did.
        """
        self.memory.begin(kind, (DOMAIN, kind), ())
        self.nodes += 1
        node, before, apart, start = self.nodes, self.now, self.apart, self.executes
        handed, moments, own = list[list[NamedValue]](), list[HostMoment](), list[int]()
        for k, run in enumerate(runs):
            if k:
                self.memory.arm(apart=kind != "scf.if")
            self.now = HostMoment(before.host, before.freed, dict(before.globals))
            first = self.executes
            handed.append(run())
            moments.append(self.now)
            own.append((1 << self.executes) - (1 << first))
            self.apart |= own[-1]
            self.source.spend(self.executes // 64)
        self.apart = apart
        anew = (1 << self.executes) - (1 << start)
        others = [anew & ~mine for mine in own]
        symbols = sorted({symbol for moment in moments for symbol in moment.globals})
        for values, moment in zip(handed, moments, strict=True):
            del values[len(results) :]
            values += [NamedValue()] * (len(results) - len(values))
            values += [NamedValue(moment.globals.get(symbol, self.initial[symbol])) for symbol in symbols]
        found = self.left(handed, node)
        for k, result in enumerate(results):
            given = [values[k] for values in handed]
            times = (
                self.behind([value.times for value in given], others, node) if any(v.times for v in given) else NEVER
            )
            self.bind(result, NamedValue(found[k], times, frozenset[str]().union(*(value.views for value in given))))
        host = self.behind([moment.host for moment in moments], others, node)
        freed = frozenset[str]().union(*(moment.freed for moment in moments))
        self.now = HostMoment(host, freed, dict(zip(symbols, found[len(results) :], strict=True)))

    def behind(self, ended: list[EndedExecutes], others: list[int], node: int) -> EndedExecutes:
        """What has ended behind exclusive arms, of what has in each; `others` are the executes that it did not run."""
        always = -1
        for each, bits in zip(ended, others, strict=True):
            always &= each.always | bits
        first, *rest = ended
        when = {taken: bits for taken, bits in first.when.items() if all(e.when.get(taken) == bits for e in rest)}
        alike = set(when)
        for k, (each, bits) in enumerate(zip(ended, others, strict=True)):
            when[frozenset(((node, k),))] = each.always | bits
            when |= {taken | {(node, k)}: mask | bits for taken, mask in each.when.items() if taken not in alike}
        self.source.spend(len(when) * (1 + self.executes // 64))
        return EndedExecutes(always, when if len(when) <= MOST_WAYS else {})

    def left(self, handed: list[list[NamedValue]], node: int) -> list[frozenset[SliceReference]]:
        """Control flow has ended: what each value stands for, of what either arm has handed on. spec: FP9.6"""
        cells = [{ref: self.cells_of(ref) for value in arm for ref in value.references} for arm in handed]
        taken = [[Pointer(cell, 0) for of in arm.values() for cell in of.values()] for arm in cells]
        moved = self.memory.end(taken)
        results = []
        for k in range(len(handed[0])):
            found: dict[SliceReference, list[tuple[int, Ways]]] = {}
            for way, (arm, to, of) in enumerate(zip(handed, moved, cells, strict=True)):
                for ref in arm[k].references:
                    seen = self.joined(ref, of[ref], to)._replace(ways=ALWAYS)
                    found.setdefault(seen, []).append((way, ref.ways))
            results.append(
                frozenset(ref._replace(ways=self.either_way(node, len(handed), of)) for ref, of in found.items())
            )
        return [self.chosen(refs) for refs in results]

    def either_way(self, node: int, arms: int, given: list[tuple[int, Ways]]) -> Ways:
        """The alternatives in which memory is meant behind a node, of which some arms hand it on, in some of theirs."""
        self.source.spend(sum(len(taken) + 1 for _, ways in given for taken in ways))
        if len({ways for _, ways in given}) == 1 and len({way for way, _ in given}) == arms:
            return given[0][1]
        found = frozenset(taken | {(node, way)} for way, ways in given for taken in ways)
        return found if len(found) <= MOST_WAYS else ALWAYS

    def chosen(self, refs: frozenset[SliceReference]) -> frozenset[SliceReference]:
        """One of several memories, and nothing says which: what is written by this name is read by no other.

        spec: FP1.14
        """
        self.choices += 1
        return frozenset(ref._replace(choice=self.choices) for ref in refs) if len(refs) > 1 else refs

    def close(self) -> None:
        if not self.open:
            return  # the function's own
        region = self.open.pop()
        if region.kind in ("concurrent", "serial", "dispatch"):
            self.leave()
        elif region.kind == "execute":
            self.executed(region.results)

    def executed(self, results: list[str]) -> None:
        """The execute of this line ends at a point in time, behind what it awaits."""
        self.times |= dict.fromkeys(results, self.current | EndedExecutes(1 << self.executes))
        self.executes += 1
        self.source.spend(self.executes // 64)

    def cells_of(self, ref: SliceReference) -> dict[str | None, int]:
        """The cells of a resource, by slice, whatever of it a reference stands for."""
        self.source.spend(len(self.cells))
        return {part: cell for (resource, part), cell in self.cells.items() if resource == ref.resource}

    def joined(self, ref: SliceReference, cells: dict[str | None, int], to: dict[Pointer, Pointer]) -> SliceReference:
        """What stands for a reference behind exclusive arms: the resource, with cells that either arm has made."""
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

    # Commands.

    def execute(self, body: str, results: list[str]) -> None:
        """`stream.cmd.execute … await(%t) => with(%r as %arg: …) {`. spec: FP9.4"""
        if not body.endswith("{"):
            raise self.refuse("expected the commands of an execute")
        head, _, bound = body.partition("with(")
        self.current = self.now.host | self.timed(SSA.findall(head))
        for value, name, size in BOUND.findall(bound):
            if value not in self.references and size in self.constants:
                self.external_resource(value, self.constants[size], self.constants[size])
            self.references[name] = self.known(value)
        self.open.append(_Region("execute", results=results))

    def file(self, body: str, old: str, results: list[str]) -> None:
        """`stream.file.read … await(%t) => %file[…], %r[%offset], %length : …`: constants are brought. spec: FP9.4"""
        head, _, what = body.partition("=>")
        windows, earlier = WINDOW.findall(what), WINDOW.findall(old.partition("=>")[2])
        if len(windows) != 2 or len(earlier) != 2:
            raise self.refuse("expected a file and the window of a resource")
        self.current = self.now.host | self.timed(SSA.findall(head))
        self.label = "stream.file.read"
        length = self.number(SSA.findall(what.partition(" : ")[0])[-1])
        self.access(windows[1][0], windows[1][1], earlier[1][1], length, reads=False, writes=True)
        self.step()
        self.executed(results)

    def by_the_host(self, op: str, body: str, old: str) -> None:
        """`stream.resource.load %r[%offset] : …` and `store %value, %r[%offset] : …`, which nothing may run beside.

        spec: FP9.8
        """
        window, earlier = WINDOW.search(body), WINDOW.search(old)
        bits = ELEMENT.search(body)
        if window is None or earlier is None or bits is None:
            raise self.refuse("expected the place of a number")
        self.current, self.label = self.now.host, op
        writes = op.endswith("store")
        self.access(
            window[1], window[2], earlier[2], max(1, int(bits[1] or bits[2]) // 8), reads=not writes, writes=writes
        )
        self.step()
        self.now.host |= EndedExecutes(1 << self.executes)
        self.executes += 1

    def command(self, text: str, old: str) -> None:
        """A line in an execute."""
        access = OPERAND.match(text)
        earlier = OPERAND.match(old)
        region = self.open[-1]
        if access is not None and earlier is not None:
            if region.kind != "dispatch":
                raise self.refuse("an operand without its dispatch")
            how, name, offset, length = access.groups()
            self.access(name, offset, earlier[3], self.number(length), how[0] == "r", how[1] == "w" or how == "wo")
            return
        words = text.split(None, 2)
        op = words[0] if words else ""
        if op in ("stream.cmd.concurrent", "stream.cmd.serial") and text.endswith("{"):
            self.source.descend(len(self.open))
            self.enter(op.rpartition(".")[2])
            if op == "stream.cmd.concurrent":
                self.dump.approximations[REGIONS] = None
            return
        if op in ("stream.cmd.dispatch", "stream.cmd.collective") or op.startswith("stream.cmd.collective<"):
            if not text.endswith("{"):
                raise self.refuse("expected the operands of a dispatch")
            self.enter("dispatch")
            symbol = words[1] if len(words) > 1 else ""
            self.label = symbol.rpartition("@")[2].partition("[")[0].partition("(")[0].rstrip("{") or op
            return
        windows, earlier_windows = WINDOW.findall(text), WINDOW.findall(old)
        if op == "stream.cmd.copy" and len(windows) == 2:
            length = self.number(SSA.findall(text.partition(" : ")[0])[-1])
            ways = [(True, False, length), (False, True, length)]
        elif op in ("stream.cmd.fill", "stream.cmd.discard") and len(windows) == 1:
            ways = [(False, True, self.number(windows[0][2]))]
        elif op in ("stream.cmd.flush", "stream.cmd.invalidate"):
            self.dump.assumed["flush and invalidate move no bytes"] = None
            return
        else:
            raise self.refuse(f"the command {op} is not read")
        self.enter("dispatch")
        self.label = op
        for (name, offset, _), (_, before, _), (reads, writes, length) in zip(
            windows, earlier_windows, ways, strict=True
        ):
            self.access(name, offset, before, length, reads, writes)
        self.open.pop()
        self.leave()

    def enter(self, kind: str) -> None:
        """A region or a command, which is the next child of what it stands in."""
        self.open[-1].child += 1
        self.regions += 1
        self.open.append(_Region(kind, number=self.regions))

    def leave(self) -> None:
        """A region or command has ended; where none is open that is concurrent, what it touched is a step."""
        if not any(region.kind == "concurrent" for region in self.open):
            self.step()

    def access(self, name: str, offset: str, before: str, length: int, reads: bool, writes: bool) -> None:
        path = tuple((r.number, r.child) for r in self.open if r.kind == "concurrent")
        found = [(ref, length) for ref in self.at(name, offset, before)] if offset in self.constants else []
        if offset not in self.constants:
            found = [self.whole(ref, offset) for ref in self.known(name)]
            if path and writes:
                raise self.refuse(f"{offset} is no constant, in a concurrent region")
            reads = True  # what was there before stays in part
            self.dump.approximations[UNKNOWN] = None
        cells = [self.cell(ref, length) for ref, length in found]
        # One of them is written, and nothing says which.
        is_choice = len(found) > 1 and writes
        is_first = is_choice and not reads and all(self.memory.held(cell) is None for cell in cells)
        for cell, (ref, length) in zip(cells, found, strict=True):
            start = ref.offset - self.memory.cells[cell].offset
            self.accesses.append(SliceAccess(cell, start, start + length, reads, writes, path))
            if is_choice and not is_first:
                self.either.add(cell)
            if not is_first:
                self.seen(ref, cell)
            elif ref.choice:
                self.perhaps[cell] = ref.choice
            if ref.resource in self.now.freed:
                self.late(cell, "after its dealloca")
            bit = 1 << self.executes
            all_of, written = self.touched.get(self.memory.cells[cell].arena, (0, 0))
            unordered = ~(self.current.where(ref.ways) | bit)
            if (all_of if writes else written) & unordered:
                self.dump.assumed["executes that do not await each other run in the order of the file"] = None
            self.touched[self.memory.cells[cell].arena] = all_of | bit, written | (bit if writes else 0)
            all_of, written = self.uses.get(cell, (0, 0))
            if ((all_of if writes else written) & ~self.apart | self.needs.get(ref.resource, 0)) & unordered:
                self.unordered.add(cell)
            self.uses[cell] = all_of | bit, written | (bit if writes else 0)

    def whole(self, ref: SliceReference, offset: str) -> tuple[SliceReference, int]:
        """All of the slice or resource in which an offset lies that is no constant."""
        size = self.stated.get(ref.slice or "", 0)
        if ref.slice is None:
            size = self.memory.arenas[self.arenas[ref.resource]].capacity
            if size >= UINT64_END - 1 or any(of == ref.resource and part for of, part in self.cells):
                self.number(offset)  # refused
        return ref._replace(offset=ref.offset - ref.shift, shift=0), size

    def step(self) -> None:
        """The accesses since the last step are one step. spec: FP9.4, FP9.5"""
        accesses, self.accesses = self.accesses, []
        unordered, self.unordered = self.unordered, set()
        either, self.either = self.either, set()
        reads: list[int] = []
        writes: list[int] = []
        of: dict[int, list[SliceAccess]] = {}
        for access in accesses:
            of.setdefault(access.cell, []).append(access)
        for cell, found in of.items():
            is_race = len(found) > 1 and any(a.writes for a in found) and at_once(found, self.source)
            is_race = is_race or cell in unordered
            own: set[RegionPath] = set()
            is_fresh = self.memory.held(cell) is None
            if cell in either:
                reads.append(cell)
            elif is_fresh:
                self.made_by[cell] = self.line
            elif self.made_by.get(cell) == self.line and not is_race and not any(a.reads for a in found):
                self.memory.renew(cell)
            for access in found:
                if access.reads and access.writes and is_fresh:
                    self.dump.assumed["what a command changes and nothing has written is written by it"] = None
                elif access.reads and access.path not in own:
                    reads.append(cell)
                if access.writes:
                    own.add(access.path)
            if is_race:
                reads.append(cell)
                writes.append(self.at_once_with(cell))
            elif any(a.writes for a in found):
                writes.append(cell)
        if reads or writes:
            self.memory.step(self.label, (DOMAIN, self.label), reads, writes)

    def at_once_with(self, cell: int) -> int:
        """A cell over another one, for what may be written while that is used."""
        c = self.memory.cells[cell]
        return self.memory.cell(f"{c.name} {LATE}", c.arena, c.offset, c.bytes)

    def ordered(self, cell: int, ended: int) -> None:
        """What is handed on as of a point in time must not be written by what that does not wait for. spec: FP9.8"""
        if self.uses.get(cell, (0, 0))[1] & ~ended:
            self.memory.step("await", (DOMAIN, "await"), [cell], [self.at_once_with(cell)])

    def seen(self, ref: SliceReference, cell: int) -> None:
        """A cell is used by a name: was it written by this one, if it was written as one of several?"""
        if self.perhaps.get(cell, ref.choice) != ref.choice:
            self.late(cell, "as another choice has left it")

    def late(self, cell: int, why: str) -> None:
        """State that a cell is used where it is not there: a read of what nothing writes."""
        c = self.memory.cells[cell]
        self.memory.step(
            self.label,
            (DOMAIN, self.label),
            [self.memory.cell(f"{c.name} {why}", c.arena, c.offset, max(1, c.bytes))],
            (),
        )

    # Resources.

    def allocate(self, results: list[str], size: int, ended: EndedExecutes) -> None:
        """An allocation, which is there from its point in time on, if it has one."""
        name = results[0]
        root = self.root(name)
        self.arenas[root] = self.memory.arena(self.dump.prefix + name.removeprefix("%"), size)
        self.references[name] = frozenset((SliceReference(root, 0, None, 0),))
        if len(results) > 1:
            self.needs[root] = 1 << self.executes
            self.times |= dict.fromkeys(results[1:], ended | EndedExecutes(1 << self.executes))
            self.executes += 1

    def root(self, name: str) -> str:
        """What a resource is called here: a region beside this one may have one of the same name."""
        return f"{name} of {len(self.arenas)}" if name in self.arenas else name

    def external_resource(self, name: str, size: int, capacity: int) -> None:
        """What comes from elsewhere: an import, a global, a constant."""
        cell = self.memory.own(self.dump.prefix + name.removeprefix("%"), size, role=Role.INPUT, capacity=capacity)
        root = self.root(name)
        self.arenas[root] = self.memory.cells[cell].arena
        self.cells[root, None] = cell
        self.external.add(root)
        self.references[name] = frozenset((SliceReference(root, 0, None, 0),))

    def known(self, name: str) -> frozenset[SliceReference]:
        """What a name stands for; of a name that nothing here allocates, memory from elsewhere."""
        if name not in self.references:
            self.external_resource(name, 0, UINT64_END - 1)
        return self.references[name]

    def at(self, name: str, offset: str, before: str) -> set[SliceReference]:
        """A byte further on in a resource."""
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
        self.source.spend(len(found))
        return found

    def cell(self, ref: SliceReference, length: int) -> int:
        """The cell of a slice, which lies at one offset."""
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
            raise self.refuse(f"the slice {found.name} lies at two offsets")
        self.memory.grow(cell, ref.offset + length - found.offset, f"line {self.line}")
        return cell

    def touch(self, what: str, refs: list[SliceReference]) -> None:
        """Read what references point to, as far as anything has written it."""
        cells = self.cells_in(refs)
        if cells:
            self.memory.step(what, (DOMAIN, what), cells, ())

    def cells_in(self, refs: Iterable[SliceReference]) -> list[int]:
        return [cell for ref in refs for cell in self.within(ref)]

    def within(self, ref: SliceReference) -> list[int]:
        """The written cells that a reference to a resource or a slice stands for."""
        if ref.slice is not None:
            keys: list[tuple[str, str | None]] = [(ref.resource, ref.slice)]
        else:
            keys = [key for key in self.cells if key[0] == ref.resource]
            self.source.spend(len(self.cells))
        return [self.cells[key] for key in keys if key in self.cells and self.memory.held(self.cells[key]) is not None]

    def keep(self, results: Iterable[tuple[str, frozenset[SliceReference]]]) -> None:
        """Results: the caller reads them when the function is over, and what is done with them until then must have
        ended. A buffer view that it gave keeps what it had. spec: FP9.3, FP9.8
        """
        for name, refs in results:
            for ref in [ref for view in self.view(name) for ref in self.imported.get(view, ())]:
                self.memory.keeps(self.within(ref))
            for ref in refs:
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

    def free(self, body: str, results: list[str]) -> None:
        """`stream.resource.dealloca … await(%t) => %r`: nothing is left of its bytes, and nothing uses it any more.

        spec: FP9.7, FP9.8
        """
        head, _, what = body.rpartition("=>")[0].rpartition("=>") if body.count("=>") > 1 else body.partition("=>")
        ended = self.now.host | self.timed(SSA.findall(head))
        for name in SSA.findall(what.partition(":")[0]):
            for ref in self.known(name):
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
