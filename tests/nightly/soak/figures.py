"""What came of the faults: a tally by code and fault, kept in a file from which a later run goes on."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tmmu.core.canonical import write_atomically
from tmmu.testing.catalogue import CODES, FAULTS

COLUMNS = ("injected", "refused", "by code", "first", "confirmed", "rows", "no rows", "kernel", "no kernel")
"""Faults that were injected; that were refused; with that code; with that code as the witness; whose witness holds; for
which the solver was asked for rows, and did not discharge them; for which the kernel was asked, and
did not accept it."""

SHOWN = 20
"""How many faults that were not caught as they must be are printed."""


@dataclass
class Figures:
    """Counts by (title of a fault, column), right plans that were proved, and what was not caught as it must be."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    cases: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def count(self, title: str, column: str) -> None:
        """One more."""
        self.counts[title, column] += 1

    def add(self, other: Figures) -> None:
        """Take the figures of another run of other numbers."""
        self.counts.update(other.counts)
        self.cases.update(other.cases)
        self.wrong += other.wrong
        self.seconds += other.seconds

    def of(self, code: str, column: str) -> int:
        """A column for all faults of one code."""
        return sum(n for (title, which), n in self.counts.items() if which == column and title.startswith(f"{code}/"))

    def injected(self) -> dict[str, int]:
        """How many faults were injected for each code."""
        return {code: self.of(code, "injected") for code in CODES}

    def table(self, each: bool = False) -> str:
        """The figures as text: a line for each code, or for `each` fault."""
        lines = [" ".join([f"{'fault' if each else 'code':40}", *(f"{name:>9}" for name in COLUMNS)])]
        for name in FAULTS if each else CODES:
            row = [self.counts[name, column] if each else self.of(name, column) for column in COLUMNS]
            lines.append(" ".join([f"{name:40}", *(f"{value:>9}" for value in row)]))
        total = [sum(n for (_, which), n in self.counts.items() if which == column) for column in COLUMNS]
        lines.append(" ".join([f"{'together':40}", *(f"{value:>9}" for value in total)]))
        made = ", ".join(f"{n} {kind}" for kind, n in sorted(self.cases.items()))
        lines.append(f"{made}; {self.seconds:.0f} seconds of work")
        return "\n".join([*lines, f"{len(self.wrong)} not caught as they must be", *self.wrong[:SHOWN]])

    def save(self, path: Path, following: dict[str, int]) -> None:
        """Write the figures, and the number with which each kind of case goes on."""
        rows: dict[str, dict[str, int]] = {}
        for (title, column), n in sorted(self.counts.items()):
            rows.setdefault(title, {})[column] = n
        text = {
            "following": following, "cases": dict(self.cases), "seconds": round(self.seconds, 1),
            "wrong": self.wrong, "faults": rows,
        }  # fmt: skip
        write_atomically(path, json.dumps(text, indent=1).encode())


def load(path: Path) -> tuple[Figures, dict[str, int]]:
    """The figures in a file, and where to go on; none yet where there is no file."""
    if not path.exists():
        return Figures(), {}
    text: dict[str, Any] = json.loads(path.read_text())
    counts = Counter({(title, column): n for title, row in text["faults"].items() for column, n in row.items()})
    return Figures(counts, Counter(text["cases"]), text["wrong"], text["seconds"]), text["following"]
