"""The kernel's program, the naive checker, Z3's rows and running agree on every plan: right, corrupted, moved, broken.

The kernel does not look at roles, devices' memories, arenas that hold nothing, bodies' brackets, hashes, models and
claims; everything else that the naive side objects to it must refuse, and it must refuse nothing else.
spec: V6.1, V1.1 to V1.7, V1.9 to V1.13, T7.2, T8.3, X4.3 to X4.8
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from proofs.proving.kernel import installed
from proofs.proving.kernel.arms import NotExpressed
from proofs.proving.kernel.evidence import words
from proofs.proving.kernel.program import KernelAnswer, PlanFile, ask, ask_words
from proofs.proving.obligations.context import context_of
from proofs.readers.models.ir import read_ir
from proofs.readers.sharing import Permissions, decide_permissions
from tests.support import branching
from tests.support.kernel_objections import accepted, find_objections
from tests.support.three_checks import by_rows, by_running, by_the_checker
from tmmu import examples
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ArenaConfiguration, Model
from tmmu.examples.broken import KINDS as BROKEN
from tmmu.examples.broken import exclusive
from tmmu.planner import DEFAULT, PlanOptions, plan_memory
from tmmu.plans import file
from tmmu.plans.sections import Plan
from tmmu.testing.catalogue.entries import PLACES, Change, corrupted
from tmmu.testing.strategies.models import arenas, changes, models
from tmmu.testing.strategies.recipes import HOLDERS, KINDS

layouts = st.sampled_from(("slots", "packed", "pools", "hashed"))
modes = st.sampled_from(("inference", "forward"))
all_models = models(kinds=(*KINDS, *HOLDERS))
models_with_arms = models(kinds=(*KINDS, *HOLDERS, *("if",) * 12))
CLAIMED = {"slot_count", "peak", "capacity"}
"""What the rows are asked besides: what a plan claims of its own size, with the footprint that it states."""


def planned(model: Model, mode: str, layout: str, where: tuple[ArenaConfiguration, ...] | None = None) -> Plan:
    options = PlanOptions(mode, layout, address_token=bytes(64) if layout == "hashed" else None)
    return plan_memory(model, DEFAULT if where is None else where, options).plan


def words_of_both(plan: Plan, model: Model | None, donated: frozenset[str]) -> tuple[bool, list[str]]:
    """Whether the kernel accepts the plan, and what the naive side says against it that the kernel looks at."""
    permissions = decide_permissions(plan, read_ir(model) if model is not None else None, donated)
    against = find_objections(plan, permissions, donated)
    yes = accepted(answer_of(plan, permissions, donated))
    assume(against is not None)
    assert against is not None
    return yes, against


def answer_of(plan: Plan, permissions: Permissions, donated: frozenset[str] = frozenset()) -> KernelAnswer:
    """What the kernel's program answers; raises `NotExpressed` where it is not asked."""
    path = installed.find_program()
    assert path is not None
    answer = ask(path, context_of(plan, permissions, donated), PlanFile.of(plan), 60)
    assert not answer.failure
    assert answer.part != "stated"  # the decoder reads every file that the writer writes, spec: V6.23
    return answer


def answer_by_both_ways(plan: Plan, permissions: Permissions) -> KernelAnswer:
    """The answer about the plan's file. It is that about the words that describe the plan, which are never symbolic.

    spec: V6.16
    """
    path, answer = installed.find_program(), answer_of(plan, permissions)
    assert path is not None
    row = words(context_of(plan, permissions), bytes(32))
    assert replace(answer, symbolic=None) == ask_words(path, [row], bytes(32), 60)
    return answer


@given(all_models, arenas(), modes, layouts)
def test_planned_plans_are_accepted(
    model: Model, where: tuple[ArenaConfiguration, ...], mode: str, layout: str
) -> None:
    plan = planned(model, mode, layout, where)
    assert words_of_both(plan, model, frozenset(model.bindings.donated)) == (True, [])


@given(all_models, modes, layouts, changes())
def test_corrupted_plans_get_the_naive_checkers_answer(
    model: Model, mode: str, layout: str, wanted: list[Change]
) -> None:
    plan = corrupted(planned(model, mode, layout), wanted)
    assume(plan is not None)
    assert plan is not None
    yes, against = words_of_both(plan, None, frozenset(model.bindings.donated))
    assert yes == (not against), against


@given(all_models, modes, layouts, changes(PLACES))
def test_moved_bytes_get_the_naive_checkers_answer(model: Model, mode: str, layout: str, wanted: list[Change]) -> None:
    plan = corrupted(planned(model, mode, layout), wanted)
    assume(plan is not None)
    assert plan is not None
    yes, against = words_of_both(plan, None, frozenset(model.bindings.donated))
    assert yes == (not against), against


@given(models(), layouts, changes(), st.integers(0, 1 << 16))
def test_running_naive_rows_and_kernel_say_the_same(model: Model, layout: str, wanted: list[Change], seed: int) -> None:
    """Of a right plan nothing is said; what goes wrong when it is run, and what the rows do not prove, is refused."""
    donated = frozenset(model.bindings.donated)
    right = planned(model, "inference", layout)
    assert words_of_both(right, model, donated) == (True, [])
    assert (by_running(right, model, seed), by_rows(right, model, donated)) == (False, set())
    plan = corrupted(right, wanted)
    assume(plan is not None)
    assert plan is not None
    yes, against = words_of_both(plan, None, donated)
    assert yes == (not against), against
    assert not (yes and by_running(plan, model, seed))
    refused, naive = by_rows(plan, None, donated), by_the_checker(plan, None, donated)
    assert not yes or refused <= CLAIMED | naive  # of a role that nothing fits the naive side tells, and the kernel not
    assert bool(refused) >= bool(naive)


@pytest.mark.parametrize("kind", BROKEN)
def test_the_corpus_gets_the_naive_checkers_answer(kind: str, tmp_path: Path) -> None:
    path = Path(examples.write(f"broken/{kind}", tmp_path / "b.cbor")[0])
    try:
        plan = file.load(path).plan
    except TmmuError:
        return  # the gate refuses it before anyone else sees it
    permissions = decide_permissions(plan, None, frozenset())
    against, answer = find_objections(plan, permissions), answer_by_both_ways(plan, permissions)
    assert against is None or accepted(answer) == (not against), (answer, against)


# Exclusive arms.


@given(models_with_arms, modes, layouts, changes())
def test_arms_that_are_declared_exclusive_get_the_naive_checkers_answer(
    model: Model, mode: str, layout: str, wanted: list[Change]
) -> None:
    """With views, results in place and loops; the planned plan, which holds for arms in sequence too, and corrupted."""
    right, donated = exclusive.exclusive(planned(model, mode, layout)), frozenset(model.bindings.donated)
    assume(right.allocation.bodies.exclusive.any())
    for plan in (right, corrupted(right, wanted)):
        if plan is not None:
            yes, against = words_of_both(plan, None, donated)
            assert yes == (not against), against


def test_random_programs_with_exclusive_arms_get_the_naive_checkers_answer() -> None:
    """Arms that write one tensor each, and leaves whose results lie on what they take, nested and in loops."""
    found: Counter[bool] = Counter()
    for number in range(150):
        chance = random.Random(number)
        plan = branching.plan(branching.program(chance), chance)
        permissions = decide_permissions(plan, None, frozenset())
        against, yes = find_objections(plan, permissions), accepted(answer_by_both_ways(plan, permissions))
        assert against is None or yes == (not against), (number, against)
        found[yes] += 1
    assert min(found[True], found[False]) > 30


@pytest.mark.parametrize("name", exclusive.RIGHT)
def test_right_plans_with_exclusive_arms_are_accepted_or_not_asked_about(name: str) -> None:
    """The theorem does not reach what only nodes inside of an arm write and the arm returns."""
    plan = exclusive.RIGHT[name]()
    permissions = decide_permissions(plan, None, frozenset())
    if name == "inner-arms-write":
        with pytest.raises(NotExpressed, match=exclusive.INNER):
            answer_of(plan, permissions)
    else:
        assert accepted(answer_of(plan, permissions))
