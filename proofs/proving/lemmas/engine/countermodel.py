"""Find a case in which a mutant of a lemma about lists is false: short lists of unknown values, found by a solver.

The proof of a mutant by induction fails in its step, whose model does not help a reader. Instead, the mutated claim
itself is asked about lists of up to a few cells, for all lengths in turn, shortest first. The solver's answer is a case
that can be followed by hand. spec: V4.9
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

from proofs.proving.lemmas.engine.induction import Lemma
from proofs.proving.lemmas.engine.statements import Mutant
from proofs.proving.smt import descent
from proofs.proving.smt.expressions import Expression, parse_one, substitute, text_of
from proofs.proving.solvers import Solver

LONGEST = 5
"""The maximum number of cells of one list."""
CELLS = 9
"""The maximum number of cells of all lists of a case together."""


class NoAnswer(Exception):
    """A solver did not decide whether there is a case. The message is its answer."""


def find_countermodel(lemma: Lemma, mutant: Mutant, definitions: str, solver: Solver, timeout_s: float) -> str | None:
    """Return values that make the mutated lemma false, as text, or None if no case of this size does.

    `solver` has read nothing; it is closed afterwards. Raises ValueError for a mutant that does not apply, `Unfounded`
    if the mutated definitions may not end, and `NoAnswer` if the solver does not decide.
    """
    text, _, goal = mutant.applied(f"{definitions}\n(prove {lemma.claim})").rpartition("(prove ")
    return find_first_case(lemma, ["not", parse_one(f"({goal}")[0]], text, solver, timeout_s)


def find_first_case(
    lemma: Lemma,
    formula: Expression,
    definitions: str,
    solver: Solver,
    timeout_s: float,
    order: Callable[[list[tuple[str, str]]], bool] | None = None,
) -> str | None:
    """Return the values of the first case that satisfies a formula over the lemma's variables.

    Returns None if there is none. Cases come shortest first. With `order`, those whose constants make it false come
    before the others. `solver` has read nothing; it is closed afterwards. Raises `NoAnswer` if a case was not decided
    and none was found.
    """
    known = descent.check_definitions(definitions)
    found = cases(lemma, formula, known)
    undecided = ""
    try:
        given = solver.evaluate(f"(set-option :produce-models true){definitions}", timeout_s)
        if given.failure is not None or given.text:
            raise NoAnswer(given.failure or f"the solver answers {given.text[:60]!r}")
        for constants, case in found if order is None else sorted(found, key=lambda each: order(each[0])):
            declared = "".join(f"(declare-const {name} {sort})" for name, sort in constants)
            answer = solver.evaluate(f"(push){declared}(assert {text_of(case)})(check-sat)", timeout_s)
            if answer.failure is not None:
                raise NoAnswer(answer.failure)
            if answer.text == "sat":
                return values_of([name for name, _ in constants], solver, timeout_s)
            if answer.text != "unsat":
                undecided = f"the solver answers {answer.text[:60]!r}"
            solver.evaluate("(pop)", timeout_s)
        if undecided:
            raise NoAnswer(undecided)
        return None
    finally:
        solver.close()


def values_of(names: list[str], solver: Solver, timeout_s: float) -> str:
    """Return the values of some constants in the solver's current model, as `name = value` with commas between.

    Raises `NoAnswer` if the solver does not give them.
    """
    if not names:
        return "no values: it is false without any"
    answer = solver.evaluate(f"(get-value ({' '.join(names)}))", timeout_s)
    if answer.failure is not None:
        raise NoAnswer(answer.failure)
    pairs = parse_one(answer.text)
    return ", ".join(f"{text_of(pair[0])} = {text_of(pair[1])}" for pair in pairs if isinstance(pair, list))


def cases(
    lemma: Lemma, claim: Expression, known: descent.Definitions
) -> Iterator[tuple[list[tuple[str, str]], Expression]]:
    """Yield the claim with each list of some length, and the constants that it then has, shortest first."""
    lists = [(name, known.lists[sort]) for name, sort in lemma.variables.items() if sort in known.lists]
    plain = [(name, sort) for name, sort in lemma.variables.items() if sort not in known.lists]
    sizes = [size for size in product(range(LONGEST + 1), repeat=len(lists)) if sum(size) <= CELLS]
    for size in sorted(sizes, key=lambda size: (sum(size), size)):
        constants, values = list(plain), {}
        for (name, made), length in zip(lists, size, strict=True):
            built: Expression = made.empty
            for k in reversed(range(length)):
                fields = [(f"{name}_{k}_{field}", sort) for field, sort in made.fields]
                constants += fields
                built = [made.cell, *(field for field, _ in fields), built]
            values[name] = built
        yield constants, substitute(claim, values)
