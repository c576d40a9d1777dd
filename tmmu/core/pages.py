"""The folders that commands read, in a checkout beside the package, in a wheel inside it; the table of failures."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class FailureEntry(NamedTuple):
    """What `spec/errors.md` has of one code."""

    meaning: str
    fix: str


def data_folder(name: str) -> Path:
    """The folder `spec` or `tla`: of the checkout that the package is in, else of the wheel that it came with."""
    package = Path(__file__).resolve().parents[1]
    is_checkout = (package.parent / "pyproject.toml").is_file()
    return package.parent / name if is_checkout else package / "_data" / name


def failure_page() -> dict[str, FailureEntry]:
    """Each failure code with its meaning and its fix, as the table of `errors.md` has them."""
    found = {}
    for line in (data_folder("spec") / "errors.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 8 and cells[1].isdigit():
            found[cells[0]] = FailureEntry(cells[6], cells[7])
    return found
