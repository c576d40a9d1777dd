"""Both planners, read from one text, agree on every model: slots, addresses, lifetimes, totals and hashes."""

from __future__ import annotations

from hypothesis import given, reject
from hypothesis import strategies as st

from tests.support import second_trace
from tests.support.second_planner import SecondPlan
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import MODES, ArenaConfiguration, Model
from tmmu.planner import PlanOptions, plan_memory
from tmmu.runtime.records.compare import first_difference
from tmmu.runtime.records.trace import Trace
from tmmu.testing.strategies import models


@given(models.models(), st.sampled_from(MODES), models.arenas(), st.integers(0, 2**64 - 1))
def test_both_planners_leave_the_same_trace(
    model: Model, mode: str, arenas: tuple[ArenaConfiguration, ...], seed: int
) -> None:
    """Slots and addresses of the layout `slots`, and every other field; of an envelope not the hash that covers it.

    spec: R8.2, T6.1, T6.2, A1.1, A1.2, U5.11
    """
    token = second_trace.replay_token(seed)
    try:
        planned = plan_memory(model, arenas, PlanOptions(mode=mode, layout="slots", replay_token=token))
    except TmmuError:
        reject()  # a mode or arenas that this model cannot have
    trace = Trace()
    trace.allocated(planned.plan)
    first, second = trace.end(), second_trace.trace(SecondPlan(model, mode, arenas), token)
    if model.bindings.ranges:
        assert [record["kind"] for record in (first[0], first[-1])] == ["allocation_header", "end"]
        first, second = ([x[0] | {"tmmu_plan_hash": None}, *x[1:-1]] for x in (first, second))
    assert first_difference(first, second) is None
