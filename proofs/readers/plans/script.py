"""Programs as Python text, read without running any of it: what Relax and Inductor have in common.

A name stands for a `ScriptValue`: pointers to cells, a tuple of values, or what the file does not place. The text is
at most `MAX_SCRIPT` bytes and `MAX_TOKENS` words and signs, so that its syntax tree is some 500 MiB at most.
spec: FP2.2, FP2.3, FP7.1, FP8.1
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from proofs.readers.plans.cells import CellMemory, Pointer
from proofs.readers.plans.foreign_plan import elements_of
from tmmu.core.dtypes import BITS
from tmmu.core.source import Source
from tmmu.core.vocabulary import UINT64_END

MAX_SCRIPT = 1 << 22
"""The largest text of a program in Python that is read, in bytes."""
MAX_TOKENS = 1 << 20
"""The most words and signs of such a text; a syntax tree takes about a kilobyte for each."""
_TOKEN = re.compile(r"\w+|[^\w\s]")
_INTEGER = re.compile(r"T\.u?int\d+|R\.prim_value", re.ASCII)
_BITS = re.compile(r"(?:u?int|float|bfloat|complex)(\d{1,3})(?:_?e\d+m\d+\w*)?(?:x(\d{1,3}))?", re.ASCII)


@dataclass(eq=False)
class ScriptValue:
    """What a name stands for: pointers (several where arms of an If differ), the items of a tuple, or an integer.

    `is_tensor` where it is known to have no items.
    `width` is the bits of an element if the value is a view in elements of another type than its cell is of.
    """

    pointers: tuple[Pointer, ...] = ()
    items: dict[int, ScriptValue] = field(default_factory=dict)
    number: int | None = None
    is_tensor: bool = False
    width: int | None = None

    def every(self, source: Source) -> tuple[Pointer, ...]:
        """The pointers of a value and of all its items."""
        found: dict[Pointer, None] = {}
        seen: set[int] = set()
        left = [self]
        while left:
            value = left.pop()
            source.count_work(1 + len(value.pointers) + len(value.items))
            if id(value) not in seen:
                seen.add(id(value))
                found |= dict.fromkeys(value.pointers)
                left += reversed(value.items.values())
        return tuple(found)


Names = dict[str, ScriptValue]


def leave_arms(
    memory: CellMemory, names: Names, arms: Sequence[Names], is_used: Callable[[str], bool]
) -> dict[int, list[int]]:
    """End a node with two exclusive arms. `arms` are what names stand for at the end of each, `names` becomes what they
    stand for behind both: those that both arms have, of which either may have bound one that is used there. Others are
    gone. Returned are the cells that are made for these, each with those that it stands for. spec: FP7.10, FP8.8
    """
    first, second = arms
    memory.source.count_work(2 * (len(first) + len(second)))
    same = {name: value for name, value in first.items() if second.get(name) is value}
    differ = [name for name in first if name in second and name not in same and is_used(name)]
    taken = [[pointer for name in differ for pointer in arm[name].every(memory.source)] for arm in arms]
    moved = memory.end(taken)
    merged: dict[tuple[int, int], ScriptValue] = {}

    def either(one: ScriptValue, other: ScriptValue) -> ScriptValue:
        """What a name stands for that either value may be; items one by one where both are tuples of one length."""
        key = id(one), id(other)
        if key not in merged:
            memory.source.count_work(1)
            merged[key] = found = ScriptValue(number=one.number if one.number == other.number else None)
            found.is_tensor = one.is_tensor and other.is_tensor
            if one.items and one.items.keys() == other.items.keys():
                found.items |= {k: either(one.items[k], other.items[k]) for k in one.items}
            else:
                both = zip(moved, (one.every(memory.source), other.every(memory.source)), strict=True)
                found.pointers = tuple(dict.fromkeys(to.get(p, p) for to, pointers in both for p in pointers))
        return merged[key]

    names.clear()
    names |= same | {name: either(first[name], second[name]) for name in differ}
    made: dict[int, list[int]] = {}
    for pointer, anew in (pair for to in moved for pair in to.items()):
        made.setdefault(anew.cell, []).append(pointer.cell)
    return made


def parse_script(source: Source) -> ast.Module:
    """The syntax tree. Raises INVALID_PLAN with the line of what is no Python, too long or too deep."""
    if len(source.data) > MAX_SCRIPT:
        raise source.refuse(f"more than {MAX_SCRIPT} bytes of Python", None, "use a smaller module")
    text = source.text()
    tokens = sum(1 for _ in _TOKEN.finditer(text))
    source.count_work(tokens)
    if tokens > MAX_TOKENS:
        raise source.refuse(f"more than {MAX_TOKENS} words and signs of Python", None, "use a smaller module")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of strings with odd escapes: nothing of the text is run
            return ast.parse(text)
    except SyntaxError as error:
        at, last = f"line {error.lineno}", text.rstrip().count("\n") + 1
        if (error.lineno or 0) >= last or "never closed" in error.msg or "unterminated" in error.msg:
            raise source.truncated_error(f"it ends within a statement ({error.msg})", at) from error
        raise source.refuse(f"expected Python, got {error.msg}", at, "print the program again") from error
    except (ValueError, MemoryError, RecursionError) as error:
        raise source.refuse("expected Python text that nests less deeply", None, "use a flatter program") from error


def line_of(node: ast.AST) -> str:
    """Where a node stands, for messages."""
    return f"line {getattr(node, 'lineno', 1)}"


def dotted_name(node: ast.AST) -> str:
    """`a.b.c` of such an expression, "" of any other."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join((node.id, *reversed(parts))) if isinstance(node, ast.Name) else ""


def last_uses(source: Source, function: ast.FunctionDef) -> dict[str, int]:
    """Of each name that a function reads or deletes the last line in which it does."""
    found: dict[str, int] = {}
    for node in ast.walk(function):
        source.count_work(1)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
            found[node.id] = max(node.lineno, found.setdefault(node.id, node.lineno))
    return found


def is_used_behind(node: ast.stmt, name: str, last: dict[str, int]) -> bool:
    """Whether a name is used behind a statement; `last` is what `last_uses` has found in the function."""
    return name in last and last[name] > (node.end_lineno or 0)


def integer(node: ast.AST | None) -> int | None:
    """A decimal integer, also as `T.int64(3)` or `-3`; None of any other expression."""
    if (
        isinstance(node, ast.Call)
        and len(node.args) == 1
        and not node.keywords
        and _INTEGER.fullmatch(dotted_name(node.func))
    ):
        return integer(node.args[0])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        found = integer(node.operand)
        return None if found is None else -found
    if isinstance(node, ast.Constant) and type(node.value) is int and node.value < UINT64_END:
        return node.value
    return None


def integers(node: ast.AST | None) -> tuple[int, ...] | None:
    """The integers of a tuple or list; None where one is none, as of a shape with symbols."""
    if not isinstance(node, ast.Tuple | ast.List):
        return None
    found = [integer(item) for item in node.elts]
    return tuple(x for x in found if x is not None) if None not in found else None


def string(node: ast.AST | None) -> str | None:
    """A string literal."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def bits(dtype: str) -> int | None:
    """The bits of an element by the name of its type in Python libraries; None where they are not known.

    >>> bits("float8_e4m3fn"), bits("bool"), bits("uint4"), bits("bfloat16"), bits("float16x4"), bits("handle")
    (8, 8, 4, 16, 64, None)
    """
    plain = BITS.get(dtype)
    if plain is not None:
        return plain
    found = _BITS.fullmatch(dtype)
    return int(found[1]) * int(found[2] or 1) if found else None


def extent(shape: tuple[int, ...], strides: tuple[int, ...] | None, width: int) -> int:
    """The bytes from the first element to the end of the last one, of elements of `width` bits; 2^64 or more for what
    is no size at all.

    >>> extent((2, 3), (4, 1), 32), extent((0, 3), None, 32), extent((3,), None, 4), extent((), None, 16)
    (28, 0, 2, 2)
    """
    if 0 in shape:
        return 0
    if strides is None:
        elements = elements_of(shape)
    else:
        elements = 1 + sum((dim - 1) * stride for dim, stride in zip(shape, strides, strict=True))
    return (elements * width + 7) // 8
