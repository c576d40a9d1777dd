"""Represent the path of one module: its constants, its given values, and a line for each action in the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from proofs.model_check.following.log import LARGEST, Event, WrongLog

MOST = 50_000
"""The maximum number of actions in one path."""


@dataclass(frozen=True)
class Line:
    """An action of the module, the number of its line in the log, and the log's observations, as a TLA+ record."""

    source: int
    action: str
    record: str


@dataclass
class Path:
    """A sequence of lines to validate against a module.

    `folder` is the module's folder in `tla/`. `constants` and `given` are values for its constants and for variables
    that its initial predicate leaves open. `end` is the log's statement about the end, if it has one. `subject`
    distinguishes paths of one module.
    """

    module: str
    subject: str
    first: int
    constants: dict[str, str] = field(default_factory=dict)
    given: dict[str, str] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    end: Line | None = None
    folder: str = "tmmu"

    def add(self, source: int, action: str, **observed: Any) -> None:
        """Add a line. Raises `WrongLog` if there are too many, or a number is too large for TLC."""
        if len(self.lines) >= MOST:
            raise WrongLog(source, f"more than {MOST} actions of {self.module}; follow a shorter run")
        self.lines.append(format_line(source, action, observed))

    def ends(self, source: int, **observed: Any) -> None:
        """Set the log's statement about the end."""
        self.end = format_line(source, "the end", observed)


def path_of_storages(
    module: str, event: Event, rows: Sequence[Sequence[int]], folder: str = "tmmu"
) -> tuple[Path, dict[int, int]]:
    """Return a path of an arena whose storages are placed, and the module's number of each: its position in `rows`.

    A row is the storage, its birth and death and its bytes; only the order of the bytes counts.
    """
    number = {row[0]: n for n, row in enumerate(rows, 1)}
    if len(number) != len(rows):
        raise WrongLog(event.line, "a storage is listed twice")
    rank = {size: n for n, size in enumerate(sorted({row[3] for row in rows}), 1)}
    last = max((max(row[1], row[2]) for row in rows), default=0)
    path = Path(module, f"arena {event.fields['arena']}", event.line, folder=folder)
    path.constants = {
        "Count": str(len(rows)), "LastStep": format_value(last, event.line), "MaxSize": str(max(1, len(rank))),
    }  # fmt: skip
    path.given = {
        "birth": format_value([row[1] for row in rows]),
        "death": format_value([row[2] for row in rows]),
        "size": format_value([rank[row[3]] for row in rows]),
    }
    return path, number


def unended(path: Path) -> WrongLog:
    """Return the error about a path of storages whose last line is missing. spec: U5.26"""
    return WrongLog(path.first, f"what {path.module} places in {path.subject} has no end: the log was cut off")


def format_line(source: int, action: str, observed: dict[str, Any]) -> Line:
    """Return a line as a record of the action and the observations."""
    return Line(source, action, format_value({"action": action, **observed}, source))


def format_value(item: Any, source: int | None = None) -> str:
    r"""Return a value as a TLA+ expression.

    >>> format_value({"action": "Ask", "need": [1, 2], "granted": True})
    '[action |-> "Ask", need |-> <<1, 2>>, granted |-> TRUE]'
    """
    if isinstance(item, bool):
        return "TRUE" if item else "FALSE"
    if isinstance(item, int):
        if abs(item) > LARGEST:
            raise WrongLog(source, f"{item} is beyond what TLC can count")
        return str(item)
    if isinstance(item, str):
        return f'"{item}"'  # names of actions and phases, never a name from the log
    if isinstance(item, dict):
        return "[" + ", ".join(f"{key} |-> {format_value(entry, source)}" for key, entry in item.items()) + "]"
    return "<<" + ", ".join(format_value(entry, source) for entry in item) + ">>"
