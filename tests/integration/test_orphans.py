"""Commands that are killed at any moment leave no process, and nothing holds the caller's pipes. spec: RE2.1, RE2.4"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.effort import share
from tests.support.small_llama import file_of
from tmmu.cli.entry import run

COMMANDS = {
    "jobs": ("verify-plan", "p.cbor", "p.cbor", "p.cbor", "p.cbor", "--jobs", "2"),
    "resume": ("verify-plan", "p.cbor", "--resume", "kept"),
    "verify": ("verify-plan", "p.cbor", "--model", "m.onnx"),
    "plan": ("tmmu", "plan", "m.onnx", "-o", "q.cbor"),
    "session": ("tmmu", "session", "run", "m.gguf", "--prompt-tokens", "1,2,3", "--tokens", "40", "--budget", "1GiB"),
}
"""Each command, which starts processes or might."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("killed")
    assert run(["example", "mico-mlp", "-o", str(where / "m.onnx")]) == 0
    assert run(["plan", str(where / "m.onnx"), "-o", str(where / "p.cbor")]) == 0
    (where / "m.gguf").write_bytes(file_of().read_bytes())  # other tests read it too
    return where


def of_session(leader: int) -> list[str]:
    """The processes of a session that are not dead."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, fields = path.read_text().rpartition(")")
        except OSError:
            continue
        state, _, _, session = fields.split()[:4]
        if int(session) == leader and state != "Z":
            found.append(name)
    return found


@pytest.mark.parametrize("seed", range(share(8)))
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_killed_leaves_no_process(name: str, seed: int, folder: Path) -> None:
    chance = random.Random(f"{name} {seed}")
    with subprocess.Popen(
        COMMANDS[name], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:  # fmt: skip
        time.sleep(chance.uniform(0.2, 2.0))
        os.kill(process.pid, chance.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
        process.communicate(timeout=60)  # it ends when nothing holds the pipe
    left: list[str] = []
    for _ in range(50):
        left = of_session(process.pid)
        if not left:
            break
        time.sleep(0.1)
    assert left == []
