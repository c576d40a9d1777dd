"""Prove the lemmas that verdicts rest on at first use: all of `plan` and no others. spec: V4.3, V4.8"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from proofs.proving import smt, solvers
from proofs.proving.lemmas import engine, plan
from proofs.proving.lemmas.engine import record
from proofs.proving.lemmas.engine.family import Family
from proofs.proving.solvers import Solver
from proofs.proving.solvers.process import Z3
from tmmu.core import folders

FAMILY = Family("plan", (*plan.LISTS, *plan.STATEMENTS, *plan.SETS), plan.TEXT, plan.LISTS)
"""Every lemma that a verdict can use."""
COUNT = len(FAMILY.lemmas)
_make_requests = functools.cache(FAMILY.requests)  # they depend on no plan
PACKAGES = (plan, engine, smt, solvers)
"""The packages whose sources state the lemmas and make the requests from them. spec: V4.3"""


def cache_folder() -> Path | None:
    """Return the folder of records: `tmmu/lemmas` in the user's cache. None if the user has no cache."""
    cache = folders.cache_folder()
    return None if cache is None else cache / "lemmas"


def find_distrust() -> str | None:
    """Return why records in the user's cache are not used, and what to do. None if they are, or there are none.

    spec: RE1.4
    """
    folder = cache_folder()
    try:
        if folder is not None:
            folders.check_private(folder)
    except folders.NotPrivate as error:
        return f"the lemmas were proved again, as {error}"
    except OSError:
        pass
    return None


def prove_unrecorded(
    version: str, timeout_s: float, folder: Path | None = None, start: Callable[[], Solver] = Z3
) -> dict[str, str]:
    """Prove the lemmas by a solver of this version, as `record.prove_unrecorded` does.

    Return those that remain, with the reason.

    All of them together take under a second, and finding their record a few milliseconds.
    """
    return record.prove_unrecorded(
        _make_requests, FAMILY.text, find_sources(), version, timeout_s, folder or cache_folder(), start
    )


def find_sources() -> list[Path]:
    """Return the files of `PACKAGES`."""
    return [path for package in PACKAGES for folder in package.__path__ for path in Path(folder).glob("*.py")]
