"""What is kept from verdict to verdict: what solvers and the kernel proved of a plan just now.

A verdict is reached by the same functions as ever. A plan that differs from one that was just proved in nothing but
`UNSEEN` is not proved again: no row and no word for the kernel is drawn from it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self
from unittest import mock

from proofs.proving import obligations
from proofs.proving.kernel import installed, program
from proofs.proving.kernel.program import KernelAnswer
from proofs.proving.lemmas.plan.cover import DEFINITIONS
from proofs.proving.obligations import PRELUDE
from proofs.proving.obligations.context import Context
from proofs.proving.solvers import Answer, Solver
from proofs.proving.solvers.kept import command_of
from proofs.proving.solvers.process import Z3, SolverProcess
from proofs.verify import ranks
from tmmu.plans import file

UNSEEN = ("model", "mode", "order", "replay_token", "ir_hash", "source_digest", "rank", "world_size", "shard_spec")
"""What a plan states of its provenance besides the layout, and so besides the program and where its tensors lie."""
KEPT = 200
"""When so many proofs are remembered, all are forgotten: what is asked again is asked soon."""


class Remembering:
    """A solver of which what was asked letter by letter before, in a scope of its own, is answered as it was."""

    def __init__(self, solver: Solver, known: dict[str, Answer]) -> None:
        self.solver, self._known = solver, known

    @property
    def version(self) -> str:
        """The solver's."""
        return self.solver.version

    def evaluate(self, text: str, timeout_s: float) -> Answer:
        """Evaluate, unless it is known what comes of it."""
        if text in self._known:
            return self._known[text]
        answer = self.solver.evaluate(text, timeout_s)
        if len(self._known) >= KEPT:
            self._known.clear()
        if answer.failure is None:
            self._known[text] = answer
        return answer

    def close(self) -> None:
        """The solver is closed by what made it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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


def is_accepted(answer: KernelAnswer) -> bool:
    """Whether the kernel accepted."""
    return bool(answer.accepted)


@contextmanager
def warm() -> Iterator[Z3]:
    """Keep proofs while this lasts, and one solver with the definitions of the rows, which is given."""
    with Z3(PRELUDE) as rows, SolverProcess(DEFINITIONS) as shards:
        of_shards: dict[str, Answer] = {}
        proved, accepted = Kept(obligations.prove_with, all_proved), Kept(program.ask, is_accepted)

        def for_ranks(prelude: str, command: tuple[str, ...]) -> Remembering:
            assert (prelude, command) == (DEFINITIONS, command_of("z3"))
            return Remembering(shards, of_shards)

        def prove_with(solvers: Any, context: Context, **named: Any) -> Any:
            return proved(context, lambda prove: prove(solvers, context, **named))

        def ask(path: Any, context: Context, *given: Any) -> Any:
            return accepted(context, lambda ask: ask(path, context, *given))

        with (
            mock.patch.object(ranks, "SolverProcess", for_ranks),
            mock.patch.object(obligations, "prove_with", prove_with),
            mock.patch.object(program, "ask", ask),
            mock.patch.object(installed, "digest", functools.cache(installed.digest)),
        ):
            yield rows
