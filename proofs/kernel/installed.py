"""Where the kernel of this very package is installed: a folder named by the digest of its sources.

A program or theory built from other sources stands in another folder, so that a stale one is never used.
Standard library only: `make kernel` runs this before anything is installed. spec: V6.3
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from proofs.tools import users_folders

SOURCES = Path(__file__).parent
ORDER = (
    "Lists", "Columns", "Check", "Safe", "Run", "Claims", "ListsProof", "Placement", "Edges", "Accesses", "Soundness",
    "RunProof", "ProgressProof", "ClaimsProof", "Theorems", "Examples", "Table",
)  # fmt: skip
"""The theory, each file after those that it needs. `Extract.v` and `main.ml` make the program of it."""
PROGRAM, THEORY = "kernel", "theory"
"""The program's name, and that of the folder of the compiled theory."""


def digest(sources: Path = SOURCES) -> str:
    """The digest of all that the kernel is made of, by name and content. O(bytes)."""
    total = hashlib.sha256()
    for name in (*(f"{name}.v" for name in ORDER), "Extract.v", "main.ml"):
        content = (sources / name).read_bytes()
        total.update(f"{name} {len(content)}\n".encode() + content)
    return total.hexdigest()


def folder(sources: Path = SOURCES) -> Path:
    """Where the kernel of these sources is, or would be, installed."""
    return users_folders.data() / "kernel" / digest(sources)


def program() -> Path | None:
    """The installed program of this package, if there is one."""
    path = folder() / PROGRAM
    return path if os.access(path, os.X_OK) else None


def theory() -> Path | None:
    """The folder of the installed compiled theory of this package, if there is one."""
    path = folder() / THEORY
    return path if (path / "Theorems.vo").is_file() else None
