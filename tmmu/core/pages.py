"""The tables of `spec/` that commands print from: in a checkout beside the package, in a wheel inside it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class FailureEntry(NamedTuple):
    """What `spec/errors.md` has of one code."""

    meaning: str
    fix: str


def spec_folder() -> Path:
    """The folder of the specification."""
    package = Path(__file__).resolve().parents[1]
    beside = package.parent / "spec"
    return beside if (beside / "errors.md").is_file() else package / "_data" / "spec"


def failure_page() -> dict[str, FailureEntry]:
    """Each failure code with its meaning and its fix, as the table of `errors.md` has them."""
    found = {}
    for line in (spec_folder() / "errors.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 8 and cells[1].isdigit():
            found[cells[0]] = FailureEntry(cells[6], cells[7])
    return found
