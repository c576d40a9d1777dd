"""Tests of a planner, for pytest: one test for each property.

    pytest --tmmu-planner mypackage.plan:offsets --pyargs tmmu.testing.conformance

Or inherit in a test file of your own, where `planner` is a function or a method:

    class TestMine(Conformance):
        planner = staticmethod(mypackage.plan.offsets)
        given = testing.buffers(alignments=True)

spec: TP4.4
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any, ClassVar

import pytest

from tmmu import testing
from tmmu.testing.cases import PlannerFailure
from tmmu.testing.plugin import HELD, RATIO, load_planner
from tmmu.testing.properties import PROMISES, PROPERTIES, Figures

Record = Callable[[str, object], None]
safety, quality = pytest.mark.tmmu_safety, pytest.mark.tmmu_quality


class Conformance:
    """The tests of a planner. The attributes are the arguments of `tmmu.testing.check_planner`."""

    planner: ClassVar[Any] = None
    given: ClassVar[Any] = None
    capacity: ClassVar[int | None] = None
    granularity: ClassVar[int] = 1
    promises: ClassVar[Collection[str]] = ()
    """Those of `tmmu.testing.PROMISES` that the planner keeps: they are tested too."""

    @safety
    def test_each_problem_has_an_answer(self, record_property: Record, pytestconfig: pytest.Config) -> None:
        """One offset for each tensor."""
        self.check("answers", record_property, pytestconfig)

    @safety
    def test_no_two_live_tensors_share_a_byte(self, record_property: Record, pytestconfig: pytest.Config) -> None:
        """And what is shared is shared soundly."""
        self.check("safe", record_property, pytestconfig)

    @safety
    def test_offsets_are_aligned(self, record_property: Record, pytestconfig: pytest.Config) -> None:
        """Each to the alignment of its tensor."""
        self.check("aligned", record_property, pytestconfig)

    @safety
    def test_plans_are_within_the_capacity(self, record_property: Record, pytestconfig: pytest.Config) -> None:
        """That of the arena, if there is one."""
        self.check("within_capacity", record_property, pytestconfig)

    @safety
    def test_a_capacity_is_refused_if_and_only_if_nothing_fits(
        self, record_property: Record, pytestconfig: pytest.Config
    ) -> None:
        """Of a planner with a parameter `capacity`."""
        self.check("refuses", record_property, pytestconfig)

    @quality
    def test_a_stated_footprint_is_true(self, record_property: Record, pytestconfig: pytest.Config) -> None:
        """No less than what the offsets need."""
        self.check("footprint", record_property, pytestconfig)

    @quality
    def test_the_same_problem_has_the_same_answer(self, record_property: Record, pytestconfig: pytest.Config) -> None:
        """In one process."""
        self.check("deterministic", record_property, pytestconfig)

    @quality
    def test_the_problem_is_not_changed(self, record_property: Record, pytestconfig: pytest.Config) -> None:
        """By the planner, whose caller may go on with it."""
        self.check("unchanged", record_property, pytestconfig)

    @quality
    def test_no_plan_needs_more_than_all_tensors_side_by_side(
        self, record_property: Record, pytestconfig: pytest.Config
    ) -> None:
        """Rounded up to the granularity."""
        figures = self.check("bounded", record_property, pytestconfig)
        record_property(RATIO, f"mean {figures.mean:.3f}, worst {figures.worst:.3f}")

    @quality
    def test_what_the_planner_promises_holds(self, record_property: Record, pytestconfig: pytest.Config) -> None:
        """Each of the `promises`."""
        for name in self.promises:
            self.check(name, record_property, pytestconfig)

    def check(self, name: str, record_property: Record, config: pytest.Config) -> Figures:
        """Check one property of the planner, and record how often it held."""
        record_property(HELD, f"{name} 0")
        others = tuple(other for other in PROPERTIES if other not in (name, *PROMISES))
        message = ""
        try:
            figures = testing.check_planner(
                self._planner(config), self._given(config), capacity=self.capacity, granularity=self.granularity,
                also=(name,) if name in PROMISES else (), without=others,
            )  # fmt: skip
        except PlannerFailure as failure:
            message = str(failure)
        if message:
            pytest.fail(message, pytrace=False)
        record_property(HELD, f"{name} {figures.held[name]}")
        return figures

    def _planner(self, config: pytest.Config) -> Callable[..., Any]:
        """Return the function: a method takes `self` as its first parameter, a plain function does not."""
        found = inspect.getattr_static(type(self), "planner")
        if found is None:
            raise TypeError(f"{type(self).__name__}.planner: expected a function of the buffers, got None")
        if inspect.isfunction(found) and next(iter(inspect.signature(found).parameters), "") != "self":
            return found
        result: Callable[..., Any] = self.planner
        return result

    def _given(self, config: pytest.Config) -> Any:
        return testing.buffers() if self.given is None else self.given


class TestPlanner(Conformance):
    """The planner that `--tmmu-planner` names, given what `--tmmu-given` states."""

    def _planner(self, config: pytest.Config) -> Callable[..., Any]:
        return load_planner(config.getoption("tmmu_planner"))

    def _given(self, config: pytest.Config) -> Any:
        return getattr(testing, config.getoption("tmmu_given"))()
