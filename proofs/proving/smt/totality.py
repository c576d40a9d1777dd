"""Check that the value of an expression depends on no operation that SMT-LIB leaves open.

A selector of a cell, applied to the empty list, and a division by 0 have some value, which each solver may choose
anew. A definition that depends on one has as many meanings as there are choices: then a mutant can be false in a case
that no program has, and a vacuity check can hold in one. An expression is accepted if a condition around each such
operation excludes the open case, read from left to right: the conjuncts before it, the premise of an implication, the
condition of an `ite`. spec: V4.17
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from proofs.proving.smt.descent import Definitions, Unfounded
from proofs.proving.smt.expressions import Expression, called_function, substitute, text_of

DIVISIONS = frozenset({"div", "mod"})
_POSITIVE = re.compile(r"[1-9][0-9]*")
_WORD = re.compile(r"bv[1-9][0-9]*")

Fact = tuple[Expression, bool]
"""A formula, and whether it is true."""


class Open(Unfounded):
    """The value of an expression depends on a division by 0, or on a selector of the empty list."""


def check_total(known: Definitions) -> None:
    """Check every definition of an accepted text. Raises `Open` for one whose value may be open."""
    for function in known.functions.values():
        check_defined(function.body, known, function.name)


def check_defined(expression: Expression, known: Definitions, name: str, assumed: Iterable[Expression] = ()) -> None:
    """Check that an expression has one value where the assumptions hold. Raises `Open`, with the name.

    >>> check_defined(["=>", ["<=", "1", "a"], ["=", "0", ["mod", "x", "a"]]], Definitions(), "aligned")
    >>> check_defined(["=", "0", ["mod", "x", "a"]], Definitions(), "aligned")
    Traceback (most recent call last):
    ...
    proofs.proving.smt.totality.Open: aligned: '(mod x a)' may divide by 0
    """
    cells = {
        selector: (made.cell, made.empty)
        for made in known.lists.values()
        for selector in (*dict(made.fields), made.rest)
    }
    facts: list[Fact] = []
    for each in assumed:
        facts += _facts(each, True)
    work: list[tuple[Expression, tuple[Fact, ...]]] = [(expression, tuple(facts))]
    while work:
        item, given = work.pop()
        if isinstance(item, str) or not item:
            continue
        head = called_function(item)
        if head in DIVISIONS and not _is_divisor(item[2], given):
            raise Open(f"{name}: {text_of(item)[:80]!r} may divide by 0")
        if head == "bvurem" and not _is_word(item[2]):
            raise Open(f"{name}: {text_of(item)[:80]!r} may divide by 0")
        if head in cells and not _is_cell(item[1], *cells[head], given):
            raise Open(f"{name}: {text_of(item)[:80]!r} may take the empty list apart")
        work += _parts(item, given)


def _parts(item: list[Expression], given: tuple[Fact, ...]) -> Iterable[tuple[Expression, tuple[Fact, ...]]]:
    """Yield each part of an expression that has a value, with the facts that hold around it."""
    match item:
        case ["ite", condition, one, other]:
            yield condition, given
            yield one, (*given, *_facts(condition, True))
            yield other, (*given, *_facts(condition, False))
        case ["and" | "or" | "=>" as head, *parts]:
            for part in parts:
                yield part, given
                given = (*given, *_facts(part, head != "or"))
        case ["forall" | "exists", _, body]:
            yield body, given
        case ["let", list(pairs), body]:
            values = {str(pair[0]): pair[1] for pair in pairs if isinstance(pair, list)}
            yield from ((value, given) for value in values.values())
            yield (substitute(body, values) if isinstance(body, list) else body), given
        case _:
            yield from ((part, given) for part in item[1:])


def _facts(formula: Expression, truth: bool) -> list[Fact]:
    """Return a formula and what follows from it by its connectives."""
    found: list[Fact] = []
    work = [(formula, truth)]
    while work:
        item, true = work.pop()
        found.append((item, true))
        match item:
            case ["not", part]:
                work.append((part, not true))
            case ["and", *parts] if true:
                work += [(part, True) for part in parts]
            case ["or", *parts] if not true:
                work += [(part, False) for part in parts]
            case _:
                pass
    return found


def _is_divisor(term: Expression, facts: Sequence[Fact]) -> bool:
    """Whether a term is a number other than 0, or a fact says that it is at least 1."""
    if isinstance(term, str) and _POSITIVE.fullmatch(term):
        return True
    if called_function(term) == "*":
        return all(_is_divisor(factor, facts) for factor in term[1:])
    for fact, true in facts:
        match fact:
            case ["<=", str(least), found] if true and found == term and _POSITIVE.fullmatch(least):
                return True
            case ["<", str(least), found] if true and found == term and least.isdecimal():
                return True
            case _:
                pass
    return False


def _is_word(term: Expression) -> bool:
    match term:
        case ["_", str(word), _]:
            return _WORD.fullmatch(word) is not None
        case _:
            return False


def _is_cell(term: Expression, cell: str, empty: str, facts: Sequence[Fact]) -> bool:
    """Whether a term is a cell: it is written as one, or a fact says so."""
    return called_function(term) == cell or any(
        (fact, true) in (([["_", "is", empty], term], False), ([["_", "is", cell], term], True)) for fact, true in facts
    )
