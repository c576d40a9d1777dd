"""`check_planner` finds each fault of a small planner, and shrinks what shows it; right planners pass. spec: TP3.5"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis.internal.conjecture import providers

from tests.support.small_planners import ODD, OF_BUFFERS, OF_CAPACITY, OF_MODELS, plan_buffers, plan_model
from tmmu import testing
from tmmu.testing.problems import BufferProblem, ModelProblem, PlannerProblem
from tmmu.testing.profiles import ExampleRun, running
from tmmu.testing.properties import Planner

EXAMPLES = 200
"""In so many examples each fault is found."""
LARGEST = 4
"""So many buffers or nodes a problem has at most that shows it."""
OF_LISTS = {**OF_BUFFERS, **OF_CAPACITY, **ODD}


def given_for(fault: str) -> Any:
    if fault in OF_LISTS:
        return testing.buffers(
            alignments=fault.startswith("align"), gaps=fault.startswith("gap"), fixed=fault.startswith("fixed"),
            largest=1 << 63 if fault == "double" else 1 << 33,
        )  # fmt: skip
    if fault in ("branch", "loop", "apart", "second"):
        return testing.models(views=False, mutation=False, scratch=False)
    if fault in ("input", "parameter") or fault.startswith(("in-place", "view")):
        return testing.graphs(views=fault.startswith("view"), in_place=fault.startswith("in-place"))
    return testing.dags(alignments=fault == "unaligned")


def planner(fault: str) -> Planner:
    """A planner with the fault; only those about a capacity take one."""
    function: Callable[..., Any]
    if fault in OF_CAPACITY:
        return Planner(lambda given, capacity=None: plan_buffers(given, fault, capacity), fault)
    if fault in ODD:
        return Planner(ODD[fault][1], fault)
    plan = plan_buffers if fault in OF_BUFFERS else plan_model
    function = lambda given: plan(given, fault)  # noqa: E731 - a planner of one parameter
    return Planner(function, fault)


def size(problem: PlannerProblem) -> int:
    """Its buffers or nodes."""
    assert isinstance(problem, BufferProblem | ModelProblem)
    return len(problem.buffers if isinstance(problem, BufferProblem) else problem.model.nodes)


@pytest.mark.parametrize("fault", [*OF_LISTS, *OF_MODELS])
def test_a_planted_fault_is_found_and_shrunk(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the constants of local modules, which Hypothesis draws too: those loaded depend on the tests before."""
    monkeypatch.setattr(providers, "_get_local_constants", providers.Constants)
    with running(ExampleRun(EXAMPLES, 2, None)), pytest.raises(testing.PlannerFailure) as caught:
        testing.check_planner(planner(fault), given_for(fault))
    assert size(caught.value.failure.problem) <= LARGEST


@pytest.mark.parametrize("options", [{}, {"alignments": True, "gaps": True, "fixed": True}, {"largest": 1 << 63}])
def test_the_planner_of_buffers_is_right_without_a_fault(options: dict[str, Any]) -> None:
    def plan(buffers: Any, capacity: int | None = None) -> Any:
        return plan_buffers(buffers, capacity=capacity)

    figures = testing.check_planner(plan, testing.buffers(**options), examples=40, folder="")
    assert figures.held["safe"] == figures.held["refuses"] == figures.examples >= 40


@pytest.mark.parametrize(
    "given",
    [
        testing.dags(alignments=True),
        testing.graphs(views=True, in_place=True),
        testing.models(views=False, mutation=False, scratch=False),
    ],
    ids=["dags", "graphs", "models"],
)
def test_the_planner_of_models_is_right_without_a_fault(given: Any) -> None:
    figures = testing.check_planner(plan_model, given, examples=40, folder="", also=["relabelled"])
    assert figures.held["safe"] == figures.examples
