"""Sealed logs for tests, and a second reader of them, from the page and the table of the format alone."""

from __future__ import annotations

import contextlib
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tmmu.mnemosyne import keys
from tmmu.mnemosyne.keys import MasterKey
from tmmu.mnemosyne.sealed_log import Record, SealedLog, SealedReader

ROOT = Path(__file__).resolve().parents[2]
SECRET = bytes(range(7, 39))
HEADER, FRAME, TAG = 108, 29, 16
TRAILER = FRAME + 8 + TAG
DATA = [b"", b"one", b"two" * 20, b"\x00" * 9, bytes(range(64))]


class Part(NamedTuple):
    """A part of a log: what it is (`header`, `record`, `trailer`), its bytes' range, and what a record holds."""

    kind: str
    start: int
    stop: int
    record: Record | None = None


def key() -> MasterKey:
    return MasterKey(SECRET)


def write(path: Path, data: list[bytes], anchor: Path | None = None, *, is_closed: bool = True) -> None:
    """Append records with the token 100 and more, and acknowledge them."""
    log = SealedLog.open(path, key(), anchor)
    for each in data:
        log.append(100 + log.records, each)
    log.sync()
    log.close() if is_closed else log.abandon()


APPENDS = """
import os, signal, sys
from pathlib import Path
from tests.support.sealed_logs import key
from tmmu.mnemosyne import anchors
from tmmu.mnemosyne.sealed_log import SealedLog
from tmmu.runtime.events import EventLog
folder, count, end = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
log = SealedLog.open(folder / "log", key(), folder / "anchor", events=EventLog(folder / "run.events"))
if end in ("renamed", "overwritten"):
    say = log._log_anchor
    log._log_anchor = lambda what: os.kill(os.getpid(), signal.SIGKILL) if what == end else say(what)
if end == "discards":
    log.discard(log.records - 1)
for number in range(count):
    log.append(number, b"." * 20 * number)
    if number % 2 or number + 1 == count:
        log.commit() if end in ("commits", "committed", "overwritten") else log.sync()
if end == "committed":
    log.sync()
log.append(number, b"not acknowledged")
if end == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if end == "rotates":
    log.end()
    with SealedLog.open(folder / "new", key()) as new:
        for record in range(log.records):
            new.append(record, b"-" * 333)
        new.end()
        log.log_replacement(new)
        os.replace(folder / "new", folder / "log")
        anchors.store(str(folder / "anchor"), new.statement())
if end == "withdrawn":
    log.withdraw()
if end == "ended twice":
    log.end()
    log.append(number, b"in a second segment")
if end == "full":
    os.pwrite = lambda *_: 1 // 0
    try:
        log.append(number, b"does not fit")
    except ZeroDivisionError:
        pass
log.abandon() if end == "left" else log.close()
"""
"""A process that appends to a log and writes its events: it closes the log, leaves it, withdraws what it has not
acknowledged, or is killed, where it has just appended, or just renamed or overwritten an anchor, which no line shows
then. "commits" and "committed" write the anchor in place; the second syncs it."""


def with_events(folder: Path, *ends: str, count: int = 3) -> Path:
    """An event log of processes one after the other, each with its end."""
    for end in ends:
        command = [sys.executable, "-c", APPENDS, str(folder), str(count), end]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=ROOT)
        assert done.returncode == (-9 if end in ("killed", "renamed", "overwritten") else 0), done.stderr
    return folder / "run.events"


GOES_ON = """
import sys, time
from pathlib import Path
from tests.support.sealed_logs import key
from tmmu.mnemosyne.sealed_log import SealedLog
from tmmu.runtime.events import EventLog
folder = Path(sys.argv[1])
with SealedLog.open(folder / "log", key(), folder / "anchor", events=EventLog(folder / "run.events")) as log:
    print("open", flush=True)
    while True:
        log.append(log.records, b"." * 99)
        if log.records % 3:
            log.sync()
        time.sleep(0.004)
"""


def with_kills(folder: Path, after_s: Sequence[float]) -> Path:
    """An event log of processes that append until they are killed, each so long after it has opened the log."""
    for pause in after_s:
        with subprocess.Popen([sys.executable, "-c", GOES_ON, str(folder)], stdout=subprocess.PIPE, cwd=ROOT) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"open\n"
            time.sleep(pause)
            child.kill()
    return folder / "run.events"


def read(path: Path, anchor: Path | None = None) -> list[Record]:
    with SealedReader.open(path, key(), anchor) as reader:
        return [reader[i] for i in range(len(reader))]


def expected(data: list[bytes]) -> list[Record]:
    return [Record(i, 100 + i, each) for i, each in enumerate(data)]


def second_reader(data: bytes, secret: bytes = SECRET) -> list[Part]:
    """The parts of a whole log, each decrypted; a wrong one raises."""
    found: list[Part] = []
    at = count = 0
    before = bytes(32)
    cipher, salt, prefix = AESGCM(bytes(32)), b"", b""
    while at < len(data):
        if data[at : at + 8] == b"TMMU-LOG":
            fields, tag, check = data[at : at + 88], data[at + 88 : at + 104], data[at + 104 : at + 108]
            version, zero, salt, previous, first, prefix = struct.unpack(">HH32s32sQ4s", fields[8:])
            assert (version, zero, previous, first) == (1, 0, before, count)
            assert check == struct.pack(">I", crc32(fields + tag))
            cipher = AESGCM(HKDF(SHA256(), 32, salt, b"tmmu mnemosyne segment 1").derive(secret))
            assert cipher.decrypt(prefix + b"\xff" * 8, tag, fields) == b""
            found.append(Part("header", at, at + HEADER))
            before, at = salt, at + HEADER
            continue
        kind, length, own, sequence, token, check_frame = struct.unpack(">cI4sQQI", data[at : at + FRAME])
        assert check_frame == crc32(data[at : at + FRAME - 4])
        assert own == prefix
        bound = struct.pack(">H32sQQ", 1, salt, token, sequence)
        stop = at + FRAME + length + TAG
        plain = cipher.decrypt(prefix + struct.pack(">Q", sequence), data[at + FRAME : stop], bound)
        if kind == b"E":
            assert (sequence, plain) == ((1 << 64) - 2, struct.pack(">Q", count))
            found.append(Part("trailer", at, stop))
        else:
            assert (kind, sequence) == (b"R", count)
            found.append(Part("record", at, stop, Record(sequence, token, plain)))
            count += 1
        at = stop
    return found


@contextlib.contextmanager
def sealings() -> Iterator[list[tuple[bytes, bytes]]]:
    """Every pair of key and initialization vector under which something is sealed meanwhile."""
    pairs: list[tuple[bytes, bytes]] = []
    secrets: dict[int, bytes] = {}
    kept: list[keys.SegmentKey] = []
    begin, seal = keys.SegmentKey.__init__, keys.SegmentKey.seal

    def begins(self: keys.SegmentKey, secret: bytes) -> None:
        begin(self, secret)
        kept.append(self)  # so that no other has its id
        secrets[id(self)] = secret

    def seals(self: keys.SegmentKey, vector: bytes, data: bytes | memoryview, bound: bytes) -> bytes:
        pairs.append((secrets[id(self)], vector))
        return seal(self, vector, data, bound)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys.SegmentKey, "__init__", begins)
        patch.setattr(keys.SegmentKey, "seal", seals)
        yield pairs
