"""Every graph of so many nodes with every execution order, view and in-place choice mixed: hours for six nodes.

`python -m tests.soak.graphs --nodes 6 --minutes 60 --first 0` goes on from graph `--first`, and says where it came to.
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import islice

from tests.strategies.exhaustive import wrong_plans
from tests.strategies.graphs import graphs

PART = 500
"""Graphs between two looks at the clock."""


def main() -> int:
    """Look at graphs until they or the minutes end. Exit code 1 for the first whose plan is not as it must be."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.graphs", description=__doc__)
    parser.add_argument("--nodes", type=int, default=6)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--first", type=int, default=0, help="how many graphs to pass over")
    given = parser.parse_args()
    end, done = time.monotonic() + 60 * given.minutes, given.first
    every = islice(graphs(given.nodes), given.first, None)
    while time.monotonic() < end and (part := list(islice(every, PART))):
        for wrong in wrong_plans(part):
            print(f"{wrong.why}: {wrong.graph}")
            return 1
        done += len(part)
        print(f"{done} graphs of {given.nodes} nodes are planned right", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
