"""A thousand kills of the commands of a store, and vectors of more bytes than the commands may have memory.

spec: MN8.3, MN8.4, MN8.10, MN5.16
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.effort import share
from tests.support.killed_puts import COMMAND, ENVIRONMENT, KilledStore, Sealed
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
