"""The three promises, asked straight from their definitions: what breaks one is found and named, whoever answers.

spec: V4.7, V1.1, V1.2, V5.1
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from proofs.definition import promises
from proofs.proving import obligations
from proofs.proving import promises as solving
from proofs.proving.obligations import UNKNOWN
from proofs.proving.solvers import Answer
from proofs.proving.solvers.process import Z3
from tests.support.synthetic import training_plan
from tests.support.written import Written
from tmmu.core.columns import Names, build_column
from tmmu.examples.broken.editing import changed, claiming
from tmmu.plans import file
from tmmu.plans.allocation import Arena, Buffers
from tmmu.plans.columns import Storages
from tmmu.plans.sections import BufferPlan, Plan


class Scripted:
    """A solver that gives these answers in turn."""

    version = "scripted"

    def __init__(self, *answers: str | Answer) -> None:
        self.answers, self.asked = list(answers), 0

    def evaluate(self, text: str, timeout_s: float) -> Answer:
        if text == "(reset)":
            return Answer("", None, 0.0)
        self.asked += 1
        answer = self.answers.pop(0)
        return answer if isinstance(answer, Answer) else Answer(answer, None, 0.5)

    def close(self) -> None:
        self.answers.clear()


def asked(plan: Plan) -> tuple[bool, promises.Finding | None]:
    """Whether Z3 proves the promises of a plan, and what it finds."""
    with Z3() as solver:
        answer, found = solving.ask(plan.allocation, plan.claims, solver, 60)
    assert answer.proof != answer.counterexample
    return answer.proof, found


def test_right_plans_keep_their_promises() -> None:
    for count in (1, 2, 9):
        assert asked(training_plan(count, seed=count)) == (True, None)


def test_the_pairs_that_share_an_arena_a_step_and_a_byte_are_found() -> None:
    """x lives at step 0, a at both steps, b at step 1, each in 8 bytes. spec: V1.1, T7.2"""
    plan = Written("a = MatMul x\nb = MatMul a", given={"x": "input"}).plan()
    cases: list[tuple[dict[str, int], int, set[int]]] = [
        ({}, 0, set()), ({"offset": 8}, 1, set()), ({"offset": 7}, 1, {0, 1}), ({"offset": 0}, 2, set()),
        ({"offset": 0, "birth": 0}, 2, {0, 2}), ({"offset": 23}, 2, {1, 2}), ({"offset": 24}, 2, set()),
        ({"offset": 9}, 2, {1, 2}), ({"offset": 8}, 2, set()), ({"offset": 16, "birth": 2, "death": 4}, 2, set()),
        ({"offset": 7, "bytes": 0}, 1, set()), ({"offset": 2**64 - 1, "bytes": 2**64 - 1}, 1, set()),
    ]  # fmt: skip
    for values, row, expected in cases:
        wrong = changed(plan, "storages", row, **values)
        [one] = promises.no_live_overlap(wrong.allocation)
        with Z3() as solver:
            text = f"(set-option :produce-models true)\n{one.tables}\n{one.breaks}(check-sat)"
            answer = solver.evaluate(text, 60)
        assert answer.text == ("sat" if expected else "unsat"), values
        if expected:
            proof, found = asked(wrong)
            assert not proof
            assert found is not None
            assert set(found.storages) == expected


def test_an_address_that_is_no_multiple_is_named() -> None:
    """Of a storage by its own alignment and its arena's, of a tensor, and an alignment that is no power of two. V1.2"""
    plan = Written("a@4:x = MatMul x", given={"x": "input"}, x=16).plan()
    assert asked(plan) == (True, None)
    for table, values in (
        ("storages", {"alignment": 64, "offset": 16}), ("storages", {"offset": 8}), ("tensors", {"alignment": 8}),
        ("tensors", {"alignment": 3}), ("storages", {"alignment": 0}),
    ):  # fmt: skip
        proof, found = asked(changed(plan, table, 1 if table == "tensors" else 0, **values))
        assert not proof
        assert found is not None
        assert found.storages == (0,), values
        assert "is not aligned to" in found.text


def test_slots_are_as_many_as_live_at_some_step_and_at_none_more() -> None:
    """One too few and one too many; an arena for which it is not claimed is not asked about. spec: V5.1"""
    plan = training_plan(12, seed=3)
    used = plan.usage[0]
    assert used.minimal
    assert used.slots is not None
    for slots, right in ((used.slots, True), (used.slots - 1, False), (used.slots + 1, False)):
        proof, found = asked(claiming(plan, slots=slots))
        assert proof is right
        assert (found is None) is right
    few = asked(claiming(plan, slots=used.slots - 1))[1]
    assert few is not None
    assert len(few.storages) == used.slots
    assert asked(claiming(plan, slots=used.slots + 1, minimal=False)) == (True, None)
    assert not asked(claiming(plan, max_live=used.slots + 1, minimal=False))[0]
    assert asked(claiming(plan, slots=None)) == (True, None)
    inputs = " ".join(f"t{k}" for k in range(10))
    many = Written(f"y = Concat {inputs}", given=dict.fromkeys(inputs.split(), "input")).plan()
    shown = asked(claiming(many, max_live=1))[1]
    assert shown is not None
    assert shown.text.endswith(", ".join(inputs.split()[:8]))
    two = training_plan(12, seed=3, arenas=2)
    storages = replace(two.allocation.storages, arena=np.zeros_like(two.allocation.storages.arena))
    in_one = replace(two.allocation, storages=storages)
    assert [one.rows for one in promises.slot_count_is_max_live(in_one, two.claims)] == [len(storages)]


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        (["unknown", "sat"], "answers 'unknown"),
        (["unsat", "unsat"], "answers 'unsat\\nunsat'"),
        (["unsat", Answer("", "died", 0.0)], "died"),
        (["unsat", Answer("sat", "died", 0.0)], "died"),
        ([Answer("", "too late", 0.0)], "too late"),
    ],
)
def test_a_promise_is_proved_by_the_exact_answer_alone(
    answers: list[str | Answer], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: V4.1"""
    with Z3() as whole:
        monkeypatch.setattr(whole, "evaluate", Scripted(*answers).evaluate)
        monkeypatch.setattr(obligations, "SolverProcess", lambda **_: whole)
        plan = training_plan(9)
        outcome = obligations._promised(plan.allocation, plan.claims, 60, "z3")
    assert outcome.verdict == UNKNOWN
    assert reason in outcome.note


@pytest.mark.parametrize(
    "text",
    [
        "((i 7))",
        "((i 7) (j #b01))",
        "((i #b00) (j 7))",
        "((i #b00) (j x #b01))",
        "((i #b00) (j (bv #b01)))",
        "((i #b00) (j))",
        "((i #b00) #b)",
        Answer("", "died", 0.0),
    ],
)
def test_a_model_that_cannot_be_read_names_nothing(text: str | Answer) -> None:
    answer, found = solving.ask(training_plan(9).allocation, None, Scripted("sat", text), 60)
    assert answer.counterexample
    assert found is None


def test_what_each_question_took_is_counted() -> None:
    """Two of half a second each for a promise that holds."""
    plan = training_plan(9)
    count = len(list(promises.questions(plan.allocation, plan.claims)))
    solver = Scripted(*("unsat", "sat") * count)
    answer, found = solving.ask(plan.allocation, plan.claims, solver, 60)
    assert (answer.proof, answer.seconds, found) == (True, count * 1.0, None)


def test_of_no_storages_nothing_is_asked() -> None:
    none = Storages(
        *(build_column([], kind) for kind in (np.uint32, np.uint64, np.uint64, np.uint32, np.uint32, np.uint64))
    )
    assert list(promises.questions(Buffers((Arena("a", 8),), none, (), Names.of([])), None)) == []


def test_a_single_storage_is_no_pair() -> None:
    plan = training_plan(1, seed=2)
    alone = changed(plan, "storages", 0, bytes=0).allocation
    assert list(promises.no_live_overlap(alone)) == []


def buffers(second_birth: int) -> BufferPlan:
    """Two buffers at one place, the second born at a step."""
    u32, u64 = np.uint32, np.uint64
    storages = Storages(
        build_column([0, 0], u32), build_column([8, 8], u64), build_column([1, 1], u64),
        build_column([0, second_birth], u32),
        build_column([3, 9], u32), build_column([0, 0], u64),
    )  # fmt: skip
    return BufferPlan(Buffers((Arena("a", 8),), storages, (), Names.of(["p", "q"])))


@pytest.mark.parametrize(
    ("make", "code", "said"),
    [
        (lambda: training_plan(9), 0, "slot count == max live: holds"),
        (lambda: buffers(4), 0, "alignment: holds"),
        (lambda: buffers(3), 1, "p and q are both live at step 3"),
    ],
)
def test_the_module_runs_alone(
    make: Callable[[], Plan | BufferPlan],
    code: int,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file.save(make(), tmp_path / "p.cbor")
    assert solving.main(str(tmp_path / "p.cbor")) == code
    printed = capsys.readouterr().out
    assert said in printed
    assert "PROVED" not in printed


@pytest.mark.parametrize(
    ("answers", "code", "said"),
    [(["unknown", "sat"], 3, "the solver answers 'unknown"), ([Answer("", "too late", 0.0)], 3, "too late")],
)
def test_what_the_solver_does_not_answer_is_said(
    answers: list[str | Answer],
    code: int,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file.save(training_plan(9), tmp_path / "p.cbor")
    with Z3() as whole:
        monkeypatch.setattr(whole, "evaluate", Scripted(*answers).evaluate)
        monkeypatch.setattr(solving, "SolverProcess", lambda **_: whole)
        assert solving.main(str(tmp_path / "p.cbor")) == code
    assert capsys.readouterr().out.startswith(said)


def test_what_is_no_plan_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.cbor").write_bytes(b"no plan")
    assert solving.main(str(tmp_path / "p.cbor")) == 4
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "p.cbor" in printed.err
