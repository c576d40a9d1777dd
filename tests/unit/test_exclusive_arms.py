"""Exclusive arms: right plans are proved by checker and solver alike, and what is assumed of an operator is listed.

The wrong plans are in the corpus. Nothing here asks the kernel, so that it may be installed or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from proofs.definition.checker.program import build_program
from proofs.definition.checker.structure import check_nesting
from proofs.proving import obligations
from proofs.proving.obligations import sharing_is_sound
from proofs.proving.obligations.context import context_of
from proofs.readers.arms import Branch, exclusivity_assumptions, find_branching_nodes
from proofs.readers.sharing import decide_permissions
from proofs.verify.judge import judge
from tests.support.objections import objections
from tmmu.core.columns import build_column
from tmmu.examples.broken import exclusive
from tmmu.examples.broken.editing import right
from tmmu.plans import file, text
from tmmu.plans.sections import Plan, amend_plan
from tmmu.simulator.hashed import HashKernels
from tmmu.simulator.memories import Raw
from tmmu.simulator.program import PlanProgram
from tmmu.simulator.simulate import simulate


def refuted(plan: Plan) -> set[str]:
    """What the naive side finds and what the solver does not prove."""
    outcomes = obligations.prove(context_of(plan, decide_permissions(plan, None, frozenset())))
    naive = {getattr(problem, "obligation", "") for problem in objections(plan, None)}
    return naive | {outcome.name for outcome in outcomes if outcome.verdict != obligations.PROVED}


@pytest.mark.parametrize("name", exclusive.RIGHT)
def test_right_plans_with_exclusive_arms_are_proved(name: str) -> None:
    """Arms use one another's bytes, write one tensor each, lie in an arm, or in a loop. spec: X4.1, X4.3, X4.5"""
    plan = exclusive.RIGHT[name]()
    assert refuted(plan) == set()
    undeclared = amend_plan(
        plan,
        bodies=replace(plan.allocation.bodies, exclusive=build_column([0] * len(plan.allocation.bodies), np.uint8)),
    )
    assert {"lifetimes_cover_accesses"} <= refuted(undeclared)


def read(lines: bytes) -> Plan:
    """A plan as text."""
    plan = text.read(lines, "p.plan.txt")
    assert isinstance(plan, Plan)
    return plan


THREE_ARMS = b"""tmmu-plan-text 1
arena a 64
tensor x 8 a 0 input
tensor c 8 a 8 input
tensor t 8 a 16
tensor y 8 a 24 output
begin n If c -> exclusive
step one Gemm x -> t
step first com.x::Read t ->
arm
step two com.x::Read x ->
arm
step three Gemm x -> t
step last com.x::Read t ->
end n ->
step out Gemm x -> y
"""


def test_an_arm_between_two_that_write_a_tensor_need_not_write_it() -> None:
    """At its end the tensor holds what it holds where no arm has run. spec: X4.3"""
    plan = read(THREE_ARMS)
    assert refuted(plan) == set()


ARMS_IN_AN_ARM = b"""tmmu-plan-text 1
arena a 64
tensor x 8 a 0 input
tensor c 8 a 8 input
tensor t 8 a 16
begin n If c -> exclusive
begin m If c -> exclusive
step one Gemm x -> t
arm
step two Gemm x -> t
end m ->
arm
step three Gemm x -> t
end n ->
step last com.x::Read t ->
"""


def test_an_arm_has_written_what_each_arm_of_a_node_in_it_writes() -> None:
    """So that it is there behind the outer node, if its other arm writes it too. spec: X4.4"""
    plan = read(ARMS_IN_AN_ARM)
    assert refuted(plan) == set()
    unwritten = read(ARMS_IN_AN_ARM.replace(b"step two Gemm x -> t", b"step two com.x::Read x ->"))
    assert "lifetimes_cover_accesses" in refuted(unwritten)


LAST_IN_PLACE = b"""tmmu-plan-text 1
arena a 64
tensor x 8 a 0 input
tensor c 8 a 8 input
tensor t 8 a 16
tensor u 8 a 16 inplace t
tensor y 8 a 24 output
begin n If c -> exclusive
step one Gemm x -> t
step two Relu t -> u
arm
step three com.x::Read x ->
end n t -> y
"""


@pytest.mark.parametrize("taken", [b"t", b"u"])
def test_the_last_step_of_an_arm_does_not_overwrite_what_is_taken_of_it(taken: bytes) -> None:
    """Though it reads it, and may take its bytes elsewhere. spec: X4.5, X4.6"""
    plan = read(LAST_IN_PLACE.replace(b"end n t", b"end n " + taken))
    found = obligations.prove(context_of(plan, decide_permissions(plan, None, frozenset())))
    wrong = {one.name for one in found if one.verdict != obligations.PROVED}
    assert ("sharing_is_sound" in wrong) == (taken == b"t"), wrong


def test_so_many_pairs_of_what_a_leave_takes_and_writes_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """More leave the obligation open. spec: X4.6, V4.6"""
    plan = exclusive.RIGHT["one-place"]()
    context = context_of(plan, decide_permissions(plan, None, frozenset()))
    pairs = sum(len(batch.rows) for batch in sharing_is_sound._taken(context))
    assert pairs
    for most, verdict in ((pairs, obligations.PROVED), (pairs - 1, obligations.UNKNOWN)):
        monkeypatch.setattr(sharing_is_sound, "EFFORT_LIMIT", most)
        found = {outcome.name: outcome.verdict for outcome in obligations.prove(context)}
        assert found["sharing_is_sound"] == verdict


IN_A_LOOP = b"""tmmu-plan-text 1
arena a 64
tensor x 8 a 0 input
tensor c 8 a 8 input
tensor t 8 a 16
begin n If c -> exclusive
begin l Loop x ->
step one Gemm x -> t
step first com.x::Read t ->
end l ->
arm
step two Gemm x -> t
step last com.x::Read t ->
end n ->
"""


def test_a_write_in_a_loop_within_an_arm_is_no_write_of_that_arm_alone() -> None:
    """It may run again: the tensor is written by two steps, but not each is in an exclusive branch. spec: X4.3, T5.1"""
    plan = read(IN_A_LOOP)
    found = obligations.prove(context_of(plan, decide_permissions(plan, None, frozenset())))
    assert "lifetimes_cover_accesses" in {one.name for one in found if one.verdict == obligations.VIOLATED}


def test_a_result_lies_on_the_output_that_becomes_it() -> None:
    """spec: X4.6"""
    plan = exclusive.one_place()
    address = dict(zip(plan.allocation.tensors.name, plan.allocation.addresses().tolist(), strict=True))
    assert (address["left"], address["right"]) == (address[exclusive.ONE], address[exclusive.FOUR])
    assert address[exclusive.TWO] == address[exclusive.THREE]


def with_op(plan: Plan, domain: str, op: str) -> Plan:
    """The plan in which another operator stands for the If."""
    return amend_plan(plan, ops=tuple((domain, op) if pair == ("", "If") else pair for pair in plan.allocation.ops))


@pytest.mark.parametrize(
    ("domain", "op", "listed"),
    [("", "If", []), ("ai.onnx", "If", []), ("jax.lax", "cond", []),
     ("com.example", "Switch", ["com.example::Switch runs exactly one of its bodies"])],
)  # fmt: skip
def test_of_an_operator_that_is_not_known_the_declaration_is_an_assumption(
    domain: str, op: str, listed: list[str]
) -> None:
    """spec: X4.2"""
    plan = with_op(exclusive.both_write(), domain, op)
    assert refuted(plan) == set()
    assert exclusivity_assumptions(plan.allocation) == listed
    verdict = judge("p", file.decode(file.encode(plan)))
    assert verdict.assumptions["believed_operators"] == listed


@pytest.mark.parametrize(("domain", "op"), [("", "Loop"), ("", "Scan"), ("jax.lax", "while"), ("tmmu.grad", "IfGrad")])
def test_an_operator_that_iterates_has_no_exclusive_arms(domain: str, op: str) -> None:
    """spec: X4.1, X4.2, T8.13"""
    plan = with_op(exclusive.both_write(), domain, op)
    assert "bodies_nest" in refuted(plan)
    assert find_branching_nodes(plan.allocation) == []
    assert all("iterates" in text for text in declared_wrongly(plan))


def declared_wrongly(plan: Plan) -> list[str]:
    """What is said of bodies that are declared exclusive and may not be."""
    found = check_nesting(plan, build_program(plan, decide_permissions(plan, None, frozenset())))
    said = [problem.text for problem in found if "is declared exclusive, but " in problem.text]
    assert said
    return said


def test_one_body_alone_is_not_exclusive() -> None:
    """spec: X4.1, X4.2"""
    plan = exclusive.both_write()
    flags = np.zeros(len(plan.allocation.bodies), np.uint8)
    flags[1] = 1
    alone = amend_plan(plan, bodies=replace(plan.allocation.bodies, exclusive=build_column(flags, np.uint8)))
    assert all("another body of its node is not" in text for text in declared_wrongly(alone))


def test_arms_are_ranges_of_steps_in_the_order_of_the_bodies() -> None:
    """spec: X4.1"""
    plan = exclusive.RIGHT["nested"]()
    assert [node.arms for node in find_branching_nodes(plan.allocation)] == [
        (Branch(1, 4), Branch(5, 5)),
        (Branch(2, 2), Branch(3, 3)),
    ]
    body = plan.allocation.steps.body.tolist()
    for step, other, left in ((5, 0, [(1, 4)]), (3, 0, []), (2, body[5], []), (3, body[2], [(0, 6), (1, 4)])):
        moved = build_column([other if n == step else b for n, b in enumerate(body)], np.uint32)
        wrong = amend_plan(plan, steps=replace(plan.allocation.steps, body=moved))
        assert [(node.enter, node.leave) for node in find_branching_nodes(wrong.allocation)] == left
        assert ("bodies_nest" in refuted(wrong)) == (len(left) < 2)


# Runs


def runs(plan: Plan, seeds: range = range(8)) -> set[tuple[int, ...]]:
    """The steps of arms that runs with these seeds take, each a run that is identical to private memory."""
    found = set()
    for seed in seeds:
        program = PlanProgram(plan)
        kernels = Noting(program, seed)
        report = simulate(program, kernels, sanitize=True)
        assert report.corruption is None
        found.add(tuple(sorted(kernels.steps)))
    return found


class Noting(HashKernels):
    """Stand-in kernels that note the steps that they compute."""

    def __init__(self, program: PlanProgram, seed: int) -> None:
        super().__init__(program, seed)
        self.steps: set[int] = set()

    def compute(self, n: int, operands: Sequence[Raw]) -> list[Raw]:
        self.steps.add(n)
        return super().compute(n, operands)


@pytest.mark.parametrize("name", ["one-place", "both-write", "nested"])
def test_a_run_takes_one_arm_and_all_are_taken_over_seeds(name: str) -> None:
    """Also where the leave finds what it takes in the bytes that it writes. spec: SIM4.3, X4.6, X4.9"""
    plan = exclusive.RIGHT[name]()
    arms = [arm for node in find_branching_nodes(plan.allocation) for arm in node.arms]
    found = runs(plan)
    for arm in arms:
        assert any(set(range(arm.first, arm.last + 1)) & set(steps) for steps in found)
    first, second = find_branching_nodes(plan.allocation)[0].arms
    for steps in found:
        assert not (set(steps) & set(range(first.first, first.last + 1))) or second.first not in steps


def test_a_run_of_a_loop_with_exclusive_arms_is_identical() -> None:
    """spec: X4.7"""
    assert runs(exclusive.RIGHT["branch-in-a-loop"](), range(16))


@pytest.mark.parametrize("plan", [right(exclusive.switch()), exclusive.one_place()], ids=["undeclared", "declared"])
def test_a_run_takes_one_branch_of_a_cond(plan: Plan) -> None:
    """Its branches do not run again: what the other branch leaves behind is no input of a second round."""
    assert len(runs(with_op(plan, "jax.lax", "cond"))) == 2


def test_of_an_operator_that_is_not_known_the_declaration_decides_how_often_arms_run() -> None:
    """spec: X4.2"""
    assert runs(with_op(exclusive.both_write(), "com.example", "Switch")) == {(0, 2, 3, 7), (0, 4, 5, 7)}
