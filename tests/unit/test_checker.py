"""The words and the cost of the naive checker; the plans that it refuses are in `test_wrong_plans.py`.

spec: V1.2, V1.5, V1.13
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, NoReturn

import pytest

from proofs.definition.checker import execute
from proofs.definition.checker.execute import violations
from proofs.definition.checker.program import Program, RunStep, build_program
from proofs.readers.sharing import Permissions
from tests.support.objections import objections
from tests.support.written import Written
from tests.support.wrong_plans.row import Change, arena, into, listed, storage, tensor
from tmmu.plans.sections import Plan

CHAIN = Written("a = MatMul x; y = MatMul a")
"""Three storages of 8 bytes at 0, 16 and 32, in an arena that is aligned to 16."""


def run(written: Written, *changes: Change, permissions: Permissions | None = None) -> Program:
    plan = Plan(written.plan().allocation)
    for change in changes:
        plan = change(plan)
    return build_program(plan, permissions or Permissions())


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (storage("x", alignment=3), "x at 0 has the alignment 3: not a power of two"),
        (storage("x", alignment=0), "x at 0 has the alignment 0: not a power of two"),
        (arena(alignment=96), "the arena of x has the alignment 96: not a power of two"),
        (tensor("a", alignment=6), "a at 16 has the alignment 6: not a power of two"),
        (storage("a", alignment=32), "a at 16 is not aligned to 32"),
        (arena(alignment=32), "a at 16 is not aligned to 32"),
        (tensor("a", alignment=32), "a at 16 is not aligned to 32"),
    ],
)
def test_the_alignment_that_is_named_is_the_one_that_is_wrong(change: Change, text: str) -> None:
    """Another one may well divide the address."""
    assert text in [violation.text for violation in violations(run(CHAIN, change))]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (tensor("y", writer=0), "y is stated to be written by step 0; step 1 writes it"),
        (listed("writes", 1), "y is stated to be written by step 1; no step writes it"),
    ],
)
def test_the_step_that_writes_is_named_beside_the_stated_one(change: Change, text: str) -> None:
    assert text in [violation.text for violation in objections(change(CHAIN.plan()), None)]


@pytest.mark.parametrize(
    ("in_place", "text"),
    [
        ("b:a", "b is stated to be in place of a, but its operation, its operands or the caller do not permit that"),
        ("b:x", "b is stated to be in place of x, but step 1 (n1), which writes it, does not read x"),
        ("c:b", "c is stated to be in place of b, but it is at other bytes"),
    ],
)
def test_the_reason_why_stated_sharing_is_false_is_named(in_place: str, text: str) -> None:
    """spec: V1.15"""
    plan = Written("a = MatMul x; b:a = MatMul a; c = Relu b", in_place=in_place).plan()
    assert text in [violation.text for violation in objections(plan, None)]


@pytest.mark.parametrize(("operands", "results", "pairs"), [(4, 4, 16), (5, 5, 13), (3, 8, 16), (30, 30, 88)])
def test_of_many_operands_under_many_results_some_are_named_with_each_result(
    operands: int, results: int, pairs: int
) -> None:
    """All if they are few; else one for each operand and result, and one for each further result."""
    reads, writes = ([f"{kind}{k}" for k in range(count)] for kind, count in (("a", operands), ("b", results)))
    first, *others = [*reads, *writes]
    home = {first: first, **{name: f"{name}:{first}" for name in others}}
    made, over = (" ".join(home[name] for name in names) for names in (reads, writes))
    found = violations(run(Written(f"{made} = Make; {over} = Op {' '.join(reads)}")))
    named = [item.tensors[0] for item in found if " over " in item.text and item.step == 1]
    assert len(named) == pairs
    assert set(named) == set(writes)


def test_a_view_of_what_the_caller_writes_is_written_with_it() -> None:
    """Where a model says that it is one. spec: V1.13"""
    two = Written("= Wait", given={"x": "input", "v": "input"}, outputs="v", v=4)
    view = Permissions(views={two.row["v"]: (two.row["x"], 4)})
    assert list(violations(run(two, into("v", "x", 4), permissions=view))) == []
    assert {item.obligation for item in violations(run(two, into("v", "x", 4)))} == {"sharing_is_sound"}


def test_problems_come_one_by_one() -> None:
    """The first is there before the steps are looked at: a hostile plan with a million of them costs one."""

    class Unread(list[RunStep]):
        def __iter__(self) -> NoReturn:
            raise AssertionError("the steps were read")

    stream = violations(replace(run(CHAIN, storage("x", alignment=3)), steps=Unread()))
    assert next(stream).obligation == "alignment"
    with pytest.raises(AssertionError, match="the steps were read"):
        list(stream)


def test_a_wide_step_is_checked_in_time_that_grows_as_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of n operands and n results that share no byte, no pair is looked at."""
    reads, writes = (" ".join(f"{kind}{k}" for k in range(40)) for kind in "ry")
    looked = Counter[str]()
    original = execute._may_overwrite

    def counted(*arguments: Any) -> bool:
        looked["pairs"] += 1
        return original(*arguments)

    monkeypatch.setattr(execute, "_may_overwrite", counted)
    assert list(objections(Written(f"{reads} = Make x; {writes} = Many {reads}").plan(), None)) == []
    assert looked["pairs"] == 0
