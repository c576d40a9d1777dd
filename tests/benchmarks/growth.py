"""`python -m tests.benchmarks.growth [WHAT...]`: how plan, check and verify grow from a thousand tensors to a million.

Each measurement is a process of its own. The last column is the exponent from 10,000 tensors on: seconds of processors
grow as that power of the number of tensors. What numba compiles is compiled before anything is measured.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from typing import Any

from tests.benchmarks.measure import MEASURES

SIZES = (1_000, 10_000, 100_000, 1_000_000)
FROM = 10_000
"""At fewer tensors what is the same for all sizes hides the growth."""


def _measured(what: str, count: int, layout: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.benchmarks.measure", what, str(count), layout]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def growth(layout: str, whats: tuple[str, ...] = tuple(MEASURES)) -> None:
    """Four sizes: seconds, those of processors and how they grow, peak memory."""
    _measured("plan", 100_000, layout)
    print(f"transformer-like training graphs, layout {layout}")
    heads = f"{'what':8} {'tensors':>9} {'seconds':>9} {'CPU s':>9} {'exponent':>9} {'peak MiB':>9} {'child MiB':>10}"
    print(f"{heads} {f'from {FROM}':>11}")
    for what in whats:
        cpu: dict[int, float] = {}
        for count in SIZES:
            got = _measured(what, count, layout)
            cpu[count] = got["cpu"]
            before = SIZES[max(0, len(cpu) - 2)]
            step, whole = (
                f"{math.log(cpu[count] / cpu[first]) / math.log(count / first):.2f}" if first < count else ""
                for first in (before, FROM)
            )
            child = f"{got['child_mib']:.0f}" if what == "verify" else ""
            took = f"{got['seconds']:>9.3f} {cpu[count]:>9.3f} {step:>9} {got['peak_mib']:>9.0f} {child:>10}"
            print(f"{what:8} {count:>9} {took} {whole:>11}", flush=True)


if __name__ == "__main__":
    for each in ("slots", "packed"):
        growth(each, tuple(sys.argv[1:]) or tuple(MEASURES))
