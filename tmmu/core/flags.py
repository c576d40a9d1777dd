"""How the commands read bindings (--dim NAME=SIZE, --shape NAME=1x3x640x640, --value NAME=TEXT) and folders.

spec: C1.6, C4.3, C4.5, T10.7
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

import click

from tmmu.core.output import read_size
from tmmu.core.vocabulary import UINT64_END

existing = click.Path(exists=True, dir_okay=False)
"""A file that is there; click exits with 2 where it is not, or is a directory."""
PLAN_SUFFIXES = (".plan.cbor", ".plan.txt")
"""How the plans in a folder are known."""


class Plans(click.Path):
    """A plan, `-` for standard input, or a folder of plans: a list of files, those of a folder in the order of their
    names, at any depth. `is_plan` is asked of each of these.
    """

    def __init__(self, is_plan: Callable[[str], bool]) -> None:
        super().__init__(exists=True, allow_dash=True)
        self.is_plan = is_plan

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The files. Raises BadParameter for a folder without plans."""
        found = str(super().convert(value, param, ctx))
        if not os.path.isdir(found):
            return [found]
        plans = sorted(
            os.path.join(folder, name)
            for folder, _, names in os.walk(found)
            for name in names
            if self.is_plan(os.path.join(folder, name))
        )
        if not plans:
            self.fail(
                f"{found!r} has no file that ends with {' or '.join(PLAN_SUFFIXES)}, and no plan of another compiler",
                param,
                ctx,
            )
        return plans


class MemorySize(click.ParamType[int]):
    """A number of bytes, as in 24GiB."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number. Raises BadParameter for anything else."""
        found = value if isinstance(value, int) else read_size(value)
        return found or self.fail(f"{value!r} is not a number of bytes from 1; write it as in 24GiB", param, ctx)


class Folder(click.Path):
    """A folder that something is written into. It has a name, and can be made where it is not there.

    This is found out before the work begins, by a file without a name that is gone at once: nothing is made here.
    """

    def __init__(self, path_type: type | None = None) -> None:
        super().__init__(file_okay=False, path_type=path_type)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path as click gives it. Raises BadParameter where it is empty or cannot be written."""
        if not os.fspath(value):
            self.fail("the name of the folder is empty", param, ctx)
        found = super().convert(value, param, ctx)
        there = os.path.abspath(value)
        while not os.path.lexists(there):
            there = os.path.dirname(there)
        try:
            tempfile.TemporaryFile(dir=there).close()
        except OSError as error:
            self.fail(f"{os.fspath(value)} cannot be written ({error.strerror}): name another folder", param, ctx)
        return found


def parse_pairs(flag: str) -> Callable[[object, object, tuple[str, ...]], dict[str, str]]:
    """A click callback that turns repeated NAME=VALUE into a dictionary; the name may hold `=`, the value not."""

    def parse(_context: object, _parameter: object, given: tuple[str, ...]) -> dict[str, str]:
        pairs: dict[str, str] = {}
        for text in given:
            name, _, value = text.rpartition("=")  # without `=` there is no name
            if not name or not value:
                raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=flag)
            if pairs.setdefault(name, value) != value:
                raise click.BadParameter(f"{name!r} is bound twice", param_hint=flag)
        return pairs

    return parse


def _is_size(text: str) -> bool:
    # Python refuses to read thousands of digits, zeros before the number too, so how many there are is looked at first.
    return text.isascii() and text.isdigit() and len(text) <= 20 and int(text) < UINT64_END


def dims(pairs: dict[str, str]) -> tuple[dict[str, int], dict[str, tuple[int, int]]]:
    """The values of --dim: sizes, and ranges with both ends included (`seq=1..4096`).

    A range of one number is that size.

    >>> dims({"batch": "1", "seq": "1..4096", "heads": "8..8"})
    ({'batch': 1, 'heads': 8}, {'seq': (1, 4096)})
    """
    known: dict[str, int] = {}
    ranges: dict[str, tuple[int, int]] = {}
    for name, value in pairs.items():
        low, dots, high = value.partition("..")
        if not dots:
            known |= sizes("--dim", {name: value})
            continue
        if not _is_size(low) or not _is_size(high) or int(low) > int(high):
            raise click.BadParameter(f"{name}={value}: write a range as in {name}=1..4096", param_hint="--dim")
        if int(low) == int(high):
            known[name] = int(low)
        else:
            ranges[name] = int(low), int(high)
    return known, ranges


def sizes(flag: str, pairs: dict[str, str]) -> dict[str, int]:
    """The values of --dim as sizes."""
    for name, value in pairs.items():
        if not _is_size(value):
            raise click.BadParameter(f"{name}={value}: {value!r} is not a size", param_hint=flag)
    return {name: int(value) for name, value in pairs.items()}


def successive(pairs: dict[str, str]) -> dict[str, tuple[int, ...]]:
    """The values of --dim as sizes of successive batches (`seq=4,8,16`).

    >>> successive({"batch": "1", "seq": "4,8,16"})
    {'batch': (1,), 'seq': (4, 8, 16)}
    """
    return {
        name: tuple(sizes("--dim", {name: text})[name] for text in value.split(",")) for name, value in pairs.items()
    }


def shapes(flag: str, pairs: dict[str, str]) -> dict[str, tuple[int, ...]]:
    """The values of --shape (1x3x640x640; `scalar` for no dimension) as shapes."""
    result = {}
    for name, value in pairs.items():
        dims = [] if value == "scalar" else value.lower().split("x")
        if not all(map(_is_size, dims)):
            raise click.BadParameter(
                f"{name}={value}: write sizes with x between them, as in {name}=1x3x640x640", param_hint=flag
            )
        result[name] = tuple(map(int, dims))
    return result


def bound(flag: str, text: str) -> Callable[[Any], Any]:
    """A repeatable option that takes NAME=VALUE."""
    return click.option(flag, callback=parse_pairs(flag), multiple=True, metavar="NAME=VALUE", help=text)
