"""The checks of `tmmu.testing` say no: each property has a planner, an allocator or a checker that breaks it.

spec: TP2.1, TP2.2, TP2.5 to TP2.15, TP3.1 to TP3.4, TP5.1
"""

from __future__ import annotations

import functools
import itertools
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.small_planners import plan_buffers
from tmmu import testing
from tmmu.plans import file
from tmmu.testing.cases import CaseOrigin, NotACase, read_case, saved_cases
from tmmu.testing.problems import ModelProblem, problem_of
from tmmu.testing.programs import write_csv
from tmmu.testing.properties import PROMISES, Planner
from tmmu.testing.strategies.plans import violations_of

AGAIN = ("deterministic",)
Buffers = list[testing.TimedBuffer]


def side_by_side(buffers: Buffers) -> dict[str, int]:
    ends = itertools.accumulate((b.bytes for b in buffers), initial=0)
    return {b.name: at for b, at in zip(buffers, ends, strict=False)}


def by_name(buffers: Buffers) -> dict[str, int]:
    return side_by_side(sorted(buffers, key=lambda b: b.name))


def grows(buffers: Buffers) -> dict[str, int]:
    return {name: at + 64 * (len(buffers) == 1) for name, at in side_by_side(buffers).items()}


def cubic(buffers: Buffers) -> dict[str, int]:
    time.sleep((len(buffers) / 800) ** 3 * 0.3 if len(buffers) > 100 else 0)
    return side_by_side(buffers)


def mutates(buffers: Buffers) -> dict[str, int]:
    found = side_by_side(buffers)
    buffers.clear()
    return found


def any_capacity(buffers: Buffers, capacity: int | None = None) -> dict[str, int]:
    return plan_buffers(buffers)  # type: ignore[no-any-return]  # it has no fault


def raises(buffers: Buffers) -> Any:
    raise KeyError("x")


calls = itertools.count()


def unsteady(buffers: Buffers) -> dict[str, int]:
    return {name: at + next(calls) for name, at in side_by_side(buffers).items()}


@pytest.mark.parametrize(
    ("plan", "name", "also"),
    [
        (raises, "answers", ()), (lambda buffers: {b.name: 0 for b in buffers}, "safe", ()),
        (by_name, "relabelled", ("relabelled",)), (grows, "bounded", ()), (grows, "monotone", ("monotone",)),
        (cubic, "growth", ("growth",)), (unsteady, "deterministic", ()), (any_capacity, "refuses", ()),
        (mutates, "unchanged", ()), (lambda buffers: side_by_side(list({*buffers})), "deterministic", ()),
        (lambda buffers: (side_by_side(buffers), 0), "footprint", ()),
        (lambda buffers: {name: 1 + at for name, at in side_by_side(buffers).items()}, "aligned", ()),
    ],
)  # fmt: skip
def test_each_property_is_broken_by_some_planner(plan: Any, name: str, also: Sequence[str]) -> None:
    others = [other for other in testing.PROPERTIES if other != name and other not in PROMISES]
    given = testing.buffers(most=8, alignments=name == "aligned")
    with pytest.raises(testing.PlannerFailure) as caught:
        testing.check_planner(plan, given, also=also, without=others, folder="", examples=50)
    assert caught.value.failure.name == name


def changes_bytes(dag: Any) -> dict[str, int]:
    found = {name: 1024 * k for k, name in enumerate(dag)}
    for name in dag:
        dag.nodes[name]["bytes"] = 0
    return found


def grows_with_few(dag: Any) -> dict[str, int]:
    return {name: 1024 * k + 4096 * (len(dag) == 2) for k, name in enumerate(dag)}


def grows_with_few_nodes(given: Any) -> dict[str, int]:
    """Also of a `tmmu.Graph` and of a model."""
    problem = problem_of(given)
    assert isinstance(problem, ModelProblem)
    few = len(problem.model.nodes) == 1
    return {name: (k << 12) + (few << 20) for k, name in enumerate(problem.names)}


def in_order_of_a_set(given: Any) -> dict[str, int]:
    problem = problem_of(given)
    assert isinstance(problem, ModelProblem)
    stated = {tensor.name for tensor in problem.model.tensors}
    return {name: 1024 * k for k, name in enumerate([*stated, *({*problem.names} - stated)]) if name in problem.names}


@pytest.mark.parametrize(
    ("plan", "strategy", "name"),
    [
        (changes_bytes, "dags", "unchanged"),
        *((in_order_of_a_set, strategy, "deterministic") for strategy in ("dags", "graphs", "models")),
        (grows_with_few, "dags", "monotone"), (grows_with_few_nodes, "graphs", "monotone"),
        (grows_with_few_nodes, "models", "monotone"),
    ],
)  # fmt: skip
def test_a_planner_of_graphs_is_held_to_the_same(plan: Any, strategy: str, name: str) -> None:
    with pytest.raises(testing.PlannerFailure) as caught:
        testing.check_planner(
            plan, getattr(testing, strategy)(most=6), also=["monotone"], without=["bounded"], folder="", examples=60
        )
    assert caught.value.failure.name == name


def test_a_promise_that_is_not_asked_for_is_not_examined() -> None:
    figures = testing.check_planner(by_name, testing.buffers(most=6), examples=20, folder="")
    assert figures.held["relabelled"] == 0
    figures = testing.check_planner(mutates, examples=20, folder="", without=["unchanged"])
    assert figures.held["deterministic"] == 20


class Elsewhere(str):
    """A label that is no plain text, in an answer."""

    __slots__ = ()


def test_a_name_of_another_type_is_a_name() -> None:
    plan = lambda buffers: {Elsewhere(name): at for name, at in side_by_side(buffers).items()}  # noqa: E731 - short
    assert testing.check_planner(plan, examples=20, folder="").held["answers"] == 20


def test_names_may_be_written_as_text_and_read_again() -> None:
    """Such a planner does not find names with other hashes. An order of a set of names is found all the same."""

    def through_text(buffers: Buffers) -> dict[str, int]:
        sizes = {b.name: b.bytes for b in buffers}
        names = json.loads(json.dumps(list(sizes)))
        return dict(zip(names, itertools.accumulate((sizes[n] for n in names), initial=0), strict=False))

    def by_set(buffers: Buffers) -> dict[str, int]:
        order = {b.name for b in buffers}
        return side_by_side(sorted(buffers, key=lambda b: list(order).index(b.name)))

    assert testing.check_planner(through_text, examples=20, folder="").held["deterministic"] == 20
    with pytest.raises(testing.PlannerFailure, match="deterministic"):
        testing.check_planner(by_set, examples=40, folder="")


@pytest.mark.parametrize("every", [2, 3, 4])
def test_a_planner_that_fails_now_and_then_is_found(every: int) -> None:
    """Whichever of the calls for one problem it is that fails."""
    calls = itertools.count(1)

    def sometimes(buffers: Buffers) -> dict[str, int]:
        if next(calls) % every == 0:
            raise KeyError("b0")
        return side_by_side(buffers)

    with pytest.raises(testing.PlannerFailure, match=r"deterministic|answers"):
        testing.check_planner(sometimes, examples=20, folder="")


def test_a_planner_that_ends_the_process_fails() -> None:
    with pytest.raises(testing.PlannerFailure, match=r"it called sys\.exit\(0\)"):
        testing.check_planner(lambda _: sys.exit(0), examples=5, folder="")


def test_a_planner_may_give_a_byte_to_what_has_none() -> None:
    """Buffers of 1 and 0 bytes need not fit into a capacity of 1."""

    def plan(buffers: Buffers, capacity: int | None = None) -> Any:
        return plan_buffers([replace(b, bytes=max(b.bytes, 1)) for b in buffers], capacity=capacity)

    figures = testing.check_planner(plan, testing.buffers(most=4, largest=2), examples=60, folder="")
    assert figures.held["refuses"] >= 60


def test_a_capacity_is_kept() -> None:
    given = testing.buffers(most=6, largest=64)
    with pytest.raises(testing.PlannerFailure, match="capacity: "):
        testing.check_planner(side_by_side, given, capacity=100, folder="")

    def plan(buffers: Buffers, capacity: int | None = None) -> Any:
        return plan_buffers(buffers, capacity=capacity)

    assert testing.check_planner(plan, given, capacity=100, examples=100, folder="").examples >= 100


def test_a_failure_is_saved_tried_first_and_refuted(tmp_path: Path) -> None:
    def plan(buffers: Buffers) -> dict[str, int]:
        return {b.name: 0 for b in buffers}

    with pytest.raises(testing.PlannerFailure) as caught:
        testing.check_planner(plan, folder=tmp_path)
    saved = caught.value.saved
    assert saved is not None
    text = str(caught.value)
    assert "@example([TimedBuffer('b0', 0, 0, 1), TimedBuffer('b1', 0, 0, 1)])" in text
    assert "==========" in text
    [found] = violations_of(file.read_any(saved.read_bytes(), str(saved)).plan)  # the saved plan is a plan
    assert found.obligation == "no_live_overlap"
    case = read_case(saved)
    assert case.problem.document() == caught.value.failure.problem.document()
    assert [each.path for each in saved_cases(case.origin, tmp_path)] == [saved]
    with pytest.raises(testing.PlannerFailure, match="the saved case fails"):
        testing.check_planner(plan, folder=tmp_path, examples=1)
    other = CaseOrigin(case.origin.planner, repr(testing.dags()))
    assert saved_cases(other, tmp_path) == []  # it may be another function, such as a second lambda of the module
    saved.write_text("hello")
    with pytest.raises(NotACase, match="not a saved case"):
        read_case(saved)


def test_a_case_is_examined_with_what_it_was_examined_with(tmp_path: Path) -> None:
    """The unit of offsets, and no capacity for `refuses`, which tries its own."""

    def in_blocks(buffers: Buffers) -> dict[str, int]:
        return {b.name: 64 * k + 64 * (len(buffers) > 1) for k, b in enumerate(buffers)}

    with pytest.raises(testing.PlannerFailure) as caught:
        testing.check_planner(in_blocks, testing.buffers(largest=64), granularity=64, folder=tmp_path)
    case = read_case(caught.value.saved or tmp_path)
    assert case.name == "bounded"
    assert case.examine(Planner(in_blocks), ["bounded"]) is not None
    assert case.examine(Planner(lambda bs: {b.name: 64 * k for k, b in enumerate(bs)}), ["bounded"]) is None

    with pytest.raises(testing.PlannerFailure) as caught:
        testing.check_planner(any_capacity, folder=tmp_path)
    case = read_case(caught.value.saved or tmp_path)
    assert case.name == "refuses"
    assert case.examine(Planner(any_capacity), ["refuses"]) is not None


def test_a_function_with_bound_arguments_has_its_name_and_any_may_have_another() -> None:
    assert Planner(functools.partial(by_name)).name == Planner(by_name).name
    with pytest.raises(testing.PlannerFailure, match=r"^mine: answers"):
        testing.check_planner(testing.Planner(raises, "mine"), folder="", examples=1)


@pytest.mark.parametrize("kind", ["dags", "graphs", "models"])
def test_a_case_of_each_kind_is_read_again(kind: str, tmp_path: Path) -> None:
    def plan(given: Any) -> dict[str, int]:
        return dict.fromkeys(problem_of(given).names, 0)

    with pytest.raises(testing.PlannerFailure) as caught:
        testing.check_planner(plan, getattr(testing, kind)(), folder=tmp_path)
    assert caught.value.saved is not None
    case = read_case(caught.value.saved)
    assert case.problem.document() == caught.value.failure.problem.document()
    assert type(case.problem.argument) is type(caught.value.failure.problem.argument)


def test_the_examples_follow_from_the_seed() -> None:
    def drawn(seed: int) -> list[str]:
        seen: list[str] = []

        def plan(buffers: Buffers) -> dict[str, int]:
            seen.append(repr(buffers))
            return side_by_side(buffers)

        with testing.running(testing.ExampleRun(20, seed, None)):
            testing.check_planner(plan, without=AGAIN)
        return seen

    assert drawn(1) == drawn(1) != drawn(2)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: testing.check_planner(side_by_side, also=["fast"]), "unknown property 'fast'"),
        (lambda: testing.check_planner(side_by_side, examples=0), "positive number of examples, got 0"),
        (lambda: testing.check_planner(side_by_side, capacity=0), "positive number of bytes as `capacity`, got 0"),
        (lambda: testing.check_planner(side_by_side, granularity=True), "as `granularity`, got True"),
        (lambda: testing.check_planner(side_by_side, without="safe"), r"expected a list .* without=\['safe'\]"),
        (lambda: testing.check_planner(cast(Any, 3)), "expected a function of the problem as the planner, got 3"),
        (lambda: testing.check_planner(side_by_side, cast(Any, 3)), "`given` cannot be drawn from"),
        (lambda: testing.check_allocator(object, capacity=0), "a capacity of a byte or more"),
        (lambda: testing.check_allocator(object, capacity=1, without=["speed"]), "unknown property 'speed'"),
        (lambda: testing.check_verifier(bool, form="json"), "form: expected one of text, bytes, plan"),
    ],
)
def test_a_wrong_argument_is_named(call: Any, sentence: str) -> None:
    with pytest.raises((ValueError, TypeError), match=sentence):
        call()


def test_what_is_no_problem_is_named() -> None:
    with pytest.raises(TypeError, match="from `given`, got int"):
        problem_of(3)


class FirstFit:
    """An allocator of 1024 bytes, with a fault."""

    def __init__(self, fault: str = "") -> None:
        self.fault, self.held = fault, dict[int, int]()
        self.end = 1024 + (fault == "capacity")

    def allocate(self, size: int) -> int | None:
        at = next(calls) % 2 * 8 if self.fault == "unsteady" else 0
        size = max(size, 1)
        for low, length in sorted(self.held.items()):
            if at + size <= low:
                break
            at = max(at, low + length)
        at += self.fault == "odd"
        if at + size > self.end:
            raise MemoryError
        self.held[at] = size - (self.fault == "short" and size > 1)
        return None if self.fault == "none" else at

    def free(self, offset: int) -> None:
        size = self.held.pop(offset)
        if self.fault == "leak" and size > 100:
            self.end -= size
        if self.fault == "raises":
            raise OSError


@pytest.mark.parametrize(
    ("fault", "name"),
    [("capacity", "within_capacity"), ("short", "safe"), ("odd", "aligned"), ("leak", "recovers"), ("none", "answers"),
     ("raises", "answers"), ("unsteady", "deterministic")],
)  # fmt: skip
def test_a_wrong_allocator_is_found(fault: str, name: str) -> None:
    """Sizes are even here, so that a right allocator has even offsets."""
    others = {"aligned": ("within_capacity", "safe", "recovers"), "deterministic": ("recovers", "answers", "safe")}
    with pytest.raises(testing.PlannerFailure) as caught:
        testing.check_allocator(
            lambda: FirstFit(fault), capacity=1024, alignment=2 if fault == "odd" else 1, folder="", examples=60,
            without=others.get(name, ()),
        )  # fmt: skip
    assert caught.value.failure.name == name


def test_a_right_allocator_passes() -> None:
    figures = testing.check_allocator(FirstFit, capacity=1024, examples=20, folder="")
    assert figures.held["recovers"] > 10
    assert figures.held["safe"] >= 20


def judge(text: str, blind: str = "") -> bool:
    plan = file.read_any(text.encode(), "text").plan
    return not [each for each in violations_of(plan) if each.obligation != blind]


def test_a_checker_has_a_score_by_obligation() -> None:
    score = testing.check_verifier(judge, examples=15)
    assert score.accepted == score.right >= 15
    assert score.refused == score.wrong
    with pytest.raises(testing.VerifierFailure, match="a wrong plan is accepted: alignment") as caught:
        testing.check_verifier(lambda text: judge(text, "alignment"), examples=15)
    assert caught.value.score.refused["alignment"] < caught.value.score.wrong["alignment"]
    with pytest.raises(testing.VerifierFailure, match="a right plan is refused"):
        testing.check_verifier(lambda plan: len(plan) < 200, form="bytes", examples=20, obligations=["capacity"])


def test_buffers_are_written_as_minimalloc_reads_them() -> None:
    b = testing.TimedBuffer("b", 2, 6, 8, 4, ((3, 4),), 16)
    assert write_csv([b]) == "id,lower,upper,size,alignment,gaps,offset\nb,2,7,8,4,3-5,16\n"


def test_each_problem_is_reported_once_tried() -> None:
    """spec: C5.1"""
    found: list[tuple[str, int, int]] = []

    def report(phase: str, done: int = 0, total: int = 0) -> None:
        found.append((phase, done, total))

    with testing.running(testing.ExampleRun(5, 1, None, report)):
        testing.check_planner(side_by_side, testing.buffers(), without=AGAIN)
    assert found
    assert all((phase, total) == ("problems", 5) and done <= 5 for phase, done, total in found)
    assert [done for _, done, _ in found] == sorted(done for _, done, _ in found)
