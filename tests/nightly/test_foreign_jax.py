"""Random JAX programs, compiled now by the jax that is installed: XLA's plan of each is found right.

A refutation here is XLA's fault or the reader's; either is a line in `spec/findings-archive.md`. spec: FP4.3 to FP4.10
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from proofs.readers.plans import formats
from proofs.verify.checks import Subject, violations
from tests.support import jax_programs
from tmmu.plans.gate import Stated

PYTHON = os.environ.get("JAX_PYTHON", sys.executable)
"""A Python that has jax, which may be another environment's."""
COUNT = 40


def test_plans_of_random_programs_are_right(tmp_path: Path) -> None:
    if subprocess.run([PYTHON, "-c", "import jax"], capture_output=True, check=False).returncode:
        pytest.skip("set JAX_PYTHON to a Python with jax")  # which no test of each day installs
    subprocess.run([PYTHON, jax_programs.__file__, "7000", str(COUNT), str(tmp_path)], check=True, capture_output=True)
    found = sorted(tmp_path.glob("*-buffer-assignment.txt"))
    assert len(found) > COUNT // 2
    wrong = {}
    for path in found:
        stated = formats.load_any(path)
        assert isinstance(stated, Stated)
        assert stated.reading is not None
        subject = Subject(stated, None, frozenset(stated.reading.donated))
        wrong[path.name] = next((violation.text for violation in violations(subject)), "")
    assert {name: text for name, text in wrong.items() if text} == {}
