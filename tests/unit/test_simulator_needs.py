"""The memory of a run, estimated before it starts. spec: SIM1.12"""

from __future__ import annotations

import pytest

from tests.support.text_models import text_model
from tmmu.core.errors import TmmuError
from tmmu.planner import PlanOptions, plan_memory
from tmmu.simulator import PlanProgram
from tmmu.simulator.needs import check_memory, estimate_memory


def test_a_run_that_needs_more_than_there_is_is_refused_with_both_figures() -> None:
    """Two tensors live at each step, in the arenas and beside them."""
    model = text_model("node one Make x -> a", "node two Make a -> y", sizes={"x": 1000, "a": 1000, "y": 1000})
    program = PlanProgram(plan_memory(model, options=PlanOptions(layout="packed")).plan)
    needed = estimate_memory(program)
    assert 4000 <= needed < 4000 + 4 * 256
    assert check_memory(program, needed) == needed
    with pytest.raises(TmmuError, match=rf"about {needed} bytes .* has {needed - 1} ") as caught:
        check_memory(program, needed - 1)
    assert (caught.value.code_id, caught.value.diagnostics["peak_required_bytes"]) == (
        "TMMU_ALLOCATION_FAILURE",
        needed,
    )
