"""Every graph of so many nodes with every execution order, and every choice of views and in-place results.

Of six nodes there are 32,768 graphs whose results have bytes of their own, 2,580,480 where some may be in place (or
views), and 23,592,960 with both mixed. `--first` goes on from a graph, and the last line says where it came to.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from itertools import islice
from math import prod
from multiprocessing import Pool
from typing import NamedTuple

from tests.support.exhaustive import wrong_plans
from tmmu.testing.strategies.every_graph import A_VIEW, IN_PLACE, choices, graphs

PART = 1000
"""Graphs that a worker looks at before it says what it found."""
WAYS: dict[str, tuple[str, ...]] = {
    "alone": (), "in-place": (IN_PLACE,), "views": (A_VIEW,), "mixed": (IN_PLACE, A_VIEW),
}  # fmt: skip


class Part(NamedTuple):
    """Some of the graphs of so many nodes: `count` of them from number `first` on."""

    nodes: int
    ways: tuple[str, ...]
    first: int
    count: int


def number_of(nodes: int, ways: Sequence[str]) -> int:
    """How many graphs there are."""
    return prod(len(choices(node, ways)) for node in range(nodes))


def wrong_in(part: Part) -> tuple[Part, list[str]]:
    """The graphs of a part whose plans are not as they must be."""
    some = islice(graphs(part.nodes, part.ways), part.first, part.first + part.count)
    return part, [f"{wrong.why}: {wrong.graph}" for wrong in wrong_plans(some)]


def main() -> int:
    """Look at graphs until they or the minutes end. Exit code 1 for the first whose plan is not as it must be."""
    parser = argparse.ArgumentParser(prog="python -m tests.nightly.soak.graphs", description=__doc__)
    parser.add_argument("--nodes", type=int, default=6)
    parser.add_argument("--ways", choices=WAYS, default="mixed")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--first", type=int, default=0, help="how many graphs to pass over")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    ways, end = WAYS[given.ways], time.monotonic() + 60 * given.minutes
    total, done = number_of(given.nodes, ways), given.first
    parts = (Part(given.nodes, ways, k, min(PART, total - k)) for k in range(given.first, total, PART))
    start, shown = time.monotonic(), time.monotonic()
    with Pool(given.workers) as pool:
        for part, wrong in pool.imap(wrong_in, parts):
            if wrong:
                print("\n".join(wrong))
                return 1
            done = part.first + part.count
            if time.monotonic() - shown > 60:
                print(f"{done} of {total}", flush=True)
                shown = time.monotonic()
            if time.monotonic() > end:
                break
    what = f"graphs {given.first} to {done} of {total} of {given.nodes} nodes, {given.ways}"
    print(f"{what}, are planned right ({time.monotonic() - start:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
