"""Evaluate in Python the rows of the obligation that inputs are kept."""

from __future__ import annotations

from collections.abc import Callable

from proofs.proving.obligations import inputs_kept
from proofs.proving.obligations.context import context_of
from proofs.readers.sharing import decide_permissions
from tmmu.plans.sections import Plan


def answers(plan: Plan, donated: frozenset[str]) -> set[bool]:
    """What the rows of the obligation say: each is evaluated in Python, and there are none if the plan lacks it."""
    context = context_of(plan, decide_permissions(plan, None, donated), donated)
    macros: dict[str, Callable[..., bool]] = {
        "stays": lambda birth, given, death, last: birth == given and last <= death,
        "in_hull": lambda first, size, low, high: low <= first and first + size <= high,
        "clear_of": lambda first, size, low, high: first + size <= low or high <= first,
    }
    rows = (row.strip("()").split() for batch in inputs_kept.rows(context) for row in batch.rows)
    return {macros[macro](*map(int, numbers)) for macro, *numbers in rows}
