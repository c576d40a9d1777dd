"""Work in a forked process: its result is that of the work, whatever happens to it; of a plan it is the verdict.

spec: V4.1, V4.4, V4.6
"""

from __future__ import annotations

import os
import select
import signal
from dataclasses import asdict
from pathlib import Path

import pytest

from proofs.proving import obligations
from proofs.verify import judge
from proofs.verify.forked import CAN_FORK, Forked
from tests.benchmarks.training import training_model
from tmmu import examples
from tmmu.planner import plan_memory
from tmmu.plans import file


def test_the_work_is_done_in_another_process_if_forked() -> None:
    for is_forked in (False, True):
        with Forked(os.getpid, is_forked=is_forked) as made:
            assert (made.result() == os.getpid()) == (not is_forked or not CAN_FORK)
            assert made.is_known
            assert made.result() == made.result()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_where_the_process_dies_the_work_is_done_here(number: signal.Signals) -> None:
    here = os.getpid()

    def work() -> str:
        if os.getpid() != here:
            os.kill(os.getpid(), number)
        return "done"

    with Forked(work, is_forked=True) as made:
        assert made.result() == "done"


def test_what_the_work_raises_is_raised_here() -> None:
    with Forked(lambda: 1 // 0, is_forked=True) as made, pytest.raises(ZeroDivisionError):
        made.result()


def test_the_process_holds_nothing_open_that_others_wait_for() -> None:
    reads, writes = os.pipe()
    with Forked(signal.pause, is_forked=True):
        os.close(writes)
        assert select.select([reads], [], [], 30)[0], "its other end is still open"
        assert os.read(reads, 1) == b""
    os.close(reads)


def test_a_process_that_is_not_waited_for_is_ended() -> None:
    with Forked(signal.pause, is_forked=True) as made:
        assert not made.is_known
        pid = made._pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("name", ["in-place-read-later", "more-slots-than-live-storages", "window-beyond-the-storage"])
def test_a_plan_is_refuted_alike_while_solvers_are_asked(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large plan the naive checker runs beside the solvers: its witness is that of a small one."""
    path, *_ = examples.write(f"broken/{name}", tmp_path / "b.cbor")
    alone = judge.verify(str(path))
    monkeypatch.setattr(obligations, "MANY", -1)
    assert alone.verdict == "REFUTED"
    assert asdict(judge.verify(str(path))) == asdict(alone)


def test_solvers_that_fail_hide_no_witness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is raised while rows are drawn counts only of a plan that the naive checker accepts."""
    path, *_ = examples.write("broken/in-place-read-later", tmp_path / "b.cbor")
    monkeypatch.setattr(obligations, "MANY", -1)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr(obligations, "prove_with", fail)
    assert judge.verify(str(path)).verdict == "REFUTED"
    file.save(plan_memory(training_model(8)).plan, tmp_path / "right.cbor")
    with pytest.raises(RuntimeError):
        judge.verify(str(tmp_path / "right.cbor"))
