"""Read, print and substitute S-expressions of SMT-LIB, for the texts of proofs.

An expression is a symbol (a `str`) or a list of expressions. No function here recurses, so that depth costs no stack.
Quoted symbols, string literals and any character that is not printable ASCII, a tab or a line feed are refused: the
texts of this package need none, and without them no text can be misread. To a solver, for example, a carriage return
may end a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

Expression = str | list["Expression"]

_TOKENS = re.compile(r"([()]|[^\s()|\";]+)")
_SPACE = re.compile(r"(?:\s|;[^\n]*)*")
_FOREIGN = re.compile(r"[^\t\n -~]")


def parse(text: str) -> list[Expression]:
    """Return all expressions of `text`, in order.

    Raises ValueError if brackets do not balance, a token is not a symbol, or a character is not one of SMT-LIB's.

    >>> parse("(a (b) 1) c")
    [['a', ['b'], '1'], 'c']
    """
    if foreign := _FOREIGN.search(text):
        raise ValueError(f"expected printable ASCII, got {foreign[0]!r}")
    top: list[Expression] = []
    open_lists: list[list[Expression]] = [top]
    at = _end_of_space(text, 0)
    while at < len(text):
        found = _TOKENS.match(text, at)
        if found is None:
            raise ValueError(f"expected an SMT-LIB symbol, got {text[at : at + 40]!r}")
        token, at = found[1], _end_of_space(text, found.end())
        if token == "(":
            fresh: list[Expression] = []
            open_lists[-1].append(fresh)
            open_lists.append(fresh)
        elif token == ")":
            open_lists.pop()
            if not open_lists:
                raise ValueError("a bracket closes that was never opened")
        else:
            open_lists[-1].append(token)
    if len(open_lists) != 1:
        raise ValueError("a bracket is never closed")
    return top


def _end_of_space(text: str, at: int) -> int:
    """Return the first position from `at` that is neither white space nor in a comment."""
    found = _SPACE.match(text, at)
    return found.end() if found else at


def parse_one(text: str) -> Expression:
    """Return the single expression of `text`. Raises ValueError if there is not exactly one."""
    found = parse(text)
    if len(found) != 1:
        raise ValueError(f"expected one expression, got {len(found)}: {text[:60]!r}")
    return found[0]


def text_of(expression: Expression) -> str:
    """Return the expression as text. `parse_one(text_of(e)) == e`.

    >>> text_of(["a", ["b", "1"], []])
    '(a (b 1) ())'
    """
    out: list[str] = []
    work: list[Expression | None] = [expression]  # None closes a list
    while work:
        item = work.pop()
        space = "" if not out or out[-1].endswith("(") else " "
        if item is None:
            out.append(")")
        elif isinstance(item, str):
            out.append(f"{space}{item}")
        else:
            out.append(f"{space}(")
            work.append(None)
            work.extend(reversed(item))
    return "".join(out)


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield the expression and everything inside it, outermost first."""
    work = [expression]
    while work:
        item = work.pop()
        yield item
        if isinstance(item, list):
            work.extend(reversed(item))


def called_function(expression: Expression) -> str:
    """Return the function that an expression calls.

    Returns "" for a symbol, the empty list, and a list that heads a list.

    >>> called_function(["f", "x"]), called_function("f"), called_function([["_", "is", "nil"], "x"])
    ('f', '', '')
    """
    head = expression[0] if isinstance(expression, list) and expression else ""
    return head if isinstance(head, str) else ""


def substitute(expression: Expression, values: Mapping[str, Expression]) -> Expression:
    """Replace symbols at argument positions. A function's name, at the head of a list, is not replaced.

    Raises ValueError for `let` and quantifiers: only expressions without binders cannot capture a name.

    >>> text_of(substitute(parse_one("(f x (x y))"), {"x": "1", "y": ["g", "x"]}))
    '(f 1 (x (g x)))'
    """
    if isinstance(expression, str):
        return values.get(expression, expression)
    result: list[Expression] = []
    work: list[tuple[list[Expression], list[Expression]]] = [(expression, result)]
    while work:
        source, target = work.pop()
        if source and source[0] in BINDERS:
            raise ValueError(f"{source[0]} binds names: substitution below it is not supported")
        for position, item in enumerate(source):
            if isinstance(item, list):
                fresh: list[Expression] = []
                target.append(fresh)
                work.append((item, fresh))
            else:
                target.append(item if position == 0 else values.get(item, item))
    return result


BINDERS = ("let", "forall", "exists", "match", "lambda", "choice", "!")
"""Heads that bind names, or annotate. An expression with one of them is not plain."""
