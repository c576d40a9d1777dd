"""A step that a plan runs again is the model's where it gives the same values, and none of the model's otherwise.

spec: M1.8, M1.9, V3.6
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from proofs.readers.models.ir import read_ir
from proofs.readers.models.recomputation import with_recomputation
from proofs.readers.models.reference import ReferenceProgram
from tests.support.small import small
from tmmu.core.vocabulary import Model, Phase
from tmmu.plan.sections import Plan, amended
from tmmu.planner import PlanOptions, plan_memory


def planned(model: Model, mode: str = "backward") -> Plan:
    return amended(plan_memory(model, options=PlanOptions(layout="slots")).plan, mode=mode)


def repeats(model: Model, plan: Plan) -> list[str]:
    """The steps of a plan that are accepted as steps of the model which are run again."""
    nodes = {step.node for step in read_ir(model).steps}
    return [
        step.node for step in with_recomputation(read_ir(model), plan, plan.origin.mode).steps if step.node not in nodes
    ]


def written(*lines: str, **given: Any) -> Model:
    """A model in which `name.recompute0` has the operator of `name`."""
    names = [line.strip().partition(": ")[0] for line in lines if "=>" not in line]
    ops = {name: {"op": name.partition(".")[0].capitalize()} for name in names if ".recompute" in name}
    fields = {name: ops.get(name, {}) | dict(given.get("nodes", {}).get(name, {})) for name in names}
    return small(*lines, **{**given, "nodes": fields})


TANH, AGAIN = "tanh: a -> b", "tanh.recompute0: a -> b.recompute0"


def test_a_step_that_is_run_again_gives_the_same_values() -> None:
    model = written("matmul: x -> a", TANH, "sin: b -> c", "add: b c -> y")
    again = ("matmul: x -> a", TANH, "sin: b -> c", AGAIN, "sin.recompute0: b.recompute0 -> c.recompute0")
    plan = planned(written(*again, "add: b.recompute0 c.recompute0 -> y"))
    assert repeats(model, plan) == ["tanh.recompute0", "sin.recompute0"]
    found = with_recomputation(read_ir(model), plan, plan.origin.mode)
    assert [step.node for step in found.steps] == [
        "matmul", "tanh", "tanh.recompute0", "sin", "sin.recompute0", "add",
    ]  # fmt: skip
    assert found.steps[-1].reads == ("b.recompute0", "c.recompute0")
    assert found.phases["tanh.recompute0"] is Phase.BACKWARD
    for table in (found.sizes, found.shapes, found.alignments, found.roles):
        assert table["b.recompute0"] == table["b"]


@pytest.mark.parametrize("mode", ["inference", "forward"])
def test_nothing_is_run_again_in_another_mode(mode: str) -> None:
    model = written(TANH, "sin: b -> y", inputs="a")
    plan = planned(written(TANH, AGAIN, "sin: b.recompute0 -> y", inputs="a"))
    assert repeats(model, plan) == ["tanh.recompute0"]
    assert repeats(model, amended(plan, mode=mode)) == []


def test_a_plan_that_runs_nothing_again_is_held_to_the_model_as_it_is() -> None:
    """What the model says is saved is not worked out anew."""
    model = written(TANH, "sin: b -> y", inputs="a", nodes={"sin": {"phase": Phase.BACKWARD}})
    expected = replace(read_ir(model), saved=frozenset({"b"}))
    assert with_recomputation(expected, planned(model), "inference") is expected
    plan = planned(written(TANH, AGAIN, "sin: b.recompute0 -> y", inputs="a"))
    assert with_recomputation(expected, plan, plan.origin.mode).saved == {"a"}


BODY = ("if: x -> y", "if/then: => b")


@pytest.mark.parametrize(
    ("model", "forged"),
    [
        # A step of the backward half.
        (written(TANH, "sin: b -> y", inputs="a", nodes={"tanh": {"phase": Phase.BACKWARD}}),
         written(TANH, AGAIN, "sin: b.recompute0 -> y", inputs="a")),
        # A step inside a body, and a node with bodies: its enter and its leave.
        (written(*BODY, "  tanh: x -> b"), written(*BODY, "  tanh: x -> b", "  tanh.recompute0: x -> b.recompute0")),
        (written(*BODY, "  tanh: x -> b"),
         written(*BODY, "  tanh: x -> b", "if.recompute0: x -> y.recompute0", "if.recompute0/then: => e",
                 "  neg: x -> e", outputs="y y.recompute0")),
        # A step that changes one of its operands.
        (written("tanh: a s -> !s", "sin: s -> y", inputs="a s", donated=("s",)),
         written("tanh: a s -> !s", "tanh.recompute0: a s -> s.recompute0", "sin: s -> y", inputs="a s",
                 donated=("s",))),
        # A draw, of whatever domain.
        (written("bernoulli: a -> b", "sin: b -> y", inputs="a"),
         written("bernoulli: a -> b", "bernoulli.recompute0: a -> b.recompute0", "sin: b.recompute0 -> y", inputs="a")),
        # A tensor of this name is the caller's.
        (written(TANH, "add: b b.recompute0 -> y", inputs="a b.recompute0"),
         written(TANH, AGAIN, "add: b b.recompute0 -> y", inputs="a")),
        # Other operands, other results, another node.
        (written(TANH, "sin: b -> y", inputs="a x"),
         written(TANH, "tanh.recompute0: x -> b.recompute0", "sin: b.recompute0 -> y", inputs="a x")),
        (written(TANH, "sin: b -> y", inputs="a"),
         written(TANH, "tanh.recompute0: a a -> b.recompute0", "sin: b.recompute0 -> y", inputs="a")),
        (written(TANH, "sin: b -> y", inputs="a"),
         written(TANH, "tanh.recompute0: a -> c", "sin: c -> y", inputs="a")),
        (written(TANH, "sin: b -> y", inputs="a"),
         written(TANH, "cos.recompute0: a -> b.recompute0", "sin: b.recompute0 -> y", inputs="a")),
    ],
)  # fmt: skip
def test_whatever_else_is_run_is_no_step_of_the_model(model: Model, forged: Model) -> None:
    assert repeats(model, planned(forged)) == []


@pytest.mark.parametrize(
    ("domain", "views", "again"),
    [
        ("", {"b": ("a", 0)}, ["dropout.recompute0"]),
        ("", {}, []),
        ("custom", {"b": ("a", 0)}, []),
        ("custom", {}, []),
    ],
)
def test_a_dropout_is_run_again_where_it_drops_nothing(
    domain: str, views: dict[str, tuple[str, int]], again: list[str]
) -> None:
    """Where it is a view of its operand; what another domain calls so may draw."""
    nodes = {name: {"domain": domain} for name in ("dropout", "dropout.recompute0")}
    model = written("dropout: a -> b", "sin: b -> y", inputs="a", nodes=nodes)
    lines = ("dropout: a -> b", "dropout.recompute0: a -> b.recompute0", "sin: b.recompute0 -> y")
    plan = planned(written(*lines, inputs="a", nodes=nodes))
    expected = replace(read_ir(model), views=views)
    found = with_recomputation(expected, plan, plan.origin.mode).steps
    assert [step.node for step in found if ".recompute" in step.node] == again


def test_what_shares_bytes_shares_those_of_what_stands_in_their_place() -> None:
    """Of a step of the model that reads a value computed again, and of one that is run again."""
    model = written(TANH, "relu: b -> c(b)", "reshape: c -> d", "sin: d -> y", inputs="a", views={"d": ("c", 0)})

    def found(*forged: str) -> ReferenceProgram:
        return with_recomputation(read_ir(model), planned(written(TANH, *forged, inputs="a")), "backward")

    one = found(AGAIN, "relu: b.recompute0 -> c", "reshape: c -> d", "sin: d -> y")
    assert one.in_place == {("c", "b"), ("c", "b.recompute0")}
    assert one.views == {"d": ("c", 0)}
    two = found("relu: b -> c", "relu.recompute0: b -> c.recompute0", "reshape: c.recompute0 -> d", "sin: d -> y")
    assert two.in_place == {("c", "b"), ("c.recompute0", "b")}
    assert two.views == {"d": ("c.recompute0", 0)}
    three = found("relu: b -> c", "reshape: c -> d", "reshape.recompute0: c -> d.recompute0", "sin: d.recompute0 -> y")
    assert three.in_place == {("c", "b")}
    assert three.views == {"d": ("c", 0), "d.recompute0": ("c", 0)}
