"""Every row of the table of wrong plan sets, against the definition, calls that are run, and the rows of Z3.

spec: PS1.1, PS1.2, PS1.3, PS1.4, PS1.5, PS1.6, PS1.7, PS1.8, PS1.9, PS1.10, PS4.4, PS4.5, PS4.6
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from proofs.definition.violations import Obligation
from proofs.proving.solvers.process import Z3
from proofs.sets import calls
from proofs.sets.agreed import agree_by_names
from proofs.sets.rows import DEFINITIONS, evaluate_rows, prove_set
from proofs.sets.state import find_never_ready, find_state
from proofs.sets.violations import find_violations
from tests.support.wrong_sets import (
    BOTH,
    FILL,
    MUTATES,
    NEXT,
    OTHER,
    READER,
    TABLE,
    WRITER,
    WrongSet,
    changed,
    member_of,
)
from tmmu.plans.sets import Agreement, SharedTensor, SharedUse

SOLVER = Z3(DEFINITIONS)


@pytest.fixture(scope="module", autouse=True)
def _closing() -> Iterator[None]:
    yield
    SOLVER.close()


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_the_definition_finds_what_is_wrong_and_nothing_else(row: WrongSet) -> None:
    found = list(find_violations(row.members, row.agreement))
    assert {violation.obligation for violation in found} == ({row.obligation} if row.obligation else set())
    if found:
        first = found[0]
        assert (first.programs, first.tensors, first.calls) == (row.programs, row.tensors, row.calls)


@pytest.mark.parametrize("row", [row for row in TABLE if row.obligation is not Obligation.ONE_SET], ids=str)
def test_running_calls_finds_the_same_without_any_rule_about_state(row: WrongSet) -> None:
    found = list(calls.find_call_violations(row.members, find_state(row.members, row.agreement)))
    assert bool(found) == (row.obligation is not None and row.runs)
    if found:
        assert found[0].calls[-1] == found[0].programs[0]
        if row.obligation is Obligation.STATE_IS_WRITTEN_FIRST:
            assert found[0].obligation is row.obligation
        else:
            assert found[0].obligation is Obligation.STATE_IS_UNTOUCHED
            assert found[0].first_byte is not None


@pytest.mark.parametrize("row", [row for row in TABLE if row.obligation is not Obligation.ONE_SET], ids=str)
def test_the_rows_of_the_same_obligations_are_false(row: WrongSet) -> None:
    outcome = evaluate_rows(SOLVER, row.members, row.agreement, find_state(row.members, row.agreement), 60)
    assert set(outcome.open) == set(row.open)
    assert outcome.rows[Obligation.SHARED_AT_ONE_PLACE] >= len(row.agreement.shared)


def test_a_right_set_is_proved_with_its_lemmas() -> None:
    row = TABLE[0]
    outcome = prove_set(row.members, row.agreement, find_state(row.members, row.agreement))
    assert (outcome.open, sorted(outcome.rows)) == (
        {}, ["shared_at_one_place", "state_is_returned", "state_is_untouched"],
    )  # fmt: skip


def test_the_exit_of_an_entry_is_found_through_in_place_results() -> None:
    shared = {one.name: one for one in TABLE[0].agreement.shared}
    assert shared["cache"].uses == dict.fromkeys(BOTH, SharedUse("cache", "new"))
    assert shared["w"].uses == dict.fromkeys(BOTH, SharedUse("w", None))
    assert (shared["w"].is_weight, shared["w"].is_initial, shared["cache"].is_weight) == (True, True, False)
    both = [member_of("f", MUTATES), member_of("g", MUTATES)]
    assert agree_by_names(both, ["h"], []).shared[0].uses["f"] == SharedUse("h", "h")


def test_a_program_is_ready_after_those_that_write_what_it_reads() -> None:
    row = next(row for row in TABLE if row.title == "a reader before its writer")
    state = find_state(row.members, row.agreement)
    assert find_never_ready(state, ["r", "w"]) == ([], {"r": ["w"]})
    run = calls.CallRun(row.members, state, random.Random(0))
    assert (run.is_ready("r"), run.is_ready("w")) == (False, True)
    assert run.call("w") is None
    assert run.is_ready("r")


CACHE = SharedTensor("cache", "memory", 64, 64, 1, "uint8", True, {})


@pytest.mark.parametrize(
    ("use", "lines", "obligation", "words"),
    [
        (SharedUse("new", None), FILL, Obligation.SHARED_AT_ONE_PLACE, "a step writes it"),
        (SharedUse(None, "cache"), FILL, Obligation.SHARED_AT_ONE_PLACE, "no step writes it"),
        (SharedUse("nobody", None), FILL, Obligation.SHARED_AT_ONE_PLACE, "has no tensor nobody"),
        (SharedUse("cache", "new"), changed(FILL, "inplace cache output", "inplace cache"),
         Obligation.STATE_IS_RETURNED, "does not read it"),
    ],
)  # fmt: skip
def test_a_wrong_entry_or_exit_is_named(use: SharedUse, lines: str, obligation: Obligation, words: str) -> None:
    """What a manifest states of a program is not taken on trust."""
    agreement = Agreement(("fill",), (), (replace(CACHE, uses={"fill": use}),))
    found = list(find_violations([member_of("fill", lines)], agreement))
    assert obligation in {violation.obligation for violation in found}
    assert any(words in violation.text for violation in found)


@pytest.mark.parametrize(
    ("shared", "initial", "words"),
    [
        (["kache"], [], "no plan has an input, parameter or output of this name"),
        (["t"], [], "only fill has t"),
        (["fill:cache=cache"], [], "expected PROGRAM:NAME"),
        (["fill:cache=next:kache"], [], "next has no input, parameter or output 'kache'"),
        (["cache", "fill:cache=next:cache"], [], "are one shared tensor already"),
        (["fill:cache=next:cache", "fill:w=next:cache"], [], "would have two entries"),
        (["fill:new=fill:y"], [], "would have two exits"),
        (["cache"], ["kache"], "--initial kache"),
    ],
)
def test_names_that_cannot_be_shared_are_refused(shared: list[str], initial: list[str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        agree_by_names([member_of("fill", FILL), member_of("next", NEXT)], shared, initial)


def test_an_exit_that_is_shared_by_its_own_name_is_that_of_its_entry() -> None:
    both = [member_of(name, lines) for name, lines in BOTH.items()]
    assert [one.name for one in agree_by_names(both, ["*"], ["*"]).shared] == ["w", "cache"]
    assert agree_by_names(both, ["*"], ["*"]).shared[1].uses == TABLE[0].agreement.shared[0].uses


def test_an_exit_that_a_file_declares_is_accepted_and_its_place_checked() -> None:
    """As XLA does for the results that it returns in the bytes of donated parameters."""
    apart = changed(FILL, "inplace cache output", "output")
    members = [replace(member_of(name, apart), exits={"cache": "new"}) for name in "ab"]
    (cache, _) = agree_by_names(members, ["cache", "w"], ["cache"]).shared
    assert cache.uses["a"] == SharedUse("cache", "new")
    moved = changed(FILL, "64 memory 64 inplace cache output", "64 memory 256 output")
    wrong = [members[0], replace(member_of("b", moved), exits={"cache": "new"})]
    found = list(find_violations(wrong, agree_by_names(wrong, ["cache", "w"], ["cache"])))
    assert [violation.obligation for violation in found] == [Obligation.SHARED_AT_ONE_PLACE]


def test_pairs_join_tensors_of_other_names() -> None:
    other = changed(READER, "tensor code", "tensor past").replace("F code", "F past")
    members = [member_of("w", WRITER), member_of("r", other), member_of("o", OTHER)]
    (one,) = agree_by_names(members, ["w:code=r:past"], []).shared
    assert (one.name, one.uses) == ("code", {"w": SharedUse(None, "code"), "r": SharedUse("past", None)})
