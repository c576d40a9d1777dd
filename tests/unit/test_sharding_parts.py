"""What a plan says that its rank holds: against the mesh that it states, and against the model.

spec: R7.1, R7.6, R7.8, R7.19
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from proofs.definition.model.difference import difference
from proofs.definition.violations import Obligation, false_field
from proofs.readers.models.ir import read_ir
from proofs.sharding.mesh import Mesh, Part
from proofs.sharding.parts import Dimension, find_false_parts, part_differences, stated_parts
from proofs.sharding.stages import derive_rank_model
from tests.support.sharded import LAYERS, SPEC, model, plans, spec
from tmmu.core.columns import NONE, build_column
from tmmu.planner import plan_memory
from tmmu.planner.sharding import Local, build_shards
from tmmu.plans.columns import Shards
from tmmu.plans.sections import Plan, amend_plan

Stated = dict[str, tuple[Dimension, ...]]


def restated(plan: Plan, stated: Stated) -> Plan:
    """The plan with another table of parts."""
    axes, rows = Mesh(plan.origin.shard_spec).axes, plan.allocation.tensors.name.list()
    dims = [(d.size, axes.index(d.axis) if d.axis else NONE, *d.part) for of in stated.values() for d in of]
    columns = [[dim[k] for dim in dims] for k in range(5)]
    bounds = np.cumsum([0, *map(len, stated.values())])
    return amend_plan(plan, shards=Shards(
        build_column([rows.index(name) for name in stated], np.uint32), build_column(bounds.tolist(), np.uint32),
        build_column(columns[0], np.uint64), build_column(columns[1], np.uint32),
        *(build_column(c, np.uint64) for c in columns[2:]),
    ))  # fmt: skip


def test_a_place_along_an_axis_is_worked_out_from_the_rank() -> None:
    """The last axis varies fastest. spec: R7.1"""
    mesh = Mesh({"mesh": [["a", 2], ["b", 3], ["c", 4]]})
    assert (mesh.ranks, mesh.axes) == (24, ["a", "b", "c"])
    assert [mesh.at(18, axis) for axis in "abc"] == [1, 1, 2]
    assert (Mesh({}).ranks, Mesh({}).axes) == (1, [])


@pytest.mark.parametrize(
    ("elements", "parts"),
    [
        (8, [(0, 2, 2), (2, 2, 2), (4, 2, 2), (6, 2, 2)]), (9, [(0, 3, 3), (3, 3, 3), (6, 3, 3), (9, 0, 3)]),
        (5, [(0, 2, 2), (2, 2, 2), (4, 1, 2), (5, 0, 2)]), (1, [(0, 1, 1), (1, 0, 1), (1, 0, 1), (1, 0, 1)]),
        (0, [(0, 0, 0)] * 4),
    ],
)  # fmt: skip
def test_each_rank_has_as_many_places_and_the_last_ones_are_left_over(elements: int, parts: Any) -> None:
    """spec: R7.6"""
    mesh = Mesh({"mesh": [["a", 4], ["b", 2]]})
    assert [tuple(mesh.part(elements, "a", 2 * k + k % 2)) for k in range(4)] == parts
    assert mesh.chunks((elements, 7), ("a", "")) == (parts[0][2], 7)


def test_what_the_planner_says_of_every_rank_is_true() -> None:
    for padded in (SPEC, spec({"data": 4}, ("x", ["", "data"]), ("w1", ["data"]), pad=True)):
        for plan in plans(padded):
            assert list(find_false_parts(plan)) == []
            assert list(part_differences(plan, derive_rank_model(read_ir(LAYERS), padded, plan.origin.rank))) == []
            assert restated(plan, stated_parts(plan)) == plan


def rows(part: Part, *, size: int = 4, axis: str = "data") -> Stated:
    """The part of `x` of the first stage, whose second dimension is whole."""
    return {"x": (Dimension(size, axis, part), Dimension(6, "", Part(0, 6, 6)))}


TEXT = "{} elements from {} on in {} places"
WRONG: dict[str, tuple[Stated, list[tuple[str, str, str]]]] = {
    "the part of another rank": (
        rows(Part(0, 2, 2)), [("dimension 0 of x", TEXT.format(2, 0, 2), TEXT.format(2, 2, 2))],
    ),
    "less than is held": (
        rows(Part(2, 1, 2)), [("dimension 0 of x", TEXT.format(1, 2, 2), TEXT.format(2, 2, 2))],
    ),
    "more places than there are": (
        rows(Part(2, 2, 4)),
        [("dimension 0 of x", TEXT.format(2, 2, 4), TEXT.format(2, 2, 2)), ("bytes of x", "48", "96")],
    ),
    "a dimension that does not divide": (
        rows(Part(2, 1, 2), size=3), [("dimension 0 of x", "3 elements split by data", "no padding is allowed")],
    ),
    "the pipeline's axis": (
        rows(Part(0, 2, 2), axis="pipe"),
        [("dimension 0 of x", "split by pipe", "the axis of the pipeline splits no tensor")],
    ),
    "one axis twice": (
        {"x": (Dimension(4, "data", Part(2, 2, 2)), Dimension(6, "data", Part(3, 3, 3)))},
        [("x", "split by data, data", "each axis at most once"), ("bytes of x", "48", "24")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_part_that_is_not_the_ranks_is_named_with_what_is(what: str) -> None:
    """spec: R7.4, R7.6, R7.8, R7.19"""
    change, wrong = WRONG[what]
    plan = plans()[1]
    found = list(find_false_parts(restated(plan, {**stated_parts(plan), **change})))
    assert found == [false_field(Obligation.SHARDS, *field) for field in wrong]


def test_padding_is_no_harm_where_the_spec_allows_it() -> None:
    """Nor is a dimension that divides where it does not. spec: R7.8"""
    plan = plans()[1]
    padded = amend_plan(plan, shard_spec={**SPEC, "pad": True})
    odd = {**stated_parts(plan), **rows(Part(2, 1, 2), size=3)}
    assert list(find_false_parts(restated(padded, odd))) == []


def test_what_the_caller_writes_is_a_part_of_a_tensor_of_the_model() -> None:
    """A result may be a buffer, which is nothing of the model's. spec: R7.19"""
    plan = plans()[1]
    stated = stated_parts(plan)
    assert plan.allocation.tensors.writer[plan.allocation.tensors.name.list().index("a")] != NONE
    assert list(find_false_parts(restated(plan, {k: v for k, v in stated.items() if k != "a"}))) == []
    (found,) = find_false_parts(restated(plan, {k: v for k, v in stated.items() if k != "x"}))
    assert found == false_field(Obligation.SHARDS, "part of x", "nothing", "a part of what the caller writes")


@pytest.mark.parametrize(("elements", "right"), [(6, 3), (5, 3), (4, 2)])
def test_elements_that_are_narrower_than_a_byte_fill_whole_bytes(elements: int, right: int) -> None:
    net = model(["n Relu: x -> y"], {"x": (6,), "y": (6,)}, "y")
    narrow = replace(net, tensors=tuple(replace(t, dtype="int4", bytes=3, alignment=1) for t in net.tensors))
    by = spec({"data": 1})
    made = plan_memory(narrow).plan
    plan = amend_plan(made, shard_spec=by, shards=build_shards(Local(narrow, [(0, (elements,), ("",))]), by, 0))
    assert [(one.field, one.stated, one.recomputed) for one in find_false_parts(plan)] == (
        [] if right == 3 else [("bytes of x", "3", str(right))]
    )


def test_a_table_that_is_not_the_models_names_the_tensor() -> None:
    """spec: R7.19, R7.31"""
    plan = plans()[1]
    of_model, stated = derive_rank_model(read_ir(LAYERS), SPEC, 1), stated_parts(plan)
    x = "2 elements from 2 on in 2 places of 4 by data; 6 elements from 0 on in 6 places of 6"
    (missing,) = part_differences(restated(plan, {k: v for k, v in stated.items() if k != "x"}), of_model)
    assert missing == difference("shard", "", ("x",), None, "no part of it", x)
    (other,) = part_differences(restated(plan, {**stated, **rows(Part(2, 2, 2), size=5)}), of_model)
    assert other == difference("shard", "", ("x",), None, x.replace("of 4", "of 5"), x)
    less = replace(of_model, held={k: v for k, v in of_model.held.items() if k != "x"})
    (more,) = part_differences(plan, less)
    assert more == difference("shard", "", ("x",), None, x, "not a tensor of the model on this rank")
    (scalar,) = part_differences(restated(plan, {**stated, "x": ()}), of_model)
    assert scalar.stated == "a scalar"
