"""What the verifier finds in a plan without a solver; what the solver is asked comes on top of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from proofs.definition.violations import Violation
from proofs.readers.models.ir import read_ir
from proofs.sharding.stages import RankModel
from proofs.verify.checks import Subject, violations
from tmmu.core.dtypes import BITS
from tmmu.core.vocabulary import Model, Role, Shares
from tmmu.plans.columns import ROLES, SHARES
from tmmu.plans.gate import StatedPlan
from tmmu.plans.sections import Plan


def objections(plan: Plan, model: Model | None, donated: Iterable[str] = ()) -> Iterator[Violation]:
    """What is false in a plan, for the steps that it states or, where one is given, against the model."""
    rank_model = None if model is None else RankModel(read_ir(model), {})
    mode = "inference" if plan.provenance is None else plan.provenance.mode
    return violations(Subject(StatedPlan(plan, {}), rank_model, frozenset(donated), mode))


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
