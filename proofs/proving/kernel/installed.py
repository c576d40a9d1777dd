"""Where the kernel of this very package is: in a folder of the user's, named by the digest of its sources, or in the
package itself, as a wheel brings it.

A program or theory built from other sources stands in another folder, so that a stale one is never used; the program
in a package states the digests of its sources and of itself. Standard library only: `make kernel` runs this before
anything is installed. spec: V6.3, V6.10
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import NamedTuple

from proofs.tools import users_folders

SOURCES = Path(__file__).parent
ORDER = (
    "Lists", "Columns", "Check", "Safe", "Run", "Claims", "ListsProof", "Placement", "Edges", "Accesses", "Soundness",
    "RunProof", "ProgressProof", "ClaimsProof", "Theorems", "Examples", "Table",
)  # fmt: skip
"""The theory, each file after those that it needs. `Extract.v` and `main.ml` make the program of it."""
PROGRAM, THEORY = "kernel", "theory"
"""The program's name, and that of the folder of the compiled theory."""
STATED = "kernel.json"
"""The file beside a program that says what it was built from."""
PACKAGED = SOURCES / "built"
"""Where a wheel has the program."""


class KernelBuild(NamedTuple):
    """What a program was built from, each as a SHA-256: its sources, itself, and the compiled file of its theorems."""

    sources: str
    program: str
    theorems: str


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
    """The program of this package, if there is one: the one that was built here, else the package's own."""
    path = folder() / PROGRAM
    if os.access(path, os.X_OK):
        return path
    packaged = PACKAGED / PROGRAM
    return packaged if os.access(packaged, os.X_OK) and stated(PACKAGED) is not None else None


def stated(where: Path) -> KernelBuild | None:
    """What is stated of the program in a folder, where that is of these sources and of that very program; else None."""
    try:
        found = KernelBuild(**json.loads((where / STATED).read_bytes()))
        same = found.sources == digest() and found.program == of_file(where / PROGRAM)
    except (OSError, ValueError, TypeError):
        return None
    return found if same else None


def of_file(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def theory() -> Path | None:
    """The folder of the installed compiled theory of this package, if there is one."""
    path = folder() / THEORY
    return path if (path / "Theorems.vo").is_file() else None


def description() -> str:
    """A line for people: which kernel this package has, and where it is from."""
    path = program()
    if path is None:
        return "kernel: not installed (tmmu kernel install)"
    of = stated(path.parent)
    whence = "of the package" if path.parent == PACKAGED else "built here"
    theorems = "" if of is None else f", Theorems.vo {of.theorems[:16]}"
    return f"kernel: sources {digest()[:16]}{theorems}, {whence}"
