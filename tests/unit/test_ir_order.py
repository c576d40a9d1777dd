"""Execution order: what must come first comes first, and else the order of the model stays.

spec: I1.6, I1.7, I1.8
"""

from __future__ import annotations

import pytest

from tests.support.text_models import text_model
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model
from tmmu.ir.order import find_dependencies, sort_topologically


def ordered(model: Model) -> list[str]:
    return [node.name for node in sort_topologically(model).nodes]


def waits(model: Model) -> set[tuple[str, str]]:
    names = [node.name for node in model.nodes]
    return {(names[a], names[b]) for a, b in find_dependencies(model)}


def test_a_model_in_order_is_returned_as_it_is() -> None:
    for model in (text_model(outputs="x"), text_model("node relu Relu x -> a", "node add Add a x -> y")):
        assert sort_topologically(model) is model


def test_of_the_nodes_that_are_ready_the_one_listed_first_comes_next() -> None:
    model = text_model(
        "node add Add c a -> y", "node relu Relu x -> a", "node relu2 Relu x -> b", "node relu3 Relu b -> c",
        "node relu4 Relu x -> d",
    )  # fmt: skip
    assert ordered(model) == ["relu", "relu2", "relu3", "add", "relu4"]
    assert sort_topologically(sort_topologically(model)) == sort_topologically(model)


def test_accesses_to_a_tensor_that_is_mutated_keep_their_order() -> None:
    lines = (
        "node late Late x -> k",
        "node read Read t k -> a",
        "node change Change t -> t changes t",
        "node read2 Read t -> b",
        "node change2 Change t b -> t changes t",
        "node add Add a t -> y",
    )
    model = text_model(*lines, inputs="x t")
    assert ordered(model) == ["late", "read", "change", "read2", "change2", "add"]
    assert waits(model) >= {
        ("read", "change"),
        ("change", "read2"),
        ("read2", "change2"),
        ("change", "change2"),
        ("change2", "add"),
    }
    # A reader that waits for something else still comes before the change that is listed after it.
    swapped = text_model(*lines[1:5], lines[0], lines[5], inputs="x t")
    assert ordered(swapped) == ["late", "read", "change", "read2", "change2", "add"]


def test_the_writer_of_a_mutated_tensor_comes_before_its_changes() -> None:
    model = text_model("node change Change t -> t changes t", "node make Make x -> t", "node relu Relu t -> y")
    assert ordered(model) == ["make", "change", "relu"]


def test_a_node_that_writes_and_mutates_waits_for_nobody() -> None:
    model = text_model("node make Make x -> t", "node both Both t t -> t y changes t")
    assert waits(model) == {("make", "both")}


def test_a_node_with_bodies_waits_for_what_its_bodies_capture() -> None:
    model = text_model(
        "begin loop1 Loop x -> y", "arm body i -> o loop", "  begin if If i -> o", "  arm then -> r",
        "    node add Add i late -> r", "  arm else -> x", "  end if", "end loop1", "node make Make x -> late",
    )  # fmt: skip
    assert waits(model) == {("make", "loop1")}
    assert ordered(model) == ["make", "loop1", "if", "add"]


def test_a_node_with_bodies_waits_for_a_captured_value_that_a_body_returns() -> None:
    model = text_model("begin if If x -> y", "arm then -> late", "arm else -> x", "end if", "node make Make x -> late")
    assert ordered(model) == ["make", "if"]


def test_a_captured_value_is_returned_before_a_later_node_changes_it() -> None:
    """The If waits for `k`, the change for nothing but the If."""
    lines = (
        "node make Make x -> t", "begin if If k -> y", "arm then -> t", "arm else -> x", "end if",
        "node change Change t -> t changes t", "node slow Slow x -> k",
    )  # fmt: skip
    assert ordered(text_model(*lines, outputs="y t")) == ["make", "slow", "if", "change"]


def test_bodies_are_ordered_for_themselves_and_stay_with_their_node() -> None:
    model = text_model(
        "begin loop1 Loop x -> y", "arm body i -> o loop", "  node add Add a i -> o", "  node relu Relu i -> a",
        "end loop1", "node relu2 Relu x -> z", outputs="y z",
    )  # fmt: skip
    again = sort_topologically(model)
    assert [node.name for node in again.nodes] == ["loop1", "relu", "add", "relu2"]
    assert [again.nodes[body.owner].name for body in again.bodies[1:]] == ["loop1"]
    assert again.bodies[0] == model.bodies[0]
    assert [node.body for node in again.nodes] == [0, 1, 1, 0]


def test_nodes_of_a_body_that_stand_elsewhere_are_moved_behind_their_node() -> None:
    model = text_model(
        "begin loop1 Loop x -> y", "arm body i -> o loop", "  node relu Relu i -> o", "end loop1",
        "node relu2 Relu x -> z", outputs="y z",
    )  # fmt: skip
    apart = Model(model.name, model.tensors, (model.nodes[0], model.nodes[2], model.nodes[1]), model.bodies)
    assert ordered(apart) == ["loop1", "relu", "relu2"]


@pytest.mark.parametrize(
    ("lines", "circle"),
    [
        (("node relu Relu a -> a",), {"relu"}),
        (("node after After b x -> y", "node one One b -> a", "node two Two a -> b"), {"one", "two"}),
        (
            (
                "begin loop1 Loop x -> y",
                "arm body i -> o",
                "  node add Add i z -> o",
                "end loop1",
                "node relu Relu y -> z",
            ),
            {"loop1", "relu"},
        ),
        (("begin loop1 Loop x -> y", "arm body i -> o", "  node add Add o i -> o", "end loop1"), {"add"}),
        (("begin if If x -> y", "arm then -> y", "end if"), {"if"}),
        (
            ("begin loop1 Loop x -> y", "arm body i -> o", "  node change Change y i -> y o changes y", "end loop1"),
            {"loop1"},
        ),
    ],
)
def test_a_circle_is_refused_naming_one_of_its_nodes(lines: tuple[str, ...], circle: set[str]) -> None:
    with pytest.raises(TmmuError, match="break the cycle") as refused:
        sort_topologically(text_model(*lines))
    assert refused.value.code_id == "LIVENESS_CYCLE"
    assert refused.value.diagnostics["node_id"] in circle


def test_a_value_of_another_body_is_refused() -> None:
    """spec: I1.9"""
    model = text_model(
        "begin if If x -> y", "arm then -> a", "  node relu Relu x -> a", "arm else -> b", "  node add Add a x -> b",
        "end if",
    )  # fmt: skip
    with pytest.raises(TmmuError, match="from inside another body") as refused:
        sort_topologically(model)
    assert refused.value.code_id == "INVALID_IR"


def test_accesses_inside_a_node_keep_their_order_around_a_change_as_well() -> None:
    """spec: I1.6"""
    model = text_model(
        "node make Make x -> t",
        "begin if If x -> r",
        "arm then -> b",
        "  node read Read t -> a",
        "  node change Change t -> t changes t",
        "  node read2 Read t a -> b",
        "end if",
        "node after After t r -> y",
    )
    assert waits(model) >= {("read", "change"), ("change", "read2"), ("make", "if"), ("if", "after")}
    names = {node.name: node.body for node in model.nodes}
    assert all(names[earlier] == names[later] for earlier, later in waits(model))
    assert ordered(model) == [node.name for node in model.nodes]
