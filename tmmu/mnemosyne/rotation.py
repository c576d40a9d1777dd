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
from tmmu.mnemosyne.sealed_log import LogLook, SealedLog, SealedReader, log_failure
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
        with _copy_beside(path, key, new, anchor) as (log, beside):
            anchors.store(anchor, old.statement(), log.statement())
            old.log_replacement(log)
            try:
                target = os.path.realpath(path)
                os.replace(beside, target)
                sync_folder(target)
            except OSError as error:
                fix = "choose a folder that you may write to"
                raise log_failure(path, f"cannot be replaced ({error.strerror})", fix) from error
            anchors.store(anchor, log.statement())
            return log.records


@contextlib.contextmanager
def _copy_beside(path: str, key: MasterKey, new: MasterKey, anchor: str) -> Iterator[tuple[SealedLog, str]]:
    """Copy the records under the new key to a file beside the log, synced and locked. Yields the copy and its name."""
    target = os.path.realpath(path)
    beside = os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.rotated")
    remove(beside)  # left by an interrupted rotation; the lock of the log is held
    try:
        with SealedLog.open(beside, new) as log:
            copied: list[tuple[bytes, int, int]] = []  # where each record is in the copy

            def copy(frame: Frame, data: bytes) -> None:
                if is_of_an_index(data):
                    data = move(data, path, f"record {frame.sequence}", copied.__getitem__)
                [place] = log.append_all([(frame.token, data)])
                copied.append((place.salt, place.offset, len(data)))

            SealedReader.open(path, key, anchor, LogLook(copy)).close()
            log.end()
            os.chmod(beside, os.stat(target).st_mode & 0o7777)
            yield log, beside
    except BaseException:
        with contextlib.suppress(TmmuError):
            remove(beside)
        raise
