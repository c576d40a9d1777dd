"""All that the verifier's naive side has to say against a plan: what the solver is asked comes on top of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from proofs import checker, claims, structure
from proofs.checker import Problem
from proofs.claims import FalseField
from proofs.program import program
from proofs.readers.compare import Difference, differences
from proofs.readers.ir_model import read_ir
from proofs.readers.sharing import permitted
from tmmu.plan.columns import Plan
from tmmu.vocabulary import Model


def objections(
    plan: Plan, model: Model | None, donated: Iterable[str] = ()
) -> Iterator[Problem | FalseField | Difference]:
    """What is false in a plan, for the steps that it states or, where one is given, against the model."""
    given_up = frozenset(donated)
    expected = read_ir(model) if model is not None else None
    run = program(plan, permitted(plan, expected, given_up), given_up)
    yield from checker.problems(run)
    yield from structure.problems(plan, run)
    if expected is not None:
        yield from differences(plan, expected, given_up)
    yield from claims.false_claims(plan, run)
