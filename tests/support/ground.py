"""The text of a lemma, evaluated: ground terms of SMT-LIB as Python values, quantifiers over the few things there are.

Integers are Python's, words of 64 bits are integers modulo 2^64, elements of declared sorts are numbers, and a cell of
a list is a tuple of its constructor's name and its fields. What a lemma only declares, its constants and functions, is
given by the caller: numbers and Python functions. Nothing of the planner is used here, and no solver.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, reduce
from typing import Any, NamedTuple

from proofs.proving.smt.expressions import Expression, parse, parse_one

Value = Any
"""An int, a bool, or a tuple: a cell of a list."""

WORD = 1 << 64


class Unknown(ValueError):
    """A symbol that was given no meaning."""


def _chain(compare: Callable[[Any, Any], bool]) -> Callable[..., bool]:
    return lambda *values: all(compare(a, b) for a, b in itertools.pairwise(values))


def _minus(first: int, *others: int) -> int:
    return first - sum(others) if others else -first


def _quotient(a: int, b: int) -> int:
    """SMT-LIB's: rounded so that the remainder is never negative."""
    return a // b if b > 0 else -(a // -b)


APPLIED: dict[str, Callable[..., Value]] = {
    "not": lambda a: not a,
    "=": _chain(operator.eq),
    "distinct": lambda *values: len(set(values)) == len(values),
    "<": _chain(operator.lt), "<=": _chain(operator.le), ">": _chain(operator.gt), ">=": _chain(operator.ge),
    "+": lambda *values: sum(values),
    "-": _minus,
    "*": lambda *values: reduce(operator.mul, values, 1),
    "div": _quotient,
    "mod": lambda a, b: a - b * _quotient(a, b),
    "bvadd": lambda a, b: (a + b) % WORD,
    "bvsub": lambda a, b: (a - b) % WORD,
    "bvand": lambda a, b: a & b,
    "bvnot": lambda a: WORD - 1 - a,
    "bvult": operator.lt,
    "bvule": operator.le,
    "bvuge": operator.ge,
}  # fmt: skip
"""What the built-in functions compute; `and`, `or`, `=>` and `ite` look no further than they must."""


class Defined(NamedTuple):
    """A function of the text: the names of its parameters and its body."""

    parameters: tuple[str, ...]
    body: Expression


_parsed = lru_cache(maxsize=1024)(parse_one)
_forms = lru_cache(maxsize=64)(parse)


class Ground:
    """A text of definitions with the meaning of what it declares; a state of a machine, where a lemma is about one.

    `given` are constants and functions by name, `ranges` the values over which a quantifier of each sort runs.
    """

    def __init__(
        self,
        text: str,
        given: Mapping[str, Value] | None = None,
        ranges: Mapping[str, Iterable[Value]] | None = None,
    ) -> None:
        self.given = dict(given or {})
        self.ranges = {sort: tuple(values) for sort, values in (ranges or {}).items()}
        self.defined: dict[str, Defined] = {}
        self.fields: dict[str, int] = {}
        self.constructors: set[str] = set()
        for form in _forms(text):
            match form:
                case ["define-fun" | "define-fun-rec", str(name), list(parameters), _, body]:
                    self.defined[name] = Defined(tuple(str(pair[0]) for pair in parameters), body)
                case ["declare-datatypes", _, [list(made)]]:
                    for name, *fields in made:
                        self.constructors.add(str(name))
                        self.fields |= {str(field[0]): place for place, field in enumerate(fields, 1)}
                case _:
                    pass  # what is declared is given

    def value(self, text: str, **bound: Value) -> Value:
        """The value of one term."""
        return self._of(_parsed(text), bound)

    def _of(self, term: Expression, bound: Mapping[str, Value]) -> Value:
        if isinstance(term, str):
            return self._symbol(term, bound)
        match term:
            case ["ite", condition, one, other]:
                return self._of(one if self._of(condition, bound) else other, bound)
            case ["and", *parts]:
                return all(self._of(part, bound) for part in parts)
            case ["or", *parts]:
                return any(self._of(part, bound) for part in parts)
            case ["=>", *premises, conclusion]:
                return not all(self._of(part, bound) for part in premises) or self._of(conclusion, bound)
            case ["forall" | "exists" as which, list(pairs), body]:
                return (all if which == "forall" else any)(self._instances(pairs, body, bound))
            case ["_", str(word), _] if word.startswith("bv"):
                return int(word[2:]) % WORD
            case [["_", "is", str(constructor)], cell]:
                return self._of(cell, bound)[0] == constructor
            case [str(head), *arguments]:
                return self._apply(head, [self._of(argument, bound) for argument in arguments])
        raise Unknown(f"no meaning for {term}")

    def _instances(self, pairs: list[Expression], body: Expression, bound: Mapping[str, Value]) -> Iterable[Value]:
        if not pairs:
            return (self._of(body, bound),)
        (name, sort), rest = pairs[0], pairs[1:]
        return (
            value
            for choice in self.ranges[str(sort)]
            for value in self._instances(rest, body, {**bound, str(name): choice})
        )

    def _apply(self, head: str, values: list[Value]) -> Value:
        if head in self.given:
            return self.given[head](*values)
        if head in APPLIED:
            return APPLIED[head](*values)
        if head in self.constructors:
            return (head, *values)
        if head in self.fields:
            return values[0][self.fields[head]]
        if head in self.defined:
            parameters, body = self.defined[head]
            return self._of(body, dict(zip(parameters, values, strict=True)))
        raise Unknown(head)

    def _symbol(self, name: str, bound: Mapping[str, Value]) -> Value:
        if name in bound:
            return bound[name]
        if name in self.given:
            return self.given[name]
        if name in self.constructors:
            return (name,)
        if name in ("true", "false"):
            return name == "true"
        if name in self.defined:
            return self._of(self.defined[name].body, {})
        if name.isdecimal():
            return int(name)
        raise Unknown(name)


def cells(constructor: str, empty: str, rows: Iterable[tuple[Value, ...]]) -> Value:
    """A list of a lemma, from the fields of its cells.

    >>> cells("number", "no_numbers", [(3,), (5,)])
    ('number', 3, ('number', 5, ('no_numbers',)))
    """
    result: Value = (empty,)
    for row in reversed(list(rows)):
        result = (constructor, *row, result)
    return result


def rows_of(value: Value) -> list[tuple[Value, ...]]:
    """The fields of the cells of a list, one tuple a cell.

    >>> rows_of(("number", 3, ("number", 5, ("no_numbers",))))
    [(3,), (5,)]
    """
    found = []
    while len(value) > 1:
        found.append(tuple(value[1:-1]))
        value = value[-1]
    return found
