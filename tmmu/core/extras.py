"""Packages that only some commands need, and the command that installs them: `pyproject.toml` lists the extras."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from tmmu.core.errors import TmmuError


def install(extra: str) -> str:
    """Return the command that installs the packages of an extra into this environment, from a checkout or not.

    >>> install("hashed").split(" install ")[1]
    "'blake3>=1.0'"
    """
    own = Path(sys.executable).parent
    found = shutil.which("pip")
    pip = "pip" if found and Path(found).parent == own else f"{shlex.quote(sys.executable)} -m pip"
    return f"{pip} install {' '.join(map(shlex.quote, packages(extra)))}"


def packages(extra: str) -> list[str]:
    """Return the requirements of an extra, as the installed package states them."""
    try:
        stated = [text.partition(";") for text in metadata.requires("tmmu") or ()]
    except metadata.PackageNotFoundError:  # run from a checkout that is not installed
        return [extra]
    of_extra = re.compile(rf"""extra == ["']{re.escape(extra)}["']""")
    return [name.strip() for name, _, marker in stated if of_extra.search(marker)]


@contextmanager
def needed(package: str, doing: str, code: str = "INVALID_IR", extra: str | None = None) -> Iterator[None]:
    """Wrap the import of modules that import `package`; raises TmmuError if it is missing.

    `extra` defaults to its name.
    """
    try:
        yield
    except ImportError as error:
        raise TmmuError(code, f"{doing} needs the package {package}", fix=install(extra or package)) from error
