"""Shapes and expressions of dimensions as text, exactly: `1xseqx64`, `(2*seq+1)x4`, `scalar`.

A dimension of a shape is an integer, a name without an `x`, a JSON string that is a name, or an expression in
parentheses. Written text is read as the same expression. A dimension of more than `LONGEST` characters is refused, and
so is a file whose expressions take more work than a table of terms may (`tmmu.core.dims.table`). spec: X3.3, R6.1
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from tmmu.core.dims.expressions import Atom, Dim, Expression, Symbol, Unwieldy, bounds_of, symbol, terms_of
from tmmu.core.dims.operations import maximum_of, minimum_of, quotient
from tmmu.core.dims.table import WORK

UINT64_END = 1 << 64
LONGEST = 4096
"""The most characters of one dimension that are written."""
DEEPEST = 128
"""The deepest nesting of parentheses."""
SCALAR = "scalar"
TOKEN = re.compile(r'(?P<number>\d+)|(?P<name>[^\W\d]\w*)|(?P<string>"(?:[^"\\]|\\.)*+")|(?P<sign>//|[-+*(),])')
PLAIN = re.compile(r"[^\W\dx][^\Wx]*")
BARE = re.compile(r"[^\W\d]\w*")
CALLS = {"min": minimum_of, "max": maximum_of}


def format_shape(shape: tuple[Dim, ...]) -> str:
    """Format a shape; raises Unwieldy if a dimension is too long. spec: X3.3"""
    return "x".join(map(_dim_text, shape)) or SCALAR


def _dim_text(dim: Dim) -> str:
    if not isinstance(dim, Expression):
        return str(dim)
    parts: list[str] = []
    length = 0
    for part in _sum(dim):
        length += len(part)
        if length > LONGEST:
            raise Unwieldy(f"a dimension of more than {LONGEST} characters")
        parts.append(part)
    text = "".join(parts)
    found = TOKEN.fullmatch(text)
    return text if PLAIN.fullmatch(text) or (found is not None and found.lastgroup == "string") else f"({text})"


def _sum(value: Dim) -> Iterator[str]:
    if not terms_of(value):
        yield "0"
    for k, (monomial, factor) in enumerate(terms_of(value)):
        if factor < 0:
            yield "-"
        elif k:
            yield "+"
        atoms = [atom for atom, power in monomial for _ in range(power)]
        if abs(factor) != 1 or not atoms:
            yield str(abs(factor))
            yield "*" if atoms else ""
        for i, atom in enumerate(atoms):
            yield "*" if i else ""
            yield from _atom(atom)


def _atom(atom: Atom) -> Iterator[str]:
    if isinstance(atom, Symbol):
        plain = BARE.fullmatch(atom.name) and atom.name not in CALLS
        yield atom.name if plain else json.dumps(atom.name)
        return
    yield "((" if atom.op == "div" else f"{atom.op}("
    yield from _sum(atom.left)
    yield ")//(" if atom.op == "div" else ","
    yield from _sum(atom.right)
    yield "))" if atom.op == "div" else ")"


class Shapes:
    """A reader of shapes over named dimensions; equal texts are read once, and `WORK` bounds all that are read."""

    def __init__(self, ranges: Mapping[str, tuple[int, int]]) -> None:
        self._dims = {name: symbol(name, *ends) for name, ends in ranges.items()}
        self._known: dict[str, tuple[Dim, ...]] = {SCALAR: ()}
        self._work = 0

    def read(self, text: str, most: int) -> tuple[Dim, ...]:
        """Parse a shape of at most `most` dimensions. ValueError or Unwieldy names the error. O(characters)."""
        if text not in self._known:
            self._known[text] = self._read(text, most)
        return self._known[text]

    def _read(self, text: str, most: int) -> tuple[Dim, ...]:
        shape: list[Dim] = []
        at = 0
        while True:
            if len(shape) == most:
                raise ValueError(f"more than {most} dimensions")
            if text.startswith("(", at):
                reading = _Parser(self, text, at)
                shape.append(reading.factor(0))
                at = reading.at
                if bounds_of(shape[-1]).high >= UINT64_END:
                    raise ValueError("a dimension may be 2^64 or more")
            elif (found := PLAIN.match(text, at)) is not None:
                shape.append(self.dim(found[0]))
                at = found.end()
            elif (found := TOKEN.match(text, at)) is not None and found.lastgroup in ("number", "string"):
                number = found.lastgroup == "number"
                shape.append(_number(found[0]) if number else self.dim(_string(found[0])))
                at = found.end()
            else:
                raise ValueError(f"expected sizes with x between them, as in 1x64, or {SCALAR}; got {text[at:][:20]!r}")
            if at == len(text):
                return tuple(shape)
            if text[at] != "x":
                raise ValueError(f"expected an x between sizes, got {text[at:][:20]!r}")
            at += 1

    def dim(self, name: str) -> Dim:
        """Return the dimension of this name; ValueError if there is none."""
        if name not in self._dims:
            hint = "state its range with dim; a name with an x in it is written as a JSON string"
            raise ValueError(f"no dimension {name!r}: {hint}")
        return self._dims[name]

    def together(self, op: str, left: Dim, right: Dim) -> Dim:
        """Combine two expressions; ValueError beyond the work that a file may take."""
        self._work += len(terms_of(left)) * len(terms_of(right))
        if self._work > WORK:
            raise ValueError("the expressions of the file take too much work")
        if op == "+":
            return left + right
        if op == "-":
            return left - right
        if op == "*":
            return left * right
        return quotient(left, right) if op == "//" else CALLS[op](left, right)


def _number(text: str) -> int:
    # The number of digits is checked first: Python refuses to read thousands of them.
    if not text.isascii() or len(text) > 20 or int(text) >= UINT64_END:
        raise ValueError(f"expected a size below 2^64, got {text[:24]!r}")
    return int(text)


def _string(text: str) -> str:
    found: str = json.loads(text)
    return found


class _Parser:
    """One expression, parsed by recursive descent with bounded depth."""

    def __init__(self, shapes: Shapes, text: str, at: int) -> None:
        self.shapes, self.text, self.at = shapes, text, at

    def sign(self, *signs: str) -> str | None:
        """Take the next sign if it is one of these; None otherwise."""
        found = TOKEN.match(self.text, self.at)
        if found is None or found[0] not in signs:
            return None
        self.at = found.end()
        return found[0]

    def expect(self, sign: str) -> None:
        if self.sign(sign) is None:
            raise ValueError(f"expected {sign} in an expression, got {self.text[self.at :][:20]!r}")

    def sum(self, depth: int) -> Dim:
        total: Dim = 0
        sign = self.sign("-") or "+"
        while True:
            total = self.shapes.together(sign, total, self.product(depth))
            following = self.sign("+", "-")
            if following is None:
                return total
            sign = following

    def product(self, depth: int) -> Dim:
        result = self.factor(depth)
        while (sign := self.sign("*", "//")) is not None:
            result = self.shapes.together(sign, result, self.factor(depth))
        return result

    def factor(self, depth: int) -> Dim:
        if depth > DEEPEST:
            raise ValueError(f"an expression nests deeper than {DEEPEST} parentheses")
        if self.sign("("):
            result = self.sum(depth + 1)
            self.expect(")")
            return result
        found = TOKEN.match(self.text, self.at)
        if found is None or found.lastgroup == "sign":
            raise ValueError(f"expected a dimension in an expression, got {self.text[self.at :][:20]!r}")
        self.at = found.end()
        if found.lastgroup == "number":
            return _number(found[0])
        if found.lastgroup == "string":
            return self.shapes.dim(_string(found[0]))
        if found[0] not in CALLS:
            return self.shapes.dim(found[0])
        self.expect("(")
        left = self.sum(depth + 1)
        self.expect(",")
        right = self.sum(depth + 1)
        self.expect(")")
        return self.shapes.together(found[0], left, right)
