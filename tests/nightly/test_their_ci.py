"""The recipes of `spec/in-their-ci.md`: what a page has a maintainer write and run is written and run, and ends well.

Each runs with the Python that has the compiler: JAX_PYTHON, EXECUTORCH_PYTHON, TFLM_PYTHON and TVM_PYTHON.
spec: FP4.1, FP5.1, FP6.1, FP7.1, FP11.7
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tutorials import commands, fences

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "spec/in-their-ci.md").read_text()
RECIPES = {
    "jax": ("JAX_PYTHON", "jax"), "ExecuTorch": ("EXECUTORCH_PYTHON", "executorch.exir"),
    "TensorFlow Lite Micro": ("TFLM_PYTHON", "ethosu.vela"), "TVM": ("TVM_PYTHON", "tvm"),
}  # fmt: skip


def section(title: str) -> str:
    """A section of the page."""
    found = re.search(rf"^## {re.escape(title)}$(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found[1]


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_does_what_it_says(title: str, tmp_path: Path) -> None:
    variable, module = RECIPES[title]
    python = os.environ.get(variable, sys.executable)
    if subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode:
        pytest.skip(f"set {variable} to a Python with {module}")  # which no test of each day installs
    if variable == "TFLM_PYTHON":
        subprocess.run([python, ROOT / "tests/support/tflm_runs.py", "write", tmp_path], check=True)
        (tmp_path / "cnn.tflite").rename(tmp_path / "model.tflite")
    ours = Path(sys.executable).parent
    for name in ("verify-plan", "tmmu"):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).symlink_to(ours / name)
    paths = f"{tmp_path / 'bin'}:{Path(python).parent}:{os.environ['PATH']}"
    ran = []
    for fence in fences(section(title)):
        if fence.title:
            (tmp_path / fence.title).write_text(fence.text)
        for command in commands(fence.text) if fence.language == "sh" else ():
            ended = subprocess.run(command.text, shell=True, capture_output=True, text=True, check=False, cwd=tmp_path,
                                   env=os.environ | {"PATH": paths})  # fmt: skip
            assert ended.returncode == command.code, (command.text, ended.stdout[-2000:], ended.stderr[-2000:])
            ran.append((command.text, ended.stdout))
    judged = [out for text, out in ran if text.startswith("verify-plan") and ">" not in text]
    assert judged
    assert all("PROVED" in out and "REFUTED" not in out for out in judged)
