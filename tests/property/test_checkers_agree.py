"""Every checker about the same plans, right ones and changed ones: none is laxer than the one before it.

Running the plan, the naive checker and the solver's rows are three ways of reasoning that share nothing but the plan's
words. What goes wrong when it is run the checker refuses, what the checker refuses the rows do not prove; and of a
right plan none of them has anything to say. `test_brute_force.py` holds the checker's sweeps to every single byte.
spec: V4.2, V4.5, V1.1, V1.5
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.objections import objections
from tests.support.three_checks import SOLVER, by_rows, by_running, by_the_checker
from tmmu.core.vocabulary import Model
from tmmu.planner import PlanOptions, plan_memory
from tmmu.testing.catalogue.entries import Change, corrupted
from tmmu.testing.strategies.models import changes, models


@pytest.fixture(scope="module", autouse=True)
def _closing() -> Iterator[None]:
    yield
    SOLVER.close()


@given(models(), st.sampled_from(("slots", "packed", "pools")), changes(), st.integers(0, 1 << 16), st.booleans())
def test_no_checker_is_laxer_than_the_one_before_it(
    model: Model, layout: str, wanted: list[Change], seed: int, alone: bool
) -> None:
    """spec: V4.2, V1.5"""
    donated = frozenset(model.bindings.donated)
    right = plan_memory(model, options=PlanOptions(layout=layout)).plan
    assert not by_running(right, model, seed)
    assert by_the_checker(right, model, donated) == by_rows(right, model, donated) == set()
    plan = corrupted(right, wanted)
    if plan is None:
        return
    if by_running(plan, model, seed):
        assert list(objections(plan, None, donated)) != []
    against = None if alone else model
    assert bool(by_rows(plan, against, donated)) >= bool(by_the_checker(plan, against, donated))


def test_each_of_them_can_say_no() -> None:
    """Two live storages at one address are wrong for all three."""
    from tests.support.text_models import text_model
    from tmmu.examples.broken.editing import changed as with_entries

    model = text_model("node matmul Matmul x -> a", "node matmul2 Matmul x a -> y")
    right = plan_memory(model).plan
    home = dict(zip(right.allocation.tensors.name, right.allocation.tensors.storage.tolist(), strict=True))
    wrong = with_entries(right, "storages", home["a"], offset=int(right.allocation.storages.offset[home["x"]]))
    assert by_running(wrong, model, 0)
    assert "no_live_overlap" in by_the_checker(wrong, model, frozenset())
    assert "no_live_overlap" in by_rows(wrong, model, frozenset())
