"""The kernel's program decides plan sets as their definition does, from the bytes of the plans.

spec: V6.24, V6.2, PS1.3, PS1.4, PS1.5, PS1.6, PS1.7, PS1.8
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from proofs.definition.checker import execute
from proofs.definition.violations import Obligation
from proofs.proving.kernel import installed, sets
from proofs.proving.kernel.answer import NOT_ASKED
from proofs.proving.kernel.program import PlanFile, run_program
from proofs.proving.kernel.sets import Ends, JudgedProgram, KeptTensor, judge_set, set_columns
from proofs.proving.obligations.context import context_of
from proofs.readers.sharing import decide_permissions
from proofs.sets.agreed import agree_by_names
from proofs.sets.kernel import ask_kernel, kept_tensors
from proofs.sets.members import SetMember
from proofs.sets.state import find_state
from proofs.sets.violations import find_violations
from tests.support.set_models import cache_program, members_of, other_program, prepared
from tests.support.wrong_sets import BOTH, MUTATES, OTHER, READER, TABLE, WRITER, WrongSet, changed, member_of
from tmmu.core.columns import build_column
from tmmu.planner.sets.plan import SetOptions, plan_programs
from tmmu.plans.sections import amend_plan

NOT_SEEN = (
    "a cache of another alignment", "a cache of another type", "arenas of two capacities",
    "state that only one of two branches writes", "state that a loop without an iteration does not write",
    "the next value of state that a loop without an iteration does not write",
)  # fmt: skip
"""What the kernel does not compare: alignments, types of elements, capacities of arenas, and that a call writes its
exits: to its theorem bytes that a call leaves unwritten have no value, and no later call loads them."""
RIGHT = TABLE[1]
"""Two programs with a cache and a weight, and one with neither."""


def program_of(member: SetMember) -> JudgedProgram:
    """What the kernel reads of a program."""
    donated = frozenset(member.tensor(row).name for row in member.run.donated)
    permissions = decide_permissions(member.plan, None, donated)
    return JudgedProgram(context_of(member.plan, permissions, donated), PlanFile.of(member.plan))


def asked(members: Sequence[SetMember], kept: Sequence[KeptTensor]) -> tuple[str, str]:
    """The answer and its reason."""
    found = judge_set([program_of(member) for member in members], kept, 60)
    assert found["sources"] == installed.digest()
    return found["answer"], found.get("reason", "")


def kept_of(row: WrongSet) -> list[KeptTensor]:
    """What a set of the table keeps."""
    return kept_tensors(row.members, find_state(row.members, row.agreement))


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_the_kernel_accepts_what_the_definition_accepts(row: WrongSet) -> None:
    found = ask_kernel(
        row.members, find_state(row.members, row.agreement), [program_of(member) for member in row.members], 60
    )
    expected = row.obligation is None or row.title in NOT_SEEN
    assert found["answer"] == ("accepted" if expected else "rejected"), found


def test_of_storages_that_are_moved_the_kernel_and_the_definition_say_the_same() -> None:
    """Each program must be right alone: the difference is one that only the set shows."""
    draws = random.Random(0)
    two = {name: cache_program([32, 48, 16], cache=32, changes=name == "p", donated=True) for name in ("p", "q")}
    made = plan_programs(prepared("packed", **two, r=other_program([64, 32])), SetOptions(("cache", "w")), "packed")
    answers = []
    for name, plan in made.plans.items():
        s = plan.allocation.storages
        for row in draws.sample(range(len(s)), 3):
            offsets = [128 * draws.randint(0, 1) if k == row else old for k, old in enumerate(s.offset.tolist())]
            moved = amend_plan(plan, storages=replace(s, offset=build_column(offsets, s.offset.dtype.type)))
            members = members_of(made, {**made.plans, name: replace(moved, claims=None, provenance=None)})
            if any(list(execute.violations(member.run)) for member in members):
                continue
            state = find_state(members, made.plan_set.agreement)
            found = ask_kernel(members, state, [program_of(member) for member in members], 60)
            wrong = any(find_violations(members, made.plan_set.agreement))
            assert found["answer"] == ("rejected" if wrong else "accepted"), (name, row, offsets)
            answers.append(found["answer"])
    assert set(answers) == {"accepted", "rejected"}, answers


def test_each_part_of_the_decision_says_no_and_names_the_program() -> None:
    """Each edit is one of the set of the table's first row with a third program."""
    members, kept = RIGHT.members, kept_of(RIGHT)
    cache, weight = (next(i for i, one in enumerate(kept) if one.address == at) for at in (64, 0))
    assert asked(members, kept) == ("accepted", "")

    def answer(which: int, **fields: Any) -> tuple[str, str]:
        return asked(members, [one._replace(**fields) if k == which else one for k, one in enumerate(kept)])

    def ends_of(which: int, program: int, **fields: Any) -> dict[str, Any]:
        return {"ends": {**kept[which].ends, program: kept[which].ends.get(program, Ends())._replace(**fields)}}

    assert answer(weight, bytes=65) == ("rejected", "places of the state")
    assert answer(cache, bytes=32) == ("rejected", "entries and exits of program 0")
    assert answer(cache, arena="elsewhere") == ("rejected", "entries and exits of program 0")
    assert answer(cache, **ends_of(cache, 1, exit=members[1].rows["z"])) == (
        "rejected", "entries and exits of program 1",
    )  # fmt: skip
    assert answer(cache, **ends_of(cache, 0, entry=members[0].rows["new"])) == (
        "rejected", "entries and exits of program 0",
    )  # fmt: skip
    assert answer(cache, **ends_of(cache, 1, exit=None)) == ("rejected", "bytes beside the state of program 1")
    assert answer(cache, is_initial=False) == ("rejected", "first calls of program 0")
    mutating = member_of("f", MUTATES)
    state = KeptTensor("memory", 64, 64, True, {0: Ends(mutating.rows["h"], mutating.rows["h"])})
    assert asked([mutating], [state]) == ("accepted", "")
    unwritten = state._replace(ends={0: Ends(mutating.rows["h"])})
    assert asked([mutating], [unwritten]) == ("rejected", "entries that steps write of program 0")
    wrong = member_of("o", changed(OTHER, "tensor b 64 memory 192", "tensor b 64 memory 128"))
    assert asked([wrong], []) == ("rejected", "plans")


def test_a_set_of_one_program_is_every_batch() -> None:
    """spec: PS1.8"""
    (member,) = [member_of("f", BOTH["fill"])]
    rows = member.rows
    kept = [
        KeptTensor("memory", 64, 64, True, {0: Ends(rows["cache"], rows["new"])}),
        KeptTensor("memory", 0, 64, True, {0: Ends(rows["w"])}),
    ]
    assert asked([member], kept) == ("accepted", "")
    assert asked([member], []) == ("accepted", "")


def test_arenas_are_one_if_they_have_one_name() -> None:
    """The order in which a plan lists them does not count."""
    both = ["arena a 512\narena b 512", "arena b 512\narena a 512"]
    tail = "tensor x 64 a 0 input\ntensor s 64 b 0 output\nstep f my::F x -> s"
    first = member_of("f", f"{both[0]}\n{tail}")
    second = member_of("g", f"{both[1]}\ntensor s 64 b 0 input kept\ntensor y 64 a 0 output\nstep g my::G s -> y")
    kept = [KeptTensor("b", 0, 64, False, {0: Ends(None, first.rows["s"]), 1: Ends(second.rows["s"])})]
    assert asked([first, second], kept) == ("accepted", "")
    assert asked([first, second], [kept[0]._replace(arena="a")]) == ("rejected", "entries and exits of program 0")


def test_many_programs_in_a_chain_become_ready_in_turn() -> None:
    """Each finds what the one before has left; the first call of the last is after all others."""
    count = 12
    first = member_of("p", changed(WRITER, "tensor code 64 memory 64", "tensor code 64 memory 192"))
    link = "tensor code 64 memory {} input kept\ntensor z 64 memory {} output\nstep f my::F code -> z"
    members = [first, *(member_of("p", link.format(192 + 64 * k, 256 + 64 * k), arena="arena memory 65536")
                        for k in range(count))]  # fmt: skip
    kept = []
    for k in range(count + 1):
        ends = {k: Ends(None, members[k].rows["z" if k else "code"])}
        if k < count:
            ends[k + 1] = Ends(members[k + 1].rows["code"])
        kept.append(KeptTensor("memory", 192 + 64 * k, 64, False, ends))
    assert asked(members, kept) == ("accepted", "")
    assert asked(members[::-1], [one._replace(ends={count - c: e for c, e in one.ends.items()}) for one in kept])[
        0
    ] == ("accepted")
    assert asked(members[1:], [one._replace(ends={c - 1: e for c, e in one.ends.items() if c}) for one in kept]) == (
        "rejected", "first calls of program 0",
    )  # fmt: skip


def test_the_bytes_of_the_plans_count_and_an_answer_for_other_files_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: V6.2"""
    members, kept = RIGHT.members, kept_of(RIGHT)
    programs = [program_of(member) for member in members]
    wrong = program_of(member_of("o", changed(OTHER, "192", "96")))
    exchanged = [*programs[:2], programs[2]._replace(of=wrong.of)]
    assert judge_set(exchanged, kept, 60)["reason"] == "bytes beside the state of program 2"
    false = programs[2]._replace(of=replace(programs[2].of, sha256=bytes(32)))
    assert judge_set([*programs[:2], false], kept, 60)["reason"] == "its answer is for other files"
    monkeypatch.setattr(sets, "run_program", lambda *_: ("accepted set\n", ""))
    assert judge_set(programs, kept, 60)["reason"] == "its answer is not understood"
    monkeypatch.setattr(sets, "run_program", lambda *_: ("", "no answer within 1 s"))
    assert judge_set(programs, kept, 60) == {
        "answer": "no_answer", "reason": "no answer within 1 s", "sources": installed.digest(),
    }  # fmt: skip
    monkeypatch.setattr(installed, "find_program", lambda: None)
    monkeypatch.setattr(installed, "refusal", lambda: "damaged")
    assert judge_set(programs, kept, 60)["reason"] == "not installed: damaged"


@pytest.mark.parametrize("cut", [1, 40, 400])
def test_words_that_are_cut_short_have_no_answer(cut: int) -> None:
    members, kept = RIGHT.members, kept_of(RIGHT)
    programs = [program_of(member) for member in members]
    row = np.concatenate([np.asarray(c).astype(np.uint64) for c in set_columns([p.context for p in programs], kept)])
    path = installed.find_program()
    assert path is not None
    command: list[Path | str] = [path, "--set"]
    whole = run_program(command, [row], [p.of for p in programs], 60)
    assert whole == (f"accepted set {' '.join(p.of.sha256.hex() for p in programs)}\n", "")
    assert run_program(command, [row[:-cut]], [p.of for p in programs], 60)[1].startswith("it ended without an answer")
    assert run_program([path], [row], [p.of for p in programs], 60)[1] != ""


def test_about_steps_on_streams_it_is_not_asked() -> None:
    """If it is asked nevertheless, it rejects their files: it would run the steps one after another. spec: PS4.7"""
    right = {"w": WRITER, "r": READER}
    put = "step f my::F a -> code"
    sets_ = [
        [member_of(name, lines) for name, lines in plans.items()]
        for plans in (right, {**right, "w": changed(WRITER, put, f"{put} on 1")})
    ]
    kept = kept_tensors(sets_[0], find_state(sets_[0], agree_by_names(sets_[0], ("code",), ())))
    assert [asked(members, kept) for members in sets_] == [("accepted", ""), (NOT_ASKED, sets.WITH_STREAMS)]
    path = installed.find_program()
    assert path is not None
    programs = [program_of(member) for member in sets_[1]]
    row = set_columns([p.context for p in programs], kept)
    output, failure = run_program([path, "--set"], row, [p.of for p in programs], 60)
    assert (output.split()[:4], failure) == (["rejected", "set", "6", "-1"], "")


def test_a_file_that_is_no_plan_is_rejected() -> None:
    def write(stream: IO[bytes]) -> None:
        stream.write(b"\xa0")

    programs = [program_of(member) for member in RIGHT.members]
    other = programs[2]._replace(of=PlanFile(write, hashlib.sha256(b"\xa0").digest()))
    assert judge_set([*programs[:2], other], kept_of(RIGHT), 60)["reason"] == "plans"


def test_tensors_of_no_bytes_are_not_kept() -> None:
    members = [member_of("w", WRITER), member_of("r", READER)]
    kept = [KeptTensor("memory", 80, 0, False, {0: Ends(None, members[0].rows["code"])})]
    assert asked(members, kept) == ("accepted", "")


def test_each_part_has_a_name_and_each_obligation_of_state_is_one() -> None:
    assert len(set(sets.PARTS)) == 7
    assert {row.obligation for row in TABLE} - {None, Obligation.ONE_SET} == {
        Obligation.SHARED_AT_ONE_PLACE, Obligation.STATE_IS_UNTOUCHED, Obligation.STATE_IS_WRITTEN_FIRST,
    }  # fmt: skip
