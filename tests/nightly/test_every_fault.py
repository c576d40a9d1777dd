"""Every fault at every system call of the commands that write plans, stores, journals and checkpoints, and ten seeds.

spec: RE5.1, RE5.2, RE5.3
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import pytest

from tests.support import fault_cases, faults
from tests.support.fault_cases import CASES, NEW, OLD, FaultCase

pytestmark = pytest.mark.skipif(not faults.CAN_WATCH, reason=faults.WHY_NOT)  # each test watches calls


@pytest.mark.parametrize("name", CASES)
def test_every_fault_leaves_the_old_file_or_the_new_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    case = CASES[name]
    case.write_before(tmp_path)
    seen = {(left.fault.kind, case.check(left, tmp_path)) for left in faults.explore(case.work, tmp_path)}
    assert {(kind, found) for kind, found in seen if kind == "kill"} == {("kill", OLD), ("kill", NEW)}
    assert {kind for kind, _ in seen} == set(faults.CONCERNS)


@pytest.mark.parametrize("seed", range(10))
def test_faults_in_a_row_leave_a_store_that_goes_on(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault in what follows a fault: 60 commands on one store, with vectors of a random size."""
    monkeypatch.chdir(tmp_path)
    choose = Random(seed)
    rows = choose.randrange(1, 40)
    vectors = np.random.default_rng(seed).integers(0, 1 << 16, (rows, 8)).astype(np.uint16)
    monkeypatch.setattr(fault_cases, "VECTORS", vectors)
    start: FaultCase = CASES["put"]
    start.write_before(tmp_path)
    folder, key, count = tmp_path / "before", 0, rows
    for _ in range(60):
        rekeys = choose.random() < 0.3
        line = f"rekey S --new-key k{1 - key}" if rekeys else "put S v.npy --append --block 3"
        work = partial(fault_cases.command, f"mnemosyne {line} --key k{key}")
        fault = faults.Fault(choose.choice(list(faults.CONCERNS)), choose.randrange(50))
        ended = faults.run(work, folder, fault)
        assert "internal error" not in ended.output, (fault, ended)
        assert ended.code in (0, 4, -9), (fault, ended)
        new_key, new_count = fault_cases.opened(folder)
        assert new_count in ((count,) if rekeys else (count, count + rows)), (fault, ended)
        if ended.code == 0:
            assert (new_key, new_count) == ((1 - key, count) if rekeys else (key, count + rows)), (fault, ended)
        key, count = new_key, new_count
