"""Wrappers that torch's Inductor writes of random models, in C++ and in Triton, if torch is installed. spec: FP8.13"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from proofs.readers.plans import formats
from proofs.verify.checks import Subject, violations
from tmmu.core.source import Source

ROOT = Path(__file__).resolve().parents[2]
PYTHON = os.environ.get("TORCH_PYTHON", sys.executable)
"""A Python that has torch 2.15 and Triton, which may be another environment's."""
COUNT = 40


def test_wrappers_of_random_models_are_proved(tmp_path: Path) -> None:
    """Each is read whole, and all but those that read memory without a value are proved. spec: FP8.11, FP8.13"""
    if subprocess.run([PYTHON, "-c", "import torch, triton"], capture_output=True, check=False).returncode:
        pytest.skip("set TORCH_PYTHON to a Python with torch and Triton")  # which no test of each day installs
    command = [PYTHON, "-m", "tests.support.torch_models", str(tmp_path), str(COUNT)]
    subprocess.run(command, cwd=ROOT, check=True)
    found: Counter[str] = Counter()
    for path in sorted(tmp_path.iterdir()):
        stated = formats.read_through_gate(formats.BY_KIND["inductor"], Source.opened(path))
        assert stated.reading is not None
        wrong = next(iter(violations(Subject(stated, None, frozenset(stated.reading.donated)))), None)
        assert not stated.reading.undecided, (path, stated.reading.undecided)
        found["PROVED" if wrong is None else wrong.obligation.value] += 1
    assert set(found) <= {"PROVED", "lifetimes_cover_accesses"}, found
    assert found["PROVED"] >= 0.95 * found.total() > COUNT, found
