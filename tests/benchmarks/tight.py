"""Tight sets of buffers: `python -m tests.benchmarks.tight [EFFORT] [COUNT]` searches COUNT sets of each family.

The sets have 150 to 500 buffers and no free byte at any step (`tests/support/tight.py`). The table gives how many were
placed at the effort, and the CPU seconds of those. Every placement is checked against the definition.
"""

from __future__ import annotations

import random
import sys
import time

from tests.support.tight import FAMILIES, cut_tight
from tmmu.planner.layouts.boxes import place_best_fit
from tmmu.planner.layouts.search import Effort, Search, run_searches

HEIGHT = 1 << 10
"""The bytes of a set; small, so that many sizes are equal."""


def main(effort: int = 3_000_000_000, count: int = 20) -> None:
    """Print the table."""
    for name, family in FAMILIES.items():
        seconds = []
        for seed in range(count):
            rng = random.Random(f"{name} {seed}")
            boxes = cut_tight(family, seed, rng.randint(150, 500), rng.randint(60, 300), HEIGHT)
            search = Search(boxes, place_best_fit(boxes), HEIGHT)
            start = time.process_time()
            run_searches([search], Effort(effort), lambda: False)
            if search.best.height == HEIGHT:
                seconds.append(time.process_time() - start)
                assert _is_placement(boxes.birth, boxes.death, boxes.size, search.best.offsets)
        seconds.sort()
        shown = f"{seconds[len(seconds) // 2]:.2f} s median, {seconds[-1]:.2f} s most" if seconds else "none"
        print(f"{name:12} {len(seconds):>4} of {count}: {shown}", flush=True)


def _is_placement(birth: object, death: object, size: object, offset: object) -> bool:
    """Return whether no two boxes have a step and a byte in common."""
    rows = sorted(zip(birth, death, size, offset, strict=True))  # type: ignore[call-overload]
    return all(
        other[0] > row[1] or other[3] >= row[3] + row[2] or row[3] >= other[3] + other[2]
        for k, row in enumerate(rows)
        for other in rows[:k]
        if other[1] >= row[0]
    )


if __name__ == "__main__":
    main(*(int(float(argument)) for argument in sys.argv[1:]))
