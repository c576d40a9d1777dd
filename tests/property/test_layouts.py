"""Every layout of every model passes the checker, byte by byte, and the edges say exactly what all pairs say.

spec: V1.1, V1.12, A7.1, A7.2, A8.1, A8.2, D1.1
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofs.definition.checker import claims, structure
from proofs.definition.checker import execute as checker
from proofs.definition.checker.program import build_program, place_storages
from proofs.proving.certificate.edges import Edges, edges
from proofs.proving.obligations import PRELUDE, by_edges
from proofs.proving.obligations.context import Context, context_of
from proofs.proving.obligations.discharge import discharge
from proofs.proving.solvers.process import Z3
from proofs.readers.models.ir import read_ir
from proofs.readers.sharing import decide_permissions
from tmmu.core.columns import build_column
from tmmu.core.vocabulary import ArenaConfiguration, Model, Role
from tmmu.examples.broken.models import skip
from tmmu.planner import PlanOptions, plan_memory
from tmmu.planner.layouts import packed, pools
from tmmu.planner.layouts.boxes import Boxes, Neighbours, place_best_fit, place_lowest_fit
from tmmu.planner.problem import problem_of_plan
from tmmu.planner.slots import claimed_slots
from tmmu.plans.columns import Storages
from tmmu.plans.sections import Plan, amend_plan
from tmmu.testing.strategies.models import arenas, models

TOKEN = bytes(range(64))
LAYOUTS = ("slots", "packed", "pools", "hashed")


def overlapping(plan: Plan) -> list[tuple[int, int]]:
    """Pairs of storages that share a byte while both live, by looking at all pairs."""
    rows = place_storages(plan.allocation, None).storages
    return [
        (i, j)
        for (i, a), (j, b) in combinations(enumerate(rows), 2)
        if a.arena == b.arena
        and max(a.birth, b.birth) <= min(a.death, b.death)
        and max(a.offset, b.offset) < min(a.offset + a.bytes, b.offset + b.bytes)
    ]


@given(models(), arenas(), st.sampled_from(LAYOUTS))
def test_every_layout_of_every_model_passes_the_checker_and_all_pairs(
    model: Model, config: tuple[ArenaConfiguration, ...], layout: str
) -> None:
    plan = plan_memory(
        model, config, PlanOptions(layout=layout, address_token=TOKEN if layout == "hashed" else None)
    ).plan
    donated = frozenset(plan.bindings.donated)
    run = build_program(plan, decide_permissions(plan, read_ir(model), donated), donated)
    assert overlapping(plan) == []
    assert plan.claims is not None
    assert [
        *checker.violations(run),
        *structure.violations(plan, run),
        *claims.find_false_claims(plan.claims, run),
    ] == []


@given(models(), arenas())
def test_packed_needs_no_more_than_slots_and_no_less_than_is_live(
    model: Model, config: tuple[ArenaConfiguration, ...]
) -> None:
    slots, tight = (plan_memory(model, config, PlanOptions(layout=layout)).plan for layout in ("slots", "packed"))
    for one, other in zip(slots.usage, tight.usage, strict=True):
        assert other.peak_live_bytes <= other.footprint <= one.footprint
        assert other._replace(footprint=one.footprint) == one, "the logical slots are the same"


@given(models(), st.sampled_from(LAYOUTS))
def test_what_a_plan_says_is_enough_to_place_it_again(model: Model, layout: str) -> None:
    plan = plan_memory(
        model, options=PlanOptions(layout=layout, address_token=TOKEN if layout == "hashed" else None)
    ).plan
    if layout == "packed":
        assert (
            list(packed.place(problem_of_plan(plan), claimed_slots(plan)).offset)
            == plan.allocation.storages.offset.tolist()
        )
    if layout == "pools":
        assert (
            pools.place(problem_of_plan(plan), claimed_slots(plan)).offset == plan.allocation.storages.offset.tolist()
        )
    assert (
        plan_memory(
            model, options=PlanOptions(layout=layout, address_token=plan.origin.address_token_digest and TOKEN)
        ).plan
        == plan
    )


BOXES = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 6), st.integers(1, 40), st.sampled_from((1, 2, 8))), max_size=14
)


def boxed(rows: list[tuple[int, int, int, int]]) -> Boxes:
    return Boxes([b for b, *_ in rows], [b + d for b, d, *_ in rows], [r[2] for r in rows], [r[3] for r in rows], {})


def sound(boxes: Boxes, offsets: list[int]) -> bool:
    """No two boxes that meet in time share a byte, and each is aligned."""
    return all(at % a == 0 for at, a in zip(offsets, boxes.alignment, strict=True)) and not any(
        boxes.birth[i] <= boxes.death[j]
        and boxes.birth[j] <= boxes.death[i]
        and max(offsets[i], offsets[j]) < min(offsets[i] + boxes.size[i], offsets[j] + boxes.size[j])
        for i, j in combinations(range(len(boxes)), 2)
    )


@given(BOXES, st.randoms(use_true_random=False))
def test_the_engines_place_soundly_and_the_two_that_take_an_order_agree(
    rows: list[tuple[int, int, int, int]], random: object
) -> None:
    boxes = boxed(rows)
    order = list(range(len(boxes)))
    random.shuffle(order)  # type: ignore[attr-defined]
    scanned, listed, streamed = (
        place_lowest_fit(boxes, order),
        Neighbours(boxes).place(order, 1 << 70),
        place_best_fit(boxes),
    )
    assert scanned == listed
    for found in (scanned, streamed):
        assert sound(boxes, found.offsets)
        assert found.height == max((o + z for o, z in zip(found.offsets, boxes.size, strict=True)), default=0)
        assert found.height >= boxes.least() >= boxes.peak()


@given(BOXES)
def test_meetings_are_counted_as_all_pairs_count_them(rows: list[tuple[int, int, int, int]]) -> None:
    boxes = boxed(rows)
    pairs = [
        (i, j)
        for i, j in combinations(range(len(boxes)), 2)
        if boxes.birth[i] <= boxes.death[j] and boxes.birth[j] <= boxes.death[i]
    ]
    assert boxes.meetings == 2 * len(pairs)
    assert [sorted(near) for near in Neighbours(boxes).of] == [
        sorted({a + b - i for a, b in pairs if i in (a, b)}) for i in range(len(boxes))
    ]


@pytest.fixture(scope="module")
def solver() -> Iterator[Z3]:
    with Z3(PRELUDE) as made:
        yield made


ONE = (ArenaConfiguration("memory", tuple(Role)),)
BASE = plan_memory(skip(), ONE, PlanOptions(layout="packed")).plan
PLACED = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 3), st.integers(0, 6)), min_size=1, max_size=8
)


def placed(rows: list[tuple[int, int, int, int]]) -> Context:
    """Storages (birth, further steps, bytes, offset) of one arena over five steps."""
    last = BASE.allocation.last_step
    u32, u64 = np.uint32, np.uint64
    columns = list(zip(*rows, strict=True))
    storages = Storages(
        arena=build_column([0] * len(rows), u32), bytes=build_column(columns[2], u64),
        alignment=build_column([1] * len(rows), u64),
        birth=build_column(columns[0], u32), death=build_column([min(last, b + d) for b, d, *_ in rows], u32),
        offset=build_column(columns[3], u64),
    )  # fmt: skip
    footprint = max(o + z for *_, z, o in rows)
    plan = amend_plan(BASE, storages=storages, usage=(BASE.usage[0]._replace(footprint=footprint),))
    return replace(
        context_of(BASE, decide_permissions(BASE, None, frozenset())),
        plan=plan,
        placement=plan.allocation,
        claims=plan.claims,
    )


def proved(view: Context, found: Edges, solver: Z3) -> bool:
    (result,) = discharge([by_edges.of_arena(view, found, 0)], [solver], 20)
    assert result.failure is None
    return result.proved


@given(PLACED)
def test_the_edges_prove_a_plan_exactly_where_no_pair_overlaps(
    solver: Z3, rows: list[tuple[int, int, int, int]]
) -> None:
    """Storages of zero bytes lie anywhere. spec: T7.2"""
    view = placed(rows)
    assert proved(view, edges(view.placement, 0), solver) == (overlapping(view.plan) == [])


@given(PLACED, st.data())
def test_no_edges_whatever_prove_a_plan_in_which_a_pair_overlaps(
    solver: Z3, rows: list[tuple[int, int, int, int]], data: st.DataObject
) -> None:
    """The edges are evidence, and evidence may be forged."""
    view = placed(rows)
    found = edges(view.placement, 0)
    which = data.draw(st.sampled_from(("below", "above", "first", "last")))
    values = getattr(found, which).copy()
    at = data.draw(st.integers(0, len(values) - 1))
    values[at] = data.draw(st.integers(0, len(found.storages) + 2))
    forged = found._replace(**{which: values})
    if overlapping(view.plan):
        assert not proved(view, forged, solver)
    dropped = found._replace(
        **{name: np.delete(getattr(found, name), at) for name in ("below", "above", "first", "last")}
    )
    assert not proved(view, dropped, solver)
