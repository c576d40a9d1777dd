"""Which test runs which lines of the source: for a change, the tests that can notice it are run, quick ones first.

A record is kept from run to run. A test is looked at again where its own text, or a file that it ran, has changed.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.nightly.mutation.running import ROOT
from tests.nightly.mutation.targets import TARGETS


@dataclass
class Test:
    """One test: the digest of its text, seconds that it takes, and its lines of each file, bit n for line n."""

    version: str
    seconds: float
    failed: bool
    lines: dict[str, int]


@dataclass
class Reached:
    """Every test by its node id, and the lines of functions that run while files are imported."""

    path: Path
    tests: dict[str, Test] = field(default_factory=dict)
    imported: dict[str, int] = field(default_factory=dict)

    def load(self, files: Iterable[str]) -> None:
        """Read what is kept, the last word of each test, without tests that ran one of these files and it has changed.

        Lines of other files may be out of date.
        """
        digests = {path: digest_of(path) for path in files}
        for line in self.path.read_text().splitlines() if self.path.exists() else ():
            kept = json.loads(line)
            if "imported" in kept:
                self.imported = {path: int(bits, 16) for path, bits in kept["imported"].items()}
                continue
            self.tests.pop(kept["test"], None)
            if all(digest == digests.get(path, digest) for path, (digest, _) in kept["lines"].items()):
                lines = {path: int(bits, 16) for path, (_, bits) in kept["lines"].items()}
                self.tests[kept["test"]] = Test(kept["version"], kept["seconds"], kept["failed"], lines)

    def keep(self, names: Iterable[str]) -> None:
        """Forget all other tests: what was renamed or removed is run no more."""
        there = set(names)
        self.tests = {name: test for name, test in self.tests.items() if name in there}

    def save(self, tests: dict[str, Test]) -> None:
        """Keep what was seen of these tests. Several processes may do so at once: lines are written whole."""
        digests = {path: digest_of(path) for path in {path for test in tests.values() for path in test.lines}}
        self._write(
            {
                "test": name,
                **asdict(test),
                "lines": {path: (digests[path], hex(bits)) for path, bits in test.lines.items()},
            }
            for name, test in tests.items()
        )

    def save_imported(self) -> None:
        """Keep the lines that imports run."""
        self._write([{"imported": {path: hex(bits) for path, bits in self.imported.items()}}])

    def _write(self, records: Iterable[dict[str, object]]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(record) + "\n" for record in records)
        with self.path.open("ab", buffering=0) as out:
            out.write(text.encode())

    def of_lines(self, path: str, lines: int) -> list[str]:
        """The tests that run any of these lines of a file: those of its first target, then the quick ones."""
        own = TARGETS.get(path, ("",))

        def order(name: str) -> tuple[bool, int, bool, str]:
            slow, file = (int(self.tests[name].seconds * 20)).bit_length(), name.partition("::")[0]
            return slow > 5 or file != own[0], slow, file not in own, name

        return sorted((name for name, test in self.tests.items() if test.lines.get(path, 0) & lines), key=order)

    def of_file(self, path: str) -> list[str]:
        """The tests that run any function of a file."""
        imports = self.imported.get(path, 0)
        return self.of_lines(path, ~imports)

    def within(self, names: Iterable[str], seconds: float) -> list[str]:
        """The tests, in their order, that take so many seconds together; one at least, and none that is too long."""
        chosen: list[str] = []
        for name in names:
            if not chosen or self.tests[name].seconds <= seconds:
                chosen.append(name)
                seconds -= self.tests[name].seconds
        return chosen


def digest_of(path: str) -> str:
    """The digest of a file of the repository, "" where it is gone."""
    file = ROOT / path
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16] if file.exists() else ""


def statement_of(source: str) -> dict[int, int]:
    """The lines, as bits, of the statement that each line belongs to; of one with a body, the lines of its head."""
    found: dict[int, int] = {}
    for first, last in _statements(ast.parse(source)):
        bits = sum(1 << line for line in range(first, last + 1))
        found |= dict.fromkeys(range(first, last + 1), bits)
    return found


def _statements(tree: ast.Module) -> Iterator[tuple[int, int]]:
    for node in ast.walk(tree):  # parents come before what is in them, so that the innermost is the last to say
        if isinstance(node, ast.stmt | ast.match_case):
            body = getattr(node, "body", None)
            first = node.lineno if isinstance(node, ast.stmt) else node.pattern.lineno
            if body:
                yield first, max(first, body[0].lineno - 1)
            else:
                yield first, getattr(node, "end_lineno", None) or first
