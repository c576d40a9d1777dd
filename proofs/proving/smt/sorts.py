"""Check the sorts of expressions, as a solver does not.

A solver that has real numbers reads `0.5` where an integer is expected: it then answers a question that was not asked,
and an instance of a true lemma makes a false one seem proved. `sort_of` accepts integers, truth values, words, and what
a text declares, and refuses everything else. spec: V4.16
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from proofs.proving.smt.expressions import Expression, parse, text_of

INT, BOOL = "Int", "Bool"
QUANTIFIERS = frozenset({"forall", "exists"})
OF_TRUTH = {"and": 1, "or": 1, "not": 1, "=>": 2}
"""Functions of truth values, each with the least number of its arguments."""
OF_INTEGERS = {"+": 2, "-": 1, "*": 2, "div": 2, "mod": 2}
COMPARISONS = frozenset({"<", "<=", ">", ">="})
OF_WORDS = frozenset({"bvand", "bvor", "bvadd", "bvsub", "bvshl", "bvurem"})
WORD_COMPARISONS = frozenset({"bvult", "bvule", "bvugt", "bvuge"})
EXACTLY = frozenset({"not", "div", "mod"})
"""Functions that take no more arguments than the least number."""
OF_REALS = frozenset({
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "atan2", "arctan2",
    "exp", "ln", "log",
})  # fmt: skip
"""Functions that Z3 has beside SMT-LIB's. It accepts a declaration of one without a word, and then reads its own."""
BUILT_IN = frozenset({
    *OF_TRUTH, *OF_INTEGERS, *COMPARISONS, *OF_WORDS, *WORD_COMPARISONS, *QUANTIFIERS, "=", "distinct", "ite", "bvnot",
    "let", "true", "false", "_", "is", "as", "!", "match", INT, BOOL,
    *OF_REALS,
})  # fmt: skip
"""Names that no text may declare or bind."""
_NUMERAL = re.compile(r"0|[1-9][0-9]*")
_WORD = re.compile(r"bv(0|[1-9][0-9]*)")
_NAME = re.compile(r"[?a-zA-Z][a-zA-Z0-9_?'.]*")


class IllSorted(ValueError):
    """An expression has no sort, or not the one that its place requires, or a name has two meanings."""


@dataclass
class Signature:
    """What a text declares.

    `functions` has the sorts of the arguments and of the value of each function; a constant has no arguments. A sort is
    its text. `testers` has the sort of each constructor that can be asked for.
    """

    functions: dict[str, tuple[tuple[str, ...], str]] = field(default_factory=dict)
    sorts: set[str] = field(default_factory=lambda: {INT, BOOL})
    testers: dict[str, str] = field(default_factory=dict)

    def declare(self, name: Expression, arguments: Sequence[str], sort: str) -> None:
        """Add a function. Raises `IllSorted` if the name has a meaning already, or a sort is unknown."""
        self._name(name)
        for each in (*arguments, sort):
            self.check_sort(each)
        self.functions[str(name)] = tuple(arguments), sort

    def declare_sort(self, name: Expression) -> None:
        """Add a sort. Raises `IllSorted` if the name has a meaning already."""
        self._name(name)
        self.sorts.add(str(name))

    def _name(self, name: Expression) -> None:
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            raise IllSorted(f"{text_of(name)[:60]!r} is not a name")
        if name in BUILT_IN or name in self.functions or name in self.sorts:
            raise IllSorted(f"{name} is defined already")

    def check_sort(self, sort: str) -> None:
        """Raise `IllSorted` unless the sort is known, or is one of words."""
        if sort not in self.sorts and re.fullmatch(r"\(_ BitVec [1-9][0-9]*\)", sort) is None:
            raise IllSorted(f"the sort {sort[:60]} is unknown")

    def read(self, form: Expression) -> None:
        """Add what a command declares or defines; a definition is checked first.

        Raises `IllSorted` for any other command.
        """
        match form:
            case ["declare-sort", name, "0"]:
                self.declare_sort(name)
            case ["declare-const", name, sort]:
                self.declare(name, (), text_of(sort))
            case ["declare-fun", name, list(arguments), sort]:
                self.declare(name, [text_of(each) for each in arguments], text_of(sort))
            case ["define-fun", name, list(parameters), sort, body]:
                bound = bind(parameters, self, {})
                check_sort_of(body, text_of(sort), self, bound)
                self.declare(name, list(bound.values()), text_of(sort))
            case ["declare-datatypes", [[name, "0"]], [list(constructors)]]:
                self.declare_sort(name)
                for constructor in constructors:
                    self._constructor(str(name), constructor)
            case _:
                raise IllSorted(f"{text_of(form)[:60]!r} neither declares nor defines")

    def _constructor(self, sort: str, form: Expression) -> None:
        match form:
            case [made, *selectors]:
                pairs = list(_pairs(selectors))
                self.declare(made, [each for _, each in pairs], sort)
                self.testers[str(made)] = sort
                for name, each in pairs:
                    self.declare(name, (sort,), each)
            case _:
                raise IllSorted(f"{text_of(form)[:60]!r} is not a constructor")


def read_signature(declarations: str) -> Signature:
    """Return what a text declares.

    >>> read_signature("(declare-sort S 0)(declare-fun f (S Int) Bool)").functions
    {'f': (('S', 'Int'), 'Bool')}
    """
    signature = Signature()
    for form in parse(declarations):
        signature.read(form)
    return signature


def _pairs(items: Sequence[Expression]) -> list[tuple[str, str]]:
    found = []
    for item in items:
        match item:
            case [str(name), sort]:
                found.append((name, text_of(sort)))
            case _:
                raise IllSorted(f"{text_of(item)[:60]!r} is not a name with its sort")
    return found


def bind(items: Sequence[Expression], signature: Signature, bound: Mapping[str, str]) -> dict[str, str]:
    """Return the sorts of bound names together with those of more names.

    Raises `IllSorted` if a name is bound twice, has another meaning, or has an unknown sort.
    """
    result = dict(bound)
    for name, sort in _pairs(items):
        if name in result or name in BUILT_IN or name in signature.functions or _NAME.fullmatch(name) is None:
            raise IllSorted(f"{name!r} cannot be bound: it has another meaning, or is not a name")
        signature.check_sort(sort)
        result[name] = sort
    return result


def check_sort_of(expression: Expression, sort: str, signature: Signature, bound: Mapping[str, str]) -> None:
    """Check that an expression has a sort.

    >>> check_sort_of(["<", "x", "0.5"], "Bool", Signature(), {"x": "Int"})
    Traceback (most recent call last):
    ...
    proofs.proving.smt.sorts.IllSorted: '0.5' is not defined
    """
    found = sort_of(expression, signature, bound)
    if found != sort:
        raise IllSorted(f"{text_of(expression)[:80]!r} has the sort {found}, expected {sort}")


def sort_of(expression: Expression, signature: Signature, bound: Mapping[str, str]) -> str:
    """Return the sort of an expression, with the sorts of the names that are bound around it.

    Raises `IllSorted` if it has none.
    """
    if isinstance(expression, str):
        return _sort_of_symbol(expression, signature, bound)
    match expression:
        case ["_", str(word), str(width)] if _WORD.fullmatch(word) and _NUMERAL.fullmatch(width):
            return f"(_ BitVec {width})"
        case [str(quantifier), list(items), body] if quantifier in QUANTIFIERS and items:
            check_sort_of(body, BOOL, signature, bind(items, signature, bound))
            return BOOL
        case ["let", list(items), body] if items:
            named: list[Expression] = []
            for item in items:
                match item:
                    case [str(name), value]:
                        named.append([name, parse(sort_of(value, signature, bound))[0]])
                    case _:
                        raise IllSorted(f"{text_of(item)[:60]!r} is not a name with its value")
            return sort_of(body, signature, bind(named, signature, bound))
        case [["_", "is", str(constructor)], value] if constructor in signature.testers:
            check_sort_of(value, signature.testers[constructor], signature, bound)
            return BOOL
        case [["_", "zero_extend", str(more)], value] if _NUMERAL.fullmatch(more):
            return f"(_ BitVec {_width(value, sort_of(value, signature, bound)) + int(more)})"
        case [str(head), *arguments] if arguments:
            return _sort_of_call(head, arguments, [sort_of(each, signature, bound) for each in arguments], signature)
        case _:
            raise IllSorted(f"{text_of(expression)[:80]!r} is not an expression")


def _sort_of_symbol(symbol: str, signature: Signature, bound: Mapping[str, str]) -> str:
    if symbol in bound:
        return bound[symbol]
    if symbol in ("true", "false"):
        return BOOL
    if _NUMERAL.fullmatch(symbol):
        return INT
    arguments, sort = signature.functions.get(symbol, ((), ""))
    if not sort:
        raise IllSorted(f"{symbol[:60]!r} is not defined")
    if arguments:
        raise IllSorted(f"{symbol} is a function of {len(arguments)} arguments, and has none here")
    return sort


def _sort_of_call(head: str, arguments: Sequence[Expression], sorts: Sequence[str], signature: Signature) -> str:
    """Return the sort of a function's value. Raises `IllSorted` if its arguments are not those that it takes."""
    count, wanted, result = len(sorts), "", ""
    if head in OF_TRUTH and count >= OF_TRUTH[head]:
        wanted = result = BOOL
    elif head in OF_INTEGERS and count >= OF_INTEGERS[head]:
        wanted = result = INT
    elif head in COMPARISONS and count >= 2:
        wanted, result = INT, BOOL
    elif head in ("=", "distinct") and count >= 2:
        wanted, result = sorts[0], BOOL
    elif head == "ite" and count == 3 and sorts[0] == BOOL:
        wanted, result, sorts = sorts[1], sorts[1], sorts[1:]
    elif head == "bvnot" and count == 1:
        wanted = result = f"(_ BitVec {_width(arguments[0], sorts[0])})"
    elif head in OF_WORDS | WORD_COMPARISONS and count == 2:
        wanted = f"(_ BitVec {_width(arguments[0], sorts[0])})"
        result = BOOL if head in WORD_COMPARISONS else wanted
    elif head in signature.functions and signature.functions[head][0]:
        taken, result = signature.functions[head]
        if tuple(sorts) != taken:
            raise IllSorted(f"{head} takes {', '.join(taken)}, not {', '.join(sorts)}")
        return result
    else:
        raise IllSorted(f"{head[:60]!r} is not a function of {count} arguments")
    if any(sort != wanted for sort in sorts) or (head in EXACTLY and count != {**OF_TRUTH, **OF_INTEGERS}[head]):
        raise IllSorted(f"{text_of([head, *arguments])[:80]!r} has arguments of the sorts {', '.join(sorts)}")
    return result


def _width(value: Expression, sort: str) -> int:
    """Return the number of bits of a sort of words."""
    found = re.fullmatch(r"\(_ BitVec ([1-9][0-9]*)\)", sort)
    if found is None:
        raise IllSorted(f"{text_of(value)[:80]!r} has the sort {sort}, expected a word")
    return int(found[1])
