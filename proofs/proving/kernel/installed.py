"""Find the kernel of this package: in a user's folder, named by the digest of its sources, or in the package itself.

Wheels have it in the package. A program or theory built from other sources is in another folder, so that a stale one is
never used. Neither is one that another user could have written. Beside a program a file records the digests of its
sources and of itself. They are compared at each use, so that a damaged program is not used. Only the standard library
is imported: `make kernel` runs this before anything is installed. spec: V6.3, V6.10, V6.11
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from tmmu.core import folders
from tmmu.core.reading import digest_file, parse_json, read_file

SOURCES = Path(__file__).parent
ORDER = (
    "Lists", "Columns", "Check", "Cbor", "PlanFile", "Safe", "Run", "Sets", "SetFile", "Shapes", "Claims", "Inputs",
    "ListsProof", "CborProof", "Placement", "Edges", "Accesses", "Soundness", "RunProof", "ProgressProof",
    "ShapesProof", "ClaimsProof", "InputsProof", "Arrivals", "ArrivalsProof", "Scan", "ScanProof", "Symbolic",
    "SymbolicProof", "Planned", "PlannedProof", "PlannedChecked", "Evidence", "Streams", "EvidenceProof",
    "SymbolicRunsProof", "SetsProof", "SetFileProof", "Races", "StreamsProof", "StreamsProgressProof", "RacesProof",
    "Embeds", "Theorems", "Examples", "StreamExamples", "Table", "FileExamples", "SetExamples",
)  # fmt: skip
"""The files of the theory, each after those that it needs."""
OF_PROGRAM = ("Extract.v", "sha256.ml", "main.ml")
"""The files that make the program of it."""
PROGRAM, THEORY = "kernel", "theory"
"""The names of the program and of the folder of the compiled theory."""
STATED = "kernel.json"
"""The file beside a program that states what it was built from."""
STATED_LIMIT = 1 << 16
"""The largest such file that is read, in bytes."""
PACKAGED = SOURCES / "built"
"""The folder of the program in a wheel."""


class KernelBuild(NamedTuple):
    """The SHA-256 of a program's sources, of the program, and of the compiled file of its theorems."""

    sources: str
    program: str
    theorems: str


def digest(sources: Path = SOURCES) -> str:
    """Return the digest of all sources of the kernel, by name and content. O(bytes)."""
    total = hashlib.sha256()
    for name in (*(f"{name}.v" for name in ORDER), *OF_PROGRAM):
        content = (sources / name).read_bytes()
        total.update(f"{name} {len(content)}\n".encode() + content)
    return total.hexdigest()


def folder(sources: Path = SOURCES) -> Path | None:
    """Return the folder of the kernel of these sources, installed or not.

    Returns None if the user has no folder for data.
    """
    data = folders.data_folder()
    return None if data is None else data / "kernel" / digest(sources)


def find_program() -> Path | None:
    """Return the program of this package, if there is one. A program that was built here precedes the package's own.

    A program that differs from its record is not used, and no other in its place: `refusal` states why.
    """
    path = _present()
    return path if path is not None and read_build(path.parent) is not None else None


def refusal() -> str | None:
    """Return why the existing program is not used, and what to do; None if it is used, or there is none.

    Without a folder for the user's data, the reason is why there is none.
    """
    path = _present()
    if path is None:
        return None if folder() is not None else f"there is no folder for it: {folders.ELSEWHERE}"
    if read_build(path.parent) is not None:
        return None
    distrust = _find_distrust(path)
    if distrust is not None:
        return distrust
    again = "install the package again" if path.parent == PACKAGED else "run make kernel or tmmu kernel install"
    return f"{path} is not the program that {STATED} beside it records: {again}"


def _present() -> Path | None:
    """Return the program that is used if it has the recorded digest."""
    paths = (where / PROGRAM for where in (folder(), PACKAGED) if where is not None)
    return next((path for path in paths if os.access(path, os.X_OK)), None)


def _find_distrust(path: Path) -> str | None:
    """Return why a program or theory counts as another user's, and what to do. What the package brings does not.

    spec: RE1.3, RE1.4
    """
    if path.parent == PACKAGED:
        return None
    try:
        for each in (path, path.parent / STATED):
            if each.exists():
                folders.check_private(each)
    except folders.NotPrivate as error:
        return str(error)
    return None


def read_build(where: Path) -> KernelBuild | None:
    """Return the digests stated beside a program, or None unless they match these sources and that program.

    Returns None too if another user could have written either.
    """
    if _find_distrust(where / PROGRAM) is not None:
        return None
    try:
        found = KernelBuild(**parse_json(read_file(where / STATED, STATED_LIMIT)))
        same = (
            all(isinstance(each, str) for each in found)
            and found.sources == digest()
            and found.program == digest_file(where / PROGRAM)
        )
    except (OSError, ValueError, TypeError):
        return None
    return found if same else None


def find_theory() -> Path | None:
    """Return the folder of the installed theory of this package, if there is one that only the user can write."""
    where = folder()
    theory = None if where is None else where / THEORY / "Theorems.vo"
    return theory.parent if theory is not None and theory.is_file() and _find_distrust(theory) is None else None


def description() -> str:
    """Return a line for users: which kernel this package has, and its origin."""
    path = find_program()
    if path is None:
        refused = refusal()
        return f"kernel: not used, as {refused}" if refused else "kernel: not installed (tmmu kernel install)"
    of = read_build(path.parent)
    whence = "of the package" if path.parent == PACKAGED else "built here"
    theorems = "" if of is None else f", Theorems.vo {of.theorems[:16]}"
    return f"kernel: sources {digest()[:16]}{theorems}, {whence}"
