"""The reduced corpus that `make test` replays: for each reader a few small inputs that reach much, in one archive."""

from __future__ import annotations

import time
import zipfile
import zlib
from pathlib import Path

from tests.nightly.fuzz.bounds import run_input
from tests.nightly.fuzz.targets import TARGETS

STORED = Path(__file__).resolve().parents[2] / "corpus" / "fuzz.zip"
MOST, LARGEST = 40, 1 << 14
"""The most inputs of a reader, and the bytes of the largest."""
BYTES, SECONDS = 8000, 0.04
"""The compressed bytes, and the time, that the inputs of one reader may take: 300 KB and two seconds in all."""
ENTRY = 120
"""The bytes of an archive's entries for one member."""
WHEN = (2026, 1, 1, 0, 0, 0)


def read_stored(path: Path = STORED) -> dict[str, list[bytes]]:
    """Return the stored inputs of each reader."""
    found: dict[str, list[bytes]] = {}
    if path.exists():
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                found.setdefault(name.split("/")[0], []).append(archive.read(name))
    return found


def write_stored(work: Path, path: Path = STORED) -> str:
    """Choose inputs from the corpus of each reader, and write the archive; return how many and how large.

    Each input of a corpus reaches something that those before it did not. The quick ones are taken, the smallest first,
    until the reader's share is full. Each reader has one at least.
    """
    count = 0
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, target in sorted(TARGETS.items()):
            room, left, number = BYTES, SECONDS, 0
            for data in sorted({each.read_bytes() for each in (work / "corpus" / name).iterdir()}, key=len):
                packed = len(zlib.compress(data, 9)) + ENTRY
                if number and (number == MOST or packed > room or len(data) > LARGEST):
                    break
                if number == 0:  # modules are loaded by the first
                    run_input(target, data)
                begin = time.perf_counter()
                is_right = run_input(target, data) is None
                taken = time.perf_counter() - begin
                if is_right and (taken <= left or number == 0):
                    archive.writestr(zipfile.ZipInfo(f"{name}/{number:03}", WHEN), data, zipfile.ZIP_DEFLATED, 9)
                    room, left, number, count = room - packed, left - taken, number + 1, count + 1
    return f"{count} inputs in {path.stat().st_size} bytes"
