"""What `tmmu plan` checks before it writes: its own plan by the verifier's function, with no way around it.

The bytes that would be written are read back and checked against the model that was planned. spec: C2.1
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from proofs.definition.violations import Obligation, Violation
from proofs.proving import obligations
from proofs.readers.models.ir import read_ir
from proofs.readers.operators import iterates, qualify_name
from proofs.sharding.stages import RankModel
from proofs.verify.checks import Subject, violations
from proofs.verify.sources import KeptSources
from tmmu.core.columns import disable_collector
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model
from tmmu.plans import file
from tmmu.plans.sections import Plan

if TYPE_CHECKING:
    from tmmu.onnx import Resolved

TIMEOUT_S = 60.0
"""Seconds for the solver to show that a size has its maximum; it takes milliseconds."""


def check(plan: Plan, model: Model, *, is_ir: bool) -> None:
    """Raise CONTRACT_VIOLATION with the first violation that the verifier finds in the planner's own plan.

    `model` is the planned model, before it was divided among ranks. Sharing that an IR model declares beyond the
    checker's tables counts. What the model itself declares wrongly is INVALID_IR: an alias group whose members are
    needed at once, a loop that is declared to run once.
    """
    PlanCheck(model, is_ir=is_ir)(plan)


class PlanCheck:
    """The same for the plans of several ranks: the model is read once. Called with a plan, it returns the bytes that
    were checked. Raises as `check`.
    """

    def __init__(self, model: Model, *, is_ir: bool) -> None:
        _check_loops(model)
        with disable_collector():
            reference = read_ir(model)
        self.model, self.sources = model, KeptSources()
        self.reference = reference if is_ir else replace(reference, assumed=[])

    def __call__(self, plan: Plan) -> bytes:
        """The bytes of a plan. O(plan), and for the first of a stage O(model)."""
        with disable_collector():
            written = file.encode(plan)
            _check_plan(plan, self.model, self.subject_of(plan, written))
            return written

    def subject_of(self, plan: Plan, written: bytes) -> Subject:
        """What is checked of a plan with these bytes. Raises CONTRACT_VIOLATION if they are not a plan."""
        spec = plan.origin.shard_spec
        of_rank = self.sources.of_rank
        rank_model = of_rank(self.reference, spec, plan.origin.rank) if spec else RankModel(self.reference, {})
        try:
            stated = file.require_steps(file.decode(written))
        except TmmuError as refusal:
            raise bug_error(refusal.place, refusal.what) from refusal
        return Subject(stated, rank_model, frozenset(plan.bindings.donated), plan.origin.mode)


def _check_plan(plan: Plan, model: Model, subject: Subject) -> None:
    """Raise for the first violation of a plan against what its rank must run."""
    for violation in violations(subject):
        raise _group(model, violation) or bug_error(violation.obligation, violation.text)
    if plan.envelope is not None:
        shown = obligations.prove_over_envelope(plan, TIMEOUT_S)
        if shown.verdict != obligations.PROVED:
            raise TmmuError(
                "INVALID_IR_SHAPES",
                f"the solver does not show the maximum of a size ({shown.note or shown.hint})",
                place=shown.name,
                fix="bind one of the tensor's dimensions to a single size, as in --dim NAME=SIZE",
            )


def check_sizes(resolved: Resolved | None) -> None:
    """Raise INVALID_IR_SHAPES for the first size, or branch, that the verifier works out otherwise than inference does.

    None, for a model that states its sizes, is right. O(nodes + accesses). spec: C2.11, V3.8
    """
    if resolved is None:
        return
    from proofs.readers.models.onnx import reference_of

    for found in reference_of(resolved).size_differences:
        what = f"{found.tensor!r} is {found.inferred}" if found.tensor else found.inferred
        raise TmmuError(
            "INVALID_IR_SHAPES",
            f"by onnx's inference {what}, by the text of its operator {found.found}; nothing was written",
            place=f"node {found.node!r}",
            fix="write other operators in its place, and report which of the two is wrong",
            node_id=found.node,
        )


def _check_loops(model: Model) -> None:
    """Refuse a body that is declared to run once where the checker takes its operator to run it again. spec: T8.3"""
    for body in model.bodies:
        if body.owner >= 0 and not body.iterates:
            node = model.nodes[body.owner]
            if iterates(node.domain, node.op):
                raise TmmuError(
                    "INVALID_IR",
                    f"its body {body.attribute!r} is not marked as iterating, "
                    f"but {qualify_name(node.domain, node.op)} can run it again",
                    place=f"node {node.name!r}",
                    fix="mark the body as iterating",
                    failure_operator="UML_OS.TMMU.PlanMemory_v2",
                )


def _group(model: Model, violation: Violation) -> TmmuError | None:
    """Return the refusal of an alias group if members of one group interfere. spec: V1.9"""
    of = {tensor.name: tensor.alias_group for tensor in model.tensors if tensor.name in violation.tensors}
    groups = set(of.values())
    if violation.obligation is not Obligation.SHARING_IS_SOUND or len(of) < 2 or len(groups) != 1 or None in groups:
        return None
    return TmmuError(
        "INVALID_IR",
        f"its members are needed at the same time: {violation.text}",
        place=f"alias group {groups.pop()!r}",
        fix="take one of them out of the group",
        failure_operator="UML_OS.TMMU.PlanMemory_v2",
    )


def bug_error(place: str | None, what: str) -> TmmuError:
    """Return CONTRACT_VIOLATION: the verifier finds something wrong in what the planner made."""
    return TmmuError(
        "CONTRACT_VIOLATION",
        f"the planner made a wrong plan ({what}); nothing was written",
        place=place,
        fix="this is a bug in tmmu, or an alias group of the model that it does not keep: report it with the model",
        failure_operator="UML_OS.TMMU.PlanMemory_v2",
    )
