"""Print and format everything that commands show, so that a name in it cannot act as more than a name.

File names and names in a file may be hostile: a line break in one begins a line that reads PROVED, an escape sequence
wipes the terminal, a bidirectional control reorders the text. Commands print by `print_lines`, `print_text` and
`tmmu.core.progress`, and write JSON by `format_json`; nothing else writes to a stream. spec: C1.9, C5.2, C5.3
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, redirect_stdout
from itertools import islice
from typing import Any, TextIO

from tmmu.core.vocabulary import UINT64_END

NOT_SHOWN = re.compile(r"[^\n\x20-\x7e]")
"""Characters that `format_json` checks: all that may be control characters."""


def escape_line(text: str) -> str:
    """Escape line breaks and other control characters, so that a name cannot pass for output. spec: RE3.8

    >>> print(escape_line("a name\\nPROVED b.cbor"))
    a name\\nPROVED b.cbor
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def format_size(count: int) -> str:
    """Format a number of bytes with its unit, to two decimals.

    >>> format_size(0), format_size(1536), format_size(3 << 30)
    ('0 B', '1.50 KiB', '3.00 GiB')
    """
    if count < 1024:
        return f"{count} B"
    units = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    power = min((count.bit_length() - 1) // 10, len(units))
    return f"{count / (1 << 10 * power):.2f} {units[power - 1]}"


def format_kib(count: int) -> str:
    """Return a number of bytes in KiB with two decimals, as in MiCo's table.

    >>> format_kib(2640), format_kib(0)
    ('2.58 KiB', '0.00 KiB')
    """
    return f"{count / 1024:.2f} KiB"


def list_names(names: Sequence[str], limit: int = 8) -> str:
    """Return the first names, joined by commas, and how many more there are.

    >>> list_names([str(k) for k in range(9)]), list_names("ab"), list_names("abc", 1)
    ('0, 1, 2, 3, 4, 5, 6, 7 and 1 more', 'a, b', 'a and 2 more')
    """
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more} more" if more > 0 else "")


UNITS = {"": 1, "B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}


def parse_size(text: str) -> int | None:
    """Parse a number of bytes such as 24GiB or 1048576; None for anything else, and from 2**64 on.

    >>> parse_size("24GiB"), parse_size("512"), parse_size("1.5GiB"), parse_size("-1")
    (25769803776, 512, None, None)
    """
    found = re.fullmatch(r"([0-9]{1,20})([KMGT]iB|B|)", text, re.IGNORECASE)
    size = int(found[1]) * UNITS[found[2].upper()] if found else UINT64_END
    return size if size < UINT64_END else None


def count_noun(count: int, noun: str, plural: str = "") -> str:
    """Format a number with its noun, in the plural unless it is 1.

    >>> count_noun(1, "slot"), count_noun(0, "slot"), count_noun(2, "batch", "batches")
    ('1 slot', '0 slots', '2 batches')
    """
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def align_rows(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows as lines, with each column as wide as its widest cell.

    >>> list(align_rows([["a", "bc"], ["def", "g"]]))
    ['a    bc', 'def  g']
    """
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, wide, strict=True)).rstrip()


ABOVE: list[Callable[[], AbstractContextManager[None]]] = []
"""Callbacks that wipe the bars shown while lines are printed above them."""

COLOURS = {
    "PROVED": 32, "IDENTICAL": 32, "REFUTED": 31, "CORRUPTED": 31, "ERROR": 31, "error:": 31, "UNKNOWN": 33,
}  # fmt: skip
"""The words that begin an answer, with their colours on a terminal."""


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal that can wipe a line."""
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def print_lines(*lines: str, err: bool = False) -> None:
    """Print lines, with control characters escaped; to the standard error if `err`.

    On a terminal a leading answer word is coloured, unless NO_COLOR is set. The lines are written at once, also where
    Python does not buffer: a reader that closes the pipe after a line, as `grep -q` does, has received them all.
    """
    stream = sys.stderr if err else sys.stdout
    is_coloured = is_terminal(stream) and not os.environ.get("NO_COLOR")
    with ExitStack() as stack:
        for hidden in ABOVE:
            stack.enter_context(hidden())
        printed = list(map(escape_line, lines))
        for k, line in enumerate(printed if is_coloured else ()):
            word, space, rest = line.partition(" ")
            if word in COLOURS:
                printed[k] = f"\x1b[{COLOURS[word]}m{word}\x1b[0m{space}{rest}"
        print("".join(f"{line}\n" for line in printed), end="", file=stream)
        if stream is not None:  # the command was started without it
            stream.flush()


def print_part(text: str) -> None:
    """Print a part of a text without a line break behind it; control characters except breaks and tabs are escaped."""
    stream = sys.stdout
    print("".join(c if c in "\n\t" else escape_line(c) for c in text), end="", file=stream)
    if stream is not None:
        stream.flush()


COMPARED = 10_000
"""The most names that an unknown name is compared with."""


def suggest_names(name: str, known: Iterable[str], otherwise: str) -> str:
    """Suggest known names similar to an unknown one, as a question; returns `otherwise` if none is similar. spec: C5.5

    >>> suggest_names("gtp2", ["gpt2", "unet"], "--list prints the names")
    'did you mean gpt2?'
    """
    import difflib

    near = difflib.get_close_matches(name, list(islice(known, COMPARED)), 3, 0.5)
    return f"did you mean {', '.join(near)}?" if near else otherwise


STANDARD = "-"
"""The name of the standard output among names of files."""
_taken: list[TextIO] = []


@contextmanager
def take_standard_output() -> Iterator[None]:
    """Keep the standard output for the bytes of a file: lines printed meanwhile go to the standard error."""
    _taken.append(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _taken.pop()


def is_taken() -> bool:
    """Return whether the standard output is kept for the bytes of a file."""
    return bool(_taken)


def write_bytes(data: bytes) -> None:
    """Write the bytes for which the standard output was kept."""
    stream = _taken[-1]
    stream.flush()
    stream.buffer.write(data)
    stream.buffer.flush()


def print_text(text: str) -> None:
    """Print a text of several lines whose format escapes names: JSON, CSV, XML, text plans."""
    print_lines(*text.split("\n"))


FORMULA = ("=", "+", "-", "@")
"""The first characters of a text that a spreadsheet would evaluate."""


def escape_cell(value: Any) -> Any:
    """Format an entry for CSV: without control characters, and never a formula for a spreadsheet. spec: C2.8

    >>> escape_cell("a\\nb"), escape_cell("=A1"), escape_cell(["@x", "y"]), escape_cell(-1)
    ('a\\\\nb', "'=A1", "'@x y", -1)
    """
    text = " ".join(value) if isinstance(value, list) else value
    if not isinstance(text, str):
        return text
    return escape_line(f"'{text}" if text.startswith(FORMULA) else text)


def format_json(value: Any, indent: int | None = 1) -> str:
    """Format JSON with names in their own script, and every control character (C1 and bidirectional ones too) escaped.

    >>> print(format_json({"größe": "a\\u202eb\\x9b"}, indent=None))
    {"größe": "a\\u202eb\\u009b"}
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return NOT_SHOWN.sub(lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], text)
