"""HLO as text, a scheduled module as XLA dumps it: computations, and their instructions in execution order.

What is read of an instruction is its name, the shape of its result, its operation and operands, and of the attributes
those that name computations or an element of a tuple. Each character is looked at a fixed number of times.
spec: FP4.1, FP4.2
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from proofs.readers.plans.foreign_plan import elements_of
from tmmu.core.source import Source
from tmmu.core.vocabulary import UINT64_END

TYPES = {
    "pred": "bool", "s2": "int2", "s4": "int4", "s8": "int8", "s16": "int16", "s32": "int32", "s64": "int64",
    "u2": "uint2", "u4": "uint4", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "f16": "float16",
    "bf16": "bfloat16", "f32": "float32", "f64": "float64", "c64": "complex64", "c128": "complex128",
    "f8e5m2": "float8e5m2", "f8e5m2fnuz": "float8e5m2fnuz", "f8e4m3fn": "float8e4m3fn",
    "f8e4m3fnuz": "float8e4m3fnuz", "f8e8m0fnu": "float8e8m0", "f8e4m3": "uint8", "f8e3m4": "uint8",
    "f8e4m3b11fnuz": "uint8", "f4e2m1fn": "float4e2m1", "s1": "uint8", "u1": "uint8",
}  # fmt: skip
"""Element types by their names in HLO; types that plans have no name for as bytes of the same width."""
WIDTHS = {
    **dict.fromkeys(("pred", "s1", "u1", "s2", "u2", "s4", "u4", "f4e2m1fn", "s8", "u8"), 8),
    **{name: 8 for name in TYPES if name.startswith("f8")},
    **dict.fromkeys(("s16", "u16", "f16", "bf16"), 16), **dict.fromkeys(("s32", "u32", "f32"), 32),
    **dict.fromkeys(("s64", "u64", "f64", "c64"), 64), "c128": 128,
}  # fmt: skip
"""Bits of an element; one narrower than a byte takes a byte where its layout states no width (`E(4)`)."""

Index = tuple[int, ...]

COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) .*\{$")
INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = ")
OPCODE = re.compile(r" ([a-z][\w\-]*)\(")
ARRAY = re.compile(r"([a-z]\w*)\[([^\]]*)\](?:\{([^}]*)\})?")
NAME = re.compile(r"%([\w.\-]+)")
PIECE = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|$)|[(){}]|[^"(){}]++', re.DOTALL)
"""What stands in quotes, which may not end, a bracket, or what has neither."""
PAIR = re.compile(r"(?:\{([\d,\s]*)\}:\s*)?\(\s*(\d+),\s*\{([\d,\s]*)\}")
WIDTH = re.compile(r"E\((\d+)\)")


class Leaf(NamedTuple):
    """The shape of an array, or the table of a tuple (`dtype` empty): its place in the result, and its bytes."""

    at: Index
    dtype: str
    bytes: int


class Instruction(NamedTuple):
    """An instruction. `called` are the computations that it names, by attribute; `number` is what stands in brackets
    for a parameter, and `index=` for an element of a tuple.
    """

    name: str
    shape: tuple[Leaf, ...]
    op: str
    operands: tuple[str, ...]
    called: dict[str, tuple[str, ...]]
    number: int
    line: int


@dataclass
class Computation:
    """A computation: its instructions in order, and which is the root."""

    name: str
    line: int
    instructions: list[Instruction] = field(default_factory=list)
    root: str = ""

    def parameters(self) -> dict[int, Instruction]:
        """The parameters by number."""
        return {each.number: each for each in self.instructions if each.op == "parameter"}


Parameter = tuple[int, Index]


@dataclass
class HloModule:
    """A module: its computations by name, the entry, and the parameters that the caller gives up.

    `donated` are those, number and index; `aliased` has for places in the result the one whose bytes it takes.
    """

    computations: dict[str, Computation]
    entry: str
    donated: list[Parameter]
    aliased: dict[Index, Parameter]


CALLS = ("to_apply", "calls", "body", "condition", "branch_computations", "true_computation", "false_computation")
"""The attributes that name computations."""
WITH_ATTRIBUTES = ("get-tuple-element", "while", "conditional", "call", "fusion", "async-start", "async-update")


def parse(source: Source) -> HloModule:
    """The module of a dump. Raises INVALID_PLAN with file and line. O(bytes)."""
    lines = source.text().split("\n")
    if not lines[0].startswith("HloModule "):
        raise source.refuse("expected HloModule in the first line", "line 1", "give XLA's dump as text")
    if "is_scheduled=true" not in lines[0]:
        raise source.refuse("the module is not scheduled", "line 1", "use the dump after optimizations")
    return _Parsing(source).module(lines)


class _Parsing:
    def __init__(self, source: Source) -> None:
        self.source, self.line = source, 1
        self.names: set[str] = set()

    def module(self, lines: list[str]) -> HloModule:
        found: dict[str, Computation] = {}
        entry, current = "", None
        for self.line, text in enumerate(lines[1:], 2):
            self.source.spend(4 + len(text) // 4, f"line {self.line}")
            if current is None:
                # Tables of file names and stack frames stand between the title and the first computation.
                if head := COMPUTATION.match(text):
                    if head[2] in found or (head[1] and entry):
                        raise self.refuse(f"computation {head[2]} twice, or a second entry")
                    current = found[head[2]] = Computation(head[2], self.line)
                    entry = head[2] if head[1] else entry
            elif text.startswith("}"):
                if not current.root:
                    raise self.refuse(f"computation {current.name} has no root")
                current = None
            elif text.strip():
                self.instruction(current, text)
        if current is not None or not entry:
            raise self.refuse("the module ends before its entry does", "the dump is not whole")
        aliased = {out: parameter for out, parameter in self.pairs(lines[0], "input_output_alias={") if out is not None}
        donors = [parameter for _, parameter in self.pairs(lines[0], "buffer_donor={")]
        return HloModule(found, entry, [*aliased.values(), *donors], aliased)

    def pairs(self, title: str, word: str) -> list[tuple[Index | None, Parameter]]:
        """`{OUT}: (NUMBER, {INDEX}, …)`, or without what is before the colon, of the title line. spec: FP4.8"""
        at, depth, end = title.find(word), 0, 0
        if at < 0:
            return []
        for piece in PIECE.finditer(title, at + len(word) - 1):
            depth += {"{": 1, "}": -1}.get(piece[0], 0)
            if depth == 0:
                end = piece.end()
                break
        found = (pair.groups() for pair in PAIR.finditer(title, at, end))
        return [
            (None if out is None else self.index(out), (self.number(number), self.index(index)))
            for out, number, index in found
        ]

    def index(self, text: str) -> Index:
        return tuple(self.number(word) for word in text.split(",") if word.strip())

    def instruction(self, computation: Computation, text: str) -> None:
        head = INSTRUCTION.match(text)
        if head is None:
            raise self.refuse("expected %NAME = SHAPE OPERATION(…)")
        name = head[2]
        if name in self.names:
            raise self.refuse(f"instruction {name} twice")
        self.names.add(name)
        shape, end = self.shape(text, head.end())
        found = OPCODE.match(text, end)
        if found is None:
            raise self.refuse(f"expected an operation after the shape of {name}")
        op, number = found[1], 0
        operands: tuple[str, ...] = ()
        inner, end = self.brackets(text, found.end() - 1)
        if op == "parameter":
            number = self.number(inner)
        elif op != "constant":
            operands = tuple(NAME.findall(inner)) or tuple(word.strip() for word in inner.split(",") if word.strip())
        called: dict[str, tuple[str, ...]] = {}
        if op in WITH_ATTRIBUTES or op.endswith("-start"):
            for key, value in self.attributes(text, end):
                if key in CALLS:
                    called[key] = tuple(NAME.findall(value)) or tuple(w.strip() for w in value.strip("{}").split(","))
                elif key == "index" and op == "get-tuple-element":
                    number = self.number(value)
        computation.instructions.append(Instruction(name, shape, op, operands, called, number, self.line))
        self.source.bound(len(self.names))
        if head[1]:
            if computation.root:
                raise self.refuse(f"computation {computation.name} has two roots")
            computation.root = name

    def brackets(self, text: str, at: int) -> tuple[str, int]:
        """What stands between the bracket at `at` and its end, and the place after that."""
        depth = 0
        for piece in PIECE.finditer(text, at):
            depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(piece[0], 0)
            if depth == 0:
                return text[at + 1 : piece.start()], piece.end()
        raise self.refuse("a bracket that is not closed")

    def attributes(self, text: str, at: int) -> list[tuple[str, str]]:
        """`key=value` after the operands, separated by commas outside of brackets."""
        found: list[tuple[str, str]] = []
        depth, part = 0, ""
        for piece in PIECE.finditer(text, at):
            here = piece[0]
            depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(here, 0)
            if depth or "," not in here or here.startswith('"'):
                part += here if not here.startswith('"') else ""
                continue
            first, *others = here.split(",")
            for done in (part + first, *others[:-1]):
                found.append(_pair(done))
            part = others[-1]
        return [*found, _pair(part)]

    def shape(self, text: str, at: int) -> tuple[tuple[Leaf, ...], int]:
        """A shape: an array, or a tuple in brackets, at any depth; the tables of tuples are leaves too."""
        found: list[Leaf] = []
        index: list[int] = []
        while True:
            while text.startswith("/*", at):  # the printer numbers long lists
                at = text.find("*/", at) + 2
                if at < 2:
                    raise self.refuse("a comment that is not closed")
            if text.startswith("(", at):
                self.source.descend(len(index), f"line {self.line}")
                found.append(Leaf(tuple(index), "", 0))
                index.append(0)
                at += 1
                if not text.startswith(")", at):
                    continue
            else:
                array = ARRAY.match(text, at)
                if array is None:
                    raise self.refuse("expected a shape")
                found.append(self.array(tuple(index), array[1], array[2], array[3] or ""))
                at = array.end()
            while index and text.startswith(")", at):
                index.pop()
                at += 1
            if not index:
                return tuple(found), at
            if not text.startswith(", ", at):
                raise self.refuse("a tuple's shape that is not closed")
            at += 2
            index[-1] += 1

    def array(self, index: Index, dtype: str, dims: str, layout: str) -> Leaf:
        """The bytes of an array: of a bounded dimension the most, padding by tiles left out. spec: FP4.3"""
        if dtype in ("token", "opaque"):
            return Leaf(index, dtype, 0)
        if dtype not in TYPES:
            raise self.refuse(f"the element type {dtype} is not known")
        stated_dims = filter(None, (d.strip() for d in dims.split(",")))
        count = elements_of(self.number(dim.removeprefix("<=")) for dim in stated_dims)
        stated = WIDTH.search(layout)
        bits = self.number(stated[1]) if stated else WIDTHS[dtype]
        size = (count * bits + 7) // 8
        if size >= UINT64_END:
            raise self.refuse("an array beyond 64 bits")
        return Leaf(index, dtype, size)

    def number(self, text: str) -> int:
        text = text.strip()
        if not (text.isascii() and text.isdigit() and len(text) <= 19):
            raise self.refuse(f"expected a number, got {text[:40]!r}")
        return int(text)

    def refuse(self, what: str, fix: str | None = None) -> Exception:
        return self.source.refuse(what, f"line {self.line}", fix)


def _pair(text: str) -> tuple[str, str]:
    key, _, value = text.strip().partition("=")
    return key.strip(), value.strip()
