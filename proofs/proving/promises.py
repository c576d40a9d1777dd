"""Ask a solver the three promises, taken directly from their definition, and read a counterexample from its model.

    python -m proofs.proving.promises PLAN

spec: V4.7
"""

from __future__ import annotations

import sys

from proofs.definition.promises import Finding, Question, questions
from proofs.proving.smt.expressions import parse_one
from proofs.proving.solvers import DISCHARGED, Answer, Solver
from proofs.proving.solvers.process import SolverProcess
from tmmu.core.errors import TmmuError
from tmmu.core.output import print_lines
from tmmu.plans import file
from tmmu.plans.allocation import Placement
from tmmu.plans.sections import Claims


def ask(placement: Placement, claims: Claims | None, solver: Solver, timeout_s: float) -> tuple[Answer, Finding | None]:
    """Ask a solver that has read nothing yet.

    Return its first answer that proves nothing, and what breaks a promise.
    """
    seconds = 0.0
    for one in questions(placement, claims):
        text = f"(set-option :produce-models true)\n{one.tables}\n{one.breaks}(check-sat)"
        first = solver.evaluate(text, timeout_s)
        seconds += first.seconds
        if first.failure is not None:
            return first, None
        if first.text == "sat":
            found = _model(solver.evaluate(f"(get-value ({' '.join(one.unknowns)}))", timeout_s), one)
            return Answer("sat\nsat", None, seconds), found
        again = solver.evaluate(f"(reset)\n{one.tables}\n{one.canary}(check-sat)", timeout_s)
        seconds += again.seconds
        if one.promise.startswith("slot") and (first.text, again.text) == ("unsat", "unsat"):
            return Answer("sat\nsat", None, seconds), Finding("at every step fewer storages live than there are slots")
        if again.failure is not None or (first.text, again.text) != ("unsat", "sat"):
            return Answer(f"{first.text}\n{again.text}", again.failure, seconds), None
        solver.evaluate("(reset)", timeout_s)
    return Answer(DISCHARGED, None, seconds), None


def _model(answer: Answer, one: Question) -> Finding | None:
    """Read the values of the unknowns from `((i #b01) (j #b10))`, as the question prescribes."""
    pairs = parse_one(answer.text) if answer.failure is None else []
    values = [pair[-1] for pair in pairs if isinstance(pair, list) and len(pair) == 2]
    bits = [value for value in values if isinstance(value, str) and value.startswith("#")]
    known = len(bits) == len(pairs) == len(one.unknowns)
    return one.read([int(f"0{value[1:]}", 0) for value in bits]) if known else None


def main(path: str) -> int:
    """Ask Z3 only, and print what holds or what breaks it. Return 0, 1, 3 or 4, the exit codes of verify-plan."""
    try:
        plan = file.load_any(path).plan
    except TmmuError as error:
        print_lines(str(error), err=True)
        return 4
    with SolverProcess() as solver:
        answer, found = ask(plan.placement, plan.claims, solver, 600.0)
    if answer.proof:
        for name in dict.fromkeys(one.promise for one in questions(plan.placement, plan.claims)):
            print_lines(f"{name}: holds")
        return 0
    print_lines(found.text if found else answer.failure or f"the solver answers {answer.text!r}")
    return 1 if answer.counterexample else 3


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
