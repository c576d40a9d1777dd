"""The machines of `tla/` and their lemmas: a module's states in the words of a lemma, its actions and their statements.

For each module a `Machine` says how its states are read. A step that TLC takes must then be an instance of one of the
action's statements: everything that the statement assumes is true of it, the invariant before it included, and so is
what it concludes. So the lemma's text is of the module's own steps, and its invariants hold in the module's states. An
action without a statement changes nothing of which the lemma speaks. spec: V4.11
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from proofs.lemmas.expressions import parse
from proofs.lemmas.families import STATEMENTS
from proofs.lemmas.statements import Statement
from tests.support.ground import Ground
from tests.support.tlc_steps import State, Step

Values = Mapping[str, Any]
"""What the symbols of a lemma mean: numbers, truth values, elements, and Python functions."""


@dataclass(frozen=True)
class Machine:
    """How the states of a module are read in the words of a lemma file.

    `actions` names the statements of each action, of which it is one or another, or one `and` another; `begins` that of
    the first states. `fixed` gives what no step changes, `state` what a state is, by the names without their suffix;
    `ranges` over what quantifiers run. `witnesses` proposes values for whatever else the statements declare. A `twin`
    of the module takes a step that is none of the lemma's.
    """

    file: str
    begins: str
    actions: Mapping[str, tuple[str, ...]]
    fixed: Callable[[Values, State], Values]
    state: Callable[[Values, State], Values]
    ranges: Callable[[Values, State], Mapping[str, Iterable[Any]]]
    twin: str
    witnesses: Callable[[Values, Step], Iterable[Values]] = lambda constants, step: [{}]
    constants: Mapping[str, str] = field(default_factory=dict)


def disagreement(machine: Machine, constants: Values, step: Step) -> str | None:
    """What of a step is not as the lemma says, or None."""
    names = machine.actions.get(step.action)
    if names is None:
        return f"{step.action}: no statement, and no word that there need be none"
    fixed = machine.fixed(constants, step.after)
    before, after = machine.state(constants, step.before), machine.state(constants, step.after)
    ranges = machine.ranges(constants, step.after)
    if not names:
        return None if _alike(before, after, ranges, machine) else f"{step.action}: changes what the lemma speaks of"
    given = {**fixed, **_suffixed(before, "0"), **_suffixed(after, "1")}
    farthest, wrong = -1, "no witness"
    for found, name in product(machine.witnesses(constants, step), names):
        for statement in (statement_of(machine.file, part) for part in name.split(" and ")):
            failed = failing(statement, {**given, **found}, ranges)
            if failed is not None:
                break
        else:
            return None
        if failed > farthest:  # what comes nearest says most
            farthest, wrong = failed, f"{statement.name}: {(*statement.hypotheses, statement.goal)[failed]}"
    return f"{step.action}: {wrong}"


def beginning(machine: Machine, constants: Values, first: State) -> str | None:
    """What of a first state is not as the lemma says, or None."""
    given = {**machine.fixed(constants, first), **_suffixed(machine.state(constants, first), "1")}
    statement = statement_of(machine.file, machine.begins)
    failed = failing(statement, given, machine.ranges(constants, first))
    return None if failed is None else f"{machine.begins}: {(*statement.hypotheses, statement.goal)[failed]}"


def statement_of(file: str, name: str) -> Statement:
    """The statement of a file."""
    (found,) = [statement for statement in STATEMENTS[file] if statement.name == name]
    return found


def failing(statement: Statement, given: Values, ranges: Mapping[str, Iterable[Any]]) -> int | None:
    """Which hypothesis, the goal counted last, is the first that does not hold of what is given; None for none."""
    ground = Ground(statement.declarations, given, ranges)
    texts = (*statement.hypotheses, statement.goal)
    return next((k for k, text in enumerate(texts) if not ground.value(text)), None)


def unnamed(machine: Machine) -> set[str]:
    """The statements of a file that speak of no action: arithmetic, and what follows from the invariant."""
    named = {
        machine.begins,
        *(part for names in machine.actions.values() for name in names for part in name.split(" and ")),
    }
    return {statement.name for statement in STATEMENTS[machine.file]} - named


def is_a_step(statement: Statement) -> bool:
    """Does a statement declare a state before and one after, and conclude of the one after?"""
    declared = [str(form[1]) for form in parse(statement.declarations) if isinstance(form, list)]
    return any(name.endswith("1") and f"{name[:-1]}0" in declared for name in declared)


def _suffixed(values: Values, suffix: str) -> dict[str, Any]:
    return {f"{name}{suffix}": value for name, value in values.items()}


def _alike(before: Values, after: Values, ranges: Mapping[str, Iterable[Any]], machine: Machine) -> bool:
    """Is all that the lemma speaks of the same in both states?"""
    sorts = {
        str(form[1])[:-1]: [str(sort) for sort in form[2]]
        for statement in STATEMENTS[machine.file]
        for form in parse(statement.declarations)
        if isinstance(form, list) and form[0] == "declare-fun" and isinstance(form[2], list)
    }
    for name, value in before.items():
        if callable(value):
            places = product(*(list(ranges[sort]) for sort in sorts[name]))
            if any(value(*place) != after[name](*place) for place in places):
                return False
        elif value != after[name]:
            return False
    return True


def named(**ranges: Iterable[Any]) -> Iterator[Values]:
    """Every choice of one value each."""
    for choice in product(*ranges.values()):
        yield dict(zip(ranges, choice, strict=True))
