"""For each row of `spec/decisions.md`, the table of `spec/findings-archive.md` names a test that cites the sentence."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.support.citations import CITATION, ID, expanded
from tests.support.sources import nodes

ROOT = Path(__file__).resolve().parents[2]


def rows(page: str) -> list[list[str]]:
    """The cells of every row of three cells, heads left out."""
    lines = [line.strip() for line in page.splitlines() if line.startswith("| ")]
    lines = [line for line in lines if not line.startswith("| documents |")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if len(row) == 3]


def cited_by(test: str) -> set[str] | None:
    """The sentences that a test, named as `file::function` or `file`, cites; None where there is no such test."""
    name, _, function = test.partition("::")
    path = ROOT / name
    if not path.is_file():
        return None
    text = path.read_text()
    if function:
        found = [n for n in nodes(text) if isinstance(n, ast.FunctionDef) and n.name == function]
        if not found:
            return None
        text = "\n".join(text.splitlines()[found[0].lineno - 1 : found[0].end_lineno])
    return {name for match in CITATION.finditer(text) for name in expanded(match["ids"])}


def objections(decisions: str, findings: str) -> list[str]:
    """Rows of the decisions that the findings lack, and rows whose test is missing or cites another sentence."""
    settled = {what: set(re.findall(ID, ids)) for what, _, ids in rows(decisions)}
    pinned = {what: (sentence, test.strip("`")) for what, sentence, test in rows(findings)}
    wrong = [f"{what[:40]}: no test" for what in settled if what not in pinned]
    for what, (sentence, test) in pinned.items():
        if sentence not in settled.get(what, set()):
            wrong.append(f"{what[:40]}: {sentence} does not settle it")
        elif sentence not in (cited_by(test) or set()):
            wrong.append(f"{what[:40]}: {test} does not cite {sentence}")
    return wrong


def pages() -> tuple[str, str]:
    return (ROOT / "spec/decisions.md").read_text(), (ROOT / "spec/findings-archive.md").read_text()


def test_every_contradiction_has_a_test_that_pins_the_answer() -> None:
    assert objections(*pages()) == []
    assert len(rows(pages()[0])) >= 50


def test_a_missing_row_and_a_test_that_says_nothing_of_it_are_noticed() -> None:
    decisions, findings = pages()
    (what, sentence, test), *_ = rows(findings)
    assert len(objections(decisions, findings.replace(f"| {what} |", "| something else |"))) == 2
    assert len(objections(decisions, findings.replace(f"| {sentence} | {test} |", "| X9.9 | `no.py` |", 1))) == 1
    line = f"| {what} | {sentence} | {test} |"
    assert len(objections(decisions, findings.replace(line, f"| {what} | {sentence} | `tests/unit/no.py` |"))) == 1
