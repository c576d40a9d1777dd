"""Event logs of the commands of a store, some of them killed, followed through the models by TLC. spec: MN8.15"""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from proofs.model_check.entry import run as check_models
from tests.support.killed_puts import COMMAND, ENVIRONMENT
from tmmu.mnemosyne.keys import MasterKey


@pytest.mark.parametrize("seed", range(3))
def test_commands_of_which_some_are_killed_are_followed(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("k", "j"):
        MasterKey.create(tmp_path / name)
    np.save(tmp_path / "v.npy", np.arange(64 * 400, dtype=np.uint16).reshape(400, 64))
    choose = random.Random(seed)
    put = ["put", "S", "v.npy", "--key", "k", "--append", "--block", "100", "--events", "e.log"]
    first = subprocess.run([*COMMAND, *put], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert "400 vectors put" in first.stdout
    killed = 0
    for _ in range(4):
        started = subprocess.Popen([*COMMAND, *put], cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
        time.sleep(choose.uniform(0.1, 0.6))
        started.kill()
        killed += started.wait() != 0
    for command in (["get", "S", "-o", "w.npy", "--key", "k"], ["rekey", "S", "--key", "k", "--new-key", "j"]):
        subprocess.run([*COMMAND, *command, "--events", "e.log"], cwd=tmp_path, env=ENVIRONMENT, check=True)
    assert killed
    assert check_models(["--follow", str(tmp_path / "e.log")]) == 0, capsys.readouterr().out
    assert "SealedLog" in capsys.readouterr().out
    lines = (tmp_path / "e.log").read_text().splitlines(keepends=True)
    at = next(k for k, line in enumerate(lines) if '"log synced"' in line)
    (tmp_path / "e.log").write_text("".join(lines[:at] + lines[at + 1 :]))
    assert check_models(["--follow", str(tmp_path / "e.log")]) == 1  # an acknowledgement without its sync
