"""Every normative sentence of `spec/` is cited by code and by a test, and every citation names a sentence.

The grammar is that of `spec/README.md`. The functions below read any tree of the same form, so that the last tests can
hold a small wrong tree against them and see that they say no.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.support.citations import CITATION, ID, SENTENCE, expanded, pages, sentences

ROOT = Path(__file__).resolve().parents[2]

CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)

CODE_FOLDERS = ("tmmu", "proofs", "tla")
TEST_FOLDERS = ("tests",)
SUFFIXES = {".py", ".tla", ".v", ".ml"}


def sources(root: Path, folders: Iterable[str]) -> Iterator[Path]:
    for folder in folders:
        yield from sorted(path for path in (root / folder).rglob("*") if path.suffix in SUFFIXES)


def cited(root: Path, folders: Iterable[str]) -> dict[str, list[str]]:
    """The files that cite each id."""
    result: dict[str, list[str]] = {}
    for path in sources(root, folders):
        for found in CITATION.finditer(path.read_text()):
            for name in expanded(found["ids"]):
                result.setdefault(name, []).append(str(path.relative_to(root)))
    return result


def uncited(root: Path, folders: Iterable[str]) -> list[str]:
    known = cited(root, folders)
    return [name for name, _ in sentences(root) if name not in known]


def dangling(root: Path) -> list[str]:
    """Citations of sentences that do not exist, in code, in tests and in the pages themselves."""
    exist = {name for name, _ in sentences(root)}
    known = cited(root, (*CODE_FOLDERS, *TEST_FOLDERS))
    wrong = [f"{name} in {', '.join(files)}" for name, files in sorted(known.items()) if name not in exist]
    for page in (*pages(root), *sorted((root / "spec").glob("*.cddl"))):
        mentioned = set(re.findall(rf"\b{ID}\b", page.read_text()))
        wrong += [f"{name} in spec/{page.name}" for name in sorted(mentioned - exist)]
    return wrong


def unnumbered(root: Path) -> list[str]:
    """Lines that say MUST, code apart, and are no numbered sentence."""
    wrong = []
    for page in pages(root):
        text = CODE.sub("", page.read_text())
        wrong += [
            f"{page.name}: {line}" for line in text.splitlines() if "MUST" in line and not line.startswith("- **")
        ]
    return wrong


def malformed(root: Path) -> list[str]:
    """Numbered sentences that oblige to nothing or to several things, name no source, or are out of sequence."""
    wrong, last = [], ("", 0)
    for page in pages(root):
        for line in page.read_text().splitlines():
            if not re.match(rf"- \*\*{ID}", line):
                continue
            found = SENTENCE.match(line)
            if found is None or found["text"].count("MUST") != 1 or not found["text"].endswith("."):
                wrong.append(line)
                continue
            section, number = found["id"].split(".")
            expected = last[1] + 1 if section == last[0] else 1
            if int(number) != expected:
                wrong.append(f"{found['id']} stands where {section}.{expected} belongs")
            last = (section, int(number))
    names = [name for name, _ in sentences(root)]
    return wrong + [f"{name} twice" for name in sorted({name for name in names if names.count(name) > 1})]


def test_every_sentence_is_cited_by_code() -> None:
    assert uncited(ROOT, CODE_FOLDERS) == []


def test_every_sentence_is_cited_by_a_test() -> None:
    assert uncited(ROOT, TEST_FOLDERS) == []


def test_every_citation_names_a_sentence() -> None:
    assert dangling(ROOT) == []


def test_only_numbered_sentences_oblige() -> None:
    assert unnumbered(ROOT) == []


def test_every_sentence_obliges_to_one_thing_and_names_its_source() -> None:
    assert malformed(ROOT) == []
    assert len(sentences(ROOT)) > 100, "the pages were not found, or not understood"


def test_the_obligations_of_the_page_are_those_of_the_verdict() -> None:
    from proofs.definition.violations import Obligation  # here: the rest of this file speaks of text alone

    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "spec/tmmu.md").read_text(), re.MULTILINE)
    assert tuple(rows) == tuple(Obligation)


def test_every_page_has_a_row_in_the_readme() -> None:
    readme = (ROOT / "spec/README.md").read_text()
    pages = {path.relative_to(ROOT / "spec") for path in (ROOT / "spec").rglob("*") if path.suffix in (".md", ".cddl")}
    reports = {f"reports/{path.name}" for path in (ROOT / "spec/reports").glob("*.md")} - {"reports/README.md"}
    files = {path.as_posix() for path in pages} - {"README.md"} - reports  # test_reports.py keeps their index
    assert set(re.findall(r"^\| \[`([^`]+)`\]", readme, re.MULTILINE)) == files


# What follows shows that these tests can fail. The word before an id is put together here, so that the made-up
# citations are no citations of this file's own.
CITE = "spec" + ":"


def tree(root: Path, page: str, code: str = "", test: str = "") -> Path:
    for folder, name, text in (("spec", "page.md", page), ("tmmu", "code.py", code), ("tests", "test.py", test)):
        (root / folder).mkdir()
        (root / folder / name).write_text(text)
    return root


GOOD = "- **Q1.1** A cat MUST purr.  *(001 I.E)*\n- **Q1.2** A dog MUST NOT purr.  *(new)*\n"


def test_a_tree_where_all_is_cited_passes(tmp_path: Path) -> None:
    long = "# " + CITE + " Q1.1,\n    # Q1.2\n"
    root = tree(tmp_path, GOOD, long, f'"""{CITE} Q1.1, Q1.2"""')
    assert (uncited(root, CODE_FOLDERS), uncited(root, TEST_FOLDERS)) == ([], [])
    assert (dangling(root), unnumbered(root), malformed(root)) == ([], [], [])


def test_a_sentence_without_citation_is_named_on_its_side(tmp_path: Path) -> None:
    root = tree(tmp_path, GOOD, f"# {CITE} Q1.1, Q1.2", f"# {CITE} Q1.2")
    assert uncited(root, CODE_FOLDERS) == []
    assert uncited(root, TEST_FOLDERS) == ["Q1.1"]


def test_a_list_may_hold_ranges_and_go_on_over_lines() -> None:
    for text in (
        "Q1.1 to Q1.3, Q2.1",
        "Q1.1, Q1.2 and Q1.3,\n    # Q2.1",
        "Q1.1 to\n   Q1.3, and Q2.1",
        "Q1.1, Q1.2,\n \\* Q1.3, Q2.1 and so on",
    ):
        found = CITATION.search(f"{CITE} {text}")
        assert found is not None
        assert expanded(found["ids"]) == ["Q1.1", "Q1.2", "Q1.3", "Q2.1"], text
    with pytest.raises(AssertionError, match="leaves its section"):
        expanded("Q1.1 to Q2.1")


def test_an_id_in_prose_is_no_citation(tmp_path: Path) -> None:
    root = tree(tmp_path, GOOD, "# Q1.1 is kept here, see spec.md Q1.2")
    assert uncited(root, CODE_FOLDERS) == ["Q1.1", "Q1.2"]


def test_a_citation_of_no_sentence_is_named_with_its_file(tmp_path: Path) -> None:
    root = tree(tmp_path, GOOD + "See Q8.1.\n", f"# {CITE} Q1.1, Q7.1", "# spec/tmmu.md" + " Q9.1")
    assert dangling(root) == ["Q7.1 in tmmu/code.py", "Q9.1 in tests/test.py", "Q8.1 in spec/page.md"]


def test_a_must_without_number_is_named(tmp_path: Path) -> None:
    root = tree(tmp_path, GOOD + "Cats MUST fly.\n\nThe word `MUST` in code is none.\n\n```\nMUST\n```\n")
    assert unnumbered(root) == ["page.md: Cats MUST fly."]


def test_a_sentence_that_is_not_one_numbered_obligation_is_named(tmp_path: Path) -> None:
    lines = [
        "- **Q1.1** A cat may purr.  *(new)*",
        "- **Q1.2** A cat MUST purr and MUST eat.  *(new)*",
        "- **Q1.3** A cat MUST purr.",
        "- **Q1.5** A cat MUST sleep.  *(new)*",
        "- **Q1.6** A cat MUST wake.  *(new)*",
        "- **Q1.6** A cat MUST rest.  *(new)*",
    ]
    found = malformed(tree(tmp_path, "\n".join(lines)))
    assert found == [*lines[:3], "Q1.5 stands where Q1.1 belongs", "Q1.6 stands where Q1.7 belongs", "Q1.6 twice"]
