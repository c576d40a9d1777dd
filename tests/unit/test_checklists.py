"""The check lists of 001 (0.Z, VII, VIII) stand in `spec/tmmu.md`, each line kept, or not applicable and why."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.citations import ID, sentences

ROOT = Path(__file__).resolve().parents[2]
ANSWERS = ("kept", "kept otherwise", "not applicable")
LINES = {"0.Z": 20, "VII.A": 4, "VII.B": 3, "VII.C": 1, "VIII.A": 2, "VIII.B": 3, "VIII.C": 1}
"""How many lines each list of the document has."""


def rows(page: str) -> list[list[str]]:
    """The cells of each row of the check lists, without the head."""
    section = page.split("## The check lists of 001, line by line")[1]
    lines = [line for line in section.splitlines() if line.startswith("| ") and not line.startswith("| line ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def objections(page: str, known: set[str]) -> list[str]:
    """What is wrong with the rows: an answer of another word, no reason, or a sentence that does not exist."""
    wrong = []
    for line, asks, answer, why in rows(page):
        named = set(re.findall(ID, why))
        if answer not in ANSWERS or not asks:
            wrong.append(f"{line}: {answer!r} is no answer")
        elif answer != "not applicable" and not named:
            wrong.append(f"{line}: no sentence keeps it")
        elif answer != "kept" and len(why.split()) < 3:
            wrong.append(f"{line}: no reason")
        wrong += [f"{line}: {name} is no sentence" for name in sorted(named - known)]
    return wrong


def test_every_line_of_the_lists_is_answered_by_sentences_that_exist_or_a_reason() -> None:
    page = (ROOT / "spec/tmmu.md").read_text()
    assert objections(page, {name for name, _ in sentences(ROOT)}) == []
    found = [row[0].split()[0] for row in rows(page)]
    assert {name: found.count(name) for name in found} == LINES
    assert len({row[0] for row in rows(page)}) == len(found)


def test_a_line_without_an_answer_a_reason_or_a_sentence_is_noticed() -> None:
    head = "## The check lists of 001, line by line\n\n| line | asks for | here | by |\n|---|---|---|---|\n"
    cells = ("maybe | D1.1", "kept | no sentence", "not applicable | ", "kept | D9.9", "kept | D1.1")
    table = "".join(f"| {name} | x | {rest} |\n" for name, rest in zip("abcde", cells, strict=True))
    said = objections(head + table, {"D1.1"})
    assert said == ["a: 'maybe' is no answer", "b: no sentence keeps it", "c: no reason", "d: D9.9 is no sentence"]
