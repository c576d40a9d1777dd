"""A plan for an envelope at one of its shapes: what each batch of `tmmu run` runs. spec: SIM6.7"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tmmu.core.columns import build_column
from tmmu.core.dims.table import evaluate_rows
from tmmu.core.vocabulary import UINT64_END
from tmmu.plans.sections import Plan, amend_plan


def shape_of(plan: Plan, asked: Mapping[str, int]) -> dict[str, int]:
    """Return the size of each open dimension: the requested one, else the largest. The plan holds for it."""
    return {name: asked.get(name, high) for name, (_, high) in plan.ranges.items()}


def at_shape(plan: Plan, shape: Mapping[str, int]) -> Plan:
    """The plan with `shape` bound: tensors have the sizes there, in the places that were planned. O(terms + tensors).

    An impossible size (of a wrong plan) is brought into the range of sizes; no model has a tensor of such a size.
    """
    if plan.envelope is None:
        return plan
    values = evaluate_rows(plan.envelope.terms.rows(), [shape[name] for name in plan.ranges])
    sizes = [min(max(0, values[row]), UINT64_END - 1) for row in plan.envelope.size.tolist()]
    return amend_plan(
        plan,
        tensors=replace(plan.allocation.tensors, bytes=build_column(sizes, np.uint64)),
        bindings=replace(plan.origin.bindings, dims={**plan.origin.bindings.dims, **shape}),
        envelope=None,
    )
