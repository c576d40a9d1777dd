"""Represent transition systems: variables, Init, actions and an invariant, each stated once, and their lemmas.

As in TLA+, a formula names a variable of a state by its name, and of the next state by its name with a prime. A machine
gives one lemma that the invariant is inductive (Init establishes it and each action keeps it), and a lemma for each
property that it promises of a state. An action may assume only the invariant, and it must conclude the same text with
primes. Therefore nothing can be assumed that no obligation concludes. `check_inductive` checks this of the statements
themselves, however they were made. spec: V4.9, V4.14, V4.20
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from proofs.proving.lemmas.engine.statements import QUANTIFIERS, Mutant, Statement, World
from proofs.proving.smt.expressions import Expression, called_function, parse, parse_one, text_of, walk

NEXT = "_next"
"""The suffix, in a statement, of a variable's name in the next state."""


class Without(NamedTuple):
    """The mutant that leaves out the one form that contains `part`. A variable that loses its effect stays."""

    name: str
    part: str


class MachineRule(NamedTuple):
    """Init, an action, or a property that is promised of every state.

    `text` is a list of forms. `(any x Sort)` and `(any f (Sort …) Sort)` declare parameters. `(set v value)` and `(set
    (f a ?k) value)` are effects, the latter at each place whose arguments without `?` are as given. `(any v')` lets a
    variable change in any way; a variable without an effect stays. `(gives formula)`, only in a promise, is concluded
    in addition to the invariant. Every other form is a guard, or an assumption. `mutants` each make the rule's
    obligation false; `world` replaces the machine's world for them. `module` names the actions of the TLA+ module that
    correspond to the rule, if they are not called `name`.
    """

    name: str
    sentence: str
    text: str
    mutants: tuple[Mutant | Without, ...]
    world: World | None = None
    module: tuple[str, ...] = ()


@dataclass(frozen=True)
class Machine:
    """A transition system. Every field but the first two and the last is a text of SMT-LIB forms.

    `declarations` are sorts and constants. `state` has the variables, each `(name (Sort …) Sort)` without a prime, and
    `definitions` has functions of a state. `assumed` holds of the constants; `step` is promised of each step.
    `witnesses` are variables that no program has; they turn a property "there is …" into one without a quantifier. If
    `is_apart`, each clause that an action must establish is proved separately, from all that the action may assume.
    """

    name: str
    sentence: str
    declarations: str
    state: str
    init: MachineRule
    invariant: str
    actions: tuple[MachineRule, ...]
    world: World
    assumed: str = ""
    definitions: str = ""
    step: str = ""
    promises: tuple[MachineRule, ...] = ()
    witnesses: tuple[str, ...] = ()
    is_apart: bool = False

    @property
    def variables(self) -> dict[str, tuple[list[Expression], str]]:
        """Each variable with the sorts of its arguments and of its value."""
        return {str(form[0]): (list(form[1]), str(form[2])) for form in _forms(self.state)}

    def obligations(self) -> tuple[Statement, ...]:
        """Return the statements that Init establishes the invariant and that each action keeps it."""
        return tuple(self.statement(rule) for rule in (self.init, *self.actions))

    def lemmas(self) -> tuple[Inductive | Statement, ...]:
        """Return the lemma that the invariant is inductive, and each promise."""
        inductive = Inductive(f"{self.name}_is_inductive", self.sentence, self.obligations(), self)
        return (inductive, *(self.statement(rule) for rule in self.promises))

    def rule(self, name: str) -> MachineRule:
        """Return Init, an action or a promise by its name."""
        (found,) = [rule for rule in (self.init, *self.actions, *self.promises) if rule.name == name]
        return found

    def statement(self, rule: MachineRule) -> Statement:
        """Return the obligation of one rule, with its mutants. Raises ValueError for a malformed text."""
        return _statement(self, rule)._replace(
            mutants=tuple(MachineMutant(self, rule, mutant) for mutant in rule.mutants)
        )


class Inductive(NamedTuple):
    """The lemma that the invariant of a machine is inductive: an obligation for Init and for each action."""

    name: str
    sentence: str
    cases: tuple[Statement, ...]
    machine: Machine


@dataclass(frozen=True)
class MachineMutant:
    """A mutant of a generated statement. The mutant is generated from the changed machine."""

    machine: Machine
    rule: MachineRule
    mutant: Mutant | Without

    @property
    def name(self) -> str:
        """The change, in English."""
        return self.mutant.name

    def applied(self, text: str) -> str:
        """Return the text of the changed statement.

        Raises ValueError unless there is one place to change and the text changes.
        """
        changed = _changed(self.machine, self.rule, self.mutant).text
        if changed == text:
            raise ValueError(f"mutant {self.name!r} changes nothing")
        return changed


def prime(expression: Expression, variables: Mapping[str, object]) -> Expression:
    """Return the formula with each variable as it is in the next state.

    >>> text_of(prime(parse_one("(< (f x) now)"), {"f": 0, "now": 0}))
    '(< (f_next x) now_next)'
    """
    return _renamed(expression, {name: f"{name}{NEXT}" for name in variables})


def _renamed(expression: Expression, names: Mapping[str, str]) -> Expression:
    if isinstance(expression, str):
        return names.get(expression, expression)
    return [_renamed(part, names) for part in expression]


def _forms(text: str) -> list[list[Expression]]:
    """Return the top-level forms of a text, none of them a symbol."""
    forms = parse(text)
    if plain := [form for form in forms if isinstance(form, str)]:
        raise ValueError(f"{plain[0]!r} is not a formula")
    return [form for form in forms if isinstance(form, list)]


FIELDS = ("declarations", "definitions", "assumed", "invariant", "step")
"""The parts of a machine that a mutant may change, in addition to the rule."""


def _changed(machine: Machine, rule: MachineRule, mutant: Mutant | Without) -> Statement:
    """Return the obligation of the rule with one place of the rule, or else of the machine, changed.

    Raises ValueError unless there is one such place: a form that is the mutant's text, or else one that contains it
    once.
    """
    part = mutant.part if isinstance(mutant, Without) else mutant.old
    texts = {name: [text_of(form) for form in _forms(getattr(machine, name))] for name in FIELDS}
    own = [text_of(form) for form in _forms(rule.text)]
    for lines in (own, [line for field in texts.values() for line in field]):
        found = [line for line in lines if line == part] or [line for line in lines if part in line]
        if found:
            break
    if len(found) != 1 or (isinstance(mutant, Mutant) and found[0].count(part) != 1):
        raise ValueError(f"mutant {mutant.name!r} of {rule.name}: {part!r} occurs in {len(found)} forms, or not once")
    new = "" if isinstance(mutant, Without) else found[0].replace(part, mutant.new)
    if lines is own:
        return _statement(machine, rule._replace(text="\n".join(new if line is found[0] else line for line in own)))
    changed: dict[str, Any] = {
        name: "\n".join(new if line is found[0] else line for line in field) for name, field in texts.items()
    }
    return _statement(replace(machine, **changed), rule)


def _statement(machine: Machine, rule: MachineRule) -> Statement:
    variables = machine.variables
    parts = _Parts(rule, variables)
    is_action = rule in machine.actions or rule.name in {action.name for action in machine.actions}
    invariant = _formulas(machine.invariant, variables)
    declared = [*_forms(machine.declarations), *_declared(variables, ""), *_forms(machine.definitions)]
    if is_action:
        declared += _declared(variables, NEXT)
        given = [*invariant, *parts.guards, *parts.effects(variables)]
        concluded = [prime(clause, variables) for clause in invariant] + _formulas(machine.step, variables)
    elif parts.updates or parts.free:
        raise ValueError(f"{rule.name} is not an action and changes a variable")
    else:
        of_init = rule.name == machine.init.name
        given = list(parts.guards) if of_init else [*invariant, *parts.guards]
        concluded = invariant if of_init else []
    hypotheses = [*_formulas(machine.assumed, variables), *given]
    return Statement(
        rule.name,
        rule.sentence,
        "\n".join(text_of(form) for form in (*declared, *parts.parameters)),
        tuple(text_of(formula) for formula in hypotheses),
        conjunction([*concluded, *parts.gives]),
        (),
        rule.world or machine.world,
        machine.is_apart,
    )


class _Parts:
    """The forms of a rule by their kind."""

    def __init__(self, rule: MachineRule, variables: Mapping[str, tuple[list[Expression], str]]) -> None:
        self.parameters: list[Expression] = []
        self.updates: dict[str, tuple[Expression, Expression]] = {}
        self.free: set[str] = set()
        self.guards: list[Expression] = []
        self.gives: list[Expression] = []
        for form in _forms(rule.text):
            match form:
                case ["any", str(name), str(sort)]:
                    self.parameters.append(["declare-const", name, sort])
                case ["any", str(name), list(sorts), str(sort)]:
                    self.parameters.append(["declare-fun", name, sorts, sort])
                case ["any", str(name)] if name.removesuffix("'") in variables:
                    self.free.add(name.removesuffix("'"))
                case ["set", target, value]:
                    name = target if isinstance(target, str) else called_function(target)
                    if name not in variables or name in self.updates:
                        raise ValueError(f"{rule.name}: {name!r} is not a variable, or has two effects")
                    here, new = _checked([target, value], variables)
                    self.updates[name] = here, new
                case ["gives", formula]:
                    self.gives += _checked([formula], variables)
                case _:
                    self.guards += _checked([form], variables)

    def effects(self, variables: Mapping[str, tuple[list[Expression], str]]) -> Iterator[Expression]:
        """Yield an equation for each variable: its effect, or that it stays."""
        for name, (sorts, _) in variables.items():
            places = [f"z{k}" for k in range(len(sorts))]
            target, value = self.updates.get(name, (name, [name, *places] if sorts else name))
            if name in self.free:
                continue
            if not sorts:
                yield ["=", f"{name}{NEXT}", value]
                continue
            here: list[Expression] = []
            for k, place in enumerate(target[1:] if isinstance(target, list) else ()):
                if isinstance(place, str) and place.startswith("?"):
                    places[k] = place
                else:
                    here.append(["=", places[k], place])
            bound: list[Expression] = [[place, sort] for place, sort in zip(places, sorts, strict=True)]
            result: Expression = ["ite", parse_one(conjunction(here)), value, [name, *places]] if here else value
            yield ["forall", bound, ["=", [f"{name}{NEXT}", *places], result]]


def _formulas(text: str, variables: Mapping[str, object]) -> list[Expression]:
    return _checked(list(_forms(text)), variables)


def _checked(formulas: list[Expression], variables: Mapping[str, object]) -> list[Expression]:
    """Return the formulas with primed variables by their names.

    Raises ValueError for a bound name or a forbidden prime.
    """
    names = {f"{name}'": f"{name}{NEXT}" for name in variables}
    for item in (item for formula in formulas for item in walk(formula)):
        if called_function(item) in QUANTIFIERS:
            if taken := [pair[0] for pair in item[1] if str(pair[0]) in variables]:
                raise ValueError(f"a quantifier binds {taken[0]!r}, which is a variable of the machine")
        elif isinstance(item, str) and item.endswith("'") and item not in names:
            raise ValueError(f"{item!r} is not a variable of the next state")
    return [_renamed(formula, names) for formula in formulas]


def _declared(variables: Mapping[str, tuple[list[Expression], str]], suffix: str) -> list[Expression]:
    return [
        ["declare-fun", f"{name}{suffix}", sorts, sort] if sorts else ["declare-const", f"{name}{suffix}", sort]
        for name, (sorts, sort) in variables.items()
    ]


def conjunction(formulas: list[Expression]) -> str:
    """Return their conjunction as one formula. SMT-LIB has no conjunction of one."""
    return text_of(formulas[0]) if len(formulas) == 1 else text_of(["and", *formulas])


class NotInductive(ValueError):
    """The obligations of a machine do not show that its invariant is inductive."""


def check_inductive(lemma: Inductive) -> None:
    """Check that the obligations of a lemma are an induction over the steps of its machine.

    Examines only the statements, not how they were made. There is one for Init and one for each action. Init concludes
    the invariant. Each action assumes the invariant and nothing else of the state before it but its own guards; it
    concludes the invariant of the next state, all of it. Its effects define the next state: each variable by one
    equation, from the state before it and from variables that are defined without it. What is assumed of the constants
    and what the invariant calls has the same value in both states. Raises `NotInductive` otherwise.
    """
    machine = lemma.machine
    variables = frozenset(machine.variables)
    invariant, assumed = _forms(machine.invariant), _forms(machine.assumed)
    of_state = _find_functions_of_state(machine, variables)
    _check_rules(lemma)
    _check_assumed(machine, assumed, variables | of_state)
    _check_invariant(machine, invariant, of_state)
    _check_declared(lemma.cases[0], machine, [])
    _check_case(lemma.cases[0], assumed, [], invariant, _own_forms(machine.init, variables))
    for case, rule in zip(lemma.cases[1:], machine.actions, strict=False):
        _check_declared(case, machine, [NEXT])
        after = [prime(clause, machine.variables) for clause in invariant]
        effects = _check_case(case, assumed, invariant, after, _own_forms(rule, variables))
        _check_effects(case.name, effects, variables)


def _check_rules(lemma: Inductive) -> None:
    """Check that there is one obligation for Init and one for each action."""
    rules = (lemma.machine.init, *lemma.machine.actions)
    if [case.name for case in lemma.cases] != [rule.name for rule in rules]:
        raise NotInductive(f"{lemma.name}: there is not one obligation for Init and for each action")


def _check_assumed(machine: Machine, assumed: list[list[Expression]], of_state: frozenset[str]) -> None:
    """Check that what is assumed of the constants is of no state."""
    if named := _find_symbol(assumed, of_state):
        raise NotInductive(f"{machine.name}: what is assumed of the constants names {named}, which is of a state")


def _check_invariant(machine: Machine, invariant: list[list[Expression]], of_state: frozenset[str]) -> None:
    """Check that the invariant depends on the state only by the variables that it names, since those get the primes."""
    if named := _find_symbol(invariant, of_state):
        raise NotInductive(f"{machine.name}: the invariant calls {named}, which is of the state before a step")


def _check_declared(case: Statement, machine: Machine, suffixes: list[str]) -> None:
    """Check that an obligation declares what its machine does, the next state, and parameters without a meaning."""
    expected = [
        *_forms(machine.declarations), *_declared(machine.variables, ""), *_forms(machine.definitions),
        *(form for suffix in suffixes for form in _declared(machine.variables, suffix)),
    ]  # fmt: skip
    found = _forms(case.declarations)
    more = [form for form in found[len(expected) :] if called_function(form) not in ("declare-const", "declare-fun")]
    if found[: len(expected)] != expected or more:
        raise NotInductive(f"{case.name} does not declare the constants and the states of its machine")


def _check_case(
    case: Statement,
    assumed: list[list[Expression]],
    before: list[list[Expression]],
    after: list[Expression] | list[list[Expression]],
    own: list[Expression],
) -> list[Expression]:
    """Check what an obligation assumes and concludes. Return its hypotheses that are neither given nor guards."""
    goal = parse_one(case.goal)
    concluded = [goal, *goal[1:]] if isinstance(goal, list) and called_function(goal) == "and" else [goal]
    if absent := [clause for clause in after if clause not in concluded]:
        raise NotInductive(f"{case.name} does not conclude {text_of(absent[0])[:80]!r}")
    found = [parse_one(text) for text in case.hypotheses]
    if absent := [clause for clause in before if clause not in found]:
        raise NotInductive(f"{case.name} does not assume {text_of(absent[0])[:80]!r}")
    rest = [formula for formula in found if formula not in assumed and formula not in before and formula not in own]
    if not before and rest:
        raise NotInductive(f"{case.name} assumes {text_of(rest[0])[:80]!r}, which is not in its text")
    return rest


def _own_forms(rule: MachineRule, variables: frozenset[str]) -> list[Expression]:
    """Return the forms of a rule as a statement has them, with variables of the next state by their names."""
    names = {f"{name}'": f"{name}{NEXT}" for name in variables}
    return [_renamed(form, names) for form in _forms(rule.text)]


def _check_effects(name: str, effects: list[Expression], variables: frozenset[str]) -> None:
    """Check that formulas define variables of the next state, each once, in an order."""
    uses: dict[str, set[str]] = {}
    after = {f"{variable}{NEXT}" for variable in variables}
    for formula in effects:
        match formula:
            case ["=", str(variable), value] if variable in after:
                pass
            case ["forall", list(bound), ["=", [str(variable), *places], value]] if variable in after:
                if [pair[0] for pair in bound] != places:
                    raise NotInductive(f"{name}: {text_of(formula)[:80]!r} does not define {variable} everywhere")
            case _:
                raise NotInductive(f"{name} assumes {text_of(formula)[:80]!r}, which is neither given nor its guard")
        if variable in uses:
            raise NotInductive(f"{name} has two effects on {variable}")
        uses[variable] = {item for item in walk(value) if isinstance(item, str)} & after
    while ready := [variable for variable, used in uses.items() if not used & uses.keys()]:
        for variable in ready:
            del uses[variable]
    if uses:
        raise NotInductive(f"{name}: the effect on {min(uses)} depends on itself")


def _find_functions_of_state(machine: Machine, variables: frozenset[str]) -> frozenset[str]:
    """Return the defined functions whose value depends on a variable that is not their parameter."""
    found: set[str] = set()
    for form in _forms(machine.definitions):
        if _find_symbol([form[-1]], variables | found):
            found.add(str(form[1]))
    return frozenset(found)


def _find_symbol(formulas: list[Expression] | list[list[Expression]], names: frozenset[str] | set[str]) -> str:
    """Return a symbol of some formulas that is one of the names, or ""."""
    return next((item for formula in formulas for item in walk(formula) if isinstance(item, str) and item in names), "")
