"""The lemmas, proved when they are first needed, and a record of it so that they are not proved every time.

A record is a file in the user's cache that is named by a digest of everything its lemma's proof depends on, solver
included, and holds that digest and a word. A record that is missing, unreadable or anything else than that is no
record: the lemma is proved again. Nothing that goes wrong with the cache can make a lemma count that was not proved,
or stop a proof. spec: V4.3, V4.8
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from proofs.lemmas import descent
from proofs.lemmas.chains import DEFINITIONS
from proofs.lemmas.families import OF_CHAINS as LEMMAS
from proofs.lemmas.induction import Lemma, Query, queries
from proofs.lemmas.properties import PROPERTIES
from proofs.solvers import Solver
from proofs.solvers.process import Z3
from proofs.tools import users_folders

COUNT = len(LEMMAS)
TEXT = DEFINITIONS + PROPERTIES
"""All that the lemmas speak of; its first half is what is evaluated on plans."""


def proofs_of(lemmas: Sequence[Lemma] = LEMMAS, text: str = TEXT) -> dict[str, list[Query]]:
    """The queries that prove each lemma, by name, in order.

    Raises `Unfounded` where a definition may not end, `NoInduction` where a proof would be no induction.
    """
    known = descent.check(text)
    earlier: dict[str, Lemma] = {}
    result: dict[str, list[Query]] = {}
    for lemma in lemmas:
        result[lemma.name] = queries(lemma, known, earlier)
        earlier[lemma.name] = lemma
    return result


def cache_folder() -> Path:
    """Where records lie: `tmmu/lemmas` in the user's cache (`XDG_CACHE_HOME`, by default `~/.cache`)."""
    return users_folders.cache() / "lemmas"


def unproved(
    version: str, timeout_s: float, folder: Path | None = None, start: Callable[[], Solver] = Z3
) -> dict[str, str]:
    """Prove every lemma that is not on record; the names of those that remain unproved, each with the reason.

    Parameters
    ----------
    version
        That of the solver in use, as it states it: a record counts for one solver. "" where it does not start.
    timeout_s
        Seconds for each query; all of them together take well under one.
    folder
        Where records lie, by default `cache_folder()`.
    start
        Makes a solver that has read nothing, for what is to be proved now.

    Notes
    -----
    All lemmas have one record: a lemma uses those before it, and all are needed.
    """
    folder = cache_folder() if folder is None else folder
    proofs = proofs_of()
    if not version:
        return dict.fromkeys(proofs, "the solver does not start")
    digest = digest_of(proofs, version)
    if _on_record(folder / digest, digest):
        return {}
    solver = start()
    try:
        failed = prove(proofs, solver, timeout_s)
        same = solver.version == version
    finally:
        solver.close()
    if not failed and same:
        _record(folder / digest, digest)
    return failed


def prove(proofs: dict[str, list[Query]], solver: Solver, timeout_s: float, text: str = TEXT) -> dict[str, str]:
    """Give the solver the definitions, then ask every query.

    Returns the lemmas that it does not discharge, each with what it said instead.
    """
    failed: dict[str, str] = {}
    given = solver.evaluate(text, timeout_s)
    if given.failure is not None or given.text:
        return dict.fromkeys(proofs, given.failure or given.text[:200])
    names = list(proofs)
    for position, name in enumerate(names):
        for query in proofs[name]:
            answer = solver.evaluate(query.refutation(), timeout_s)
            if answer.failure is not None:  # its definitions are gone with it
                return failed | dict.fromkeys(names[position:], answer.failure)
            if not answer.proof:
                failed.setdefault(name, f"the solver answers {answer.text[:200]!r}")
    return failed


def digest_of(proofs: dict[str, list[Query]], version: str, text: str = TEXT) -> str:
    """The SHA-256 of all that the proofs depend on: definitions, queries as the solver reads them, its version."""
    parts = [version, text, *(query.refutation() for cases in proofs.values() for query in cases)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _content(digest: str) -> bytes:
    return f"{digest} PROVED\n".encode()


def _on_record(path: Path, digest: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(len(_content(digest)) + 1) == _content(digest)
    except OSError:
        return False


def _record(path: Path, digest: str) -> None:
    """Write a record whole or not at all; a cache that cannot be written costs a second next time, no more."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
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
