"""False or vacuous lemmas, stated as a lemma is stated, each of which the engine would prove without one of its checks.

An attack makes a family from two numbers, and its lemma `false` must not be proved. `check` holds the check that
refuses it, as an object and an attribute; with `without` in its place the lemma is proved. spec: V4.9, V4.16 to V4.20
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from proofs.proving.lemmas.engine import family, induction, machine, statements
from proofs.proving.lemmas.engine.family import Family
from proofs.proving.lemmas.engine.induction import Lemma
from proofs.proving.lemmas.engine.machine import Inductive, Machine, MachineRule
from proofs.proving.lemmas.engine.statements import Mutant, Statement, World

LISTS = "(declare-datatypes ((L 0)) (((nil) (cell (head Int) (tail L)))))"


class Attack(NamedTuple):
    """A kind of lemma that must not be proved, and the check that refuses it."""

    make: Callable[[int, int], Family]
    check: tuple[object, str]
    without: Callable[..., Any]


def is_number(value: int, of: str = "x") -> str:
    """Return the formula that a variable has a value."""
    return f"(= {of} {number(value)})"


def number(value: int, half: str = "") -> str:
    """Return a number, or the one half above it, as SMT-LIB."""
    if half and value < 0:
        return f"(- {-value - 1}.5)"
    return f"{value}{half}" if value >= 0 else f"(- {-value})"


def _lemma(claim: str, old: str, new: str, name: str = "false", sort: str = "Int", **more: Any) -> Lemma:
    """Return a lemma about x, or about the variables that are given, with one mutant."""
    variables = more.pop("variables", {"x": sort})
    return Lemma(name, "False.", variables, claim, mutants=(Mutant("m", old, new),), **more)


def _of_lists(*context: Lemma, asked: tuple[Lemma, ...] = ()) -> Family:
    return Family("here/lists", asked or context[-1:], LISTS, context)


def _stated(hypotheses: tuple[str, ...], goal: str, old: str, new: str, declared: str = "", **more: Any) -> Family:
    declared = f"(declare-const x Int){declared}"
    return Family("here", (Statement("false", "False.", declared, hypotheses, goal, (Mutant("m", old, new),), **more),))


def _unlike(a: int) -> tuple[str, str, str]:
    """Return that a number of some is not a, which is false of a, and a mutant of it."""
    return f"(=> (<= {number(a - 3)} x) (distinct x {number(a)}))", f"(distinct x {number(a)})", "false"


# Terms of another sort than their place


def _half(a: int, b: int) -> Family:
    """No integer is between a and a + 1; used at a number that is."""
    claim = f"(=> (= y {number(b)}) (or (<= x {number(a)}) (>= x {number(a + 1)})))"
    of_two = {"x": "Int", "y": "Int"}
    between = _lemma(claim, f"(>= x {number(a + 1)})", "false", "between", variables=of_two)
    return _of_lists(between, _lemma(*_unlike(b), using=(("between", {"x": number(a, ".5"), "y": "x"}),)))


def _half_in_a_step(a: int, b: int) -> Family:
    """The same in the lemma's own hypothesis, at the rest of the list."""
    unlike, variables = f"(distinct y {number(b)})", {"l": "L", "x": "Int", "y": "Int"}
    claim = f"(or {unlike} (and (= l nil) (or (<= x {number(a)}) (>= x {number(a + 1)}))))"
    return _of_lists(_lemma(claim, unlike, f"(distinct y {number(b + 1)})", variables=variables,
                            over="l", hypotheses=({"x": number(a, ".5")},)))  # fmt: skip


def _numbers_for_truth(a: int, b: int) -> Family:
    """Of three truth values two are equal; of three numbers they need not be."""
    claim = "(not (distinct p q r))"
    truth = _lemma(claim, claim, "false", "two", variables=dict.fromkeys(("p", "q", "r"), "Bool"))
    numbers = {"p": "x", "q": f"(+ x {abs(b) + 1})", "r": f"(+ x {abs(b) + 2})"}
    return _of_lists(truth, _lemma(*_unlike(a), using=(("two", numbers),)))


# Names


def _name_twice(a: int, b: int) -> Family:
    """A false lemma, one that uses it, and a true one of the name of the first."""
    untrue = _lemma(is_number(a), is_number(a), "false", "twice")
    claim = f"(=> (<= {number(a)} x) {is_number(a)})"
    uses = _lemma(claim, is_number(a), is_number(a + 1), using=(("twice", {}),))
    true = _lemma("(= x x)", "(= x x)", "false", "twice")
    return _of_lists(untrue, uses, true, asked=(uses, true))


def _not_asked_for(a: int, b: int) -> Family:
    """A false lemma that is used, and is not among those that are asked for."""
    untrue, uses, _ = _name_twice(a, b).context
    return _of_lists(untrue, uses, asked=(uses,))


def _another_of_that_name(a: int, b: int) -> Family:
    """A false lemma with the name of a true one."""
    untrue = _lemma(is_number(a), is_number(a), "false")
    return _of_lists(_lemma("(= x x)", "(= x x)", "false"), asked=(untrue,))


# Statements


def _bounded(a: int, b: int) -> Family:
    """No integer exceeds a bound. In a small world that ends there, nothing contradicts it."""
    last = abs(a) + 1
    return _stated((f"(forall ((k Int)) (<= k {last}))", "(<= x 0)"), "(= x 0)", "(prove (= x 0))",
                   "(prove (= x 1))", world=World({}, -1, last))  # fmt: skip


def _meaning_of_another_sort(a: int, b: int) -> Family:
    """Hypotheses that hold only of a function of real numbers, which the world says it is."""
    between = f"(and (< {number(a)} (f k)) (< (f k) {number(a + 1)}))"
    world = World({}, -20, 20, f"(define-fun f ((k Int)) Real {number(a, '.5')})")
    return _stated((f"(forall ((k Int)) {between})",), is_number(b), between, "true", "(declare-fun f (Int) Int)",
                   world=world)  # fmt: skip


def _goal_in_the_declarations(a: int, b: int) -> Family:
    """A true goal beside a false one. Their negations contradict each other."""
    return _stated((), is_number(a), "(prove true)", "", "(prove true)")


def _assumed_in_the_declarations(a: int, b: int) -> Family:
    """An assumption that is none of the hypotheses."""
    return _stated((), is_number(a), f"(prove {is_number(a)})", "(prove false)", f"(assume {is_number(a)})")


def _captured(a: int, b: int) -> Family:
    """One value is set, of an element with the name that a generated equation binds: then all are."""
    rule = MachineRule("Set", "One is set.", f"(any z0 S) (set (of z0) {number(a)}) (set begun true)"
                       " (gives (= begun' true))", (Mutant("m", "(= begun' true)", "(= begun' false)"),))  # fmt: skip
    init = MachineRule("Init", "None.", "(not begun)", (Mutant("m", "(not begun)", "(= begun true)"),))
    invariant = f"(=> begun (forall ((s S)) (= (of s) {number(a)})))"
    return _inductive(Machine("set", "All are set.", "(declare-sort S 0)", "(of (S) Int) (begun () Bool)", init,
                              invariant, (rule,), World({"S": 2}, -20, 20)))  # fmt: skip


# Machines: a number that grows, and an invariant that it does not exceed the most


_SAME, _NOT_SAME = "(gives (= most most))", Mutant("m", "(= most most)", "(< most most)")
_GROW = MachineRule("Grow", "It grows.", f"(set n (+ n 1)) {_SAME}", (_NOT_SAME,))


def _counter(a: int, **changed: Any) -> Machine:
    init = MachineRule("Init", "It is small.", f"{is_number(a, 'n')} (<= n most) {_SAME}", (_NOT_SAME,))
    made = Machine("counter", "It stays small.", "(declare-const most Int)", "(n () Int) (m () Int)", init,
                   "(<= n most)", (_GROW,), World({}, -20, 20))  # fmt: skip
    return replace(made, **changed)


def _inductive(made: Machine, *cases: Statement) -> Family:
    lemma = made.lemmas()[0]
    assert isinstance(lemma, Inductive)
    return Family("here", (lemma._replace(name="false", cases=cases or lemma.cases),))


def _invariant_of_the_state_before(a: int, b: int) -> Family:
    """The invariant calls a function of the state, whose value a prime does not change."""
    init = MachineRule("Init", "It is small.", f"(= true small) {_SAME}", (_NOT_SAME,))
    return _inductive(_counter(a, init=init, definitions="(define-fun small () Bool (<= n most))",
                               invariant="(= small true)"))  # fmt: skip


def _assumed_of_the_state(a: int, b: int) -> Family:
    """That there is room for one more is assumed as if it were of the constants."""
    return _inductive(_counter(a, assumed="(<= (+ n 1) most)"))


def _no_obligation(a: int, b: int) -> Family:
    """The action that breaks the invariant has no obligation."""
    made = _counter(a)
    return _inductive(made, made.obligations()[0])


def _assumed_of_an_action(a: int, b: int) -> Family:
    """The obligation assumes more than the invariant and its guards."""
    made = _counter(a)
    init, grow = made.obligations()
    mutant = Mutant("m", "(prove ", "(prove (not true)) (assume ")
    more = grow._replace(hypotheses=(*grow.hypotheses, "(<= (+ n 1) most)"), mutants=(mutant,))
    return _inductive(made, init, more)


def _concluded_of_an_action(a: int, b: int) -> Family:
    """The obligation does not conclude the invariant."""
    made = _counter(a)
    init, grow = made.obligations()
    return _inductive(made, init, grow._replace(goal="(= most most)", mutants=(Mutant("m", "(= most most)", "false"),)))


def _next_is_now(a: int, b: int) -> Family:
    """The obligation defines its next state as the state before it."""
    made = _counter(a)
    init, grow = made.obligations()
    defined = grow.declarations.replace("(declare-const n_next Int)", "(define-fun n_next () Int n)")
    kept = tuple(each for each in grow.hypotheses if not each.startswith("(= n_next"))
    mutants = (Mutant("m", f"(prove {grow.goal})", "(prove false)"),)
    return _inductive(made, init, grow._replace(declarations=defined, hypotheses=kept, mutants=mutants))


def _effects_in_a_circle(a: int, b: int) -> Family:
    """Two effects that depend on each other hold only where there is room for one more."""
    text = "(set n (ite (<= (+ n 1) most) m' (+ m' 1))) (set m n') (<= n' n) (gives (<= (+ n 1) most))"
    rule = MachineRule("Grow", "It grows.", text, (Mutant("m", "(gives (<= (+ n 1) most))", "(gives (<= most n))"),))
    return _inductive(_counter(a, actions=(rule,)))


def _twin_in_the_small_world(statement: Statement) -> list[str]:
    return statements._commands(statement.text, negated=False, world=statement.world)


def _accept(*_: object) -> None:
    """Check nothing."""


ATTACKS: dict[str, Attack] = {
    "half": Attack(_half, (induction, "_find_wrong_term"), lambda *_: ""),
    "half in a step": Attack(_half_in_a_step, (induction, "_find_wrong_term"), lambda *_: ""),
    "numbers for truth": Attack(_numbers_for_truth, (induction, "_find_wrong_term"), lambda *_: ""),
    "name twice": Attack(_name_twice, (induction, "_check_name"), _accept),
    "not asked for": Attack(_not_asked_for, (Family, "used_by"), lambda *_: []),
    "another of that name": Attack(_another_of_that_name, (family, "_check_is"), _accept),
    "bounded": Attack(_bounded, (Statement, "twin"), _twin_in_the_small_world),
    "meaning of another sort": Attack(_meaning_of_another_sort, (statements, "_check_meanings"), _accept),
    "goal in the declarations": Attack(_goal_in_the_declarations, (Statement, "check"), _accept),
    "assumed in the declarations": Attack(_assumed_in_the_declarations, (Statement, "check"), _accept),
    "captured": Attack(_captured, (statements, "check_sort_of"), _accept),
    "invariant of the state before": Attack(_invariant_of_the_state_before, (machine, "_check_invariant"), _accept),
    "assumed of the state": Attack(_assumed_of_the_state, (machine, "_check_assumed"), _accept),
    "no obligation": Attack(_no_obligation, (machine, "_check_rules"), _accept),
    "assumed of an action": Attack(_assumed_of_an_action, (machine, "_check_case"), lambda *_: []),
    "concluded of an action": Attack(_concluded_of_an_action, (machine, "_check_case"), lambda *_: []),
    "next is now": Attack(_next_is_now, (machine, "_check_declared"), _accept),
    "effects in a circle": Attack(_effects_in_a_circle, (machine, "_check_effects"), _accept),
}
"""Every kind of attack. All are ways to state a lemma: none changes the engine."""
