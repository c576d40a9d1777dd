"""The mutants that no test can notice, each with its reason: `argued.toml` beside this file."""

from __future__ import annotations

import tomllib
from pathlib import Path

TABLE = Path(__file__).with_name("argued.toml")


def argued(table: Path = TABLE) -> dict[tuple[str, str], str]:
    """Why each mutant (file, name) computes the same as the source; its name is "place: change"."""
    files: dict[str, dict[str, str]] = tomllib.loads(table.read_text("utf-8"))
    return {(file, name): reason for file, mutants in files.items() for name, reason in mutants.items()}
