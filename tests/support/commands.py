"""Running the tmmu command within a test."""

from __future__ import annotations

import pytest

from tmmu.cli.entry import run


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """The exit code of a command line, its output and its errors."""
    code = run(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err
