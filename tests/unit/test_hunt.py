"""The parts of the hunt: programs and their cuts, a worker process, and a planner that is wrong and must be found."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.nightly.hunt import programs as p
from tests.nightly.hunt.__main__ import NotARecord, replay
from tests.nightly.hunt.driver import IN_FULL, Found, Hunt, Worker, flat, inputs_of, row, table
from tests.nightly.hunt.planners import PLANNERS, Planner
from tests.nightly.hunt.planted import measure_power

FEATURES = ["float32", "gather", "outputs", "unused", "views", "windows"]


class WrongPlanner(Worker):
    """It places values one after the other, but the result of a flip onto its operand, and returns zeros then.

    A program with a pad is refused, one with a transpose fails.
    """

    def __init__(self) -> None:
        super().__init__([])
        self.hello = {"planner": "Wrong", "version": "1", "features": FEATURES, "variants": ["default"]}

    def start(self) -> dict[str, Any]:
        return self.hello

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        program = p.from_json(question["program"])
        operations = set(p.operations(program))
        for operation, answer in (("pad", "refused"), ("transpose", "failed")):
            if operation in operations:
                return {answer: f"no {operation}"}
        at: dict[int, int] = {}
        given, returned = {value.id for value in program.inputs}, set(program.outputs)
        tensors, steps, end = [], [], 0
        flips = {step.results[0].id: step.operands[0] for step in program.steps if step.op == "flip"}
        for value in program.values().values():
            at[value.id] = at[flips[value.id]] if value.id in flips else end
            end += 4 * value.size
            roles = [*(["input"] if value.id in given else []), *(["output"] if value.id in returned else [])]
            tensors.append(f"tensor v{value.id} {4 * value.size} a {at[value.id]} {' '.join(roles)}")
        for k, step in enumerate(program.steps):
            reads, writes = " ".join(f"v{n}" for n in step.operands), " ".join(f"v{v.id}" for v in step.results)
            steps.append(f"step s{k} my::{step.op} {reads} -> {writes}")
        path = Path(question["folder"], "wrong.plan.txt")
        path.write_text("\n".join(["tmmu-plan-text 1", f"arena a {max(end, 1)}", *tensors, *steps, ""]))
        inputs = [[p.np.array(x).reshape(v.shape) for x, v in zip(one, program.inputs, strict=True)] for one in
                  question["inputs"]]  # fmt: skip
        outputs = [[0 * each if flips else each for each in p.evaluate(program, one)] for one in inputs]
        return {"plans": [str(path)], "outputs": flat(outputs), "unplanned": None, "plain": None}


def test_a_wrong_plan_is_found_shrunk_recorded_and_counted(tmp_path: Path) -> None:
    """Of the seeds only those are refuted whose program has a flip; what is left of one is little more than that."""
    hunt = Hunt("wrong", WrongPlanner(), tmp_path)
    hunt.run(float("inf"), 9, first=41)
    lines = [json.loads(line) for line in hunt.log.read_text().splitlines()]
    assert [line["seed"] for line in lines] == list(range(41, 50))
    for line in lines:
        operations = set(p.operations(hunt.case(line["seed"])[0]))
        expected = "refused" if "pad" in operations else "failed" if "transpose" in operations else None
        right = "proved" if line["seed"] % IN_FULL == 0 else "right"
        assert line["outcome"] == (expected or ("refuted" if "flip" in operations else right))
    records = [json.loads(path.read_text()) for path in (tmp_path / "records").rglob("*.json")]
    assert records
    for record in records:
        assert record["outcome"] == "refuted"
        assert record["verdict"]["witness"]
        small = p.from_json(record["program"])
        assert list(p.operations(small)) == ["flip"]
        assert list((tmp_path / "records" / "wrong" / str(record["seed"])).glob("*.plan.txt"))
    figures = row(hunt.log)
    assert figures["tried"] == 9
    assert figures["refuted"] == sum(line["outcome"] == "refuted" for line in lines) > 0
    assert sum(figures[outcome] for outcome in ("refused", "failed", "right", "proved", "refuted")) == 9
    assert f"| {figures['refuted']} |" in list(table(tmp_path))[2]
    with hunt.log.open("a") as log:
        log.write('{"seed": 50, "outc')  # the run was stopped here
    hunt.run(float("inf"), 9, first=41)
    assert len(hunt.log.read_text().splitlines()) == 10


@pytest.mark.parametrize("outputs", [(6,), (2, 6), (1, 4, 6)])
def test_a_wrong_step_is_all_that_is_left_though_nothing_reads_it_or_much_reads_it(
    tmp_path: Path, outputs: tuple[int, ...]
) -> None:
    """Value 5 is the one that is wrong; with the first outputs no step reads it, with the others two do."""
    unread = len(outputs) == 1
    rows = [
        ("neg", (0,)),
        ("abs", (1,)),
        ("neg", (0,)),
        ("add", (2, 3)),
        ("flip", (4,)),
        ("sub", (4, 4 if unread else 5)),
    ]
    given, *made = (p.Value(number, "float32", (3,)) for number in range(7))
    steps = (
        p.Step(op, operands, (value,), {"axis": 0} if op == "flip" else {})
        for (op, operands), value in zip(rows, made, strict=True)
    )
    program = p.Program((given,), tuple(steps), outputs)
    hunt = Hunt("wrong", WrongPlanner(), tmp_path)
    found = hunt.attempt(program, inputs_of(program, 0), "default", in_full=False)
    small, again = hunt.shrink(program, 0, "default", found)
    assert again.outcome == found.outcome == "refuted"
    assert list(p.operations(small)) == ["flip"]


@pytest.mark.parametrize(
    ("found", "part"),
    [
        (Found("right", differs=False, unplanned_differs=False, plain_differs=False), ""),
        (Found("refused"), ""),
        (Found("crashed"), "runtime"),
        (Found("refuted"), "planner"),
        (Found("unknown", differs=False, unplanned_differs=False), "not decided"),
        (Found("unknown", differs=True, unplanned_differs=False), "planner"),
        (Found("unknown", differs=True, unplanned_differs=True), "kernel or rewrite"),
        (Found("refuted", differs=True, unplanned_differs=True), "planner"),
        (Found("proved", differs=True, unplanned_differs=False), "planner"),
        (Found("no plan", differs=True), "not told apart"),
        (Found("no plan", differs=True, unplanned_differs=True), "kernel or rewrite"),
        (Found("no plan", differs=True, unplanned_differs=True, plain_differs=False), "rewrite"),
        (Found("no plan", differs=True, unplanned_differs=True, plain_differs=True), "kernel"),
    ],
)
def test_the_part_at_fault_is_told_as_far_as_other_runs_tell(found: Found, part: str) -> None:
    assert found.part == part


def test_a_record_is_shown_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the outcome that it had, or the answer is that it has another one."""
    given, made = (p.Value(k, "float32", (3,)) for k in range(2))
    program = p.Program((given,), (p.Step("flip", (0,), (made,), {"axis": 0}),), (0, 1))
    hunt = Hunt("wrong", WrongPlanner(), tmp_path)
    found = hunt.attempt(program, inputs_of(program, 1), "default")
    assert (found.outcome, found.differs) == ("refuted", True)
    hunt.record(1, "default", program, found)
    (path,) = (tmp_path / "records").rglob("*.json")
    monkeypatch.setitem(PLANNERS, "wrong", Planner("wrong", ".", Path()))
    monkeypatch.setattr("tests.nightly.hunt.__main__.install", lambda planner: None)
    monkeypatch.setattr("tests.nightly.hunt.__main__.Worker", lambda command: WrongPlanner())
    assert replay(path, None) == 0
    path.write_text(path.read_text().replace('"outcome": "refuted"', '"outcome": "proved"'))
    assert replay(path, None) == 1
    path.write_text("{")
    with pytest.raises(NotARecord):
        replay(path, None)


def test_programs_compute_what_they_state_and_so_do_their_cuts() -> None:
    """Every operation is reached; JSON gives the same program; a cut is another program, of values that it has."""
    reached: set[str] = set()
    for seed in range(100):
        rng = random.Random(seed)
        program = p.generate(rng)
        reached.update(p.operations(program))
        assert p.from_json(json.loads(json.dumps(p.to_json(program)))) == program
        for one in inputs_of(program, seed):
            p.evaluate(program, one)
        for cut in p.smaller(program) if seed < 3 else ():
            assert cut != program
            try:
                p.evaluate(cut, p.random_inputs(cut, rng))
            except AssertionError:  # its numbers are too large, which the driver leaves out
                continue
    assert reached == {name for names in p.OPERATIONS.values() for name in names}


def test_long_straight_programs_and_deep_control_flow_are_both_drawn() -> None:
    programs = [p.generate(random.Random(seed)) for seed in range(60)]
    controls = [sum(operation in p.CONTROL for operation in p.operations(program)) for program in programs]
    assert any(len(program.steps) >= 40 and not count for program, count in zip(programs, controls, strict=True))
    assert max(controls) >= 4
    assert sum(len(program.steps) < 6 for program in programs) >= 5


def share_live(program: p.Program) -> float:
    """Return the largest share of a program's values that are live at once."""
    end, values = len(program.steps), program.values()
    born = dict.fromkeys((value.id for value in program.inputs), 0)
    last = dict(born)
    for number, step in enumerate(program.steps):
        born |= {value.id: number for value in step.results}
        last |= dict.fromkeys((*step.operands, *(value.id for value in step.results)), number)
    last |= dict.fromkeys(program.outputs, end)
    return max(sum(born[k] <= n <= last[k] for k in values) for n in range(end + 1)) / len(values)


def test_wide_programs_and_chains_are_both_drawn() -> None:
    drawn = (p.generate(random.Random(seed), p.FEATURES - p.CONTROL, (60,)) for seed in range(40))
    shares = [share_live(program) for program in drawn]
    assert sum(share < 0.15 for share in shares) >= 5
    assert sum(share > 0.3 for share in shares) >= 5


def test_a_planner_without_errors_is_right_and_planted_ones_show() -> None:
    """The rarer ones take more programs: `nightly/test_hunt.py`."""
    found, used = measure_power(20, ["last reader", "returned", "in place", "argument", "inner"])
    assert found["none"] == 0
    assert len(+found) == 5
    assert len(+used) == 4


def test_a_worker_that_dies_or_hangs_is_started_anew() -> None:
    script = (
        "import json, sys, time\n"
        "print(json.dumps({'planner': 'x'}), flush=True)\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    sys.exit(3) if asked == 1 else time.sleep(9) if asked == 2 else None\n"
        "    print(json.dumps({'ok': asked}), flush=True)\n"
    )
    with Worker([sys.executable, "-S", "-c", script], seconds=0.2) as worker:
        assert worker.ask(1) == {"crashed": "exit 3"}  # type: ignore[arg-type] # what is asked does not matter here
        assert worker.ask(0) == {"ok": 0}  # type: ignore[arg-type] # as above
        assert worker.ask(2) == {"hung": "no answer in 0 s"}  # type: ignore[arg-type] # as above
        assert worker.ask(0) == {"ok": 0}  # type: ignore[arg-type] # as above
    for silent in ("pass", "print('what a package prints')"):
        with pytest.raises(ChildProcessError), Worker([sys.executable, "-S", "-c", silent]) as worker:
            worker.start()
