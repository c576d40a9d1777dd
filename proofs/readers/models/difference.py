"""One thing in which a plan is not the model's, and how steps of the two are known to be the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from proofs.readers.models.reference import Expected, ExpectedStep
from tmmu.core.vocabulary import Part
from tmmu.plan.columns import PARTS
from tmmu.plan.sections import Plan


class Difference(NamedTuple):
    """What differs, where, what the plan states and what the model says.

    `what` is one of `WHAT`; `node` and `tensors` are the user's own names; `step` is the plan's, None where the
    plan has none.
    """

    what: str
    node: str
    tensors: tuple[str, ...]
    step: int | None
    stated: str
    recomputed: str


WHAT = (
    "binding", "missing-step", "extra-step", "repeated-step", "operator", "body", "reads", "writes", "mutates",
    "missing-tensor", "extra-tensor", "bytes", "element-bits", "role", "input", "output", "saved", "writer",
    "alignment", "view", "order", "nesting", "missing-body", "extra-body", "body-parent", "body-steps", "body-iterates",
    "unproduced", "must-not-alias", "donated", "source-digest", "sharding", "shard",
)  # fmt: skip
"""Every kind of difference, coarse ones first."""


Key = tuple[str, Part]
"""A step by its node and part: unique in a model, whatever the order of its steps."""


@dataclass(frozen=True)
class Pairing:
    """The steps of a plan and of a model, brought together by node and part.

    `keys` are the plan's steps in its order and `positions` the first of each; `steps` are the model's, `writers`
    the one that first writes each tensor (none for what the caller writes, overwritten or not).
    """

    keys: list[Key]
    positions: dict[Key, int]
    steps: dict[Key, ExpectedStep]
    writers: dict[str, Key]


def pairing(plan: Plan, expected: Expected) -> Pairing:
    """Bring a plan's steps and a model's together. O(steps + writes)."""
    keys = list(
        zip(plan.allocation.steps.node, map(PARTS.__getitem__, plan.allocation.steps.part.tolist()), strict=True)
    )
    positions = {key: at for at, key in zip(range(len(keys) - 1, -1, -1), reversed(keys), strict=True)}
    steps = {(step.node, step.part): step for step in expected.steps}
    writers = {name: key for key, step in steps.items() for name in step.writes if name not in step.mutates}
    return Pairing(keys, positions, steps, writers)
