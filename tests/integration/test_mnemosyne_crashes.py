"""A process that is killed while it seals: what it acknowledged is there, the rest whole or absent.

spec: MN5.16, MN5.17
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import faults
from tests.support.effort import share
from tests.support.sealed_logs import key, read, second_reader, write
from tests.support.writers import seals
from tmmu.core.errors import TmmuError
from tmmu.mnemosyne.sealed_log import SealedLog

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def acks(folder: Path) -> list[int]:
    path = folder / "acks"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


@pytest.mark.skipif(not faults.CAN_WATCH, reason=faults.WHY_NOT)  # it watches calls
@pytest.mark.parametrize("already", [0, 2])
def test_a_process_killed_at_any_call_or_in_any_write_leaves_what_it_acknowledged(tmp_path: Path, already: int) -> None:
    """And another goes on from there."""
    (tmp_path / "before").mkdir()
    if already:
        write(tmp_path / "before" / "log", [bytes([n]) * 50 for n in range(already)], tmp_path / "before" / "anchor")
    seen = set()
    for left in faults.explore(seals, tmp_path, kinds=("kill", "torn")):
        log, anchor = left.folder / "log", left.folder / "anchor"
        acknowledged = max([already, *map(int, left.ended.output.split())])
        if not log.exists():
            assert (already, acknowledged) == (0, 0), left.fault
            continue
        found = read(log, anchor)
        assert [record.data for record in found] == [bytes([n]) * 50 for n in range(len(found))], left.fault
        assert len(found) >= acknowledged, left.fault
        seen.add((left.fault.kind, len(found) - already, len(found) - acknowledged))
        write(log, [b"more"], anchor)
        assert [part.record.data for part in second_reader(log.read_bytes()) if part.record][-1] == b"more"
    assert {records for kind, records, _ in seen if kind == "kill"} == set(range(7))
    assert {ahead for *_, ahead in seen} >= {0, 1, 2}


KILLS = share(20)
"""8 in `make test`; the commands of a store are killed 30 times there, and a thousand times in `make test-full`."""

LOOP = """
import sys
from pathlib import Path
from tests.support.writers import acknowledge
from tests.support.sealed_logs import key
from tmmu.mnemosyne.sealed_log import SealedLog
folder = Path(sys.argv[1])
with SealedLog.open(folder / "log", key(), folder / "anchor") as log:
    while True:
        for _ in range(1 + log.records % 3):
            log.append(100 + log.records, b"%d" % log.records * 30)
        acknowledge(folder, str(log.sync()))
"""


def test_processes_killed_from_outside_leave_what_they_acknowledged(tmp_path: Path) -> None:
    """Wherever each is just then; the next goes on from there, and no other may write meanwhile."""
    log, anchor = tmp_path / "log", tmp_path / "anchor"
    for number in range(KILLS):
        before = len(acks(tmp_path))
        child = subprocess.Popen([sys.executable, "-c", LOOP, str(tmp_path)], env=ENVIRONMENT)
        try:
            until = time.monotonic() + 60
            while len(acks(tmp_path)) < before + 3 and time.monotonic() < until:
                time.sleep(0.003)
            if number == 0:
                with pytest.raises(TmmuError, match="another process"):
                    SealedLog.open(log, key(), anchor)
        finally:
            child.kill()
            child.wait()
        acknowledged = acks(tmp_path)
        assert len(acknowledged) >= before + 3
        assert acknowledged == sorted(set(acknowledged))
        found = read(log, anchor)
        assert len(found) >= acknowledged[-1]
        assert [record.data for record in found] == [b"%d" % n * 30 for n in range(len(found))]
        assert [record.token for record in found] == list(range(100, 100 + len(found)))
