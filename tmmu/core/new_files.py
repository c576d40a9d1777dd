"""Write new files that have no name until they are complete.

Where the system has files without a name (`O_TMPFILE`), a new file is one: a process that is killed leaves nothing of
it. It gets a temporary name only to be renamed over the old file, which the system does in one step. Elsewhere it has
the temporary name from the beginning.

A file with a temporary name is locked while its process runs. So one that is not locked was left behind by a process
that was killed, and may be removed. spec: RE4.1, RE4.2
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from pathlib import Path

PREFIX, SUFFIX = ".tmmu.", ".tmp"
"""The beginning and the end of temporary names."""
HAS_NO_UNNAMED = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)
"""The system's errors for a folder in which no file without a name can be created, or that does not exist."""


class NewFile:
    """A new file that replaces the one at `target` when it is complete. Raises OSError.

    `descriptor` is open for writing. It is closed by the caller, after which nothing else may be called.
    """

    def __init__(self, target: Path) -> None:
        self._target, self._temporary = target, ""
        self._folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.descriptor = _open_unnamed(target.parent)
            if self.descriptor < 0:
                self.descriptor, self._temporary = _open_named(target.parent)
        except BaseException:
            os.close(self._folder)
            raise

    def replace(self) -> None:
        """Give the file the name of the target, in whose place it is from now on."""
        if not self._temporary:
            _lock(self.descriptor)
            name = f"{PREFIX}{os.urandom(8).hex()}{SUFFIX}"
            # With a folder given, the link in /proc is followed: it is the file itself.
            os.link(f"/proc/self/fd/{self.descriptor}", name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            self._temporary = str(self._target.parent / name)
        os.replace(self._temporary, self._target)
        self._temporary = ""

    def sync_folder(self) -> None:
        """Make the new name durable."""
        os.fsync(self._folder)

    def close(self) -> None:
        """Remove the file unless it has replaced the target."""
        os.close(self._folder)
        temporary, self._temporary = self._temporary, ""
        if temporary:
            os.unlink(temporary)


def _open_unnamed(folder: Path) -> int:
    """Return a file without a name, or -1 if there can be none that is named later."""
    if not hasattr(os, "O_TMPFILE") or not os.path.isdir("/proc/self/fd"):
        return -1
    try:
        return os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno in HAS_NO_UNNAMED:
            return -1
        raise


def _open_named(folder: Path) -> tuple[int, str]:
    """Return a locked file and its temporary name."""
    while True:
        name = str(folder / f"{PREFIX}{os.urandom(8).hex()}{SUFFIX}")
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            _lock(descriptor)
            if os.fstat(descriptor).st_nlink:  # otherwise another process has removed it before it was locked
                return descriptor, name
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    with contextlib.suppress(OSError):  # a file system without locks: then nothing is removed there
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes of this user have left in a folder. O(files in it). Raises nothing."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(PREFIX) and name.endswith(SUFFIX):
                with contextlib.suppress(OSError):
                    _remove_leftover(str(folder / name))


def _remove_leftover(path: str) -> None:
    """Remove a file with a temporary name if no process holds it. Raises OSError if one does."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
    finally:
        os.close(descriptor)
