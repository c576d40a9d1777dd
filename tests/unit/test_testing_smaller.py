"""Smaller problems are problems, and need no more memory without a node; failures shrink to them. spec: TP2.8, TP3.6"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tmmu import testing
from tmmu.core.vocabulary import Model
from tmmu.testing.answers import BadAnswer
from tmmu.testing.problems import BufferProblem, ModelProblem, PlannerProblem, measure, problem_of, read_problem
from tmmu.testing.properties import PropertyFailure
from tmmu.testing.reducer import MOST, reduce_failure

FEW = settings(
    max_examples=15, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
LISTED = [testing.TimedBuffer(f"b{k}", 10 * k, 10 * k + 5, 64 * k) for k in range(6)]
BODIES = """tmmu-ir-text 1
model m
tensor x u8 4
tensor y u8 4
tensor z u8 4
node n F -> x
begin n1 Loop -> z
arm body -> y loop
node inner F x -> y
end n1
"""


def peak(problem: PlannerProblem) -> int:
    """The peak of the problem with all tensors apart."""
    offsets, end = dict[str, int](), 0
    for name in problem.names:
        offsets[name], end = end, end + 1024
    return measure(problem.place(offsets)).peak


@pytest.mark.parametrize("strategy", [testing.models(), testing.graphs(views=True, in_place=True), testing.dags()])
def test_without_one_of_its_last_nodes_a_model_has_no_higher_peak(strategy: Any) -> None:
    reduced = 0

    @FEW
    @given(strategy)
    def look(value: Any) -> None:
        nonlocal reduced
        problem = problem_of(value)
        whole = peak(problem)
        for smaller in problem.reduce():
            assert {*smaller.names} <= {*problem.names}
            assert peak(smaller) <= whole
            reduced += 1

    look()
    assert reduced > 15


@pytest.mark.parametrize(
    "strategy",
    [testing.models(), testing.dags(alignments=True), testing.buffers(alignments=True, gaps=True, fixed=True)],
)
def test_each_smaller_problem_is_one_and_is_another(strategy: Any) -> None:
    @FEW
    @given(strategy)
    def look(value: Any) -> None:
        problem = problem_of(value)
        for smaller in problem.simplify():
            document = smaller.document()
            assert read_problem(smaller.kind, document).document() == document
            assert {*smaller.names} <= {*problem.names} | {f"{name[0]}{k}" for k in range(24) for name in problem.names}
            if isinstance(smaller, BufferProblem):
                assert all(b.first <= b.last and b.bytes >= 0 for b in smaller.buffers)

    look()


def failure_of(problem: PlannerProblem, **stated: Any) -> PropertyFailure:
    return PropertyFailure("safe", "", problem, **stated)


def test_what_stays_wrong_is_made_smaller_and_keeps_the_divisor_of_sizes() -> None:
    def examine(problem: PlannerProblem) -> PropertyFailure | None:
        assert isinstance(problem, BufferProblem)
        return failure_of(problem) if sum(b.bytes for b in problem.buffers) >= 200 else None

    found = reduce_failure(examine, failure_of(BufferProblem(LISTED)))
    assert found.problem.argument == [testing.TimedBuffer("b0", 0, 0, 256)]


def test_bodies_are_opened_around_what_is_wrong() -> None:
    model = testing.read_model(BODIES)

    def examine(problem: PlannerProblem) -> PropertyFailure | None:
        assert isinstance(problem, ModelProblem)
        wrong = any(node.name == "inner" and node.reads for node in problem.model.nodes)
        return failure_of(problem) if wrong else None

    found = reduce_failure(examine, failure_of(ModelProblem(model))).problem.argument
    assert isinstance(found, Model)
    assert [node.name for node in found.nodes] == ["n", "inner"]
    assert len(found.bodies) == 1


def test_another_failure_is_none_and_the_problems_are_counted() -> None:
    tried = 0

    def otherwise(problem: PlannerProblem) -> PropertyFailure | None:
        nonlocal tried
        tried += 1
        return failure_of(problem, cause=BadAnswer("another"))

    first = failure_of(BufferProblem(LISTED))
    assert reduce_failure(otherwise, first) is first
    tried = 0
    many = [testing.TimedBuffer(f"b{k}", 0, 9, 1 << 30) for k in range(100)]
    reduce_failure(otherwise, failure_of(BufferProblem(many)))
    assert tried == MOST
