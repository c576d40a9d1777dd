"""The data folders of the package, and the tables of failures and of names that verdicts print."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class FailureEntry(NamedTuple):
    """The entry of one failure code in `spec/errors.md`."""

    meaning: str
    fix: str


class VerdictName(NamedTuple):
    """A row of `spec/verdicts.md`: the meaning of a name in a verdict, and the advice; "" if there is none."""

    meaning: str
    advice: str


def data_folder(name: str) -> Path:
    """Return the folder `spec` or `tla`: of the checkout that contains the package, otherwise of the wheel."""
    package = Path(__file__).resolve().parents[1]
    is_checkout = (package.parent / "pyproject.toml").is_file()
    return package.parent / name if is_checkout else package / "_data" / name


def read_failures() -> dict[str, FailureEntry]:
    """Return each failure code with its meaning and its fix, from the table of `errors.md`."""
    return {cells[0]: FailureEntry(cells[6], cells[7]) for cells in _rows("errors.md", 8) if cells[1].isdigit()}


def verdict_page() -> dict[str, VerdictName]:
    """Return each name that verdicts print with its meaning, from the tables of `verdicts.md`."""
    return {cells[0]: VerdictName(*cells[1:]) for cells in _rows("verdicts.md", 3) if cells[0] != "name"}


def _rows(page: str, width: int) -> Iterator[list[str]]:
    """Yield the cells of the table rows of a page that have `width` of them."""
    for line in (data_folder("spec") / page).read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")]
        if line.startswith("| ") and len(cells) == width:
            yield cells
