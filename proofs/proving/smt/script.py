"""Write queries as files of SMT-LIB 2.

A file has definitions, each query in a separate scope, and after each query a vacuity check. That is an empty question,
which a context that answers `unsat` to everything answers wrongly. Calls on written-out lists are unfolded, so that the
files of a plan need no recursive function. The files of some lemmas do need one, and a solver that finds no models for
recursive functions may answer their vacuity check with `unknown`. Each `check-sat` follows the status that it must
have. No option is set, so that no solver is preferred. spec: C4.3, V4.10
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path

from proofs.proving.smt.unfold import Scope
from tmmu.core import canonical
from tmmu.core.errors import TmmuError

UNSAT = "(set-info :status unsat)\n(check-sat)\n"
CANARY = "(set-info :status sat)\n(check-sat)\n"


def write_queries(scope: Scope, queries: Iterable[str]) -> Iterator[str]:
    """Yield the text of a file. Each query is the commands before its `check-sat`, which must answer `unsat`.

    The queries of one file are unfolded together, because they need the same definitions.
    """
    parts = [(comments, *scope.unfold(query)) for comments, query in map(_parted, queries)]
    definitions = max((definitions for _, definitions, _ in parts), key=len)
    yield f"(set-logic ALL)\n{definitions.strip()}\n"
    for comments, _, commands in parts:
        yield f"{comments}(push 1)\n{commands}\n{UNSAT}(pop 1)\n"
    yield CANARY


def _parted(query: str) -> tuple[str, str]:
    """Return the comments that a query begins with, and the query."""
    comments = list(takewhile(lambda line: line.startswith(";"), query.splitlines(keepends=True)))
    return "".join(comments), query[sum(map(len, comments)) :]


def write(path: Path, sentence: str, text: Iterable[str]) -> Path:
    """Write a file that begins with a sentence as a comment, and return its path.

    Raises TmmuError if it cannot be written.
    """
    comment = "".join(f"; {line}\n" for line in sentence.splitlines())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TmmuError(
            "TMMU_ALLOCATION_FAILURE", f"cannot be made ({error.strerror})", file=str(path.parent),
            fix="name another folder",
        ) from error  # fmt: skip
    canonical.write_atomically(path, (comment + "".join(text)).encode())
    return path
