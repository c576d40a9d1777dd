"""`python -m tests.benchmarks.mnemosyne`: the store beside a plain file, and δ's bytes a second.

The plain loop has NumPy (`diff` and `add.accumulate` of the bits), a file and AES-GCM, with as many syncs; without δ
it seals the vectors as they are. All have the same vectors in records of the same size, and take turns. The best rates
are printed, and the median over the turns of how fast the store is beside a loop, in seconds of both ways. δ is
measured on one core, in blocks of the default size, with and without Zstandard.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tmmu.mnemosyne.keys import MasterKey
from tmmu.mnemosyne.npy_files import ArrayVectors
from tmmu.mnemosyne.store import VectorStore, decoded
from tmmu.mnemosyne.vector_blocks import VectorBlock, VectorLayout, decode_block, default_block, encode_block

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
    store.put(ArrayVectors(given))
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
        block = default_block(VectorLayout("lossless", kind, WIDTH))
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
        rows = vectors(kind, MIB)[: default_block(layout)]
        for compress in (False, True):
            data = encode_block(layout, rows, 0, 0, compress=compress)
            into = rate(lambda rows=rows, c=compress, la=layout: encode_block(la, rows, 0, 0, compress=c), rows.nbytes)
            out = rate(lambda data=data: decode_block(data, "", "").decode(), rows.nbytes)
            name = "yes" if compress else "no"
            print(f"{kind:8} {mode:8} {name:5} {into / 1e9:6.2f} {out / 1e9:6.2f} {len(data) / rows.nbytes:6.1%}")


def main() -> None:
    """Both tables."""
    with tempfile.TemporaryDirectory() as name:
        loops(Path(name))
    differences()


if __name__ == "__main__":
    main()
