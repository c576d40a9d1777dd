"""The rows and the naive checker, which share nothing but the plan's words, say the same of right and wrong plans.

spec: V4.2, V4.4, V4.5, D1.3
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from proofs.proving.obligations import MODULES, PRELUDE
from proofs.proving.obligations.context import context_of
from proofs.proving.obligations.discharge import discharge
from proofs.proving.solvers.process import Z3
from proofs.readers.models.ir import read_ir
from proofs.readers.models.reference import ReferenceProgram
from proofs.readers.sharing import decide_permissions
from tests.support.effort import share
from tests.support.objections import objections
from tests.support.synthetic import training_plan
from tmmu.core.columns import NONE
from tmmu.core.vocabulary import Model
from tmmu.examples.broken import KINDS
from tmmu.examples.broken.editing import changed, with_accesses
from tmmu.planner import PlanOptions
from tmmu.planner.plan import plan_memory
from tmmu.plans.sections import Plan
from tmmu.testing.catalogue.entries import COLUMNS, Change, corrupted
from tmmu.testing.strategies.models import numbered

SOLVER = Z3(PRELUDE)
NAMES = set(MODULES)


@pytest.fixture(scope="module", autouse=True)
def _closing() -> Iterator[None]:
    yield
    SOLVER.close()


def refuted(plan: Plan, expected: ReferenceProgram | None = None, donated: frozenset[str] = frozenset()) -> set[str]:
    """The obligations that the solver does not discharge."""
    view = context_of(plan, decide_permissions(plan, expected, donated), donated)
    results = discharge([obligation.rows(view) for obligation in MODULES.values()], [SOLVER], 60)
    return {o for o, result in zip(MODULES, results, strict=True) if not result.proved}


def objected(plan: Plan, model: Model | None = None, donated: frozenset[str] = frozenset()) -> set[str]:
    """The obligations of this package that the naive side finds broken."""
    found = {getattr(item, "obligation", "steps_are_the_model") for item in objections(plan, model, donated)}
    return found & NAMES


@pytest.mark.parametrize("kind", KINDS)
def test_no_wrong_plan_of_the_corpus_is_proved(kind: str) -> None:
    """But for those whose steps hang together by themselves: a model, a hash or the bodies' order shows their lie."""
    broken = KINDS[kind]
    plan = broken.build().plan
    assert bool(refuted(plan)) >= bool(objected(plan))
    assert refuted(plan) or broken.obligation not in NAMES


# Where the rows are stricter on purpose: a storage as strict as its tensors, slots apart as a whole.
STRICTER = {"tensors.alignment", "storages.alignment", "slots.bytes"}


@pytest.mark.parametrize("seed", [1, 2][: share(2)])
def test_a_plan_with_one_other_number_is_proved_exactly_if_the_naive_checker_finds_nothing(seed: int) -> None:
    plan = training_plan(5, seed, in_place=0.4, views=0.3, arenas=seed)
    assert objected(plan) == refuted(plan) == set()
    rows = {
        "slot": len(plan.slots),
        "arena": seed,
        "storage": len(plan.allocation.storages),
        "writer": 5,
        "of": 6,
        "role": 6,
    }
    for table, name in COLUMNS:
        if table not in ("tensors", "storages", "slots") or name == "dtype":
            continue
        where, of = ("slots", "of") if name == "slot" else (table, name)
        column = getattr(plan.slots if where == "slots" else getattr(plan.allocation, where), of)
        for row, old in enumerate(column.tolist()):
            for new in {old + 1, old - 1, old + 128, 0, NONE} - {old}:
                end = min(rows.get(name, NONE if column.dtype.itemsize > 1 else 4), 2**63)
                if not (0 <= new < end or (new == NONE and name in ("writer", "of"))):
                    continue
                wrong = changed(plan, table, row, **{name: new})
                naive, solver = bool(objected(wrong)), bool(refuted(wrong))
                assert solver >= naive, (table, name, row, new)
                assert solver == naive or f"{table}.{name}" in STRICTER, (table, name, row, new)


def test_a_plan_with_other_accesses_is_proved_exactly_if_the_naive_checker_finds_nothing() -> None:
    plan = training_plan(6, 1, in_place=0.4, views=0.3)
    for step in range(6):
        others: list[dict[str, tuple[int, ...]]] = [{"reads": ()}, {"writes": ()}, {"writes": (step,)}]
        others += [{"mutates": (step,)}, {"mutates": (step + 1,)}]
        for tensor in range(7):
            others.append({"reads": (step, tensor)})
            others.append({"reads": (step, tensor), "writes": (step + 1, tensor), "mutates": (tensor,)})
        for lists in others:
            wrong = with_accesses(plan, **{name: {step: tensors} for name, tensors in lists.items()})
            assert bool(refuted(wrong)) == bool(objected(wrong)), (step, lists)


@pytest.mark.parametrize("number", range(share(60)))
def test_rows_are_never_laxer_than_the_naive_checker(number: int) -> None:
    """Random models with bodies, groups, windows and donated inputs; then one entry of their plan changed."""
    chance = random.Random(number)
    model = numbered(number)
    plan: Plan | None = plan_memory(model, options=PlanOptions(mode=chance.choice(["inference", "forward"]))).plan
    donated = frozenset(model.bindings.donated)
    expected = read_ir(model)
    for _ in range(4):
        if plan is not None:
            assert bool(refuted(plan, expected, donated)) >= bool(objected(plan, model, donated))
            assert bool(refuted(plan, None, donated)) >= bool(objected(plan, None, donated))
            right = plan
        how = chance.choice(("other", "more", "less", "nothing"))
        plan = corrupted(right, [Change(*chance.choice(COLUMNS), chance.randrange(64), how, chance.randrange(1, 32))])
