"""Read what the user donates: `--donate` takes names of the caller's tensors, and patterns whose `*` is any text.

A name or a pattern that fits nothing is the user's mistake. One rank of a sharded model has only the tensors of its
stage, so that there each must fit something in one of the given plans. So it is for the programs of a set, in which
`PROGRAM:NAME` donates the tensor of one program only. spec: C1.6, PS4.9, V5.5
"""

from __future__ import annotations

from collections.abc import Iterable

from proofs.readers.arrivals import find_late_inputs
from proofs.readers.patterns import Patterns, fits
from tmmu.core.columns import NONE
from tmmu.plans.sections import Plan


def caller_tensors(plan: Plan) -> frozenset[str]:
    """Return the names of the tensors that the caller writes, before step 0 or late: all that can be donated."""
    given = (plan.allocation.tensors.writer == NONE) | find_late_inputs(plan.allocation)
    return frozenset(
        name for name, is_given in zip(plan.allocation.tensors.name, given.tolist(), strict=True) if is_given
    )


def donated_names(plan: Plan, patterns: Iterable[str]) -> frozenset[str]:
    """Return the plan's tensors that the patterns donate. O(tensors x patterns with a star)."""
    wanted = Patterns(patterns)
    return frozenset(filter(wanted.match, caller_tensors(plan)))


def patterns_of_program(patterns: Iterable[str], program: str) -> tuple[str, ...]:
    """Return the patterns as a program of a set reads them: without its own name before them. spec: PS4.9

    >>> patterns_of_program(["s", "decode:k*", "prefill:s"], "decode")
    ('s', 'k*', 'prefill:s')
    """
    return tuple(pattern.removeprefix(f"{program}:") for pattern in patterns)


def unmatched_patterns(patterns: Iterable[str], names: Iterable[str]) -> list[str]:
    """Return the patterns that fit none of these names, in order.

    >>> unmatched_patterns(["x", "w*", "v*"], ["w1", "x"])
    ['v*']
    """
    donated = frozenset(names)
    return sorted(p for p in set(patterns) - donated if "*" not in p or not any(fits(p, name) for name in donated))
