"""The joint graph of small models, line by line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.text_models import text_model
from tests.support.trainable import MLP, OPTIMIZER, floating, lines, names
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Body, Model, Node, Role, Tensor
from tmmu.ir import columns, order
from tmmu.operators import OPERATORS
from tmmu.planner import PlanOptions, plan_memory
from tmmu.planner.training import gradients
from tmmu.planner.training.expand import expand_to_joint, list_gradients


def refusal(model: Model) -> str:
    with pytest.raises(TmmuError) as raised:
        expand_to_joint(model)
    assert raised.value.code_id == "MODE_VIOLATION"
    return str(raised.value)


def test_a_small_network_has_these_gradient_steps() -> None:
    """spec: M2.1, M2.3, M2.4, M2.5, M2.6, M2.8"""
    joint = expand_to_joint(MLP)
    assert lines(joint) == [
        "node add0.grad AddGrad y.seed -> c.grad a.grad.part1",
        "node matmul1.grad MatMulGrad c.grad b v -> b.grad v.grad",
        "node relu0.grad ReluGrad b.grad b -> a.grad.part0",
        "node a.grad.add1 Add a.grad.part0 a.grad.part1 -> a.grad",
        "node matmul0.grad MatMulGrad a.grad x -> w.grad",
    ]
    assert [node.name for node in joint.nodes[:4]] == [node.name for node in MLP.nodes]
    assert {node.domain for node in joint.nodes if node.op.endswith("Grad")} == {"tmmu.grad"}


def test_the_seed_is_an_input_and_the_gradients_of_parameters_are_outputs() -> None:
    """spec: M2.9, M2.10, M2.14"""
    joint = expand_to_joint(MLP)
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
    joint = expand_to_joint(MLP)
    assert {tensor.name for tensor in joint.tensors if tensor.saved_for_backward} == {"x", "b"}


def test_a_saved_tensor_dies_at_its_last_backward_reader() -> None:
    joint = expand_to_joint(MLP)
    plan = plan_memory(joint, options=PlanOptions(mode="backward", layout="slots")).plan
    steps = plan.allocation.steps.node.list()
    death = dict(zip(plan.allocation.tensors.name, plan.allocation.tensors.death.tolist(), strict=True))
    assert death["b"] == steps.index("relu0.grad")
    assert death["x"] == steps.index("matmul0.grad")
    assert death["c"] == steps.index("add0")


def test_contributions_are_added_in_the_order_of_consumers_and_operands_with_the_seed_last() -> None:
    """spec: M2.8, M2.9"""
    model = floating(
        "node matmul0 MatMul x w -> a", "node mul0 Mul a a -> b", "node sin0 Sin a -> c", "node add0 Add b c -> y",
        parameters="w", outputs="y a",
    )  # fmt: skip
    joint = expand_to_joint(model)
    adds = [line for line in lines(joint) if " Add " in line]
    assert adds == [
        "node a.grad.add1 Add a.grad.part0 a.grad.part1 -> a.grad.sum1",
        "node a.grad.add2 Add a.grad.sum1 a.grad.part2 -> a.grad.sum2",
        "node a.grad.add3 Add a.grad.sum2 a.seed -> a.grad",
    ]
    assert "node mul0.grad MulGrad b.grad a -> a.grad.part0 a.grad.part1" in lines(joint)
    assert "node sin0.grad SinGrad c.grad a -> a.grad.part2" in lines(joint)


def test_the_gradient_of_a_view_is_a_view_back() -> None:
    """spec: M2.4"""
    model = floating(
        "node matmul0 MatMul x w -> a", "node reshape0 Reshape a -> t", "node tanh0 Tanh t -> u",
        "node identity0 Identity u -> y", "tensor t f32 16 view a 0", "tensor u f32 16", "tensor y f32 16",
        parameters="w",
    )  # fmt: skip
    joint = expand_to_joint(model)
    assert lines(joint)[:3] == [
        "node identity0.grad Reshape y.seed -> u.grad",
        "node tanh0.grad TanhGrad u.grad u -> t.grad",
        "node reshape0.grad Reshape t.grad -> a.grad",
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
    shown = floating(
        "node matmul0 MatMul x w -> a", "node dropout0 Dropout a -> y", "tensor y f32 4x4 view a 0", parameters="w"
    )
    assert lines(expand_to_joint(shown))[0] == "node dropout0.grad Reshape y.seed -> a.grad"
    drawn = floating(
        "node matmul0 MatMul x w -> a", "node dropout0 Dropout a -> y m", "tensor m bool 4x4", parameters="w"
    )
    assert lines(expand_to_joint(drawn))[0] == "node dropout0.grad DropoutGrad y.seed m -> a.grad"
    other = floating(
        "node matmul0 MatMul x w -> a", "node dropout0 Dropout a r -> y m", "tensor y f32 4x4 view r 0",
        "tensor m bool 4x4", inputs="x r", parameters="w",
    )  # fmt: skip
    assert lines(expand_to_joint(other))[0] == "node dropout0.grad DropoutGrad y.seed r m -> a.grad"


@pytest.mark.parametrize("result", ["f32 2x2", "f64 4x4"])
def test_a_result_of_other_elements_has_no_view_back(result: str) -> None:
    """spec: M2.4"""
    model = floating(
        "node matmul0 MatMul x w -> a", "node reshape0 Reshape a -> y", f"tensor y {result}", parameters="w"
    )
    assert lines(expand_to_joint(model))[0] == "node reshape0.grad ReshapeGrad y.seed -> a.grad"


def test_the_seed_of_an_output_with_one_reader_is_added_to_what_that_gives() -> None:
    """spec: M2.8, M2.9"""
    assert lines(
        expand_to_joint(
            floating("node matmul0 MatMul x w -> a", "node relu0 Relu a -> y", parameters="w", outputs="y a")
        )
    )[:2] == [
        "node relu0.grad ReluGrad y.seed y -> a.grad.part0",
        "node a.grad.add1 Add a.grad.part0 a.seed -> a.grad",
    ]


def test_an_elementwise_gradient_takes_bytes_of_its_own_shape_and_width_alone() -> None:
    plain, row, wide = "tensor b f32 4x4", "tensor b f32 4", "tensor a f64 4x4"
    for step, tensor, taken in (
        ("Mul a b", plain, True), ("Mul a b", row, True), ("Mul b a", row, False), ("Mul a b", wide, False),
        ("MatMul a b", plain, False),
    ):  # fmt: skip
        joint = expand_to_joint(
            floating("node matmul0 MatMul x w -> a", f"node last {step} -> y", tensor, parameters="w b")
        )
        made = joint.nodes[2]
        assert made.in_place == (((made.writes[0], made.reads[0]),) if taken else ())


def test_a_broadcast_summand_does_not_show_the_gradient_of_the_sum() -> None:
    joint = expand_to_joint(
        floating("node matmul0 MatMul x w -> a", "node add0 Add a b -> y", "tensor b f32 4", parameters="w b")
    )
    views = {tensor.name: tensor.view is not None for tensor in joint.tensors}
    assert views["a.grad"]
    assert not views["b.grad"]


def test_only_what_depends_on_a_parameter_has_a_gradient() -> None:
    """spec: M2.3, M2.6, M2.11"""
    model = floating(
        "node tanh0 Tanh x -> p", "node mul0 Mul p k -> q", "node matmul0 MatMul q w -> a",
        "node gather0 Gather a i -> g", "node floor0 Floor a -> f", "node add0 Add g f -> y", "tensor k f32 scalar",
        "tensor i i64 4x4", parameters="w k i",
    )  # fmt: skip
    assert lines(expand_to_joint(model)) == [
        "node add0.grad AddGrad y.seed -> g.grad",
        "node gather0.grad GatherGrad g.grad i -> a.grad",
        "node matmul0.grad MatMulGrad a.grad q -> w.grad",
    ]


def test_what_leads_to_no_output_has_no_gradient() -> None:
    """spec: M2.3"""
    model = floating(
        "node matmul0 MatMul x w -> a", "node sin0 Sin a -> b", "node matmul1 MatMul b v -> c",
        "node relu0 Relu a -> y", parameters="w v",
    )  # fmt: skip
    joint = expand_to_joint(model)
    assert lines(joint) == [
        "node relu0.grad ReluGrad y.seed y -> a.grad",
        "node matmul0.grad MatMulGrad a.grad x -> w.grad",
    ]
    assert names(joint, joint.outputs) == ["y", "w.grad"]


def test_an_operand_at_a_place_that_has_no_gradient_gets_none() -> None:
    """`l` depends on a parameter, and is a bound. spec: M2.6"""
    model = floating(
        "node matmul0 MatMul x w -> a", "node matmul1 MatMul x v -> l", "node clip0 Clip a l -> y", parameters="w v"
    )
    assert lines(expand_to_joint(model)) == [
        "node clip0.grad ClipGrad y.seed a l -> a.grad",
        "node matmul0.grad MatMulGrad a.grad x -> w.grad",
    ]


def test_a_parameter_of_integers_has_no_gradient() -> None:
    """spec: M2.11"""
    joint = expand_to_joint(floating("node mul0 Mul w i -> y", "tensor i i64 4x4", inputs="", parameters="w i"))
    assert lines(joint) == ["node mul0.grad MulGrad y.seed i -> w.grad"]


def test_without_parameters_the_inputs_have_gradients() -> None:
    """spec: M2.11"""
    joint = expand_to_joint(floating("node relu0 Relu x -> a", "node neg0 Neg a -> y"))
    assert lines(joint) == [
        "node neg0.grad NegGrad y.seed -> a.grad",
        "node relu0.grad ReluGrad a.grad a -> x.grad",
    ]
    assert names(joint, joint.outputs) == ["y", "x.grad"]


@pytest.mark.parametrize(("word", "marks"), [("parameter", {"inputs": "", "parameters": "w unread i"}),
                                             ("input", {"inputs": "w unread i"})])  # fmt: skip
def test_it_is_said_what_has_a_gradient_and_what_has_none(word: str, marks: dict[str, str]) -> None:
    """A tensor of integers and one that no output depends on have none. spec: M2.11"""
    model = floating("node mul0 Mul w i -> y", "node mul1 Mul unread i -> a", "tensor i i64 4x4", **marks)
    found = list_gradients(model, expand_to_joint(model))
    assert (found.word, sorted(found.of), set(found.having)) == (word, ["i", "unread", "w"], {"w"})


def test_an_unknown_operator_reads_everything() -> None:
    """spec: M2.5"""
    model = floating("node matmul0 MatMul x w -> a", "node fused0 com.x::Fused a x -> y z", parameters="w")
    joint = expand_to_joint(model)
    assert lines(joint)[0] == "node fused0.grad FusedGrad y.seed a x y z -> a.grad"
    assert joint.nodes[2].domain == "tmmu.grad/com.x"
    assert joint.nodes[2].in_place == ()


def test_every_rule_reads_positions_that_an_operator_can_have() -> None:
    for op in [op for (domain, op), row in OPERATORS.items() if row.gradient is not None and not domain]:
        node = Node("n", op, tuple(range(8)), (10, 11, 12))
        for position in range(8):
            reads = gradients.gradient_reads(node, position)
            assert (reads is None) == (gradients.gradient_rule(node).reads(position) is None)
            assert reads is None or set(reads) <= {*range(8), 10, 11, 12}


def test_a_model_with_a_backward_half_is_used_as_it_is() -> None:
    """spec: M2.2"""
    model = floating("node matmul0 MatMul x w -> a", "node back0 Back a -> y backward", parameters="w")
    assert expand_to_joint(model) is model


def test_a_gradient_that_an_optimizer_reads_is_no_output() -> None:
    """spec: M2.10, M2.1"""
    joint = expand_to_joint(OPTIMIZER)
    assert names(joint, joint.outputs) == ["y"]
    assert names(joint, joint.inputs) == ["x", "y.seed"]
    assert [node.name for node in joint.nodes] == ["matmul0", "matmul0.grad", "sgd0"]
    assert joint.nodes[1].writes == joint.nodes[2].reads[1:]


def test_an_input_that_only_looks_like_a_gradient_stays_one() -> None:
    model = floating(
        "node matmul0 MatMul x w -> y", "node sgd0 Sgd w w.grad -> w changes w optimizer", "tensor w.grad f32 2",
        "tensor w f32 4x4 donated", inputs="x w.grad", parameters="w",
    )  # fmt: skip
    with pytest.raises(TmmuError, match=r"tensor 'w\.grad': the name is used twice"):
        expand_to_joint(model)


def test_a_gradient_that_the_graph_does_not_make_is_still_given() -> None:
    """The optimizer reads one of a parameter that no output depends on. spec: M2.10"""
    model = floating(
        "node matmul0 MatMul x w -> y", "node sgd0 Sgd w w.grad -> w changes w optimizer",
        "node sgd1 Sgd v v.grad -> v changes v optimizer", "tensor w f32 4x4 donated", "tensor v f32 4x4 donated",
        inputs="x w.grad v.grad", parameters="w v",
    )  # fmt: skip
    joint = expand_to_joint(model)
    assert names(joint, joint.inputs) == ["x", "v.grad", "y.seed"]
    assert {tensor.name: tensor.role for tensor in joint.tensors}["v.grad"] is Role.INPUT


@pytest.mark.parametrize(
    ("steps", "inputs"),
    [
        (
            (
                "node matmul0 MatMul x w -> y",
                "node neg0 Neg x -> w.grad",
                "node sgd0 Sgd w w.grad -> w changes w optimizer",
            ),
            "x",
        ),
        (("node matmul0 MatMul x w -> y",), "x w.grad"),
    ],
)
def test_the_name_of_a_gradient_that_a_node_makes_or_no_optimizer_reads_is_taken(
    steps: tuple[str, ...], inputs: str
) -> None:
    model = floating(*steps, "tensor w f32 4x4 donated", inputs=inputs, parameters="w")
    with pytest.raises(TmmuError, match=r"tensor 'w\.grad': the name is used twice"):
        expand_to_joint(model)


def test_a_gradient_that_an_optimizer_reads_may_show_another() -> None:
    """spec: M2.4, M2.10"""
    model = floating(
        "node add0 Add x w -> y", "node sgd0 Sgd w w.grad -> w changes w optimizer", "tensor w f32 4x4 donated",
        inputs="x w.grad", parameters="w",
    )  # fmt: skip
    joint = expand_to_joint(model)
    shown = {tensor.name: tensor.view for tensor in joint.tensors}["w.grad"]
    assert shown is not None
    assert joint.tensors[shown.base].name == "y.seed"


def test_an_operator_of_another_domain_is_not_the_one_of_that_name() -> None:
    """Its gradient is a step of its own, which reads everything, and takes or shows no bytes. spec: M2.4, M2.5"""
    for op in ("Add", "Identity", "Relu"):
        joint = expand_to_joint(
            floating("node matmul0 MatMul x w -> a", f"node last com.x::{op} a -> y", parameters="w")
        )
        assert lines(joint)[0] == f"node last.grad {op}Grad y.seed a y -> a.grad"
        assert joint.nodes[2].in_place == ()
        assert all(tensor.view is None for tensor in joint.tensors)
    dropout = expand_to_joint(
        floating("node matmul0 MatMul x w -> a", "node last com.x::Dropout a -> y", parameters="w")
    )
    assert lines(dropout)[0] == "node last.grad DropoutGrad y.seed a y -> a.grad", "though it has no mask"


def test_bodies_mutations_groups_and_models_without_gradients_are_refused() -> None:
    """spec: M2.12"""
    loop = floating("begin if0 If x -> y", "arm then -> a", "  node neg0 Neg x -> a", "end if0")
    assert refusal(loop).startswith("node 'if0': If has a body")
    changes = floating(
        "node update0 Update a x -> a changes a", "node neg0 Neg a -> y", "tensor a f32 4x4 donated", inputs="x a"
    )
    assert refusal(changes).startswith("node 'update0': it mutates a tensor")
    grouped = floating(
        "node matmul0 MatMul x w -> a", "node relu0 Relu a -> b", "node neg0 Neg b -> y", "tensor b f32 4x4",
        "alias g b y", parameters="w",
    )  # fmt: skip
    assert refusal(grouped).startswith("tensor 'b': backward reads it")
    unread = replace(
        grouped, nodes=tuple(replace(node, op="Neg") if node.op == "Relu" else node for node in grouped.nodes)
    )
    assert len(expand_to_joint(unread).nodes) == 6, "a group that backward does not read is let be"
    for without in (text_model("node neg0 Neg x -> y"), floating("node shape0 Shape x -> y")):
        assert "no output depends" in refusal(without)


def test_a_graph_without_its_backward_half_is_not_planned_as_one() -> None:
    """spec: M2.13"""
    with pytest.raises(TmmuError, match="only forward nodes") as raised:
        plan_memory(MLP, options=PlanOptions(mode="backward", layout="slots"))
    assert raised.value.code_id == "MODE_VIOLATION"
    empty = Model("empty", (), (), (Body(-1, "", (), ()),))
    assert (
        len(
            plan_memory(
                expand_to_joint(empty), options=PlanOptions(mode="backward", layout="slots")
            ).plan.allocation.steps
        )
        == 0
    )


def test_the_joint_graph_is_in_order_and_always_the_same() -> None:
    joint = expand_to_joint(MLP)
    assert order.sort_topologically(joint) is joint
    assert columns.model_digest(joint) == columns.model_digest(expand_to_joint(MLP))


def test_a_name_that_the_joint_graph_needs_is_refused_where_it_is_taken() -> None:
    taken = replace(MLP, tensors=(*MLP.tensors, Tensor("v.grad", (4, 4), "float32", Role.PARAMETER, 64, 4)))
    with pytest.raises(TmmuError, match=r"tensor 'v\.grad': the name is used twice"):
        expand_to_joint(taken)
