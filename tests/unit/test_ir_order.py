"""Execution order: what must come first comes first, and else the order of the model stays.

spec: I1.6, I1.7, I1.8
"""

from __future__ import annotations

import pytest

from tests.support.small import small
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model
from tmmu.ir.order import dependencies, stable_topological


def ordered(model: Model) -> list[str]:
    return [node.name for node in stable_topological(model).nodes]


def waits(model: Model) -> set[tuple[str, str]]:
    names = [node.name for node in model.nodes]
    return {(names[a], names[b]) for a, b in dependencies(model)}


def test_a_model_in_order_is_returned_as_it_is() -> None:
    for model in (small(outputs="x"), small("relu: x -> a", "add: a x -> y")):
        assert stable_topological(model) is model


def test_of_the_nodes_that_are_ready_the_one_listed_first_comes_next() -> None:
    model = small("add: c a -> y", "relu: x -> a", "relu2: x -> b", "relu3: b -> c", "relu4: x -> d")
    assert ordered(model) == ["relu", "relu2", "relu3", "add", "relu4"]
    assert stable_topological(stable_topological(model)) == stable_topological(model)


def test_accesses_to_a_tensor_that_is_mutated_keep_their_order() -> None:
    lines = (
        "late: x -> k",
        "read: t k -> a",
        "change: t -> !t",
        "read2: t -> b",
        "change2: t b -> !t",
        "add: a t -> y",
    )
    model = small(*lines, inputs="x t")
    assert ordered(model) == ["late", "read", "change", "read2", "change2", "add"]
    assert waits(model) >= {
        ("read", "change"),
        ("change", "read2"),
        ("read2", "change2"),
        ("change", "change2"),
        ("change2", "add"),
    }
    # A reader that waits for something else still comes before the change that is listed after it.
    swapped = small(*lines[1:5], lines[0], lines[5], inputs="x t")
    assert ordered(swapped) == ["late", "read", "change", "read2", "change2", "add"]


def test_the_writer_of_a_mutated_tensor_comes_before_its_changes() -> None:
    model = small("change: t -> !t", "make: x -> t", "relu: t -> y")
    assert ordered(model) == ["make", "change", "relu"]


def test_a_node_that_writes_and_mutates_waits_for_nobody() -> None:
    model = small("make: x -> t", "both: t t -> !t y")
    assert waits(model) == {("make", "both")}


def test_a_node_with_bodies_waits_for_what_its_bodies_capture() -> None:
    model = small(
        "loop: x -> y", "loop/body*: i => o", "  if: i -> o", "  if/then: => r", "    add: i late -> r",
        "  if/else: => x", "make: x -> late",
    )  # fmt: skip
    assert waits(model) == {("make", "loop")}
    assert ordered(model) == ["make", "loop", "if", "add"]


def test_a_node_with_bodies_waits_for_a_captured_value_that_a_body_returns() -> None:
    model = small("if: x -> y", "if/then: => late", "if/else: => x", "make: x -> late")
    assert ordered(model) == ["make", "if"]


def test_a_captured_value_is_returned_before_a_later_node_changes_it() -> None:
    """The If waits for `k`, the change for nothing but the If."""
    lines = ("make: x -> t", "if: k -> y", "if/then: => t", "if/else: => x", "change: t -> !t", "slow: x -> k")
    assert ordered(small(*lines, outputs="y t")) == ["make", "slow", "if", "change"]


def test_bodies_are_ordered_for_themselves_and_stay_with_their_node() -> None:
    model = small(
        "loop: x -> y", "loop/body*: i => o", "  add: a i -> o", "  relu: i -> a", "relu2: x -> z", outputs="y z"
    )
    again = stable_topological(model)
    assert [node.name for node in again.nodes] == ["loop", "relu", "add", "relu2"]
    assert [again.nodes[body.owner].name for body in again.bodies[1:]] == ["loop"]
    assert again.bodies[0] == model.bodies[0]
    assert [node.body for node in again.nodes] == [0, 1, 1, 0]


def test_nodes_of_a_body_that_stand_elsewhere_are_moved_behind_their_node() -> None:
    model = small("loop: x -> y", "loop/body*: i => o", "  relu: i -> o", "relu2: x -> z", outputs="y z")
    apart = Model(model.name, model.tensors, (model.nodes[0], model.nodes[2], model.nodes[1]), model.bodies)
    assert ordered(apart) == ["loop", "relu", "relu2"]


@pytest.mark.parametrize(
    ("lines", "circle"),
    [
        (("relu: a -> a",), {"relu"}),
        (("after: b x -> y", "one: b -> a", "two: a -> b"), {"one", "two"}),
        (("loop: x -> y", "loop/body: i => o", "  add: i z -> o", "relu: y -> z"), {"loop", "relu"}),
        (("loop: x -> y", "loop/body: i => o", "  add: o i -> o"), {"add"}),
        (("if: x -> y", "if/then: => y"), {"if"}),
        (("loop: x -> y", "loop/body: i => o", "  change: y i -> !y o"), {"loop"}),
    ],
)
def test_a_circle_is_refused_naming_one_of_its_nodes(lines: tuple[str, ...], circle: set[str]) -> None:
    with pytest.raises(TmmuError, match="break the cycle") as refused:
        stable_topological(small(*lines))
    assert refused.value.code_id == "LIVENESS_CYCLE"
    assert refused.value.diagnostics["node_id"] in circle


def test_a_value_of_another_body_is_refused() -> None:
    """spec: I1.9"""
    model = small("if: x -> y", "if/then: => a", "  relu: x -> a", "if/else: => b", "  add: a x -> b")
    with pytest.raises(TmmuError, match="from inside another body") as refused:
        stable_topological(model)
    assert refused.value.code_id == "INVALID_IR"


def test_accesses_inside_a_node_keep_their_order_around_a_change_as_well() -> None:
    """spec: I1.6"""
    model = small(
        "make: x -> t",
        "if: x -> r",
        "if/then: => b",
        "  read: t -> a",
        "  change: t -> !t",
        "  read2: t a -> b",
        "after: t r -> y",
    )
    assert waits(model) >= {("read", "change"), ("change", "read2"), ("make", "if"), ("if", "after")}
    names = {node.name: node.body for node in model.nodes}
    assert all(names[earlier] == names[later] for earlier, later in waits(model))
    assert ordered(model) == [node.name for node in model.nodes]
