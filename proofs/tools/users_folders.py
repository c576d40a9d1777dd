"""Return the user's folders for programs' files: the base folders that the XDG variables name.

Only the standard library is imported: `make kernel` runs this before anything is installed. spec: V4.3, V6.3
"""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the folder `tmmu` in the user's cache: `XDG_CACHE_HOME`, by default `~/.cache`."""
    return _base("XDG_CACHE_HOME", ".cache") / "tmmu"


def data_folder() -> Path:
    """Return the folder `tmmu` in the user's data: `XDG_DATA_HOME`, by default `~/.local/share`."""
    return _base("XDG_DATA_HOME", ".local/share") / "tmmu"


def _base(variable: str, default: str) -> Path:
    """Return the variable's folder. A relative path is ignored, as the XDG Base Directory Specification requires."""
    named = os.environ.get(variable, "")
    return Path(named) if os.path.isabs(named) else Path(os.path.expanduser("~")) / default
