"""Logs of real runs followed through the modules: accepted as they are, refused at the line that is miswritten.

spec: U5.17 to U5.19
"""

from __future__ import annotations

import dataclasses
from pathlib import Path as File

import pytest

from proofs.model_check import entry, judge, tlc
from proofs.model_check.following import cache_growth, follow, quota, scans, sessions
from proofs.model_check.following.generate import make_run
from proofs.model_check.following.lines import Path
from proofs.model_check.following.log import Event
from proofs.model_check.following.verdict import judge_path
from proofs.model_check.judge import RunResult
from proofs.model_check.manifest import Run
from proofs.tools import java, tlatools
from tests.support import cache_logs, pool_logs, recorded, session_logs
from tests.support.followed import TLA, followed, objection, refused_everywhere, rewritten, richest
from tests.support.set_programs import run_set
from tests.support.small_llama import file_of
from tmmu.cli.entry import run


@pytest.fixture(scope="module")
def tools() -> tuple[str, File]:
    return java.find_java(), tlatools.fetch_tlatools()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> File:
    return recorded.whole_run(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> File:
    return recorded.refusals(tmp_path_factory.mktemp("refusals"))


@pytest.fixture(scope="module")
def replanned(tmp_path_factory: pytest.TempPathFactory) -> File:
    return recorded.replanned(tmp_path_factory.mktemp("replanned"))


@pytest.fixture(scope="module")
def looped(tmp_path_factory: pytest.TempPathFactory) -> File:
    return recorded.looped(tmp_path_factory.mktemp("looped"))


@pytest.fixture(scope="module")
def pooled(tmp_path_factory: pytest.TempPathFactory) -> File:
    return recorded.pooled(tmp_path_factory.mktemp("pooled"))


@pytest.fixture(scope="module", params=[False, True], ids=["", "strict"])
def grown(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> File:
    file = tmp_path_factory.mktemp("grown") / "run.events"
    cache_logs.two_sessions(file, request.param)
    return file


@pytest.fixture(scope="module")
def foundry_pool(tmp_path_factory: pytest.TempPathFactory) -> File:
    return pool_logs.two_sessions(tmp_path_factory.mktemp("pool"))


@pytest.fixture(scope="module")
def in_use(tmp_path_factory: pytest.TempPathFactory) -> File:
    return session_logs.in_turns(tmp_path_factory.mktemp("in_use"))


@pytest.fixture(scope="module")
def set_log(tmp_path_factory: pytest.TempPathFactory) -> File:
    file = tmp_path_factory.mktemp("set") / "run.events"
    run_set(log=file)
    return file


def test_the_calls_of_a_plan_set_are_steps_of_their_module(set_log: File, tools: tuple[str, File]) -> None:
    """spec: U5.23"""
    [result] = followed(set_log, tools)
    assert (result.module, result.objections) == ("PlanSet", ())
    [path] = follow.read_log(set_log)[1]
    assert {line.action for line in path.lines} == {"Open", "Load", "Call", "Read", "Store", "Return"}
    refused_everywhere(path, tools)


@pytest.mark.parametrize(
    ("before", "after", "which", "says"),
    [
        # the cache of another call, a call that did not return, a program that takes what nobody has written
        ('"set read", "tensor": 7, "call": 1', '"set read", "tensor": 7, "call": 0', 0, "Read is not a step"),
        ('"set return", "program": 1', '"set call", "program": 2, "call": 3', 0, "Call is not a step"),
        ('"set call", "program": 0, "call": 1', '"set call", "program": 1, "call": 1', 0, "Call is not a step"),
    ],
)
def test_a_log_of_a_plan_set_that_is_forged_is_refused(
    set_log: File, tmp_path: File, tools: tuple[str, File], before: str, after: str, which: int, says: str
) -> None:
    """spec: U5.19, U5.23"""
    copy, line = rewritten(set_log, tmp_path, before, after, which)
    assert objection(copy, line, "PlanSet", tools).startswith(f"line {line}: {says}")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[1, 0, 256, 4]", "[1, 64, 256, 4]"),
        ("[0, 0, 256, 4]", "[0, 0, 128, 4]"),
        ("[2, 320, 64, 9]", "[2, 64, 64, 9]"),
    ],
    ids=["cache moved", "other size", "activation over another's cache"],
)
def test_a_log_of_a_set_that_breaks_a_rule_is_refused_at_its_first_line(
    set_log: File, tmp_path: File, tools: tuple[str, File], before: str, after: str
) -> None:
    """The rules of the module are those of the set, whatever its calls found. spec: U5.23"""
    copy, line = rewritten(set_log, tmp_path, before, after)
    assert objection(copy, line, "PlanSet", tools).startswith(f"line {line}: Open is not a step of PlanSet here")


def test_a_run_with_crashes_and_one_with_refusals_are_steps_of_their_modules(
    whole: File, refusals: File, replanned: File, looped: File, pooled: File, tools: tuple[str, File]
) -> None:
    results = [result for file in (whole, refusals, replanned, looped, pooled) for result in followed(file, tools)]
    assert [result.objections for result in results if not result.as_expected] == []
    assert {result.module for result in results} == {"LinearScan", "PlanLifecycle", "Pools", "Quota", "Zeroing"}
    assert len(results) > 8


def test_random_plans_and_their_runs_are_steps_of_their_modules(tmp_path: File, tools: tuple[str, File]) -> None:
    file = recorded.random_plans(tmp_path, range(6, 7))
    results = followed(file, tools)
    assert [result.objections for result in results if not result.as_expected] == []


def test_caches_of_two_sessions_that_grow_are_steps_of_their_module(
    grown: File, tmp_path: File, tools: tuple[str, File]
) -> None:
    """spec: FD9.3, FD9.4"""
    cache_logs.together(tmp_path / "together.events")
    for file in (grown, tmp_path / "together.events"):
        [result] = followed(file, tools)
        assert (result.module, result.objections) == ("CacheGrowth", ())
    [path] = follow.read_log(grown)[1]
    assert {line.action for line in path.lines} == set(cache_growth.ACTIONS.values())


def test_every_line_of_a_log_of_caches_that_is_miswritten_is_refused_at_that_line(
    grown: File, tools: tuple[str, File]
) -> None:
    """spec: FD9.3, FD9.4"""
    [path] = follow.read_log(grown)[1]
    refused_everywhere(path, tools)


def test_a_pool_that_two_sessions_share_takes_steps_of_its_module(
    foundry_pool: File, tmp_path: File, tools: tuple[str, File]
) -> None:
    """spec: FD9.1, FD9.2"""
    results = followed(foundry_pool, tools)
    results += followed(pool_logs.threads(tmp_path, 1), tools)
    assert [result.objections for result in results if not result.as_expected] == []
    assert {result.module for result in results} == {"PoolGenerations"}
    actions = {line.action for path in follow.read_log(foundry_pool)[1] for line in path.lines}
    assert actions == {
        "Take", "Grow", "Lack", "Submit", "Complete", "Fail", "Lease", "Return", "Refuse", "Ask", "Reset", "GiveUp",
        "Exhaust",
    }  # fmt: skip


def test_two_sessions_on_one_device_are_steps_of_their_module(
    in_use: File, tmp_path: File, tools: tuple[str, File]
) -> None:
    """spec: FD9.5, FD9.6, FD9.7"""
    for file in (in_use, session_logs.in_threads(tmp_path)):
        results = followed(file, tools)
        assert [result.objections for result in results if not result.as_expected] == []
        assert {result.module for result in results} == {"CacheGrowth", "Sessions"}
    [path] = [path for path in follow.read_log(in_use)[1] if path.module == "Sessions"]
    found = {line.action for line in path.lines}
    assert found == {*sessions.ACTIONS.values(), "CannotLoad", "SubmitOther", "OtherEnded"}


def test_the_log_of_a_command_is_steps_of_three_modules(
    tmp_path: File, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tmmu session run`, across a growth, and `tmmu session score`, which uses the memory pool. spec: FD8.7, RE3.9"""
    monkeypatch.setenv("METALLIC_FOUNDRY_DECODE_BATCH_SIZE", "4")
    given = [str(file_of()), "--prompt-tokens", "1,5,7,5,7,11", "--initial", "128", "--context", "230"]
    for name, more, modules in (
        ("run", ["--tokens", "200"], {"CacheGrowth", "Sessions"}),
        ("score", [], {"CacheGrowth", "PoolGenerations", "Sessions"}),
    ):
        log = tmp_path / name
        assert run(["session", name, *given, *more, "--follow-log", str(log)]) == 0
        assert entry.run(["--follow", str(log)]) == 0
        out = capsys.readouterr().out
        assert {line.split(": ")[1].split(",")[0] for line in out.splitlines() if line.startswith("ACC")} == modules


def test_every_line_of_a_log_of_sessions_that_is_miswritten_is_refused_at_that_line(
    in_use: File, tools: tuple[str, File]
) -> None:
    """spec: FD9.5, FD9.6"""
    [path] = [path for path in follow.read_log(in_use)[1] if path.module == "Sessions"]
    refused_everywhere(path, tools)


def test_every_line_of_a_log_that_is_miswritten_is_refused_at_that_line(
    whole: File, refusals: File, replanned: File, pooled: File, foundry_pool: File, tools: tuple[str, File]
) -> None:
    paths = richest(follow.read_log(whole)[1])
    paths += richest(follow.read_log(foundry_pool)[1])
    paths += [path for path in follow.read_log(pooled)[1] if path.module == "Pools"]
    paths += [path for path in follow.read_log(replanned)[1] if path.module == "PlanLifecycle"]
    paths += [path for path in follow.read_log(replanned)[1] if "Refuse" in [line.action for line in path.lines]]
    paths += [path for path in follow.read_log(refusals)[1] if path.module == "Quota" and len(path.lines) > 1]
    for path in paths:
        refused_everywhere(path, tools)
    actions = {line.action for path in paths for line in path.lines}
    assert {"Replan", "StandBy"} < actions
    assert len(actions) > 22


Miswritten = tuple[str, str, str, str, int, str]
"""Which recording, the module that follows it, what is written in place of what, at which of its places, and what is
said of that."""


@pytest.mark.parametrize(
    "wrong",
    [
        (
            "whole",
            "LinearScan",
            '"slot": 2}',
            '"slot": 3}',
            0,
            "Open is not a step of LinearScan here (it allows Open)",
        ),
        ("whole", "LinearScan", '"scanned", "slots": 3', '"scanned", "slots": 2', 0, "LinearScan does not end so"),
        (
            "whole",
            "PlanLifecycle",
            '"begun", "t": 3',
            '"begun", "t": 2',
            0,
            "Begin is not a step of PlanLifecycle here (it allows Beg",
        ),
        (
            "whole",
            "Zeroing",
            '"zeroed": true, "is_zero": true',
            '"zeroed": true, "is_zero": false',
            0,
            "Bear is not a step of Zeroing here (it allows Bear)",
        ),
        (
            "whole",
            "Quota",
            '"bytes_allocated": 8192',
            '"bytes_allocated": 8191',
            0,
            "Commit is not a step of Quota here (it allows",
        ),
        (
            "pooled",
            "Pools",
            '"join", "storage": 29, "pool": 0',
            '"join", "storage": 29, "pool": 1',
            0,
            "Join is not a step of Pools",
        ),
        ("pooled", "Pools", '"pooled", "pools": 3', '"pooled", "pools": 2', 0, "Pools does not end so"),
        (
            "replanned",
            "PlanLifecycle",
            '"event": "replan", "t": 3',
            '"event": "replan", "t": 4',
            0,
            "Replan is not a step",
        ),
        ("replanned", "PlanLifecycle", '"old_plan_hash": "', '"old_plan_hash": "0', 0, "Replan is not a step"),
        (
            "replanned",
            "PlanLifecycle",
            '"event": "begun", "t": 4',
            '"event": "begun", "t": 3',
            0,
            "Begin is not a step",
        ),
        # a command on a tensor of another generation, which the device would execute all the same
        (
            "foundry_pool",
            "PoolGenerations",
            '"writes": [6], "commands": 1',
            '"writes": [1], "commands": 1',
            0,
            "Submit is not a step",
        ),
        (
            "foundry_pool",
            "PoolGenerations",
            '"tensor": 10, "leases": 1',
            '"tensor": 9, "leases": 1',
            0,
            "Lease is not a step",
        ),
        # an array that is held beyond the reset
        (
            "foundry_pool",
            "PoolGenerations",
            '"tensor": 4, "leases": 0',
            '"tensor": 3, "leases": 0',
            -1,
            "Return is not a step",
        ),
        # a chunk that has room is passed over, or is not the first with room
        (
            "foundry_pool",
            "PoolGenerations",
            '"tensor": 5, "chunk": 0',
            '"tensor": 5, "chunk": 1',
            0,
            "Take is not a step",
        ),
        ("foundry_pool", "PoolGenerations", '"size": 1536', '"size": 1280', 0, "Grow is not a step"),
        ("foundry_pool", "PoolGenerations", '"is_denied": true', '"is_denied": false', 0, "Lack is not a step"),
        (
            "foundry_pool",
            "PoolGenerations",
            '"generation": 3, "allocations"',
            '"generation": 2, "allocations"',
            0,
            "PoolGenerations does not end so",
        ),
    ],
    ids=lambda wrong: f"{wrong[1]}: {wrong[5]}",
)
def test_a_log_that_is_miswritten_is_refused_with_the_line_the_action_and_what_the_module_allows(
    request: pytest.FixtureRequest, tmp_path: File, tools: tuple[str, File], wrong: Miswritten
) -> None:
    recording, module, before, after, which, says = wrong
    copy, line = rewritten(request.getfixturevalue(recording), tmp_path, before, after, which)
    assert objection(copy, line, module, tools).startswith(f"line {line}: {says}")


def test_a_log_that_is_refused_is_named_by_the_command(
    whole: File, tmp_path: File, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, _ = rewritten(whole, tmp_path, '"slot": 2}', '"slot": 3}')
    monkeypatch.setattr(follow, "READERS", follow.READERS[:1])
    assert entry.run(["--follow", str(copy)]) == 1
    assert capsys.readouterr().out.startswith(f"REJECTED {copy}: LinearScan")


def test_a_file_that_was_whole_must_not_be_refused(whole: File, tmp_path: File, tools: tuple[str, File]) -> None:
    """Without the word of who damaged it, a refusal is the run's fault."""
    lines = [line for line in whole.read_text().splitlines(True) if "damaged" not in line]
    (tmp_path / "copy.events").write_text("".join(lines))
    said = objection(tmp_path / "copy.events", len(lines), "PlanLifecycle", tools)
    assert said.startswith(f"line {len(lines)}: RefuseDamaged is not a step")


# The ways in which a log could look accepted while nothing was.


@pytest.fixture
def scan(whole: File) -> tuple[Path, list[Event], Run]:
    events, _ = follow.read_log(whole)
    [path] = scans.paths(events)
    return path, events, make_run(path, TLA)


def ended(scan: tuple[Path, list[Event], Run], tools: tuple[str, File], run: Run) -> RunResult:
    path, events, _ = scan
    return judge_path("log", path, events, run, tlc.run_tlc(run, *tools, timeout_s=300))


def changed(run: Run, name: str, before: str, after: str) -> Run:
    """The run with one place of the generated module or of the follower changed."""
    files = {**dict(run.files)}
    assert files[name].count(before) == 1, (before, files[name].count(before))
    return dataclasses.replace(run, files=tuple({**files, name: files[name].replace(before, after)}.items()))


LINE_1 = "LogInit == /\\ line = 1"
REUSED = "slot'[e.storage] = e.slot\n             \\/"


@pytest.mark.parametrize(
    ("name", "before", "after", "objection"),
    [
        ("Followed.tla", LINE_1, f"{LINE_1} /\\ line = 2", "no answer: distinct states 0"),
        ("Followed.tla", LINE_1, "LogInit == /\\ line \\in {1, 99}", "no answer"),  # one of them at the end
        ("FollowLinearScan.tla", "Advance /\\ now' = e.step", "UNCHANGED vars", "StepsOfTheModule of LinearScan"),
        ("FollowLinearScan.tla", "ModuleNext == Next", "ModuleNext == 1", "no answer"),
        ("FollowLinearScan.tla", REUSED, REUSED.replace("storage", "absent"), "no answer"),
    ],
)
def test_what_is_no_answer_is_not_taken_for_acceptance(
    scan: tuple[Path, list[Event], Run], tools: tuple[str, File], name: str, before: str, after: str, objection: str
) -> None:
    result = ended(scan, tools, changed(scan[2], name, before, after))
    assert not result.as_expected
    assert objection in result.objections[0], result.objections


def test_a_question_that_forgets_deadlock_accepts_nothing(
    scan: tuple[Path, list[Event], Run], tools: tuple[str, File]
) -> None:
    """TLC ends with 0 where the second line is no step and nobody asked for deadlock."""
    run = changed(scan[2], "Followed.tla", "LogStep == /\\ line <= Len(LogLines)", "LogStep == /\\ line <= 1")
    silent = dataclasses.replace(run, config=dataclasses.replace(run.config, deadlock=False))
    outcome = tlc.run_tlc(silent, *tools, timeout_s=300)
    assert judge.is_success(outcome)
    path, events, _ = scan
    first = judge_path("log", path, events, silent, outcome).objections[0]
    assert first.startswith("no answer: distinct states 2, expected ")


def test_a_journal_that_cannot_be_had_is_a_refusal_too(refusals: File, tools: tuple[str, File]) -> None:
    """The module once said that only an arena can be refused; this run showed it."""
    events, _ = follow.read_log(refusals)
    path = list(quota.paths(events))[2]
    assert [line.action for line in path.lines] == ["Ask", *["Map"] * 4, "Refuse", *["Unmap"] * 4, "Fail"]
    run = make_run(path, TLA)
    assert judge_path("log", path, events, run, tlc.run_tlc(run, *tools, timeout_s=300)).as_expected
