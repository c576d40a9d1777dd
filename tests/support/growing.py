"""A model whose sizes depend on an open dimension, its plan, and that plan with a wrong size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tests.support.small import small
from tmmu.core.columns import column
from tmmu.core.dims.expressions import symbol
from tmmu.core.vocabulary import Model
from tmmu.plan.sections import Plan, amended
from tmmu.planner import PlanOptions, plan_memory

M = symbol("m", 1, 64)


def growing() -> Model:
    """`x`, `a` and `y` of `m` bytes, made one of the other in place; `b` of 65 - `m`."""
    like = {name: {"shape": (M,), "bytes": 64} for name in ("x", "a", "y")} | {"b": {"shape": (65 - M,), "bytes": 64}}
    model = small("tanh: x -> a", "relu: a -> y(a)", "matmul: y -> b", outputs="b y", like=like)
    return replace(model, bindings=replace(model.bindings, ranges={"m": (1, 64)}))


def plan(**options: Any) -> Plan:
    """The plan of `growing` for its whole envelope."""
    return plan_memory(growing(), options=PlanOptions(**options)).plan


def with_bytes(found: Plan, tensor: str, size: int) -> Plan:
    """The plan with another size of one tensor."""
    sizes = found.allocation.tensors.bytes.tolist()
    sizes[found.allocation.tensors.name.list().index(tensor)] = size
    return amended(found, tensors=replace(found.allocation.tensors, bytes=column(sizes, np.uint64)))
