"""Check that recursive definitions end, and that all definitions are well sorted.

A solver takes a `define-fun-rec` as an axiom, and one without end proves anything.

A text of definitions is accepted only if each recursive function takes one of its lists apart from the front: it asks
whether the list is empty and, in the other case, it calls itself only on the rest of that same list. Such a function
has a value for every list, its axiom can be satisfied, and it makes nothing true that was not true before. Every symbol
must be known: built in, a parameter, or defined earlier by the text. `totality` checks that the value depends on no
selector of the empty list and on no division by 0. spec: V4.8, V4.16
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from proofs.proving.smt import sorts
from proofs.proving.smt.expressions import Expression, called_function, parse, text_of, walk
from proofs.proving.smt.sorts import Signature

BUILT_IN = frozenset(
    {"and", "or", "not", "=>", "=", "distinct", "ite", "+", "-", "*", "div", "mod", "<", "<=", ">", ">="}
)
"""The functions of SMT-LIB that definitions may call."""
CONSTANTS = frozenset({"true", "false"})
SORTS = frozenset({"Int", "Bool"})


class Unfounded(ValueError):
    """The definition may not end, or the text has more than definitions."""


class ListType(NamedTuple):
    """A list datatype: its name, the constructor of the empty list, that of a cell, its fields, and the rest."""

    name: str
    empty: str
    cell: str
    fields: tuple[tuple[str, str], ...]
    rest: str


class Function(NamedTuple):
    """A defined function: its name, its parameters with their sorts, and its body."""

    name: str
    parameters: tuple[tuple[str, str], ...]
    body: Expression


@dataclass
class Definitions:
    """The list types and functions that a text defines, by name, and the sorts of all of them."""

    lists: dict[str, ListType] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    signature: Signature = field(default_factory=Signature)

    def selectors(self) -> set[str]:
        """Return every selector of every list type."""
        return {name for made in self.lists.values() for name in (*dict(made.fields), made.rest)}

    def names(self) -> set[str]:
        """Return every name with a meaning: built in, a function, or a list type, its constructors and selectors."""
        constructors = {name for made in self.lists.values() for name in (made.empty, made.cell)}
        built_in = BUILT_IN | CONSTANTS | SORTS
        return {*built_in, *self.lists, *self.functions, *self.selectors(), *constructors}


def check_definitions(text: str) -> Definitions:
    """Accept list types, definitions, and recursive definitions that descend. Raises `Unfounded` for anything else.

    Linear in the text. An accepted text has exactly one meaning, a total function, for each meaning of `div` and `mod`
    by 0 and of selectors of the empty list, which SMT-LIB leaves open. `totality.check_total` refuses a definition that
    depends on them.
    """
    known = Definitions()
    for form in parse(text):
        match form:
            case ["declare-datatypes", *_]:
                made = _list_type(form, known)
                known.lists[made.name] = made
                _read_sorts(form, known)
            case ["define-fun" | "define-fun-rec" as kind, str(name), list(parameters), str(sort), body]:
                function = Function(name, _parameters(parameters, known), body)
                _new(name, known)
                if sort not in SORTS and sort not in known.lists:
                    raise Unfounded(f"{name} has the unknown sort {sort}")
                _known_symbols(function, known, recursive=kind == "define-fun-rec")
                if kind == "define-fun-rec":
                    _descends(function, known)
                known.functions[name] = function
                _check_sorts(function, sort, known)
            case _:
                raise Unfounded(f"{text_of(form)[:60]!r} is not the definition of a list type or a function")
    return known


def _read_sorts(form: Expression, known: Definitions) -> None:
    """Declare a list type, its constructors and its selectors."""
    try:
        known.signature.read(form)
    except sorts.IllSorted as error:
        raise Unfounded(str(error)) from error


def _check_sorts(function: Function, sort: str, known: Definitions) -> None:
    """Declare a function, and check that its body has its sort."""
    try:
        known.signature.declare(function.name, [each for _, each in function.parameters], sort)
        sorts.check_sort_of(function.body, sort, known.signature, dict(function.parameters))
    except sorts.IllSorted as error:
        raise Unfounded(f"{function.name}: {error}") from error


def _new(name: str, known: Definitions) -> None:
    """Check that a name is not defined yet, so that it has one meaning."""
    if name in known.names() or not name[0].isalpha():
        raise Unfounded(f"{name!r} cannot be defined: it is defined already, or is not a name")


def _list_type(form: Expression, known: Definitions) -> ListType:
    """Read a list type: `(declare-datatypes ((Name 0)) (((empty) (cell (field Sort) ... (rest Name)))))`."""
    match form:
        case [_, [[str(name), "0"]], [[[str(empty)], [str(cell), *selectors]]]] if selectors:
            pairs = _pairs(selectors)
            (*fields, (rest, sort)) = pairs
            if sort != name or any(kind not in SORTS for _, kind in fields):
                raise Unfounded(f"{name} is not a list of plain values: its last field must be the rest of the list")
            for symbol in (name, empty, cell, *dict(pairs)):
                _new(symbol, known)
            if len({name, empty, cell, *dict(pairs)}) != 3 + len(pairs):
                raise Unfounded(f"a name occurs twice in {name}")
            return ListType(name, empty, cell, tuple(fields), rest)
        case _:
            raise Unfounded(f"{text_of(form)[:60]!r} declares something other than one list type")


def _parameters(parameters: list[Expression], known: Definitions) -> tuple[tuple[str, str], ...]:
    pairs = _pairs(parameters)
    for name, sort in pairs:
        # No function can be where a parameter is, so that a parameter may have the name of one.
        if name in CONSTANTS or name in (made.empty for made in known.lists.values()) or not name[0].isalpha():
            raise Unfounded(f"{name!r} cannot be a parameter: it is a constant, or not a name")
        if sort not in SORTS and sort not in known.lists:
            raise Unfounded(f"the parameter {name} has the unknown sort {sort}")
    if len(dict(pairs)) != len(pairs):
        raise Unfounded("a parameter occurs twice")
    return tuple(pairs)


def _pairs(items: list[Expression]) -> list[tuple[str, str]]:
    result = []
    for item in items:
        match item:
            case [str(name), str(sort)]:
                result.append((name, sort))
            case _:
                raise Unfounded(f"{text_of(item)[:60]!r} is not a name with its sort")
    return result


def _known_symbols(function: Function, known: Definitions, *, recursive: bool) -> None:
    """Check that each call is to an earlier definition, or to itself if it is recursive.

    Every other symbol must be a parameter, a numeral or a constant.
    """
    cells = {made.cell for made in known.lists.values()}
    empties = {made.empty for made in known.lists.values()}
    callable_ = (
        BUILT_IN | known.functions.keys() | known.selectors() | cells | ({function.name} if recursive else set())
    )
    plain = CONSTANTS | empties | dict(function.parameters).keys()
    testers = [["_", "is", constructor] for constructor in cells | empties]
    if isinstance(function.body, str):
        _plain(function.body, function, plain)
    work = [function.body] if isinstance(function.body, list) else []
    while work:
        item = work.pop()
        if not item or not (item[0] in testers or (isinstance(item[0], str) and item[0] in callable_)):
            raise Unfounded(f"{function.name} calls {text_of(item)[:60]!r}, which is not defined before it")
        for argument in item[1:]:
            if isinstance(argument, list):
                work.append(argument)
            else:
                _plain(argument, function, plain)


def _plain(symbol: str, function: Function, plain: frozenset[str] | set[str]) -> None:
    if symbol not in plain and not symbol.isdecimal():
        raise Unfounded(f"{function.name} uses {symbol!r}, which is not defined")


def _descends(function: Function, known: Definitions) -> None:
    """Check that the body is `(ite ((_ is empty) l) base step)` and descends.

    No call may be in base, and each call in step must be on the rest of l.
    """
    name, parameters, body = function
    match body:
        case ["ite", [["_", "is", str(empty)], str(argument)], base, step]:
            position = [parameter for parameter, _ in parameters].index(argument)
            made = known.lists.get(parameters[position][1])
        case _:
            made = None
    if made is None or empty != made.empty:
        raise Unfounded(f"{name} does not begin by asking whether its list is empty")
    if any(called_function(item) == name for item in walk(base)):
        raise Unfounded(f"{name} calls itself on an empty list")
    for item in walk(step):
        if called_function(item) == name and (
            len(item) != len(parameters) + 1 or item[position + 1] != [made.rest, argument]
        ):
            raise Unfounded(
                f"{name} does not descend in {text_of(item)[:80]!r}: it must continue with ({made.rest} {argument})"
            )
