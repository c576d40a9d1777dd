"""Packages that only some commands need, and the command that installs them: `pyproject.toml` has the extras.

A command checks that such a package is there before it does any work. spec: R5.4
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from tmmu.core import folders
from tmmu.core.errors import TmmuError

DISTRIBUTIONS = {"ggml": "ggml-python"}
"""The names by which pip installs packages that are imported by another name."""


class MissingPackage(TmmuError):
    """MISSING_PACKAGE: a package is needed and not installed. `fix` begins with the command that installs it."""

    def __init__(self, package: str, what: str, fix: str) -> None:
        super().__init__("MISSING_PACKAGE", what, fix=fix, package=package)

    @classmethod
    def refuse_without(cls, doing: str, package: str, extra: str | None = None) -> Self:
        """The refusal of `doing`, which needs `package`, one of the extra of that name or of `extra`."""
        return cls(package, f"{doing} needs the package {package}", install_command(package, extra))


def require_package(package: str, doing: str, extra: str | None = None) -> None:
    """Raise `MissingPackage` unless the package can be found. It is not imported, so this costs no time."""
    if not is_installed(package):
        raise MissingPackage.refuse_without(doing, package, extra)


@contextmanager
def require_import(package: str, doing: str, extra: str | None = None) -> Iterator[None]:
    """Raise `MissingPackage` where an import in this context fails. It is for the import of `package` alone."""
    try:
        yield
    except ImportError as error:
        raise MissingPackage.refuse_without(doing, package, extra) from error


def is_installed(package: str) -> bool:
    """Whether a top-level package can be found; a folder of that name without a module in it does not count.

    >>> is_installed("click"), is_installed("no_such_package")
    (True, False)
    """
    if package in sys.modules:
        return sys.modules[package] is not None
    try:
        found = importlib.util.find_spec(package)
    except ImportError:  # a finder refuses it
        return False
    return found is not None and found.origin is not None


def install_command(package: str, extra: str | None = None) -> str:
    """Return the command that installs the packages of an extra into this environment, from a checkout or not.

    >>> install_command("blake3", "hashed").split(" install ")[1]
    "'blake3>=1.0'"
    """
    own = Path(sys.executable).parent
    found = folders.find_program("pip")
    pip = "pip" if found and Path(found).parent == own else f"{shlex.quote(sys.executable)} -m pip"
    name, wanted = DISTRIBUTIONS.get(package, package), requirements(extra or package)
    if not any(re.match(rf"{re.escape(name)}\b", one, re.IGNORECASE) for one in wanted):
        wanted = [*wanted, name]  # the installed extra does not have it yet
    return f"{pip} install {' '.join(map(shlex.quote, wanted))}"


def requirements(extra: str) -> list[str]:
    """Return the requirements of an extra as the installed package states them.

    Returns [] if the package is not installed, as in a checkout, or was installed before it had this extra.
    """
    from importlib import metadata  # it takes longer to import than this module and all that it needs

    try:
        stated = [text.partition(";") for text in metadata.requires("tmmu") or ()]
    except metadata.PackageNotFoundError:
        return []
    of_extra = re.compile(rf"""extra == ["']{re.escape(extra)}["']""")
    return [name.strip() for name, _, marker in stated if of_extra.search(marker)]
