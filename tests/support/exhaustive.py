"""What is asked of the plan of every small graph: as few slots as can be, nothing to object, every row discharged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from proofs.proving.obligations import MODULES, PRELUDE
from proofs.proving.obligations.context import context_of
from proofs.proving.obligations.discharge import discharge
from proofs.proving.obligations.rows import Place, batch_rows
from proofs.proving.solvers.process import Z3
from proofs.readers.models.ir import read_ir
from proofs.readers.sharing import decide_permissions
from tests.support.objections import objections
from tmmu.core.vocabulary import Model
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.sections import Plan
from tmmu.testing.strategies.every_graph import GraphChoice, fewest_colours, lifetimes, model_of

fewest = lru_cache(maxsize=None)(fewest_colours)


class Wrong(NamedTuple):
    """A graph whose plan is not as it must be, and why."""

    graph: tuple[GraphChoice, ...]
    why: str


def wrong_plans(
    graphs: Iterable[tuple[GraphChoice, ...]], *, outputs: str = "sinks", layout: str = "slots"
) -> Iterator[Wrong]:
    """Every graph whose plan has a slot too many, is objected to, or has a row that Z3 does not discharge.

    Rows are ground terms, and those of small plans are few: each different one is asked once, for all plans together.
    """
    rows: dict[str, tuple[GraphChoice, ...]] = {}
    count = 0
    for graph in graphs:
        count += 1
        model = model_of(graph, outputs=outputs)
        plan = plan_memory(model, options=PlanOptions(layout=layout)).plan
        best = fewest(tuple(sorted(_lives(plan, lifetimes(graph, model.outputs)))))
        if len(plan.slots) != best:
            yield Wrong(graph, f"{len(plan.slots)} slots where {best} do")
        yield from (Wrong(graph, problem[-1]) for problem in objections(plan, model))
        for row in _rows(plan, model):
            rows.setdefault(row, graph)
    if not count:
        raise ValueError("there was no graph")
    if (false := _false_row(list(rows))) is not None:
        yield Wrong(rows.get(false, ()), f"the solver does not discharge {false}")


def _lives(plan: Plan, results: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """When each storage is in use: from the first to the last step of the results that lie in it."""
    members: dict[int, list[tuple[int, int]]] = {}
    for storage, life in zip(plan.allocation.tensors.storage.tolist(), results, strict=True):
        members.setdefault(storage, []).append(life)
    return [(min(b for b, _ in lives), max(d for _, d in lives)) for lives in members.values()]


def _rows(plan: Plan, model: Model) -> Iterator[str]:
    view = context_of(plan, decide_permissions(plan, read_ir(model), frozenset()), frozenset())
    for obligation in MODULES.values():
        for batch in obligation.rows(view):
            yield from batch.rows


def _false_row(rows: list[str]) -> str | None:
    """The first row that Z3 does not discharge."""
    with Z3(PRELUDE) as solver:
        (result,) = discharge([batch_rows([(row, Place()) for row in rows])], [solver], 60)
    if result.refuted is not None:
        return result.refuted[0]
    return result.failure
