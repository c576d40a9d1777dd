"""The table of lies in `spec/soundness.md`, written from the figures that are kept beside this file.

`python -m tests.nightly.soak.page` writes it again; a test compares the two. To add to the figures:
`python -m tests.nightly.soak.plans --figures tests/nightly/soak/told.json`.
"""

from __future__ import annotations

from pathlib import Path

from tests.nightly.soak.figures import Figures, load
from tests.nightly.soak.lies import CODES, LIES

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "spec/soundness.md"
TOLD = ROOT / "tests/nightly/soak/told.json"
BEGIN, END = "<!-- told: written by python -m tests.nightly.soak.page -->\n", "<!-- end of told -->\n"
HEAD = """\
| code | lies | told | refused | with the code | witness holds | rows not discharged | kernel does not accept |
|---|---|---|---|---|---|---|---|
"""


def table(figures: Figures) -> str:
    """The figures in Markdown: from how many right plans, and a line for each code."""
    scenes = ", ".join(f"{n:,} {kind}" for kind, n in sorted(figures.scenes.items()))
    text = (
        f"Seen in {figures.seconds / 3600:.1f} hours of one processor, solvers apart, from right plans of these kinds:"
        f" {scenes}. {len(figures.wrong)} were not caught as they must be.\n\n"
    )
    rows = [_row(f"`{code}`", _lies(code), [figures.of(code, column) for column in _COLUMNS]) for code in CODES]
    together = [sum(figures.of(code, column) for code in CODES) for column in _COLUMNS]
    return text + HEAD + "".join([*rows, _row("together", str(len(LIES)), together)])


_COLUMNS = ("told", "refused", "by code", "confirmed", "no rows", "rows", "no kernel", "kernel")


def _lies(code: str) -> str:
    return ", ".join(lie.name.replace("_", " ") for lie in LIES.values() if lie.code == code)


def _row(name: str, lies: str, counts: list[int]) -> str:
    told, refused, by_code, confirmed, *pairs = counts
    shares = [f"{no:,} of {asked:,}" if asked else "" for no, asked in zip(pairs[::2], pairs[1::2], strict=True)]
    cells = [name, lies, *(f"{count:,}" for count in (told, refused, by_code, confirmed)), *shares]
    return f"| {' | '.join(cells)} |\n"


def page() -> str:
    """The whole page as it must be."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table(load(TOLD)[0])}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
