"""The commands of a store, killed at random system calls, over and over on one store.

`put --append --ack` and, now and then, `rekey`. After each kill: one of the two keys opens the store, it has whole
puts alone, as many as were acknowledged at least, and what lies in its files was never sealed differently under the
same key and initialization vector.
"""

from __future__ import annotations

import os
import random
import re
import struct
import sys
from pathlib import Path
from zlib import crc32

import numpy as np

from tests.support import faults
from tests.support.faults import Fault
from tests.support.sealed_logs import FRAME, HEADER, TAG
from tests.support.stored_vectors import got
from tmmu.cli.entry import run
from tmmu.core.errors import TmmuError
from tmmu.mnemosyne.keys import MasterKey
from tmmu.mnemosyne.store import VectorStore

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
COMMAND = [sys.executable, "-m", "tmmu.cli.entry", "mnemosyne"]
CALLS = 25
"""The calls among which the one is drawn at which a command is killed: about twice as many as a put makes."""
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
        self._acknowledged = 0

    def kill(self) -> str:
        """Run a command that is killed at one of its system calls, and look at what is left.

        Return how it ended: killed, or done before.
        """
        rotates = self._rows > 0 and self._choose.random() < 0.2
        line = f"rekey S --key k{self._current} --new-key k{1 - self._current}"
        if not rotates:
            line = f"put S v.npy --key k{self._current} --append --ack --block 16"
        fault = Fault(self._choose.choice(("kill", "kill", "torn")), self._choose.randrange(CALLS))
        ended = faults.run(lambda: run(["mnemosyne", *line.split()]), self.folder, fault)
        assert ended.code in (0, -9), ended
        if not rotates:
            self._acknowledged += sum(map(int, re.findall(r"^\d+$", ended.output, re.MULTILINE)))
        self._look()
        return "killed" if ended.code else "done"

    def _look(self) -> None:
        for name in ("S", ".S.new"):
            path = self.folder / name
            record(path.read_bytes() if path.exists() else b"", self.sealed)
        acknowledged = self._acknowledged
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
