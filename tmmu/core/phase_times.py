"""Remember how long phases of commands took, to estimate how long they take the next time.

Much work cannot count what it has done: a solver, a kernel or a compiler answers at the end. For such a phase the last
run on this machine is the estimate, in proportion to the size of its file. The record is one small file in the user's
cache. An estimate decides nothing else, and a record that is missing, damaged or not private counts as none.
spec: C5.12, RE1.4
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import NamedTuple

from tmmu.core import folders
from tmmu.core.errors import TmmuError
from tmmu.core.reading import parse_json

RECORDED_S = 2.0
"""A phase that takes less is not remembered."""
MOST = 200
"""The most phases that are remembered, the latest."""
LIMIT = 1 << 16
"""The largest record that is read, in bytes."""
LONGEST = 120
"""The most characters of the name of a command and its phase."""


class PhaseTime(NamedTuple):
    """How long a phase took, and the bytes of the file that it worked on; 0 bytes if it was no file."""

    seconds: float
    bytes: int


def find_record() -> Path | None:
    """Return the path of the record: `tmmu/phases.json` in the user's cache. None if the user has no cache."""
    cache = folders.cache_folder()
    return None if cache is None else cache / "phases.json"


def name_phase(phase: str) -> str:
    """Return the name of a phase of the command that runs, by its first words.

    In `tmmu plan m.onnx`, planning has the name `tmmu plan planning`.
    """
    words = [os.path.basename(sys.argv[0]), *sys.argv[1:2]] if sys.argv else []
    return " ".join((*(word for word in words if not word.startswith("-") and os.sep not in word), phase))[:LONGEST]


def load_times() -> dict[str, PhaseTime]:
    """Return the phases that are remembered; none if the record is missing, damaged, or not private. O(record)."""
    path = find_record()
    found: dict[str, PhaseTime] = {}
    if path is None:
        return found
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, folders.NotPrivate):
        for name, (seconds, size) in parse_json(folders.read_private(path, LIMIT)).items():
            if isinstance(seconds, int | float) and isinstance(size, int) and 0 < seconds < 1e9 and 0 <= size < 1 << 62:
                found[str(name)] = PhaseTime(float(seconds), size)
    return found


def save_times(taken: dict[str, PhaseTime]) -> None:
    """Remember how long phases took, if they took long; the latest `MOST` are kept. Raises nothing. O(record)."""
    path, long = find_record(), {name: time for name, time in taken.items() if time.seconds >= RECORDED_S}
    if path is None or not long:
        return
    from tmmu.core.canonical import write_atomically

    earlier = load_times()
    kept = {**{name: time for name, time in earlier.items() if name not in long}, **long}
    rows = {name: [round(time.seconds, 1), time.bytes] for name, time in list(kept.items())[-MOST:]}
    with contextlib.suppress(OSError, TmmuError):
        folders.make_private(path.parent)
        write_atomically(path, json.dumps(rows).encode())


def estimate_seconds(known: PhaseTime | None, size: int) -> float | None:
    """Return how long a phase will take on a file of `size` bytes, by the last time; None if it is not known.

    >>> estimate_seconds(PhaseTime(10.0, 1000), 2000), estimate_seconds(PhaseTime(10.0, 0), 2000)
    (20.0, 10.0)
    """
    if known is None:
        return None
    return known.seconds * size / known.bytes if known.bytes and size else known.seconds
