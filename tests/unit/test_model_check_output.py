"""Reading what TLC prints and judging it: the ways in which TLC 2.18 looks green while it is not."""

from __future__ import annotations

import pytest

from proofs.model_check import messages
from proofs.model_check.config import Config
from tests.support import tlc_output as said
from tests.support.tlc_output import judged


def test_a_good_run_is_as_expected() -> None:
    result = judged(0, said.GOOD)
    assert (result.as_expected, result.violated, result.distinct_states, result.depth) == (True, None, 1000, 8)


@pytest.mark.parametrize(
    ("exit_code", "output", "objection"),
    [
        (0, said.GOOD.replace("1,000 distinct", "999 distinct"), "distinct states: 999 instead of 1000"),
        (0, said.GOOD.replace("search is 8", "search is 9"), "depth: 9 instead of 8"),
        (0, said.GOOD.replace("0:3", "0:0"), "the action Take is never taken"),
        (0, said.GOOD.replace("2:2", "0:0"), "no initial state was found"),
        (0, said.GOOD.replace("1,000 distinct", "0 distinct"), "no initial state was found"),
        (0, said.GOOD.replace(said.COVERAGE, ""), "no initial state was found"),
        (0, said.GOOD.replace(said.TAKEN, ""), "TLC reports no action"),
        (0, said.GOOD.replace(said.NO_ERROR, ""), "success"),
        (0, said.GOOD.replace(said.END, ""), "success"),
        (0, said.GOOD[: len(said.GOOD) // 2], "success"),
        (0, said.GOOD + said.frame(2279, 3, "Symmetry", "is dangerous"), "TLC warns: Symmetry is dangerous"),
        (0, said.GOOD.replace("/fresh/Toy.tla", "/elsewhere/Toy.tla"), "which is not in this run's folder"),
        (0, said.GOOD.replace("/fresh/Toy.tla", "/fresh/Other.tla"), "Toy.tla was not read"),
        (0, "", "Toy.tla was not read"),
        (0, said.VIOLATED, "Held is violated"),
        (12, said.VIOLATED, "Held is violated"),
        (11, said.PARSED + said.frame(2114, 1, "Deadlock reached."), "deadlock: Deadlock reached."),
        (75, said.PARSED + said.frame(2103, 1, "In evaluation"), "an expression cannot be evaluated: In evaluation"),
        (137, said.PARSED, "TLC ended with 137"),
        (None, "", ""),
    ],
)  # fmt: skip
def test_what_is_no_success_is_said(exit_code: int | None, output: str, objection: str) -> None:
    """Traps 2, 5, 6, 8 and 9: exit 0 is not enough."""
    result = judged(exit_code, output)
    assert not result.as_expected
    assert any(objection in said_so for said_so in result.objections), result.objections


def test_a_violation_counts_only_of_the_name_that_is_expected() -> None:
    assert judged(12, said.VIOLATED, "Held").as_expected
    assert judged(12, said.VIOLATED, "Held").violated == "Held"
    for exit_code, output, expected in [
        (12, said.VIOLATED, "TypeOK"),
        (12, said.VIOLATED.replace("Held", "Other"), "Held"),
        (0, said.VIOLATED, "Held"),  # trap 5: -continue ends so
        (0, said.GOOD, "Held"),
        (13, said.LASSO, "Held"),
        (75, said.VIOLATED, "Held"),
        (12, said.VIOLATED + said.frame(2284, 3, "a warning"), "Held"),
    ]:
        result = judged(exit_code, output, expected)
        assert not result.as_expected, (exit_code, expected)


def test_a_violated_property_has_no_name_and_so_must_be_the_only_check() -> None:
    assert judged(13, said.LASSO, "Ends").violated == "Ends"
    assert judged(12, said.LASSO, "Ends").as_expected  # [] of a state predicate ends with 12
    assert judged(13, said.LASSO).violated is None
    assert judged(255, said.LASSO, "Ends").violated is None


def test_a_deadlock_is_a_check_like_others() -> None:
    output = said.PARSED + said.frame(2114, 1, "Deadlock reached.") + said.STATES
    question = Config("Spec", invariants=("TypeOK",), deadlock=True)
    assert judged(11, output, "Deadlock", question).as_expected
    assert not judged(12, said.VIOLATED, "Deadlock", question).as_expected
    assert not judged(11, output, "TypeOK", question).as_expected


def test_the_counterexample_shows_what_each_step_changed() -> None:
    assert list(judged(12, said.VIOLATED, "Held").trace) == [
        "1  Initial predicate", "     held = {}", "     order = <<1, 2>>", "2  Take", "     held = {1}",
    ]  # fmt: skip
    assert list(judged(13, said.LASSO, "Ends").trace) == [
        "1  Initial predicate", "     at = 1", "and back to state 1, by Take",
    ]  # fmt: skip
    stuttering = said.LASSO.replace(said.BACK, said.frame(2218, 4, "2: Stuttering"))
    assert judged(13, stuttering, "Ends").trace[-1] == "and nothing more happens"


def test_frames_nest_and_nonsense_is_passed_over() -> None:
    inner = said.frame(2110, 1, "Invariant Held is violated.")
    report = messages.read_output(
        f"noise\n@!@!@STARTMSG 2221:0 @!@!@\n{inner}@!@!@ENDMSG 2221 @!@!@\n@!@!@ENDMSG 7 @!@!@\n"
    )
    assert (report.invariant, report.codes) == ("Held", [2110, 2221])
    odd = said.frame(2217, 4, "no state") + said.frame(2110, 1, "odd") + said.frame(2199, 0, "odd")
    report = messages.read_output(
        odd + said.frame(2122, 4, "odd") + said.frame(2772, 0, "<odd>") + said.frame(2194, 0, "odd")
    )
    assert (report.states, report.invariant, report.distinct_states, report.depth) == ([], None, None, None)
