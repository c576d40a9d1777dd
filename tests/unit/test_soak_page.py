"""The figures on lies in `spec/soundness.md` are those that the soak has written down."""

from __future__ import annotations

from tests.nightly.soak import page
from tests.nightly.soak.figures import Figures, load
from tests.nightly.soak.lies import CODES


def test_the_page_shows_the_figures_of_the_record() -> None:
    assert page.PAGE.read_text("utf-8") == page.page(), "run: python -m tests.nightly.soak.page"


def test_every_code_has_been_lied_about_and_nothing_on_record_was_accepted() -> None:
    """spec: V4.4"""
    figures, _ = load(page.TOLD)
    assert figures.wrong == []
    for code in CODES:
        assert figures.of(code, "told") == figures.of(code, "refused") == figures.of(code, "confirmed") > 0


def test_a_figure_that_changes_shows_in_the_page() -> None:
    figures, _ = load(page.TOLD)
    before = page.table(figures)
    figures.count("alignment/misplaced", "told")
    figures.wrong.append("a lie")
    after = page.table(figures)
    changed = [new for old, new in zip(before.splitlines(), after.splitlines(), strict=True) if old != new]
    assert [line.split(" | ")[0] for line in changed[1:]] == ["| `alignment`", "| together"]
    assert changed[0].endswith("1 were not caught as they must be.")
    assert "0 were not caught" in page.table(Figures())
