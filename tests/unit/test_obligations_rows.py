"""Rows are drawn whole, in batches, with their places; only the exact answer of a solver discharges them.

spec: V4.1, V4.3, V4.6, V4.7, T7.2
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from proofs.definition.violations import Obligation
from proofs.proving import obligations
from proofs.proving.certificate.slots import Changes, certificate, step_of_largest_total
from proofs.proving.lemmas import at_use
from proofs.proving.lemmas.plan.chains import BLOCK, WIDE, WIDTHS
from proofs.proving.obligations import MODULES, PRELUDE, UNKNOWN, levels
from proofs.proving.obligations.context import context_of, storage_context
from proofs.proving.obligations.discharge import ROWS, discharge
from proofs.proving.obligations.levels import level_rows
from proofs.proving.obligations.rows import (
    BATCH,
    Batch,
    Chain,
    Place,
    Unprovable,
    batch_rows,
    call_for_each_distinct_row,
    call_for_each_row,
    combine_small_batches,
    false_rows,
    format_calls,
    format_integer,
    walk_chain,
)
from proofs.proving.solvers import END, Answer, refutation
from proofs.proving.solvers.process import Z3
from proofs.readers.sharing import Permissions, decide_permissions
from tests.support.synthetic import training_plan
from tests.support.written import Written
from tmmu.core.columns import Names
from tmmu.examples.broken.editing import changed, claiming
from tmmu.plans.allocation import Arena, Buffers
from tmmu.plans.building import build_storages
from tmmu.plans.columns import Slots
from tmmu.plans.sections import BufferPlan, Plan, amend_plan

NOBODY = Permissions()


@dataclass
class Scripted:
    """A solver that answers each refutation alike, by a function of the text, and keeps what it was asked."""

    answers: object
    version: str = "scripted"

    def __post_init__(self) -> None:
        self.asked: list[str] = []

    def evaluate(self, text: str, timeout_s: float) -> Answer:
        self.asked.append(text)
        found = self.answers(text) if callable(self.answers) else self.answers
        return found if isinstance(found, Answer) else Answer("\n".join([str(found)] * text.count(END)), None, 0.5)

    def close(self) -> None:
        pass


def rows_of(batches: Iterator[Batch]) -> list[str]:
    return [row for batch in batches for row in batch.rows]


# Rows


def test_numbers_are_literals_of_the_standard() -> None:
    assert [format_integer(x) for x in (0, 7, -7, 2**64)] == ["0", "7", "(- 7)", "18446744073709551616"]


def test_large_numbers_are_exact() -> None:
    assert format_calls("(f %d)", [np.array([2**64 - 1], np.uint64)]) == ["(f 18446744073709551615)"]


def test_a_table_has_a_call_for_each_row_and_knows_its_place() -> None:
    count = 2 * BATCH + 1
    batches = list(call_for_each_row("f", [np.arange(count), np.arange(count) + 5], lambda i: Place((i,))))
    assert [len(batch.rows) for batch in batches] == [BATCH, BATCH, 1]
    assert batches[1].rows[3] == f"(f {BATCH + 3} {BATCH + 8})"
    assert batches[1].place(3) == Place((BATCH + 3,))
    assert list(call_for_each_row("f", [np.arange(0)], lambda i: Place((i,)))) == []


def test_rows_that_are_alike_are_asked_once() -> None:
    columns = [np.array([3, 1, 3, 3, 1]), np.array([0, 2, 0, 1, 2])]
    (batch,) = call_for_each_distinct_row("f", columns, lambda i: Place((i,)))
    assert sorted(batch.rows) == ["(f 1 2)", "(f 3 0)", "(f 3 1)"]
    assert {row: batch.place(i).tensors[0] for i, row in enumerate(batch.rows)} == {
        "(f 1 2)": 1,
        "(f 3 0)": 0,
        "(f 3 1)": 3,
    }
    assert list(call_for_each_distinct_row("f", [np.arange(0)], lambda i: Place())) == []


def test_few_rows_keep_their_places_over_batches() -> None:
    batches = list(batch_rows([(str(i), Place((i,))) for i in range(BATCH + 2)]))
    assert batches[1].rows == [str(BATCH), str(BATCH + 1)]
    assert batches[1].place(1) == Place((BATCH + 1,))
    assert rows_of(false_rows(Place(), Place())) == ["false", "false"]


def test_small_batches_are_put_together_until_they_are_worth_a_query() -> None:
    """Each row keeps its place. Of nothing there is no batch."""
    counts = (3, BATCH - 4, 1, BATCH, 2, 5)
    parts = [
        Batch([f"{which} {i}" for i in range(count)], lambda i, which=which: Place((which, i)), count)  # type: ignore[misc]  # a default binds the loop's value
        for which, count in enumerate(counts)
    ]
    found = list(combine_small_batches(iter(parts)))
    assert [batch.weight for batch in found] == [BATCH, BATCH, 7]
    assert [row for batch in found for row in batch.rows] == [row for part in parts for row in part.rows]
    assert all(
        batch.place(i) == Place(tuple(map(int, row.split()))) for batch in found for i, row in enumerate(batch.rows)
    )
    assert list(combine_small_batches(iter(()))) == []


@pytest.mark.parametrize("lengths", [[1], [WIDE], [WIDE + 1], [0, 3, 0], [3 * BATCH + 7], [1] * BATCH + [WIDE * 2, 1]])
def test_a_chain_is_walked_from_end_to_end_in_wide_rows_and_single_cells(lengths: list[int]) -> None:
    bounds = np.cumsum([0, *lengths])
    chain = Chain(
        "walk", bounds,
        cells=lambda lo, hi: [f"c{i}" for i in range(lo, hi)],
        states=lambda at: [str(i) for i in at.tolist()],
        initial=lambda group: f"start{group}",
        constants=lambda group: f" k{group}",
    )  # fmt: skip
    expected = []
    for group, (first, end) in enumerate(zip(bounds.tolist(), bounds.tolist()[1:], strict=False)):
        lo = first
        while lo < end:
            hi = lo + max(width for width in WIDTHS if width <= end - lo)
            state = f"start{group}" if lo == first else str(lo - 1)
            cells = " ".join(f"c{i}" for i in range(lo, hi))
            expected.append(f"(walk_of_{hi - lo} {state} {hi - 1} k{group} {cells})")
            lo = hi
    batches = list(walk_chain(chain, lambda lo, hi: Place((lo, hi))))
    assert rows_of(iter(batches)) == expected
    assert sum(batch.weight for batch in batches) == sum(lengths)
    assert all(batch.weight <= BATCH + WIDE for batch in batches)
    assert len(batches) <= sum(lengths) // BATCH + 1
    last = batches[-1]
    assert last.place(len(last.rows) - 1).tensors[1] == sum(lengths)


# Discharging


def batches(*rows: str) -> Iterator[Batch]:
    yield from batch_rows([(row, Place((i,))) for i, row in enumerate(rows)])


def test_a_false_row_is_found_among_many() -> None:
    rows = ["(< 1 2)"] * 700
    rows[443] = "(< 2 2)"
    with Z3() as solver:
        (result,) = discharge([batches(*rows)], [solver], 60)
    assert result.refuted == ("(< 2 2)", Place((443,)))
    assert not result.proved


def test_the_false_row_that_is_named_is_the_first_whichever_solver_is_faster() -> None:
    """The solver that is given the first batch answers only after the other has refuted the second."""
    second_is_done = threading.Event()

    def answer(text: str) -> str:
        if "first" in text:
            second_is_done.wait(30)
        return "sat\nsat"

    class Noticing(Scripted):
        def evaluate(self, text: str, timeout_s: float) -> Answer:
            if "first" not in text and self.asked and "second" in self.asked[-1]:
                second_is_done.set()  # it came back for more
            return super().evaluate(text, timeout_s)

    rows = ["first"] * BATCH + ["second"] * BATCH
    solvers = [Noticing(answer), Noticing(answer)]
    results = discharge([batches(*rows), batches("other"), batches("other")], solvers, 60)
    assert results[0].refuted == ("first", Place((0,)))


def test_a_solver_that_never_answers_does_not_keep_the_command_from_ending() -> None:
    """Python waits at its end for every thread that is no daemon."""
    both, waited_for = threading.Barrier(2, timeout=10), set()

    def answer(_: str) -> str:
        if threading.current_thread() is not threading.main_thread():
            waited_for.add(threading.current_thread().daemon)
        both.wait()
        return "unsat\nsat"

    discharge([batches("a"), batches("b")], [Scripted(answer), Scripted(answer)], 60)
    assert waited_for == {True}


def test_several_false_rows_in_one_batch_are_false() -> None:
    with Z3() as solver:
        (result,) = discharge([batches("false", "false", "true")], [solver], 60)
    assert result.refuted is not None
    assert result.refuted[0] == "false"


@pytest.mark.parametrize(
    "answer",
    ["", "unsat", "unknown\nsat", "unsat\nunsat", "unsat\nunknown", "sat\nunsat", Answer("unsat\nsat", "died", 0.0)],
)
def test_any_other_answer_leaves_an_obligation_open(answer: str | Answer) -> None:
    (result,) = discharge([batches("(< 1 2)")], [Scripted(answer)], 60)
    assert result.failure
    assert result.refuted is None
    assert not result.proved


@pytest.mark.parametrize("lines", [2, 4, 5, 8])
def test_fewer_or_more_answers_than_queries_prove_nothing(lines: int) -> None:
    answer = Answer("\n".join(["unsat", "sat", "unsat", "sat", "unsat", "sat", "unsat", "sat"][:lines]), None, 0.5)
    (result,) = discharge([batches(*["(< 1 2)"] * (2 * ROWS + 1))], [Scripted(answer)], 60)
    assert result.failure
    assert not result.proved


def test_one_query_that_is_not_discharged_leaves_all_open() -> None:
    for wrong, word in (("unknown\nsat", "unknown"), ("unsat\nunsat", "unsat")):
        answer = Answer(f"unsat\nsat\n{wrong}\nunsat\nsat", None, 0.5)
        (result,) = discharge([batches(*["(< 1 2)"] * (2 * ROWS + 1))], [Scripted(answer)], 60)
        assert word in (result.failure or "")
        assert not result.proved


def test_a_no_that_the_solver_does_not_say_twice_is_open() -> None:
    whole = refutation("a\nb")
    (result,) = discharge(
        [batches("a", "b")], [Scripted(lambda text: "sat\nsat" if text == whole else "unsat\nsat")], 60
    )
    assert result.refuted is None
    assert "sat" in (result.failure or "")


def test_nothing_more_is_asked_after_a_failure_but_the_next_obligation_is() -> None:
    many = [f"(= {i} {i})" for i in range(3 * BATCH)]
    solver = Scripted(lambda text: "unknown\nsat" if "(= 0 0)" in text else "unsat\nsat")
    first, second = discharge([batches(*many), batches("(< 1 2)")], [solver], 60)
    assert (first.proved, first.rows, second.proved) == (False, BATCH, True)
    assert len(solver.asked) == 2


def test_an_obligation_that_asks_nothing_is_proved_only_by_a_solver_that_answers() -> None:
    for answer, proved in (("unsat\nsat", True), ("unknown\nsat", False)):
        (result,) = discharge([iter(())], [Scripted(answer)], 60)
        assert (result.proved, result.rows) == (proved, 0)


def test_the_failure_that_is_named_is_the_first_of_several() -> None:
    """Both solvers are at work when the first of them fails; the other is asked no more of this obligation."""
    both, first_is_noted = threading.Barrier(2, timeout=10), threading.Event()

    def answer(text: str) -> str:
        if "other" in text:
            first_is_noted.set()  # it came back for more
            return "unsat\nsat"
        both.wait()
        if "second" in text:
            first_is_noted.wait(10)
        return f"unknown\n{'second' if 'second' in text else 'first'}"

    rows = ["first"] * BATCH + ["second"] * BATCH + ["other"] * BATCH
    result, rest = discharge([batches(*rows), batches("other")], [Scripted(answer), Scripted(answer)], 60)
    assert result.failure == "the solver answers 'unknown\\nfirst'"
    assert (result.rows, result.seconds, rest.proved) == (2 * BATCH, 1.0, True)


def test_an_obligation_without_a_proof_is_open_and_the_next_is_not() -> None:
    def none() -> Iterator[Batch]:
        yield from batches("(< 1 2)")
        raise Unprovable("no proof is known")

    first, second = discharge([none(), batches("(< 1 2)")], [Scripted("unsat\nsat")], 60)
    assert first.failure == "no proof is known"
    assert second.proved


def test_solvers_share_the_work() -> None:
    solvers = [Z3(), Z3()]
    results = discharge([batches(*(f"(< {i} {i + 1})" for i in range(20 * BATCH))) for _ in range(2)], solvers, 60)
    pids = [solver.pid for solver in solvers]
    for solver in solvers:
        solver.close()
    assert all(result.proved for result in results)
    assert [result.rows for result in results] == [20 * BATCH] * 2
    assert None not in pids


def test_each_obligation_that_is_begun_is_told() -> None:
    begun: list[int] = []
    with Z3() as solver:
        discharge([batches("true"), batches("true", "true"), iter(())], [solver], 60, begun.append)
    assert begun == [0, 1, 2]


def test_an_error_in_drawing_rows_is_raised_in_the_callers_thread() -> None:
    def broken() -> Iterator[Batch]:
        yield from batches("(< 1 2)")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        discharge([broken()], [Scripted("unsat\nsat"), Scripted("unsat\nsat")], 60)


# What rows call

BOUNDS = {
    "in_arena": ("2 2", "2 3, 3 2"),
    "power_of_two": ("1, 2, 64, 9223372036854775808", "0, 3, 6"),
    "storage_aligned": ("32 16 16, 0 16 32", "24 16 16, 32 16 8"),
    "tensor_aligned": ("28 4 16 16, 24 8 16 32, 0 0 1 1", "24 16 16 16, 32 8 16 16, 32 0 16 8"),
    "slot_aligned": ("32 16 16, 0 32 16", "24 16 16, 16 16 32"),
    "aligned_in_arena": ("32 16, 0 16", "24 16"),
    "base_aligned": ("64 16, 16 16", "8 16, 24 16"),
    "in_hull": ("8 8 8 16, 9 2 8 16", "7 8 8 16, 9 8 8 16"),
    "clear_of": ("0 8 8 16, 16 1 8 16, 9 0 8 8", "0 9 8 16, 15 1 8 16"),
    "stays": ("0 0 3 3, 2 2 4 3", "1 0 3 3, 0 1 3 3, 0 0 2 3"),
    "ends_within": ("8 8 16, 8 8 17, 0 0 0", "8 9 16, 9 8 16"),
    "ends_in_64_bits": ("18446744073709551615 1 1, 0 8 0", "18446744073709551615 2 9"),
    "ends_at": ("8 8 16", "8 8 15, 8 8 17"),
    "holds_footprint": ("9 9, 8 9, 9 18446744073709551615", "9 8, 9 18446744073709551616"),
    "lies_behind": ("16 8 32 16 8 40, 16 16 32 16 8 41", "16 17 32 16 8 40, 16 4 24 16 8 40, 16 8 32 16 9 40"),
    "inside": (
        "8 8 16 2 2 2 2 2, 0 0 0 1 2 3 4 5",
        "8 9 16 2 2 2 2 2, 8 8 16 3 2 4 4 4, 8 8 16 2 4 3 4 4, 8 8 16 2 2 5 4 5, 8 8 16 2 2 4 4 3",
    ),
    "within_steps": ("3 3 3, 2 3 4", "3 2 4, 3 5 4"),
    "reads": ("2 4 1 2 2, 2 4 1 2 4", "3 4 1 2 2, 2 4 1 4 5, 2 4 3 3 4, 2 4 1 4 3"),
    "uses": ("2 4 2 2 2, 2 4 1 2 4", "3 4 1 2 2, 2 4 1 4 5, 2 4 4 3 4, 2 4 1 4 3"),
    "touches": ("2 4 2 2, 2 4 2 4, 3 3 3 3", "3 4 2 2, 2 4 2 5, 2 4 4 3"),
    "writes": ("2 4 2 2, 2 4 4 4", "3 4 2 2, 2 4 5 5, 2 4 3 4"),
    "used": ("2 4 3 3, 2 4 3 4", "2 4 2 3, 2 4 4 3, 2 4 3 5"),
    "given": ("0 1", "1 1, 0 0"),
    "spans": ("2 4 2 4, 1 5 2 4", "3 4 2 4, 2 3 2 4"),
    "shows": (
        "1 1 12 8 4 4 8 3 2, 1 1 8 8 0 8 8 0 0",
        "1 2 12 8 4 4 8 3 2, 1 1 13 8 4 4 8 3 2, 1 1 12 8 4 5 8 3 2, 1 1 12 8 4 4 8 2 2, 1 1 8 8 0 8 8 0 1",
    ),
    "ends_before": ("8 8 16", "8 9 16"),
    "undisturbed": ("2 3 false 4, 2 4 true 4", "4 4 true 4, 2 4 false 4, 2 5 true 4"),
    "same_slice": ("1 8 4 1 8 4", "1 8 4 2 8 4, 1 8 4 1 9 4, 1 8 4 1 8 5"),
    "elsewhere": ("1 8 4 2 8 4, 1 9 0 1 8 4, 1 4 4 1 8 4, 1 12 4 1 8 4", "1 5 4 1 8 4, 1 11 4 1 8 4"),
    "apart": ("0 8 4 1 8 4, 0 9 0 0 8 4, 0 9 4 0 10 0, 0 4 4 0 8 4, 0 12 4 0 8 4", "0 5 4 0 8 4, 0 11 4 0 8 4"),
    "lives_at": ("2 4 2, 2 4 4", "2 4 1, 2 4 5"),
    "slots_as_stated": ("3 3 3, 3 3 2", "3 4 3, 4 3 3, 3 3 4"),
    "slots_of_their_own": ("3 3", "3 2"),
    "slot_as_large": ("8 8, 1 1, 1 0, 2 2", "8 7, 7 8, 0 0, 2 1"),
    "slot_as_strict": ("8 8 4, 8 4 8", "8 4 4, 8 16 4"),
}
"""For each definition the numbers for which it holds, the last that do, and those for which it does not."""


def test_a_row_holds_up_to_its_bound_and_not_one_past_it() -> None:
    rows = []
    for macro, (right, wrong) in BOUNDS.items():
        rows += [f"({macro} {numbers})" for numbers in right.split(", ")]
        rows += [f"(not ({macro} {numbers}))" for numbers in wrong.split(", ")]
    with Z3(PRELUDE) as solver:
        [result] = discharge([batches(*rows)], [solver], 60)
    assert (result.refuted, result.failure) == (None, None)


def test_every_definition_of_the_obligations_is_held_to_its_bounds() -> None:
    texts = "".join(obligation.DEFINITIONS for obligation in MODULES.values())
    assert set(re.findall(r"define-fun (\w+)", texts)) == BOUNDS.keys()


# All obligations together


def test_a_right_plan_is_proved_by_one_solver_and_by_two(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = training_plan(60, in_place=0.3, views=0.3, arenas=2)
    permissions = decide_permissions(plan, None, frozenset())
    one = obligations.prove(context_of(plan, permissions), timeout_s=60)
    monkeypatch.setattr(obligations, "MANY", 0)
    two = obligations.prove(context_of(plan, permissions), timeout_s=60)
    assert {outcome.verdict for outcome in one} == {"PROVED"}
    assert [(o.name, o.rows) for o in one] == [(o.name, o.rows) for o in two]
    names = list(MODULES)
    assert [outcome.name for outcome in one] == [*names, "lemmas", "definition"]


@pytest.mark.parametrize("count", [1, 2, 51, 1100])
def test_plans_of_all_sizes_are_proved(count: int) -> None:
    plan = training_plan(count, seed=count, in_place=0.2, views=0.2)
    outcomes = obligations.prove(
        context_of(plan, decide_permissions(plan, None, frozenset())), timeout_s=60, definition_limit=100
    )
    assert {outcome.verdict for outcome in outcomes} == {"PROVED"}
    assert ("definition" in {outcome.name for outcome in outcomes}) == (len(plan.allocation.storages) <= 100)


def test_a_false_row_names_its_tensors_and_its_step() -> None:
    plan = changed(training_plan(30), "tensors", 9, death=9)
    found = {o.name: o for o in obligations.prove(context_of(plan, NOBODY), timeout_s=60, definition_limit=0)}
    outcome = found["lifetimes_cover_accesses"]
    assert outcome.verdict == "VIOLATED"
    assert outcome.hint.startswith("t8 at step ")
    assert found["alignment"].verdict == "PROVED"


def test_an_unproved_lemma_opens_what_rests_on_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at_use, "prove_unrecorded", lambda *_, **__: {"level_reaches_its_end": "a reason"})
    found = {o.name: o for o in obligations.prove(context_of(training_plan(5), NOBODY), timeout_s=60)}
    assert {name for name, o in found.items() if o.verdict == UNKNOWN} == {"peak", "slot_count", "lemmas"}
    assert found["peak"].note.split()[-2:] == ["a", "reason"]
    assert "level_reaches_its_end" in found["peak"].note


@pytest.mark.parametrize("column", ["birth", "death", "bytes", "window"])
def test_numbers_that_coincide_stand_in_a_row_once_and_others_in_full(column: str) -> None:
    """`merged`: a tensor that is all of its storage has a short row, one that differs in a number has a long one."""
    plan = training_plan(20)
    t = plan.allocation.tensors
    rows = MODULES[Obligation.TENSORS_WITHIN_STORAGES].rows(context_of(plan, NOBODY))
    assert {row.split()[0] for row in rows_of(rows)} == {"(within_steps"}
    other = np.array(getattr(t, column))
    other[7] += 1
    wrong = amend_plan(plan, tensors=replace(t, **{column: other}))
    rows = MODULES[Obligation.TENSORS_WITHIN_STORAGES].rows(context_of(wrong, NOBODY))
    assert [row.split()[0] for row in rows_of(rows)].count("(inside") == 1


def test_only_what_is_born_at_its_one_write_has_one_row_for_write_and_reads() -> None:
    """`merged`: a tensor that is born before its write, has no reads or is changed has the rows for each access."""
    plan = training_plan(20)
    t, lifetimes = plan.allocation.tensors, MODULES[Obligation.LIFETIMES_COVER_ACCESSES]

    def count(of: Plan) -> Counter[str]:
        return Counter(row.split()[0] for row in rows_of(lifetimes.rows(context_of(of, NOBODY))))

    before = count(plan)
    birth = np.array(t.birth)
    assert before["(used"] > 10
    birth[10] -= 1
    after = count(amend_plan(plan, tensors=replace(t, birth=birth)))
    assert (after["(used"], after["(reads"], after["(writes"]) == (
        before["(used"] - 1, before["(reads"] + 1, before["(writes"] + 1,
    )  # fmt: skip


def test_every_lemma_that_an_obligation_rests_on_exists() -> None:
    named = {name for obligation in MODULES.values() for name in obligation.LEMMAS}
    assert named <= at_use.FAMILY.requests().keys()
    assert all(obligation.SENTENCE.endswith(".") for obligation in MODULES.values())


def test_a_solver_that_does_not_start_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = ("/nowhere/z3",)
    monkeypatch.setitem(obligations.SOLVERS, "z3", lambda *_, **__: Z3(command=nowhere))
    monkeypatch.setattr(obligations, "command_of", lambda _: nowhere)
    outcomes = obligations.prove(context_of(training_plan(5), NOBODY), timeout_s=60)
    proved = {outcome.name for outcome in outcomes if outcome.verdict == "PROVED"}
    assert proved == set()
    assert all("cannot be started" in o.note or "does not start" in o.note for o in outcomes)


def test_a_layout_of_no_known_rule_is_proved_by_its_edges() -> None:
    plan = amend_plan(training_plan(5), layout="spiral")
    assert {o.verdict for o in obligations.prove(context_of(plan, NOBODY), timeout_s=60)} == {"PROVED"}


# The evidence is not trusted


def test_evidence_that_leaves_something_out_proves_nothing() -> None:
    plan = training_plan(40, arenas=2)
    right = context_of(plan, NOBODY)
    evidence = certificate(plan.allocation, plan.claims)
    first = evidence.changes[0]
    backwards = replace(first, step=first.step[::-1], storage=first.storage[::-1], frees=first.frees[::-1])
    wrong = {
        "a storage twice": replace(evidence, tenants=np.concatenate([evidence.tenants[:1], evidence.tenants[:-1]])),
        "in another's slot": replace(evidence, tenants=evidence.tenants[::-1].copy()),
        "a slot left out": replace(evidence, slots=(evidence.slots[0][1:], evidence.slots[1])),
        "in another arena": replace(evidence, slots=evidence.slots[::-1]),
        "slots not by offset": replace(evidence, slots=(evidence.slots[0][::-1], evidence.slots[1])),
        "a change left out": replace(
            evidence, changes=(replace(first, storage=first.storage * 0), evidence.changes[1])
        ),
        "a change at another step": replace(
            evidence, changes=(replace(first, step=first.step + 1), evidence.changes[1])
        ),
        "changes backwards": replace(evidence, changes=(backwards, evidence.changes[1])),
        "no live storage": replace(evidence, live=evidence.live * 0 - 1),
        "one live storage for all": replace(evidence, live=evidence.live * 0),
        "live at another step": replace(evidence, live=evidence.tenants[evidence.tenants_at[:-1]]),
        "slots elsewhere": replace(evidence, slot_offset=evidence.slot_offset + np.uint64(128)),
    }
    with Z3(PRELUDE) as solver:
        for name, changed in wrong.items():
            view = replace(right, certificate=changed)
            results = discharge([o.rows(view) for o in MODULES.values()], [solver], 60)
            assert any(result.refuted for result in results), name
        results = discharge([o.rows(right) for o in MODULES.values()], [solver], 60)
        assert all(result.proved for result in results)


def test_the_first_step_at_which_the_most_lives_is_found() -> None:
    """Two bytes at steps 1 and 3; where there is no storage, no step is before the first."""
    step, frees = np.array([0, 1, 2, 3]), np.array([False, False, True, False])
    changes = Changes(step, np.array([0, 1, 0, 2]), frees)
    assert step_of_largest_total(changes, np.ones(3, np.uint64)) == 1
    assert step_of_largest_total(changes, np.array([1, 1, 2], np.uint64)) == 3
    assert step_of_largest_total(Changes(step[:0], step[:0], frees[:0]), np.ones(0, np.uint64)) == 0


def test_slots_whose_evidence_is_wrong_are_not_proved_apart() -> None:
    """Of each lie the rows of this one obligation are false, whatever others say."""
    plan = training_plan(40, arenas=2)
    right, evidence = context_of(plan, NOBODY), certificate(plan.allocation, plan.claims)
    first, second = evidence.slots
    crossed = evidence.tenants.copy()
    at = evidence.tenants_at[1]
    crossed[[at - 1, at]] = crossed[[at, at - 1]]
    shorter = evidence.tenants_at.copy()
    shorter[1:] -= 1
    wrong = {
        "a storage left out": replace(evidence, tenants=evidence.tenants[1:], tenants_at=shorter),
        "a storage twice": replace(evidence, tenants=np.concatenate([evidence.tenants[:1], evidence.tenants[:-1]])),
        "two storages exchanged": replace(evidence, tenants=crossed),
        "the first slot left out": replace(evidence, slots=(first[1:], second)),
        "the last slot left out": replace(evidence, slots=(first, second[:-1])),
        "a slot twice": replace(evidence, slots=(np.append(first, first[-1:]), second)),
        "arenas exchanged": replace(evidence, slots=(second, first)),
        "all in one arena": replace(evidence, slots=(np.concatenate([first, second]), second[:0])),
        "not by offset": replace(evidence, slots=(first[::-1], second)),
        "elsewhere": replace(evidence, slot_offset=evidence.slot_offset + np.uint64(128)),
    }
    with Z3(PRELUDE) as solver:
        for name, changed in wrong.items():
            [result] = discharge([obligations.no_live_overlap.rows(replace(right, certificate=changed))], [solver], 60)
            assert result.refuted, name
        [result] = discharge([obligations.no_live_overlap.rows(right)], [solver], 60)
        assert result.proved


def test_a_storage_is_looked_at_in_the_slot_that_the_plan_says() -> None:
    """Two inputs are in one slot at once; the evidence has the second one elsewhere."""
    plan = amend_plan(Written("y = MatMul a b", given={"a": "input", "b": "input"}).plan(), layout="packed")
    wrong = context_of(changed(plan, "storages", 1, slot=0), NOBODY)
    lied = replace(wrong, certificate=certificate(plan.allocation, plan.claims))
    with Z3(PRELUDE) as solver:
        for view, proved in ((context_of(plan, NOBODY), True), (wrong, False), (lied, False)):
            [result] = discharge([obligations.no_live_overlap.tenancy_rows(view)], [solver], 60)
            assert result.proved == proved


def test_a_slot_is_looked_at_in_the_arena_that_the_plan_says() -> None:
    """Two storages collide in an arena; the evidence has the slot of one of them in another arena, behind all there."""
    plan = Written("y = MatMul a b", given={"a": "input", "b": "input"}).plan()
    plan = amend_plan(
        plan, arenas=(plan.allocation.arenas[0], replace(plan.allocation.arenas[0], name="other")), usage=plan.usage * 2
    )
    for k in (1, 2):
        plan = changed(changed(plan, "storages", k, arena=1, offset=16), "slots", k, arena=1)
    lied = replace(certificate(plan.allocation, plan.claims), slots=(np.array([0, 1]), np.array([2])))
    with Z3(PRELUDE) as solver:
        [result] = discharge(
            [obligations.no_live_overlap.rows(replace(context_of(plan, NOBODY), certificate=lied))], [solver], 60
        )
    assert result.refuted


def test_a_storage_that_the_evidence_hides_is_missed() -> None:
    """It is larger than all others together, and lives when the stated peak is not."""
    plan = training_plan(40)
    s, usage = plan.allocation.storages, plan.usage[0]
    k = next(k for k in range(len(s)) if not s.birth[k] <= usage.peak_step <= s.death[k])
    larger = changed(plan, "storages", k, bytes=1 << 30)
    changes = certificate(larger.allocation, larger.claims).changes[0]
    kept = changes.storage != k
    hidden = replace(changes, step=changes.step[kept], storage=changes.storage[kept], frees=changes.frees[kept])
    with Z3(PRELUDE) as solver:
        for evidence in (changes, hidden):
            view = context_of(larger, NOBODY)
            view = replace(view, certificate=replace(view.certificate, changes=(evidence,)))
            [result] = discharge([obligations.peak.rows(view)], [solver], 60)
            assert result.refuted


def test_a_storage_that_the_evidence_has_at_other_steps_is_found() -> None:
    """Three live at once, and the evidence lets them take turns."""
    plan = Written("y = MatMul a b", given={"a": "input", "b": "input"}).plan()
    turns = Changes(np.array([0, 1, 1, 2, 2, 3]), np.array([0, 0, 1, 1, 2, 2]), np.array([False, True] * 3))
    view = context_of(claiming(plan, peak_live_bytes=8, max_live=1), NOBODY)
    view = replace(view, certificate=replace(view.certificate, changes=(turns,)))
    with Z3(PRELUDE) as solver:
        results = discharge([obligations.peak.rows(view), obligations.slot_count.rows(view)], [solver], 60)
    assert [result.refuted for result in results] == [("false", Place())] * 2


def test_a_storage_that_the_evidence_has_alive_at_the_fullest_step_is_named_if_it_is_not() -> None:
    """The slot is another storage's at that step."""
    plan = Written("a = MatMul x\nb = MatMul a", given={"x": "input"}).plan()
    two = Slots(plan.slots.arena[:2], plan.slots.bytes[:2], plan.slots.alignment[:2], plan.slots.of)
    plan = changed(amend_plan(plan, slots=two), "storages", 2, slot=0, offset=0)
    view = context_of(claiming(plan, slots=2, footprint=24, minimal=True), NOBODY)
    assert view.certificate.live.tolist() == [0, 1]
    lied = replace(view, certificate=replace(view.certificate, live=np.array([2, 1])))
    with Z3(PRELUDE) as solver:
        results = discharge([obligations.slot_count.rows(view), obligations.slot_count.rows(lied)], [solver], 60)
    assert [result.refuted for result in results] == [None, ("(lives_at 1 1 0)", Place(storages=(2,), step=0))]


# The definition


def test_the_definition_names_the_pair_that_collides() -> None:
    plan = training_plan(40)
    storages = plan.allocation.storages
    live = np.flatnonzero((storages.birth <= 20) & (storages.death >= 20) & (storages.bytes > 0))
    a, b = live[:2].tolist()
    wrong = changed(plan, "storages", a, offset=int(storages.offset[b]))
    outcome = obligations.prove(context_of(wrong, NOBODY), timeout_s=60)[-1]
    assert (outcome.name, outcome.verdict) == ("definition", "VIOLATED")
    assert plan.allocation.tensors.name[int(np.flatnonzero(plan.allocation.tensors.storage == a)[0])] in outcome.hint


def test_claims_that_are_not_made_are_not_asked() -> None:
    plan = claiming(training_plan(20), minimal=False)
    with Z3(PRELUDE) as solver:
        results = discharge([o.rows(context_of(plan, NOBODY)) for o in MODULES.values()], [solver], 60)
    assert all(result.proved for result in results)


# Blocks of the steps at which a total changes


def in_block(at: list[int], born: list[int], freed: list[int], before: int, ceiling: int) -> str:
    """The row of a block that begins at its first step with the total `before`."""
    after = before + sum(born) - sum(freed)
    numbers = (at[0], before, at[-1], after, ceiling, *at, *born, *freed)
    return f"(level_in_block {' '.join(map(str, numbers))})"


def test_a_block_holds_where_no_order_of_its_births_exceeds_the_ceiling() -> None:
    at, born, freed = list(range(3, 3 + BLOCK)), [7] * BLOCK, [5] * BLOCK
    most = 9 + sum(born) - freed[0]
    swapped = [*at[:4], at[5], at[4], *at[6:]]
    right = in_block(at, born, freed, 9, most)
    wrong = [in_block(at, born, freed, 9, most - 1), in_block(swapped, born, freed, 9, most)]
    numbers = right.strip("()").split()
    for k in (1, 2, 3, 4):  # later than the first change, another total before, earlier than the last, another after
        wrong.append(f"({' '.join([*numbers[:k], str(int(numbers[k]) + (-1 if k == 3 else 1)), *numbers[k + 1 :]])})")
    with Z3(PRELUDE) as solver:
        [result] = discharge([batches(right, *(f"(not {row})" for row in wrong))], [solver], 60)
    assert (result.refuted, result.failure) == (None, None)


@pytest.mark.parametrize("batch", [BLOCK, 2 * BLOCK, 512])
def test_no_block_stands_on_both_sides_of_the_stated_step(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are asked at once, and wherever that is: else no cell ends with the total that is stated."""
    monkeypatch.setattr(levels, "BATCH", batch)
    sizes = [64 * (1 + k % 3) for k in range(100)]
    rows_of_storages = build_storages([(0, size, 1, k, k, 0) for k, size in enumerate(sizes)])
    names = Names.of([f"s{k}" for k in range(100)])
    context = storage_context(BufferPlan(Buffers((Arena("a", max(sizes)),), rows_of_storages, (), names)))
    for stated in range(100):
        found = list(level_rows(context, 0, context.placement.storages.bytes, 1 << 20, stated))
        assert sum(one.weight for one in found) == 100 + 1 + 1
        blocks = [row.strip("()").split()[6 : 6 + BLOCK] for row in rows_of(iter(found)) if "level_in_block" in row]
        assert len(blocks) >= 100 // BLOCK - 2
        assert all((int(at[0]) <= stated) == (int(at[-1]) <= stated) for at in blocks)


@pytest.mark.parametrize("peak_at", [0, 40, 99])
def test_only_steps_well_below_the_ceiling_are_looked_at_in_blocks(peak_at: int) -> None:
    """Storages of one step each: those around the largest have rows of their own, and every change is in one row."""
    sizes = [64 * (2000 if k == peak_at else 1 + k % 3) for k in range(100)]
    rows_of_storages = build_storages([(0, size, 1, k, k, 0) for k, size in enumerate(sizes)])
    names = Names.of([f"s{k}" for k in range(100)])
    context = storage_context(BufferPlan(Buffers((Arena("a", max(sizes)),), rows_of_storages, (), names)))
    found = list(level_rows(context, 0, context.placement.storages.bytes, max(sizes), peak_at))
    with Z3(PRELUDE) as solver:
        [right] = discharge([iter(found)], [solver], 60)
        low = level_rows(context, 0, context.placement.storages.bytes, max(sizes) - 1, peak_at)
        [wrong] = discharge([low], [solver], 60)
    rows = rows_of(iter(found))
    assert right.proved
    assert right.rows == 100 + 1 + 1  # a cell for each step at which something changes, and the row of the peak
    assert wrong.refuted is not None
    assert sum("level_in_block" in row for row in rows) >= 4
    assert any("(level_of_" in row for row in rows)
