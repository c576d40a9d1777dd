"""Event logs of real runs: what the planner, the runtime and killed processes record when they are asked to."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.support import golden
from tests.support.onnx_files import model_of
from tests.support.text_models import text_model
from tmmu.cli.entry import run as command
from tmmu.core.errors import TmmuError
from tmmu.examples.broken import models
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.sections import Plan
from tmmu.runtime import checkpoint
from tmmu.runtime.apply import apply_plan
from tmmu.runtime.commit import commit_execution
from tmmu.runtime.events import EventLog
from tmmu.runtime.execution import Execution
from tmmu.runtime.recording import RunRecords
from tmmu.runtime.records.ledger import Ledger
from tmmu.runtime.safepoint import exchange
from tmmu.testing.strategies.models import numbered


class Fatal(EventLog):
    """A log whose process is killed by the kernel after its event number `last`: nothing of Python runs afterwards."""

    def __init__(self, path: Path, last: int) -> None:
        self.left = last
        super().__init__(path)

    def __call__(self, event: str, **fields: Any) -> None:
        super().__call__(event, **fields)
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1


def plan(log: EventLog | None = None, size: int = 128) -> Plan:
    """Five storages that take turns in three slots, the last two born in bytes that others have left."""
    lines = ("node relu Relu x w -> a", "node add Add a x -> b", "node add2 Add b a -> c", "node relu2 Relu c -> y")
    return plan_memory(text_model(*lines, parameters="w", sizes={"a": size}), observer=log).plan


def batch(execution: Execution) -> None:
    """A batch in which every step leaves something else than zeros in all that it writes."""
    execution.begin()
    for step in range(len(execution.plan.allocation.steps)):
        execution.step(step)
        writes = execution.plan.allocation.steps
        for row in writes.writes[writes.writes_at[step] : writes.writes_at[step + 1]].tolist():
            execution.memory.tensor(row)[:] = 7
    commit_execution(execution)


def run(log: EventLog, kept: Path, batches: int) -> None:
    """Plan, apply, run, and write a checkpoint in the middle."""
    with apply_plan(plan(log), records=RunRecords(events=log)) as execution:
        for number in range(batches):
            batch(execution)
            if number == 0:
                checkpoint.save(execution, kept)


def go_on(log: EventLog, kept: Path) -> None:
    """Go on from the checkpoint with one batch and the next checkpoint."""
    with checkpoint.restore(kept, records=RunRecords(events=log)) as execution:
        batch(execution)
        checkpoint.save(execution, kept)


def killed(scenario: Callable[[EventLog, Path], object], path: Path, kept: Path, last: int) -> None:
    """Run a scenario in a process that is killed after so many events."""
    child = os.fork()
    if child == 0:
        scenario(Fatal(path, last), kept)
        os._exit(1)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), "it came to its end"


def whole_run(folder: Path) -> Path:
    """Planned, run, saved, killed while it runs, restored, killed while it saves, restored, damaged, refused."""
    path, kept = folder / "run.events", folder / "kept"
    run(EventLog(path), kept, 2)
    killed(go_on, path, kept, last=12)
    killed(go_on, path, kept, last=23)
    go_on(EventLog(path), kept)
    data = bytearray(kept.read_bytes())
    data[len(data) // 2] ^= 1
    kept.write_bytes(data)
    log = EventLog(path)
    log("damaged")
    with pytest.raises(TmmuError):
        go_on(log, kept)
    return path


def refusals(folder: Path) -> Path:
    """One ledger: over budget, then a buffer that is too small, then a journal that cannot be, then all is well."""
    records, made = RunRecords(events=EventLog(folder / "refusals.events"), ledger=Ledger()), plan()
    refused: list[dict[str, Any]] = [
        {"memory_bytes_budget": 4096},
        {"base": {"activations": np.zeros(8, np.uint8)}},
        {"records": replace(records, journal=folder / "none" / "journal")},
    ]
    for given in refused:
        with pytest.raises(TmmuError):
            apply_plan(made, **{"records": records, **given})
    with apply_plan(made, records=records, memory_bytes_budget=8192) as execution:
        batch(execution)
    return folder / "refusals.events"


def replanned(folder: Path) -> Path:
    """A plan that gives way to another, after one that cannot be had; saved, restored, and replanned once more."""
    path, kept = folder / "replanned.events", folder / "kept"
    log = EventLog(path)
    execution = apply_plan(plan(), records=RunRecords(events=log))
    batch(execution)
    with pytest.raises(TmmuError):
        exchange(execution, plan(size=256), "a larger shape", memory_bytes_budget=4096)
    with pytest.raises(TmmuError):
        exchange(execution, plan(size=256), "a larger shape", journal=folder / "none" / "journal")
    batch(execution)
    execution = exchange(execution, plan(size=512), "a larger shape")
    batch(execution)
    checkpoint.save(execution, kept)
    batch(execution)
    restored = checkpoint.restore(kept, records=RunRecords(events=EventLog(path)))
    with exchange(restored, plan(size=1024), "a larger shape") as wider:
        batch(wider)
        checkpoint.save(wider, kept)
    return path


def pooled(folder: Path) -> Path:
    """The pools of MiCo's ResNet8, of a loop, whose storages are not born in the order of making, and of branches."""
    log = EventLog(folder / "pooled.events")
    for model in (golden.graph("mico-resnet8"), models.loop(), golden.residual()):
        plan_memory(model, options=PlanOptions(layout="pools"), observer=log)
    return folder / "pooled.events"


def looped(folder: Path) -> Path:
    """The loop of `tmmu run`: replans before the first batch and between others, each checkpointed."""
    model, plan_, log = (str(folder / name) for name in ("m.onnx", "p.cbor", "loop.events"))
    onnx.save(model_of("main (float[n] x) => (float[n] y) <float[1] w = {2}> { a = Mul (x, w) y = Relu (a) }"), model)
    assert command(["plan", model, "-o", plan_, "--dim", "n=4..8", "--replan-policy", "replan_at_safepoint"]) == 0
    files = ("--events", log, "--checkpoint", str(folder / "kept"))
    assert command(["run", model, "--plan", plan_, "--dim", "n=9,4,12,8", *files]) == 0
    return Path(log)


def random_plans(folder: Path, numbers: range) -> Path:
    """Random models that are planned; where a plan is of the layout that has slots, it runs twice."""
    log = EventLog(folder / "random.events")
    for number in numbers:
        made = plan_memory(numbered(number), observer=log).plan
        with apply_plan(made, records=RunRecords(events=log)) as execution:
            for _ in range(2):
                batch(execution)
    return folder / "random.events"
