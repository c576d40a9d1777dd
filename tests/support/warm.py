"""What is kept from verdict to verdict: solver processes, and what they and the kernel proved of a plan just now.

A verdict is reached by the same functions as ever; `verify-plan` starts solvers anew for each plan, and here they are
lent to it. Rows are asked inside their own scope, so that a process with the definitions needs no cleaning; what asks
the definition itself leaves declarations behind, and its process is reset. A plan that differs from one that was just
proved in nothing but `UNSEEN` is not proved again: no row and no word for the kernel is drawn from it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from proofs import obligations
from proofs.kernel import installed, program
from proofs.lemmas import at_use
from proofs.lemmas.plan.cover import DEFINITIONS
from proofs.obligations import PRELUDE
from proofs.obligations.context import Context
from proofs.solvers import Answer
from proofs.solvers.process import Z3, SolverProcess, command_of
from proofs.verify import ranks
from tmmu.plan import file

UNSEEN = ("model", "mode", "order", "replay_token", "ir_hash", "source_digest", "rank", "world_size", "shard_spec")
"""What a plan states of its provenance besides the layout, and so besides the program and where its tensors lie."""
KEPT = 200
"""When so many proofs are remembered, all are forgotten: what is asked again is asked soon."""


class Lent:
    """A solver process as the verifier sees it; closing it gives it back, to `idle` if it must be reset first."""

    def __init__(self, process: SolverProcess, idle: list[SolverProcess] | None = None) -> None:
        self.process, self._idle = process, idle

    @property
    def version(self) -> str:
        """The solver's."""
        return self.process.version

    def evaluate(self, text: str, timeout_s: float) -> Answer:
        """Evaluate in the kept process."""
        return self.process.evaluate(text, timeout_s)

    def close(self) -> None:
        """Leave the process running, as if it had read nothing but its prelude."""
        if self._idle is not None:
            if self.process.pid is not None:
                self.process.evaluate("(reset)", 60)
            self._idle.append(self.process)

    def __enter__(self) -> Lent:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Remembering(Lent):
    """What was asked letter by letter before, in a scope of its own, is answered as it was."""

    def __init__(self, process: SolverProcess, known: dict[str, Answer]) -> None:
        super().__init__(process)
        self._known = known

    def evaluate(self, text: str, timeout_s: float) -> Answer:
        """Evaluate in the kept process, unless it is known what comes of it."""
        if text in self._known:
            return self._known[text]
        answer = super().evaluate(text, timeout_s)
        if len(self._known) >= KEPT:
            self._known.clear()
        if answer.failure is None:
            self._known[text] = answer
        return answer


class Kept:
    """A function of a plan whose last results are remembered where they `hold`."""

    def __init__(self, function: Callable[..., Any], holds: Callable[[Any], bool]) -> None:
        self._function, self._holds = function, holds
        self._known: dict[tuple[bytes, str | None, str, bytes], Any] = {}

    def __call__(self, context: Context, call: Callable[[Callable[..., Any]], Any]) -> Any:
        """What the function returns, or returned for a plan from which this one differs in nothing that it looks at."""
        plan = context.plan
        layout = None if plan.provenance is None else plan.provenance.layout
        bare = file.encode(replace(plan, provenance=None, shards=None))
        key = bare, layout, repr(context.permissions), context.donated.tobytes()
        if key in self._known:
            return self._known[key]
        result = call(self._function)
        if len(self._known) >= KEPT:
            self._known.clear()
        if self._holds(result):
            self._known[key] = result
        return result


def all_proved(outcomes: Sequence[obligations.Outcome]) -> bool:
    """Whether nothing is open."""
    return all(outcome.verdict == obligations.PROVED for outcome in outcomes)


@contextmanager
def warm() -> Iterator[Z3]:
    """Lend out processes while this lasts; the one that has read what rows call is given."""
    rows, shards = Z3(PRELUDE), SolverProcess(DEFINITIONS)
    of_shards: dict[str, Answer] = {}
    idle: list[SolverProcess] = []  # the definition is asked by a thread of its own: there are two of them

    def for_rows(prelude: str = "") -> Lent | Z3:
        return Lent(rows) if prelude == PRELUDE else Z3(prelude)  # a lemma is proved in one of its own

    def for_other(**_: Any) -> Lent:
        return Lent(idle.pop() if idle else SolverProcess(command=command_of("z3")), idle)

    def for_ranks(prelude: str, command: tuple[str, ...]) -> Lent:
        assert (prelude, command) == (DEFINITIONS, command_of("z3"))
        return Remembering(shards, of_shards)

    unproved, shown = at_use.unproved, set[str]()

    def still_unproved(version: str, *given: Any, **named: Any) -> dict[str, str]:
        """Lemmas depend on no plan: what a solver has proved stays so."""
        left = {} if version in shown else unproved(version, *given, **named)
        if not left:
            shown.add(version)
        return left

    proved, accepted = Kept(obligations.prove_with, all_proved), Kept(program.ask, lambda answer: bool(answer.accepted))

    def prove_with(solvers: Any, context: Context, **named: Any) -> Any:
        return proved(context, lambda prove: prove(solvers, context, **named))

    def ask(path: Any, context: Context, *given: Any) -> Any:
        return accepted(context, lambda ask: ask(path, context, *given))

    try:
        with (
            mock.patch.object(obligations, "SOLVERS", {"z3": for_rows}),
            mock.patch.object(obligations, "SolverProcess", for_other),
            mock.patch.object(ranks, "SolverProcess", for_ranks),
            mock.patch.object(obligations, "prove_with", prove_with),
            mock.patch.object(program, "ask", ask),
            mock.patch.object(at_use, "unproved", still_unproved),
            mock.patch.object(installed, "digest", functools.cache(installed.digest)),
        ):
            yield rows
    finally:
        for process in (rows, shards, *idle):
            process.close()
