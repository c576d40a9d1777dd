"""The mutants that no test can notice, each with its reason: the table of `spec/soundness.md`."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "spec" / "soundness.md"
_ROW = re.compile(r"^\| `(?P<file>[\w/]+\.py)` \| `` ?(?P<name>.+?) ?`` \| (?P<why>.+) \|$", re.MULTILINE)


def argued(page: Path = PAGE) -> dict[tuple[str, str], str]:
    """Why each mutant (file, name) is right although it differs; `|` is written as `\\|` in a table."""
    return {(row["file"], row["name"].replace("\\|", "|")): row["why"] for row in _ROW.finditer(page.read_text())}
