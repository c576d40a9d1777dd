"""Define the interface of solvers: they take text and return text, and report every fault as a failure.

An answer counts only if `failure` is None and `text` is exactly what the caller expects. A solver never raises for a
fault of the solver program: a crash, a timeout or an exception becomes an answer that cannot be mistaken for a proof.
spec: V4.1, V4.6
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

DISCHARGED = "unsat\nsat"
"""The answer that discharges a refutation query.

The negation has no model, and the vacuity check, asked in the same context, has one.
"""


@dataclass(frozen=True)
class Answer:
    """A solver's output, stripped, or the reason why it has none that counts, and the time that it took, in seconds."""

    text: str
    failure: str | None
    seconds: float

    @property
    def proof(self) -> bool:
        """Whether the query is discharged: no failure, and the exact answer of a refutation with its vacuity check."""
        return self.failure is None and self.text == DISCHARGED

    @property
    def counterexample(self) -> bool:
        """Whether the query is false: the negation has a model and the vacuity check is sat."""
        return self.failure is None and self.text == "sat\nsat"

    def of_each(self, queries: int) -> list[Answer]:
        """Return the answer to each of some refutations that were asked in one text.

        Each answer is a failure if the solver answered more or fewer queries.

        >>> [each.proof for each in Answer("unsat\\nsat\\nsat\\nsat", None, 0.1).of_each(2)]
        [True, False]
        """
        lines = self.text.split("\n")
        if self.failure is None and len(lines) == 2 * queries:
            return [replace(self, text="\n".join(lines[k : k + 2])) for k in range(0, len(lines), 2)]
        return [replace(self, failure=self.failure or f"the solver answers {queries} queries with {self.text[:200]!r}")]


BEGIN = "(push)(assert (not (and true "
END = "(pop)(check-sat)"
"""The beginning and the end of a refutation. Neither occurs within one."""


class Solver(Protocol):
    """Anything that evaluates SMT-LIB text. Its declarations remain until an evaluation fails."""

    @property
    def version(self) -> str:
        """The name and version of the solver, or "" if they are not available.

        Builds that differ have different versions.
        """

    def evaluate(self, text: str, timeout_s: float) -> Answer:
        """Evaluate commands in the solver's context and return what they print."""

    def close(self) -> None:
        """Release the solver's resources. It may be used again."""


def refutation(claims: str) -> str:
    """Return the query that is discharged if every one of `claims`, conjuncts in a row, holds. spec: V4.1

    >>> refutation("(< 1 2)")
    '(push)(assert (not (and true (< 1 2))))(check-sat)(pop)(check-sat)'
    """
    return f"{BEGIN}{claims})))(check-sat){END}"
