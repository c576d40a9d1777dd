"""Unfold recursive calls on written-out lists, so that the rest needs no recursion unless another call does.

A solver that has recursive functions only as quantified axioms takes seconds for calls that plain rewriting unfolds at
once. Only calls whose list is a constructor's term are unfolded, by the text of the definition itself, so that an
expression keeps its meaning. spec: V4.10
"""

from __future__ import annotations

from typing import NamedTuple

from proofs.proving.smt import descent
from proofs.proving.smt.descent import Definitions
from proofs.proving.smt.expressions import Expression, called_function, parse, substitute, text_of, walk


class Unfolding(NamedTuple):
    """The parts of definitions that unfolding needs.

    `calls` are the recursive functions, each with the position of its list.
    """

    calls: dict[str, tuple[tuple[str, ...], int, Expression, Expression]]
    empties: frozenset[str]
    cells: frozenset[str]
    fields: dict[str, tuple[str, int]]


def read_unfolding(known: Definitions) -> Unfolding:
    """Return the recursive functions of accepted definitions, in the form that `descent` accepts."""
    calls = {}
    for function in known.functions.values():
        if not any(called_function(item) == function.name for item in walk(function.body)):
            continue  # it does not call itself
        match function.body:
            case ["ite", [_, str(argument)], base, step]:
                names = tuple(name for name, _ in function.parameters)
                calls[function.name] = names, names.index(argument), base, step
            case _:
                raise AssertionError(f"{function.name} was accepted in another form")
    fields = {
        name: (made.cell, place)
        for made in known.lists.values()
        for place, name in enumerate((*dict(made.fields), made.rest), 1)
    }
    return Unfolding(
        calls,
        frozenset(made.empty for made in known.lists.values()),
        frozenset(made.cell for made in known.lists.values()),
        fields,
    )


def unfold_calls(expression: Expression, by: Unfolding) -> Expression:
    """Replace every call on a written-out list by its value, repeatedly.

    Linear in the cells of the lists. A call on any other list stays.
    """
    head = called_function(expression)
    if isinstance(expression, str) or head in by.cells:
        return expression  # a symbol, or a value with numbers or constants as fields
    parts = [unfold_calls(part, by) for part in expression]
    if head in by.fields:
        cell, place = by.fields[head]
        value = parts[1]
        return value[place] if called_function(value) == cell else parts
    if head not in by.calls:
        return parts
    names, place, base, step = by.calls[head]
    given = parts[place + 1]
    if isinstance(given, str) and given in by.empties:
        body = base
    elif called_function(given) in by.cells:
        body = step
    else:
        return parts
    return unfold_calls(substitute(body, dict(zip(names, parts[1:], strict=True))), by)


def has_recursive_call(expression: Expression, by: Unfolding) -> bool:
    """Whether a call to a recursive function is left."""
    return any(called_function(item) in by.calls for item in walk(expression))


class Scope:
    """Definitions, and the commands of one query within them.

    Only the definitions that the commands need are written.
    """

    def __init__(self, definitions: str) -> None:
        self._all = definitions
        self._by = read_unfolding(descent.check_definitions(definitions))
        self._plain = "".join(text_of(form) for form in parse(definitions) if called_function(form) != "define-fun-rec")

    def unfold(self, commands: str) -> tuple[str, str]:
        """Return the definitions that commands use after their calls are unfolded, and the unfolded commands."""
        asked = [unfold_calls(form, self._by) for form in parse(commands)]
        definitions = self._all if any(has_recursive_call(form, self._by) for form in asked) else self._plain
        return definitions, "\n".join(text_of(form) for form in asked)
