"""The words of HLO's text: a line from its first character to its last, shapes with layouts, literals and values.

A `HloLine` is read from left to right. Every character is consumed by a rule, or the line is refused. Blanks and
comments between words are the only characters without a meaning. Each rule is linear in the characters that it reads.

spec: FP2.2, FP4.2, FP4.3, FP4.12
"""

from __future__ import annotations

import re
from dataclasses import dataclass
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
"""Bits of an element; one narrower than a byte takes a byte unless its layout states a width (`E(4)`)."""
WITHOUT_BYTES = ("token", "opaque")
BOUNDED = "bounded"
"""A part of `tiling`: the array has a dimension whose size is known only at run time, up to a bound."""

Index = tuple[int, ...]

BLANK = re.compile(r"(?:\s+|/\*.*?\*/|//.*)*+", re.DOTALL | re.ASCII)
ARRAY = re.compile(r"([a-z]\w*)\[([^\]\[]*)\](\{[^{}]*\})?", re.ASCII)
DIMENSION = re.compile(r"(<=)?(\d{1,19})", re.ASCII)
LAYOUT = re.compile(
    r"\{([\d,]*)(?::(?:D\(((?:D[+~]*,?)*)\))?((?:T(?:\([\d,*]+\))+)?(?:L\(\d{1,9}\))?(?:#\(\w+\))?(?:\*\(\w+\))?)"
    r"(?:E\((\d{1,4})\))?(?:S\((-?\d{1,4})\))?((?:SC(?:\(\d+:[\d,]*\))+)?(?:M\(\d{1,9}\))?))?\}",
    re.ASCII,
)
"""A layout: dimensions from the minor one on, and the parts after the colon; sparse dimensions are not known."""
NAME = re.compile(r"%?([\w.\-]+)", re.ASCII)
WORD = re.compile(r"[\w.\-]+", re.ASCII)
PIECE = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|$)|[(){}\[\]]|[^"(){}\[\]]++', re.DOTALL | re.ASCII)
"""A quoted string, which may lack its end, a bracket, or text without either."""
PLAIN = re.compile(r'[^\s,(){}\[\]"]+', re.ASCII)
LITERAL = re.compile(
    r"\s+|/\*.*?\*/|(?P<open>\{)|(?P<close>\})|(?P<comma>,)|(?P<all>\.\.\.)|\((?P<complex>[^(),]+,[^(),]+)\)"
    r"|(?P<one>true|false|-?(?:nan(?:\(0x[0-9a-f]+\))?|inf|\d[\d.]*(?:e[+\-]?\d+)?))",
    re.DOTALL | re.ASCII,
)
BLANKS = " \t\r\v\f"
OPENING, CLOSING = "([{", ")]}"


class Leaf(NamedTuple):
    """The shape of an array, or the table of a tuple (`dtype` empty): its place in the result, and its bytes.

    `minor` are the dimensions from the fastest in memory to the slowest, row-major if the text states none. `tiling` is
    the text of a layout that is not linear, or pads: empty for plain arrays.
    """

    at: Index
    dtype: str
    bytes: int
    dims: tuple[int, ...] = ()
    minor: tuple[int, ...] = ()
    tiling: str = ""
    bits: int = 0

    def is_like(self, other: Leaf) -> bool:
        """Decide whether both have one element type and one list of dimensions; layouts may differ."""
        return (self.dtype, self.dims) == (other.dtype, other.dims)


Shape = tuple[Leaf, ...]


def is_like(one: Shape, other: Shape) -> bool:
    """Decide whether two shapes have the same arrays at the same places. O(leaves)."""
    return len(one) == len(other) and all(a.at == b.at and a.is_like(b) for a, b in zip(one, other, strict=True))


def part(shape: Shape, index: Index) -> Shape:
    """Return the shape of the part of a tuple at an index, its places counted from there."""
    return tuple(leaf._replace(at=leaf.at[len(index) :]) for leaf in shape if leaf.at[: len(index)] == index)


@dataclass
class HloLine:
    """A line of text, and how far it was read."""

    source: Source
    text: str
    number: int
    at: int = 0

    def refuse(self, what: str, fix: str | None = None, *, construct: str = "") -> Exception:
        """Return the error that names this line."""
        return self.source.refuse(what, f"line {self.number}", fix, construct=construct)

    def unknown(self, kind: str, name: str) -> Exception:
        """Return the error of a construct that no table of the reader has. spec: FP4.12"""
        fix = "spec/foreign.md lists what is read of XLA (FP4)"
        return self.refuse(f"unknown {kind} {name[:60]!r}", fix, construct=f"{kind} {name[:60]}")

    def skip(self) -> None:
        """Pass over blanks and comments."""
        found = BLANK.match(self.text, self.at)
        assert found is not None  # it may be empty
        self.at = found.end()

    def take(self, grammar: re.Pattern[str]) -> re.Match[str] | None:
        """Read what a grammar matches here, after blanks; None, and nothing is read, if it does not."""
        self.skip()
        found = grammar.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found

    def has(self, text: str) -> bool:
        """Read this text, if it is next."""
        self.skip()
        is_next = self.text.startswith(text, self.at)
        self.at += len(text) if is_next else 0
        return is_next

    def expect(self, text: str, what: str) -> None:
        """Read this text, which must be next."""
        if not self.has(text):
            raise self.refuse(f"expected {what}{self._found()}")

    def end(self) -> None:
        """Refuse a line with anything left."""
        self.skip()
        if self.at < len(self.text):
            raise self.refuse(f"expected the end of the line{self._found()}")

    def _found(self) -> str:
        left = self.text[self.at : self.at + 40]
        return f", got {left!r}" if left else ", the line ends"

    def name(self, what: str) -> str:
        """Read a name, with or without %."""
        found = self.take(NAME)
        if found is None:
            raise self.refuse(f"expected {what}{self._found()}")
        return found[1]

    def value(self) -> str:
        """Read the value of an attribute: a group in braces, or quotes, brackets, and text without blanks."""
        self.skip()
        start = self.at
        if self.text.startswith("{", start):
            self._group()
            return self.text[start : self.at]
        while self.at < len(self.text):
            if self.text[self.at] in OPENING:
                self._group()
            elif self.text[self.at] == '"':
                piece = PIECE.match(self.text, self.at)
                assert piece is not None  # a quote begins
                if len(piece[0]) < 2 or not piece[0].endswith('"'):
                    raise self.refuse("a quote that does not end")
                self.at = piece.end()
            elif found := PLAIN.match(self.text, self.at):
                self.at = found.end()
            else:
                break
        if self.at == start:
            raise self.refuse(f"expected a value{self._found()}")
        return self.text[start : self.at]

    def _group(self) -> None:
        """Read a bracket with everything up to the one that closes it."""
        wanted: list[str] = []
        for piece in PIECE.finditer(self.text, self.at):
            here = piece[0]
            if here in OPENING:
                wanted.append(CLOSING[OPENING.index(here)])
            elif here in CLOSING and here != wanted.pop():
                break
            if not wanted:
                self.at = piece.end()
                return
        raise self.refuse("a bracket that is not closed")

    def integer(self, text: str) -> int:
        """Return the number that a text is. Refuse a text that is not a number or has more than 19 digits."""
        text = text.strip(BLANKS)
        if not (text.isascii() and text.isdigit() and len(text) <= 19):
            raise self.refuse(f"expected a number, got {text[:40]!r}")
        return int(text)

    def index(self, text: str) -> Index:
        """Return a list of numbers as a place in a tuple."""
        return tuple(self.integer(word) for word in text.split(",")) if text.strip(BLANKS) else ()

    def shape(self) -> Shape:
        """Read a shape: an array, or a tuple in brackets, at any depth; the tables of tuples are leaves too."""
        found: list[Leaf] = []
        index: list[int] = []
        while True:
            if self.has("("):
                self.source.check_depth(len(index), f"line {self.number}")
                found.append(Leaf(tuple(index), "", 0))
                index.append(0)
                if not self.has(")"):
                    continue
                index.pop()
            else:
                array = self.take(ARRAY)
                if array is None:
                    raise self.refuse(f"expected a shape{self._found()}")
                found.append(self._array(tuple(index), array[1], array[2], array[3] or ""))
            while index and self.has(")"):
                index.pop()
            if not index:
                return tuple(found)
            self.expect(",", "a comma in the shape of a tuple")
            index[-1] += 1

    def _array(self, at: Index, dtype: str, stated: str, layout: str) -> Leaf:
        """Return an array. A bounded dimension has its most elements; padding by tiles is left out. spec: FP4.3"""
        if dtype in WITHOUT_BYTES and not stated:
            return Leaf(at, dtype, 0)
        if dtype not in TYPES:
            raise self.unknown("element type", dtype)
        dims = []
        for text in stated.split(",") if stated.strip(BLANKS) else ():
            dim = DIMENSION.fullmatch(text.strip(BLANKS))
            if dim is None:
                raise self.refuse(f"expected a dimension, got {text[:40]!r}")
            dims.append(int(dim[2]))
        minor, tiling, bits = self._layout(len(dims), layout, dtype)
        size = (elements_of(dims) * bits + 7) // 8
        if size >= UINT64_END:
            raise self.refuse("an array beyond 64 bits")
        tiling += BOUNDED if "<=" in stated else ""
        return Leaf(at, dtype, size, tuple(dims), minor, tiling, bits)

    def _layout(self, rank: int, layout: str, dtype: str) -> tuple[tuple[int, ...], str, int]:
        """Return the order of dimensions, the text of a tiling, and the bits of an element. spec: FP4.3, FP4.12"""
        if not layout:
            return tuple(reversed(range(rank))), "", WIDTHS[dtype]
        found = LAYOUT.fullmatch(layout)
        if found is None:
            raise self.unknown("layout", layout)
        minor = self.index(found[1])
        if sorted(minor) != list(range(rank)):
            raise self.refuse(f"the layout {layout} orders other dimensions than those of the shape")
        bits = int(found[4]) if found[4] and found[4] != "0" else WIDTHS[dtype]
        return minor, (found[3] or "") + (found[6] or ""), bits

    def literal(self, shape: Shape) -> str:
        """Read the value of a constant, and return its text if it is one number or truth value, else "".

        It must have all elements of the shape, or leave them out as `{...}`.
        """
        leaf = shape[0]
        if leaf.dtype == "" or leaf.dtype in WITHOUT_BYTES:
            raise self.refuse("expected a constant array")
        depth, count, last, first, is_whole = 0, 0, "comma", "", True
        while True:
            found = LITERAL.match(self.text, self.at)
            if found is None:
                break
            self.at = found.end()
            kind = found.lastgroup
            if kind is None:
                continue
            is_begun = kind in ("open", "one", "complex", "all")
            is_right = (last in ("comma", "open")) == is_begun if last != "open" or kind != "close" else True
            if not is_right or (kind == "comma" and depth == 0):
                raise self.refuse("expected a literal with commas between its elements")
            depth += (kind == "open") - (kind == "close")
            if depth < 0 or depth > len(leaf.dims) or (kind in ("one", "complex") and depth != len(leaf.dims)):
                raise self.refuse("the literal nests otherwise than its shape")
            count += kind in ("one", "complex")
            is_whole = is_whole and kind != "all"
            first = first or found[0] if kind == "one" else first
            last = kind
            if depth == 0 and kind != "comma":
                break
        if depth or last in ("comma", "open"):
            raise self.refuse(f"expected a literal{self._found()}")
        if is_whole and count != elements_of(leaf.dims):
            raise self.refuse(f"the literal has {count} elements, its shape {elements_of(leaf.dims)}")
        return first if not leaf.dims else ""
