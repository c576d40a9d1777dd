"""Interleavings of steps on planned bytes: wrong plans fail in one of twenty, right ones in none; what is refused.

spec: SIM10.1, SIM10.2, SIM10.3, SIM10.4, SIM10.6
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.commands import ran
from tests.support.wrong_plans.row import Row
from tests.support.wrong_plans.streams import RACES
from tmmu.core.errors import TmmuError
from tmmu.plans import file
from tmmu.plans.sections import Plan
from tmmu.simulator import HashKernels, PlanProgram
from tmmu.simulator.memories import Raw
from tmmu.simulator.schedules import Schedules

SEEDS = range(20)
PLAIN = [row for row in RACES if isinstance(plan := row.plan(), Plan) and len(plan.allocation.bodies) == 1]
"""The rows whose plans have no bodies: a node with bodies has no schedules."""


def schedules_of(row: Row, *, sanitize: bool = True) -> tuple[Schedules, HashKernels]:
    plan = row.plan()
    assert isinstance(plan, Plan)
    program = PlanProgram(plan, row.donated)
    return Schedules(program, sanitize=sanitize), HashKernels(program)


@pytest.mark.parametrize("row", PLAIN, ids=str)
def test_a_wrong_plan_fails_in_one_of_twenty_schedules_and_a_right_one_in_none(row: Row) -> None:
    schedules, kernels = schedules_of(row)
    found = [schedules.run(kernels, seed).report.corruption for seed in SEEDS]
    assert any(found) == bool(row.places)


@pytest.mark.parametrize("row", [row for row in PLAIN if not row.places], ids=str)
def test_a_right_plan_is_right_in_threads(row: Row) -> None:
    schedules, kernels = schedules_of(row)
    assert schedules.run_threads(kernels, 0).report.corruption is None


def row_named(name: str) -> Row:
    return next(row for row in RACES if row.name == name)


def test_without_the_sanitizer_wrong_bytes_are_found_where_they_are_read() -> None:
    schedules, kernels = schedules_of(row_named("an event too early"), sanitize=False)
    found = [corruption for seed in SEEDS if (corruption := schedules.run(kernels, seed).report.corruption)]
    assert found
    assert {(corruption.tensors, corruption.step, corruption.arena) for corruption in found} == {(("a", "c"), 1, "m")}
    assert "step 2 (r) has written c there" in found[0].text


def test_the_sanitizer_finds_two_steps_at_the_same_bytes_whatever_these_are() -> None:
    schedules, kernels = schedules_of(row_named("an event too early"))
    found = [corruption for seed in SEEDS if (corruption := schedules.run(kernels, seed).report.corruption)]
    assert any({*each.tensors} == {"a", "c"} and (each.first_byte, each.last_byte) == (8, 15) for each in found)
    assert any("in the same bytes" in each.text for each in found)


@pytest.mark.parametrize("kind", ["view", "tensor without bytes"])
def test_a_step_that_begins_before_its_operand_is_made_fails(kind: str) -> None:
    schedules, kernels = schedules_of(row_named(f"a {kind} that another stream reads before it is made"))
    found = [corruption for seed in SEEDS if (corruption := schedules.run(kernels, seed).report.corruption)]
    name = kind.split()[0][0] if kind == "view" else "e"
    assert {each.text for each in found} == {f"step 1 (q) reads {name} before step 0 (p) has made it"}


def test_schedules_differ_by_seed_and_are_the_same_for_one() -> None:
    schedules, kernels = schedules_of(row_named("two reads at the same time"))
    logs = [tuple(schedules.run(kernels, seed).log) for seed in SEEDS]
    assert len(set(logs)) > 1
    assert logs == [tuple(schedules.run(kernels, seed).log) for seed in SEEDS]
    assert {schedules.run(kernels, seed).widest for seed in SEEDS} == {1, 2}


def test_a_failure_in_one_thread_ends_the_others() -> None:
    schedules, _ = schedules_of(row_named("a view is no write"))
    with pytest.raises(ZeroDivisionError):
        schedules.run_threads(Failing(schedules.program), 0)


class Failing(HashKernels):
    """Kernels that fail."""

    def compute(self, n: int, operands: Sequence[Raw]) -> list[Raw]:
        raise ZeroDivisionError


@pytest.mark.parametrize("name", ["a node with bodies is a barrier"])
def test_a_plan_with_bodies_has_no_schedules(name: str) -> None:
    with pytest.raises(TmmuError, match="steps inside of bodies"):
        schedules_of(row_named(name))


@pytest.fixture
def planned(tmp_path: Path) -> str:
    plan = row_named("bytes that another stream still reads, but right").plan()
    assert isinstance(plan, Plan)
    file.save(plan, tmp_path / "p.cbor")
    return str(tmp_path / "p.cbor")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--schedules", "2", "--kernels", "onnx"), "--kernels"),
        (("--schedules", "2", "--batches", "2"), "--batches"),
        (("--threads", "--trace", "t.bin"), "records"),
        (("--schedules", "0"), "--schedules"),
    ],
)
def test_what_does_not_go_with_schedules_is_refused(
    flags: tuple[str, ...], said: str, planned: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, errors = ran(capsys, "run", planned, *flags)
    assert (code, said in errors) == (2, True)


def test_json_has_the_log_of_each_schedule(planned: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ran(capsys, "run", planned, "--schedules", "3", "--threads", "--format", "json")
    found = json.loads(out)
    assert (code, found["verdict"], found["threads"], found["streams"]) == (0, "IDENTICAL", True, ["1", "2"])
    for schedule in found["schedules"]:
        began = [entry["node"] for entry in schedule["log"] if entry["event"] == "begin"]
        assert sorted(began) == ["p", "q", "r", "s"]


def test_a_plan_without_streams_has_no_schedules(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "p.plan.txt").write_text(
        "tmmu-plan-text 1\narena m 64\ntensor x 8 m 0 input\ntensor y 8 m 8 output\nstep s Relu x -> y\n"
    )
    code, _, errors = ran(capsys, "run", str(tmp_path / "p.plan.txt"), "--schedules", "2")
    assert (code, "there is only one schedule" in errors) == (4, True)
