"""What every rank runs of a step that is out of the ordinary; the planner and the verifier say the same of it.

spec: R7.9 to R7.16, R7.30
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from proofs.readers.models.ir import read_ir
from proofs.sharding.stages import derive_rank_model
from tests.support.both_ranks import agreed, verifiers_refusal
from tests.support.sharded import model, rule, run, shape, showing, with_roles
from tmmu.core.dtypes import nbytes
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Body, Model, Phase, Role, Scratch, View
from tmmu.planner.sharding import Local
from tmmu.planner.sharding.spec import resolve
from tmmu.planner.training.expand import expand_to_joint

EVERY = tuple(Role)
OPTIMIZER, GRADIENT = Role.OPTIMIZER, Role.GRADIENT


def ranks(net: Model, *rules: dict[str, Any], **document: Any) -> Local:
    """What the ranks of a mesh of two by two run."""
    (local,) = agreed(net, resolve({"mesh": {"a": 2, "b": 2}, "rules": list(rules), **document}))
    return local


def named(local: Local, name: str) -> Any:
    return next(tensor for tensor in local.model.tensors if tensor.name == name)


# Loops.


def test_the_first_operand_decides_and_an_axis_divides_one_loop() -> None:
    """spec: R7.10"""
    net = model(["n Add: x w -> y"], dict.fromkeys("xwy", (4, 6)), "y")
    local = ranks(net, rule(["a"], "x"), rule(["b", "a"], "w"))
    assert run(local) == [
        "AllGather.0 w -> n.in1.AllGather.0.b", "AllGather.1 n.in1.AllGather.0.b -> n.in1.AllGather.1.a",
        "Shard.0 n.in1.AllGather.1.a -> n.in1.Shard.0.a", "Add x n.in1.Shard.0.a -> y",
    ]  # fmt: skip


def test_an_axis_of_a_dimension_that_is_needed_whole_may_divide_a_loop() -> None:
    net = model(["n Concat: x w -> y"], {"x": (4, 6), "w": (4, 2), "y": (4, 8)}, "y")
    assert run(ranks(net, rule(["", "a"], "x"), rule(["a"], "w"))) == [
        "AllGather.1 x -> n.in0.AllGather.1.a", "Shard.0 n.in0.AllGather.1.a -> n.in0.Shard.0.a",
        "Concat n.in0.Shard.0.a w -> y",
    ]  # fmt: skip


def test_a_loop_divides_only_where_all_of_its_dimensions_do() -> None:
    net = model(["n Reshape: x -> y"], {"x": (6, 4), "y": (8, 3)}, "y")
    wide = {"mesh": {"a": 3}}
    assert run(ranks(net, rule(["a"], "x"), **wide)) == [
        "AllGather.0 x -> n.in0.AllGather.0.a",
        "Reshape n.in0.AllGather.0.a -> y",
    ]
    assert run(ranks(net, rule(["a"], "x"))) == ["Reshape x -> y"]


def test_what_a_result_lacks_is_not_padded() -> None:
    """A mask of another shape needs the operand whole, and a sum would count the padding. spec: R7.11"""
    for n in (4, 5):
        mask = showing(model(["n Dropout: x -> y z"], {"x": (n, 6), "y": (n, 6), "z": (6,)}, "y"), "y", "x")
        assert run(ranks(mask, rule(["a"], "x"), pad=True))[0] == "AllGather.0 x -> n.in0.AllGather.0.a"
    biased = expand_to_joint(model(["n Add: x w -> y"], {"x": (5, 6), "w": (6,), "y": (5, 6)}, "y"))
    steps = run(ranks(biased, rule(["a"], "x"), pad=True))
    assert steps[0] == "Add x w -> y"
    assert "AllGather.0 y.seed -> n.grad.in0.AllGather.0.a" in steps
    even = expand_to_joint(model(["n Add: x w -> y"], {"x": (4, 6), "w": (6,), "y": (4, 6)}, "y"))
    assert "AllReduce n.grad.out0 -> w.grad" in run(ranks(even, rule(["a"], "x"), pad=True))


def test_sums_are_made_axis_by_axis_in_the_order_of_the_mesh() -> None:
    """spec: R7.16"""
    net = model(["n ReduceSum: x -> y"], {"x": (4, 6), "y": (1, 1)}, "y")
    assert run(ranks(net, rule(["b", "a"], "x"))) == [
        "ReduceSum x -> n.out0", "AllReduce n.out0 -> n.out0.AllReduce.a", "AllReduce n.out0.AllReduce.a -> y",
    ]  # fmt: skip


def test_a_sum_is_not_scattered_over_a_dimension_that_is_divided() -> None:
    net = model(["n MatMul: x w -> y"], {"x": (4, 6), "w": (6, 8), "y": (4, 8)}, "y")
    local = ranks(net, rule(["a", "b"], "x"), rule(["b"], "w"), rule(["b"], "y", roles=EVERY))
    assert [node.op for node in local.model.nodes] == ["MatMul", "AllReduce", "AllGather.0", "Shard.0"]


# Gradients.


def test_the_gradient_of_a_tensor_that_is_read_in_two_ways_needs_it_whole() -> None:
    """Of a square times itself it is not clear which of its dimensions a loop walks."""
    net = expand_to_joint(
        model(["n MatMul: w w -> v", "k MatMul: x v -> y"], dict.fromkeys(("w", "v", "x", "y"), (4, 4)), "y")
    )
    steps = run(ranks(net, rule(["a"], "w*", roles=EVERY), rule(["a"], "v*", roles=EVERY)))
    (step,) = [line for line in steps if line.startswith("MatMulGrad n.grad.in")]
    assert "AllGather.0 v.grad -> n.grad.in0.AllGather.0.a" in steps
    assert "w " not in step


def test_a_gradient_needs_whole_what_its_forward_step_does() -> None:
    net = model(
        ["n ReduceMax: w -> v", "k MatMul: v x -> y"], {"w": (4, 6), "v": (4, 2), "x": (2, 2), "y": (4, 2)}, "y"
    )
    steps = run(ranks(expand_to_joint(net), rule(["a", "b"], "w*", roles=EVERY)))
    assert any(line.startswith("AllGather.1 w -> n.grad.in") for line in steps)


def of_gradient(domain: str, name: str = "n.grad") -> Model:
    net = model(["n Relu: x -> y", f"{name} {domain}::ReluGrad: y.seed x -> x.grad"],
                {"x": (4, 6), "y": (4, 6), "y.seed": (4, 6), "x.grad": (4, 6)}, "y")  # fmt: skip
    net = with_roles(net, {"y.seed": Role.INPUT, "x.grad": GRADIENT})
    return replace(net, nodes=(net.nodes[0], replace(net.nodes[1], phase=Phase.BACKWARD)))


@pytest.mark.parametrize(
    ("domain", "name", "divided"),
    [
        ("tmmu.grad", "n.grad", True), ("tmmu.grad/com.example", "n.grad", True), ("tmmu.gradual", "n.grad", False),
        ("com.example", "n.grad", False), ("tmmu.grad", "n.gradient", False), ("tmmu.grad", "k.grad", False),
        ("tmmu.grad", ".grad", False), ("tmmu.grad", "n", False),
    ],
)  # fmt: skip
def test_a_gradient_step_is_known_by_its_domain_and_its_forward_nodes_name(
    domain: str, name: str, divided: bool
) -> None:
    net = of_gradient(domain, "g" if name == "n" else name)
    steps = run(ranks(net, rule(["a"], "x")))
    assert ("ReluGrad y.seed x -> x.grad" in steps) == divided


# Optimizer steps, and what the spec states.


def believed(net: Model, **document: Any) -> frozenset[str]:
    by = resolve({"mesh": {"a": 2}, **document})
    agreed(net, by)
    return derive_rank_model(read_ir(net), by, 0).assumed


def test_what_is_believed_of_operators_is_listed() -> None:
    """Of ai.onnx an optimizer step is an operation as others are. spec: R7.14"""
    net = model(["n Softmax: x -> y", "k Mix: x -> z", "u com.example::Sgd: w -> w", "v Neg: w -> t"],
                dict.fromkeys(("x", "y", "z", "w", "t"), (4, 6)), "y")  # fmt: skip
    nodes = [*net.nodes[:2], *(replace(node, phase=Phase.OPTIMIZER) for node in net.nodes[2:])]
    operators = [{"op": "Softmax", "across": [-1]}, {"op": "Mix", "across": []}, {"op": "Sgd", "across": [-1]}]
    update = "com.example::Sgd updates element by element"
    assert believed(replace(net, nodes=tuple(nodes))) == {update}
    assert believed(replace(net, nodes=tuple(nodes)), operators=operators) == {
        update, "Softmax combines elements along dimension -1 only (shard spec)",
        "Mix works element by element (shard spec)",
    }  # fmt: skip
    assert believed(model(["n Softmax: x -> y"], {"x": (4,), "y": (4,)}, "y"),
                    operators=[{"op": "Softmax", "across": [-1, -2]}]) == {
        "Softmax combines elements along dimensions -1, -2 only (shard spec)"
    }  # fmt: skip


def test_the_first_statement_on_an_operator_holds_and_only_for_ai_onnx() -> None:
    net = model(["n Mix: x -> y", "k com.example::Mix: x -> z"], dict.fromkeys("xyz", (4, 6)), "y z")
    said = [{"op": "Mix", "across": [-1]}, {"op": "Mix", "across": [-2]}]
    assert run(ranks(net, rule(["a"], "x"), operators=said)) == [
        "Mix x -> y", "AllGather.0 x -> k.in0.AllGather.0.a", "Mix k.in0.AllGather.0.a -> z",
    ]  # fmt: skip


def updating(line: str, **shapes: tuple[int, ...]) -> Model:
    net = model([line], shapes, "x")
    return replace(net, nodes=(replace(net.nodes[0], phase=Phase.OPTIMIZER),))


def test_an_update_takes_parameters_as_they_are_stored_and_others_gather_them() -> None:
    """spec: R7.13, R7.14"""
    net = updating("u com.example::Decay: w -> w", x=(4,), w=(4, 6))
    zero = {"zero": {"axis": "a", "stage": 3}}
    assert run(ranks(net, **zero)) == ["Decay w -> w"]
    reader = model(["n Neg: w -> y", "k Neg: m -> z"], {"w": (4, 6), "m": (4, 6), "y": (4, 6), "z": (4, 6)}, "y z")
    assert run(ranks(reader, **zero)) == [
        "AllGather.0 w -> n.in0.AllGather.0.a",
        "Neg n.in0.AllGather.0.a -> y",
        "Neg m -> z",
    ]


def test_of_ai_onnx_a_step_of_the_optimizer_is_an_operation_as_others_are() -> None:
    local = ranks(updating("u Transpose: w -> y", x=(4,), w=(4, 6), y=(6, 4)), rule(["a"], "w"))
    assert (run(local), shape(local, "y")) == (["Transpose w -> y"], (6, 2))


def test_an_update_that_changes_nothing_walks_what_has_its_first_results_shape() -> None:
    net = updating("u com.example::Fresh: w m -> y z", x=(4,), w=(4, 6), m=(6,), y=(4, 6), z=(6,))
    local = ranks(net, rule(["a"], "w"), rule(["a"], "m", roles=(OPTIMIZER,)))
    assert run(local) == ["AllGather.0 m -> u.in1.AllGather.0.a", "Fresh w u.in1.AllGather.0.a -> y z"]
    nothing = updating("u com.example::Look: w -> ", x=(4,), w=(4, 6))
    assert run(ranks(nothing, rule(["a"], "w"))) == [
        "AllGather.0 w -> u.in0.AllGather.0.a",
        "Look u.in0.AllGather.0.a -> ",
    ]


# Sharing.


def test_a_result_may_take_the_buffer_that_stands_in_its_operands_place() -> None:
    net = model(["n Add: x w -> y"], dict.fromkeys("xwy", (4, 6)), "y")
    net = replace(net, nodes=(replace(net.nodes[0], in_place=((2, 0), (2, 1))),))
    local = ranks(net, rule(["a"], "x"), rule(["b"], "y", roles=EVERY))
    rows = {tensor.name: t for t, tensor in enumerate(local.model.tensors)}
    add = next(node for node in local.model.nodes if node.op == "Add")
    assert set(add.in_place) == {(rows["n.out0"], rows["x"]), (rows["n.out0"], rows["n.in1.Shard.0.a"])}


def test_a_step_that_changes_a_tensor_takes_no_other_bytes_for_it() -> None:
    """Nor does it show another: its first writer decided both."""
    net = model(["n Identity: w -> y", "k com.example::Mix: w y -> y"], {"w": (4, 6), "y": (4, 6)}, "y")
    net = showing(net, "y", "w")
    net = replace(net, nodes=(replace(net.nodes[0], in_place=((1, 0),)), net.nodes[1]))
    local = ranks(
        replace(net, bindings=replace(net.bindings, donated=())), rule(["a"], "w"), rule([], "y", roles=EVERY)
    )
    assert named(local, "y").view is None
    view = named(local, "n.out0").view
    assert local.model.tensors[view.base].name == "w"


def test_a_step_keeps_its_scratch() -> None:
    net = model(["n Relu: x -> y"], {"x": (4, 6), "y": (4, 6)}, "y")
    net = replace(net, nodes=(replace(net.nodes[0], scratch=(Scratch(8, 4), Scratch(16, 1))),))
    assert ranks(net, rule(["a"], "x")).model.nodes[0].scratch == net.nodes[0].scratch


def test_a_view_of_all_of_a_tensor_is_one_of_its_part() -> None:
    net = showing(model(["n Reshape: x -> y"], {"x": (4, 6), "y": (24,)}, "y"), "y", "x")
    local = ranks(net, rule(["a"], "x"))
    assert (run(local), named(local, "y").view, shape(local, "y")) == (["Reshape x -> y"], View(0, 0, 48), (12,))


def test_a_view_of_a_part_that_is_another_is_refused() -> None:
    """The update's second result is whole, what it is said to show is not."""
    net = updating("u com.example::Look: w -> w y", x=(4,), w=(4, 6), y=(24,))
    assert run(ranks(showing(net, "y", "w"))) == ["Look w -> w y"]
    with pytest.raises(TmmuError, match="view of 'w'"):
        ranks(showing(net, "y", "w"), rule(["a"], "w"))


def window(offset: int, shape_: tuple[int, ...] = (2, 6), line: str = "n com.example::Look: x -> y") -> Model:
    return showing(model([line], {"x": (4, 6), "y": shape_, "w": (4, 6)}, "y"), "y", "x", offset)


@pytest.mark.parametrize("offset", [0, 48])
def test_a_window_stays_where_neither_it_nor_its_base_is_split(offset: int) -> None:
    local = ranks(window(offset), rule(["a"], "w"))
    assert named(local, "y").view == View(0, offset, 48)


LOOK = "u com.example::Look: w x -> w y"


@pytest.mark.parametrize(
    ("net", "rules"),
    [
        (window(0), [rule(["a"], "x")]), (window(48), [rule(["a"], "x")]),
        (window(48), [rule(["a"], "y", roles=EVERY)]), (window(0), [rule(["", "a"], "y", roles=EVERY)]),
        (window(0, (4, 3), "n Relu: x -> y"), [rule(["a"], "x")]),
        # Only the base, or only the result, stands in a buffer.
        (replace(window(4, (2,), LOOK), nodes=updating(LOOK, x=(4, 6), y=(2,), w=(4, 6)).nodes),
         [rule(["a"], "w")]),
        (window(4, (4, 5), "n Add: w x -> y"), [rule(["a"], "w"), rule([], "y", roles=EVERY)]),
    ],
)  # fmt: skip
def test_a_window_of_what_is_split_or_moved_is_refused(net: Model, rules: list[dict[str, Any]]) -> None:
    """spec: R7.30"""
    with pytest.raises(TmmuError, match="a window of 'x', which is split"):
        ranks(net, *rules)


# Names, and what is not sharded.


def test_names_of_the_model_are_not_taken_by_collectives() -> None:
    """A tensor or a node of the name that a buffer or a collective has to have: no rank can run that."""
    shapes = {"x": (4, 6), "w": (4, 6), "y": (4, 6), "z": (4, 6)}
    add = "n Add: x w -> y"
    gathered, moved = "n.in1.Shard.0.a", "n.out0"
    free = [[add, "k Neg: y -> z"], [add, "k Neg: y -> z"]]
    assert all(len(run(ranks(model(lines, shapes, "z"), rule(["a"], "x")))) == 3 for lines in free)
    for name in (gathered, moved):
        net = model([add, "k Neg: y -> z"], shapes, "z")
        net = replace(net, tensors=(*net.tensors[:3], replace(net.tensors[3], name=name)))
        _refused(net, rule(["a"], "x"), rule(["b"], "y", roles=EVERY))
    for lines in (["n.in1.Shard.0.a Neg: x -> z", add], [add, "n.in1.Shard.0.a Neg: y -> z"]):
        _refused(model(lines, shapes, "y"), rule(["a"], "x"))


def _refused(net: Model, *rules: dict[str, Any]) -> None:
    with pytest.raises(TmmuError, match="a collective needs this name"):
        ranks(net, *rules)


@pytest.mark.parametrize(
    ("line", "shown", "drawn"),
    [
        ("RandomUniform: -> y", "", True), ("Bernoulli: x -> y", "", True), ("com.example::MyRandom: x -> y", "", True),
        ("Dropout: x -> y", "", True), ("Dropout: x -> y", "y", False), ("Dropout: x -> y z", "y", False),
        ("Dropout: x -> z y", "y", True), ("Dropout: x -> ", "", True), ("Multinomial: x -> y", "y", True),
        ("tmmu.grad::DropoutGrad: x -> y", "", False), ("tmmu.grad/com.example::RandomGrad: x -> y", "", False),
        ("tmmu.gradual::RandomGrad: x -> y", "", True),
    ],
)  # fmt: skip
def test_what_draws_random_numbers_is_refused(line: str, shown: str, drawn: bool) -> None:
    """A dropout that shows its operand draws none. spec: R7.30"""
    net = model([f"n {line}"], dict.fromkeys(("x", *line.partition("->")[2].split()), (4, 6)), "x")
    net = showing(net, shown, "x") if shown else net
    if drawn:
        with pytest.raises(TmmuError, match="draws random numbers"):
            ranks(net)
        assert "draws random numbers" in str(verifiers_refusal(net, resolve({"mesh": {"a": 2}})))
    else:
        assert len(run(ranks(net))) == 1


def test_a_node_with_a_body_is_refused() -> None:
    """spec: R7.30"""
    net = model(["n com.example::Map: x -> y", "n/body/k Neg: x -> n/body/t"],
                dict.fromkeys(("x", "y", "n/body/t"), (4,)), "y")  # fmt: skip
    inner = replace(net.nodes[1], body=1)
    net = replace(net, nodes=(net.nodes[0], inner), bodies=(*net.bodies, Body(0, "body", (), (2,))))
    with pytest.raises(TmmuError, match="Map has a body, which cannot be sharded"):
        ranks(net)
    assert "a body is not sharded" in str(verifiers_refusal(net, resolve({"mesh": {"a": 2}})))


TIED = read_ir(model(["n MatMul: x w -> y", "k Neg: w2 -> z"],
                     {"x": (4, 6), "w": (6, 8), "w2": (6, 8), "y": (4, 8), "z": (6, 8)}, "y z"))  # fmt: skip


@pytest.mark.parametrize(
    ("view", "shape_", "split", "refused"),
    [
        (("w", 0), (6, 8), {"w": ["a"], "w2": ["a"]}, False), (("w", 0), (6, 8), {}, False),
        (("w", 4), (6, 7), {}, False), (("w", 0), (6, 8), {"w": ["a"]}, True), (("w", 0), (6, 8), {"w2": ["a"]}, True),
        (("w", 0), (6, 8), {"w": ["a"], "w2": ["", "a"]}, True),
        (("w", 0), (6, 7), {"w": ["a"], "w2": ["a"]}, True),
    ],
)  # fmt: skip
def test_what_the_caller_writes_as_a_view_lies_as_its_base(
    view: tuple[str, int], shape_: tuple[int, ...], split: dict[str, list[str]], refused: bool
) -> None:
    """Tied weights, or windows of one buffer: other compilers plan them. spec: R7.30"""
    by = resolve({"mesh": {"a": 2}, "rules": [rule(axes, name) for name, axes in split.items()]})
    shapes = {**TIED.shapes, "w2": shape_, "z": shape_}
    sizes = TIED.sizes | {"w2": (nbytes(shape_, "float32"), "float32")}
    tied = replace(TIED, views={"w2": view}, shapes=shapes, sizes=sizes)
    if refused:
        with pytest.raises(TmmuError, match="view of w, "):
            derive_rank_model(tied, by, 0)
    else:
        assert derive_rank_model(tied, by, 0).reference.views == {"w2": view}


def test_a_view_of_what_its_step_does_not_read_is_refused() -> None:
    """Readers give none, and what it would show of a part is not known."""
    with pytest.raises(TmmuError, match="view of w2, "):
        derive_rank_model(replace(TIED, views={"y": ("w2", 0)}), resolve({"mesh": {"a": 2}}), 0)
