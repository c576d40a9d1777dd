"""The joint graph of small models, line by line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.small import small
from tests.support.trainable import FLOAT, MLP, OPTIMIZER, floating, lines, names
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Body, Model, Node, Phase, Role, Tensor
from tmmu.ir import columns, order
from tmmu.planner import PlanOptions, plan_memory
from tmmu.planner.training import gradients
from tmmu.planner.training.expand import expand


def refusal(model: Model) -> str:
    with pytest.raises(TmmuError) as raised:
        expand(model)
    assert raised.value.code_id == "MODE_VIOLATION"
    return str(raised.value)


def test_a_small_network_has_these_gradient_steps() -> None:
    """spec: M2.1, M2.3, M2.4, M2.5, M2.6, M2.8"""
    joint = expand(MLP)
    assert lines(joint) == [
        "add0.grad: AddGrad y.seed -> c.grad a.grad.part1",
        "matmul1.grad: MatMulGrad c.grad b v -> b.grad v.grad",
        "relu0.grad: ReluGrad b.grad b -> a.grad.part0",
        "a.grad.add1: Add a.grad.part0 a.grad.part1 -> a.grad",
        "matmul0.grad: MatMulGrad a.grad x -> w.grad",
    ]
    assert [node.name for node in joint.nodes[:4]] == [node.name for node in MLP.nodes]
    assert {node.domain for node in joint.nodes if node.op.endswith("Grad")} == {"tmmu.grad"}


def test_the_seed_is_an_input_and_the_gradients_of_parameters_are_outputs() -> None:
    """spec: M2.9, M2.10, M2.14"""
    joint = expand(MLP)
    assert names(joint, joint.inputs) == ["x", "y.seed"]
    assert names(joint, joint.outputs) == ["y", "w.grad", "v.grad"]
    roles = {tensor.name: tensor.role for tensor in joint.tensors}
    assert roles["y.seed"] is Role.INPUT
    assert {role for name, role in roles.items() if ".grad" in name} == {Role.GRADIENT}
    plan = plan_memory(joint, options=PlanOptions(mode="backward", layout="slots")).plan
    arenas = {tensor: plan.allocation.arenas[plan.allocation.storages.arena[plan.allocation.tensors.storage[t]]].name
              for t, tensor in enumerate(plan.allocation.tensors.name)}  # fmt: skip
    assert arenas["v.grad"] == arenas["b.grad"] == "gradients"
    assert arenas["c.grad"] == "activations", "it shows the seed, which the caller gives"


def test_what_gradient_steps_read_is_saved() -> None:
    """spec: M2.7"""
    joint = expand(MLP)
    assert {tensor.name for tensor in joint.tensors if tensor.saved_for_backward} == {"x", "b"}


def test_a_saved_tensor_dies_at_its_last_backward_reader() -> None:
    joint = expand(MLP)
    plan = plan_memory(joint, options=PlanOptions(mode="backward", layout="slots")).plan
    steps = plan.allocation.steps.node.list()
    death = dict(zip(plan.allocation.tensors.name, plan.allocation.tensors.death.tolist(), strict=True))
    assert death["b"] == steps.index("relu0.grad")
    assert death["x"] == steps.index("matmul0.grad")
    assert death["c"] == steps.index("add0")


def test_contributions_are_added_in_the_order_of_consumers_and_operands_with_the_seed_last() -> None:
    """spec: M2.8, M2.9"""
    model = floating(
        "matmul0: x w -> a", "mul0: a a -> b", "sin0: a -> c", "add0: b c -> y", parameters="w", outputs="y a"
    )
    joint = expand(model)
    adds = [line for line in lines(joint) if ": Add " in line]
    assert adds == [
        "a.grad.add1: Add a.grad.part0 a.grad.part1 -> a.grad.sum1",
        "a.grad.add2: Add a.grad.sum1 a.grad.part2 -> a.grad.sum2",
        "a.grad.add3: Add a.grad.sum2 a.seed -> a.grad",
    ]
    assert "mul0.grad: MulGrad b.grad a -> a.grad.part0 a.grad.part1" in lines(joint)
    assert "sin0.grad: SinGrad c.grad a -> a.grad.part2" in lines(joint)


def test_the_gradient_of_a_view_is_a_view_back() -> None:
    """spec: M2.4"""
    flat = {"t": {"shape": (16,), "dtype": "float32", "bytes": 64, "alignment": 4}}
    model = floating(
        "matmul0: x w -> a", "reshape0: a -> t", "tanh0: t -> u", "identity0: u -> y",
        parameters="w", like=flat | {"u": flat["t"], "y": flat["t"]}, views={"t": ("a", 0)},
    )  # fmt: skip
    joint = expand(model)
    assert lines(joint)[:3] == [
        "identity0.grad: Reshape y.seed -> u.grad",
        "tanh0.grad: TanhGrad u.grad u -> t.grad",
        "reshape0.grad: Reshape t.grad -> a.grad",
    ]
    shown = {tensor.name: tensor.view for tensor in joint.tensors}
    rows = {tensor.name: t for t, tensor in enumerate(joint.tensors)}
    assert shown["a.grad"] is not None
    assert shown["a.grad"].base == rows["t.grad"]
    assert joint.tensors[rows["a.grad"]].shape == (4, 4)
    assert shown["t.grad"] is None
    assert next(node.in_place for node in joint.nodes if node.name == "tanh0.grad") == (
        (rows["t.grad"], rows["u.grad"]),
    )


def test_a_dropout_is_a_view_back_only_where_it_is_a_view() -> None:
    """spec: M2.4, M2.5"""
    shown = floating("matmul0: x w -> a", "dropout0: a -> y", parameters="w", views={"y": ("a", 0)})
    assert lines(expand(shown))[0] == "dropout0.grad: Reshape y.seed -> a.grad"
    mask = {"m": {"shape": (4, 4), "dtype": "bool", "bytes": 16}}
    drawn = floating("matmul0: x w -> a", "dropout0: a -> y m", parameters="w", like=mask)
    assert lines(expand(drawn))[0] == "dropout0.grad: DropoutGrad y.seed m -> a.grad"
    other = floating("matmul0: x w -> a", "dropout0: a r -> y", inputs="x r", parameters="w", views={"y": ("r", 0)})
    assert lines(expand(other))[0] == "dropout0.grad: DropoutGrad y.seed r -> a.grad"


@pytest.mark.parametrize("result", [{"shape": (2, 2), "bytes": 16}, {"dtype": "float64", "bytes": 128}])
def test_a_result_of_other_elements_has_no_view_back(result: dict[str, Any]) -> None:
    """spec: M2.4"""
    model = floating("matmul0: x w -> a", "reshape0: a -> y", parameters="w", like={"y": FLOAT | result})
    assert lines(expand(model))[0] == "reshape0.grad: ReshapeGrad y.seed -> a.grad"


def test_the_seed_of_an_output_with_one_reader_is_added_to_what_that_gives() -> None:
    """spec: M2.8, M2.9"""
    assert lines(expand(floating("matmul0: x w -> a", "relu0: a -> y", parameters="w", outputs="y a")))[:2] == [
        "relu0.grad: ReluGrad y.seed y -> a.grad.part0",
        "a.grad.add1: Add a.grad.part0 a.seed -> a.grad",
    ]


def test_an_elementwise_gradient_takes_bytes_of_its_own_shape_and_width_alone() -> None:
    row = {"b": {"shape": (4,), "dtype": "float32", "bytes": 16, "alignment": 4}}
    wide = {"a": {"shape": (4, 4), "dtype": "float64", "bytes": 128, "alignment": 8}}
    for step, like, taken in (
        ("mul0: a b -> y", {}, True), ("mul0: a b -> y", row, True), ("mul0: b a -> y", row, False),
        ("mul0: a b -> y", wide, False), ("matmul1: a b -> y", {}, False),
    ):  # fmt: skip
        joint = expand(floating("matmul0: x w -> a", step, parameters="w b", like=like))
        made = joint.nodes[2]
        assert made.in_place == (((made.writes[0], made.reads[0]),) if taken else ())


def test_a_broadcast_summand_does_not_show_the_gradient_of_the_sum() -> None:
    row = {"b": {"shape": (4,), "dtype": "float32", "bytes": 16, "alignment": 4}}
    joint = expand(floating("matmul0: x w -> a", "add0: a b -> y", parameters="w b", like=row))
    views = {tensor.name: tensor.view is not None for tensor in joint.tensors}
    assert views["a.grad"]
    assert not views["b.grad"]


def test_only_what_depends_on_a_parameter_has_a_gradient() -> None:
    """spec: M2.3, M2.6, M2.11"""
    likes = {
        "k": {"shape": (), "dtype": "float32", "bytes": 4, "alignment": 4},
        "i": {"shape": (4, 4), "dtype": "int64", "bytes": 128, "alignment": 8},
    }
    model = floating(
        "tanh0: x -> p", "mul0: p k -> q", "matmul0: q w -> a", "gather0: a i -> g", "floor0: a -> f",
        "add0: g f -> y", parameters="w k i", like=likes,
    )  # fmt: skip
    assert lines(expand(model)) == [
        "add0.grad: AddGrad y.seed -> g.grad",
        "gather0.grad: GatherGrad g.grad i -> a.grad",
        "matmul0.grad: MatMulGrad a.grad q -> w.grad",
    ]


def test_what_leads_to_no_output_has_no_gradient() -> None:
    """spec: M2.3"""
    model = floating("matmul0: x w -> a", "sin0: a -> b", "matmul1: b v -> c", "relu0: a -> y", parameters="w v")
    joint = expand(model)
    assert lines(joint) == ["relu0.grad: ReluGrad y.seed y -> a.grad", "matmul0.grad: MatMulGrad a.grad x -> w.grad"]
    assert names(joint, joint.outputs) == ["y", "w.grad"]


def test_an_operand_at_a_place_that_has_no_gradient_gets_none() -> None:
    """`l` depends on a parameter, and is a bound. spec: M2.6"""
    model = floating("matmul0: x w -> a", "matmul1: x v -> l", "clip0: a l -> y", parameters="w v")
    assert lines(expand(model)) == [
        "clip0.grad: ClipGrad y.seed a l -> a.grad",
        "matmul0.grad: MatMulGrad a.grad x -> w.grad",
    ]


def test_a_parameter_of_integers_has_no_gradient() -> None:
    """spec: M2.11"""
    integers = {"i": {"shape": (4, 4), "dtype": "int64", "bytes": 128, "alignment": 8}}
    joint = expand(floating("mul0: w i -> y", inputs="", parameters="w i", like=integers))
    assert lines(joint) == ["mul0.grad: MulGrad y.seed i -> w.grad"]


def test_without_parameters_the_inputs_have_gradients() -> None:
    """spec: M2.11"""
    joint = expand(floating("relu0: x -> a", "neg0: a -> y"))
    assert lines(joint) == ["neg0.grad: NegGrad y.seed -> a.grad", "relu0.grad: ReluGrad a.grad a -> x.grad"]
    assert names(joint, joint.outputs) == ["y", "x.grad"]


def test_an_unknown_operator_reads_everything() -> None:
    """spec: M2.5"""
    model = floating("matmul0: x w -> a", "fused0: a x -> y z", parameters="w", nodes={"fused0": {"domain": "com.x"}})
    joint = expand(model)
    assert lines(joint)[0] == "fused0.grad: FusedGrad y.seed a x y z -> a.grad"
    assert joint.nodes[2].domain == "tmmu.grad/com.x"
    assert joint.nodes[2].in_place == ()


def test_every_rule_reads_positions_that_an_operator_can_have() -> None:
    for op, found in gradients._rules().items():
        node = Node("n", op, tuple(range(8)), (10, 11, 12))
        for position in range(8):
            reads = gradients.reads(node, position)
            assert (reads is None) == (found.every is None and position not in found.operands)
            assert reads is None or set(reads) <= {*range(8), 10, 11, 12}


def test_a_model_with_a_backward_half_is_used_as_it_is() -> None:
    """spec: M2.2"""
    model = floating("matmul0: x w -> a", "back0: a -> y", parameters="w", nodes={"back0": {"phase": Phase.BACKWARD}})
    assert expand(model) is model


def test_a_gradient_that_an_optimizer_reads_is_no_output() -> None:
    """spec: M2.10, M2.1"""
    joint = expand(OPTIMIZER)
    assert names(joint, joint.outputs) == ["y"]
    assert names(joint, joint.inputs) == ["x", "y.seed"]
    assert [node.name for node in joint.nodes] == ["matmul0", "matmul0.grad", "sgd0"]
    assert joint.nodes[1].writes == joint.nodes[2].reads[1:]


def test_an_input_that_only_looks_like_a_gradient_stays_one() -> None:
    other = {"w.grad": {"shape": (2,), "dtype": "float32", "bytes": 8, "alignment": 4}}
    model = floating(
        "matmul0: x w -> y", "sgd0: w w.grad -> !w", inputs="x w.grad", parameters="w", donated=("w",),
        nodes={"sgd0": {"phase": Phase.OPTIMIZER}}, like=other,
    )  # fmt: skip
    with pytest.raises(TmmuError, match=r"tensor 'w\.grad': the name is used twice"):
        expand(model)


def test_a_gradient_that_the_graph_does_not_make_is_still_given() -> None:
    """The optimizer reads one of a parameter that no output depends on. spec: M2.10"""
    model = floating(
        "matmul0: x w -> y", "sgd0: w w.grad -> !w", "sgd1: v v.grad -> !v", inputs="x w.grad v.grad",
        parameters="w v", donated=("w", "v"), nodes={name: {"phase": Phase.OPTIMIZER} for name in ("sgd0", "sgd1")},
    )  # fmt: skip
    joint = expand(model)
    assert names(joint, joint.inputs) == ["x", "v.grad", "y.seed"]
    assert {tensor.name: tensor.role for tensor in joint.tensors}["v.grad"] is Role.INPUT


@pytest.mark.parametrize(
    ("steps", "inputs"),
    [
        (("matmul0: x w -> y", "neg0: x -> w.grad", "sgd0: w w.grad -> !w"), "x"),
        (("matmul0: x w -> y",), "x w.grad"),
    ],
)
def test_the_name_of_a_gradient_that_a_node_makes_or_no_optimizer_reads_is_taken(
    steps: tuple[str, ...], inputs: str
) -> None:
    optimizer = {"sgd0": {"phase": Phase.OPTIMIZER}}
    model = floating(*steps, inputs=inputs, parameters="w", donated=("w",), nodes=optimizer)
    with pytest.raises(TmmuError, match=r"tensor 'w\.grad': the name is used twice"):
        expand(model)


def test_a_gradient_that_an_optimizer_reads_may_show_another() -> None:
    """spec: M2.4, M2.10"""
    model = floating(
        "add0: x w -> y", "sgd0: w w.grad -> !w", inputs="x w.grad", parameters="w", donated=("w",),
        nodes={"sgd0": {"phase": Phase.OPTIMIZER}},
    )  # fmt: skip
    joint = expand(model)
    shown = {tensor.name: tensor.view for tensor in joint.tensors}["w.grad"]
    assert shown is not None
    assert joint.tensors[shown.base].name == "y.seed"


def test_an_operator_of_another_domain_is_not_the_one_of_that_name() -> None:
    """Its gradient is a step of its own, which reads everything, and takes or shows no bytes. spec: M2.4, M2.5"""
    for op in ("add0", "identity0", "relu0"):
        model = floating("matmul0: x w -> a", f"{op}: a -> y", parameters="w", nodes={op: {"domain": "com.x"}})
        joint = expand(model)
        assert lines(joint)[0] == f"{op}.grad: {op[:-1].capitalize()}Grad y.seed a y -> a.grad"
        assert joint.nodes[2].in_place == ()
        assert all(tensor.view is None for tensor in joint.tensors)


def test_bodies_mutations_groups_and_models_without_gradients_are_refused() -> None:
    """spec: M2.12"""
    loop = floating("if0: x -> y", "if0/then: => a", "  neg0: x -> a")
    assert refusal(loop).startswith("node 'if0': If has a body")
    changes = floating("update0: a x -> !a", "neg0: a -> y", inputs="x a", donated=("a",))
    assert refusal(changes).startswith("node 'update0': it changes a tensor")
    grouped = floating(
        "matmul0: x w -> a", "relu0: a -> b", "neg0: b -> y", parameters="w", like={"b": FLOAT | {"alias_group": "g"}}
    )
    assert refusal(grouped).startswith("tensor 'b': backward reads it")
    unread = replace(
        grouped, nodes=tuple(replace(node, op="Neg") if node.op == "Relu" else node for node in grouped.nodes)
    )
    assert len(expand(unread).nodes) == 6, "a group that backward does not read is let be"
    for without in (small("neg0: x -> y"), floating("shape0: x -> y")):
        assert "no output depends" in refusal(without)


def test_a_graph_without_its_backward_half_is_not_planned_as_one() -> None:
    """spec: M2.13"""
    with pytest.raises(TmmuError, match="only forward nodes") as raised:
        plan_memory(MLP, options=PlanOptions(mode="backward", layout="slots"))
    assert raised.value.code_id == "MODE_VIOLATION"
    empty = Model("empty", (), (), (Body(-1, "", (), ()),))
    assert (
        len(plan_memory(expand(empty), options=PlanOptions(mode="backward", layout="slots")).plan.allocation.steps) == 0
    )


def test_the_joint_graph_is_in_order_and_always_the_same() -> None:
    joint = expand(MLP)
    assert order.stable_topological(joint) is joint
    assert columns.digest(joint) == columns.digest(expand(MLP))


def test_a_name_that_the_joint_graph_needs_is_refused_where_it_is_taken() -> None:
    taken = replace(MLP, tensors=(*MLP.tensors, Tensor("v.grad", (4, 4), "float32", Role.PARAMETER, 64, 4)))
    with pytest.raises(TmmuError, match=r"tensor 'v\.grad': the name is used twice"):
        expand(taken)
