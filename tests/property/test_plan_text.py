"""A plan that is written as text and read has the same allocation, whatever model and layout it is of. spec: X2.8"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import text, text_writer
from tmmu.plans.sections import Plan
from tmmu.testing.strategies.models import models

TOKEN = bytes(range(64))


@given(models(), st.sampled_from(("inference", "forward")), st.sampled_from(("slots", "packed", "pools", "hashed")))
def test_a_plan_that_is_written_as_text_and_read_has_the_same_allocation(model: Model, mode: str, layout: str) -> None:
    """Storages and lifetimes follow from steps and sharing as the planner has them. spec: X2.5, X2.8, C2.10"""
    try:
        plan = plan_memory(
            model, options=PlanOptions(mode=mode, layout=layout, address_token=TOKEN if layout == "hashed" else None)
        ).plan
    except TmmuError as refused:
        assert refused.code_id in ("MODE_VIOLATION", "ADDRESS_COLLISION", "ALLOCATION_OVERFLOW")  # noqa: PT017  # no plan
        return
    written = text_writer.write(plan)
    again = text.read(written.encode(), "text")
    assert isinstance(again, Plan)
    assert again.allocation == plan.allocation
    assert text_writer.write(again) == written


@given(st.binary(max_size=80), st.sampled_from((b"arena m 9\n", b"arena m 9\ntensor x 1 m 0\n", b"")))
def test_whatever_follows_the_first_line_is_a_plan_or_refused_at_a_place(data: bytes, start: bytes) -> None:
    """spec: X1.4"""
    try:
        text.read(b"tmmu-plan-text 1\n" + start + data, "p")
    except TmmuError as refused:
        assert refused.code_id == "INVALID_PLAN"  # noqa: PT017  # both outcomes are right
        assert (refused.file or "").count(":") == 2  # noqa: PT017


def test_a_text_of_many_statements_is_read_in_time_linear_in_its_size() -> None:
    """Chains of views, the longest that there are, do not make it quadratic. spec: X1.2"""
    lines = ["tmmu-plan-text 1", "arena m 9", "tensor t0 1 m 0 input"]
    lines += [f"tensor t{k} 1 m 0 view t{k - 1} 0" for k in range(1, 5_000)]
    lines += [f"step s{k} Identity t{k - 1} -> t{k}" for k in range(1, 5_000)]
    plan = text.read("\n".join(lines).encode(), "p")
    assert isinstance(plan, Plan)
    assert plan.allocation.tensors.storage.max() == 0
    with pytest.raises(TmmuError, match="shares with itself"):
        text.read("\n".join(lines).replace("t0 1 m 0 input", "t0 1 m 0 view t4999 0").encode(), "p")
