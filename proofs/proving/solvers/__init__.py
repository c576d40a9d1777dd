"""The interface of solvers: text goes in, text comes out, and whatever goes wrong is reported as a failure.

An answer counts only where `failure` is None and `text` is exactly what the caller expects. A solver never raises for
what the solver program does: a crash, a timeout or an exception is an answer that cannot be mistaken for a proof.
spec: V4.1, V4.6
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

DISCHARGED = "unsat\nsat"
"""What a refutation query must answer: the negation has no model; its canary, asked in the same context, has one."""


@dataclass(frozen=True)
class Answer:
    """What a solver printed, stripped; or why it printed nothing that counts; and how long it took, in seconds."""

    text: str
    failure: str | None
    seconds: float

    @property
    def proof(self) -> bool:
        """Whether the query is discharged: no failure, and the exact answer of a refutation with its canary."""
        return self.failure is None and self.text == DISCHARGED

    @property
    def counterexample(self) -> bool:
        """Whether the negation has a model and the canary is sat: the query is false."""
        return self.failure is None and self.text == "sat\nsat"

    def of_each(self, queries: int) -> list[Answer]:
        """The answers to so many refutations that were asked in one text; a failure where it answers more or fewer.

        >>> [each.proof for each in Answer("unsat\\nsat\\nsat\\nsat", None, 0.1).of_each(2)]
        [True, False]
        """
        lines = self.text.split("\n")
        if self.failure is None and len(lines) == 2 * queries:
            return [replace(self, text="\n".join(lines[k : k + 2])) for k in range(0, len(lines), 2)]
        return [replace(self, failure=self.failure or f"the solver answers {queries} queries with {self.text[:200]!r}")]


BEGIN = "(push)(assert (not (and true "
END = "(pop)(check-sat)"
"""How a refutation begins and ends, within which neither occurs again."""


class Solver(Protocol):
    """Anything that evaluates SMT-LIB text; what it declares stays declared until an evaluation fails."""

    @property
    def version(self) -> str:
        """Name and version of the solver, or "" where it cannot be had; no two builds that differ share it."""

    def evaluate(self, text: str, timeout_s: float) -> Answer:
        """Evaluate commands in the solver's context and return what they print."""

    def close(self) -> None:
        """Give back what the solver holds. It may be used again."""


def refutation(claims: str) -> str:
    """The query that is discharged if every one of `claims`, conjuncts in a row, holds. spec: V4.1

    >>> refutation("(< 1 2)")
    '(push)(assert (not (and true (< 1 2))))(check-sat)(pop)(check-sat)'
    """
    return f"{BEGIN}{claims})))(check-sat){END}"
