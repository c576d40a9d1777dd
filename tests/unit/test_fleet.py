"""Many plans judged by workers: what is proved once, what is kept, and what follows from a worker that dies.

The workers here are this process, one task after the other; `tests/nightly/test_fleet.py` starts real ones.
spec: V7.1 to V7.12, V6.2
"""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from proofs.proving.kernel import evidence
from proofs.proving.kernel.program import PlanFile
from proofs.proving.obligations import MODULES
from proofs.proving.obligations.context import Context
from proofs.sharding import stages
from proofs.verify import command as verify_command
from proofs.verify import ranks, sources
from proofs.verify.checks import Subject
from proofs.verify.fleet import pools, results, worker
from proofs.verify.fleet.pools import Died
from proofs.verify.fleet.results import Results
from proofs.verify.fleet.schedule import Fleet
from proofs.verify.fleet.words import PlanWords
from proofs.verify.fleet.worker import Judged, Task
from proofs.verify.judge import verify
from proofs.verify.options import Options, Solving
from proofs.verify.sources import Answers
from proofs.verify.verdict import PROVED, REFUTED, UNKNOWN, Verdict
from tests.support.sharded import LAYERS, plans
from tmmu.core.errors import TmmuError
from tmmu.core.reading import digest_file
from tmmu.core.vocabulary import Bindings, RuntimeGraph
from tmmu.examples.broken.editing import changed
from tmmu.ir import files
from tmmu.plans import file
from tmmu.plans.configuration_file import Configuration
from tmmu.plans.sections import Plan, amend_plan
from tmmu.plans.workspace_file import Need, Workspace

STAGES = 2
"""Ranks 0 and 1 are of one stage, 2 and 3 of the other: there are two different plans but for what each rank holds."""


class Here:
    """A pool of this process. `fate` is asked before each task runs: whether its worker dies."""

    def __init__(self, size: int = 2, fate: Callable[[Task, int], bool] = lambda *_: False) -> None:
        self.size, self.fate = size, fate
        self.running: list[Task] = []
        self.begun: list[tuple[str, int]] = []

    def located(self, path: str) -> str:
        return path

    def submit(self, task: Task) -> None:
        self.running.append(task)
        self.begun.append((Path(task.name).name, len(self.running)))
        assert len(self.running) <= self.size

    def ended(self) -> Iterator[tuple[Task, Judged | Died]]:
        if any(self.fate(task, len(self.running)) for task in self.running):
            gone, self.running = self.running, []
            yield from ((task, Died()) for task in gone)
            return
        task = self.running.pop(0)
        yield task, worker.work(task)

    def close(self) -> None:
        self.running = []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The plans of four ranks, and their model."""
    files.save(LAYERS, tmp_path / "model.ir.cbor")
    for rank, plan in enumerate(plans()):
        file.save(plan, tmp_path / f"{rank}.plan.cbor")
    return tmp_path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The digest of the file of each question that solvers and kernel are asked."""
    found: list[bytes] = []

    def ask(context: Any, of: PlanFile, *rest: Any) -> Answers:
        found.append(of.sha256)
        return sources.ask(context, of, *rest)

    monkeypatch.setattr(worker, "ask", ask)
    return found


def options(folder: Path, **other: Any) -> Options:
    return Options(model=str(folder / "model.ir.cbor"), **other)


def paths(folder: Path) -> list[str]:
    return sorted(map(str, folder.glob("*.plan.cbor")))


def judged(
    folder: Path, pool: Any = None, kept: Results | None = None, by: Options | None = None
) -> dict[str, Verdict]:
    fleet = Fleet(paths(folder), by or options(folder), pool or Here(), kept)
    return {Path(done.verdict.file).name[0]: done.verdict for done in fleet.judge_files()}


def test_each_file_has_the_verdict_that_it_has_alone_and_equal_words_are_proved_once(
    folder: Path, asked: list[bytes]
) -> None:
    fleet = Fleet(paths(folder), options(folder), Here())
    found = sorted(fleet.judge_files())
    assert [done.number for done in found] == [0, 1, 2, 3]
    for done, path in zip(found, paths(folder), strict=True):
        assert asdict(done.verdict) == json.loads(json.dumps(asdict(verify(path, options(folder)))))
        assert done.verdict.verdict == PROVED
        assert done.member is not None
    assert (len(asked), len(set(asked)), fleet.proofs) == (STAGES, STAGES, STAGES)
    members = [done.member for done in found if done.member is not None]
    assert [verdict.verdict for verdict in ranks.verdicts(members, options(folder))] == [PROVED]


def test_what_differs_in_one_of_equal_words_is_found(folder: Path) -> None:
    first, plan = (file.load(folder / f"{rank}.plan.cbor").plan for rank in range(2))
    file.save(replace(plan, shards=first.shards), folder / "1.plan.cbor")  # the words are those of rank 0 all the same
    other = file.load(folder / "3.plan.cbor")
    data = file.encode(other.plan, {"plan_hash": bytes(32)})
    (folder / "3.plan.cbor").write_bytes(data)
    found = judged(folder)
    assert {name: verdict.verdict for name, verdict in found.items()} == {
        "0": PROVED, "1": REFUTED, "2": PROVED, "3": REFUTED
    }  # fmt: skip
    assert found["1"].witness is not None
    assert found["3"].witness is not None
    assert found["3"].witness["obligation"] == "hashes"


def test_a_model_that_is_another_is_found_for_every_file(folder: Path) -> None:
    net = replace(LAYERS, nodes=(replace(LAYERS.nodes[0], op="Gemm"), *LAYERS.nodes[1:]))
    files.save(net, folder / "model.ir.cbor")
    assert [verdict.verdict for verdict in judged(folder).values()] == [REFUTED, REFUTED, PROVED, PROVED]


def subject_of(plan: Plan, donated: frozenset[str] = frozenset()) -> Subject:
    return Subject(file.require_steps(file.decode(file.encode(plan))), None, donated)


def test_words_are_what_solvers_and_kernel_are_given(folder: Path) -> None:
    for plan in plans():
        subject = subject_of(plan)
        words = PlanWords.of(subject)
        alone = words.context()
        assert isinstance(alone, Context)
        assert alone.plan.provenance is None or alone.plan.provenance.shard_spec == {}
        assert alone.plan.shards is None
        assert np.array_equal(evidence.words(alone, bytes(32)), evidence.words(subject.context, bytes(32)))
        for module in MODULES.values():
            assert [b.rows for b in module.rows(alone)] == [b.rows for b in module.rows(subject.context)]


def test_equal_words_have_one_digest_and_others_another() -> None:
    made = plans()
    first = PlanWords.of(subject_of(made[0]))
    others = [
        made[2],
        amend_plan(made[0], layout="slots"),
        replace(made[0], claims=None, provenance=None, shards=None),
        changed(made[0], "tensors", "a", birth=0),
    ]
    assert first.digest == PlanWords.of(subject_of(made[1])).digest
    assert first.digest != PlanWords.of(subject_of(made[0], frozenset({"x"}))).digest
    looser = replace(first, permissions=replace(first.permissions, in_place={1: 0}))
    shown = replace(first, permissions=replace(first.permissions, views={1: (0, 0)}))
    seen = {first.digest, looser.digest, shown.digest}
    seen |= {PlanWords.of(Subject(file.StatedPlan(other, {}))).digest for other in others}
    assert len(seen) == 3 + len(others)


def test_an_answer_that_is_open_is_asked_for_once_more(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def lost(*given: Any) -> Answers:
        asked.append(given[1])
        found = sources.ask(*given)
        open_ = [replace(found.outcomes[0], verdict="UNKNOWN", note="it died"), *found.outcomes[1:]]
        return replace(found, outcomes=open_)

    monkeypatch.setattr(worker, "ask", lost)
    assert {verdict.verdict for verdict in judged(folder).values()} == {UNKNOWN}
    assert len(asked) == 2 * STAGES
    asked.clear()
    monkeypatch.setattr(worker, "ask", lambda *given: (lost if not asked else sources.ask)(*given))
    assert [verdict.verdict for verdict in judged(folder).values()].count(PROVED) == 3


def test_a_worker_that_dies_loses_nothing(folder: Path) -> None:
    deaths = iter([False, True, *[False] * 20])
    pool = Here(3, lambda *_: next(deaths))
    fleet = Fleet(paths(folder), options(folder), pool)
    assert {done.verdict.verdict for done in fleet.judge_files()} == {PROVED}
    assert sum(fleet.deaths.values()) == 3
    suspects = [path for number, path in enumerate(paths(folder)) if fleet.deaths[number]]
    alone = [name for name, running in pool.begun if running == 1]
    assert {Path(path).name for path in suspects} <= set(alone)


def test_a_plan_that_kills_its_worker_is_unknown_and_named_and_no_other_is(folder: Path) -> None:
    pool = Here(3, lambda task, _: task.name.endswith("2.plan.cbor") and not task.proves)
    fleet = Fleet(paths(folder), options(folder), pool)
    found = {Path(done.verdict.file).name[0]: done.verdict for done in fleet.judge_files()}
    assert {name: verdict.verdict for name, verdict in found.items()} == {
        "0": PROVED, "1": PROVED, "2": UNKNOWN, "3": PROVED
    }  # fmt: skip
    assert found["2"].notes == ["its worker has died 3 times, 2 of them with nothing else running"]
    assert list(fleet.count_verdicts(list(found.values())))[1:] == [f"  UNKNOWN {folder}/2.plan.cbor"]


def test_words_over_whose_proof_workers_die_are_unknown_without_further_deaths(folder: Path) -> None:
    for rank in range(2, 8):
        (folder / f"{rank}.plan.cbor").write_bytes((folder / "1.plan.cbor").read_bytes())
    deaths = []

    def fate(task: Task, _running: int) -> bool:
        if task.proves:
            deaths.append(task.name)
        return task.proves

    found = judged(folder, Here(2, fate))
    assert {verdict.verdict for verdict in found.values()} == {UNKNOWN}
    assert len(deaths) == 3
    assert sum("has the same words" in verdict.notes[0] for verdict in found.values()) == 7


def test_a_run_that_goes_on_judges_only_the_rest(folder: Path, asked: list[bytes]) -> None:
    kept = Results(str(folder / "kept"))
    fleet = Fleet(paths(folder)[:3], options(folder), Here(), kept)
    first = {done.verdict.file: done.verdict for done in fleet.judge_files()}
    assert len(list((folder / "kept").iterdir())) == 3
    asked.clear()
    pool = Here()
    again = Fleet(paths(folder), options(folder), pool, kept)
    found = {done.verdict.file: done for done in again.judge_files()}
    assert (again.taken, again.proofs) == (3, 1)  # the stage of rank 3 is not known to this run
    for path, verdict in first.items():
        assert found[path].verdict == replace(verdict, taken_from=str(folder / "kept"))
        assert found[path].member is not None
    assert found[paths(folder)[3]].verdict.taken_from is None


def test_what_is_open_or_no_plan_is_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "0.plan.cbor").write_bytes(b"no plan")
    monkeypatch.setattr(worker, "ask", lambda *_: Answers([], {"answer": "no_answer", "reason": "gone", "sources": ""}))
    kept = Results(str(folder / "kept"))
    assert {verdict.verdict for verdict in judged(folder, kept=kept).values()} == {"ERROR", UNKNOWN}
    assert list((folder / "kept").iterdir()) == []


OTHER: dict[str, Any] = {
    "bindings.keep_inputs": True, "in_set": True,
    "bindings.dims": {"n": 2}, "bindings.shapes": {"x": (1,)}, "bindings.values": {"r": "1"},
    "bindings.defaults": {"d": "1"}, "bindings.donated": ("x",), "bindings.trust_shapes": True,
    "bindings.ranges": {"n": (1, 2)}, "bindings.stated": {"y": "bytes:1"}, "bindings.steps": {"n": (1, 2)},
    "bindings.runtime": RuntimeGraph("onnxruntime", "all"),
    "workspace": Workspace((("Conv", Need(1, 1)),)),
    "require": ("model",), "mode": "forward", "arenas": Configuration((), "tiered"), "fixed": {"x": 64}, "capacity": 7,
    "solving.solvers": ("cvc5",), "solving.timeout": 5.0, "solving.definition_limit": 3, "folders.optimum": "proofs",
}  # fmt: skip
"""Another value of each option that a verdict depends on."""
OTHERWISE: dict[str, Any] = {"solving.workers": 3, "folders.smt2": "out", "folders.coq": "out"}
"""Another value of each option that no verdict depends on."""


def with_other(by: Options, name: str) -> Options:
    """Return the options with another value of one."""
    part, _, inner = name.rpartition(".")
    value = (OTHER | OTHERWISE)[name]
    return replace(by, **{part: replace(getattr(by, part), **{inner: value})} if part else {inner: value})


def test_each_option_but_the_model_is_one_that_a_verdict_depends_on_or_does_not() -> None:
    by = Options()
    groups = [f.name for f in fields(by) if is_dataclass(getattr(by, f.name))]
    names = [f.name for f in fields(by) if f.name not in groups]
    names += [f"{group}.{f.name}" for group in groups for f in fields(getattr(by, group))]
    assert sorted(names) == sorted(["model", *OTHER, *OTHERWISE])


@pytest.mark.parametrize("name", [*OTHER, *OTHERWISE])
def test_a_kept_verdict_is_of_one_set_of_options(folder: Path, name: str) -> None:
    path, by = paths(folder)[0], options(folder)
    other = with_other(by, name)
    assert other != by
    assert results.key(path, by, "digest") == results.key(path, by, "digest")
    assert (results.key(path, other, "digest") != results.key(path, by, "digest")) == (name in OTHER)


def test_a_kept_verdict_is_of_the_same_files_names_and_versions(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, by = Path(paths(folder)[0]), options(folder)
    keys = {results.key(str(path), by, "a")}
    keys.add(results.key(str(path), by, "b"))
    keys.add(results.key(str(path), replace(by, model="other.ir.cbor"), "a"))
    (folder / "other.csv").write_bytes(path.read_bytes())
    keys.add(results.key(str(folder / "other.csv"), by, "a"))
    path.write_bytes(path.read_bytes() + b"\0")
    keys.add(results.key(str(path), by, "a"))
    schedule = folder / "m.txt"
    (folder / "m-buffer-assignment.txt").write_bytes(b"BufferAssignment:")
    schedule.write_bytes(b"one")
    keys.add(results.key(str(folder / "m-buffer-assignment.txt"), by, "a"))
    schedule.write_bytes(b"two")
    keys.add(results.key(str(folder / "m-buffer-assignment.txt"), by, "a"))
    monkeypatch.setattr(results, "versions", lambda: "other")
    keys.add(results.key(str(path), by, "a"))
    assert len(keys) == 8


@pytest.mark.parametrize("part", ["sources", "kernel", "package"])
def test_versions_are_of_all_that_judges(part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "proofs").mkdir()
    (tmp_path / "proofs" / "judge.py").write_text("yes")
    program = tmp_path / "kernel"
    program.write_text("1")
    monkeypatch.setattr(results, "ROOT", tmp_path)
    monkeypatch.setattr(results.installed, "find_program", lambda: program)
    before = results.versions.__wrapped__()
    assert before == results.versions.__wrapped__()
    if part == "sources":
        (tmp_path / "proofs" / "judge.py").write_text("no")
    elif part == "kernel":
        program.write_text("2")
    else:
        monkeypatch.setattr(importlib.metadata, "version", lambda _: "0")
    assert results.versions.__wrapped__() != before


def test_a_changed_file_or_model_is_judged_again(folder: Path) -> None:
    kept = Results(str(folder / "kept"))
    judged(folder, kept=kept)
    file.save(changed(file.load(folder / "3.plan.cbor").plan, "tensors", "y", birth=0), folder / "3.plan.cbor")
    again = Fleet(paths(folder), options(folder), Here(), kept)
    assert {done.number: done.verdict.verdict for done in again.judge_files()}[3] == REFUTED
    assert again.taken == 3
    net = replace(LAYERS, nodes=(replace(LAYERS.nodes[0], op="Gemm"), *LAYERS.nodes[1:]))
    files.save(net, folder / "model.ir.cbor")
    again = Fleet(paths(folder)[:1], options(folder), Here(), kept)
    assert [done.verdict.verdict for done in again.judge_files()] == [REFUTED]


def test_a_damaged_record_counts_as_none(folder: Path) -> None:
    kept, by, path = Results(str(folder / "kept")), options(folder), paths(folder)[0]
    key = results.key(path, by, None)
    right = results.as_read(verify(path, by))
    kept.keep(key, right)
    (name,) = (folder / "kept").iterdir()
    whole, taken = name.read_bytes(), kept.taken(key, path, by)
    assert taken is not None
    for at in range(0, len(whole), 61):
        for data in (whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]):
            name.write_bytes(data)
            assert kept.taken(key, path, by) in (None, taken)  # a blank may be another blank
    record = json.loads(whole)
    for wrong in ({**record, "key": "0" * 64}, {**record, "digest": ""}, [], {"key": key}):
        name.write_text(json.dumps(wrong))
        assert kept.taken(key, path, by) is None
    for verdict in (replace(right, verdict=UNKNOWN, exit=0), replace(right, exit=1), replace(right, verdict="ERROR")):
        stated = asdict(verdict)
        name.write_text(json.dumps({"key": key, "digest": results._digest(stated), "verdict": stated}))
        assert kept.taken(key, path, by) is None


def test_a_forged_record_is_never_taken_in_silence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "Processes", lambda _: Here())
    wrong = folder / "0.plan.cbor"
    file.save(changed(file.load(wrong).plan, "tensors", "a", birth=0), wrong)
    by, line = options(folder, solving=Solving(timeout=600)), ["--model", str(folder / "model.ir.cbor")]
    forged = replace(results.as_read(verify(paths(folder)[1], by)), file=str(wrong))
    key = results.key(str(wrong), by, digest_file(str(folder / "model.ir.cbor")))
    Results(str(folder / "kept")).keep(key, forged)
    assert ran(str(wrong), *line, "--jobs", "1")[0] == 1
    code, out = ran(str(wrong), *line, "--resume", str(folder / "kept"))
    assert code == 0
    assert f"(taken from {folder}/kept)" in out.splitlines()[0]
    assert f", 1 taken from {folder}/kept" in out.splitlines()[-1]


def ran(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(verify_command.command, arguments, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value, result.output


def test_the_command_prints_in_the_order_of_the_files_and_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Here(4, lambda task, _: task.name.endswith("1.plan.cbor"))
    monkeypatch.setattr(pools, "Processes", lambda _: pool)
    (folder / "3.plan.cbor").write_bytes(b"no plan")
    code, out = ran(str(folder), "--jobs", "4", "-q", "--model", str(folder / "model.ir.cbor"))
    model = folder / "model.ir.cbor"
    assert code == 4
    assert [line.replace(str(folder), "F") for line in out.splitlines() if not line.startswith("error")] == [
        "PROVED F/0.plan.cbor (rank 0 of 4) against F/model.ir.cbor",
        "UNKNOWN F/1.plan.cbor against F/model.ir.cbor",
        "PROVED F/2.plan.cbor (rank 2 of 4) against F/model.ir.cbor",
        "UNKNOWN ranks of small against F/model.ir.cbor",
        "4 plans: 2 PROVED, 0 REFUTED, 1 UNKNOWN, 1 ERROR; 2 proofs, 6 runs lost as a worker died",
        "  UNKNOWN F/1.plan.cbor",
        "  ERROR F/3.plan.cbor",
    ]  # fmt: skip
    assert model.exists()


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--jobs", "2", "--cluster", "tcp://x"], "exclude each other"),
        (["--jobs", "2", "--smt2", "out"], "--smt2 goes with none"),
        (["--jobs", "2", "--report", "out.html"], "--report goes with none"),
        (["--jobs", "2", "-"], "the standard input goes with none"),
        (["--jobs", "2", "--dim", "n=3"], "the plan was made with nothing"),
    ],
)
def test_what_does_not_go_with_a_fleet_is_refused(
    folder: Path, arguments: list[str], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "Processes", lambda _: Here())
    monkeypatch.chdir(folder)
    with pytest.raises(Exception, match=what):
        ran("0.plan.cbor", *arguments)


def test_an_interrupted_command_says_what_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Here(1)
    whole = pool.ended

    def ended() -> Iterator[tuple[Task, Judged | Died]]:
        if len(list((folder / "kept").iterdir())) == 2:
            raise KeyboardInterrupt
        return whole()

    monkeypatch.setattr(pool, "ended", ended)
    monkeypatch.setattr(pools, "Processes", lambda _: pool)
    line = [str(folder), "--model", str(folder / "model.ir.cbor"), "--resume", str(folder / "kept"), "-q"]
    result = CliRunner().invoke(verify_command.command, line)
    assert f"2 of 4 verdicts are kept in {folder}/kept: --resume goes on" in result.output
    monkeypatch.setattr(pool, "ended", whole)
    assert ran(*line)[1].splitlines()[-1].endswith(f"1 proof, 2 taken from {folder}/kept")


def test_a_worker_of_another_version_judges_nothing(folder: Path) -> None:
    task = Task(0, "a", paths(folder)[0], options(folder), None, "other", "run")
    with pytest.raises(RuntimeError, match="another version"):
        worker.work(task)


def test_a_model_that_changes_meanwhile_is_not_used(folder: Path) -> None:
    task = Task(0, "a", paths(folder)[0], options(folder), "0" * 64, results.versions(), "run")
    found = worker.work(task)
    assert found.verdict is not None
    assert found.verdict.verdict == "ERROR"
    assert "it has changed while plans were judged" in found.verdict.notes[0]


def test_answers_are_of_one_command_alone(folder: Path, asked: list[bytes]) -> None:
    judged(folder)
    judged(folder, by=options(folder, solving=Solving(definition_limit=0)))
    assert len(asked) == 2 * STAGES


def test_what_a_stage_runs_is_worked_out_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def counting(name: str, made: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: calls.append(name) or made(*given)

    monkeypatch.setattr(stages, "divide_model", counting("divided", stages.divide_model))
    monkeypatch.setattr(stages, "rank_model_of", counting("run_by", stages.rank_model_of))
    reading = sources.KeptSources()
    whole = sources.ANEW.model(str(folder / "model.ir.cbor"), Bindings(), "inference")
    spec = plans()[0].origin.shard_spec
    found = [reading.of_rank(whole, spec, rank) for rank in range(4)]
    assert calls == ["divided", "run_by", "run_by"]
    assert found == [sources.ANEW.of_rank(whole, spec, rank) for rank in range(4)]
    other = replace(whole)
    assert reading.of_rank(other, spec, 0) is not found[0]


@pytest.mark.parametrize("pool", [lambda: pools.Processes(1), lambda: pools.Cluster("tcp://127.0.0.1:1")])
def test_a_pool_that_cannot_be_had_is_refused(pool: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "loky", None)
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(TmmuError, match=r"needs the package .*\[MISSING_PACKAGE\]"):
        pool()


def test_a_task_that_is_begun_in_a_broken_pool_has_died_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may die after the last look at what has ended. spec: V7.9"""
    from loky.process_executor import TerminatedWorkerError

    class Broken:
        """A pool of which a process has died."""

        is_over = False

        def submit(self, *_: object) -> None:
            raise TerminatedWorkerError("killed")

        def shutdown(self, **_: object) -> None:
            self.is_over = True

    pool, broken = pools.Processes(2), Broken()
    monkeypatch.setattr(pool, "_executor", broken)
    task: Any = object()
    pool.submit(task)
    ((found, came),) = pool.ended()
    assert found is task
    assert isinstance(came, Died)
    assert broken.is_over
