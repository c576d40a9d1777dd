"""The modules of `tla/` and the machines of the lemmas: a module's states in the words of a machine, step by step.

For each module a `Tie` gives how its states are read. A step that TLC takes must then be one of the machine's action of
that name: what the obligation assumes is true of it, the invariant before it included, and so is what it concludes. So
the lemma is of the module's own steps, and its invariant holds in the module's states. spec: V4.11
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from proofs.proving.lemmas.engine.machine import NEXT, Machine, MachineRule
from proofs.proving.lemmas.engine.statements import Statement
from proofs.proving.smt.expressions import Expression, parse_one, text_of
from tests.support.ground import Ground
from tests.support.tlc_steps import State, Step

Values = Mapping[str, Any]
"""What the symbols of a lemma mean: numbers, truth values, elements, and Python functions."""


@dataclass(frozen=True)
class Tie:
    """How the states of a module are read as those of a machine.

    `fixed` gives the constants, `state` the variables (a witness, as it may be before a step; after it, it is what its
    effect gives); `ranges` over what quantifiers run. `parameters` proposes values for what actions declare. `silent`
    are actions of the module that change nothing of the machine. A `twin` of the module takes a step that is none.
    `part` takes out of a step what the machine is about, where the module has several of it.
    """

    machine: Machine
    fixed: Callable[[Values, State], Values]
    state: Callable[[Values, State], Values]
    ranges: Callable[[Values, State], Mapping[str, Iterable[Any]]]
    twin: str
    parameters: Callable[[Values, Step], Iterable[Values]] = lambda constants, step: [{}]
    silent: tuple[str, ...] = ()
    part: Callable[[Step], Step] = lambda step: step

    @cached_property
    def actions(self) -> dict[str, list[Statement]]:
        """The obligations that are of each action of the module."""
        found: dict[str, list[Statement]] = {name: [] for name in self.silent}
        for rule in self.machine.actions:
            for name in actions_of(rule):
                found.setdefault(name, []).append(self.machine.statement(rule))
        return found


def actions_of(rule: MachineRule) -> tuple[str, ...]:
    """The actions of the module that a rule is."""
    return rule.module or (rule.name,)


def disagreement(tie: Tie, constants: Values, step: Step) -> str | None:
    """What of a step is not as the lemma states, or None."""
    if step.action not in tie.actions:
        return f"{step.action}: no action of the machine"
    step = tie.part(step)
    before, after = tie.state(constants, step.before), tie.state(constants, step.after)
    ranges = tie.ranges(constants, step.after)
    if step.action in tie.silent:
        return None if _alike(before, after, ranges, tie.machine) else f"{step.action}: changes a variable"
    given = {**tie.fixed(constants, step.after), **before, **{f"{name}{NEXT}": of for name, of in after.items()}}
    farthest, wrong = -1, "no parameters"
    for found, statement in product(tie.parameters(constants, step), tie.actions[step.action]):
        meant = {**given, **found}
        meant |= dict(_witnesses(tie.machine, statement, Ground(statement.declarations, meant, ranges)))
        failed = failing(statement, meant, ranges)
        if failed is None:
            return None
        if failed > farthest:  # what comes nearest says most
            farthest, wrong = failed, f"{statement.name}: {(*statement.hypotheses, statement.goal)[failed]}"
    return f"{step.action}: {wrong}"


def _witnesses(machine: Machine, statement: Statement, ground: Ground) -> Iterator[tuple[str, Any]]:
    """What the effects of an action make of the witnesses."""
    for hypothesis in map(parse_one, statement.hypotheses):
        match hypothesis:
            case ["forall", list(bound), ["=", [str(name), *places], value]] if len(bound) == len(places):
                names = [str(place) for place in places]
            case ["=", str(name), value]:
                names = []
            case _:
                continue
        if name.endswith(NEXT) and name.removesuffix(NEXT) in machine.witnesses:
            yield name, _function(ground, names, value) if names else ground.value(text_of(value))


def _function(ground: Ground, names: list[str], value: Expression) -> Callable[..., Any]:
    text = text_of(value)
    return lambda *places: ground.value(text, **dict(zip(names, places, strict=True)))


def beginning(tie: Tie, constants: Values, first: State) -> str | None:
    """What of a first state is not as the lemma states, or None."""
    statement = tie.machine.statement(tie.machine.init)
    first = tie.part(Step(tie.machine.init.name, first, first)).before
    failed = failing(
        statement, {**tie.fixed(constants, first), **tie.state(constants, first)}, tie.ranges(constants, first)
    )
    return None if failed is None else f"Init: {(*statement.hypotheses, statement.goal)[failed]}"


def failing(statement: Statement, given: Values, ranges: Mapping[str, Iterable[Any]]) -> int | None:
    """Which hypothesis, the goal counted last, is the first that does not hold of what is given; None for none."""
    ground = Ground(statement.declarations, given, ranges)
    texts = (*statement.hypotheses, statement.goal)
    return next((k for k, text in enumerate(texts) if not ground.value(text)), None)


def _alike(before: Values, after: Values, ranges: Mapping[str, Iterable[Any]], machine: Machine) -> bool:
    """Are all variables of the machine the same in both states?"""
    for name, (sorts, _) in machine.variables.items():
        if not sorts and before[name] != after[name]:
            return False
        places = product(*(list(ranges[str(sort)]) for sort in sorts))
        if sorts and any(before[name](*place) != after[name](*place) for place in places):
            return False
    return True


def named(**ranges: Iterable[Any]) -> Iterator[Values]:
    """Every choice of one value each."""
    for choice in product(*ranges.values()):
        yield dict(zip(ranges, choice, strict=True))
