"""The tables of `README.md` beside this file, written from the results that are kept in `fault_results.json`.

`python -m tests.nightly.soak.page` writes them again; a test compares the two. To add to the results:
`python -m tests.nightly.soak.plans --figures tests/nightly/soak/fault_results.json`.
"""

from __future__ import annotations

from pathlib import Path

from tests.nightly.soak.figures import Figures, load
from tmmu.testing.catalogue import CODES, FAULTS, NOT_PRINTED

ROOT = Path(__file__).resolve().parents[3]
PAGE = Path(__file__).with_name("README.md")
RESULTS = Path(__file__).with_name("fault_results.json")
BEGIN, END = "<!-- written by python -m tests.nightly.soak.page -->\n", "<!-- end of what is written -->\n"
HEAD = """\
| code | faults | injected | refused | with the code | witness holds | rows not discharged | kernel does not accept |
|---|---|---|---|---|---|---|---|
"""
HEAD_OF_NOT_PRINTED = """
These codes `verify-plan` does not print of a plan and its model:

| code | why not |
|---|---|
"""


def table(figures: Figures) -> str:
    """The figures in Markdown: from how many right plans, and a line for each code."""
    cases = ", ".join(f"{n:,} {kind}" for kind, n in sorted(figures.cases.items()))
    text = (
        f"{figures.seconds / 3600:.1f} hours of one processor, solvers apart; right plans by kind: {cases}."
        f" {len(figures.wrong)} faults were not caught as they must be.\n\n"
    )
    rows = [_row(f"`{code}`", _faults(code), [figures.of(code, column) for column in _COLUMNS]) for code in CODES]
    together = [sum(figures.of(code, column) for code in CODES) for column in _COLUMNS]
    return text + HEAD + "".join([*rows, _row("together", str(len(FAULTS)), together)])


_COLUMNS = ("injected", "refused", "by code", "confirmed", "no rows", "rows", "no kernel", "kernel")


def _faults(code: str) -> str:
    return ", ".join(f"`{fault.name}`" for fault in FAULTS.values() if fault.code == code)


def _row(name: str, faults: str, counts: list[int]) -> str:
    injected, refused, by_code, confirmed, *pairs = counts
    shares = [f"{no:,} of {asked:,}" if asked else "" for no, asked in zip(pairs[::2], pairs[1::2], strict=True)]
    cells = [name, faults, *(f"{count:,}" for count in (injected, refused, by_code, confirmed)), *shares]
    return f"| {' | '.join(cells)} |\n"


def page() -> str:
    """The whole page as it must be."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    rest_of_codes = HEAD_OF_NOT_PRINTED + "".join(f"| `{code}` | {why} |\n" for code, why in NOT_PRINTED.items())
    return f"{before}{BEGIN}{table(load(RESULTS)[0])}{rest_of_codes}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
