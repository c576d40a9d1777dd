"""Running the tmmu command within a test, and what stands in for tools that may not be installed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from proofs.tools import maven
from tmmu.cli.entry import run

TOOL = maven.Artifact("the tool", "org.example", "tool", "1.2", hashlib.sha256(b"archive").hexdigest())
"""A tool of which the archive holds the bytes `archive`."""


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """The exit code of a command line, its output and its errors."""
    code = run(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def program(path: Path, text: str) -> Path:
    """A shell script at `path`, executable, in the place of an installed program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path
