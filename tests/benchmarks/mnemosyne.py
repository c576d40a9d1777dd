"""`python -m tests.benchmarks.mnemosyne`: the store beside a plain file and databases, and δ's bytes a second.

The plain loop has NumPy (`diff` and `add.accumulate` of the bits), a file and AES-GCM, with as many syncs; without δ
it seals the vectors as they are. All have the same vectors in records of the same size, and take turns. The best rates
are printed, and the median over the turns of how fast the store is beside a loop, in seconds of both ways. δ is
measured on one core, in blocks of 1 MiB, with and without Zstandard.

Single vectors are read at random and added durably, one by one, in the store, in SQLite and LMDB whose values are
sealed by AES-GCM, and in a NumPy file without encryption, whose additions are appended rows with a sync.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tmmu.mnemosyne.keys import MasterKey
from tmmu.mnemosyne.npy_files import ArrayVectors
from tmmu.mnemosyne.store import VectorStore, decoded
from tmmu.mnemosyne.store_blocks import PutOptions
from tmmu.mnemosyne.vector_blocks import VectorBlock, VectorLayout, decode_block, encode_block

MIB = 1 << 20
WIDTH = 512
SYNCS = 6
"""What a put into a new store syncs: the log and its folder, a header, the records, the anchor and its folder, and a
trailer; the folder of the log is not counted."""


def vectors(kind: str, size: int) -> np.ndarray[Any, Any]:
    """Neighbours with a correlation of 0.95, `size` bytes of them."""
    count = size // (WIDTH * np.dtype(kind).itemsize)
    noise = np.random.default_rng(7).standard_normal((count, WIDTH), np.float32)
    for i in range(1, count):
        noise[i] = 0.95 * noise[i - 1] + 0.3122 * noise[i]
    return noise.astype(kind)


def plain(folder: Path, given: np.ndarray[Any, Any], block: int, has_differences: bool) -> tuple[float, float]:
    """Seconds to write and to read in the plain loop."""
    cipher, path, bits = AESGCM(bytes(32)), folder / "plain", given.view(f"u{given.itemsize}")
    begun = time.perf_counter()
    with open(path, "wb", buffering=0) as file:
        os.fsync(file.fileno())
        os.fsync(file.fileno())
        for number, start in enumerate(range(0, len(given), block)):
            rows = bits[start : start + block]
            if has_differences:
                rows = np.diff(rows, axis=0, prepend=np.zeros_like(rows[:1]))
            file.write(cipher.encrypt(number.to_bytes(12, "big"), rows.tobytes(), b"bound"))
        for _ in range(SYNCS - 2):
            os.fsync(file.fileno())
    written = time.perf_counter()
    found, size = np.empty_like(bits), block * given.strides[0] + 16
    with open(path, "rb", buffering=0) as file:
        for number, start in enumerate(range(0, len(given), block)):
            data = cipher.decrypt(number.to_bytes(12, "big"), file.read(size), b"bound")
            rows, to = np.frombuffer(data, bits.dtype).reshape(-1, WIDTH), found[start : start + block]
            np.add.accumulate(rows, axis=0, dtype=bits.dtype, out=to) if has_differences else np.copyto(to, rows)
    ended = time.perf_counter()
    assert np.array_equal(found, bits)
    path.unlink()
    return written - begun, ended - written


def ours(folder: Path, given: np.ndarray[Any, Any], block: int) -> tuple[float, float]:
    """Seconds to put and to read in a store."""
    store = VectorStore(folder / "store", MasterKey(bytes(32)))
    begun = time.perf_counter()
    store.put(ArrayVectors(given), PutOptions(block=block))
    written = time.perf_counter()
    found = np.empty_like(given)

    def consume(first: int, each: VectorBlock) -> None:
        decoded(each, "store", first, found[first : first + each.vectors])

    store.read(consume)
    ended = time.perf_counter()
    assert np.array_equal(found, given)
    for name in ("store", "store.anchor"):
        (folder / name).unlink()
    return written - begun, ended - written


def loops(folder: Path, times: int = 7) -> None:
    """The loops beside each other."""
    print(
        f"\nthe loop: 64 MiB of vectors of {WIDTH}, records of a block, {SYNCS} syncs; MB/s, best of {times} after two"
    )
    print(f"{'type':8} {'record':>9} {'loop':18} {'put':>6} {'get':>6} {'both':>6} {'store / it':>10}")
    for kind in ("float16", "float32"):
        given = vectors(kind, 64 * MIB)
        block = MIB // (WIDTH * np.dtype(kind).itemsize)
        turns = [
            (ours(folder, given, block), plain(folder, given, block, True), plain(folder, given, block, False))
            for _ in range(times + 2)
        ][2:]
        for side, name in enumerate(("store", "plain", "plain, without δ")):
            best = [min(turn[side][what] for turn in turns) for what in (0, 1)]
            best.append(min(sum(turn[side]) for turn in turns))
            rates = " ".join(f"{given.nbytes / seconds / 1e6:6.0f}" for seconds in best)
            ratio = statistics.median(sum(turn[side]) / sum(turn[0]) for turn in turns)
            print(f"{kind:8} {block * given.strides[0]:9} {name:18} {rates} {ratio:10.2f}")


def rate(work: Callable[[], object], size: int) -> float:
    """Bytes a second of the best of some calls."""
    best = float("inf")
    for _ in range(20):
        begun = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begun)
    return size / best


def differences() -> None:
    """δ a core, and what it leaves of the vectors."""
    print("\nδ: GB/s of vectors in and out on one core, correlation 0.95; stored bytes relative to the vectors")
    print(f"{'type':8} {'mode':8} {'zstd':5} {'in':>6} {'out':>6} {'stored':>7}")
    for kind, mode in (("float32", "lossless"), ("float16", "lossless"), ("float32", "float"), ("float32", "int8"),
                       ("float16", "int8")):  # fmt: skip
        layout = VectorLayout(mode, kind, WIDTH)
        rows = vectors(kind, MIB)
        for compress in (False, True):
            data = encode_block(layout, rows, 0, 0, compress=compress)
            into = rate(lambda rows=rows, c=compress, la=layout: encode_block(la, rows, 0, 0, compress=c), rows.nbytes)
            out = rate(lambda data=data: decode_block(data, "", "").decode(), rows.nbytes)
            name = "yes" if compress else "no"
            print(f"{kind:8} {mode:8} {name:5} {into / 1e9:6.2f} {out / 1e9:6.2f} {len(data) / rows.nbytes:6.1%}")


Gets = Callable[[int], Any]
"""Reads the vector of a number."""

Puts = Callable[[np.ndarray[Any, Any]], object]
"""Adds a row durably."""


class Contender:
    """A place for vectors: filled in bulk, then opened for single ones."""

    name = "store"

    def __init__(self, folder: Path) -> None:
        self.folder, self.cipher = folder, AESGCM(bytes(32))

    def fill(self, given: np.ndarray[Any, Any]) -> None:
        """Write all vectors durably."""
        VectorStore(self.folder / "store", MasterKey(bytes(32))).put(ArrayVectors(given))

    @contextmanager
    def opened(self) -> Iterator[tuple[Gets, Puts]]:
        """Open it for single vectors."""
        with VectorStore(self.folder / "store", MasterKey(bytes(32))) as store:
            yield store.get, store.append

    def sealed(self, row: np.ndarray[Any, Any]) -> bytes:
        """Seal a row under a random vector, which is put before it."""
        vector = os.urandom(12)
        return vector + self.cipher.encrypt(vector, row.tobytes(), None)

    def found(self, data: bytes) -> np.ndarray[Any, Any]:
        """Open a row."""
        return np.frombuffer(self.cipher.decrypt(data[:12], data[12:], None), np.float16)


class Sqlite(Contender):
    """SQLite with a write-ahead log, synced with each commit."""

    name = "SQLite + AES-GCM"

    def _connect(self) -> sqlite3.Connection:
        base = sqlite3.connect(self.folder / "sqlite")
        base.execute("pragma journal_mode=wal")
        base.execute("pragma synchronous=full")
        base.execute("create table if not exists v(id integer primary key, row blob)")
        return base

    def fill(self, given: np.ndarray[Any, Any]) -> None:
        base = self._connect()
        base.executemany("insert into v(row) values(?)", ((self.sealed(row),) for row in given))
        base.commit()
        base.close()

    @contextmanager
    def opened(self) -> Iterator[tuple[Gets, Puts]]:
        base = self._connect()

        def put(rows: np.ndarray[Any, Any]) -> None:
            base.execute("insert into v(row) values(?)", (self.sealed(rows),))
            base.commit()

        yield lambda n: self.found(base.execute("select row from v where id=?", (n + 1,)).fetchone()[0]), put
        base.close()


class Lmdb(Contender):
    """LMDB, synced with each transaction. Left out if the package is not installed."""

    name = "LMDB + AES-GCM"

    def _open(self) -> Any:
        return importlib.import_module("lmdb").open(str(self.folder / "lmdb"), map_size=1 << 32)

    def fill(self, given: np.ndarray[Any, Any]) -> None:
        with self._open() as base, base.begin(write=True) as all_at_once:
            for number, row in enumerate(given):
                all_at_once.put(number.to_bytes(8, "big"), self.sealed(row))

    @contextmanager
    def opened(self) -> Iterator[tuple[Gets, Puts]]:
        with self._open() as base:

            def get(number: int) -> object:
                with base.begin() as one:
                    return self.found(one.get(number.to_bytes(8, "big")))

            def put(rows: np.ndarray[Any, Any]) -> None:
                with base.begin(write=True) as one:
                    one.put(os.urandom(8), self.sealed(rows))

            yield get, put


class NumpyFile(Contender):
    """A file of rows, which is mapped, without encryption and without atomicity."""

    name = "NumPy file"

    def fill(self, given: np.ndarray[Any, Any]) -> None:
        with open(self.folder / "rows", "wb") as file:
            given.tofile(file)
            os.fsync(file.fileno())

    @contextmanager
    def opened(self) -> Iterator[tuple[Gets, Puts]]:
        with open(self.folder / "rows", "ab", buffering=0) as file:
            rows = np.memmap(self.folder / "rows", np.float16, "r").reshape(-1, WIDTH)

            def put(given: np.ndarray[Any, Any]) -> None:
                file.write(given.tobytes())
                os.fsync(file.fileno())

            yield lambda n: np.array(rows[n]), put


def seconds(work: Callable[[Any], object], given: list[Any]) -> list[float]:
    """Sorted seconds of calls."""
    found = []
    for each in given:
        begun = time.perf_counter()
        work(each)
        found.append(time.perf_counter() - begun)
    return sorted(found)


def singles(folder: Path, sizes: tuple[int, ...] = (1 << 13, 1 << 16)) -> None:
    """Single vectors of float16 in each contender, at two sizes."""
    kinds = [Contender, Sqlite, *([Lmdb] if importlib.util.find_spec("lmdb") else []), NumpyFile]
    print(f"\nsingle vectors of {WIDTH} float16: get warm at random, put with one sync; µs, p50 and p99")
    print(
        f"{'vectors':>8} {'':18} {'bulk MB/s':>9} {'open ms':>8} {'get':>6} {'p99':>6} {'put':>7} {'p99':>7} {'MiB':>6}"
    )
    for count in sizes:
        given = vectors("float16", count * WIDTH * 2)
        for kind in kinds:
            with tempfile.TemporaryDirectory(dir=folder) as name:
                one = kind(Path(name))
                [bulk] = seconds(one.fill, [given])
                begun = time.perf_counter()
                with one.opened() as (get, put):
                    opened = time.perf_counter() - begun
                    choose = np.random.default_rng(1).integers(0, count, 3000).tolist()
                    assert np.array_equal(get(choose[0]), given[choose[0]])
                    gets = seconds(get, choose)
                    puts = seconds(put, [given[at : at + 1] for at in range(300)])
                size = sum(path.stat().st_size for path in Path(name).rglob("*") if path.is_file()) / MIB
                times = [each[len(each) * part // 100] * 1e6 for each in (gets, puts) for part in (50, 99)]
                print(f"{count:8} {one.name:18} {given.nbytes / bulk / 1e6:9.0f} {opened * 1e3:8.2f} {times[0]:6.1f} "
                      f"{times[1]:6.1f} {times[2]:7.0f} {times[3]:7.0f} {size:6.1f}")  # fmt: skip


def main() -> None:
    """All tables."""
    with tempfile.TemporaryDirectory() as name:
        singles(Path(name))
        loops(Path(name))
    differences()


if __name__ == "__main__":
    main()
