"""Columns, tables, and the words of the vocabulary as views of a row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.text_models import text_model
from tmmu.core.columns import Names, are_among, build_column
from tmmu.examples.broken.editing import changed
from tmmu.planner import plan_memory


def test_a_column_can_be_neither_changed_nor_overflowed() -> None:
    """spec: A1.3"""
    values = build_column([1, 255], np.uint8)
    assert values.dtype == np.uint8
    assert values.tolist() == [1, 255]
    with pytest.raises(ValueError, match="read-only"):
        values[0] = 2
    for wrong in (256, -1, 1 << 64):
        with pytest.raises(OverflowError):
            build_column([wrong], np.uint8)


def test_a_column_is_a_copy() -> None:
    source = np.array([1, 2], np.uint32)
    values = build_column(source, np.uint32)
    source[0] = 9
    assert values.tolist() == [1, 2]


@pytest.mark.parametrize("others", [[], [3], [1 << 40, 0, 3, 3], list(range(9))])
def test_values_are_found_among_others_as_numpy_finds_them(others: list[int]) -> None:
    values, far = np.array([0, 3, 1 << 40, 1 << 41, 3], np.int64), np.array(others, np.int64)
    for some in (values, values[:0], -values):
        assert are_among(some, far).tolist() == np.isin(some, far).tolist()


def test_names_are_kept_as_one_text_and_split_when_asked_for() -> None:
    names = Names.of(["a", "", "größe"])
    assert names.blob == "a\0\0größe".encode()
    assert (list(names), len(names), names[2], names[0:2]) == (["a", "", "größe"], 3, "größe", ["a", ""])
    assert names == Names(names.blob, 3)
    assert hash(names) == hash(Names(names.blob, 3))
    assert names != Names.of(["a", "", "groesse"])
    assert names != ["a", "", "größe"]
    assert (list(Names.of([])), list(Names.of([""]))) == ([], [""])
    assert Names.of([]) != Names.of([""])


def test_a_name_with_a_nul_is_refused() -> None:
    for names in (["a\0b"], ["\0"], ["a", "b\0"]):
        with pytest.raises(ValueError, match="NUL"):
            Names.of(names)


def test_tables_are_equal_where_all_columns_are() -> None:
    plan = plan_memory(text_model("node relu Relu x -> y")).plan
    assert plan.allocation.tensors == replace(plan.allocation.tensors)
    assert plan.allocation.tensors != changed(plan, "tensors", "y", birth=1).allocation.tensors
    assert plan.allocation.tensors != replace(plan.allocation.tensors, name=Names.of(["x", "z"]))
    assert plan.slots != plan.allocation.storages
    with pytest.raises(TypeError):
        hash(plan.slots)
    assert (len(plan.allocation.tensors), len(plan.allocation.steps), len(plan.allocation.bodies)) == (2, 1, 1)


def test_a_step_lists_its_accesses() -> None:
    plan = plan_memory(
        text_model(
            "node relu Relu x -> a", "node add Add a x a -> y", "node change Change y -> y changes y", outputs="y"
        )
    ).plan
    assert plan.allocation.steps.listed("reads") == [(0,), (1, 0, 1), (2,)]
    assert plan.allocation.steps.listed("writes") == [(1,), (2,), (2,)]
    assert plan.allocation.steps.listed("mutates") == [(), (), (2,)]


def test_an_address_is_that_of_the_storage_and_the_window_in_it() -> None:
    """spec: T2.11, A1.2"""
    plan = plan_memory(
        text_model(
            "node view1 View x -> v", "node relu Relu v -> y", "tensor y u8 64 align 256", "tensor v u8 48 view x 16"
        )
    ).plan
    assert plan.allocation.addresses().tolist() == [0, 16, 256]
    assert plan.allocation.storage_names() == ["x", "y"]
    assert plan.allocation.last_step == 1


def test_a_plan_without_steps_ends_at_step_0() -> None:
    """spec: M3.6"""
    plan = plan_memory(text_model(outputs="x")).plan
    assert (len(plan.allocation.steps), plan.allocation.last_step) == (0, 0)
