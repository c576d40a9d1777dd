"""Statements for all inputs that need no list: sorts, functions, hypotheses with quantifiers, and a goal.

A statement is proved where a solver refutes its hypotheses with the negated goal. That alone would also be so where
the hypotheses contradict each other, so each statement has a *twin*: hypotheses and goal together must have a model.
That the statement is not weaker than it seems is shown by its *mutants*, each one named change of its text, under which
the negated goal must have a model: a case in which the mutant is false.

Where quantifiers stand in the way of a model, twin and mutants are asked in a *small world*: the declared sorts have a
few elements each, integers that are quantified over come from a window, and every quantifier is written out. The
proof itself is never restricted so. spec: V4.3, V4.9
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import NamedTuple, Protocol

from proofs.proving.smt.expressions import Expression, called, parse, parse_one, text_of

DECLARES = frozenset({"declare-sort", "declare-const", "declare-fun", "declare-datatypes", "define-fun"})
"""What may stand before the hypotheses. No assertion, which no mutant would leave out, and nothing recursive."""
QUANTIFIERS = {"forall": "and", "exists": "or"}


class Mutant(NamedTuple):
    """One change of a text, which must occur in it exactly once, that makes it false."""

    name: str
    old: str
    new: str

    def applied(self, text: str) -> str:
        """The changed text; ValueError where there is not one place to change."""
        if text.count(self.old) != 1:
            raise ValueError(f"mutant {self.name!r}: {self.old!r} occurs {text.count(self.old)} times")
        return text.replace(self.old, self.new)


class Mutation(Protocol):
    """A named change of a statement's text that makes it false."""

    @property
    def name(self) -> str:
        """What is changed, in English."""

    def applied(self, text: str) -> str:
        """The changed text; ValueError where it does not apply."""


class World(NamedTuple):
    """How many elements each declared sort has, and the first and last integer that quantifiers range over."""

    sorts: Mapping[str, int]
    first: int = -1
    last: int = 4


class Statement(NamedTuple):
    """A statement about all values of what it declares.

    `sentence` is the same in English. `declarations` are SMT-LIB commands that declare sorts, functions and constants
    and define functions; `hypotheses` and `goal` are formulas. `mutants` change one place of the whole. `world` is
    where twin and mutants are asked, None where a solver decides them as they stand. Where `is_apart`, each part of a
    goal that is a conjunction is proved by itself, from all hypotheses.
    """

    name: str
    sentence: str
    declarations: str
    hypotheses: tuple[str, ...]
    goal: str
    mutants: tuple[Mutation, ...]
    world: World | None = None
    is_apart: bool = False

    @property
    def text(self) -> str:
        """The declarations, each hypothesis as `(assume …)` and the goal as `(prove …)`: what a mutant changes."""
        assumed = "\n".join(f"(assume {hypothesis})" for hypothesis in self.hypotheses)
        return f"{self.declarations}\n{assumed}\n(prove {self.goal})"

    def refutation(self) -> list[str]:
        """The commands whose `check-sat` must answer `unsat`."""
        return _commands(self.text, negated=True, world=None)

    def parts(self) -> Iterator[Statement]:
        """What is proved in turn: the statement, or one for each part of its goal."""
        goal = parse_one(self.goal)
        parts = goal[1:] if self.is_apart and called(goal) == "and" else [goal]
        yield from (self._replace(goal=text_of(part)) for part in parts)

    def request(self) -> str:
        """The request of a solver that has read nothing, discharged by "unsat", and "sat" for the canary."""
        return f"(push){''.join(self.refutation())}(check-sat)(pop)(check-sat)"

    def query(self, read: str = "") -> str:
        """The same as one request, in scopes of its own, to a solver that has `read` these declarations before.

        It is discharged by "unsat", and "sat" for the hypotheses alone.
        """
        assumed = " ".join(self.hypotheses)
        return (
            f"(push 1)\n{self.declarations.replace(read, '')}\n(assert (and {assumed}))\n(push 1)\n"
            f"(assert (not {self.goal}))\n(check-sat)(pop 1)(check-sat)(pop 1)\n"
        )

    def twin(self) -> list[str]:
        """The commands whose `check-sat` must answer `sat`: hypotheses and goal can hold together."""
        return _commands(self.text, negated=False, world=self.world)

    def mutant(self, mutant: Mutation) -> list[str]:
        """The commands whose `check-sat` must answer `sat`, with a case in which the mutant is false."""
        return _commands(mutant.applied(self.text), negated=True, world=self.world)


def _commands(text: str, *, negated: bool, world: World | None) -> list[str]:
    """SMT-LIB commands, one each: what is declared, what is assumed, and the goal or its negation."""
    commands: list[Expression] = []
    for form in parse(text):
        match form:
            case ["assume", formula]:
                commands.append(["assert", formula])
            case ["prove", formula]:
                commands.append(["assert", ["not", formula] if negated else formula])
            case [str(head), *_] if head in DECLARES:
                commands.append(form)
            case _:
                raise ValueError(f"{text_of(form)[:60]!r} neither declares, defines, assumes nor proves")
    return [text_of(command) for command in (commands if world is None else _in_world(commands, world))]


def _in_world(commands: list[Expression], world: World) -> list[Expression]:
    """The commands with finite sorts, no quantifiers, and every value of an integer within the window."""
    elements: dict[str, list[Expression]] = {
        sort: [f"{sort.lower()}_{k}" for k in range(count)] for sort, count in world.sorts.items()
    }
    window: list[Expression] = [_literal(k) for k in range(world.first, world.last + 1)]
    ranges = {**elements, "Int": window}
    result: list[Expression] = []
    for command in commands:
        match command:
            case ["declare-sort", str(sort), "0"]:
                result.append(["declare-datatypes", [[sort, "0"]], [[[element] for element in elements[sort]]]])
            case ["declare-fun", str(name), list(parameters), str(sort)]:
                result.append(command)
                if sort == "Int":
                    choices = product(*(ranges[str(parameter)] for parameter in parameters))
                    result += [_within([name, *choice] if choice else name, world) for choice in choices]
            case ["declare-const", str(name), str(sort)]:
                result.append(command)
                if sort == "Int":
                    result.append(_within(name, world))
            case ["assert", formula]:
                result.append(["assert", expanded(formula, ranges)])
            case _:
                result.append(command)
    return result


def _literal(value: int) -> Expression:
    return str(value) if value >= 0 else ["-", str(-value)]


def _within(term: Expression, world: World) -> Expression:
    return ["assert", ["and", ["<=", _literal(world.first), term], ["<=", term, _literal(world.last)]]]


def expanded(formula: Expression, ranges: Mapping[str, list[Expression]]) -> Expression:
    """The formula with every quantifier written out over the elements of its sorts.

    >>> text_of(expanded(parse("(forall ((x S)) (p x))")[0], {"S": ["a", "b"]}))
    '(and (p a) (p b))'
    """
    return _expand(formula, ranges, {})


def _expand(item: Expression, ranges: Mapping[str, list[Expression]], values: Mapping[str, Expression]) -> Expression:
    if isinstance(item, str):
        return values.get(item, item)
    match item:
        case [str(head), list(bound), body] if head in QUANTIFIERS:
            pairs = [(str(pair[0]), str(pair[1])) for pair in bound]
            instances = [
                _expand(body, ranges, {**values, **dict(zip((name for name, _ in pairs), choice, strict=True))})
                for choice in product(*(ranges[sort] for _, sort in pairs))
            ]
            return instances[0] if len(instances) == 1 else [QUANTIFIERS[head], *instances]
        case _:
            return [_expand(part, ranges, values) for part in item]
