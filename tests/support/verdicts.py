"""Running verify-plan within a test."""

from __future__ import annotations

from collections.abc import Sequence

from click.testing import CliRunner

from proofs.verify.command import command
from tmmu.core.process import explain


def judged(plan: str, model: str, given: Sequence[str]) -> tuple[int, str]:
    """The exit code of verify-plan on a plan of a model, with these options, and what it prints."""
    result = CliRunner().invoke(command, [plan, "--model", model, *given], standalone_mode=False)
    code = explain(result.exception) if result.exception is not None else result.return_value
    return int(code), result.stdout
