"""Errors of the library: what commands call by flags, these name by the arguments of `tmmu.plan` and `tmmu.verify`.

spec: LIB2.5
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tmmu.core.errors import TmmuError

FLAG = re.compile(r"--(?P<flag>[a-z][a-z-]*)(?: (?P<value>(?:[^\s;,:()]|:(?=\S))+))?")
MAPPINGS = {"dim": "dims", "shape": "shapes", "value": "values", "fix": "fixed", "bytes": "shapes"}
"""The arguments that are mappings, by flag."""
SWITCHES = ("trust-shapes", "symbolic", "keep-inputs")
"""Flags without a value."""
WORDS = ("layout", "fallback", "mode", "order", "preset", "replan-policy", "solver")
"""Flags whose value is a word."""


def name_arguments(text: str) -> str:
    """Return a message with arguments in place of flags; a flag of a command alone stays.

    >>> name_arguments("bind it with --dim batch=N, or --trust-shapes")
    "bind it with dims={'batch': N}, or trust_shapes=True"
    """
    return FLAG.sub(_name_argument, text)


def _name_argument(found: re.Match[str]) -> str:
    flag, value = found["flag"], found["value"]
    rest = "" if value is None else f" {value}"
    if flag in SWITCHES:
        return f"{flag.replace('-', '_')}=True{rest}"
    if flag == "donate":
        return "donate" if value is None else f"donate=[{value!r}]"
    if flag in WORDS:
        return f"{flag.replace('-', '_')}={value!r}" if value else flag.replace("-", "_")
    if flag not in MAPPINGS:
        return found[0]
    argument = MAPPINGS[flag]
    if value is None:
        return argument
    name, is_given, size = value.rpartition("=")
    if not is_given:
        return f"{argument}[{value!r}]"
    return f"{argument}={{{name!r}: {_WRITE[flag](size)}}}"


def _write_shape(size: str) -> str:
    """Return a shape as an argument: a text with an element type, else a tuple."""
    return repr(size) if ":" in size else f"({size.replace('x', ', ')},)"


_WRITE: dict[str, Callable[[str], str]] = {
    "dim": lambda size: f"({size.replace('..', ', ').replace(':', ', ')})" if ".." in size else size,
    "shape": _write_shape, "bytes": lambda size: repr(f"bytes:{size}"), "value": str, "fix": str,
}  # fmt: skip


@contextmanager
def naming_arguments() -> Iterator[None]:
    """Let errors of the block name arguments instead of flags."""
    try:
        yield
    except TmmuError as error:
        error.what = name_arguments(error.what)
        error.place = error.place and name_arguments(error.place)
        error.fix = error.fix and name_arguments(error.fix)
        raise
