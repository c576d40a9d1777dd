"""A dump of XLA as plain lists, for the oracle of its reader: no line of code is shared with that.

The text is cut into tokens and taken apart from there. Whatever is left over is a `SyntaxError`, so that a dump with
anything more in it is not mistaken for the one without.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|/\*.*?\*/|//.*|[\w.%\-]*[\w.%]|->|<=|\.\.\.|\S')
FORGOTTEN = {
    "metadata", "sharding", "backend_config", "frontend_attributes", "statistics", "origin", "original_value",
    "parameter_replication",
}  # fmt: skip
BITS = {"pred": 8, "token": 0, "c64": 64, "c128": 128}


@dataclass(frozen=True)
class Array:
    """An array: its element type and bits, dimensions, and their order in memory, the fastest first."""

    dtype: str
    bits: int
    dims: tuple[int, ...]
    minor: tuple[int, ...]

    @property
    def count(self) -> int:
        found = 1
        for n in self.dims:
            found *= n
        return found

    @property
    def bytes(self) -> int:
        return (self.count * self.bits + 7) // 8


Shape = dict[tuple[int, ...], Array | None]
"""The arrays of a shape by their places in it; None at the place of a tuple."""


@dataclass
class Row:
    """An instruction."""

    name: str
    shape: Shape
    op: str
    operands: list[str]
    attributes: dict[str, list[str]]
    literal: list[str]
    is_root: bool


def number_of(row: Row) -> str:
    """The number of a parameter, or of a constant that is one."""
    array = row.shape.get(())
    return "".join(row.literal) if row.op == "parameter" or (array is not None and not array.dims) else ""


@dataclass
class Program:
    """A module: what its title states, and its computations."""

    title: dict[str, list[str]]
    computations: dict[str, list[Row]] = field(default_factory=dict)
    entry: str = ""

    def statements(self) -> object:
        """All that it says of memory, to compare it with what another one says."""
        aliased = pairs(self.title.get("input_output_alias", []))
        donated = [of for _, of in pairs(self.title.get("buffer_donor", []), False)]
        rows = {
            name: [
                (
                    row.name, row.op, row.operands, row.is_root, number_of(row),
                    [(at, array and (array.dtype, array.dims, array.minor)) for at, array in row.shape.items()],
                    {k: "".join(v) for k, v in row.attributes.items() if k != "control-predecessors"},
                )
                for row in computation
            ]
            for name, computation in self.computations.items()
        }  # fmt: skip
        return sorted(aliased), sorted([*donated, *(of for _, of in aliased)]), self.entry, rows


@dataclass
class Buffers:
    """An assignment: bytes and kind of each allocation, and allocation, offset and bytes of each value."""

    sizes: dict[int, int] = field(default_factory=dict)
    kinds: dict[int, str] = field(default_factory=dict)
    values: dict[tuple[str, tuple[int, ...]], tuple[int, int, int]] = field(default_factory=dict)


class Tokens:
    """The tokens of a line, from the left to the right."""

    def __init__(self, text: str) -> None:
        self.left = [t for t in TOKEN.findall(text) if not t.startswith(("/*", "//"))]

    def peek(self, k: int = 0) -> str:
        return self.left[k] if k < len(self.left) else ""

    def pop(self) -> str:
        if not self.left:
            raise SyntaxError("the line ends")
        return self.left.pop(0)

    def want(self, *tokens: str) -> None:
        for token in tokens:
            if (got := self.pop()) != token:
                raise SyntaxError(f"expected {token}, got {got}")

    def group(self) -> list[str]:
        """A bracket and all that is in it."""
        found, closing = [], []
        while True:
            token = self.pop()
            found.append(token)
            if token in ("(", "[", "{"):
                closing.append({"(": ")", "[": "]", "{": "}"}[token])
            elif token in (")", "]", "}") and token != closing.pop():
                raise SyntaxError("a bracket that is not closed")
            if not closing:
                return found

    def shape(self, at: tuple[int, ...] = ()) -> Shape:
        if self.peek() == "(":
            self.pop()
            found: Shape = {at: None}
            k = 0
            while self.peek() != ")":
                found |= self.shape((*at, k))
                k += 1
                if self.peek() != ")":
                    self.want(",")
            self.pop()
            return found
        dtype = self.pop()
        width = re.search(r"\d+", dtype)
        bits = BITS[dtype] if dtype in BITS else int(width[0]) if width else 0
        inside = [t for t in self.group()[1:-1] if t not in (",", "<=")]
        dims = tuple(int(t) for t in inside)
        minor = tuple(reversed(range(len(dims))))
        if self.peek() == "{" and (self.peek(1).isdigit() or self.peek(1) == ":" or self.peek(1) == "}"):
            layout = self.group()[1:-1]
            end = layout.index(":") if ":" in layout else len(layout)
            minor = tuple(int(t) for t in layout[:end] if t != ",")
            if "E" in layout:
                bits = int(layout[layout.index("E") + 2])
            elif bits and bits < 8:
                bits = 8
        return {at: Array(dtype, max(bits, 8) if dtype != "token" and bits < 8 else bits, dims, minor)}

    def attributes(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        while self.left:
            self.want(",")
            name = self.pop()
            self.want("=")
            value: list[str] = []
            while self.left and self.peek() != ",":
                value += self.group() if self.peek() in ("(", "[", "{") else [self.pop()]
            if not value or name in found:
                raise SyntaxError(f"no value of {name}, or two")
            if any(a == "=" for a in value[1:] if value[0] != "{" and value[0] != "["):
                raise SyntaxError(f"{name} has more than a value")
            found[name] = value
        return {name: value for name, value in found.items() if name not in FORGOTTEN}


def program(text: str) -> Program:
    """Read the module of a dump."""
    lines = [line for line in text.split("\n") if line.strip()]
    head = Tokens(lines[0])
    head.want("HloModule")
    head.pop()
    found = Program(head.attributes())
    rows: list[Row] | None = None
    is_table = False
    for line in lines[1:]:
        tokens = Tokens(line)
        if rows is not None and tokens.peek() == "}":
            tokens.pop()
            tokens.attributes()
            rows = None
        elif rows is not None:
            rows.append(_row(tokens))
        elif len(tokens.left) == 1 and tokens.peek().isalpha():
            is_table = True
        elif is_table and not found.computations and tokens.peek().isdigit():
            continue
        else:
            is_entry = tokens.peek() == "ENTRY"
            if is_entry:
                tokens.pop()
            name = tokens.pop().lstrip("%")
            if tokens.peek() == "(":
                tokens.group()
                tokens.want("->")
                tokens.shape()
            tokens.want("{")
            if tokens.left or name in found.computations:
                raise SyntaxError(line)
            rows = found.computations[name] = []
            found.entry = name if is_entry else found.entry
    return found


def _row(tokens: Tokens) -> Row:
    is_root = tokens.peek() == "ROOT"
    if is_root:
        tokens.pop()
    name = tokens.pop().lstrip("%")
    tokens.want("=")
    shape = tokens.shape()
    op = tokens.pop()
    inside = tokens.group()[1:-1]
    operands: list[str] = []
    if op not in ("constant", "parameter"):
        rest = Tokens("")
        rest.left = inside
        while rest.left:
            if rest.peek() == "(" or rest.peek(1) == "[":
                rest.shape()
            operands.append(rest.pop().lstrip("%"))
            if rest.left:
                rest.want(",")
    literal = inside if op in ("constant", "parameter") else []
    return Row(name, shape, op, operands, tokens.attributes(), literal, is_root)


def pairs(tokens: list[str], is_aliased: bool = True) -> list[tuple[tuple[int, ...], tuple[int, tuple[int, ...]]]]:
    """`{OUT}: (NUMBER, {INDEX}, …)` or `(NUMBER, {INDEX})`, again and again, in braces."""
    found: list[tuple[tuple[int, ...], tuple[int, tuple[int, ...]]]] = []
    left = tokens[1:-1]

    def index() -> tuple[int, ...]:
        end = left.index("}")
        got = tuple(int(t) for t in left[1:end] if t != ",")
        del left[: end + 1]
        return got

    while left:
        out = index() if is_aliased else ()
        left[: 2 if is_aliased else 1] = []
        k = int(left.pop(0))
        left.pop(0)
        at = index()
        found.append((out, (k, at)))
        del left[: left.index(")") + 1]
        if left:
            left.pop(0)
    return found


VALUE = re.compile(r" value: <\d+ ([\w.\-]+)(?:\{([\d,]*)\})?(?: \(\w+\))? @\d+> \(size=(\d+),offset=(\d+)\): \S.*")


def buffers(text: str) -> Buffers:
    """Read the assignment of a dump."""
    found, number = Buffers(), -1
    for line in text.split("\n")[1:]:
        if allocation := re.match(r"allocation (\d+): (?:0x\w+, )?size (\d+)(.*):$", line):
            number = int(allocation[1])
            found.sizes[number], found.kinds[number] = int(allocation[2]), allocation[3]
        elif value := VALUE.fullmatch(line):
            at = tuple(int(n) for n in (value[2] or "").split(",") if n)
            if (value[1], at) in found.values:
                raise SyntaxError(line)
            found.values[value[1], at] = number, int(value[4]), int(value[3])
        elif line.startswith("Total bytes used"):
            break
        elif line.strip():
            raise SyntaxError(line)
    return found
