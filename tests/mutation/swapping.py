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
    functions, changed_rest = _parts(compile(source, str(path), "exec"))
    if changed_rest != rest or len(functions) != len(plain):
        return None
    return {
        place: function for place, old, function in zip(places, plain, functions, strict=True) if old != _bare(function)
    }


def swap(found: Changes) -> int:
    """Give every function of this process that is named its other code; how many there were."""
    count = 0
    for thing in gc.get_objects():
        if type(thing) is FunctionType:
            code = thing.__code__
            other = found.get(Place(code.co_filename, code.co_qualname, code.co_firstlineno))
            if other is not None and other.co_freevars == code.co_freevars:
                thing.__code__ = other
                count += 1
    return count


@cache
def _original(path: Path) -> tuple[list[Place], list[CodeType], list[CodeType]]:
    """The functions of a module where they stand, what they do, and what is left of the module without them."""
    text = path.read_text()
    functions, _ = _parts(compile(text, str(path), "exec"))
    places = [Place(str(path), code.co_qualname, code.co_firstlineno) for code in functions]
    again, rest = _parts(compile(ast.unparse(ast.parse(text)), str(path), "exec"))  # as a mutant's text is written
    return places, [_bare(code) for code in again], rest


def _parts(code: CodeType) -> tuple[list[CodeType], list[CodeType]]:
    """The outermost functions of a module and of its classes; and module and classes without them."""
    functions: list[CodeType] = []
    left: list[object] = []
    rest: list[CodeType] = []
    for constant in code.co_consts:
        if isinstance(constant, CodeType) and not constant.co_flags & 2:  # CO_NEWLOCALS: a function, no class
            inside, around = _parts(constant)
            functions.extend(inside)
            rest.extend(around)
            left.append(constant.co_qualname)
        elif isinstance(constant, CodeType):
            functions.append(constant)
            left.append(constant.co_qualname)
        else:
            left.append(constant)
    return functions, [_bare(code.replace(co_consts=tuple(left))), *rest]


def _bare(code: CodeType) -> CodeType:
    """Code without where it stands: equal exactly where the same is done."""
    inside = tuple(_bare(constant) if isinstance(constant, CodeType) else constant for constant in code.co_consts)
    return code.replace(co_firstlineno=1, co_linetable=b"", co_filename="", co_consts=inside)
