"""Measure access times on this machine beside the document's latency model: caches, page faults, the disk, one vector.

Levels of memory are measured by a pointer chase in C (`pointer_chase.c`), since a loop of Python takes longer than a
load from DRAM. A vector is read through a mapped region and through a sealed log, as a user reads it. Before a cold
read, mincore has just reported its pages as absent. Times are nanoseconds. spec: MN6.10 to MN6.13
"""

from __future__ import annotations

import mmap
import os
import resource
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns

import numpy as np
from numpy.typing import NDArray

from tmmu.core import children, folders
from tmmu.core.errors import TmmuError
from tmmu.core.extras import require_package
from tmmu.mnemosyne import delta
from tmmu.mnemosyne.address_space import PAGE, TILE
from tmmu.mnemosyne.keys import MasterKey
from tmmu.mnemosyne.latency import KIB, LEVELS, MEDIA, PAGE_FAULT, TARGETS
from tmmu.mnemosyne.regions import RegionStore
from tmmu.mnemosyne.sealed_log import SealedLog, SealedReader
from tmmu.runtime.ram import text_of

MIB = 1 << 20
ELEMENTS = 4096
VECTOR = 2 * ELEMENTS
"""Bytes of the document's vector: 4096 elements of FP16."""
CHASE = Path(__file__).with_name("pointer_chase.c")


@dataclass(frozen=True)
class MeasurementSizes:
    """How much is measured: bytes of the file, and the number of reads of each kind."""

    file: int = 256 * MIB
    reads: int = 1000
    cold: int = 300


@dataclass(frozen=True)
class MeasuredLine:
    """One line of the measurement: name, median, 99th percentile, and the document's figure, in nanoseconds.

    For loads, `p50` is the mean of many loads and `p99` is None.
    """

    name: str
    p50: float
    p99: float | None
    document: str


@dataclass(frozen=True)
class Measurement:
    """All lines, and the bytes a second of a sequential read of the disk."""

    lines: list[MeasuredLine]
    read_speed: float


def measure(folder: Path, sizes: MeasurementSizes | None = None) -> Measurement:
    """Measure levels of memory, page faults, reads and vectors. Files are created in `folder` and removed.

    Raises MISSING_PACKAGE without the package that seals vectors and INVALID_SETTING without a C compiler, both before
    anything is written; INVALID_SETTING if the folder's pages cannot be dropped from memory.
    """
    require_package("cryptography", "measuring sealed vectors", "mnemosyne")
    find_compiler()
    sizes = sizes or MeasurementSizes()
    with tempfile.TemporaryDirectory(prefix="tmmu-measure-", dir=folder) as name:
        file = Path(name) / "vectors"
        rng = np.random.default_rng(2)
        with open(file, "wb") as out:
            for _ in range(sizes.file // MIB):
                out.write(rng.bytes(MIB))
            out.flush()
            os.fsync(out.fileno())
        speed, reads = measure_disk(file, sizes.reads)
        lines = [
            *measure_levels(Path(name)),
            _line(
                "page fault", measure_page_faults(file), f"{PAGE_FAULT.least / 1000:g} to {PAGE_FAULT.most / 1000:g} µs"
            ),
            _line("read of 4 KiB", reads, ", ".join(f"{m}: {s.least / 1000:g}+ µs" for m, s in MEDIA.items())),
            *measure_vectors(file, sizes),
        ]
    return Measurement(lines, speed)


def find_compiler() -> str:
    """Return the path of the C compiler, that of CC if it is set. Raises INVALID_SETTING without one."""
    compiler = folders.find_program(os.environ.get("CC") or "cc")
    if compiler is None:
        raise TmmuError(
            "INVALID_SETTING", "measuring levels of memory needs a C compiler, and cc was not found",
            fix="install gcc or clang, or name the compiler in CC", operator="Mnemosyne.tau", setting="CC",
        )  # fmt: skip
    return compiler


def measure_levels(folder: Path, caches: list[tuple[str, int]] | None = None) -> Iterator[MeasuredLine]:
    """Measure a load from each level of memory: half the size of each cache, and four times the largest for DRAM.

    `caches` are names and bytes, the fastest first. The default is those of /sys, or the document's if /sys lists none.
    """
    caches = caches or data_caches() or [(name, size) for name, (size, _) in LEVELS.items() if size]
    compiler = find_compiler()
    program = folder / "pointer_chase"
    done = children.run([compiler, "-O2", "-std=c99", "-o", program, CHASE])
    if done.returncode:
        raise TmmuError(
            "INVALID_SETTING", f"{compiler} cannot compile {CHASE.name}: {done.stderr.decode(errors='replace')}",
            fix="install gcc or clang with the headers of the C library", operator="Mnemosyne.tau", setting="CC",
        )  # fmt: skip
    places = [*((name, size // 2) for name, size in caches), ("DRAM", 4 * caches[-1][1])]
    out = children.run([program, *(str(size) for _, size in places)])
    out.check_returncode()
    for (name, size), line in zip(places, out.stdout.decode().splitlines(), strict=True):
        stated = f"{LEVELS[name][1]:g} ns" if name in LEVELS else "not stated"
        yield MeasuredLine(f"{name} ({size // KIB} KiB)", float(line.split()[1]), None, stated)


def data_caches(system: Path = Path("/sys")) -> list[tuple[str, int]]:
    """Return the name and bytes of the first processor's data caches, the fastest first."""
    found = []
    for index in sorted((system / "devices/system/cpu/cpu0/cache").glob("index*")):
        level, size = text_of(index / "level").strip(), text_of(index / "size").strip()
        kind = text_of(index / "type").strip()
        if kind in ("Data", "Unified") and size.endswith("K") and size[:-1].isdigit():
            found.append((f"L{level}", int(size[:-1]) * KIB))
    return found


def measure_page_faults(path: Path, pages: int = 4096) -> NDArray[np.float64]:
    """Measure faults on pages that are in memory and not yet mapped: nanoseconds, the mean of each of 16 regions.

    The system maps neighbours along with a page. So the time is divided by the number of faults that it reports.
    """
    found = []
    size = min(pages * PAGE, path.stat().st_size) // 16 // TILE * TILE
    with open(path, "rb") as file:
        file.read(16 * size)
    for k in range(16):
        with RegionStore() as store:
            bytes_ = store.map(path, offset=k * size, size=size).view()
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            taken = _time_sweep(bytes_)
            faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
            # The quickest of some sweeps without faults: a slower one was interrupted.
            found.append((taken - min(_time_sweep(bytes_) for _ in range(5))) / max(faults, 1))
            del bytes_
    return np.array(found)


def _time_sweep(bytes_: NDArray[np.uint8]) -> int:
    """Return the nanoseconds of reading one byte of each page."""
    begin = perf_counter_ns()
    int(bytes_[::PAGE].sum())
    return perf_counter_ns() - begin


def measure_disk(path: Path, reads: int) -> tuple[float, NDArray[np.float64]]:
    """Measure the disk past the page cache: sequential bytes a second, and nanoseconds of random reads of 4 KiB.

    Uses `O_DIRECT` if the file system has it; otherwise the cache is dropped before each read.
    """
    size = path.stat().st_size
    direct = True
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    except OSError:
        descriptor, direct = os.open(path, os.O_RDONLY), False
    try:
        with mmap.mmap(-1, MIB) as buffer:  # O_DIRECT requires a page-aligned address
            drop_pages(path)
            begin = perf_counter_ns()
            for offset in range(0, size, MIB):
                os.preadv(descriptor, [buffer], offset)
            speed = size / (perf_counter_ns() - begin) * 1e9
            with memoryview(buffer) as whole, whole[:4096] as part:
                times = np.empty(reads)
                for k, block in enumerate(np.random.default_rng(1).integers(0, size // 4096, reads).tolist()):
                    if not direct:
                        drop_pages(path)
                    begin = perf_counter_ns()
                    os.preadv(descriptor, [part], block * 4096)
                    times[k] = perf_counter_ns() - begin
    finally:
        os.close(descriptor)
    return speed, times


def drop_pages(path: Path) -> None:
    """Drop the pages of a file from memory, except those that a process has mapped."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def measure_vectors(path: Path, sizes: MeasurementSizes) -> Iterator[MeasuredLine]:
    """Measure copying one vector of 8 KiB into an array: warm, cold, decrypted, and decoded from a block of 64."""
    target = f"P50 {TARGETS['P50'] / 1000:g} µs, P99 {TARGETS['P99'] / 1000:g} µs"
    there = path.stat().st_size // VECTOR
    places = np.random.default_rng(3).integers(0, there, sizes.reads).tolist()
    into = np.empty(ELEMENTS, np.float16)
    with RegionStore() as store:
        region = store.map(path)

        def warm(at: int) -> None:
            np.copyto(into, region.view(at * VECTOR, (at + 1) * VECTOR, np.float16))

        for at in places:
            warm(at)
        yield _line("vector, warm", time_reads(warm, places), target)
    yield _line("vector, cold", measure_cold_reads(path, places[: sizes.cold], into), target)
    with ExitStack() as stack:
        key = MasterKey.create(path.with_name("key"))
        count = min(there, 4 * delta.BLOCK)
        data = np.fromfile(path, np.uint16, count * ELEMENTS).reshape(count, ELEMENTS)
        whole, blocks = path.with_name("vectors.log"), path.with_name("blocks.log")
        anchors = [path.with_name("vectors.anchor"), path.with_name("blocks.anchor")]
        with SealedLog.open(whole, key, anchors[0]) as log:
            for token, row in enumerate(data):
                log.append(token, row.tobytes())
        with SealedLog.open(blocks, key, anchors[1]) as log:
            for at in range(0, count, delta.BLOCK):
                log.append(at, delta.encode_lossless(data[at : at + delta.BLOCK]).records.tobytes())
        single = stack.enter_context(SealedReader.open(whole, key, anchors[0]))
        block = stack.enter_context(SealedReader.open(blocks, key, anchors[1]))

        def decrypted(at: int) -> None:
            np.copyto(into, np.frombuffer(single[at].data, np.float16))

        def decoded(at: int) -> None:
            records = np.frombuffer(block[at // delta.BLOCK].data, np.uint16).reshape(-1, ELEMENTS)
            deltas = delta.LosslessDeltas(np.dtype(np.float16), delta.BLOCK, records)
            place = at % delta.BLOCK
            np.copyto(into, deltas.decode(place, place + 1)[0])

        here = [at % count for at in places]
        yield _line("vector, decrypted", time_reads(decrypted, here), target)
        yield _line(f"vector, decrypted and decoded (block of {delta.BLOCK})", time_reads(decoded, here), target)


def measure_cold_reads(path: Path, places: list[int], into: NDArray[np.float16]) -> NDArray[np.float64]:
    """Measure reads through a region none of whose pages was in memory, in nanoseconds.

    Raises INVALID_SETTING if the pages stay in memory.
    """
    found = []
    for at in places:
        offset = at * VECTOR // TILE * TILE
        drop_pages(path)
        with RegionStore() as store:
            region = store.map(path, offset=offset, size=TILE, access="random")
            if store.space.resident(region.base, TILE).any():
                continue
            begin = perf_counter_ns()
            first = at * VECTOR - offset
            np.copyto(into, region.view(first, first + VECTOR, np.float16))
            found.append(perf_counter_ns() - begin)
    if not found:
        raise TmmuError(
            "INVALID_SETTING", f"the pages of {path.parent.parent} stay in memory, so that no read is cold",
            fix="name a folder on a disk", operator="Mnemosyne.tau", setting="folder",
        )  # fmt: skip
    return np.array(found, np.float64)


def time_reads(read: Callable[[int], None], places: list[int]) -> NDArray[np.float64]:
    """Return the nanoseconds of each read."""
    times = np.empty(len(places))
    for k, at in enumerate(places):
        begin = perf_counter_ns()
        read(at)
        times[k] = perf_counter_ns() - begin
    return times


def _line(name: str, times: NDArray[np.float64], document: str) -> MeasuredLine:
    p50, p99 = np.percentile(times, [50, 99], method="inverted_cdf")
    return MeasuredLine(name, float(p50), float(p99), document)
