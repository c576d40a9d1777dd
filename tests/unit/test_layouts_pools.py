"""The layout `pools`: MiCo's table to the byte with safe lifetimes. spec: A9.1, A9.2, A9.3"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.problems import problem
from tests.support.text_models import text_model
from tmmu import examples
from tmmu.core.output import format_kib
from tmmu.core.vocabulary import ArenaConfiguration, Shares
from tmmu.importers.onnx import import_onnx
from tmmu.planner import PlanOptions, plan_memory, slots
from tmmu.planner.layouts import packed
from tmmu.planner.layouts.boxes import Boxes
from tmmu.planner.layouts.pools import assign_pools, place
from tmmu.planner.problem import problem_of_plan
from tmmu.planner.slots import claimed_slots
from tmmu.plans.columns import SHARES
from tmmu.plans.sections import Plan

TABLE = {
    "mico-mlp": ("2.58 KiB", "1.25 KiB", "1.33 KiB", "51.5%", 1280, 2),
    "mico-lenet": ("59.30 KiB", "41.34 KiB", "17.95 KiB", "30.3%", 42_336, 3),
    "mico-vgg": ("1212.08 KiB", "576.00 KiB", "636.08 KiB", "52.5%", 589_824, 3),
    "mico-resnet8": ("3150.08 KiB", "768.00 KiB", "2382.08 KiB", "75.6%", 786_432, 3),
}
"""004's table (ResNet8 is of a later revision): before, after, saved, percent; bytes and pools."""

MLP = [
    {"x", "flatten", "layers_1", "layers_3", "layers_5", "output"},
    {"layers_0", "layers_2", "layers_4", "layers_6"},
]
"""Who is in which pool of the MLP, once a view keeps its source alive."""


def pooled(name: str, folder: Path) -> Plan:
    path = folder / f"{name}.onnx"
    examples.write(name, path)
    return plan_memory(import_onnx(path), options=PlanOptions(layout="pools")).plan


@pytest.mark.parametrize("name", TABLE)
def test_the_table_of_the_document_comes_out_to_the_byte(name: str, tmp_path: Path) -> None:
    plan = pooled(name, tmp_path)
    arena = [a.name for a in plan.allocation.arenas].index("activations")
    mine = plan.allocation.storages.arena == arena
    before, after = int(plan.allocation.storages.bytes[mine].sum()), plan.usage[arena].footprint
    shown = (format_kib(before), format_kib(after), format_kib(before - after), f"{(before - after) / before:.1%}")
    assert (*shown, after, len(np.unique(plan.allocation.storages.offset[mine]))) == TABLE[name]


@pytest.mark.parametrize(("name", "fewest", "smallest"), [("mico-lenet", 2, 37_632), ("mico-vgg", 2, 524_288)])
def test_larger_first_gives_neither_the_fewest_pools_nor_the_smallest(
    name: str, fewest: int, smallest: int, tmp_path: Path
) -> None:
    """The slots of the same storages, in the order of their births, take both least."""
    plan = pooled(name, tmp_path)
    usage = next(u for a, u in zip(plan.allocation.arenas, plan.usage, strict=True) if a.name == "activations")
    assert (usage.slots, usage.max_live, usage.peak_live_bytes) == (fewest, fewest, smallest)
    assert packed.place(problem_of_plan(plan), claimed_slots(plan)).footprint[plan.usage.index(usage)] == smallest
    assert (TABLE[name][5], TABLE[name][4]) > (fewest, smallest)


def test_views_keep_their_source_in_its_pool(tmp_path: Path) -> None:
    plan = pooled("mico-mlp", tmp_path)
    offset = dict(
        zip(
            plan.allocation.tensors.name,
            plan.allocation.storages.offset[plan.allocation.tensors.storage].tolist(),
            strict=True,
        )
    )
    activations = {name for group in MLP for name in group}
    found = [{name for name in activations if offset[name] == start} for start in (0, 1024)]
    assert found == MLP


def test_no_result_is_in_place_and_the_reason_is_the_layout() -> None:
    model = text_model("node relu1 Relu x -> a", "node relu2 Relu a -> y inplace y a")
    planned = plan_memory(model, options=PlanOptions(layout="pools"))
    assert (planned.plan.allocation.tensors.shares == SHARES.index(Shares.NONE)).all()
    assert [refused.reason for refused in planned.refused] == ["the layout places every result separately"]
    assert plan_memory(model, options=PlanOptions(layout="packed")).refused == []


def test_pools_take_the_largest_first_and_then_what_is_made_first_inputs_before_all() -> None:
    """`x` and `a` are equal: `x` opens pool 0 though `a` stands first in the table of tensors."""
    model = text_model("node add Add x -> a", "node matmul Matmul a -> y", sizes={"x": 64, "a": 64, "y": 128})
    plan = plan_memory(model, options=PlanOptions(layout="pools")).plan
    offset = dict(
        zip(
            plan.allocation.tensors.name,
            plan.allocation.storages.offset[plan.allocation.tensors.storage].tolist(),
            strict=True,
        )
    )
    assert offset == {"y": 0, "x": 0, "a": 128}


def test_a_pool_starts_at_a_multiple_of_the_strictest_alignment_in_it() -> None:
    model = text_model(
        "node matmul1 Matmul x -> a", "node matmul2 Matmul a -> y", "tensor a u8 60 align 512",
        sizes={"x": 100, "y": 40},
    )  # fmt: skip
    plan = plan_memory(model, options=PlanOptions(layout="pools")).plan
    assert plan.usage[2].footprint == 512 + 60
    assert (plan.allocation.storages.offset % plan.allocation.storages.alignment == 0).all()


def test_the_moves_of_a_scan_are_those_of_arenas_in_which_no_conflict_forbids_one() -> None:
    """Storages as they are made, then each as it joins, largest first; the last arena does not reuse. spec: A9.1"""
    arenas = tuple(ArenaConfiguration(name, (), alignment=1, reuse=name != "kept") for name in ("a", "b", "c", "kept"))
    asked = problem(
        (3, 5, 9, 0), (0, 1, 8, 0), (0, 4, 9, 0), (2, 3, 7, 1), (2, 3, 7, 1), (0, 0, 1, 3), (0, 9, 4, 2),
        arenas=arenas, conflicts={3: {4}, 4: {3}},
    )  # fmt: skip
    seen: list[tuple[str, dict[str, object]]] = []
    observed = place(
        asked, slots.assign_slots(asked, asked.preferred), lambda event, **facts: seen.append((event, facts))
    )
    assert observed == place(asked, slots.assign_slots(asked, asked.preferred))
    assert seen == [
        ("pools", {"arena": "a", "storages": [[1, 0, 1, 8], [2, 0, 4, 9], [0, 3, 5, 9]]}),
        ("open pool", {"storage": 2, "pool": 0}), ("open pool", {"storage": 0, "pool": 1}),
        ("join", {"storage": 1, "pool": 1}), ("pooled", {"pools": 2}),
        ("pools", {"arena": "c", "storages": [[6, 0, 9, 4]]}), ("open pool", {"storage": 6, "pool": 0}),
        ("pooled", {"pools": 1}),
    ]  # fmt: skip


def test_a_box_joins_the_first_pool_that_is_free_over_its_whole_life() -> None:
    boxes = Boxes([0, 2, 4, 0, 3], [1, 3, 5, 5, 4], [9, 8, 7, 6, 5], [1] * 5, {})
    assert assign_pools(boxes, [0, 1, 2, 3, 4]) == [0, 0, 0, 1, 2]
    kept = Boxes(boxes.birth, boxes.death, boxes.size, boxes.alignment, {0: [1], 1: [0]})
    assert assign_pools(kept, [0, 1, 2, 3, 4]) == [0, 1, 0, 2, 3]
