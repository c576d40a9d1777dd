"""What `tmmu plan` checks before it writes: the naive checker on its own plan, with no way around it. spec: C2.1"""

from __future__ import annotations

from proofs import obligations
from proofs.checker import claims, envelope, structure
from proofs.checker import execute as checker
from proofs.checker.program import program
from proofs.readers.models.ir import read_ir
from proofs.readers.operators import iterates, qualified
from proofs.readers.sharing import permitted
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model
from tmmu.plan.sections import Plan, needed

TIMEOUT_S = 60.0
"""Seconds for the solver to show that a size has its maximum; it takes milliseconds."""


def check(plan: Plan, model: Model, *, is_ir: bool) -> None:
    """Raise CONTRACT_VIOLATION with the first thing that the checker finds wrong with the planner's own plan.

    What shares bytes is decided by the checker's tables; an IR model may declare it as well. What the model itself
    declares wrongly is INVALID_IR: an alias group whose members are needed at once, a loop that is said not to iterate.
    """
    _check_loops(model)
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
        raise _group(model, problem) or _bug(problem.obligation, problem.text)
    for problem in structure.problems(plan, run):
        raise _bug(problem.obligation, problem.text)
    for false in claims.false_claims(needed(plan.claims, "claims"), run):
        raise _bug(false.obligation, f"{false.field} is stated as {false.stated}; it is {false.recomputed}")


def _check_loops(model: Model) -> None:
    """Refuse a body that is said to run once where the checker takes its operator to run it again. spec: T8.3"""
    for body in model.bodies:
        if body.owner >= 0 and not body.iterates:
            node = model.nodes[body.owner]
            if iterates(node.domain, node.op):
                raise TmmuError(
                    "INVALID_IR",
                    f"its body {body.attribute!r} is not marked as iterating, "
                    f"but {qualified(node.domain, node.op)} can run it again",
                    place=f"node {node.name!r}",
                    fix="mark the body as iterating",
                    failure_operator="UML_OS.TMMU.PlanMemory_v2",
                )


def _group(model: Model, problem: checker.Problem) -> TmmuError | None:
    """The refusal of an alias group, where it is members of one that are in each other's way. spec: V1.9"""
    of = {tensor.name: tensor.alias_group for tensor in model.tensors if tensor.name in problem.tensors}
    groups = set(of.values())
    if problem.obligation != "sharing_is_sound" or len(of) < 2 or len(groups) != 1 or None in groups:
        return None
    return TmmuError(
        "INVALID_IR",
        f"its members are needed at the same time: {problem.text}",
        place=f"alias group {groups.pop()!r}",
        fix="take one of them out of the group",
        failure_operator="UML_OS.TMMU.PlanMemory_v2",
    )


def _bug(obligation: str, text: str) -> TmmuError:
    return TmmuError(
        "CONTRACT_VIOLATION",
        f"the planner made a wrong plan ({text}); nothing was written",
        place=obligation,
        fix="this is a bug in tmmu, or an alias group of the model that it does not keep: report it with the model",
        failure_operator="UML_OS.TMMU.PlanMemory_v2",
    )
