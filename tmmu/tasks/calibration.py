"""Measure how many looks a search takes in a second on this machine, to convert an effort in seconds. spec: A8.12"""

from __future__ import annotations

import time

from tmmu.planner.layouts import refit
from tmmu.planner.layouts.boxes import Boxes, place_best_fit
from tmmu.planner.layouts.compiled import Compile, compile_loop
from tmmu.planner.layouts.search import Effort, Search, run_searches

BOXES = 300
"""The boxes of the set that is searched: no effort measured here places them at their bound."""
WARMING = 1 << 20
"""The looks of the compiled search that are not measured: they load its loops, or compile them."""
MEASURED, MEASURED_UNCOMPILED = 1 << 26, 1 << 18
"""The looks that are measured: some tenths of a second."""


def measure_rate(compile_: Compile = compile_loop) -> int:
    """Return the looks in a second of CPU time, with two digits that are not 0."""
    is_compiled = compile_(refit.refit) is not None
    if is_compiled:
        _search(WARMING, compile_)
    looks = MEASURED if is_compiled else MEASURED_UNCOMPILED
    start = time.process_time()
    spent = _search(looks, compile_)
    rate = int(spent / max(time.process_time() - start, 1e-6))
    unit: int = 10 ** max(0, len(str(rate)) - 2)
    return max(1, rate // unit * unit)


def _search(looks: int, compile_: Compile) -> int:
    """Search a set of boxes of many sizes, and return the looks spent."""
    birth = [i * 7919 % 61 for i in range(BOXES)]
    death = [b + i * 104729 % 40 for i, b in enumerate(birth)]
    size = [1 + i * 1299709 % 997 for i in range(BOXES)]
    boxes, effort = Boxes(birth, death, size, [1] * BOXES, {}), Effort(looks)
    run_searches([Search(boxes, place_best_fit(boxes, compile_), 0, compile_)], effort, lambda: False)
    return effort.spent
