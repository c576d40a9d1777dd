"""Prove lemmas at use, and record the proofs so that they are not repeated every time.

A record is a file in a folder. Its name is a digest of everything that the proofs depend on: the sources that state the
lemmas and make the requests from them, Python and the solver. It holds that digest and a word. So a record is found
without making the requests, which takes as long as all else that verifies a small plan. If it is missing, unreadable or
has any other content, the lemmas are proved again. No fault of the folder can make an unproved lemma count, or stop a
proof. spec: V4.3, V4.8
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from proofs.proving.solvers import Solver
from tmmu.core import folders

Requests = Mapping[str, Sequence[str]]
"""The requests that prove each lemma, by its name."""


def prove_unrecorded(
    make: Callable[[], Requests],
    text: str,
    sources: Iterable[Path],
    version: str,
    timeout_s: float,
    folder: Path | None,
    start: Callable[[], Solver],
) -> dict[str, str]:
    """Prove lemmas that are not on record. Return the names of those that remain unproved, each with the reason.

    Parameters
    ----------
    make
        Makes the requests that prove each lemma. All have one record: a lemma uses those before it, and all are needed.
    text
        The definitions that a solver reads first.
    sources
        The files of Python that `make` and `text` come from.
    version
        The version that the solver in use states, because a record counts for one solver. "" if it does not start.
    timeout_s
        Seconds for each request.
    folder
        The folder of the records. If it is None, or others can write to it, there are none. spec: RE1.3
    start
        Makes a solver that has read nothing, for lemmas that are not on record.
    """
    if not version:
        return dict.fromkeys(make(), "the solver does not start")
    digest = compute_digest(sources, version)
    if folder is not None and is_on_record(folder / digest, digest):
        return {}
    solver = start()
    try:
        failed = prove(make(), solver, timeout_s, text)
        same = solver.version == version
    finally:
        solver.close()
    if folder is not None and not failed and same:
        _record(folder / digest, digest)
    return failed


def prove(requests: Requests, solver: Solver, timeout_s: float, text: str) -> dict[str, str]:
    """Give the solver the definitions, then ask every request.

    Returns the lemmas that it does not discharge, each with its answer.
    """
    failed: dict[str, str] = {}
    if text:
        given = solver.evaluate(text, timeout_s)
        if given.failure is not None or given.text:
            return dict.fromkeys(requests, given.failure or given.text[:200])
    names = list(requests)
    for position, name in enumerate(names):
        for request in requests[name]:
            answer = solver.evaluate(request, timeout_s)
            if answer.failure is not None:
                if text:  # the solver's definitions are lost with it
                    return failed | dict.fromkeys(names[position:], answer.failure)
                failed.setdefault(name, answer.failure)
            elif not answer.proof:
                failed.setdefault(name, f"the solver answers {answer.text[:200]!r}")
    return failed


def compute_digest(sources: Iterable[Path], version: str) -> str:
    """Return the SHA-256 of all that the proofs depend on: the bytes of `sources`, Python, the solver's version."""
    digest = hashlib.sha256(f"{version}\0{sys.version}\0".encode())
    for path in sorted(sources):
        content = path.read_bytes()
        digest.update(f"{path.parent.name}/{path.name} {len(content)}\0".encode() + content)
    return digest.hexdigest()


def _content(digest: str) -> bytes:
    return f"{digest} PROVED\n".encode()


def is_on_record(path: Path, digest: str) -> bool:
    """Decide whether a file records the proofs with this digest. What is not a regular file does not."""
    try:
        return folders.read_private(path, len(_content(digest)) + 1) == _content(digest)
    except (OSError, folders.NotPrivate):
        return False


def _record(path: Path, digest: str) -> None:
    """Write a record whole or not at all. A cache that cannot be written only costs a second next time."""
    with contextlib.suppress(OSError, folders.NotPrivate):
        folders.make_private(path.parent)
        folders.check_private(path.parent)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_content(digest))
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise
