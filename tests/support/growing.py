"""A model whose sizes depend on an open dimension, its plan, and that plan with a wrong size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tests.support.text_models import text_model
from tmmu.core.columns import build_column
from tmmu.core.dims.expressions import symbol
from tmmu.core.vocabulary import Model
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.sections import Plan, amend_plan

M = symbol("m", 1, 64)


def growing() -> Model:
    """`x`, `a` and `y` of `m` bytes, made one of the other in place; `b` of 65 - `m`."""
    return text_model(
        "dim m 1 64", "node tanh Tanh x -> a", "node relu Relu a -> y inplace y a", "node matmul Matmul y -> b",
        "tensor b u8 (65-m)", outputs="b y", each="u8 m",
    )  # fmt: skip


def plan(**options: Any) -> Plan:
    """The plan of `growing` for its whole envelope."""
    return plan_memory(growing(), options=PlanOptions(**options)).plan


def with_bytes(found: Plan, tensor: str, size: int) -> Plan:
    """The plan with another size of one tensor."""
    sizes = found.allocation.tensors.bytes.tolist()
    sizes[found.allocation.tensors.name.list().index(tensor)] = size
    return amend_plan(found, tensors=replace(found.allocation.tensors, bytes=build_column(sizes, np.uint64)))
