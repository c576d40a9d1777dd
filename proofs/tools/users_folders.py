"""Where the user keeps what programs of theirs leave: the base folders that the XDG variables name.

Standard library only: `make kernel` runs this before anything is installed. spec: V4.3, V6.3
"""

from __future__ import annotations

import os
from pathlib import Path


def cache() -> Path:
    """The folder `tmmu` in the user's cache: `XDG_CACHE_HOME`, by default `~/.cache`."""
    return _base("XDG_CACHE_HOME", ".cache") / "tmmu"


def data() -> Path:
    """The folder `tmmu` in the user's data: `XDG_DATA_HOME`, by default `~/.local/share`."""
    return _base("XDG_DATA_HOME", ".local/share") / "tmmu"


def _base(variable: str, default: str) -> Path:
    """The variable's folder. A relative path counts as none, as the XDG Base Directory Specification has it."""
    named = os.environ.get(variable, "")
    return Path(named) if os.path.isabs(named) else Path(os.path.expanduser("~")) / default
