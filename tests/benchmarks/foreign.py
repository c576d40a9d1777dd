"""Plans of other producers: what `verify-plan` takes for each, and their footprint beside ours.

`python -m tests.benchmarks.foreign [PATH…]` reads the plans at PATH, by default those of `tests/corpus/foreign/proved`
in which memory is used again. Seconds are of the processor, in the command and all processes that it starts. Ours are
the same storages with the same lifetimes, at the alignment that their offsets have (64 bytes at most), packed by
`pack_buffers` with EFFORT looks: in their arenas one by one, and all in one. An arena that one of the caller's tensors
fills is left out.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

from proofs.readers.plans import formats
from tmmu.core.vocabulary import Role
from tmmu.planner.buffers import LiveBuffer, pack_buffers, peak_bytes
from tmmu.plans.allocation import Allocation, Placement
from tmmu.plans.columns import ROLES

ROOT = Path(__file__).resolve().parents[2]
PROVED = ROOT / "tests/corpus/foreign/proved"
CHOSEN = (
    "executorch-transformer.pte", "inductor-block.inductor",
    "inductor-convolutions.inductor", "iree-products.iree", "relax-block.relax", "tflite-cnn.tflite", "vela-cnn.txt",
    "xla-cond-while", "xla-scan", "xla-train-remat", "xla-train-scan-remat", "xla-train-step",
)  # fmt: skip
WIDEST = 64
EFFORT = 10_000_000
SUBREAPER = 36
"""`PR_SET_CHILD_SUBREAPER` of Linux: what a child leaves running becomes ours, so that its time is counted."""


def seconds(path: Path) -> float:
    """The processor's time that proving a file takes, solvers and kernel included."""
    proving = subprocess.Popen(["verify-plan", path], stdout=subprocess.DEVNULL)
    total = 0.0
    while True:
        try:
            child, status, usage = os.wait3(0)
        except ChildProcessError:
            return total
        assert child != proving.pid or status == 0, path
        total += usage.ru_utime + usage.ru_stime


def callers(placement: Placement) -> set[int]:
    """The storages of what the caller writes."""
    if not isinstance(placement, Allocation):
        return set()
    t = placement.tensors
    rows = zip(t.storage.tolist(), t.role.tolist(), strict=True)
    return {storage for storage, role in rows if ROLES[role] in (Role.INPUT, Role.PARAMETER)}


def footprints(placement: Placement) -> tuple[int, int, int, int, int]:
    """Buffers, their footprint, the bytes live at the peak, ours in the same arenas, ours in one."""
    s, given = placement.storages, callers(placement)
    columns = (s.arena, s.birth, s.death, s.bytes, s.offset)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    members: dict[int, list[int]] = {}
    for k, (arena, *_) in enumerate(rows):
        members.setdefault(arena, []).append(k)
    used, theirs, ours = list[LiveBuffer](), 0, 0
    for of in members.values():
        end = max(rows[k][4] + rows[k][3] for k in of)
        if any(k in given and rows[k][3] == end for k in of):
            continue
        offsets = [rows[k][4] for k in of]
        step = next(step for step in (64, 32, 16, 8, 4, 2, 1) if not any(offset % step for offset in offsets))
        buffers = [LiveBuffer(rows[k][1], rows[k][2], rows[k][3], step) for k in of]
        theirs, ours = theirs + end, ours + pack_buffers(buffers, EFFORT).height
        used += buffers
    return len(used), theirs, peak_bytes(used), ours, pack_buffers(used, EFFORT).height


def main(*paths: str) -> None:
    """Print the table."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    print(f"{'plan':34} {'buffers':>7} {'peak live':>12} {'theirs':>12} {'ours':>12} {'ours in one':>12} {'CPU s':>6}")
    for path in map(Path, paths or [str(PROVED / name) for name in CHOSEN]):
        found = sorted(path.rglob("*-buffer-assignment.txt")) if path.is_dir() else [path]
        for one in found:
            count, theirs, peak, ours, single = footprints(formats.load_any(one).plan.placement)
            name = (path.name if len(found) == 1 else one.name)[-34:]
            print(
                f"{name:34} {count:>7} {peak:>12} {theirs:>12} {ours:>12} {single:>12} {seconds(one):>6.2f}", flush=True
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
