"""The words of the project are those of `spec/glossary.md`; a public class has a name that no other has.

`python -m tests.support.glossary` prints the places.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.glossary import PAGE, WHERE, Place, Search, classes, everywhere, synonyms

TERM = re.compile(r"(?:^- |; )\*\*(?P<terms>[^*]+)\*\*: (?P<meaning>[^;\n]+)", re.MULTILINE)


def test_no_file_uses_a_synonym_that_is_not_used() -> None:
    assert everywhere() == {}


def test_no_two_public_classes_have_one_name() -> None:
    assert classes() == {}


def test_a_term_has_one_meaning_and_is_no_synonym_that_is_not_used() -> None:
    text = PAGE.read_text("utf-8")
    sentences, table = text.split("\n## Synonyms")
    terms = [term for found in TERM.finditer(sentences) for term in found["terms"].split(", ")]
    assert len(terms) > 80
    assert sorted(set(terms)) == sorted(terms)
    unused = synonyms(table)
    assert len(unused) > 80
    assert {synonym.where for synonym in unused} == WHERE
    assert not {synonym.word for synonym in unused} & set(terms)
    replaced = "\n".join(synonym.use for synonym in unused)
    assert Search(unused).found(sentences + replaced, ".md") == []


def test_every_word_of_the_vocabulary_has_a_sentence() -> None:
    from tmmu.core import vocabulary  # here: the rest of this file is about text alone
    from tmmu.plans import allocation, sections

    text = PAGE.read_text("utf-8").lower()
    words = {
        vocabulary: ("Role", "Tensor", "Node", "Body", "Model", "Lifetime", "Memory", "Rule"),
        allocation: ("Arena", "Allocation"),
        sections: ("Plan", "Envelope"),
    }
    for module, name in ((module, name) for module, names in words.items() for name in names):
        assert hasattr(module, name)
        assert re.search(rf"^- \*\*{name.lower()}\*\*: ", text, re.MULTILINE), name


UNUSED = synonyms(
    "| `nobody`, `no one` | anywhere | none |\n| `lies` | identifiers | faults |\n| `a lie` | prose | a fault |\n"
    "| `Stays` | names | ValueLiveRanges |\n| `change_hands` | anywhere | reassigned |\n"
)


@pytest.mark.parametrize(
    ("suffix", "text", "found"),
    [
        (".py", "read_by_nobody = 1", [Place(1, "nobody")]),
        (".py", "class ToldLies:\n    nobodyElse = 2", [Place(1, "lies"), Place(2, "nobody")]),
        (".py", '"""A.\n\nNo one reads `nobody`."""\n\n\ndef f():\n    return 1  # Nobody',
         [Place(3, "no one"), Place(7, "nobody")]),
        (".py", 'raise ValueError(f"{1} is a lie")', [Place(1, "a lie")]),
        (".py", "bytes_change_hands_here = Stays", [Place(1, "Stays"), Place(1, "change_hands")]),
        (".v", "Definition nobody := 1. (* said of\nnobody *)", [Place(2, "nobody")]),
        (".tla", "nobody == 1 \\* by nobody\n(* a lie *)", [Place(1, "nobody"), Place(2, "a lie")]),
        (".md", "# A lie\n`nobody`\n```\nnobody\n```\n[no one](nobody.md)", [Place(1, "a lie"), Place(6, "no one")]),
    ],
)  # fmt: skip
def test_a_synonym_is_found_where_it_is_not_used(suffix: str, text: str, found: list[Place]) -> None:
    assert Search(UNUSED).found(text, suffix) == found


def test_other_words_are_left_alone() -> None:
    text = 'stays = "it lies at byte 4"  # antibodies, a liege\nnobodys = {"nobody": None}\nlie = "nobody"\n'
    assert Search(UNUSED).found(text, ".py") == []


def test_two_classes_of_one_name_are_seen(tmp_path: Path) -> None:
    for path, text in {
        "tmmu/a.py": "class A: pass\nclass _B: pass", "proofs/b.py": "class A: pass\nclass _B: pass\nclass C: pass",
    }.items():  # fmt: skip
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(text)
    assert classes(tmp_path) == {"A": ["proofs/b.py", "tmmu/a.py"]}
