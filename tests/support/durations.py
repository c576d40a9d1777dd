"""How long tests take, so that each suite runs those that it has time for: `make test`, `test-fast`, `test-long`.

`durations.json` has the seconds of each test that took over `LISTED_S`, on an idle machine with two cores. Tests that
it does not list are short. `pytest --write-durations tests/unit tests/property tests/corpus tests/integration` measures
them again. The seconds only choose tests, and order them: no test passes or fails by them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import pytest

Item = TypeVar("Item", bound=pytest.Item)
FILE = Path(__file__).with_name("durations.json")
LISTED_S = 0.05
"""What `make test-fast` leaves out. `make test` leaves out much longer ones; the Makefile has its limit."""


def read() -> dict[str, float]:
    """Return the seconds of each test that is listed, by its id."""
    listed: dict[str, float] = json.loads(FILE.read_text())
    return listed


def write(measured: dict[str, float]) -> None:
    """Write the seconds of tests that were measured; those of others stay, if their files do."""
    of_files = {name.partition("::")[0] for name in measured}
    kept = {name: seconds for name, seconds in read().items() if name.partition("::")[0] not in of_files}
    listed = kept | {name: round(seconds, 2) for name, seconds in measured.items() if seconds > LISTED_S}
    FILE.write_text(json.dumps(dict(sorted(listed.items())), indent=0) + "\n")


def divide(items: Sequence[Item], longer_than: float, at_most: float) -> tuple[list[Item], list[Item]]:
    """Return the tests that take longer than the one limit and at most the other, in seconds, and the others."""
    listed, chosen, others = read(), list[Item](), list[Item]()
    for item in items:
        (chosen if longer_than < listed.get(item.nodeid, 0.0) <= at_most else others).append(item)
    return chosen, others


def order(items: Sequence[Item], workers: int) -> list[Item]:
    """Return the tests so that each worker begins with its share of those that take longest.

    `--dist worksteal` first gives each worker one piece of the list, all of one length. At the end short tests keep all
    of them busy.
    """
    listed = read()
    long = sorted((item for item in items if item.nodeid in listed), key=lambda item: -listed[item.nodeid])
    short = [item for item in items if item.nodeid not in listed]
    size, ordered = len(items) // workers, list[Item]()
    for worker in range(workers):
        mine = long[worker::workers]
        ordered += mine + short[: max(0, size - len(mine))]
        del short[: max(0, size - len(mine))]
    return ordered + short
