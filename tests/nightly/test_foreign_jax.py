"""Random JAX programs, compiled now by the jax that is installed: XLA's plan of each is found right, if it is.

A refutation of a random program is XLA's fault or the reader's; either is a line in `spec/findings-archive.md`.
Programs that move parts of an array are run as well: of those that compute wrong numbers no plan is proved.
spec: FP4.3 to FP4.10, FP4.13, FP4.15
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from proofs.readers.plans import formats
from proofs.verify.checks import Subject, violations
from tests.support import jax_moves, jax_programs
from tmmu.plans.gate import StatedPlan

PYTHON = os.environ.get("JAX_PYTHON", sys.executable)
"""A Python that has jax, which may be another environment's."""
COUNT = 40


def compiled(script: ModuleType, seed: int, folder: Path) -> list[Path]:
    """The assignments of programs that are compiled now."""
    if subprocess.run([PYTHON, "-c", "import jax"], capture_output=True, check=False).returncode:
        pytest.skip("set JAX_PYTHON to a Python with jax")  # which no test of each day installs
    arguments = [PYTHON, str(script.__file__), str(seed), str(COUNT), str(folder)]
    subprocess.run(arguments, check=True, capture_output=True)
    found = sorted(folder.glob("*-buffer-assignment.txt"))
    assert len(found) > COUNT // 2
    return found


def verdict(path: Path) -> tuple[str, str]:
    """What is found without a solver, and why."""
    stated = formats.load_any(path)
    assert isinstance(stated, StatedPlan)
    assert stated.reading is not None
    wrong = next(violations(Subject(stated, None, frozenset(stated.reading.donated))), None)
    if wrong is not None:
        return "REFUTED", wrong.text
    undecided = stated.reading.undecided
    return ("UNKNOWN", undecided[0].text) if undecided else ("PROVED", "")


def test_plans_of_random_programs_are_right(tmp_path: Path) -> None:
    """At least 95 of 100 are proved, and none is refuted."""
    found = {path.name: verdict(path) for path in compiled(jax_programs, 7000, tmp_path)}
    assert {name: why for name, (answer, why) in found.items() if answer == "REFUTED"} == {}
    assert sum(answer == "PROVED" for answer, _ in found.values()) >= 0.95 * len(found), found


def test_no_plan_of_a_program_that_computes_wrong_numbers_is_proved(tmp_path: Path) -> None:
    """Those that are refuted and compute right do so by the direction in which a kernel goes."""
    paths = compiled(jax_moves, 0, tmp_path)
    right = json.loads((tmp_path / "right.json").read_text())
    found: Counter[tuple[str, bool]] = Counter()
    for path in paths:
        name = re.search(r"moving\d+", path.name)
        assert name is not None
        found[verdict(path)[0], right[name[0]]] += 1
    assert found["PROVED", False] == 0
    assert found["PROVED", True] > COUNT // 2, found
