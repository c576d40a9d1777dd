"""A changed module in a process that has imported the module as it is: functions get the code of their changed text.

Whoever holds a function, under whatever name, holds the changed one then. What is decided while a module is imported
(constants, defaults, classes' fields) cannot be changed so: `changes` says so, and such a mutant is imported anew.
"""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple


class Place(NamedTuple):
    """What tells a function of a module from all others of the process."""

    file: str
    name: str
    line: int


Changes = dict[Place, CodeType]


def changes(path: Path, source: str) -> Changes | None:
    """The functions whose code differs in the changed source; None where something outside of functions does."""
    places, plain, rest = _original(path)
    made, changed_rest = _parts(compile(source, str(path), "exec"))
    if changed_rest != rest or len(made) != len(plain):
        return None
    return {place: code for place, old, code in zip(places, plain, made, strict=True) if old != _bare(code)}


def functions(below: Path) -> dict[Place, list[FunctionType]]:
    """Every function of this process whose text stands below a folder, those too that `gc.freeze` has hidden."""
    gc.unfreeze()
    found: dict[Place, list[FunctionType]] = {}
    for thing in gc.get_objects():
        if type(thing) is FunctionType and thing.__code__.co_filename.startswith(f"{below}/"):
            found.setdefault(place_of(thing.__code__), []).append(thing)
    return found


def place_of(code: CodeType) -> Place:
    """Where a function stands."""
    return Place(code.co_filename, code.co_qualname, code.co_firstlineno)


def swap(found: Changes, known: dict[Place, list[FunctionType]]) -> None:
    """Give every function that is changed its other code. A KeyError where this process does not have it."""
    for place, code in found.items():
        for function in known[place]:
            function.__code__ = code


@cache
def _original(path: Path) -> tuple[list[Place], list[CodeType], list[CodeType]]:
    """The functions of a module where they stand, what they do, and what is left of the module without them."""
    text = path.read_text()
    made, _ = _parts(compile(text, str(path), "exec"))
    places = [place_of(code) for code in made]
    again, rest = _parts(compile(ast.unparse(ast.parse(text)), str(path), "exec"))  # as a mutant's text is written
    return places, [_bare(code) for code in again], rest


def _parts(code: CodeType) -> tuple[list[CodeType], list[CodeType]]:
    """The outermost functions of a module and of its classes; and module and classes without them."""
    outermost: list[CodeType] = []
    left: list[object] = []
    rest: list[CodeType] = []
    for constant in code.co_consts:
        if isinstance(constant, CodeType) and not constant.co_flags & 2:  # CO_NEWLOCALS: a function, no class
            inside, around = _parts(constant)
            outermost.extend(inside)
            rest.extend(around)
            left.append(constant.co_qualname)
        elif isinstance(constant, CodeType):
            outermost.append(constant)
            left.append(constant.co_qualname)
        else:
            left.append(constant)
    return outermost, [_bare(code.replace(co_consts=tuple(left))), *rest]


def _bare(code: CodeType) -> CodeType:
    """Code without where it stands: equal exactly where the same is done."""
    inside = tuple(_bare(constant) if isinstance(constant, CodeType) else constant for constant in code.co_consts)
    return code.replace(co_firstlineno=1, co_linetable=b"", co_filename="", co_consts=inside)
