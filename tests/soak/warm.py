"""One solver for many verdicts: what `verify-plan` starts anew for each plan is kept, and emptied in between.

A verdict is reached by the same functions as ever; its solver processes alone are lent to it. Rows are asked inside
their own scope, so that a process with the definitions needs no cleaning; what asks the definition itself leaves
declarations behind, and its process is reset.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from proofs import obligations
from proofs.lemmas import at_use
from proofs.obligations import PRELUDE
from proofs.sharding import cover, ranks
from proofs.solvers import Answer
from proofs.solvers.process import Z3, SolverProcess, command_of


class Lent:
    """A solver process as the verifier sees it; closing it gives it back, to `idle` if it must be reset first."""

    def __init__(self, process: SolverProcess, idle: list[SolverProcess] | None = None) -> None:
        self._process, self._idle = process, idle

    @property
    def version(self) -> str:
        """The solver's."""
        return self._process.version

    def evaluate(self, text: str, timeout_s: float) -> Answer:
        """Evaluate in the kept process."""
        return self._process.evaluate(text, timeout_s)

    def close(self) -> None:
        """Leave the process running, as if it had read nothing but its prelude."""
        if self._idle is not None:
            if self._process.pid is not None:
                self._process.evaluate("(reset)", 60)
            self._idle.append(self._process)

    def __enter__(self) -> Lent:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def warm() -> Iterator[Z3]:
    """Lend out processes while this lasts; the one that has read what rows call is given."""
    rows, shards = Z3(PRELUDE), SolverProcess(cover.DEFINITIONS)
    idle: list[SolverProcess] = []  # the definition is asked by a thread of its own: there are two of them

    def for_rows(prelude: str = "") -> Lent | Z3:
        return Lent(rows) if prelude == PRELUDE else Z3(prelude)  # a lemma is proved in one of its own

    def for_other(**_: Any) -> Lent:
        return Lent(idle.pop() if idle else SolverProcess(command=command_of("z3")), idle)

    def for_ranks(prelude: str, command: tuple[str, ...]) -> Lent:
        assert (prelude, command) == (cover.DEFINITIONS, command_of("z3"))
        return Lent(shards)

    try:
        with (
            mock.patch.object(obligations, "SOLVERS", {"z3": for_rows}),
            mock.patch.object(obligations, "SolverProcess", for_other),
            mock.patch.object(ranks, "SolverProcess", for_ranks),
            # Which queries prove the lemmas is the same for every plan; whether they are on record is looked up.
            mock.patch.object(at_use, "proofs_of", functools.cache(at_use.proofs_of)),
        ):
            yield rows
    finally:
        for process in (rows, shards, *idle):
            process.close()
