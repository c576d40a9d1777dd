"""One thing in which a plan is not the model's, and the names by which plan and model speak of the same step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from proofs.readers.expected import ExpectedStep
from tmmu.plan.columns import PARTS, Plan
from tmmu.vocabulary import Part


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
    "missing-step", "extra-step", "repeated-step", "operator", "body", "reads", "writes", "mutates",
    "missing-tensor", "extra-tensor", "bytes", "element-bits", "role", "input", "output", "saved", "writer",
    "alignment", "view", "order", "nesting", "missing-body", "extra-body", "body-parent", "body-steps", "body-iterates",
    "unproduced", "must-not-alias", "binding", "donated", "source-digest",
)  # fmt: skip
"""Every kind of difference, coarse ones first."""


class Key(NamedTuple):
    """A step by its node and part: unique in a model, whatever the order of its steps."""

    node: str
    part: Part

    def __str__(self) -> str:
        return f"{self.node} ({self.part})"


def plan_keys(plan: Plan) -> Iterator[Key]:
    """The node and part of each step of a plan, in its order."""
    return map(Key, plan.steps.node, map(PARTS.__getitem__, plan.steps.part.tolist()))


def first_positions(plan: Plan) -> dict[Key, int]:
    """The first step of each node and part in a plan."""
    positions: dict[Key, int] = {}
    for step, key in enumerate(plan_keys(plan)):
        positions.setdefault(key, step)
    return positions


def key_of(step: ExpectedStep) -> Key:
    """The name of a model's step that holds in any plan of it."""
    return Key(step.node, step.part)


def writers_of(steps: Iterable[ExpectedStep]) -> dict[str, Key]:
    """The step that first writes each tensor; what the caller writes has none, overwritten or not."""
    return {name: key_of(step) for step in steps for name in step.writes if name not in step.mutates}
