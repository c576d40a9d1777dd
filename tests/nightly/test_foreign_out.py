"""Plans of ours in other producers' files: their runtimes compute the same with them, and `verify-plan` proves them.

Set TFLM_PYTHON to a Python with tflite-micro and ai-edge-litert (and ethos-u-vela beside it), EXECUTORCH_PYTHON to one
with executorch and cbor2. spec: FP11.2 to FP11.7, FP12.1 to FP12.4
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
TFLM = os.environ.get("TFLM_PYTHON", sys.executable)
EXECUTORCH = os.environ.get("EXECUTORCH_PYTHON", sys.executable)
MISPLACED = {"view-of-cond", "view-of-carry"}
"""ExecuTorch 1.5.1 gives a view that it leaves out bytes that nothing writes: no algorithm places tensors otherwise."""


def needs(python: str, module: str, name: str) -> None:
    if subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode:
        pytest.skip(f"set {name} to a Python with {module}")  # which no test of each day installs


def printed(*command: str | Path) -> Any:
    """The JSON that is the last line of what a command prints."""
    paths = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=paths, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads(ended.stdout.splitlines()[-1])


def verdict(path: Path, *options: str) -> str:
    """The verdict on a file."""
    command = ["verify-plan", "--format", "json", *options, path]
    printed_ = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return str(json.loads(printed_)["files"][0]["verdict"])


def test_tensorflow_lite_micro_computes_the_same_with_our_plan(tmp_path: Path) -> None:
    """In no larger an arena; LiteRT takes the file as well. spec: FP11.2 to FP11.7"""
    needs(TFLM, "tflite_micro", "TFLM_PYTHON")
    script = ROOT / "tests/support/tflm_runs.py"
    subprocess.run([TFLM, script, "write", tmp_path], check=True)
    (tmp_path / "planned").mkdir()
    for path in tmp_path.glob("*.tflite"):
        planned = tmp_path / "planned" / path.name
        told = subprocess.run(
            ["tmmu", "export", "tflite", path, "-o", planned], check=True, capture_output=True, text=True
        )
        footprint = told.stdout.split(" bytes,")[0].split()[-1]
        assert verdict(planned, "--capacity", footprint) == "PROVED"
    for kind in ("tflm", "litert"):
        found = printed(TFLM, script, "run", tmp_path, "planned", kind)
        assert len(found) == 3
        for name, ran in found.items():
            assert ran["same"], (kind, name, ran)
            assert ran["arenas"][1] <= ran["arenas"][0], (name, ran)


def test_vela_takes_a_model_with_our_plan(tmp_path: Path) -> None:
    """Vela 5.2.0 leaves the list of what it read in what it writes: as TensorFlow Lite Micro does, we refuse that. Of
    the model without a plan it makes one that is right. spec: FP6.1, FP11.5; findings 202
    """
    vela, cnn = Path(TFLM).with_name("vela"), "cnn.tflite"
    if not vela.exists():
        pytest.skip("set TFLM_PYTHON to a Python with ethos-u-vela")  # which no test of each day installs
    subprocess.run([TFLM, ROOT / "tests/support/tflm_runs.py", "write", tmp_path], check=True)
    subprocess.run(["tmmu", "export", "tflite", tmp_path / cnn, "-o", tmp_path / "planned.tflite"], check=True)
    for name, code in (("cnn", 0), ("planned", 4)):
        command = [vela, tmp_path / f"{name}.tflite", "--output-dir", tmp_path, "--accelerator-config", "ethos-u55-64"]
        subprocess.run(command, check=True, capture_output=True)
        judged = subprocess.run(["verify-plan", tmp_path / f"{name}_vela.tflite"], capture_output=True, check=False)
        assert judged.returncode == code, judged.stderr


def test_executorch_computes_the_same_with_our_plan(tmp_path: Path) -> None:
    """Where its own plan computes something else as well, two conds in sequence. spec: FP12.1 to FP12.4"""
    needs(EXECUTORCH, "executorch.runtime", "EXECUTORCH_PYTHON")
    found = printed(EXECUTORCH, ROOT / "tests/support/executorch_runs.py", tmp_path)
    ours = {name.removesuffix("-all-ours"): ran for name, ran in found.items() if name.endswith("-all-ours")}
    assert {name for name, ran in ours.items() if ran["wrong"]} == MISPLACED
    assert found["two-conds-all-theirs"]["wrong"] > 0
    for name, ran in found.items():
        expected = "REFUTED" if ran["wrong"] else "PROVED"
        assert verdict(tmp_path / f"{name}.pte") == expected, name
        if name.endswith("-ours") and not name.startswith("two-conds"):
            assert sum(ran["bytes"]) <= sum(found[name.replace("-ours", "-theirs")]["bytes"]), name
