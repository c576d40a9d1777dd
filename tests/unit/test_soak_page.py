"""The figures of the soak's page are those of its record, and the totals in `spec/soundness.md` are the page's."""

from __future__ import annotations

from tests.nightly.soak import page
from tests.nightly.soak.figures import Figures, load
from tmmu.testing.catalogue import CODES


def test_the_page_shows_the_figures_of_the_record() -> None:
    assert page.PAGE.read_text("utf-8") == page.page(), "run: python -m tests.nightly.soak.page"


def test_every_code_has_had_faults_and_no_fault_on_record_was_accepted() -> None:
    """spec: V4.4"""
    figures, _ = load(page.RESULTS)
    assert figures.wrong == []
    for code in CODES:
        assert figures.of(code, "injected") == figures.of(code, "refused") == figures.of(code, "confirmed") > 0


def test_the_argument_states_the_totals_of_the_record() -> None:
    record = (page.ROOT / "tests/nightly/soak/README.md").read_text("utf-8")
    (total,) = [line for line in record.splitlines() if line.startswith("| together |")]
    figures = [cell for cell in total.strip("| ").split(" | ")[1:] if "," in cell and " of " not in cell]
    assert figures
    argument = (page.ROOT / "spec/soundness.md").read_text("utf-8")
    assert [figure for figure in figures if figure not in argument] == []


def test_a_figure_that_changes_shows_in_the_page() -> None:
    figures, _ = load(page.RESULTS)
    before = page.table(figures)
    figures.count("alignment/misplaced", "injected")
    figures.wrong.append("a fault")
    after = page.table(figures)
    changed = [new for old, new in zip(before.splitlines(), after.splitlines(), strict=True) if old != new]
    assert [line.split(" | ")[0] for line in changed[1:]] == ["| `alignment`", "| together"]
    assert changed[0].endswith("1 faults were not caught as they must be.")
    assert "0 faults were not caught" in page.table(Figures())
