"""The soak of plans says no: to a verifier that overlooks something or refuses everything, to a witness of nothing.

spec: V4.4, V1.8, R5.1
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proofs.definition import promises
from proofs.definition.checker import execute as checker
from proofs.definition.violations import Obligation, Violation
from proofs.proving import obligations
from proofs.proving.kernel.evidence import words
from proofs.proving.obligations.context import context_of
from proofs.proving.solvers import Answer, refutation
from proofs.proving.solvers.process import Z3, SolverProcess
from proofs.readers.sharing import Permissions, decide_permissions
from proofs.verify import ranks
from tests.nightly.soak import judge as judging
from tests.nightly.soak import plans
from tests.nightly.soak.cases import case
from tests.nightly.soak.figures import Figures, load
from tests.nightly.soak.judge import Judge
from tests.nightly.soak.witness import confirmed, shows_ranks
from tests.support.text_models import text_model
from tests.support.warm import UNSEEN, Kept, Remembering, warm
from tmmu.core.errors import REGISTRY
from tmmu.examples.broken.editing import changed
from tmmu.planner import plan_memory
from tmmu.plans import file
from tmmu.plans.gate import StatedPlan
from tmmu.plans.sections import Plan, amend_plan, require_section
from tmmu.testing.catalogue import CODES, FAULTS, NOT_PRINTED, Case

CASES = {"plain": 5, "bodies": 4, "envelopes": 8, "training": 2, "ranks": 6}
"""In so many cases of each kind every fault has a place, but for some that few plans have a place for."""
SELDOM = {
    "capacity/crowded", "must_not_alias/brought_together", "slot_count/boasting", "sharing_is_sound/displaced",
    "sharing_is_sound/not_given_up",
    "sharing_is_sound/caller_in_place", "shards/no_padding", "shards/no_padding_of_the_model",
}  # fmt: skip


@pytest.fixture(scope="module")
def solver() -> Iterator[Z3]:
    with warm() as process:
        yield process


def soaked(folder: Path, solver: Z3, numbers: dict[str, int], tries: int = 1) -> Figures:
    """Every fault that the cases of each kind have places for, so many times."""
    judge = Judge(folder, solver, Figures(), rows_every=1, kernel_every=4)
    for kind, count in numbers.items():
        for number in range(count):
            if (about := case(kind, number)) is not None:
                plans.look_at(about, dict.fromkeys(plans.KINDS[kind], tries), judge)
    return judge.figures


def test_every_code_that_the_verifier_can_answer_with_has_faults() -> None:
    """Of the failure codes, those that it cannot print are listed with the reason. spec: R5.1"""
    # Judged where `--arenas` gives a configuration beside the plan, and where a plan or `--fix` fixes an offset.
    of_a_configuration = {Obligation.ARENAS_ARE_CONFIGURED, Obligation.OFFSETS_ARE_FIXED}
    assert set(CODES) == (set(Obligation) - of_a_configuration) | (set(REGISTRY) - set(NOT_PRINTED))
    assert not set(CODES) & set(NOT_PRINTED)
    assert set(NOT_PRINTED) <= set(REGISTRY)
    assert {code for codes in plans.KINDS.values() for code in codes} == set(CODES)


def test_every_fault_is_refused_and_its_witness_shows_nothing_in_a_right_plan(
    tmp_path: Path, solver: Z3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is confirmed of the fault is not so of the plan that it is injected into. spec: V4.4, C2.5"""
    shown: list[str] = []

    def of_plan(about: Case, stated: StatedPlan, donated: frozenset[str], witness: Any) -> bool:
        right = next(plan for plan in about.plans if plan.origin.rank == stated.plan.origin.rank)
        of_right = file.require_steps(file.decode(file.encode(right)))
        if _is_there(of_right, witness) and confirmed(about, of_right, about.donated, witness):
            shown.append(f"{about.name}: {witness}")
        return confirmed(about, stated, donated, witness)

    monkeypatch.setattr(judging, "confirmed", of_plan)
    figures = soaked(tmp_path, solver, CASES)
    assert figures.wrong == []
    assert shown == []
    assert {title for title in FAULTS if not figures.counts[title, "injected"]} <= SELDOM
    for title in FAULTS:
        injected, *caught = (figures.counts[title, c] for c in ("injected", "refused", "by code", "confirmed"))
        assert caught == [injected] * 3, title
        assert figures.counts[title, "rows"] == figures.counts[title, "no rows"]
        assert figures.counts[title, "kernel"] == figures.counts[title, "no kernel"]
    assert "0 not caught" in figures.table()


def _is_there(stated: StatedPlan, witness: Any) -> bool:
    """Does a plan have what a witness names? (A fault may have renamed it.)"""
    known = {*stated.plan.allocation.tensors.name, "nothing"}
    return set(witness.get("tensors", ())) <= known


def test_the_witness_on_ranks_shows_nothing_where_they_fit(solver: Z3) -> None:
    """spec: V4.4"""
    for about in filter(None, (case("ranks", number) for number in range(12))):
        stated = [file.require_steps(file.decode(file.encode(plan))) for plan in about.plans]
        held = {
            plan.allocation.tensors.name[r]
            for plan in about.plans
            for r in require_section(plan.shards, "shards").tensor.tolist()
        }
        for name in held:
            for obligation in ranks.OBLIGATIONS:
                assert not shows_ranks(stated, {"obligation": obligation, "ranks": [0, 1], "tensors": [name]})


def test_a_checker_that_overlooks_overlaps_is_found_out(
    tmp_path: Path, solver: Z3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checker, "check_live_overlaps", lambda run: iter(()))
    wrong = soaked(tmp_path, solver, {"plain": 2}).wrong
    assert any("no_live_overlap" in line for line in wrong)


def test_a_checker_that_refuses_everything_is_found_out(
    tmp_path: Path, solver: Z3, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Violation(Obligation.ALIGNMENT, "it is wrong")
    monkeypatch.setattr(checker, "check_placement", lambda run: iter([problem]))
    wrong = soaked(tmp_path, solver, {"plain": 1}).wrong
    assert ["right, and REFUTED" in line for line in wrong] == [True]


def test_a_file_whose_hashes_are_not_looked_at_is_found_out(
    tmp_path: Path, solver: Z3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: V1.8"""
    monkeypatch.setattr(file, "find_false_hashes", lambda stated: [])
    wrong = soaked(tmp_path, solver, {"plain": 1}).wrong
    assert wrong
    assert all("/hashes/" in line or "/turned_bit/" in line for line in wrong)


def test_rows_that_ask_for_nothing_are_found_out(tmp_path: Path, solver: Z3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Judge, "_discharged", lambda *_: True)
    assert any("every row is discharged" in line for line in soaked(tmp_path, solver, {"plain": 1}).wrong)


def test_a_verdict_that_crashes_or_hangs_is_found_out(
    tmp_path: Path, solver: Z3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "PATIENCE", 1)
    monkeypatch.setattr(checker, "check_live_overlaps", lambda run: time.sleep(5))
    assert ["Hang" in line for line in soaked(tmp_path, solver, {"plain": 1}).wrong] == [True]
    monkeypatch.setattr(checker, "check_live_overlaps", lambda run: 1 // 0)
    assert ["ZeroDivisionError" in line for line in soaked(tmp_path, solver, {"plain": 1}).wrong] == [True]


def test_figures_are_kept_and_the_next_run_goes_on_from_there(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    figures, following = load(path)
    assert (figures.injected(), following) == (dict.fromkeys(CODES, 0), {})
    figures.count("peak/peak", "injected")
    figures.cases["plain"] += 1
    figures.wrong.append("plain:1/peak/peak/0: accepted")
    figures.save(path, {"plain": 8})
    again, following = load(path)
    assert (again, following) == (figures, {"plain": 8})
    again.add(figures)
    assert (again.of("peak", "injected"), again.cases["plain"], len(again.wrong)) == (2, 2, 2)


def test_no_fault_is_injected_twice_into_a_case(tmp_path: Path, solver: Z3, monkeypatch: pytest.MonkeyPatch) -> None:
    """How often a fault was tried is not how often it was injected."""
    about = case("plain", 0)
    assert about is not None
    given: list[tuple[str, Any]] = []
    monkeypatch.setattr(Judge, "fault", lambda _, case, fault, files, where: given.append((fault.title, files)))
    plans.look_at(about, dict.fromkeys(plans.KINDS["plain"], 40), Judge(tmp_path, solver, Figures()))
    assert len(set(given)) == len(given)
    assert len(given) < 40 * len({title for title, _ in given})


def test_a_plan_is_not_proved_again_where_only_its_token_differs(solver: Z3) -> None:
    """One with another number anywhere is; so is one that was not proved."""
    plan, asked, holds = plan_memory(text_model("node a A x -> t", "node b B t -> y")).plan, list[Plan](), [True]

    def ask(plan: Plan) -> str:
        asked.append(plan)
        return f"no. {len(asked)}"

    kept = Kept(ask, lambda _: holds[0])

    def said(of: Plan, in_place: dict[int, int] | None = None, donated: frozenset[str] = frozenset()) -> str:
        context = context_of(of, Permissions(in_place=in_place or {}), donated)
        answer: str = kept(context, lambda prove: prove(of))
        return answer

    assert said(plan) == said(amend_plan(plan, replay_token=bytes(32), rank=1, world_size=2)) == "no. 1"
    assert said(changed(plan, "storages", 0, death=1)) == "no. 2"
    assert said(plan, {1: 0}) == "no. 3"
    assert said(plan, donated=frozenset("x")) == "no. 4"
    holds[0] = False
    other = changed(plan, "storages", 0, death=2)
    assert (said(other), said(other)) == ("no. 5", "no. 6")


def test_a_solver_that_remembers_says_of_another_text_what_is_so() -> None:
    """Nor is a failure remembered."""
    with Remembering(SolverProcess(), known := {}) as solver:
        texts = (refutation("(< 1 2)"), refutation("(< 2 1)"))
        for _ in range(2):
            assert [solver.evaluate(text, 60).proof for text in texts] == [True, False]
        assert list(known) == list(texts)
        known[texts[0]] = Answer("nonsense", None, 0.0)
        assert solver.evaluate(texts[0], 60).text == "nonsense"
        assert solver.evaluate("(check-sat", 60).failure
        assert list(known) == list(texts)
        solver.solver.close()


def test_what_is_not_remembered_of_a_plan_is_what_no_row_and_no_word_is_drawn_from() -> None:
    """The rows, the question of the definition, and the words for the kernel."""
    about = case("ranks", 1)
    assert about is not None
    plan = about.plan
    bare = plan_memory(text_model("node a A x -> y")).plan
    other = replace(amend_plan(plan, **{name: getattr(bare.origin, name) for name in UNSEEN}), shards=None)
    assert other != plan
    assert rows(plan) == rows(other)
    assert rows(plan) != rows(changed(plan, "storages", 0, bytes=1 << 20))
    asked = [[one.tables for one in promises.questions(each.allocation, each.claims)] for each in (plan, other)]
    assert asked[0] == asked[1]
    evidence = [words(context_of(each, Permissions()), bytes(32)).tolist() for each in (plan, other)]
    assert evidence[0] == evidence[1]


def rows(plan: Plan) -> list[list[str]]:
    """The rows of every obligation."""
    view = context_of(plan, decide_permissions(plan, None, frozenset()), frozenset())
    return [
        [row for batch in obligation.rows(view) for row in batch.rows] for obligation in obligations.MODULES.values()
    ]


def test_the_code_with_the_fewest_faults_comes_next() -> None:
    figures, following = Figures(), dict[str, int]()
    for code in CODES:
        figures.counts[plans.faults_of(code)[0].title, "injected"] = 0 if code == "shards" else 9
    task = plans.chosen(figures, following, CODES)
    assert (task.kind, task.numbers, following) == ("ranks", range(plans.PART), {"ranks": plans.PART})
    assert task.tries["shards"] * len(plans.faults_of("shards")) >= plans.OF_ONE
    assert all(plans.faults_of(code) for code in CODES)
    assert plans.chosen(figures, following, CODES, 0) is None
    some = plans.chosen(figures, following, CODES, 9)
    assert some is not None
    assert set(some.tries) == {"shards"}
    assert plans.chosen(figures, following, CODES).numbers == range(2 * plans.PART, 3 * plans.PART)
    assert set(plans.chosen(figures, following, ["peak"]).tries) == {"peak"}


def test_the_command_soaks_replays_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "figures.json"
    arguments = ["plans", "--minutes", "0.01", "--workers", "1", "--figures", str(path), "--codes", "peak"]
    monkeypatch.setattr("sys.argv", arguments)
    begun = []
    for _ in range(2):
        assert plans.main() == 0
        begun.append(sum(json.loads(path.read_text())["following"].values()))
    assert 0 < begun[0] < begun[1]
    assert begun[0] % plans.PART == begun[1] % plans.PART == 0
    said = capsys.readouterr().out
    assert "0 not caught as they must be" in said
    kept = json.loads(path.read_text())
    assert kept["faults"]["peak/peak"]["injected"] == kept["faults"]["peak/peak"]["confirmed"] > 0
    monkeypatch.setattr("sys.argv", ["plans", "--replay", "plain:0/peak/peak/0"])
    assert plans.main() == 0
    assert "plain:0/peak/peak/0: caught as it must be" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["plans", "--replay", "plain:0/sizes_over_envelope/planned_smaller/0"])
    assert plans.main() == 2
