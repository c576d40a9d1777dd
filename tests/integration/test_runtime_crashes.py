"""A process that is killed while it writes: the old state or the new one, whole. spec: U4.6, U4.7, U6.7, P1.4"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import faults
from tests.support.effort import share
from tests.support.writers import batch, commits, plan, saves
from tmmu.plans import file
from tmmu.runtime import checkpoint
from tmmu.runtime import journal as journals
from tmmu.runtime.apply import apply_plan
from tmmu.runtime.recording import RunRecords

ROOT = Path(__file__).resolve().parents[2]


def acks(folder: Path) -> list[str]:
    path = folder / "acks"
    return path.read_text().split() if path.exists() else []


@pytest.mark.skipif(not faults.CAN_WATCH, reason=faults.WHY_NOT)  # it watches calls
@pytest.mark.parametrize("already", [0, 2][: share(2)])
def test_a_killed_process_leaves_every_commit_that_was_made_and_at_most_one_more(tmp_path: Path, already: int) -> None:
    (tmp_path / "before").mkdir()
    plan_hash = file.compute_hashes(plan())["plan_hash"]
    states = [journals.genesis(plan_hash)]
    if already:
        with apply_plan(plan(), records=RunRecords(journal=tmp_path / "before" / "journal")) as execution:
            states.append(execution.state)
            for _ in range(already - 1):
                batch(execution, 1)
                states.append(execution.state)
    assert states[-1].batches == already
    seen = set()
    folders = list(faults.explore(commits, tmp_path, kinds=("kill", "torn")))
    printed = max((left.ended.output.split() for left in folders), key=len)
    whole = journals.load(tmp_path / "after" / "journal", plan_hash)
    states += [journals.JournalState(already + 1, bytes.fromhex(printed[0])), whole]
    for left in folders:
        path = left.folder / "journal"
        found = journals.load(path, plan_hash) if path.exists() and path.stat().st_size > 200 else states[0]
        if not path.exists() or path.stat().st_size <= 200:
            assert already == 0, left.fault
        made = already + len(left.ended.output.split())
        assert found in states[made : made + 2], left.fault
        seen.add((left.fault.kind, found.batches - already))
        with apply_plan(plan(), records=RunRecords(journal=path)) as execution:  # and it goes on from there
            assert execution.state.batches == found.batches + 1
    assert {count for kind, count in seen if kind == "kill"} == {0, 1, 2}
    assert {count for kind, count in seen if kind == "torn"} == {0, 1}


@pytest.mark.skipif(not faults.CAN_WATCH, reason=faults.WHY_NOT)  # it watches calls
def test_a_killed_process_leaves_the_old_checkpoint_or_the_new_one(tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    with apply_plan(plan()) as execution:
        checkpoint.save(execution, tmp_path / "before" / "checkpoint")
    folders = list(faults.explore(saves, tmp_path, kinds=("kill", "torn")))
    old, new = ((tmp_path / name / "checkpoint").read_bytes() for name in ("before", "after"))
    assert old != new
    for left in folders:
        found = (left.folder / "checkpoint").read_bytes()
        assert found in (old, new), left.fault
        assert found == new or not left.ended.output, left.fault
        checkpoint.load(left.folder / "checkpoint")
    assert {(left.folder / "checkpoint").read_bytes() for left in folders} == {old, new}


LOOP = """
import sys
from pathlib import Path
from tests.support.writers import acknowledge, batch, plan
from tmmu.runtime import checkpoint
from tmmu.runtime.apply import apply_plan
from tmmu.runtime.recording import RunRecords
folder = Path(sys.argv[1])
with apply_plan(plan(), records=RunRecords(journal=folder / "journal")) as execution:
    while True:
        acknowledge(folder, execution.state.state_hash.hex())
        checkpoint.save(execution, folder / "checkpoint")
        batch(execution, execution.state.batches % 256)
"""


def test_a_process_that_is_killed_from_outside_leaves_what_it_said_was_durable(tmp_path: Path) -> None:
    """Wherever it is just then; the next process goes on from there, and is killed as well."""
    plan_hash = file.compute_hashes(plan())["plan_hash"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    count = 0
    for _ in range(4):
        child = subprocess.Popen([sys.executable, "-c", LOOP, str(tmp_path)], env=environment)
        try:
            until = time.monotonic() + 60
            while len(acks(tmp_path)) < count + 20 and time.monotonic() < until:
                time.sleep(0.003)
        finally:
            child.kill()
            child.wait()
        told = acks(tmp_path)
        assert len(told) >= count + 20
        count = len(told)
        state = journals.load(tmp_path / "journal", plan_hash)
        assert state.batches in (count, count + 1)
        assert state.batches > count or state.state_hash.hex() == told[-1]
        assert checkpoint.load(tmp_path / "checkpoint").state.batches in (count - 1, count)
        if state.batches > count:  # sealed, and killed before it could say so
            with open(tmp_path / "acks", "a") as file_:
                file_.write(f"{state.state_hash.hex()}\n")
            count += 1
