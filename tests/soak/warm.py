"""What stays the same from verdict to verdict: solver processes, what they answered, and that the lemmas are on record.

A verdict is reached by the same functions as ever; `verify-plan` starts solvers anew for each plan, and here they are
lent to it. Rows are asked inside their own scope, so that a process with the definitions needs no cleaning; what asks
the definition itself leaves declarations behind, and its process is reset. What was asked before, letter by letter
and after the same, is not asked again: plans of many ranks differ in a few numbers, of which most rows say nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from proofs import obligations
from proofs.kernel import installed, program
from proofs.lemmas import at_use
from proofs.obligations import PRELUDE
from proofs.readers.sharing import Permissions
from proofs.sharding import cover, ranks
from proofs.solvers import Answer
from proofs.solvers.process import Z3, SolverProcess, command_of
from tmmu.plan.columns import Plan

Known = dict[tuple[str, ...], Answer]
"""The answer to the last of some texts, where those before it were evaluated in the same process."""
KNOWN = 1000
"""When so many answers are remembered, all are forgotten: what is asked again is asked soon."""


class Lent:
    """A solver process as the verifier sees it, which reads what the verifier says in scopes of their own."""

    def __init__(self, process: SolverProcess, known: Known) -> None:
        self.process, self._known = process, known

    @property
    def version(self) -> str:
        """The solver's."""
        return self.process.version

    def evaluate(self, text: str, timeout_s: float) -> Answer:
        """Evaluate in the kept process, unless it has evaluated just this."""
        if (answer := self._known.get((text,))) is None:
            answer = _remembered(self._known, (text,), self.process.evaluate(text, timeout_s))
        return answer

    def close(self) -> None:
        """Leave the process running."""

    def __enter__(self) -> Lent:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LentWhole(Lent):
    """A solver process that may be told anything; closing it makes it as it was and gives it back to `idle`."""

    def __init__(self, idle: list[SolverProcess], known: Known) -> None:
        super().__init__(idle.pop() if idle else SolverProcess(command=command_of("z3")), known)
        self._idle, self._said, self._read = idle, tuple[str, ...](), 0

    def evaluate(self, text: str, timeout_s: float) -> Answer:
        """Evaluate in the kept process, unless some process has evaluated all that this one was told, and this."""
        before, self._said = self._said, (*self._said, text)
        if (answer := self._known.get(self._said)) is None:
            for earlier in before[self._read :]:
                self.process.evaluate(earlier, timeout_s)
            self._read = len(self._said)
            answer = _remembered(self._known, self._said, self.process.evaluate(text, timeout_s))
        return answer

    def close(self) -> None:
        """Leave the process running, as if it had read nothing."""
        if self._read and self.process.pid is not None:
            self.process.evaluate("(reset)", 60)
        self._said, self._read = (), 0
        self._idle.append(self.process)


def _remembered(known: Known, key: tuple[str, ...], answer: Answer) -> Answer:
    if answer.failure is None:
        if len(known) >= KNOWN:
            known.clear()
        known[key] = answer
    return answer


@contextmanager
def warm() -> Iterator[Z3]:
    """Lend out processes while this lasts; the one that has read what rows call is given."""
    rows, shards = Z3(PRELUDE), SolverProcess(cover.DEFINITIONS)
    idle: list[SolverProcess] = []  # the definition is asked by a thread of its own: there are two of them
    of_rows, of_shards, of_other = Known(), Known(), Known()

    def for_rows(prelude: str = "") -> Lent | Z3:
        return Lent(rows, of_rows) if prelude == PRELUDE else Z3(prelude)  # a lemma is proved in one of its own

    def for_other(**_: Any) -> Lent:
        return LentWhole(idle, of_other)

    def for_ranks(prelude: str, command: tuple[str, ...]) -> Lent:
        assert (prelude, command) == (cover.DEFINITIONS, command_of("z3"))
        return Lent(shards, of_shards)

    unproved, shown = at_use.unproved, set[str]()

    def still_unproved(version: str, *given: Any, **named: Any) -> dict[str, str]:
        """Lemmas depend on no plan: what is proved once by a solver stays so."""
        left = {} if version in shown else unproved(version, *given, **named)
        if not left:
            shown.add(version)
        return left

    answers = dict[bytes, program.Answer]()

    def ask(
        kernel: Path, plan: Plan, permissions: Permissions, donated: frozenset[str], digest: bytes, timeout_s: float
    ) -> program.Answer:
        """The kernel's answer depends on all that it is told but the digest of the file, which it repeats."""
        told = program.words(plan, permissions, donated, bytes(32)).tobytes()
        if (answer := answers.get(told)) is None:
            answer = of_kernel(kernel, plan, permissions, donated, digest, timeout_s)
            if len(answers) >= KNOWN:
                answers.clear()
            if answer.yes:
                answers[told] = answer
        return answer

    of_kernel = program.ask
    try:
        with (
            mock.patch.object(program, "ask", ask),
            mock.patch.object(obligations, "SOLVERS", {"z3": for_rows}),
            mock.patch.object(obligations, "SolverProcess", for_other),
            mock.patch.object(ranks, "SolverProcess", for_ranks),
            mock.patch.object(at_use, "unproved", still_unproved),
            mock.patch.object(installed, "digest", functools.cache(installed.digest)),
        ):
            yield rows
    finally:
        for process in (rows, shards, *idle):
            process.close()
