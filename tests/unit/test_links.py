"""Links in the project's pages lead to what is there, and anchors to a heading."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "spec").rglob("*.md")),
    *sorted((ROOT / ".github").glob("*.md")),
    *sorted((ROOT / "tests").rglob("README.md")),
    ROOT / "tla/README.md",
    ROOT / "proofs/proving/lemmas/README.md",
]
LINK = re.compile(r"\]\(<?([^)\s>]+)>?[^)]*\)")
FENCE = re.compile(r"^ *(```|~~~).*?^ *\1", re.MULTILINE | re.DOTALL)


VERB = re.compile(
    "Add|Call|Check|Find|Go|Have|Keep|Learn|Let|Look|Plan|Print|Prove|Put|Recompute|Report|Run|Search|See|Send|Test|Turn|"
    "Use|Verify|Write"
)
"""Words with which a page may begin."""


def find_first_word(text: str) -> str:
    """The first word behind the heading of a page, "" for a heading or a fence there."""
    found = re.match(r"#[^\n]*\n+(\w+)", text)
    return found[1] if found else ""


def anchors(text: str) -> set[str]:
    """The names under which the headings of a page are reached: lower case, a hyphen for a space, no punctuation."""
    headings = re.findall(r"^#+ +(.*?) *#*$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead(page: Path, root: Path = ROOT) -> Iterator[str]:
    """The relative links of a page that lead nowhere, or out of the project."""
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        if re.match(r"[a-z][a-z+.-]*:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        is_page = target.suffix == ".md" and target.is_file()
        found = target.is_relative_to(root) and target.exists()
        if not found or (anchor and is_page and anchor not in anchors(target.read_text())):
            yield link


def test_every_relative_link_leads_somewhere() -> None:
    assert {page: found for page in PAGES if (found := list(dead(page)))} == {}


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    menu = re.findall(r"^ +- (?:[^:\n]+: )?(\S+\.md)$", (ROOT / ".github/site/mkdocs.yml").read_text(), re.MULTILINE)
    pages = {page.relative_to(ROOT / "spec").as_posix() for page in (ROOT / "spec").rglob("*.md")}
    assert pages - set(menu) == {"README.md"}
    assert sorted(set(menu)) == sorted(menu)


def test_a_page_begins_with_what_its_reader_can_do() -> None:
    """The pages of the site; a report to another project begins as that project wants it."""
    of_site = ("spec", "tutorials", ".github", "tla", "lemmas", "tests", ROOT.name)
    pages = [page for page in PAGES if page.parent.name in of_site and page.stem != "ISSUE_TEMPLATE"]
    assert len(pages) > 40
    words = {page: find_first_word(page.read_text()) for page in pages}
    assert {page: word for page, word in words.items() if not VERB.fullmatch(word)} == {}


@pytest.mark.parametrize(
    "text", ["# A\n\n`tmmu report` draws a plan.\n", "# A\n\n## B\n\nFind it.\n", "# A\n\n```\nx\n```\n", ""]
)
def test_a_page_that_begins_otherwise_is_noticed(text: str) -> None:
    assert not VERB.fullmatch(find_first_word(text))
    assert VERB.fullmatch(find_first_word("# A\n\nFind it.\n"))


def test_links_are_found_and_dead_ones_told(tmp_path: Path) -> None:
    assert sum(len(LINK.findall(page.read_text())) for page in PAGES) >= 50
    (tmp_path / "other.md").write_text("# Two words, and `code`\n")
    (tmp_path / "page.md").write_text(
        "[a](other.md) [b](other.md#two-words-and-code) [c](https://example.com/x) [d](none.py)\n[e](other.md#three)"
        " [f](../../x) [g](#here) ![h](none.png 'title')\n```\n[i](none.md)\n```\n# Here\n"
    )
    assert list(dead(tmp_path / "page.md", tmp_path)) == ["none.py", "other.md#three", "../../x", "none.png"]
