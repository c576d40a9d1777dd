"""All that the verifier's naive side finds in a plan: what the solver is asked comes on top of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from proofs.checker import claims, structure
from proofs.checker import execute as checker
from proofs.checker.program import program
from proofs.readers.models.compare import differences
from proofs.readers.models.ir import read_ir
from proofs.readers.sharing import permitted
from proofs.violations import Violation
from tmmu.core.dtypes import BITS
from tmmu.core.vocabulary import Model, Role, Shares
from tmmu.plan.columns import ROLES, SHARES
from tmmu.plan.sections import Plan


def objections(plan: Plan, model: Model | None, donated: Iterable[str] = ()) -> Iterator[Violation]:
    """What is false in a plan, for the steps that it states or, where one is given, against the model."""
    given_up = frozenset(donated)
    expected = read_ir(model) if model is not None else None
    run = program(plan, permitted(plan, expected, given_up), given_up)
    yield from checker.violations(run)
    yield from structure.violations(plan, run)
    if expected is not None:
        yield from differences(plan, expected, given_up, plan.origin.mode)
    if plan.claims is not None:
        yield from claims.false_claims(plan.claims, run)


def is_narrow(plan: Plan) -> bool:
    """Does a result of elements below a byte lie in place of one of several operands? (`spec/soundness.md`: what a
    verdict without a model does not say.)
    """
    t, reads = plan.allocation.tensors, plan.allocation.steps.listed("reads")
    return any(
        SHARES[int(t.shares[r])] is Shares.IN_PLACE and BITS[plan.allocation.dtypes[int(t.dtype[r])]] < 8
        and sum(ROLES[int(t.role[k])] is not Role.SCRATCH for k in reads[int(t.writer[r])]) > 1
        for r in range(len(t))
    )  # fmt: skip
