"""The lines of a function in IREE's dumps before and after `iree-stream-layout-slices`, and the values of its names.

Both dumps are the same program, line by line; names of values differ. A name means its latest definition above the
line. The two dumps define other numbers (constants, sums, the slices of a pack), so that these definitions are noted
with the next other line. spec: FP9.1, FP9.10
"""

from __future__ import annotations

import re
from typing import NamedTuple

from proofs.readers.plans.iree_lines import PACK as PACK_FORM
from proofs.readers.plans.iree_lines import check_line
from tmmu.core.source import Source
from tmmu.core.vocabulary import UINT64_END

MAX_LINE = 1 << 16
"""The longest line with a resource. Lines of constants are longer, and have no resource."""
SSA = re.compile(r"%[\w$.-]++(?:#\d++)?", re.ASCII)
CONSTANT = re.compile(r"\s*+(%[\w$.-]++) = arith\.constant (-?\d++) : \w++\s*+", re.ASCII)
SUM = re.compile(r"\s*+(%[\w$.-]++) = arith\.addi (%[\w$.#-]++), (%[\w$.#-]++) : index\s*+", re.ASCII)
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*+"(?!\()')
OPERATION = re.compile(
    r"(?<![\w!#@%$.\"])(?:(?:arith|cf|flow|func|hal|memref|scf|stream|tensor|util|vm)\.[a-z_]\w*+(?:\.\w++)*+|\"[\w.]++\"(?=\())"
    r"(?!\s*+=[^=]|\s*+:)", re.ASCII,
)  # fmt: skip
"""The name of an operation, which is neither a type, nor an attribute, nor the key of one."""
PACK = re.compile(r"\s*+(%[\w$.-]++)(?::\d++)? = (?=stream\.resource\.pack\b)", re.ASCII)
SLICE = re.compile(r"\s*+\[(\d++), (\d++)\] = (%[\w$.-]++(?:#\d++)?),?", re.ASCII)
RESULTS = re.compile(r"\s*+(%[\w$.-]++(?::\d++)?(?:, %[\w$.-]++(?::\d++)?)*+) = (.*+)", re.ASCII | re.DOTALL)


class Noted(NamedTuple):
    """A name that a line defines as a number.

    If `value` is an integer, it is that constant; if None, a slice of the size `base`; else the sum of two names.
    """

    name: str
    base: str
    value: int | str | None


class DumpLine(NamedTuple):
    """A line of a function that does not define a number, and the definitions before it."""

    number: int
    text: str
    noted: list[Noted]


class FunctionText:
    """The lines of a function, before and after the pass, and the numbers and slices that its names mean now.

    `pairs` has each line after the pass with the same line before it. For each line that opens a region, `ends` has the
    line that closes it.
    """

    def __init__(self, source: Source, after: tuple[int, str], before: tuple[int, str] | None) -> None:
        self.source = source
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
        self.ends = self.braces()

    def lines(self, text: str) -> list[DumpLine]:
        """Return the lines of a function. Sums, constants and packs are not lines, but noted with the next line."""
        found, noted, packing, at, is_constant = list[DumpLine](), list[Noted](), "", 0, False
        for number, line in enumerate(text.split("\n"), self.line):
            self.source.count_work(1 + len(line) // 64)
            if not line.strip() or line.lstrip().startswith("//"):
                continue
            if len(line) > MAX_LINE and "!stream." in line:
                raise self.source.refuse(f"a line of more than {MAX_LINE} characters", f"line {number}")
            if len(operations := OPERATION.findall(STRING.sub("", line))) > 1:
                what = f"{operations[0]} and {operations[1]} are on one line"
                raise self.source.refuse(what, f"line {number}", "print the dump again: it has one operation a line")
            constant, total = CONSTANT.fullmatch(line), SUM.fullmatch(line)
            pack = PACK.match(line)
            if constant is not None:
                noted.append(Noted(constant[1], "", int(constant[2]) if len(constant[2]) <= 20 else UINT64_END))
            elif total is not None:
                noted.append(Noted(total[1], total[2], total[3]))
            elif pack is not None and PACK_FORM.fullmatch(line, pack.end()):
                packing, at = pack[1], 0
            elif packing:
                part = SLICE.fullmatch(line)
                if part is not None:
                    at += 1
                    noted.append(Noted(f"{packing}#{at}", part[3], None))
                elif line.strip() == "}) : index":
                    packing = ""
                else:
                    raise self.source.refuse(f"a slice was expected, got {line.strip()[:60]!r}", f"line {number}")
            else:
                is_constant = check_line(self.source, line.strip(), number, not found, is_constant)
                found.append(DumpLine(number, line.strip(), noted))
                noted = []
                if line == "}":
                    break
        return found

    def define(self, line: DumpLine, constants: dict[str, int], slices: dict[str, str]) -> None:
        """Note the definitions before a line. Regions beside each other may define a name again: the last one counts.

        spec: FP9.1
        """
        for name, base, value in line.noted:
            self.source.count_work(1)
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
        for name in self.names(made[1]) if made is not None else ():
            self.forget(name, constants, slices)

    def forget(self, name: str, constants: dict[str, int], slices: dict[str, str]) -> None:
        """Forget the number or slice of a name, which means another value from now on."""
        constants.pop(name, None)
        if slices is self.slices:
            slices.pop(name, None)
            self.parts.pop(name, None)
            self.stated.pop(name, None)

    def braces(self) -> dict[int, int]:
        """Return, for each line that opens a region, the one that closes it."""
        opened, found = list[int](), dict[int, int]()
        for at, (line, _) in enumerate(self.pairs):
            self.line = line.number
            if line.text.startswith("}"):
                if not opened:
                    raise self.refuse("a brace closes nothing")
                found[opened.pop()] = at
            if line.text.endswith("{"):
                opened.append(at)
                self.source.check_depth(len(opened))
        if opened:
            raise self.source.truncated_error("the function does not end", f"line {self.line}")
        return found

    def names(self, text: str) -> list[str]:
        """Return the results that a line defines: `%3:2` are `%3#0` and `%3#1`."""
        found = []
        for item in text.split(", "):
            name, _, count = item.partition(":")
            many = int(count) if len(count) < 5 and count else 0
            self.source.count_work(1 + many)
            found += [f"{name}#{k}" for k in range(many)] if many else [name]
        return found

    def number(self, name: str) -> int:
        """Return the value of a constant. Refuse a name that is not a constant, or not a possible size."""
        value = self.constants.get(name)
        if value is None or not 0 <= value < UINT64_END:
            raise self.refuse(f"{name} is not a constant from 0 on", "compile it for static shapes")
        return value

    def refuse(self, what: str, fix: str | None = None, *, construct: str = "") -> Exception:
        """Return the error of this line."""
        return self.source.refuse(what, f"line {self.line}", fix, construct=construct)

    def unknown(self, op: str, fix: str | None = None) -> Exception:
        """Return the error of an operation that no table of the reader has. spec: FP1.18"""
        return self.refuse(f"{op} is not read", fix, construct=f"operation {op[:60]}")
