"""The lowest and the newest versions of the packages that pyproject.toml admits: the commands work with either."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UV = shutil.which("uv") or shutil.which("uv", path=str(ROOT / ".venv/uv/bin"))
COMMANDS = (
    ("tmmu example mico-mlp -o m.onnx", 0),
    ("tmmu plan m.onnx -o p.cbor", 0),
    ("verify-plan p.cbor --model m.onnx --require model,slot-count", 0),
    ("tmmu show p.cbor", 0),
    ("tmmu report p.cbor -o p.html", 0),
    ("tmmu run m.onnx --plan p.cbor", 0),
    ("tmmu example broken/in-place-read-later -o broken.cbor", 0),
    ("verify-plan broken.cbor", 1),
    ("verify-plan m.onnx", 4),
)  # fmt: skip
"""What is run, with the exit code."""


@pytest.mark.parametrize("resolution", ["lowest-direct", "highest"])
def test_the_commands_work_at_both_ends_of_the_ranges(resolution: str, tmp_path: Path) -> None:
    if UV is None:
        pytest.skip("make lock")  # which installs the resolver
    venv = tmp_path / "venv"
    subprocess.run([UV, "venv", "-q", "--python", sys.executable, venv], check=True)
    install = [UV, "pip", "install", "-q", "--python", venv / "bin/python", "--resolution", resolution]
    subprocess.run([*install, f"{ROOT}[report]"], check=True)
    environment = {**os.environ, "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("PYTHONPATH", None)
    for command, code in COMMANDS:
        done = subprocess.run(
            command.split(), cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, (command, done.stdout[-500:], done.stderr[-1500:])
