"""Find the folders and programs of the user, and decide which files of theirs are trusted.

A folder that an environment variable names counts only if its path is absolute, as the XDG Base Directory Specification
requires. Otherwise there is none. Without that rule a relative path, or a home that is missing, would name files in the
working folder, which may be another user's.

A file that an earlier run wrote for later ones (a kernel, a record of a proof, a fetched archive) is *private* if the
file and its folder belong to the user of this process and no other user can write them or exchange a folder above. Only
private files are used. Only the standard library is imported: `make kernel` runs this before anything is installed.
spec: RE1.1, RE1.2, RE1.3, RE1.4, RE1.5
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import stat
import tempfile
from collections.abc import Iterator, MutableMapping
from functools import cache
from pathlib import Path

NO_HOME = "/dev/null"
"""The value of HOME for a command without a home folder: nothing can be created below it."""
TEMPORARY = ("/tmp", "/var/tmp", "/usr/tmp")
"""The folders for temporary files that are tried after those of `TMPDIR`, `TEMP` and `TMP`."""
VARIABLES = (
    "HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "NUMBA_CACHE_DIR", "JAVA_HOME", "TMPDIR", "TEMP",
    "TMP",
)  # fmt: skip
"""The variables of which the value is a folder in which packages and programs look for files."""
ELSEWHERE = "set HOME, or XDG_CACHE_HOME and XDG_DATA_HOME, to the absolute path of a folder of yours"
"""The advice to a user without a folder for files."""


class NotPrivate(Exception):
    """A file is not used because another user could have written it. The message states why and what to do."""


def home_folder() -> Path | None:
    """Return the user's home: that of `HOME`, else that of the system's table of users. None if it does not exist."""
    named = os.environ.get("HOME", "")
    if not named:
        try:
            named = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            return None
    return Path(named) if os.path.isabs(named) and os.path.isdir(named) else None


def cache_folder() -> Path | None:
    """Return the folder `tmmu` in the user's cache: `XDG_CACHE_HOME`, by default `~/.cache`. None without either."""
    return _base("XDG_CACHE_HOME", ".cache")


def data_folder() -> Path | None:
    """Return the folder `tmmu` in the user's data: `XDG_DATA_HOME`, by default `~/.local/share`. Or None."""
    return _base("XDG_DATA_HOME", ".local/share")


def _base(variable: str, default: str) -> Path | None:
    named = os.environ.get(variable, "")
    if os.path.isabs(named):
        return Path(named) / "tmmu"
    home = home_folder()
    return None if home is None else home / default / "tmmu"


def has_caches() -> bool:
    """Return whether packages that keep files for later runs would do so outside of the working folder."""
    return home_folder() is not None and all(os.path.isabs(os.environ.get(name, "/")) for name in VARIABLES)


def temporary_folder() -> str:
    """Return the folder for temporary files. The working folder is never one, as it is for Python.

    A folder in which others could exchange files counts as none. Raises OSError, which states what to do.
    """
    named = (os.environ.get(variable, "") for variable in ("TMPDIR", "TEMP", "TMP"))
    for path in (*filter(os.path.isabs, named), *TEMPORARY):
        if os.access(path, os.W_OK | os.X_OK) and os.path.isdir(path) and _fault_above(path) is None:
            return path
    raise FileNotFoundError(2, "there is no folder for temporary files: set TMPDIR to the absolute path of one")


def find_program(name: str, path: str | None = None) -> str | None:
    """Return the absolute path of a program, or None. In `PATH` (or `path`) only absolute folders are searched.

    A name with a separator is that of the file itself.
    """
    if os.path.dirname(name):
        places = [os.path.abspath(name)]
    else:
        listed = os.environ.get("PATH", os.defpath) if path is None else path
        places = [os.path.join(folder, name) for folder in listed.split(os.pathsep) if os.path.isabs(folder)]
    return next((place for place in places if os.access(place, os.X_OK) and os.path.isfile(place)), None)


def clean_environment(environment: MutableMapping[str, str] | None = None) -> None:
    """Remove relative folders from the environment of a command, for the packages and programs that it uses.

    A relative folder in PATH, or of a variable for a home, a cache or temporary files, is removed. If there is no home,
    HOME becomes a path below which nothing is found. Python's folder for temporary files is set to ours.
    """
    environment = os.environ if environment is None else environment
    if not environment.get("HOME"):
        environment["HOME"] = str(home_folder() or NO_HOME)
    elif not os.path.isabs(environment["HOME"]):
        environment["HOME"] = NO_HOME
    for name in VARIABLES:
        if not os.path.isabs(environment.get(name, "/")):
            del environment[name]
    if "PATH" in environment:
        environment["PATH"] = os.pathsep.join(filter(os.path.isabs, environment["PATH"].split(os.pathsep)))
    try:
        tempfile.tempdir = temporary_folder()
    except OSError:
        tempfile.tempdir = NO_HOME  # Python would take the working folder


@contextlib.contextmanager
def safe_path() -> Iterator[None]:
    """Start Pythons meanwhile that do not import from the working folder, through packages that start some.

    spec: RE1.2
    """
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


def make_private(folder: Path) -> None:
    """Create a folder, and the missing ones above, for this user alone. Raises OSError."""
    if not folder.is_dir():
        make_private(folder.parent)
        folder.mkdir(0o700, exist_ok=True)


def check_private(path: Path) -> None:
    """Raise `NotPrivate` unless a file or folder and its folder are the user's, and OSError if it does not exist.

    A link is followed; then both its own folders and those of its target count.
    """
    places = [path] if os.path.realpath(path) == os.path.abspath(path) else [path, Path(os.path.realpath(path))]
    for part in [each for place in places for each in (place, place.parent)]:
        found = part.stat()
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            raise NotPrivate(f"{part} is neither a file nor a folder: remove it")
        if found.st_uid != os.geteuid():
            raise NotPrivate(f"{part} belongs to {_name_user(found.st_uid)} and not to you: move it away")
        if _is_writable_by_others(found):
            raise NotPrivate(f"{part} can be written by others: chmod go-w {part}, if what is in it is yours")
    for place in places:
        fault = _fault_above(str(place.parent))
        if fault is not None:
            raise NotPrivate(f"{fault} can be written by others, who may exchange {place}: chmod go-w {fault}")


def read_private(path: Path, limit: int) -> bytes:
    """Return the first `limit` bytes of a private file. Raises `NotPrivate` and OSError."""
    check_private(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotPrivate(f"{path} is not a file: remove it")
        return file.read(limit)


def _fault_above(path: str) -> str | None:
    """Return the innermost folder, from `path` upwards, in which others could exchange what it holds."""
    for folder in (*_upwards(os.path.abspath(path)), *_upwards(os.path.realpath(path))):
        found = os.stat(folder)
        if found.st_mode & stat.S_ISVTX:  # only the owner of a file may exchange it there
            continue
        if found.st_uid not in (0, os.geteuid()) or _is_writable_by_others(found):
            return folder
    return None


def _upwards(path: str) -> Iterator[str]:
    yield path
    while (above := os.path.dirname(path)) != path:
        yield (path := above)


def _is_writable_by_others(found: os.stat_result) -> bool:
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and not _is_own_group(found.st_gid)


@cache
def _is_own_group(number: int) -> bool:
    """Return whether a group has only this user: a group of the user's name and first group, without further members.

    Many systems give each user such a group and let it write what the user creates.
    """
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(number)
    except KeyError:
        return False
    return user.pw_gid == number and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _name_user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"the user with the number {number}"
