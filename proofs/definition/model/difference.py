"""Represent one difference between a plan and the model, and pair the steps of the two."""

from __future__ import annotations

from dataclasses import dataclass

from proofs.definition.violations import Obligation, Violation
from proofs.readers.models.reference import ReferenceProgram, ReferenceStep
from tmmu.core.vocabulary import NodePart
from tmmu.plans.columns import PARTS
from tmmu.plans.sections import Plan

WHAT = (
    "binding", "size", "branch", "missing-step", "extra-step", "repeated-step", "operator", "body", "reads", "writes",
    "mutates", "missing-tensor", "extra-tensor", "bytes", "type", "role", "input", "output", "saved", "writer",
    "alignment", "view", "alias", "order", "nesting", "missing-body", "extra-body", "body-parent", "body-steps",
    "body-iterates", "stream", "waits", "stream-order",
    "unproduced", "must-not-alias", "donated", "source-digest", "sharding", "shard",
)  # fmt: skip
"""Every kind of difference, coarse ones first."""


def difference(
    what: str, node: str, tensors: tuple[str, ...], step: int | None, stated: str, recomputed: str
) -> Violation:
    """Return a difference of a kind in `WHAT`, with the plan's step (None if it has none), and both values.

    `stated` is the plan's value and `recomputed` the model's.
    """
    obligation = Obligation.SHARDS if what in ("shard", "sharding") else Obligation.STEPS_ARE_THE_MODEL
    place = f"{what} of {node}" if node else what
    text = f"{place}: stated {stated or 'nothing'}; the model has {recomputed or 'nothing'}"
    return Violation(obligation, text, tensors, step, field=what, stated=stated, recomputed=recomputed, node=node)


Key = tuple[str, NodePart]
"""A step by its node and part: unique in a model, whatever the order of its steps."""


@dataclass(frozen=True)
class Pairing:
    """The steps of a plan and of a model, paired by node and part.

    `keys` are the plan's steps in its order, and `positions` the first occurrence of each. `steps` are the model's.
    `writers` maps each tensor to the step that first writes it, and has no entry for the caller's tensors, even if a
    step overwrites them.
    """

    keys: list[Key]
    positions: dict[Key, int]
    steps: dict[Key, ReferenceStep]
    writers: dict[str, Key]


def pair_steps(plan: Plan, reference: ReferenceProgram) -> Pairing:
    """Pair a plan's steps with the model's. O(steps + writes)."""
    keys = list(
        zip(plan.allocation.steps.node, map(PARTS.__getitem__, plan.allocation.steps.part.tolist()), strict=True)
    )
    positions = {key: at for at, key in zip(range(len(keys) - 1, -1, -1), reversed(keys), strict=True)}
    steps = {(step.node, step.part): step for step in reference.steps}
    writers = {name: key for key, step in steps.items() for name in step.made}
    return Pairing(keys, positions, steps, writers)
