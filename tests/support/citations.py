"""The numbered sentences of `spec/` and their citations: the grammar of `spec/README.md`."""

from __future__ import annotations

import re
from pathlib import Path

ID = r"[A-Z]+\d+\.\d+"
SENTENCE = re.compile(rf"^- \*\*(?P<id>{ID})\*\* (?P<text>.+?)  \*\((?P<source>[^()]+(?:\([^()]*\)[^()]*)*)\)\*$")
GAP = r"[\s#*\\]*"  # white space, over the end of a line the next line's comment mark too
SEPARATOR = rf"{GAP}(?:,{GAP}(?:and\s+)?|\s(?:and|to){GAP}\s)"
CITATION = re.compile(rf"spec(?::|/tmmu\.md`?){GAP}\s(?P<ids>{GAP}{ID}(?:{SEPARATOR}{GAP}{ID})*)")
RANGE = re.compile(rf"(?P<first>{ID})(?:\s+to{GAP}\s(?P<last>{ID}))?")


def pages(root: Path) -> list[Path]:
    return sorted((root / "spec").rglob("*.md"))


def sentences(root: Path) -> list[tuple[str, str]]:
    """The (id, text) of each numbered sentence, page by page in the order in which it stands."""
    lines = (line for page in pages(root) for line in page.read_text().splitlines())
    return [(found["id"], found["text"]) for found in map(SENTENCE.match, lines) if found]


def expanded(ids: str) -> list[str]:
    """The ids of a list, ranges written out."""
    names = []
    for found in RANGE.finditer(ids):
        section, first = found["first"].split(".")
        end, last = (found["last"] or found["first"]).split(".")
        assert end == section, f"{found[0]!r} leaves its section"
        names += [f"{section}.{number}" for number in range(int(first), int(last) + 1)]
    return names
