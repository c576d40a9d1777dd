"""A thousand kills of the commands of a store, and vectors of more bytes than the commands may have memory.

spec: MN8.3, MN8.4, MN8.10, MN5.16, MN10.9
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support import faults
from tests.support.effort import share
from tests.support.killed_puts import COMMAND, ENVIRONMENT, KilledStore, Sealed
from tests.support.sealed_logs import SECRET
from tests.support.stored_vectors import got
from tests.support.writers import appends, numbered
from tmmu.mnemosyne import VectorStore
from tmmu.mnemosyne.keys import MasterKey

KILLS = share(1000)


def test_a_thousand_kills_leave_what_was_acknowledged(tmp_path: Path) -> None:
    """In stores of forty each; no pair of key and vector comes twice over all of them. spec: MN8.4, MN8.10, MN5.16"""
    ended: list[str] = []
    sealed: Sealed = {}
    for seed in range(-(-KILLS // 40)):
        (tmp_path / str(seed)).mkdir()
        store = KilledStore(tmp_path / str(seed), seed)
        ended += [store.kill() for _ in range(min(40, KILLS - len(ended)))]
        assert not sealed.keys() & store.sealed.keys()
        sealed |= store.sealed
    assert len(ended) == KILLS
    assert ended.count("killed") > KILLS // 3


@pytest.mark.skipif(not faults.CAN_WATCH, reason=faults.WHY_NOT)  # it watches calls
@pytest.mark.parametrize("already", [0, 3])
def test_an_append_is_there_wherever_its_process_is_killed_or_a_call_fails(tmp_path: Path, already: int) -> None:
    """By number and in the whole, and the next process goes on from there. spec: MN10.9, MN10.10, MN8.4"""
    (tmp_path / "before").mkdir()
    if already:
        with VectorStore(tmp_path / "before" / "S", MasterKey(SECRET)) as store:
            store.append(numbered(0, already))
    ahead = set()
    for left in faults.explore(appends, tmp_path, kinds=("kill", "error", "short")):
        told = max([already, *map(int, re.findall(r"^\d+$", left.ended.output, re.MULTILINE))])
        if not (left.folder / "S").exists():
            assert told == 0, left.fault
            continue
        with VectorStore(left.folder / "S", MasterKey(SECRET)) as store:
            count = len(store)
            assert count >= told, left.fault
            assert np.array_equal(store[:], numbered(0, count)) if count else told == 0, left.fault
            ahead.add(count - told)
            store.append(numbered(count, 2))
        assert np.array_equal(got(VectorStore(left.folder / "S", MasterKey(SECRET)))[0], numbered(0, count + 2))
    assert ahead >= {0, 1, 3}


MEASURED = """
import sys
from pathlib import Path
from tmmu.cli.entry import run
assert run(sys.argv[1:]) == 0
print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0], file=sys.stderr)
"""
"""Prints the most KiB that the process had in memory; `getrusage` counts those of the parent, too."""


@pytest.mark.parametrize("arguments", [["put", "S", "v.npy"], ["get", "S", "-o", "w.npy"], ["verify", "S"]])
def test_memory_does_not_grow_with_the_vectors(arguments: list[str], tmp_path: Path) -> None:
    """600 MiB in a process that has 250 at most, pages of mapped files included. spec: MN8.3"""
    MasterKey.create(tmp_path / "k")
    rows = np.lib.format.open_memmap(tmp_path / "v.npy", "w+", np.float16, (600 << 10, 512))
    for start in range(0, len(rows), 1 << 14):
        rows[start : start + (1 << 14)] = (np.arange(512) * (start + 1) % 997).astype(np.float16)
    rows.flush()
    del rows
    if arguments[0] != "put":
        put = [*COMMAND, "put", "S", "v.npy", "--key", "k"]
        subprocess.run(put, cwd=tmp_path, env=ENVIRONMENT, check=True, capture_output=True)
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *COMMAND[3:], *arguments, "--key", "k"], cwd=tmp_path, env=ENVIRONMENT,
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert int(done.stderr) < 250 << 10
