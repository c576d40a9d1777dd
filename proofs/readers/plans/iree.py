"""IREE's IR around `iree-stream-layout-slices`: slices of resources at offsets, and the commands that touch them.

The dump before the pass names each slice, the one after it has its offset; both are the same program, line by line.
A slice is a cell of the resource that it lies in. Commands of one concurrent region are one step; what two of them
touch at once, one of them writing, is written over what the other one touches. spec: FP9.1 to FP9.12
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from proofs.readers.plans.cells import WHOLE, CellMemory, Pointer
from proofs.readers.plans.source import ForeignPlan, FreshNames, Source, kept_of_arms
from tmmu.core.vocabulary import UINT64_END, Role
from tmmu.plans.reading import ACCESSES_WORKED_OUT, Reading

DOMAIN = "iree"
SECTION = re.compile(r"^// -----// IR Dump (Before|After) LayoutSlices[^\n]*\n", re.MULTILINE)
FUNCTION = re.compile(r"^\s*+util\.(?:func|initializer)\b[^\n@]*+(?:@([^\s(]++))?", re.MULTILINE)
END = re.compile(r"^\}", re.MULTILINE)
SSA = re.compile(r"%[\w$.-]++(?:#\d++)?", re.ASCII)
CONSTANT = re.compile(r"\s*+(%[\w$.-]++) = arith\.constant (-?\d++) : ", re.ASCII)
SUM = re.compile(r"\s*+(%[\w$.-]++) = arith\.addi (%[\w$.#-]++), (%[\w$.#-]++) : index", re.ASCII)
PACK = re.compile(r"\s*+(%[\w$.-]++)(?::\d++)? = stream\.resource\.pack\b", re.ASCII)
SLICE = re.compile(r"\s*+\[(\d++), (\d++)\] = (%[\w$.-]++(?:#\d++)?),?", re.ASCII)
RESULTS = re.compile(r"\s*+(%[\w$.-]++(?::\d++)?(?:, %[\w$.-]++(?::\d++)?)*+) = (.*+)", re.ASCII | re.DOTALL)
OPERAND = re.compile(r"\s*+(ro|wo|rw) (%[\w$.#-]++)\[(%[\w$.#-]++) for (%[\w$.#-]++)\]", re.ASCII)
WINDOW = re.compile(r"(%[\w$.#-]++)\[(%[\w$.#-]++)(?: for (%[\w$.#-]++))?\]", re.ASCII)
BOUND = re.compile(r"(%[\w$.#-]++) as (%[\w$.#-]++): !stream\.resource<[^>]*+>(?:\{(%[\w$.#-]++)\})?", re.ASCII)
GIVEN = re.compile(r"(%[\w$.-]++) = (%[\w$.#-]++)", re.ASCII)
SIZE = re.compile(r"!stream\.resource<[^>]*+>\{(%[\w$.#-]++)\}", re.ASCII)
SYMBOL = re.compile(r"@[\w$.]++", re.ASCII)
CONSUME = re.compile(r"\bconsume %", re.ASCII)
EVALUATED = re.compile(r"jit_eval(?:_\d+)?", re.ASCII)
"""The functions that IREE runs itself, for constants."""
MAX_DUMP = 1 << 26
"""The largest dump that is read, in bytes."""
LOOPS = "what a loop reads from before it counts as read until its end"
LATE = "as written at once"
UNKNOWN = "a window at an offset that is no constant counts as all of its slice or resource, part of which stays"
REGIONS = "a concurrent region counts as one step"


class _Reference(NamedTuple):
    """Bytes of a resource from an offset: the offset after the pass, and what the IR before it calls it.

    `slice` is the name of the slice, None for the resource as a whole, `shift` the byte in it.
    """

    resource: str
    offset: int
    slice: str | None
    shift: int


class _Noted(NamedTuple):
    """A name that a line defines as a number: a constant `value`, a slice of the size `base` where it is None, or the
    sum of two names.
    """

    name: str
    base: str
    value: int | str | None


class _Line(NamedTuple):
    """A line of a function that is no such definition, and those before it."""

    number: int
    text: str
    noted: list[_Noted]


_Path = tuple[tuple[int, int], ...]
"""The concurrent regions that a command stands in, outermost first, each with the child of it."""


class SliceAccess(NamedTuple):
    """Bytes of a slice that a command reads, writes or both."""

    cell: int
    start: int
    end: int
    reads: bool
    writes: bool
    path: _Path


@dataclass
class _Region:
    """An open brace: its kind, the number of its next child where it is concurrent, and what it defines.

    Of control flow `given` is what it hands on where nothing in it runs, or by its first arm, `step` and `executes` are
    how many there were before it, and `apart` the executes of its first arm, as bits.
    """

    kind: str
    number: int = 0
    child: int = 0
    results: list[str] = field(default_factory=list)
    given: list[set[_Reference]] = field(default_factory=list)
    step: int = 0
    executes: int = 0
    apart: int = 0


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


class _Function:
    """A function, read line by line, before and after the pass at once."""

    def __init__(self, dump: _Dump, after: tuple[int, str], before: tuple[int, str] | None) -> None:
        self.dump, self.source, self.memory = dump, dump.source, dump.memory
        self.line = after[0]
        self.constants: dict[str, int] = {}
        self.earlier: dict[str, int] = {}
        self.slices: dict[str, str] = {}
        self.parts: dict[str, tuple[str, int]] = {}
        self.stated: dict[str, int] = {}
        self.has_both = before is not None
        later = self.lines(after[1])
        self.pairs = [(line, line._replace(noted=[])) for line in later]
        if before is not None:
            first = self.lines(before[1])
            self.pairs = list(zip(later, first, strict=False))
            for line, old in self.pairs:
                if SSA.sub("%", line.text) != SSA.sub("%", old.text):
                    raise self.source.refuse(
                        "the dumps before and after LayoutSlices differ", f"line {line.number}", "dump both of one run"
                    )
            if len(first) != len(later):
                raise self.source.refuse(
                    "the dumps before and after LayoutSlices have other lengths", f"line {after[0]}"
                )
        else:
            self.dump.assumed[
                "each slice has a name of its own for its offset: the dump before the pass is missing"
            ] = None
        self.references: dict[str, set[_Reference]] = {}
        self.arenas: dict[str, int] = {}
        self.cells: dict[tuple[str, str | None], int] = {}
        self.external: set[str] = set()
        self.imported: dict[str, set[_Reference]] = {}
        """What a buffer view of the caller's is in memory."""
        self.globals: dict[str, set[_Reference]] = {}
        self.consumed: set[str] = set()
        """The buffer views that the caller gives up."""
        self.open: list[_Region] = []
        self.accesses: list[SliceAccess] = []
        self.label = ""
        self.times: dict[str, int] = {}
        self.host = self.current = self.executes = 0
        self.touched: dict[int, tuple[int, int]] = {}
        """Of each memory the executes that touch it and that write it, as bits; `uses` has those of each cell."""
        self.uses: dict[int, tuple[int, int]] = {}
        self.apart = 0
        """The executes that do not run where this arm does."""
        self.unordered: set[int] = set()
        self.regions = 0
        self.yielded: list[list[set[_Reference]]] = []

    def lines(self, text: str) -> list[_Line]:
        """The lines of a function without sums, constants and packs, which are noted with the line behind them."""
        found, noted, packing, at = list[_Line](), list[_Noted](), "", 0
        for number, line in enumerate(text.split("\n"), self.line):
            self.source.spend(1 + len(line) // 64)
            constant, total = CONSTANT.match(line), SUM.match(line)
            pack = PACK.match(line)
            if constant is not None:
                noted.append(_Noted(constant[1], "", int(constant[2]) if len(constant[2]) <= 20 else UINT64_END))
            elif total is not None:
                noted.append(_Noted(total[1], total[2], total[3]))
            elif pack is not None:
                packing, at = pack[1], 0
            elif packing:
                part = SLICE.match(line)
                if part is not None:
                    at += 1
                    noted.append(_Noted(f"{packing}#{at}", part[3], None))
                elif "})" in line or line.strip().startswith("}"):
                    packing = ""
            else:
                found.append(_Line(number, line.strip(), noted))
                noted = []
                if line == "}":
                    break
        return found

    def define(self, line: _Line, constants: dict[str, int], slices: dict[str, str]) -> None:
        """Note what stands before a line. Regions beside each other have names of their own, so that a name stands for
        what was last made of it. spec: FP9.1
        """
        for name, base, value in line.noted:
            self.source.spend(1)
            self.forget(name, constants, slices)
            if isinstance(value, int):
                constants[name] = value
            elif value is None:
                slices[name] = base
                if base in constants:
                    self.stated[name] = constants[base]
            elif value in constants and base in constants:
                constants[name] = constants[base] + constants[value]
            elif value in constants and base in slices:
                self.parts[name] = base, constants[value]
        made = RESULTS.match(line.text)
        for name in _names(made[1]) if made is not None else ():
            self.forget(name, constants, slices)

    def forget(self, name: str, constants: dict[str, int], slices: dict[str, str]) -> None:
        """A name stands for something else from now on."""
        constants.pop(name, None)
        if slices is self.slices:
            slices.pop(name, None)
            self.parts.pop(name, None)
            self.stated.pop(name, None)

    def read(self) -> None:
        nothing: dict[str, str] = {}
        for line, old in self.pairs:
            self.line = line.number
            self.source.spend(1 + len(line.text) // 64)
            self.define(line, self.constants, nothing)
            self.define(old, self.earlier, self.slices)
            self.statement(line.text, old.text)
        if self.open:
            raise self.source.not_whole("the function does not end", f"line {self.line}")

    def keep_arguments(self) -> None:
        """State that what the caller does not give up stays as it was given. spec: FP9.11"""
        for view, refs in self.imported.items():
            if view not in self.consumed:
                self.memory.keeps([self.cells[ref.resource, None] for ref in refs])

    def statement(self, text: str, old: str) -> None:
        """One line. Names are those after the pass; `old` is the line before it."""
        if text.startswith(("//", "util.func", "util.initializer")) or not text:
            if text.startswith("util."):
                self.open.append(_Region("function"))
            return
        if text.startswith("}"):
            self.close(text)
            return
        if text.startswith("^bb"):
            self.block(text)
            return
        if any(region.kind == "execute" for region in self.open):
            self.command(text, old)
            return
        match = RESULTS.fullmatch(text)
        results = _names(match[1]) if match else []
        body = match[2] if match else text
        old_match = RESULTS.fullmatch(old)
        before = old_match[2] if old_match else old
        op = body.split(None, 1)[0].split("(")[0] if body else ""
        operands = SSA.findall(body)
        for result in results:  # a region beside this one may have used the name
            self.references.pop(result, None)
            self.times.pop(result, None)
        if op == "stream.cmd.execute":
            self.execute(body, results)
        elif op in ("stream.resource.alloca", "stream.resource.alloc"):
            sizes = SIZE.findall(body)
            if not results or len(sizes) != 1:
                raise self.refuse("expected the size of an allocation")
            self.allocate(results[0], self.number(sizes[0]))
            self.timed(results, operands)
        elif op == "stream.resource.subview":
            window, earlier = WINDOW.search(body), WINDOW.search(before)
            if window is None or earlier is None or len(results) != 1:
                raise self.refuse("expected a resource and an offset in it")
            self.references[results[0]] = self.at(window[1], window[2], earlier[2])
        elif op == "stream.resource.dealloca":
            self.free(body.partition(") =>")[2] or body.partition("=>")[2])
        elif op == "stream.timepoint.await":
            for operand in operands:
                self.host |= self.times.get(operand, 0)
            for result, given in zip(results, SSA.findall(body.partition("=>")[2].partition(":")[0]), strict=False):
                self.references[result] = self.references.get(given, set())
                self.awaited(self.references[result])
        elif op == "util.global.load" and "!stream.resource" in body:
            self.loaded(body, results)
        elif op in ("stream.tensor.export", "util.global.store", "util.return", "stream.resource.store", "util.call"):
            self.keep(operands, is_read=op != "util.call")
            self.timed(results, operands)
            if op == "util.global.store" and (symbol := SYMBOL.search(body)) is not None:
                self.globals[symbol[0]] = set().union(*(self.references.get(name, ()) for name in operands))
        elif op == "stream.tensor.import":
            self.importing(body, results, operands)
            self.timed(results, operands)
        elif op == "stream.resource.load":
            self.touch("load", [ref for operand in operands for ref in self.references.get(operand, ())])
        elif op == "stream.file.read":
            self.file(body, before, results)
        elif op == "scf.yield" or op.startswith("scf.condition"):
            self.hand_on(body)
        elif op.startswith(("cf.", "scf.forall", "scf.parallel", "scf.index_switch")):
            raise self.refuse(f"{op} is not read", "control flow of scf.for, scf.while and scf.if is")
        elif body.endswith("{"):
            self.begin(op, body, results)
        else:
            self.timed(results, operands)
            if "!stream.resource" in body:
                same = [ref for operand in operands for ref in self.references.get(operand, ())]
                for result in results:
                    if same:
                        self.references[result] = set(same)

    def importing(self, body: str, results: list[str], operands: list[str]) -> None:
        """`stream.tensor.import … consume %arg0 : … in !stream.resource<external>{%size}`. spec: FP9.11"""
        if not operands or len(results) != 1:
            raise self.refuse("expected a buffer view")
        if CONSUME.search(body):
            self.consumed.add(operands[0])
        size = SIZE.search(body)
        if operands[0] in self.imported:
            self.references[results[0]] = self.imported[operands[0]]
            return
        known = self.constants.get(size[1]) if size is not None else None
        self.external_resource(results[0], known or 0, UINT64_END - 1 if known is None else known)
        self.imported[operands[0]] = self.references[results[0]]

    def loaded(self, body: str, results: list[str]) -> None:
        """`%r = util.global.load @name : !stream.resource<…>`: one memory, however often it is loaded. spec: FP9.3"""
        symbol = SYMBOL.search(body)
        if len(results) != 1 or symbol is None:
            raise self.refuse("expected a global")
        if symbol[0] not in self.globals:
            self.external_resource(results[0], 0, UINT64_END - 1)
            self.globals[symbol[0]] = self.references[results[0]]
            if "!stream.resource<constant>" in body:
                self.memory.keeps([self.cells[ref.resource, None] for ref in self.references[results[0]]])
        self.references[results[0]] = self.globals[symbol[0]]

    def timed(self, results: list[str], operands: list[str]) -> None:
        """Timepoints that follow from others: what has then been executed, as bits."""
        mask = 0
        for operand in operands:
            mask |= self.times.get(operand, 0)
        if mask:
            self.times |= dict.fromkeys(results, mask)
            self.source.spend(self.executes // 64)

    def begin(self, op: str, body: str, results: list[str]) -> None:
        """Control flow: what it is given stands for itself inside. spec: FP9.6"""
        self.source.descend(len(self.open))
        kind = op if op in ("scf.for", "scf.while", "scf.if") else ""
        if not kind:
            raise self.refuse(f"{op} is not read", "control flow of scf.for, scf.while and scf.if is")
        if kind != "scf.if":
            self.dump.approximations[LOOPS] = None
        given = []
        inits = body.partition("iter_args" if kind == "scf.for" else "scf.while")[2] if kind != "scf.if" else ""
        for name, value in GIVEN.findall(inits.partition(")")[0]):
            self.references.pop(name, None)  # the region beside this one may have used the name
            if value in self.references:
                self.references[name] = self.references[value]
            self.times[name] = self.times.get(value, 0)
            given.append(self.references.get(value, set()))
        if kind != "scf.while":  # its condition is always run
            self.memory.begin(kind, (DOMAIN, kind), ())
        steps = len(self.memory.steps)
        self.open.append(_Region(kind, results=results, given=given, step=steps, executes=self.executes))
        self.yielded.append([])

    def block(self, text: str) -> None:
        """`^bb0(%arg3: …):` behind `do {`: what the condition hands on."""
        if not self.open or self.open[-1].kind != "scf.while":
            raise self.refuse(
                "branches between blocks are not read", "control flow of scf.for, scf.while and scf.if is"
            )
        for name, refs in zip(SSA.findall(text), self.yielded[-1], strict=False):
            self.references[name] = set(refs)
            self.times[name] = (1 << self.executes) - 1

    def hand_on(self, body: str) -> None:
        """`scf.yield` and `scf.condition`: the values that a region hands on. They are read there."""
        if not self.yielded:
            raise self.refuse("a yield outside of control flow")
        values = SSA.findall(
            body.partition(" : ")[0].partition(") ")[2] if "condition" in body else body.partition(" : ")[0]
        )
        found = [set(self.references.get(value, ())) for value in values]
        self.touch("yield", [ref for refs in found for ref in refs])
        merged = self.yielded[-1]
        for k, refs in enumerate(found):
            if k < len(merged):
                merged[k] |= refs
            else:
                merged.append(refs)

    def close(self, text: str) -> None:
        if not self.open:
            raise self.refuse("a brace closes nothing")
        if "{" in text:  # `} else {` and `} do {`: the same region goes on
            region = self.open[-1]
            if region.kind == "scf.if":
                self.next_arm(region)
            elif region.kind == "scf.while":
                region.given = [set(refs) for refs in self.yielded[-1]]
                self.memory.begin(region.kind, (DOMAIN, region.kind), ())
            return
        region = self.open.pop()
        if region.kind in ("concurrent", "serial", "dispatch"):
            self.leave()
        elif region.kind == "execute":
            self.executes += 1
            self.times |= dict.fromkeys(region.results, self.current | 1 << (self.executes - 1))
        elif region.kind.startswith("scf."):
            if region.kind != "scf.if":
                self.iterated(region)
            elif not region.child:
                self.next_arm(region)  # there is no else
            self.left(region)
            self.times |= dict.fromkeys(region.results, (1 << self.executes) - 1)

    def next_arm(self, region: _Region) -> None:
        """The first of two exclusive arms has ended. spec: FP9.6"""
        region.child += 1
        region.given, self.yielded[-1] = self.yielded[-1], []
        region.apart = (1 << self.executes) - (1 << region.executes)
        self.apart |= region.apart
        self.memory.arm()

    def iterated(self, region: _Region) -> None:
        """A loop has ended: another iteration reads what this one has read from before it. It need not run at all."""
        steps = self.memory.steps[region.step :]
        made = {cell for step in steps for cell in step.writes}
        again = dict.fromkeys(c.number for step in steps for c in step.reads if c not in made)
        self.source.spend(sum(len(step.reads) for step in steps))
        if again:
            self.memory.step("next iteration", (DOMAIN, "loop"), again, ())
        self.memory.arm()

    def left(self, region: _Region) -> None:
        """Control flow has ended: what its results stand for, of what either arm has handed on. spec: FP9.6"""
        handed = self.yielded.pop()
        arms = (region.given, handed) if region.kind == "scf.if" else (handed, region.given)
        self.apart &= ~region.apart
        cells = [{ref: self.cells_of(ref) for refs in arm for ref in refs} for arm in arms]
        taken = [[Pointer(cell, 0) for of in arm.values() for cell in of.values()] for arm in cells]
        moved = self.memory.end(taken)
        anew = (1 << self.executes) - (1 << region.executes)
        for k, result in enumerate(region.results):
            found: set[_Reference] = set()
            for arm, to, of in zip(arms, moved, cells, strict=True):
                for ref in arm[k] if k < len(arm) else ():
                    found.add(self.joined(ref, of[ref], to, anew))
            if found:
                self.references[result] = found

    def cells_of(self, ref: _Reference) -> dict[str | None, int]:
        """The cells of a resource, by slice, whatever of it a reference stands for."""
        self.source.spend(len(self.cells))
        return {part: cell for (resource, part), cell in self.cells.items() if resource == ref.resource}

    def joined(
        self, ref: _Reference, cells: dict[str | None, int], to: dict[Pointer, Pointer], anew: int
    ) -> _Reference:
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
                self.uses[cell] = anew, anew
        return ref._replace(resource=root)

    # Commands.

    def execute(self, body: str, results: list[str]) -> None:
        """`stream.cmd.execute … await(%t) => with(%r as %arg: …) {`. spec: FP9.4"""
        if not body.endswith("{"):
            raise self.refuse("expected the commands of an execute")
        head, _, bound = body.partition("with(")
        self.current = self.host
        for operand in SSA.findall(head):
            self.current |= self.times.get(operand, 0)
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
        awaited = SSA.findall(head)
        self.current = self.host
        for operand in awaited:
            self.current |= self.times.get(operand, 0)
        self.label = "stream.file.read"
        length = self.number(SSA.findall(what.partition(" : ")[0])[-1])
        self.access(windows[1][0], windows[1][1], earlier[1][1], length, reads=False, writes=True)
        self.step()
        self.executes += 1
        self.times |= dict.fromkeys(results, self.current | 1 << (self.executes - 1))

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
        for ref, length in found:
            cell = self.cell(ref, length)
            start = ref.offset - self.memory.cells[cell].offset
            self.accesses.append(SliceAccess(cell, start, start + length, reads, writes, path))
            bit = 1 << self.executes
            all_of, written = self.touched.get(self.memory.cells[cell].arena, (0, 0))
            unordered = ~(self.current | bit)
            if (all_of if writes else written) & unordered:
                self.dump.assumed["executes that do not await each other run in the order of the file"] = None
            self.touched[self.memory.cells[cell].arena] = all_of | bit, written | (bit if writes else 0)
            all_of, written = self.uses.get(cell, (0, 0))
            if (all_of if writes else written) & unordered & ~self.apart:
                self.unordered.add(cell)
            self.uses[cell] = all_of | bit, written | (bit if writes else 0)

    def whole(self, ref: _Reference, offset: str) -> tuple[_Reference, int]:
        """All of the slice or resource in which an offset lies that is no constant."""
        size = self.stated.get(ref.slice or "", 0)
        if ref.slice is None:
            size = self.memory.arenas[self.arenas[ref.resource]].capacity
            if size >= UINT64_END - 1 or any(of == ref.resource and part for of, part in self.cells):
                self.number(offset)  # refused
        return _Reference(ref.resource, ref.offset - ref.shift, ref.slice, 0), size

    def step(self) -> None:
        """The accesses since the last step are one step. spec: FP9.4, FP9.5"""
        accesses, self.accesses = self.accesses, []
        unordered, self.unordered = self.unordered, set()
        reads: list[int] = []
        writes: list[int] = []
        keeps: list[int] = []
        of: dict[int, list[SliceAccess]] = {}
        for access in accesses:
            of.setdefault(access.cell, []).append(access)
        for cell, found in of.items():
            is_race = len(found) > 1 and any(a.writes for a in found) and at_once(found, self.source)
            is_race = is_race or cell in unordered
            own: set[_Path] = set()
            is_fresh = self.memory.held(cell) is None
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
            self.memory.step(self.label, (DOMAIN, self.label), reads, writes, keeps)

    def at_once_with(self, cell: int) -> int:
        """A cell over another one, for what may be written while that is used."""
        c = self.memory.cells[cell]
        return self.memory.cell(f"{c.name} {LATE}", c.arena, c.offset, c.bytes)

    def awaited(self, refs: set[_Reference]) -> None:
        """What is handed on as of a point in time must not be written by what that does not wait for. spec: FP9.8"""
        for cell in [cell for ref in refs for cell in self.within(ref)]:
            if self.uses.get(cell, (0, 0))[1] & ~(self.host | self.apart):
                self.memory.step("await", (DOMAIN, "await"), [cell], [self.at_once_with(cell)])

    # Resources.

    def allocate(self, name: str, size: int) -> None:
        root = self.root(name)
        self.arenas[root] = self.memory.arena(self.dump.prefix + name.removeprefix("%"), size)
        self.references[name] = {_Reference(root, 0, None, 0)}

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
        self.references[name] = {_Reference(root, 0, None, 0)}

    def known(self, name: str) -> set[_Reference]:
        """What a name stands for; of a name that nothing here allocates, memory from elsewhere."""
        if name not in self.references:
            self.external_resource(name, 0, UINT64_END - 1)
        return self.references[name]

    def at(self, name: str, offset: str, before: str) -> set[_Reference]:
        """A byte further on in a resource."""
        value = self.number(offset)
        found = set()
        before, shift = self.parts.get(before, (before, 0))
        for ref in self.known(name):
            is_named = before in self.slices or (not self.has_both and ref.resource not in self.external)
            if is_named and ref.slice is not None and ref.shift + value:
                raise self.refuse(f"a slice in the slice {ref.slice}")
            if is_named and ref.slice is None:
                found.add(_Reference(ref.resource, ref.offset + value, before, shift))
            else:
                found.add(_Reference(ref.resource, ref.offset + value, ref.slice, ref.shift + value))
        self.source.spend(len(found))
        return found

    def cell(self, ref: _Reference, length: int) -> int:
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

    def touch(self, what: str, refs: list[_Reference]) -> None:
        """Read what references point to, as far as anything has written it."""
        cells = [cell for ref in refs for cell in self.within(ref)]
        if cells:
            self.memory.step(what, (DOMAIN, what), cells, ())

    def within(self, ref: _Reference) -> list[int]:
        """The written cells that a reference to a resource or a slice stands for."""
        if ref.slice is not None:
            keys: list[tuple[str, str | None]] = [(ref.resource, ref.slice)]
        else:
            keys = [key for key in self.cells if key[0] == ref.resource]
            self.source.spend(len(self.cells))
        return [self.cells[key] for key in keys if key in self.cells and self.memory.held(self.cells[key]) is not None]

    def keep(self, names: list[str], *, is_read: bool) -> None:
        """Results: the caller reads them when the function is over. A buffer view that it gave keeps what it had.

        What is given to a call may be written there, and is read where it is written here. spec: FP9.3
        """
        for name in names:
            for ref in self.imported.get(name, ()):
                self.memory.keeps(self.within(ref))
            for ref in self.references.get(name, ()):
                cells = self.within(ref)
                if is_read and not cells and self.arenas[ref.resource] not in self.memory.empty:
                    cells = [self.cell(ref, 0)]
                self.memory.returns(cells)

    def free(self, text: str) -> None:
        """`stream.resource.dealloca … => %r`: nothing is left of its bytes. spec: FP9.7"""
        for name in SSA.findall(text.partition(":")[0]):
            for ref in self.known(name):
                if ref.resource in self.external:
                    continue
                arena = self.arenas[ref.resource]
                size = self.memory.arenas[arena].capacity
                label = f"{self.dump.prefix}{name.removeprefix('%')} after dealloca"
                self.memory.step("dealloca", (DOMAIN, "dealloca"), (), [self.memory.cell(label, arena, 0, size)])

    def number(self, name: str) -> int:
        """A constant. Refused where it is none, or none that a size can be."""
        value = self.constants.get(name)
        if value is None or not 0 <= value < UINT64_END:
            raise self.refuse(f"{name} is no constant from 0 on", "compile it for static shapes")
        return value

    def refuse(self, what: str, fix: str | None = None) -> Exception:
        return self.source.refuse(what, f"line {self.line}", fix)


def _names(text: str) -> list[str]:
    """The results that a line defines: `%3:2` are `%3#0` and `%3#1`; at most a few hundred."""
    found = []
    for item in text.split(", "):
        name, _, count = item.partition(":")
        many = int(count) if len(count) < 5 and count else 0
        found += [f"{name}#{k}" for k in range(many)] if many else [name]
    return found


def at_once(found: list[SliceAccess], source: Source) -> bool:
    """Whether bytes of one slice that one command writes are touched by another that may run at the same time.

    O(n log n) for n accesses, and more where many of them overlap.
    """
    ends: dict[bool, dict[_Path, int]] = {True: {}, False: {}}  # by whether they write, of what began before
    for a in sorted(found, key=lambda access: access.start):
        for writes in (True, False) if a.writes else (True,):
            going = ends[writes]
            source.spend(1 + len(going))
            for path in [path for path, end in going.items() if end <= a.start]:
                del going[path]
            if a.start < a.end and any(_apart(a.path, path) for path in going):
                return True
        ends[a.writes][a.path] = max(a.end, ends[a.writes].get(a.path, 0))
    return False


def _apart(a: _Path, b: _Path) -> bool:
    """Whether two commands stand in different parts of one concurrent region."""
    for (region, child), (other, sibling) in zip(a, b, strict=False):
        if region != other:
            return False
        if child != sibling:
            return True
    return False
