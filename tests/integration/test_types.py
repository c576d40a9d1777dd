"""Types hold everywhere. As a test, so that this runs beside others; `make lint` asks the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.checkout
def test_types_hold_everywhere() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy"], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
