"""Where the synonyms occur that `spec/glossary.md` lists as not used, and the public classes that share a name.

`python -m tests.support.glossary` prints each place and, at the end, how often each word occurs.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.sources import nodes, tree

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "spec/glossary.md"
WHERE = {"anywhere", "prose", "identifiers", "names"}

_ENTRY = re.compile(r"^\| (?P<words>`[^|]+`) \| (?P<where>\w+) \| (?P<use>[^|]+) \|$", re.MULTILINE)
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_QUOTED = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`|\]\([^)\n]*\)", re.MULTILINE | re.DOTALL)
_COMMENTS = {".v": re.compile(r"\(\*.*?\*\)", re.DOTALL), ".tla": re.compile(r"\(\*.*?\*\)|\\\*[^\n]*", re.DOTALL)}


class Synonym(NamedTuple):
    """A word that is not used, where it is not, and what is used instead."""

    word: str
    where: str
    use: str


class Place(NamedTuple):
    """A line of a file with a word that is not used."""

    line: int
    word: str


def synonyms(page: str) -> list[Synonym]:
    """The table of the glossary, a row for each word."""
    return [
        Synonym(word, entry["where"], entry["use"])
        for entry in _ENTRY.finditer(page)
        for word in re.findall(r"`([^`]+)`", entry["words"])
    ]


class Search:
    """Finds synonyms in a text, by its suffix: Python, Coq, TLA+ or Markdown."""

    def __init__(self, unused: list[Synonym]) -> None:
        prose = sorted((s.word for s in unused if s.where in ("anywhere", "prose")), key=len, reverse=True)
        self.prose = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, prose)) or '(?!)'})(?!\w)", re.IGNORECASE)
        self.parts = {s.word for s in unused if s.where in ("anywhere", "identifiers")}
        self.names = {s.word for s in unused if s.where == "names"}
        some = "|".join(sorted({re.escape(form) for s in unused for form in (s.word, s.word.title(), s.word.upper())}))
        self.perhaps = re.compile(rf"(?<![a-z])(?:{some})(?![a-z])|(?:{some.title()})(?![a-z])")

    def found(self, text: str, suffix: str) -> list[Place]:
        """Each place once, by line."""
        if not self.perhaps.search(text):  # which spares most files the slow tokenizer
            return []
        if suffix == ".py":
            return sorted({*self._identifiers(text), *self._strings(text)})
        if suffix == ".md":
            return sorted({*self._prose(text, 1)})
        comments = _COMMENTS[suffix].finditer(text)
        return sorted({place for c in comments for place in self._prose(c[0], text.count("\n", 0, c.start()) + 1)})

    def _prose(self, text: str, line: int) -> Iterator[Place]:
        blank = _QUOTED.sub(lambda quoted: "\n" * quoted[0].count("\n"), text)
        for number, row in enumerate(blank.splitlines(), line):
            yield from (Place(number, hit[0].lower()) for hit in self.prose.finditer(row))

    def _identifiers(self, text: str) -> Iterator[Place]:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield from self._prose(token.string, token.start[0])
            elif token.type == tokenize.NAME:
                words = {part.lower() for part in _PART.findall(token.string)} & self.parts
                words |= {token.string} & self.names | {w for w in self.parts if "_" in w and w in token.string}
                yield from (Place(token.start[0], word) for word in words)

    def _strings(self, text: str) -> Iterator[Place]:
        for node in nodes(text):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield from self._prose(node.value, node.lineno)


def files(root: Path) -> Iterator[Path]:
    """What is searched: sources of tmmu, proofs, tla and tests/support, and pages."""
    for folder in ("tmmu", "proofs", "tla", "tests/support"):
        yield from sorted(path for path in (root / folder).rglob("*") if path.suffix in (".py", ".v", ".tla"))
    pages = [root / "README.md", *(root / "spec").rglob("*.md"), *(root / ".github").glob("*.md")]
    pages += [*(root / "tests").rglob("README.md"), *(root / "tla").glob("*.md")]
    yield from sorted(path for path in pages if path.name != "glossary.md" and path.is_file())


def everywhere(root: Path = ROOT) -> dict[str, list[Place]]:
    """The files that have any, with the places."""
    search = Search(synonyms(PAGE.read_text("utf-8")))
    found = {path.relative_to(root).as_posix(): search.found(path.read_text("utf-8"), path.suffix)
             for path in files(root)}  # fmt: skip
    return {path: places for path, places in found.items() if places}


def classes(root: Path = ROOT) -> dict[str, list[str]]:
    """The modules of each public class name of tmmu and proofs that stands in more than one."""
    modules: dict[str, list[str]] = defaultdict(list)
    for path in (*(root / "tmmu").rglob("*.py"), *(root / "proofs").rglob("*.py")):
        for node in tree(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(path.relative_to(root).as_posix())
    return {name: sorted(paths) for name, paths in sorted(modules.items()) if len(paths) > 1}


def main() -> None:
    """Print what is found."""
    found = everywhere()
    for path, places in found.items():
        print("\n".join(f"{path}:{line}: {word}" for line, word in places))
    print(
        *(f"{n:5} {word}" for word, n in Counter(p.word for ps in found.values() for p in ps).most_common()), sep="\n"
    )


if __name__ == "__main__":
    main()
