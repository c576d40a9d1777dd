"""How `sharing_is_sound` and its like are asked: in batches and pairs, within bounds, whatever evidence says.

What they refute is in `test_wrong_plans.py`. spec: V1.5, V1.7, V2.3, V4.1
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from proofs.proving.obligations import MODULES, PRELUDE, rows, sharing_is_sound
from proofs.proving.obligations import context as contexts
from proofs.proving.obligations.contents import Content
from proofs.proving.obligations.context import Context, context_of
from proofs.proving.obligations.discharge import Result, discharge
from proofs.proving.obligations.rows import Place
from proofs.proving.solvers.process import Z3
from proofs.readers.sharing import Permissions, decide_permissions
from tests.support.synthetic import training_plan
from tests.support.written import Written
from tests.support.wrong_plans.accesses import LOOP
from tests.support.wrong_plans.row import into
from tmmu.examples.broken.editing import claiming
from tmmu.plans.sections import Plan

SOLVER = Z3(PRELUDE)


@pytest.fixture(scope="module", autouse=True)
def _closing() -> Iterator[None]:
    yield
    SOLVER.close()


def seen(plan: Plan | Written, permissions: Permissions | None = None) -> Context:
    plan = plan if isinstance(plan, Plan) else plan.plan()
    return context_of(plan, decide_permissions(plan, None, frozenset()) if permissions is None else permissions)


def results(view: Context) -> dict[str, Result]:
    found = discharge([obligation.rows(view) for obligation in MODULES.values()], [SOLVER], 60)
    return dict(zip(MODULES, found, strict=True))


def violated(plan: Plan | Written, permissions: Permissions | None = None) -> set[str]:
    """Return the obligations with a false row, and check that none is left open."""
    found = results(seen(plan, permissions))
    assert [name for name, result in found.items() if result.failure] == []
    return {name for name, result in found.items() if result.refuted}


def test_a_right_plan_of_any_size_violates_nothing() -> None:
    assert violated(training_plan(24, seed=5, in_place=0.3, views=0.2, arenas=2)) == set()


def test_totals_go_on_from_batch_to_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four cells each."""
    monkeypatch.setattr(rows, "BATCH", 4)
    plan = training_plan(24, seed=5, in_place=0.3, views=0.2, arenas=2)
    assert violated(plan) == set()
    assert violated(claiming(plan, peak_live_bytes=(plan.usage[0].peak_live_bytes or 0) - 1)) == {"peak"}


def test_many_slices_of_many_storages_are_asked_about_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three rows each: what is wrong in the first batch is found, and in the last, which is not full."""
    monkeypatch.setattr(sharing_is_sound, "BATCH", 3)
    storages = "\n".join(f"s{i} = MatMul x\nt{i}@8:s{i} = MatMul s{i}" for i in range(8))
    assert violated(Written(storages)) == set()
    for wrong in (Written(storages, s1=9), Written(storages, s7=9)):
        assert violated(wrong) == {"sharing_is_sound"}


def test_too_many_overlaps_in_part_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing_is_sound, "EFFORT_LIMIT", 3)
    made = Written("a = MatMul x; c = MatMul x; b@4:a = MatMul x; y = MatMul a b c")
    assert "too many" in (results(seen(made))["sharing_is_sound"].failure or "")
    monkeypatch.setattr(sharing_is_sound, "EFFORT_LIMIT", 4)  # two contents, each shown by one tensor
    assert violated(made) == {"sharing_is_sound"}


def test_contents_of_one_slice_and_contents_that_follow_one_another_cost_no_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Results in place have one slice; in the second plan slices differ, and none is needed when the next is made."""
    monkeypatch.setattr(sharing_is_sound, "EFFORT_LIMIT", 0)
    assert violated(Written("a = MatMul x; b:a = Relu a; c:a = Relu b; y = MatMul c", in_place="b:a c:b")) == set()
    assert violated(Written("a = MatMul x; c = MatMul a; b@4:a = MatMul x; y = MatMul b c")) == set()


def test_contents_that_are_said_to_lie_apart_are_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which contents touch is evidence: where it takes apart what overlaps, a row is false."""
    monkeypatch.setattr(sharing_is_sound, "clusters", lambda contents: ([content] for content in contents))
    assert violated(Written("a = MatMul x; b@8:a = MatMul x; y = MatMul a b")) == set()
    assert violated(Written("a = MatMul x; b@4:a = MatMul x; y = MatMul a b")) == {"sharing_is_sound"}
    for written, step in ((-1, 0), (0, 0), (3, 3)):
        before, behind = Content(0, 0, 8, -1, 4, 1, 2), Content(0, 8, 8, written, 5, 4, 5)
        assert sharing_is_sound._ends_before(before, behind) == ("(ends_before 0 8 8)", Place((4, 5), step=step))


def test_views_that_show_each_other_show_nothing() -> None:
    """No reader permits them. The caller is said to have made both, so that neither was made after the other."""
    two = Written("y = MatMul a b").plan()
    assert "sharing_is_sound" in violated(into("b", "a")(two), Permissions(views={0: (1, 0), 1: (0, 0)}))
    assert "sharing_is_sound" in violated(two, Permissions(views={0: (0, 0)}))  # alone in its storage


def test_a_view_is_made_after_its_base() -> None:
    """No reader permits one that the same step makes."""
    made = Written("a v:a = Split x; y = MatMul a v")
    assert violated(made, Permissions(views={made.row["v"]: (made.row["a"], 0)})) == {"sharing_is_sound"}


def test_the_writes_that_a_step_lists_as_mutations_are_those_and_no_others() -> None:
    made = Written("a = MatMul x; b = MatMul a; !a = Update a; y = MatMul a b")
    assert seen(made).changes.tolist() == [False, False, True, False]


def test_bodies_nest_only_so_deep(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, refused in ((1, set[str]()), (0, {"lifetimes_cover_accesses"})):
        monkeypatch.setattr(contexts, "MAX_BODY_DEPTH", limit)
        assert violated(Written(LOOP)) == refused
