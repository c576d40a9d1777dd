"""What people ask of a plan, counted again by hand.

spec: R3.1, R3.2, R3.3, C2.3, C2.4
"""

from __future__ import annotations

from fractions import Fraction

import pytest

from tests.support.example_models import full
from tests.support.text_models import text_model
from tmmu.core.vocabulary import ArenaConfiguration, Role
from tmmu.examples.broken.editing import changed
from tmmu.planner import plan_memory
from tmmu.plans import metrics
from tmmu.plans.sections import Plan


def chain() -> Plan:
    """Slot 0 (100 bytes): `x` over 0 to 1, `y` at 2; slot 1 (64): `a` over 0 to 1; slot 2 (10): `b` over 1 to 2."""
    model = text_model(
        "node relu Relu x -> a", "node add Add a x -> b", "node relu2 Relu b -> y", sizes={"x": 100, "b": 10, "y": 64}
    )
    return plan_memory(
        model, (ArenaConfiguration("all", tuple(Role), alignment=1), ArenaConfiguration("spare", ()))
    ).plan


def test_a_ratio_of_nothing_to_nothing_is_one() -> None:
    assert (metrics.ratio(3, 4), metrics.ratio(0, 0), metrics.ratio(1, 0)) == (0.75, 1.0, 0.0)


def test_reuse_is_one_minus_slots_by_tensors_and_zero_for_none() -> None:
    assert (metrics.memory_reuse_ratio(2, 8), metrics.memory_reuse_ratio(3, 3)) == (0.75, 0.0)
    assert metrics.memory_reuse_ratio(0, 0) == 0.0


def test_an_arena_is_described_by_integers_and_their_ratios() -> None:
    plan = chain()
    assert plan.slots.bytes.tolist() == [100, 64, 10]
    assert plan.slots.of.tolist() == [0, 1, 2, 0]
    used, spare = metrics.arena_records(plan)
    fragmentation = 1 - Fraction(100 * 2 + 64 * 2 + 10 * 2 + 64 * 1, 100 * 2 + 64 * 2 + 10 * 2 + 100 * 1)
    expected = {
        "name": "all", "device": "default", "memory": "", "reuse": True,
        "capacity": (1 << 64) - 1, "alignment": 1, "page_size": 4096,
        "footprint_bytes": 174, "peak_live_bytes": 174, "peak_step": 1, "footprint_per_peak": 1.0,
        "tensors": 4, "storages": 4, "slots": 3, "max_live": 3, "max_live_step": 1, "slot_count_is_minimal": True,
        "slot_bytes": 174, "memory_reuse_ratio": 0.25, "storage_reuse_ratio": 0.25,
    }  # fmt: skip
    assert {key: used[key] for key in expected} == expected
    assert set(used) == {*expected, "roles", "internal_fragmentation_ratio"}
    assert used["internal_fragmentation_ratio"] == pytest.approx(float(fragmentation))
    assert (spare["tensors"], spare["footprint_per_peak"], spare["internal_fragmentation_ratio"]) == (0, 1.0, 0.0)


def test_tensors_and_storages_are_counted_apart() -> None:
    plan = plan_memory(text_model("node view1 View x -> v", "node relu Relu v -> y", "tensor v u8 64 view x 0")).plan
    found = metrics.arena_records(plan)[2]
    assert (found["tensors"], found["storages"], found["slots"]) == (3, 2, 2)
    assert (found["memory_reuse_ratio"], found["storage_reuse_ratio"]) == (pytest.approx(1 / 3), 0.0)


def test_a_tensor_has_a_row_with_names_for_indices() -> None:
    rows = {row["name"]: row for row in metrics.tensor_records(plan_memory(full()).plan)}
    assert rows["x"] == {
        "name": "x", "storage": 0, "arena": "activations", "slot": rows["x"]["slot"], "offset": rows["x"]["offset"],
        "bytes": 64, "alignment": 1, "birth": 0, "death": 0, "writer": None, "shares": "none", "of": None,
        "dtype": "uint8", "role": "input", "size": "64",
    }  # fmt: skip
    assert (rows["square"]["shares"], rows["square"]["of"], rows["square"]["writer"]) == ("view", "sum", 1)
    assert (rows["z"]["arena"], rows["z"]["dtype"], rows["z"]["role"]) == ("gradients", "float16", "gradient")
    assert rows["sum"]["size"] == rows["square"]["size"] == "m"
    assert rows["square"]["offset"] == rows["sum"]["offset"]


def test_slots_are_numbered_within_their_arena() -> None:
    plan = plan_memory(text_model("node add Add x w v -> y", parameters="w v")).plan
    found = {row["name"]: (row["arena"], row["slot"]) for row in metrics.tensor_records(plan)}
    assert sorted(found.values()) == [("activations", 0), ("activations", 1), ("parameters", 0), ("parameters", 1)]


def test_a_step_has_a_row_with_names_for_indices() -> None:
    rows = metrics.step_records(plan_memory(full()).plan)
    assert [row["step"] for row in rows] == list(range(6))
    assert rows[0] == {
        "step": 0, "node": "add", "op": "Add", "domain": "", "part": "whole", "body": "",
        "reads": ["x", "w", "add.scratch0", "add.scratch1"], "writes": ["sum", "add.scratch0", "add.scratch1"],
        "mutates": [],
    }  # fmt: skip
    assert [(row["node"], row["part"], row["body"]) for row in rows[2:5]] == [
        ("loop1", "enter", ""),
        ("relu", "whole", "loop1/body"),
        ("loop1", "leave", ""),
    ]
    assert (rows[5]["domain"], rows[5]["mutates"]) == ("com.example", ["s"])


def test_what_is_live_at_the_peak_is_listed_by_size() -> None:
    assert metrics.storages_at_peak(chain(), 0) == [("x", 100, 0, 1), ("a", 64, 0, 1), ("b", 10, 1, 2)]
    assert metrics.storages_at_peak(chain(), 1) == []


def test_a_storage_without_a_tensor_has_a_name_of_its_own() -> None:
    """Wrong plans are shown too."""
    plan = changed(chain(), "tensors", "b", storage=0)
    assert metrics.storages_at_peak(plan, 0)[-1] == ("storage 2", 10, 1, 2)


def test_nothing_at_all_has_metrics() -> None:
    plan = plan_memory(text_model(inputs="", outputs="")).plan
    assert [found["slots"] for found in metrics.arena_records(plan)] == [0, 0, 0, 0]
    assert (metrics.tensor_records(plan), metrics.step_records(plan), metrics.storages_at_peak(plan, 2)) == ([], [], [])
