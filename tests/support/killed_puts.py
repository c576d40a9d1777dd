"""The commands of a store, killed by the kernel wherever they are just then, over and over on one store.

`put --append --ack` and, now and then, `rekey`. After each kill: one of the two keys opens the store, it has whole
puts alone, as many as were acknowledged at least, and what lies in its files was never sealed differently under the
same key and initialization vector.
"""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
import time
from pathlib import Path
from zlib import crc32

import numpy as np

from tests.support.sealed_logs import FRAME, HEADER, TAG
from tests.support.stored_vectors import got
from tmmu.core.errors import TmmuError
from tmmu.mnemosyne.keys import MasterKey
from tmmu.mnemosyne.store import VectorStore

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
COMMAND = [sys.executable, "-m", "tmmu.cli.entry", "mnemosyne"]
VECTORS = (np.arange(2000 * 64).reshape(2000, 64) * 7919 % 65521).astype(np.uint16)

Sealed = dict[tuple[bytes, bytes], bytes]
"""What was sealed under each pair of salt and initialization vector."""


def record(data: bytes, sealed: Sealed) -> None:
    """Note all headers, records and trailers of a log, as far as its frames go; none may differ from an earlier one."""
    at, salt, prefix = 0, b"", b""
    while at < len(data):
        if data[at : at + 8] == b"TMMU-LOG":
            salt, prefix = data[at + 12 : at + 44], data[at + 84 : at + 88]
            pair, content, at = (salt, prefix + b"\xff" * 8), data[at : at + HEADER], at + HEADER
        else:
            frame = data[at : at + FRAME]
            if len(frame) < FRAME or struct.unpack(">I", frame[25:])[0] != crc32(frame[:25]):
                return
            stop = at + FRAME + int.from_bytes(frame[1:5], "big") + TAG
            pair, content, at = (salt, frame[5:17]), data[at + FRAME : stop], stop
        if at <= len(data):
            assert sealed.setdefault(pair, content) == content, "one key and vector for two texts"


class KilledStore:
    """A folder with a store, two keys, vectors and what was acknowledged."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.sealed = folder, Sealed()
        self._choose = random.Random(seed)
        self._current, self._rows = 0, 0
        np.save(folder / "v.npy", VECTORS)
        for name in ("k0", "k1"):
            MasterKey.create(folder / name)
        (folder / "acks").touch()

    def kill(self) -> str:
        """Begin a command, kill it, and look at what is left. How it ended: killed, or done before."""
        log = self.folder / "S"
        rotates = self._rows > 0 and self._choose.random() < 0.2
        own = ["--key", f"k{self._current}"]
        arguments = ["rekey", "S", *own, "--new-key", f"k{1 - self._current}"]
        if not rotates:
            arguments = ["put", "S", "v.npy", *own, "--append", "--ack", "--block", "16"]
        watched = self.folder / ".S.rotated" if rotates else log
        before = _mark(watched)
        with open(self.folder / "acks", "a") as acks, open(self.folder / "errors", "w") as errors:
            out = subprocess.DEVNULL if rotates else acks
            child = subprocess.Popen(
                [*COMMAND, *arguments], cwd=self.folder, env=ENVIRONMENT, stdout=out, stderr=errors
            )
        until = time.monotonic() + 30
        while child.poll() is None and _mark(watched) == before and time.monotonic() < until:
            time.sleep(0.0005)
        time.sleep(self._choose.random() ** 2 * 0.04)
        child.kill()
        code = child.wait()
        assert code in (0, -9), (arguments, code, (self.folder / "errors").read_text())
        self._look()
        return "killed" if code else "done"

    def _look(self) -> None:
        for name in ("S", ".S.rotated"):
            path = self.folder / name
            record(path.read_bytes() if path.exists() else b"", self.sealed)
        acknowledged = sum(map(int, (self.folder / "acks").read_text().split()))
        if not (self.folder / "S").exists():
            assert acknowledged == 0
            return
        opened: list[tuple[int, int]] = []
        refused: list[str] = []
        for number in range(2):
            try:
                store = VectorStore(self.folder / "S", MasterKey.load(self.folder / f"k{number}"))
                rows, _, _ = got(store)
            except TmmuError as error:
                refused.append(error.code_id)
                continue
            assert len(rows) % len(VECTORS) == 0
            assert len(rows) >= acknowledged
            if len(rows):
                assert (rows.reshape(-1, *VECTORS.shape) == VECTORS).all()
            opened.append((number, len(rows)))
        assert (len(opened), refused) == (1, ["WRONG_KEY"]) or not any(rows for _, rows in opened)
        self._current, self._rows = opened[0]


def _mark(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return -1
