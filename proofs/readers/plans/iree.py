"""IREE's IR around `iree-stream-layout-slices`: slices of resources at offsets, and the commands that touch them.

The dump before the pass names each slice, and the one after it has its offset. Both are the same program, line by line.
Each function is run line by line, both dumps at once. This module has the statements of the host, `iree_control` loops
and alternatives, `iree_commands` the commands of an execute, and `iree_slices` the memory. spec: FP9.1 to FP9.14
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from proofs.readers.plans.foreign_plan import ForeignPlan, FreshNames, describe_branch_names
from proofs.readers.plans.iree_commands import WINDOW
from proofs.readers.plans.iree_control import FunctionControl
from proofs.readers.plans.iree_slices import DumpState
from proofs.readers.plans.iree_text import RESULTS, SSA
from proofs.readers.plans.iree_values import NEVER, NamedValue, SliceReference, in_order
from tmmu.core.output import list_names
from tmmu.core.source import Source
from tmmu.core.vocabulary import UINT64_END
from tmmu.plans.reading import ACCESSES_WORKED_OUT, Reading

SECTION = re.compile(r"^// -----// IR Dump (Before|After) (\w+)([^\n]*)\n", re.MULTILINE)
PASS = re.compile(
    r"(?:: iree-stream-layout-slices| \(iree-stream-layout-slices\))?(?: \('[\w.]+' operation(?:: @[\w$.]+)?\))? "
    r"//----- //", re.ASCII,
)  # fmt: skip
"""The text after the name of the pass. Dumps of other passes are not read."""
AROUND = re.compile(r"\s*+(?://.*|#[\w$.]+ = .*)?", re.ASCII)
"""A line around a function without memory in it: a comment, or the name of an attribute."""
FUNCTION = re.compile(r"^[ \t]*+util\.(?:func|initializer)\b[^\n@]*+(?:@([^\s(]++))?", re.MULTILINE)
END = re.compile(r"^\}(?!\))", re.MULTILINE)
SIZE = re.compile(r"!stream\.resource<[^>]*+>\{(%[\w$.#-]++)\}", re.ASCII)
SYMBOL = re.compile(r"@[\w$.]++", re.ASCII)
CONSUME = re.compile(r"\bconsume %", re.ASCII)
EVALUATED = re.compile(r"jit_eval(?:_\d+)?", re.ASCII)
"""The functions that IREE runs itself, for constants."""
MAX_DUMP = 1 << 26
"""The largest dump that is read, in bytes."""
PURE = frozenset({"arith.select", "stream.resource.size", "stream.timepoint.barrier", "util.optimization_barrier"})
"""Operations that use a resource or a buffer view but none of its bytes; a result may be any operand. spec: FP9.10"""


def read(source: Source) -> ForeignPlan:
    """Return the plan of the functions that execute commands. Raises INVALID_PLAN with FILE and line. O(bytes)."""
    others: list[str] = []
    functions = _functions(source, others)
    dump, unique = DumpState(source), FreshNames()
    for name, after, before in functions:
        dump.prefix = f"{unique(name)}." if len(functions) > 1 else ""
        function = _Function(dump, after, before)
        function.read()
        if EVALUATED.fullmatch(name):
            dump.assumed["functions that IREE evaluates as it compiles have separate memory"] = None
        else:
            function.keep_arguments()
    outside = {"alignment of slices": "the dump does not state it"}
    if others:
        outside["functions without commands"] = f"they place no memory: {list_names(sorted(set(others)))}"
    if dump.memory.joined:
        dump.approximations[describe_branch_names(dump.memory.joined)] = None
    reading = Reading(
        "IREE stream dump", ACCESSES_WORKED_OUT, tuple(dump.assumed), outside, tuple(dump.approximations),
        dump.memory.donated(),
    )  # fmt: skip
    return ForeignPlan(dump.memory.plan(), reading)


class _Dumped(NamedTuple):
    """A function's name, and its first line and text, as dumped after the pass and before it."""

    name: str
    after: tuple[int, str]
    before: tuple[int, str] | None


def _check_around(source: Source, text: str, line: int) -> None:
    """Refuse text outside of functions other than comments. spec: FP9.13"""
    for number, each in enumerate(text.split("\n"), line):
        source.count_work(1)
        if not AROUND.fullmatch(each):
            raise source.refuse(f"a dump of a function was expected, got {each[:60]!r}", f"line {number}")


def _functions(source: Source, others: list[str]) -> list[_Dumped]:
    """Return the functions in a dump that execute commands. `others` gets the names of those that do not."""
    if len(source.data) > MAX_DUMP:
        raise source.refuse(f"more than {MAX_DUMP} bytes", None, "dump fewer functions")
    text = source.text()
    found: dict[str, dict[str, list[tuple[int, str]]]] = {}
    idle: dict[str, list[tuple[str, int]]] = {}
    marks = list(SECTION.finditer(text))
    source.count_work(len(text) // 8)
    line, reached = 1, 0
    for k, mark in enumerate(marks):
        until = marks[k + 1].start() if k + 1 < len(marks) else len(text)
        if k == 0:
            _check_around(source, text[: mark.start()], line)
        line, reached = line + text.count("\n", reached, mark.end()), mark.end()
        if mark[2] not in ("LayoutSlices", "LayoutSlicesPass"):
            continue
        body = text[mark.end() : until]
        if not PASS.fullmatch(mark[3]):
            raise source.refuse(f"a dump of the pass was expected, got {mark[3][:60]!r}", f"line {line - 1}")
        named = FUNCTION.search(body)
        end = END.search(body, named.start()) if named is not None else None
        if named is not None and end is None:
            raise source.truncated_error("this function does not end", f"line {line}")
        _check_around(source, body[: named.start()] if named is not None else body, line)
        if end is not None:
            stop = body.find("\n", end.end())
            _check_around(source, body[stop:] if stop >= 0 else "", line + body.count("\n", 0, end.end()))
        if named is not None and "stream.cmd.execute" not in body:
            idle.setdefault(named[1] or "initializer", []).append((mark[1], line))
        if named is not None and "stream.cmd.execute" in body:
            dumps = found.setdefault(named[1] or "initializer", {"Before": [], "After": []})
            dumps[mark[1]].append((line + body.count("\n", 0, named.start()), body[named.start() :]))
    for name, dumped in idle.items():
        sides = [side for side, _ in dumped]
        if "Before" in sides and sides.count("Before") != sides.count("After"):
            what = f"{name} executes commands in one of its dumps before and after LayoutSlices, not in both"
            raise source.refuse(what, f"line {dumped[-1][1]}", "dump both of one run")
    others += idle
    if not any(dumps["After"] for dumps in found.values()):
        fix = "print it with --mlir-print-ir-before and -after=iree-stream-layout-slices, --compile-to=stream"
        raise source.refuse("no function that executes commands, dumped after LayoutSlices", None, fix)
    return [each for name, dumps in found.items() for each in _paired(source, name, dumps["After"], dumps["Before"])]


def _paired(
    source: Source, name: str, after: list[tuple[int, str]], before: list[tuple[int, str]]
) -> Iterator[_Dumped]:
    """Yield the functions that have one name, each with its dumps after and before the pass.

    Initializers, and modules that are evaluated one by one, have several functions of a name. spec: FP1.12, FP9.12
    """
    if before and len(before) != len(after):
        number, _ = (before if len(before) > len(after) else after)[-1]
        what = f"{name} has {len(before)} dumps before LayoutSlices and {len(after)} after it"
        raise source.truncated_error(what, f"line {number}")
    for k, each in enumerate(after):
        yield _Dumped(name, each, before[k] if before else None)


class _Function(FunctionControl):
    """A function, run line by line, before and after the pass at once."""

    def __init__(self, dump: DumpState, after: tuple[int, str], before: tuple[int, str] | None) -> None:
        super().__init__(dump, after, before)
        if before is None:
            dump.assumed["each slice has a separate name for its offset: the dump before the pass is missing"] = None
        self.chained = NEVER
        """The executes that the caller awaits by a fence."""

    def read(self) -> None:
        self.block(0, len(self.pairs))
        self.keep(self.now.globals.items())
        for cell, ways, apart in self.handed_over:
            self.ordered(cell, (self.now.host | self.chained).where(ways) | apart)

    def block(self, at: int, end: int) -> None:
        """Run the lines from `at` up to `end`."""
        nothing: dict[str, str] = {}
        while at < end:
            line, old = self.pairs[at]
            self.line = line.number
            self.source.count_work(1 + len(line.text) // 64)
            self.define(line, self.constants, nothing)
            for noted in line.noted:  # a region beside this one may have used the name
                self.bind(noted.name, NamedValue())
            self.define(old, self.earlier, self.slices)
            at = self.statement(at, line.text, old.text)

    def statement(self, at: int, text: str, old: str) -> int:
        """Run one line, or a whole region of control flow, and return the number of the line after it.

        Names are those after the pass; `old` is the same line before the pass.
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
            self.allocate(results, self.number(sizes[0]), self.find_ended_executes(operands))
        elif op == "stream.resource.subview":
            window, earlier = WINDOW.search(body), WINDOW.search(before)
            if window is None or earlier is None or len(results) != 1:
                raise self.refuse("expected a resource and an offset in it")
            self.references[results[0]] = frozenset(self.at(window[1], window[2], earlier[2]))
        elif op == "stream.resource.dealloca":
            self.free(body, results)
        elif op == "stream.timepoint.await":
            self.now.host |= self.find_ended_executes(operands)
            awaited = SSA.findall(body.partition("=>")[2].partition(" : ")[0])
            if len(results) != len(awaited):
                raise self.refuse(f"{len(results)} results of {len(awaited)} operands")
            for result, given in zip(results, awaited, strict=True):
                self.references[result] = self.references.get(given, frozenset())
                for ref in in_order(self.references[result]):
                    for cell in self.within(ref):
                        self.ordered(cell, self.now.host.where(ref.ways) | self.apart)
        elif op == "stream.timepoint.chain_external":
            self.chained |= self.find_ended_executes(operands)
        elif op == "util.global.load" and "!stream.resource" in body:
            self.run_load(body, results)
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
            self.times |= dict.fromkeys(results, self.find_ended_executes(operands))
        elif op in ("stream.resource.load", "stream.resource.store"):
            self.by_the_host(op, body, before)
        elif op == "stream.file.read":
            self.file(body, before, results)
        elif op == "scf.yield" or op.startswith("scf.condition"):
            self.hand_on(body)
        elif body.endswith("{") or op.startswith(("cf.", "scf.")):
            raise self.unknown(op, "control flow of scf.for, scf.while and scf.if is")
        else:
            self.other(op, body, results, operands)
        return at + 1

    def other(self, op: str, body: str, results: list[str], operands: list[str]) -> None:
        """Run a line without a command: points in time, numbers, and other names for values. spec: FP9.10"""
        names = [operand for operand in operands if self.references.get(operand)]
        if names and op not in PURE and "!stream.resource" in body:
            raise self.unknown(op)
        ended = self.find_ended_executes(operands)
        if op == "arith.select" and len(operands) > 2:  # it is one of them, not known which
            ended = self.times.get(operands[1], NEVER) & self.times.get(operands[2], NEVER)
        for result in results:
            views = frozenset[str]().union(*map(self.view, operands)) if "!hal.buffer_view" in body else frozenset()
            refs = self.all_of(names) if "!stream.resource" in body else frozenset[SliceReference]()
            self.bind(result, NamedValue(self.chosen(refs) if op == "arith.select" else refs, ended, views))

    def called(self, body: str, results: list[str], operands: list[str]) -> None:
        """Run a call of another function, which may write its operands, and return them or other memory."""
        for operand in operands:
            for ref in in_order(self.references.get(operand, ())):
                for cell in self.within(ref):
                    self.ordered(cell, self.now.host.where(ref.ways) | self.apart)
                    self.memory.returns([cell])
        if "!stream.resource" in body.partition("->")[2]:
            given = self.all_of(operands)
            for result in results:
                self.external_resource(result, 0, UINT64_END - 1)
                self.references[result] = self.chosen(self.references[result] | given)

    def importing(self, body: str, results: list[str], operands: list[str]) -> None:
        """Run `stream.tensor.import … consume %arg0 : … in !stream.resource<external>{%size}`. spec: FP9.11"""
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

    def run_load(self, body: str, results: list[str]) -> None:
        """Run `%r = util.global.load @name : !stream.resource<…>`: one memory, however often loaded. spec: FP9.3"""
        symbol = SYMBOL.search(body)
        if len(results) != 1 or symbol is None:
            raise self.refuse("expected a global")
        initial = self.initial_of(symbol[0])
        if "!stream.resource<constant>" in body:
            self.memory.keeps([self.cells[ref.resource, None] for ref in initial])
        self.references[results[0]] = self.now.globals.get(symbol[0], initial)
