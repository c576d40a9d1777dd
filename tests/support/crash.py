"""Processes that are killed at a chosen point: `python -m tests.support.crash SCENARIO FOLDER`.

A scenario runs once for each point, in a child of its own and in a folder of its own, and the kernel kills it there
(SIGKILL, or SIGXFSZ in the middle of a write): nothing of Python runs afterwards, no `finally`, no flush. The points
are all calls into C that the writing functions make (just before each), and some forty lengths at which a file is cut
off. What is left behind is for the test to judge. Each child writes into `acks` what was reported to it as durable.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from tests.support import sealed_logs
from tests.support.text_models import text_model
from tmmu.mnemosyne.sealed_log import SealedLog
from tmmu.planner import plan_memory
from tmmu.plans.sections import Plan
from tmmu.runtime import checkpoint
from tmmu.runtime.apply import apply_plan
from tmmu.runtime.commit import commit_execution
from tmmu.runtime.execution import Execution
from tmmu.runtime.recording import RunRecords

WRITERS = {
    ("canonical.py", "open_atomically"),
    ("journal.py", "append"),
    ("journal.py", "open"),
    ("journal.py", "_read_or_create"),
    *(("sealed_log.py", name) for name in ("open", "append", "_begin_segment", "_write", "sync", "close", "abandon")),
}
"""The functions whose calls are points to be killed at."""


def plan() -> Plan:
    return plan_memory(text_model("node add Add x w -> a", "node relu Relu a -> y", parameters="w")).plan


def batch(execution: Execution, value: int) -> None:
    """A batch that leaves `value` in every byte of y."""
    execution.begin()
    for step in range(len(execution.plan.allocation.steps)):
        execution.step(step)
    execution.memory.tensor(execution.tensor_map.row("y"))[:] = value
    commit_execution(execution)


def acknowledge(folder: Path, text: str) -> None:
    """Say that something is durable; the kernel has these bytes before the next line runs."""
    descriptor = os.open(folder / "acks", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, f"{text}\n".encode())
    os.close(descriptor)


def commits(folder: Path) -> None:
    """Two more commits in the journal that is there, or the first two of a new one."""
    with apply_plan(plan(), records=RunRecords(journal=folder / "journal")) as execution:
        acknowledge(folder, execution.state.state_hash.hex())
        batch(execution, 3)
        acknowledge(folder, execution.state.state_hash.hex())


def saves(folder: Path) -> None:
    """A new checkpoint over the one that is there."""
    with apply_plan(plan()) as execution:
        batch(execution, 7)
        checkpoint.save(execution, folder / "checkpoint")
        acknowledge(folder, "saved")


def seals(folder: Path) -> None:
    """Records in a sealed log, acknowledged one by one and two at a time, then in a second opening."""
    for _ in range(2):
        with SealedLog.open(folder / "log", sealed_logs.key(), folder / "anchor") as log:
            for token in range(3):
                log.append(100 + log.records, bytes([log.records]) * 50)
                if token:
                    acknowledge(folder, str(log.sync()))


SCENARIOS: dict[str, Callable[[Path], None]] = {"commits": commits, "saves": saves, "seals": seals}


def killed_at(point: int) -> Callable[[], None]:
    """Kill the process just before the call number `point` that a writing function makes into C."""

    def arm() -> None:
        seen = 0

        def watch(frame: FrameType, event: str, _: Any) -> None:
            nonlocal seen
            place = (os.path.basename(frame.f_code.co_filename), frame.f_code.co_name)
            if event == "c_call" and place in WRITERS:
                if seen == point:
                    os.kill(os.getpid(), signal.SIGKILL)
                seen += 1

        sys.setprofile(watch)

    return arm


def cut_at(length: int) -> Callable[[], None]:
    """Kill the process in the middle of the write that would make a file longer than `length`."""

    def arm() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (length, length))

    return arm


def lived(scenario: str, folder: Path, arm: Callable[[], None]) -> bool:
    """Run a scenario in a child that is armed; did it live to its end?"""
    child = os.fork()
    if child == 0:
        try:
            arm()
            SCENARIOS[scenario](folder)
        except BaseException as error:
            os.write(2, f"{folder.name}: {error!r}\n".encode())
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, f"{folder.name} failed"
    return os.WIFEXITED(status)


def main(scenario: str, root: Path) -> None:
    """Every call until the child lives, then every length of a file, each from a copy of the folder `before`."""
    points: list[tuple[str, Callable[[], None]]] = [(f"call{n}", killed_at(n)) for n in range(1000)]
    for name, arm in points:
        shutil.copytree(root / "before", root / name)
        if lived(scenario, root / name, arm):
            break
    else:
        raise AssertionError("the child was killed at every point")
    largest = max(path.stat().st_size for path in (root / name).iterdir())
    for length in range(0, largest, max(1, largest // 40)):
        shutil.copytree(root / "before", root / f"cut{length}")
        lived(scenario, root / f"cut{length}", cut_at(length))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
