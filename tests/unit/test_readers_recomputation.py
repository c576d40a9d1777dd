"""A step that a plan runs again is the model's where it gives the same values, and none of the model's otherwise.

spec: M1.8, M1.9, V3.6
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from proofs.readers.models.ir import read_ir
from proofs.readers.models.recomputation import add_recomputation
from proofs.readers.models.reference import ReferenceProgram
from tests.support.text_models import text_model
from tmmu.core.vocabulary import Model, Phase
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.sections import Plan, amend_plan


def planned(model: Model, mode: str = "backward") -> Plan:
    return amend_plan(plan_memory(model, options=PlanOptions(layout="slots")).plan, mode=mode)


def repeats(model: Model, plan: Plan) -> list[str]:
    """The steps of a plan that are accepted as steps of the model which are run again."""
    nodes = {step.node for step in read_ir(model).steps}
    return [
        step.node for step in add_recomputation(read_ir(model), plan, plan.origin.mode).steps if step.node not in nodes
    ]


TANH, AGAIN = "node tanh Tanh a -> b", "node tanh.recompute0 Tanh a -> b.recompute0"


def test_a_step_that_is_run_again_gives_the_same_values() -> None:
    model = text_model("node matmul Matmul x -> a", TANH, "node sin Sin b -> c", "node add Add b c -> y")
    again = (
        "node matmul Matmul x -> a",
        TANH,
        "node sin Sin b -> c",
        AGAIN,
        "node sin.recompute0 Sin b.recompute0 -> c.recompute0",
    )
    plan = planned(text_model(*again, "node add Add b.recompute0 c.recompute0 -> y"))
    assert repeats(model, plan) == ["tanh.recompute0", "sin.recompute0"]
    found = add_recomputation(read_ir(model), plan, plan.origin.mode)
    assert [step.node for step in found.steps] == [
        "matmul", "tanh", "tanh.recompute0", "sin", "sin.recompute0", "add",
    ]  # fmt: skip
    assert found.steps[-1].reads == ("b.recompute0", "c.recompute0")
    assert found.phases["tanh.recompute0"] is Phase.BACKWARD
    for table in (found.sizes, found.shapes, found.alignments, found.roles):
        assert table["b.recompute0"] == table["b"]


@pytest.mark.parametrize("mode", ["inference", "forward"])
def test_nothing_is_run_again_in_another_mode(mode: str) -> None:
    model = text_model(TANH, "node sin Sin b -> y", inputs="a")
    plan = planned(text_model(TANH, AGAIN, "node sin Sin b.recompute0 -> y", inputs="a"))
    assert repeats(model, plan) == ["tanh.recompute0"]
    assert repeats(model, amend_plan(plan, mode=mode)) == []


def test_a_plan_that_runs_nothing_again_is_held_to_the_model_as_it_is() -> None:
    """What the model says is saved is not worked out anew."""
    model = text_model(TANH, "node sin Sin b -> y backward", inputs="a")
    expected = replace(read_ir(model), saved=frozenset({"b"}))
    assert add_recomputation(expected, planned(model), "inference") is expected
    plan = planned(text_model(TANH, AGAIN, "node sin Sin b.recompute0 -> y", inputs="a"))
    assert add_recomputation(expected, plan, plan.origin.mode).saved == {"a"}


BODY = ("begin if If x -> y", "arm then -> b")


@pytest.mark.parametrize(
    ("model", "forged"),
    [
        # A step of the backward half.
        (text_model(f"{TANH} backward", "node sin Sin b -> y", inputs="a"),
         text_model(TANH, AGAIN, "node sin Sin b.recompute0 -> y", inputs="a")),
        # A step inside a body, and a node with bodies: its enter and its leave.
        (text_model(*BODY, "  node tanh Tanh x -> b", "end if"),
         text_model(*BODY, "  node tanh Tanh x -> b", "  node tanh.recompute0 Tanh x -> b.recompute0", "end if")),
        (text_model(*BODY, "  node tanh Tanh x -> b", "end if"),
         text_model(
             *BODY, "  node tanh Tanh x -> b", "end if", "begin if.recompute0 If x -> y.recompute0", "arm then -> e",
             "  node neg Neg x -> e", "end if.recompute0", outputs="y y.recompute0",
         )),
        # A step that changes one of its operands.
        (text_model("node tanh Tanh a s -> s changes s", "node sin Sin s -> y", "tensor s u8 64 donated", inputs="a s"),
         text_model(
             "node tanh Tanh a s -> s changes s", "node tanh.recompute0 Tanh a s -> s.recompute0",
             "node sin Sin s -> y", "tensor s u8 64 donated", inputs="a s",
         )),
        # A draw, of whatever domain.
        (text_model("node bernoulli Bernoulli a -> b", "node sin Sin b -> y", inputs="a"),
         text_model(
             "node bernoulli Bernoulli a -> b", "node bernoulli.recompute0 Bernoulli a -> b.recompute0",
             "node sin Sin b.recompute0 -> y", inputs="a",
         )),
        # A tensor of this name is the caller's.
        (text_model(TANH, "node add Add b b.recompute0 -> y", inputs="a b.recompute0"),
         text_model(TANH, AGAIN, "node add Add b b.recompute0 -> y", inputs="a")),
        # Other operands, other results, another node.
        (text_model(TANH, "node sin Sin b -> y", inputs="a x"),
         text_model(
             TANH, "node tanh.recompute0 Tanh x -> b.recompute0", "node sin Sin b.recompute0 -> y",
             inputs="a x",
         )),
        (text_model(TANH, "node sin Sin b -> y", inputs="a"),
         text_model(
             TANH, "node tanh.recompute0 Tanh a a -> b.recompute0", "node sin Sin b.recompute0 -> y",
             inputs="a",
         )),
        (text_model(TANH, "node sin Sin b -> y", inputs="a"),
         text_model(TANH, "node tanh.recompute0 Tanh a -> c", "node sin Sin c -> y", inputs="a")),
        (text_model(TANH, "node sin Sin b -> y", inputs="a"),
         text_model(
             TANH, "node cos.recompute0 Cos a -> b.recompute0", "node sin Sin b.recompute0 -> y", inputs="a",
         )),
    ],
)  # fmt: skip
def test_whatever_else_is_run_is_no_step_of_the_model(model: Model, forged: Model) -> None:
    assert repeats(model, planned(forged)) == []


@pytest.mark.parametrize(
    ("op", "views", "again"),
    [
        ("Dropout", {"b": ("a", 0)}, ["dropout.recompute0"]),
        ("Dropout", {}, []),
        ("custom::Dropout", {"b": ("a", 0)}, []),
        ("custom::Dropout", {}, []),
    ],
)
def test_a_dropout_is_run_again_where_it_drops_nothing(
    op: str, views: dict[str, tuple[str, int]], again: list[str]
) -> None:
    """Where it is a view of its operand; what another domain calls so may draw."""
    model = text_model(f"node dropout {op} a -> b", "node sin Sin b -> y", inputs="a")
    lines = (
        f"node dropout {op} a -> b", f"node dropout.recompute0 {op} a -> b.recompute0",
        "node sin Sin b.recompute0 -> y",
    )  # fmt: skip
    plan = planned(text_model(*lines, inputs="a"))
    expected = replace(read_ir(model), views=views)
    found = add_recomputation(expected, plan, plan.origin.mode).steps
    assert [step.node for step in found if ".recompute" in step.node] == again


def test_what_shares_bytes_shares_those_of_what_stands_in_their_place() -> None:
    """Of a step of the model that reads a value computed again, and of one that is run again."""
    model = text_model(
        TANH, "node relu Relu b -> c inplace c b", "node reshape Reshape c -> d", "node sin Sin d -> y",
        "tensor d u8 64 view c 0", inputs="a",
    )  # fmt: skip

    def found(*forged: str) -> ReferenceProgram:
        return add_recomputation(read_ir(model), planned(text_model(TANH, *forged, inputs="a")), "backward")

    one = found(AGAIN, "node relu Relu b.recompute0 -> c", "node reshape Reshape c -> d", "node sin Sin d -> y")
    assert one.in_place == {("c", "b"), ("c", "b.recompute0")}
    assert one.views == {"d": ("c", 0)}
    two = found(
        "node relu Relu b -> c",
        "node relu.recompute0 Relu b -> c.recompute0",
        "node reshape Reshape c.recompute0 -> d",
        "node sin Sin d -> y",
    )
    assert two.in_place == {("c", "b"), ("c.recompute0", "b")}
    assert two.views == {"d": ("c.recompute0", 0)}
    three = found(
        "node relu Relu b -> c",
        "node reshape Reshape c -> d",
        "node reshape.recompute0 Reshape c -> d.recompute0",
        "node sin Sin d.recompute0 -> y",
    )
    assert three.in_place == {("c", "b")}
    assert three.views == {"d": ("c", 0), "d.recompute0": ("c", 0)}
