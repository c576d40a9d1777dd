"""Rotate the key of a log: write it under another key beside the old file, then replace the file.

A log and its anchor are two files, which no system replaces at once. So the anchor first gets a second statement, about
the new log under the new key. Then the new log takes the name. Then the anchor keeps only the new statement. Wherever
this is interrupted, the log opens under one of the two keys with the anchor as it is, and the refusal of the other key
names that key. A repeated rotation continues from there. `tla/mnemosyne/KeyRotation.tla` is the model.
spec: MN8.9, MN8.10
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

from tmmu.core.canonical import remove
from tmmu.core.errors import TmmuError
from tmmu.mnemosyne import anchors
from tmmu.mnemosyne.failures import InvalidKey, InvalidLog, WrongKey
from tmmu.mnemosyne.keys import MasterKey, sync_folder
from tmmu.mnemosyne.sealed_format import Frame
from tmmu.mnemosyne.sealed_log import LogLook, SealedLog, SealedReader, log_failure, open_and_lock
from tmmu.mnemosyne.store_index import is_of_an_index, move

Open = Callable[[MasterKey], SealedLog]
"""Opens the log under a key, for writing, without the records of an unfinished put."""


def rotate(path: str, key: MasterKey, new: MasterKey, anchor: str, opened: Open) -> int:
    """Seal the log at `path` under `new`, and return how many records it has. `key` no longer opens it.

    If an earlier call was interrupted after the log had the new key, this finishes it. O(log) time, and room for a
    second log beside the first.

    Raises the errors of `decrypt_record`, `InvalidKey` if the two keys are the same, and `InvalidLog` for a log without
    records.
    """
    if key.is_same(new):
        raise InvalidKey("the new key is the same as the old one", None, "make another")
    try:
        old = opened(key)
    except WrongKey:
        with contextlib.suppress(TmmuError), opened(new) as log:
            anchors.store(anchor, log.statement())
            return log.records
        raise
    with old:
        if not old.records:
            raise InvalidLog("the log has no records, and so no key", path, "byte 0")
        old.sync()
        with open_beside(path, new) as log:
            _copy_records(path, key, anchor, log)
            log.end()
            anchors.store(anchor, old.statement(), log.statement())
            old.log_replacement(log)
            name_log(log, path, path)
            anchors.store(anchor, log.statement())
            return log.records


def _copy_records(path: str, key: MasterKey, anchor: str, log: SealedLog) -> None:
    copied: list[tuple[bytes, int, int]] = []  # where each record is in the copy

    def copy(frame: Frame, data: bytes) -> None:
        if is_of_an_index(data):
            data = move(data, path, f"record {frame.sequence}", copied.__getitem__)
        [place] = log.append_all([(frame.token, data)])
        copied.append((place.salt, place.offset, len(data)))

    SealedReader.open(path, key, anchor, LogLook(copy)).close()


@contextlib.contextmanager
def open_beside(path: str, key: MasterKey) -> Iterator[SealedLog]:
    """Open a new log beside the one at `path`, which is removed unless it is renamed.

    One that an interrupted call has left is removed first. Raises TMMU_ALLOCATION_FAILURE if another process writes it.
    """
    beside = name_beside(path)
    if os.path.isfile(beside) and not (os.path.exists(path) and os.path.samefile(beside, path)):
        descriptor, _ = open_and_lock(beside)
        try:
            remove(beside)
        finally:
            os.close(descriptor)
    else:
        remove(beside)
    try:
        with SealedLog.open(beside, key) as log:
            yield log
    except BaseException:
        with contextlib.suppress(TmmuError):
            remove(beside)
        raise


def name_beside(path: str) -> str:
    """Return the name of the new log that takes the name of the one at `path`."""
    target = os.path.realpath(path)
    return os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.new")


def name_log(log: SealedLog, path: str, like: str, *, is_new: bool = False) -> None:
    """Give a log that was opened by `open_beside` the name `path`, durably, with the mode of the file at `like`.

    With `is_new` there must be no file of that name.
    """
    target = os.path.realpath(path)
    try:
        os.chmod(log.path, os.stat(like).st_mode & 0o7777)
        if is_new:
            os.link(log.path, target)
            os.unlink(log.path)
        else:
            os.replace(log.path, target)
        sync_folder(target)
    except OSError as error:
        fix = "choose a folder that you may write to"
        raise log_failure(path, f"cannot be replaced ({error.strerror})", fix) from error
