"""Fleets of real processes: workers that are killed, a command that is interrupted, a Dask cluster, ranks that are
planned by many.

spec: V7.1, V7.8, V7.9, V7.11, R7.34, RE2.1, RE2.2, RE2.4
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from proofs.verify.fleet import pools
from proofs.verify.fleet.schedule import Fleet
from proofs.verify.options import Options
from proofs.verify.verdict import PROVED, UNKNOWN
from tests.support import dying
from tests.support.sharded import LAYERS, plans
from tmmu.cli import entry
from tmmu.examples import write
from tmmu.ir import files
from tmmu.plans import file

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "proofs.verify.entry"]
COPIES = 12
"""Of each of the four plans."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Many plans, among which only four differ, and a model."""
    files.save(LAYERS, tmp_path / "model.ir.cbor")
    (tmp_path / "plans").mkdir()
    for rank, plan in enumerate(plans()):
        data = file.encode(plan)
        for copy in range(COPIES):
            (tmp_path / "plans" / f"{rank}.{copy}.plan.cbor").write_bytes(data)
    return tmp_path


def line(folder: Path, *flags: str) -> list[str]:
    model = str(folder / "model.ir.cbor")
    return [*COMMAND, str(folder / "plans"), "--model", model, "-q", "--resume", str(folder / "kept"), *flags]


def started(folder: Path, *flags: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        line(folder, *flags), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        start_new_session=True,
    )  # fmt: skip


def workers(parent: int) -> list[int]:
    """The worker processes of a command, by what Linux has of them in /proc."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            after = status.read_text().rpartition(")")[2].split()
            command = (status.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if int(after[1]) == parent and b"popen_loky" in command:
            found.append(int(status.parent.name))
    return found


def until(folder: Path, count: int, process: subprocess.Popen[str]) -> None:
    """Wait until so many verdicts are kept."""
    while len(list((folder / "kept").glob("*.json"))) < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def test_a_worker_that_is_killed_in_the_middle_loses_nothing(folder: Path) -> None:
    command = started(folder, "--jobs", "2")
    until(folder, 3, command)
    os.kill(workers(command.pid)[0], signal.SIGKILL)
    out, err = command.communicate(timeout=300)
    end = r"^48 plans: 48 PROVED, 0 REFUTED, 0 UNKNOWN; .* runs? lost as a worker died$"
    assert re.search(end, out, re.MULTILINE), out + err
    assert len(list((folder / "kept").glob("*.json"))) == 48
    # The plans are of four ranks, many times each, so that together they contradict each other.
    assert command.returncode == 1


def test_an_interrupted_command_goes_on_where_it_was(folder: Path) -> None:
    command = started(folder, "--jobs", "2")
    until(folder, 5, command)
    os.killpg(command.pid, signal.SIGINT)  # as a terminal does: workers and solvers too
    _, err = command.communicate(timeout=300)
    kept = re.search(r"(\d+) of 48 verdicts are kept in", err)
    assert kept is not None, err
    assert command.returncode == 130
    records = len(list((folder / "kept").glob("*.json")))
    assert 5 <= int(kept[1]) <= records < 48
    assert not list((folder / "kept").glob(".tmmu*"))
    out, _ = started(folder, "--jobs", "2").communicate(timeout=300)
    assert "48 PROVED, 0 REFUTED, 0 UNKNOWN; " in out
    assert f"{records} taken from" in out


def test_a_plan_that_kills_its_workers_is_unknown_and_the_others_are_proved(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "work", dying.work)
    data = (folder / "plans" / "0.0.plan.cbor").read_bytes()
    (folder / "plans" / f"1.{dying.POISON}.plan.cbor").write_bytes(data)
    paths = sorted(map(str, (folder / "plans").iterdir()))
    pool = pools.Processes(2)
    try:
        found = {done.verdict.file: done.verdict for done in Fleet(paths, options(folder), pool).judge_files()}
    finally:
        pool.close()
    assert {path for path, verdict in found.items() if verdict.verdict == UNKNOWN} == {
        path for path in paths if dying.POISON in path
    }
    assert sum(verdict.verdict == PROVED for verdict in found.values()) == 48


def options(folder: Path) -> Options:
    return Options(model=str(folder / "model.ir.cbor"))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The address of a Dask scheduler with two workers, each a process with its nanny."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    quiet = {"env": environment, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
    where = tmp_path / "scheduler.json"
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    begun = [
        subprocess.Popen(
            [*dask, "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(where)], **quiet
        )
    ]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(where)]
    try:
        for _ in range(300):
            if where.exists():
                break
            time.sleep(0.1)
        begun.append(subprocess.Popen([*worker, "--nworkers", "2", "--nthreads", "2", "--no-dashboard"], **quiet))
        yield re.findall(r"tcp://127[0-9.:]+", where.read_text())[0]
    finally:
        for process in reversed(begun):
            process.terminate()
        for process in begun:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:  # a nanny that is starting a worker anew
                process.kill()
                process.wait()


def test_a_cluster_judges_as_this_machine_does(folder: Path, cluster: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    flags = ["--cluster", cluster, "--format", "json"]
    plain = [*COMMAND, str(folder / "plans"), "--model", str(folder / "model.ir.cbor"), "--format", "json"]
    many = subprocess.run([*plain, *flags[:2]], capture_output=True, text=True, env=environment, timeout=300)
    one = subprocess.run(plain, capture_output=True, text=True, env=environment, timeout=300)
    assert many.returncode == one.returncode == 1, many.stderr  # of each rank there are twelve
    assert many.stdout == one.stdout


def test_on_a_cluster_a_plan_that_kills_its_workers_is_unknown(
    folder: Path, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "work", dying.work)
    kept = [folder / "plans" / f"{rank}.0.plan.cbor" for rank in range(4)]
    poison = folder / "plans" / f"{dying.POISON}.plan.cbor"
    poison.write_bytes(kept[0].read_bytes())
    pool = pools.Cluster(cluster)
    try:
        fleet = Fleet([*map(str, kept), str(poison)], options(folder), pool)
        found = {done.verdict.file: done.verdict.verdict for done in fleet.judge_files()}
    finally:
        pool.close()
    assert found == {**dict.fromkeys(map(str, kept), PROVED), str(poison): UNKNOWN}


def solvers_in(folder: Path) -> dict[int, int]:
    """Each solver that runs in a folder, with its parent."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            _, _, fields = (path / "stat").read_text().rpartition(")")
            state, parent = fields.split()[:2]
            if state != "Z" and os.readlink(path / "cwd") == str(folder) and b"solvers/child.py" in (
                (path / "cmdline").read_bytes()
            ):  # fmt: skip
                found[int(path.name)] = int(parent)
        except OSError:  # it has ended since
            continue
    return found


def test_solvers_of_a_cluster_end_with_their_workers_and_a_killed_command_holds_nothing(
    folder: Path, cluster: str, tmp_path: Path
) -> None:
    """The workers go on: they are the cluster's. spec: RE2.1, RE2.2, RE2.4"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    line = [*COMMAND, str(folder / "plans"), "--model", str(folder / "model.ir.cbor"), "-q", "--cluster", cluster]
    with subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, text=True) as command:
        while not (found := solvers_in(tmp_path)):
            assert command.poll() is None
            time.sleep(0.01)
        solver, worker = next(iter(found.items()))
        os.kill(worker, signal.SIGKILL)
        for _ in range(50):
            if solver not in solvers_in(tmp_path):
                break
            time.sleep(0.1)
        assert solver not in solvers_in(tmp_path)
        command.kill()
        assert command.communicate(timeout=10)[0] is not None  # it ends when nothing holds the pipe
    again = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=300)
    assert "48 PROVED, 0 REFUTED, 0 UNKNOWN" in again.stdout, again.stderr


def test_ranks_that_are_planned_by_many_are_those_that_one_plans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write("gpt2", "m.onnx")
    write("gpt2-shards", "s.toml")
    flags = ["m.onnx", "--shard", "s.toml", "--dim", "batch=8", "--dim", "seq=64", "--mode", "backward", "-q"]
    assert entry.run(["plan", *flags, "-o", "one.plan.cbor"]) == 0
    assert entry.run(["plan", *flags, "-o", "many.plan.cbor", "--jobs", "2"]) == 0
    ranks = [f"rank{rank}.plan.cbor" for rank in range(8)]
    assert [Path(f"many.{r}").read_bytes() for r in ranks] == [Path(f"one.{r}").read_bytes() for r in ranks]
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []
    for rank in ranks:
        Path(f"many.{rank}").unlink()
    Path("many.rank7.plan.cbor").mkdir()  # it cannot be replaced by a file
    assert entry.run(["plan", *flags, "-o", "many.plan.cbor", "--jobs", "2"]) == 4
    assert [path.name for path in tmp_path.iterdir() if "many" in path.name] == ["many.rank7.plan.cbor"]
