"""The constants of the C: weights, and values known at generation, as literals or as one file.

Up to `LITERALS` bytes are C arrays. A compiler would need gigabytes of memory for more, so they are a file that the
assembler includes unchanged (`.incbin`). spec: MC5.1, MC5.2
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from string import Template
from typing import NamedTuple

import numpy as np

from tmmu.core.dtypes import nbytes
from tmmu.mico.identifiers import Identifiers, comment
from tmmu.mico.kernels.node import Array, StoredWeight
from tmmu.mico.names import PLAIN, CNames

LITERALS = 1 << 20
"""The most bytes that are written as literals."""

ALIGNMENT = 16
"""The alignment of each array in the file."""

TYPES = {
    "float32": "float", "float64": "double", "bool": "uint8_t", "float16": "uint16_t", "bfloat16": "uint16_t",
}  # fmt: skip


class Constant(NamedTuple):
    """An array: its macro, its name for people, its shape and type, and the function that reads its elements."""

    code: str
    data: str
    """The name of the array of its literals."""
    name: str
    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], Array]

    @property
    def bytes(self) -> int:
        """The bytes of the array."""
        return nbytes(self.shape, self.dtype)


class Constants:
    """Every array that the C may read. With `by_content`, equal weights are stored once, whatever their names."""

    def __init__(self, names: CNames = PLAIN, *, by_content: bool = False) -> None:
        self.names = names
        self._by_content = by_content
        self._words = Identifiers()
        self.all: dict[str, Constant] = {}
        self._of: dict[str | tuple[str, ...], str] = {}
        self._literals = 0

    def add(self, name: str, shape: tuple[int, ...], dtype: str, read: Callable[[], Array]) -> str:
        """Return the C expression of a weight; store it at the first call."""
        key = _content_key(read()) if self._by_content else name
        if key not in self._of:
            word, number = f"weight_{self._words.of(name)}", 1
            while self.names.inner(word) in self.all:  # another program's weight of this name
                number += 1
                word = f"weight_{self._words.of(f'{name} {number}')}"
            self._of[key] = self._store(word, name, shape, dtype, read)
        return self._of[key]

    def pack(self, weight: StoredWeight, order: str, arrange: Callable[[Array], Array]) -> str:
        """Return the C expression of a weight whose elements are in another order. spec: MC5.4"""

        def read() -> Array:
            return np.ascontiguousarray(arrange(weight.read()))

        array = read()
        key = _content_key(array) if self._by_content else (order, weight.name)
        if key not in self._of:
            word, number = f"weight_{self._words.of(f'{weight.name} {order}')}", 1
            while self.names.inner(word) in self.all:  # another program's weight of this name
                number += 1
                word = f"weight_{self._words.of(f'{weight.name} {order} {number}')}"
            self._of[key] = self._store(word, f"{weight.name}, {order}", array.shape, array.dtype.name, read)
        return self._of[key]

    def _store(self, word: str, name: str, shape: tuple[int, ...], dtype: str, read: Callable[[], Array]) -> str:
        code = self.names.inner(word)
        self.all[code] = Constant(code, self.names.inner(f"data_of_{word}"), name, shape, dtype, read)
        return code

    def literal(self, array: Array) -> str:
        """Return the C expression of a known value; equal values are stored once."""
        key = _content_key(array)
        if key not in self._of:
            kept = array.copy()
            word = f"constant_{self._literals}"
            self._of[key] = self._store(word, "a constant", array.shape, array.dtype.name, lambda: kept)
            self._literals += 1
        return self._of[key]


def _content_key(array: Array) -> tuple[str, ...]:
    """Return what equal arrays have in common."""
    return array.dtype.name, str(array.shape), hashlib.sha256(array.tobytes()).hexdigest()


def header(constants: list[Constant], as_file: bool, names: CNames) -> str:
    """Write the header of the constants: each is an expression of bytes."""
    guard, whole = names.guard("weights"), names.inner("weights")
    lines = [f"#ifndef {guard}", f"#define {guard}", "", "#include <stdint.h>", ""]
    if as_file and constants:
        lines += [f"extern const uint8_t {whole}[];", ""]
    for each, at in zip(constants, offsets(constants), strict=True):
        lines.append(f"/* {comment(each.name)}: {each.dtype} {list(each.shape)} */")
        if as_file:
            lines.append(f"#define {each.code} ({whole} + {at})")
        else:
            lines.append(f"extern const {_c_type(each)} {each.data}[{max(1, _count_elements(each))}];")
            lines.append(f"#define {each.code} ((const uint8_t *){each.data})")
    return "\n".join([*lines, "", "#endif", ""])


def source(constants: list[Constant], as_file: bool, names: CNames = PLAIN) -> str:
    """Write the source of the constants: literals, or a file that the assembler includes. spec: MC10.8"""
    lines = [f'#include "{names.file("weights.h")}"', ""]
    if not constants:
        return "\n".join([*lines[:1], ""])
    words = {
        "weights": names.inner("weights"), "bin": names.file("weights.bin"), "section": names.macro("WEIGHTS_SECTION"),
        "file": names.inner("weights_file").upper(),
    }  # fmt: skip
    if as_file:
        return "\n".join([*lines, Template(INCBIN).substitute(words)])
    lines += [Template(PLACED).substitute(words)]
    for each in constants:
        count = max(1, _count_elements(each))
        lines.append(f"PLACED const {_c_type(each)} {each.data}[{count}] = {{")
        row: list[str] = []
        for text in _write_literals(each):
            row.append(text)
            if len(row) == 8:
                lines.append(f"    {', '.join(row)},")
                row = []
        lines += [f"    {', '.join(row)},"] * bool(row) + ["};", ""]
    text = "\n".join(lines)
    return text.replace("\n", "\n\n#include <math.h>\n", 1) if "NAN" in text or "INFINITY" in text else text


PLACED = """\
/* The constants are read-only data, or in the section that $section names. */
#ifdef $section
#define PLACED __attribute__((section($section)))
#else
#define PLACED
#endif
"""

INCBIN = """\
#ifndef $file
#define $file "$bin"
#endif

#ifdef __APPLE__
#define SECTION ".const_data"
#define SYMBOL "_$weights"
#define AFTER ".text"
#else
#ifdef $section
#define SECTION ".section " $section ",\\"a\\""
#else
#define SECTION ".section .rodata"
#endif
#define SYMBOL "$weights"
#define AFTER ".previous"
#endif

__asm__(
    SECTION "\\n"
    ".balign 64\\n"
    ".globl " SYMBOL "\\n"
    SYMBOL ":\\n"
    ".incbin \\"" $file "\\"\\n"
    ".byte 0\\n"
    AFTER "\\n");
"""


def offsets(constants: list[Constant]) -> list[int]:
    """Return the first byte of each array in the file."""
    found, at = [], 0
    for each in constants:
        at += -at % ALIGNMENT
        found.append(at)
        at += each.bytes
    return found


def content(constants: list[Constant]) -> Iterator[bytes]:
    """Yield the bytes of the file, array by array."""
    at = 0
    for each, start in zip(constants, offsets(constants), strict=True):
        yield bytes(start - at)
        data = little_endian(each.read())
        yield data
        at = start + len(data)


def little_endian(array: Array) -> bytes:
    """Return the bytes of an array, little-endian, as the C reads them."""
    whole = np.ascontiguousarray(array)
    return whole.astype(whole.dtype.newbyteorder("<")).tobytes()


def _count_elements(each: Constant) -> int:
    return int(np.prod(each.shape, dtype=np.int64))


def _c_type(each: Constant) -> str:
    return TYPES.get(each.dtype, f"{each.dtype}_t")


def _write_literals(each: Constant) -> Iterator[str]:
    array = np.ascontiguousarray(each.read()).reshape(-1)
    if each.dtype in ("float32", "float64"):
        suffix = "F" if each.dtype == "float32" else ""
        for value in array:
            if np.isnan(value):
                yield "NAN"
            elif np.isinf(value):
                yield "INFINITY" if value > 0 else "-INFINITY"
            else:
                yield f"{value!s}{suffix}"
    else:
        words = array.view(np.uint16) if each.dtype in ("float16", "bfloat16") else array
        for number in words.tolist() or [0]:
            yield _write_integer(int(number), each.dtype)
    if not len(array) and each.dtype.startswith("float"):
        yield "0"


def _write_integer(number: int, dtype: str) -> str:
    if dtype == "uint64":
        return f"{number}ULL"
    if number == -(1 << 63):
        return "-9223372036854775807LL - 1"
    return f"{number}LL" if dtype == "int64" else str(number)
