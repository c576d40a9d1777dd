"""From every sentence of `spec/guarantees.md` to the lemma, its mutants and its test in two clicks.

The page of the lemmas is one click away, and what stands on it the second. spec: V4.9, V4.11
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from proofs.proving.lemmas import at_use, families
from proofs.proving.lemmas.engine.family import Family, mutants_of
from tests.support import lemma_page
from tests.support.lemma_page import PAGE, ROOT

LINK = re.compile(r"\]\(([^)\s]+)\)")
HERE = PAGE.relative_to(ROOT).as_posix()
GUARANTEES = ROOT / "spec/guarantees.md"


def rows(text: str | None = None) -> list[str]:
    """The guarantees: each begins with its sentence in bold, as an entry of a list."""
    text = GUARANTEES.read_text("utf-8") if text is None else text
    return [entry.partition("\n\n")[0] for entry in re.split(r"^- (?=\*\*)", text, flags=re.MULTILINE)[1:]]


def clicks(page: Path, text: str) -> set[str]:
    """Where the links of a text on a page lead, without anchors, from the root of the project."""
    targets = {link.partition("#")[0] for link in LINK.findall(text)} - {""}
    return {(page.parent / target).resolve().relative_to(ROOT).as_posix() for target in targets if "://" not in target}


def reached(row: str) -> set[str]:
    """What a row leads to in one click or two; of the lemmas' page, what stands in the sections that it names."""
    once = clicks(GUARANTEES, row)
    twice = set()
    for target in once - {HERE}:
        if target.endswith(".md"):
            twice |= clicks(ROOT / target, (ROOT / target).read_text("utf-8"))
    for anchor in re.findall(rf"{re.escape(HERE)}#(\w+)", row):
        twice |= clicks(PAGE, lemma_page.page().partition(f"\n### {anchor}\n")[2].partition("\n##")[0])
    return once | twice


def test_the_page_is_that_of_the_lemmas() -> None:
    assert PAGE.read_text("utf-8") == lemma_page.page(), "run: python -m tests.support.lemma_page"


def test_the_page_has_every_lemma_with_its_mutants_and_states_both_numbers() -> None:
    text = PAGE.read_text("utf-8")
    lemmas = families.by_name()
    for name, (_, lemma) in lemmas.items():
        (line,) = [line for line in text.splitlines() if line.startswith(f"| `{name}`")]
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert len(cells) == 3, name
        assert cells[1] == lemma.sentence
        assert cells[2] == "; ".join(mutants_of(lemma)) != ""
    assert f"**Verdicts rest on {at_use.COUNT} lemmas**" in text
    assert f"**{len(lemmas) - at_use.COUNT} more" in text


@pytest.mark.parametrize("family", families.FAMILIES.values(), ids=families.FAMILIES)
def test_every_file_of_lemmas_names_a_test_that_speaks_of_it(family: Family) -> None:
    named = lemma_page.tests(family)
    assert named, f"say in the head of {family.path} which tests tie it: Tests: `tests/...`."
    for path in named:
        text = (ROOT / path).read_text("utf-8")
        assert re.search(rf"\b{family.stem}\b|plan\.LISTS|FAMILIES|TIES", text), path


@pytest.mark.parametrize("row", rows(), ids=lambda row: " ".join(row.split()[:5]))
def test_every_guarantee_leads_to_code_and_to_a_test(row: str) -> None:
    where = row.partition("*Where*")[2].partition("*Test*")[0]
    assert clicks(GUARANTEES, where), "nothing names the place where it is proved"
    assert any(path.startswith("tests/") for path in clicks(GUARANTEES, row.partition("*Test*")[2]))
    found = reached(row)
    assert any(re.match(r"(proofs|tla|tmmu)/.*\.(py|v|tla)$|proofs/readers$|tmmu/simulator$", path) for path in found)
    assert any(path.startswith("tests/") and path.endswith(".py") for path in found)


def test_a_guarantee_without_place_or_test_is_seen() -> None:
    first, second = rows(
        "- **A.** *Test*: [t](../tests/a.py).\n- **B.** *Where*: [c](../proofs/b.py).\n\nEnd [x](y).\n"
    )
    assert not clicks(GUARANTEES, first.partition("*Where*")[2])
    assert not clicks(GUARANTEES, second.partition("*Test*")[2])
    assert reached(second) == {"proofs/b.py"}


def test_every_file_of_lemmas_is_reached_from_a_guarantee_in_two_clicks() -> None:
    assert len(rows()) >= 20
    found = set().union(*(reached(row) for row in rows()))
    assert {family.path for family in families.FAMILIES.values()} <= found
    assert {path for family in families.FAMILIES.values() for path in lemma_page.tests(family)} <= found
    without = set().union(*(reached(row) for row in rows() if "#unions" not in row))
    assert "proofs/proving/lemmas/planner/unions.py" not in without
