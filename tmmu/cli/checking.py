"""What `tmmu plan` checks before it writes: the naive checker on its own plan, with no way around it. spec: C2.1"""

from __future__ import annotations

from proofs import checker, claims, envelope, obligations, structure
from proofs.program import program
from proofs.readers.ir_model import read_ir
from proofs.readers.sharing import permitted
from tmmu.errors import TmmuError
from tmmu.plan.columns import Plan
from tmmu.vocabulary import Model

TIMEOUT_S = 60.0
"""Seconds for the solver to show that a size has its maximum; it takes milliseconds."""


def check(plan: Plan, model: Model, *, is_ir: bool) -> None:
    """Raise CONTRACT_VIOLATION with the first thing that the checker finds wrong with the planner's own plan.

    What shares bytes is decided by the checker's tables; an IR model may declare it as well.
    """
    donated = frozenset(plan.bindings.donated)
    permissions = permitted(plan, read_ir(model) if is_ir else None, donated)
    run = program(plan, permissions, donated)
    for wrong in envelope.problems(plan):
        raise _bug(wrong.obligation, wrong.text)
    if plan.envelope is not None:
        shown = obligations.over_envelope(plan, TIMEOUT_S)
        if shown.verdict != obligations.PROVED:
            raise TmmuError(
                "INVALID_IR_SHAPES",
                f"the solver does not show the maximum of a size ({shown.note or shown.hint})",
                place=shown.name,
                fix="bind one of the tensor's dimensions to a single size, as in --dim NAME=SIZE",
            )
    for problem in checker.problems(run):
        raise _bug(problem.obligation, problem.text)
    for problem in structure.problems(plan, run):
        raise _bug(problem.obligation, problem.text)
    for false in claims.false_claims(plan, run):
        raise _bug(false.obligation, f"{false.field} is stated as {false.stated}; it is {false.recomputed}")


def _bug(obligation: str, text: str) -> TmmuError:
    return TmmuError(
        "CONTRACT_VIOLATION",
        f"the planner made a wrong plan ({text}); nothing was written",
        place=obligation,
        fix="this is a bug in tmmu, or an alias group of the model that it does not keep: report it with the model",
        failure_operator="UML_OS.TMMU.PlanMemory_v2",
    )
