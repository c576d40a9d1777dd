"""A machine that loses its power: a disk that keeps what was synced, and of later writes any sectors.

`Disk` stands in for the calls of `os` by which a sealed log and its anchor are written, and records each. For each
prefix of the record, `after_the_loss` has what may then be on the disk: every sector of 512 bytes of a write that was
not synced is there or is not, the length of the file is any that it had since the last sync, and a name (of a new log,
of one that took its place, of a renamed anchor) that was not synced with its folder is there or is not. An anchor that
was written over in place has any of what was written since it was synced.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

SECTOR = 512
Choose = Callable[[int], int]
"""A number from 0 up to and without the one that is given."""


@dataclass
class Disk:
    """What was done to the log and the anchor in one folder, in order; "ack" are acknowledgements."""

    folder: Path
    done: list[tuple[str, int, bytes]] = field(default_factory=list)

    def acknowledged(self, count: int) -> None:
        """Record that so many records were acknowledged."""
        self.done.append(("ack", count, b""))

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record what is done meanwhile, which is done as well."""
        write, sync, cut, rename, log = os.pwritev, os.fsync, os.ftruncate, os.replace, str(self.folder / "log")
        write_over, anchor = os.pwrite, str(self.folder / "anchor")

        def of(descriptor: int) -> str:
            return os.readlink(f"/proc/self/fd/{descriptor}")

        unsynced: set[str] = set()

        def pwritev(descriptor: int, parts: list[memoryview], offset: int) -> int:
            if of(descriptor) == log:
                self.done.append(("write", offset, b"".join(parts)))
            else:
                unsynced.add(of(descriptor))  # of a file that takes the log's name later
            return write(descriptor, parts, offset)

        def fsync(descriptor: int) -> None:
            name = of(descriptor)
            kind = {log: "sync", str(self.folder): "names", anchor: "kept"}.get(name, "other synced")
            self.done.append((kind, 0, b""))
            unsynced.discard(name)
            sync(descriptor)

        def pwrite(descriptor: int, data: bytes, offset: int) -> int:
            assert (of(descriptor), offset) == (anchor, 0)
            assert len(data) <= SECTOR, "what is written over is in one sector"
            self.done.append(("over", 0, data))
            return write_over(descriptor, data, offset)

        def ftruncate(descriptor: int, length: int) -> None:
            self.done.append(("cut", length, b""))
            cut(descriptor, length)

        def replace(source: str, target: str) -> None:
            if target == log:
                assert source not in unsynced, "what is renamed was not synced"
            else:
                assert self.done[-1][0] == "other synced", "what is renamed was not synced"
            self.done.append(("replace" if target == log else "rename", 0, Path(source).read_bytes()))
            rename(source, target)

        with pytest.MonkeyPatch.context() as patch:
            for call in (pwritev, pwrite, fsync, ftruncate, replace):
                patch.setattr(os, call.__name__, call)
            yield


@dataclass
class Remains:
    """What is on the disk after the loss, None for no such file, and how many records were acknowledged before."""

    log: bytes | None
    anchor: bytes | None
    acknowledged: int


def after_the_loss(before: Remains, done: list[tuple[str, int, bytes]], choose: Choose) -> Remains:
    """What a loss after `done` leaves of what was on the disk `before`."""
    log, is_named = bytearray(before.log or b""), before.log is not None
    anchor, acknowledged = before.anchor, before.acknowledged
    renamed, is_renamed = before.anchor, False  # the anchor that took the name last, and whether that is not synced
    over: list[bytes | None] = []  # what was written over it since it was synced
    pending: list[tuple[str, int, bytes]] = []
    older: bytes | None = None  # the log whose name the folder has, where another took it that was not synced
    for each in done:
        kind, number, data = each
        if kind in ("write", "cut"):
            pending.append(each)
        elif kind == "sync":
            for earlier in pending:
                _apply(log, earlier, lambda _: 1)
            pending.clear()
        elif kind == "rename":
            renamed, over, is_renamed = data, [], True
        elif kind == "over":
            over.append(data)
        elif kind == "kept":
            renamed, over = (over or [renamed])[-1], []
            anchor = anchor if is_renamed else renamed
        elif kind == "replace":
            assert not pending, "the log that is replaced was not synced"
            older, log = bytes(log), bytearray(data)
        elif kind == "names":
            anchor, is_renamed = renamed if is_renamed else anchor, False
            is_named, older = True, None
        elif kind == "ack":
            acknowledged = number
    for each in pending:
        _apply(log, each, choose)
    if not is_renamed or choose(2):
        anchor = [renamed, *over][choose(len(over) + 1)]
    if older is not None and choose(2):
        log = bytearray(older)
    return Remains(bytes(log) if is_named or choose(2) else None, anchor, acknowledged)


def _apply(log: bytearray, each: tuple[str, int, bytes], choose: Choose) -> None:
    """Do what was done to a file, or those parts that `choose` has for it."""
    kind, number, data = each
    if kind == "cut":
        if choose(2):
            del log[number:]
        return
    longer = number + len(data) - len(log)
    if longer > 0:
        log.extend(bytes((0, longer, choose(longer + 1))[choose(3)]))
    for start in range(number - number % SECTOR, number + len(data), SECTOR):
        first, last = max(start, number), min(start + SECTOR, number + len(data), len(log))
        if first < last and choose(2):
            log[first:last] = data[first - number : last - number]
