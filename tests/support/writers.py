"""Small writers of journals, checkpoints and sealed logs, for tests that kill them: they print what is durable."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.support import sealed_logs
from tests.support.text_models import text_model
from tmmu.mnemosyne import VectorStore
from tmmu.mnemosyne.keys import MasterKey
from tmmu.mnemosyne.sealed_log import SealedLog
from tmmu.planner import plan_memory
from tmmu.plans.sections import Plan
from tmmu.runtime import checkpoint
from tmmu.runtime.apply import apply_plan
from tmmu.runtime.commit import commit_execution
from tmmu.runtime.execution import Execution
from tmmu.runtime.recording import RunRecords


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


def commits() -> int:
    """Make two more commits in the journal of the working folder, or the first two of a new one. Print each state."""
    with apply_plan(plan(), records=RunRecords(journal=Path("journal"))) as execution:
        print(execution.state.state_hash.hex(), flush=True)
        batch(execution, 3)
        print(execution.state.state_hash.hex(), flush=True)
    return 0


def saves() -> int:
    """Write a new checkpoint over the one in the working folder."""
    with apply_plan(plan()) as execution:
        batch(execution, 7)
        checkpoint.save(execution, Path("checkpoint"))
        print("saved", flush=True)
    return 0


def seals() -> int:
    """Seal records in a log, synced one by one and two at a time, then in a second opening. Print what is synced."""
    for _ in range(2):
        with SealedLog.open(Path("log"), sealed_logs.key(), Path("anchor")) as log:
            for token in range(3):
                log.append(100 + log.records, bytes([log.records]) * 50)
                if token:
                    print(log.sync(), flush=True)
    return 0


def appends() -> int:
    """Append vectors to a store in two openings, some of them in one commit. Print how many are durable."""
    for _ in range(2):
        with VectorStore("S", MasterKey(sealed_logs.SECRET)) as store:
            for number in range(4):
                count = store.append(numbered(len(store), 1 + number % 2), commit=number != 1)
                if number != 1:
                    print(count, flush=True)
                assert (store.get(count - 1) == numbered(count - 1, 1)).all()
    return 0


def numbered(first: int, count: int) -> NDArray[np.uint16]:
    """Vectors of their numbers."""
    return np.repeat(np.arange(first, first + count, dtype=np.uint16)[:, None], 8, 1)
