"""Rewrite queries about recursive functions as queries without recursion, for solvers without recursive functions.

Only the definition at the calls of the query is known of a recursive function then. Each of these facts is an instance
of an equation that holds for every list, so that anything refuted under them is refuted under the definition. A query
that they do not refute is left open. spec: V4.12
"""

from __future__ import annotations

from typing import NamedTuple

from proofs.proving.smt import descent
from proofs.proving.smt.expressions import Expression, called_function, parse, substitute, text_of, walk
from proofs.proving.smt.unfold import read_unfolding, unfold_calls


class Plain(NamedTuple):
    """Commands without recursive definitions: those that several queries share, and those of one query."""

    declarations: str
    commands: str


def without_recursion(definitions: str, commands: str) -> Plain:
    """Return commands that are unsatisfiable only if the given ones are.

    Parameters
    ----------
    definitions
        List types and functions that `descent` accepts; it raises `Unfounded` for anything else.
    commands
        Declarations of constants, and assertions without quantifiers.

    Examples
    --------
    >>> lists = "(declare-datatypes ((L 0)) (((nil) (cell (head Int) (tail L)))))"
    >>> size = "(define-fun-rec size ((l L)) Int (ite ((_ is nil) l) 0 (+ 1 (size (tail l)))))"
    >>> plain = without_recursion(lists + size, "(declare-const k L)(assert (= 7 (size k)))")
    >>> print(plain.declarations)
    (declare-datatypes ((L 0)) (((nil) (cell (head Int) (tail L)))))
    (declare-fun size (L) Int)
    >>> print(plain.commands)
    (declare-const k L)
    (assert (= (size k) (ite ((_ is nil) k) 0 (+ 1 (size (tail k))))))
    (assert (= 7 (size k)))
    """
    known = descent.check_definitions(definitions)
    by = read_unfolding(known)
    forms = [unfold_calls(form, by) for form in parse(commands)]
    equations: dict[str, Expression] = {}
    for call in (item for form in forms for item in walk(form)):
        if called_function(call) in by.calls:
            function = known.functions[called_function(call)]
            values = dict(zip((parameter for parameter, _ in function.parameters), call[1:], strict=True))
            equations[text_of(call)] = ["assert", ["=", call, substitute(function.body, values)]]
    constants = [form for form in forms if called_function(form) == "declare-const"]
    asserted = [form for form in forms if called_function(form) != "declare-const"]
    declared: list[Expression] = []
    for form in parse(definitions):
        match form:
            case ["define-fun-rec", str(name), list(parameters), sort, _] if name in by.calls:
                declared.append(["declare-fun", name, [pair[1] for pair in parameters], sort])
            case _:
                declared.append(form)
    return Plain(
        "\n".join(text_of(form) for form in declared),
        "\n".join(text_of(form) for form in (*constants, *equations.values(), *asserted)),
    )
