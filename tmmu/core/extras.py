"""Packages that only some commands need, and the command that installs them: `pyproject.toml` has the extras."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tmmu.core.errors import TmmuError


def install(extra: str) -> str:
    """The command that installs an extra; the project is installed from its checkout.

    >>> install("onnx")
    "in the checkout: pip install '.[onnx]'"
    """
    return f"in the checkout: pip install '.[{extra}]'"


@contextmanager
def needed(package: str, doing: str, code: str = "INVALID_IR", extra: str | None = None) -> Iterator[None]:
    """Around the import of modules that import `package`, of an extra of that name or another. TmmuError without it."""
    try:
        yield
    except ImportError as error:
        raise TmmuError(code, f"{doing} needs the package {package}", fix=install(extra or package)) from error
