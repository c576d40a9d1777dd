"""Represent statements for all inputs that need no list: sorts, functions, hypotheses with quantifiers, and a goal.

A statement is proved if a solver refutes its hypotheses with the negated goal. That would also succeed if the
hypotheses contradict each other, so each statement has a vacuity check (`twin`): hypotheses and goal together must have
a model. Its *mutants* show that the statement is not weaker than it seems. Each mutant is a named change of its text,
and the negated goal must then have a model: a case in which the mutant is false.

If quantifiers prevent a model, mutants are asked in a *small world*: the declared sorts have a few elements each,
integers under quantifiers come from a window, and every quantifier is written out. Hypotheses that contradict each
other may have a model there. The vacuity check therefore only makes the declared sorts finite, which is one way to
choose them, and ranges over all integers. The proof itself is never restricted.

A statement is well sorted, each name has one meaning, and no value depends on a division by 0.
spec: V4.3, V4.9, V4.16, V4.17, V4.19
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from itertools import product
from typing import NamedTuple, Protocol

from proofs.proving.smt import totality
from proofs.proving.smt.descent import Definitions
from proofs.proving.smt.expressions import Expression, called_function, parse, parse_one, text_of
from proofs.proving.smt.sorts import BOOL, Signature, check_sort_of

DECLARES = frozenset({"declare-sort", "declare-const", "declare-fun", "declare-datatypes", "define-fun"})
"""The commands that may precede the hypotheses.

Assertions are not among them, since no mutant would omit them, and neither are recursive definitions.
"""
QUANTIFIERS = {"forall": "and", "exists": "or"}


class Mutant(NamedTuple):
    """A change of a text that makes it false. The text `old` must occur in it exactly once."""

    name: str
    old: str
    new: str

    def applied(self, text: str) -> str:
        """Return the changed text. Raises ValueError unless there is exactly one place to change."""
        if text.count(self.old) != 1:
            raise ValueError(f"mutant {self.name!r}: {self.old!r} occurs {text.count(self.old)} times")
        return text.replace(self.old, self.new)


class Mutation(Protocol):
    """A named change of a statement's text that makes it false."""

    @property
    def name(self) -> str:
        """The change, in English."""

    def applied(self, text: str) -> str:
        """Return the changed text. Raises ValueError if it does not apply."""


class World(NamedTuple):
    """The number of elements of each declared sort, and the first and last integer that quantifiers range over.

    `meanings` are definitions of some of the declared functions. The vacuity check looks for a case in which they have
    these meanings, if a solver does not find one by itself.
    """

    sorts: Mapping[str, int]
    first: int = -1
    last: int = 4
    meanings: str = ""


class Statement(NamedTuple):
    """A statement about all values of its declared constants and functions.

    `sentence` is the same in English. `declarations` are SMT-LIB commands that declare sorts, functions and constants
    and define functions; `hypotheses` and `goal` are formulas. `mutants` change one place of the whole. `world` is the
    small world of mutants, and has the number of elements for the vacuity check, or None if a solver decides both
    without one. If `is_apart`, each part of a goal that is a conjunction is proved separately, from all hypotheses.
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
        """The text that a mutant changes.

        It is the declarations, each hypothesis as `(assume …)` and the goal as `(prove …)`.
        """
        assumed = "\n".join(f"(assume {hypothesis})" for hypothesis in self.hypotheses)
        return f"{self.declarations}\n{assumed}\n(prove {self.goal})"

    def refutation(self) -> list[str]:
        """Return the commands whose `check-sat` must answer `unsat`. Raises ValueError for a malformed statement."""
        self.check()
        return _commands(self.text, negated=True)

    def check(self) -> None:
        """Check that the statement says what its parts say, and that its value is not left open.

        Raises ValueError unless every part is well sorted, each name has one meaning, nothing is assumed or concluded
        beside the parts, and no value depends on a division by 0.
        """
        signature, assumed = _read_given(self.declarations, self.hypotheses)
        if self.world is not None:
            _check_meanings(self.world, signature)
        goal = parse_one(self.goal)
        check_sort_of(goal, BOOL, signature, {})
        totality.check_defined(goal, Definitions(), self.name, assumed)

    def parts(self) -> Iterator[Statement]:
        """Yield what is proved in turn: the statement, or one for each part of its goal."""
        goal = parse_one(self.goal)
        parts = goal[1:] if self.is_apart and called_function(goal) == "and" else [goal]
        yield from (self._replace(goal=text_of(part)) for part in parts)

    def request(self) -> str:
        """Return the request for a solver that has read nothing.

        The answers "unsat", and "sat" for the vacuity check, discharge it.
        """
        return f"(push){''.join(self.refutation())}(check-sat)(pop)(check-sat)"

    def query(self, read: str = "") -> str:
        """Return the request, in separate scopes, for a solver that has `read` these declarations before.

        The answers "unsat", and "sat" for only the hypotheses, discharge it.
        """
        self.check()
        assumed = " ".join(self.hypotheses)
        return (
            f"(push 1)\n{self.declarations.replace(read, '')}\n(assert (and {assumed}))\n(push 1)\n"
            f"(assert (not {self.goal}))\n(check-sat)(pop 1)(check-sat)(pop 1)\n"
        )

    def twin(self) -> list[str]:
        """Return the commands of the vacuity check, whose `check-sat` must answer `sat`.

        Hypotheses and goal can then hold together. The declared sorts are finite, and integers are not.
        """
        self.check()
        return _commands(self.text, negated=False, sorts=self.world)

    def mutant(self, mutant: Mutation) -> list[str]:
        """Return the commands whose `check-sat` must answer `sat`, with a case in which the mutant is false."""
        return _commands(mutant.applied(self.text), negated=True, world=self.world)


def _check_meanings(world: World, declared: Signature) -> None:
    """Check that the meanings of a world are of the sorts that are declared. Raises ValueError otherwise."""
    signature = Signature()
    signature.sorts |= declared.sorts
    for name, found in declared.functions.items():
        if name in declared.testers:
            signature.declare(name, *found)
    for sort, elements in _elements_of(world).items():
        for element in elements:
            signature.declare(element, (), sort)
    for form in parse(world.meanings):
        if called_function(form) != "define-fun":
            raise ValueError(f"{text_of(form)[:60]!r} defines nothing")
        signature.read(form)
        totality.check_defined(form[-1], Definitions(), str(form[1]))
        name = str(form[1])
        if declared.functions.get(name, signature.functions[name]) != signature.functions[name]:
            raise ValueError(f"the meaning of {name} has other sorts than {name}")


@functools.cache
def _read_given(declarations: str, hypotheses: tuple[str, ...]) -> tuple[Signature, list[Expression]]:
    """Return what is declared and what is assumed, checked, once for all parts of a goal."""
    signature = Signature()
    for form in parse(declarations):
        if called_function(form) not in DECLARES:
            raise ValueError(f"{text_of(form)[:60]!r} neither declares nor defines")
        signature.read(form)
        if called_function(form) == "declare-datatypes" and any(signature.functions[c][0] for c in signature.testers):
            raise ValueError(f"{text_of(form)[:60]!r} declares something other than its elements")
        if called_function(form) == "define-fun":
            totality.check_defined(form[-1], Definitions(), str(form[1]))
    assumed: list[Expression] = []
    for text in hypotheses:
        formula = parse_one(text)
        check_sort_of(formula, BOOL, signature, {})
        totality.check_defined(formula, Definitions(), text[:60], assumed)
        assumed.append(formula)
    return signature, assumed


def _commands(text: str, *, negated: bool, world: World | None = None, sorts: World | None = None) -> list[str]:
    """Return SMT-LIB commands, one each: the declarations, the assumptions, and the goal or its negation.

    They are written out for a world, or only for its sorts.
    """
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
    if sorts is not None:
        commands = _with_finite_sorts(commands, sorts)
    if world is not None:
        commands = _in_world(commands, world)
    return [text_of(command) for command in commands]


def _with_finite_sorts(commands: list[Expression], world: World) -> list[Expression]:
    """Return the commands with finite sorts, quantifiers over these written out, and the meanings of the world."""
    elements = _elements_of(world)
    meant = {str(form[1]): form for form in parse(world.meanings) if called_function(form) == "define-fun"}
    result: list[Expression] = []
    for command in commands:
        match command:
            case ["declare-sort", str(sort), "0"]:
                result.append(_declare_elements(sort, elements))
            case ["declare-fun" | "declare-const", str(name), *_] if name in meant:
                result.append(meant[name])
            case ["assert", formula]:
                result.append(["assert", expand_quantifiers(formula, elements)])
            case ["define-fun", *head, body]:
                result.append(["define-fun", *head, expand_quantifiers(body, elements)])
            case _:
                result.append(command)
    return result


def _elements_of(world: World) -> dict[str, list[Expression]]:
    return {sort: [f"{sort.lower()}_{k}" for k in range(count)] for sort, count in world.sorts.items()}


def _declare_elements(sort: str, elements: Mapping[str, list[Expression]]) -> Expression:
    return ["declare-datatypes", [[sort, "0"]], [[[element] for element in elements[sort]]]]


def _in_world(commands: list[Expression], world: World) -> list[Expression]:
    """Return the commands with finite sorts, no quantifiers, and every value of an integer within the window."""
    elements = _elements_of(world)
    window: list[Expression] = [_literal(k) for k in range(world.first, world.last + 1)]
    ranges = {**elements, "Int": window}
    result: list[Expression] = []
    for command in commands:
        match command:
            case ["declare-sort", str(sort), "0"]:
                result.append(_declare_elements(sort, elements))
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
                result.append(["assert", expand_quantifiers(formula, ranges)])
            case _:
                result.append(command)
    return result


def _literal(value: int) -> Expression:
    return str(value) if value >= 0 else ["-", str(-value)]


def _within(term: Expression, world: World) -> Expression:
    return ["assert", ["and", ["<=", _literal(world.first), term], ["<=", term, _literal(world.last)]]]


def expand_quantifiers(formula: Expression, ranges: Mapping[str, list[Expression]]) -> Expression:
    """Return the formula with every quantifier written out over the elements of its sorts, if they have a range.

    >>> text_of(expand_quantifiers(parse("(forall ((x S)) (p x))")[0], {"S": ["a", "b"]}))
    '(and (p a) (p b))'
    """
    return _expand(formula, ranges, {})


def _expand(item: Expression, ranges: Mapping[str, list[Expression]], values: Mapping[str, Expression]) -> Expression:
    if isinstance(item, str):
        return values.get(item, item)
    match item:
        case [str(head), list(bound), body] if head in QUANTIFIERS:
            pairs = [(str(pair[0]), str(pair[1])) for pair in bound if text_of(pair[1]) in ranges]
            others = [pair for pair in bound if text_of(pair[1]) not in ranges]
            instances = [
                _expand(body, ranges, {**values, **dict(zip((name for name, _ in pairs), choice, strict=True))})
                for choice in product(*(ranges[sort] for _, sort in pairs))
            ]
            if others:
                instances = [[head, others, instance] for instance in instances]
            return instances[0] if len(instances) == 1 else [QUANTIFIERS[head], *instances]
        case _:
            return [_expand(part, ranges, values) for part in item]
