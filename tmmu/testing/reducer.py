"""Make the problem of a failure smaller: buffers and nodes go one by one, then bytes and steps.

Hypothesis could shrink what it drew as well, but ends at other places and calls a planner several times as often.

spec: TP3.6
"""

from __future__ import annotations

from collections.abc import Callable

from tmmu.testing.problems import PlannerProblem
from tmmu.testing.properties import PropertyFailure

MOST = 300
"""The most problems that are examined to make one smaller."""
TRIES = 6
"""How often a smaller problem is examined, if the failure is one that comes and goes."""


def reduce_failure(
    examine: Callable[[PlannerProblem], PropertyFailure | None], failure: PropertyFailure, most: int = MOST
) -> PropertyFailure:
    """Return a failure of the same property, obligation and exception with a problem from which nothing can go.

    Each step takes the first smaller problem that fails. After `most` problems the smallest so far is returned. A
    failure of `deterministic` comes and goes: each problem is examined up to `TRIES` times then.
    """
    tries = TRIES if failure.name == "deterministic" else 1
    seen = {failure.problem.example}
    found: PropertyFailure | None = failure
    while found is not None:
        failure, found = found, None
        for smaller in failure.problem.simplify():
            if smaller.example in seen:
                continue
            if len(seen) > most:
                return failure
            seen.add(smaller.example)
            answers = (examine(smaller) for _ in range(tries))
            found = next((each for each in answers if each is not None and _kind(each) == _kind(failure)), None)
            if found is not None:
                break
    return failure


def _kind(failure: PropertyFailure) -> tuple[str, str, type]:
    return failure.name, failure.obligation, type(failure.cause)
