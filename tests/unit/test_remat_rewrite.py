"""What may be computed again, what it costs, and the graph that does so: policies and scripts made by hand.

spec: M1.8, M1.9
"""

from __future__ import annotations

from dataclasses import replace

from tests.support.recompute_graphs import chain
from tests.support.text_models import text_model
from tests.support.trainable import MLP, floating, lines
from tmmu.core.vocabulary import Body, Model, Node, Phase, Role, Tensor, View
from tmmu.ir.validate import validate_model
from tmmu.planner import PlanOptions, plan_memory
from tmmu.planner.remat.rewrite import Policy, apply_script, build_joint, is_repeatable, rewrite
from tmmu.planner.training.expand import expand_to_joint


def test_a_value_is_computed_again_with_all_that_it_needs_and_held() -> None:
    """spec: M1.8, M1.9"""
    source = build_joint(expand_to_joint(MLP))
    again = rewrite(source, Policy(frozenset())).model
    validate_model(again)
    assert lines(again)[1:5] == [
        "node matmul0.recompute0 MatMul x w -> a.recompute0",
        "node relu0.recompute0 Relu a.recompute0 -> b.recompute0",
        "node matmul1.grad MatMulGrad c.grad b.recompute0 v -> b.grad v.grad",
        "node relu0.grad ReluGrad b.grad b.recompute0 -> a.grad.part0",
    ]
    assert {tensor.name for tensor in again.tensors if tensor.saved_for_backward} == {"x"}
    kept = rewrite(source, Policy(frozenset({source.model.nodes[0].writes[0]}))).model
    assert "node relu0.recompute0 Relu a -> b.recompute0" in lines(kept)
    assert {tensor.name for tensor in kept.tensors if tensor.saved_for_backward} == {"x", "a"}


def test_what_is_not_held_is_computed_again_each_time_under_another_name_and_costs_each_time() -> None:
    model = floating("node sin0 Sin x -> a", "node sin1 Sin a -> b", "node sin2 Sin b -> y")
    source = build_joint(expand_to_joint(model))
    made = rewrite(source, Policy(frozenset(), frozenset()))
    assert lines(made.model) == [
        "node sin0.recompute0 Sin x -> a.recompute0",
        "node sin1.recompute0 Sin a.recompute0 -> b.recompute0",
        "node sin2.grad SinGrad y.seed b.recompute0 -> b.grad",
        "node sin0.recompute1 Sin x -> a.recompute1",
        "node sin1.grad SinGrad b.grad a.recompute1 -> a.grad",
        "node sin0.grad SinGrad a.grad x -> x.grad",
    ]
    assert made.cost == 3 * 16


def test_what_is_held_is_not_made_again_for_what_is_made_of_it() -> None:
    model = floating(
        "node sin0 Sin x -> a", "node sin1 Sin a -> b", "node sin2 Sin b -> c", "node tanh0 Tanh a -> d",
        "node sin3 Sin d -> e", "node add0 Add c e -> y",
    )  # fmt: skip
    again = lines(rewrite(build_joint(expand_to_joint(model)), Policy(frozenset())).model)
    assert [line for line in again if ".recompute" in line.split()[1]] == [
        "node sin0.recompute0 Sin x -> a.recompute0",
        "node tanh0.recompute0 Tanh a.recompute0 -> d.recompute0",
        "node sin1.recompute0 Sin a.recompute0 -> b.recompute0",
    ]


def own_backward(*extra: Node, outputs: tuple[int, ...] = (5,), **fields: object) -> Model:
    """x → a → b, and a backward half of its own that views `a` and reads `b`."""
    rows = [
        Tensor(name, (8,), "float32", Role.INPUT if name == "x" else Role.ACTIVATION, 32, 4)
        for name in ("x", "a", "b", "c", "va", "g", "s")
    ]
    rows[4] = replace(rows[4], view=View(1, 0, 32))
    back = Phase.BACKWARD
    nodes = (
        Node("sin", "Sin", (0,), (1,)),
        Node("cos", "Cos", (1,), (2,)),
        Node("exp", "Exp", (2,), (3,)),
        Node("show", "Reshape", (1,), (4,), phase=back),
        Node("end", "MatMul", (4, 2, 3), (5,), phase=back),
        Node("after", "Neg", (5,), (6,), phase=Phase.OPTIMIZER),
        *extra,
    )
    model = Model("own", tuple(rows), nodes, (Body(-1, "", (0,), outputs),))
    return replace(model, **fields)  # type: ignore[arg-type]


def free_names(model: Model) -> set[str]:
    source = build_joint(model)
    return {tensor.name for t, tensor in enumerate(model.tensors) if source.free[t]}


def test_a_view_that_backward_makes_shows_what_was_computed_again() -> None:
    source = build_joint(own_backward())
    again = rewrite(source, Policy(frozenset())).model
    validate_model(again)
    rows = {tensor.name: t for t, tensor in enumerate(again.tensors)}
    view = again.tensors[rows["va"]].view
    assert view is not None
    assert view.base == rows["a.recompute0"]
    plan_memory(again, options=PlanOptions(mode="backward", layout="slots"))


def test_what_is_fixed_is_not_computed_again() -> None:
    assert free_names(own_backward()) == {"a", "b", "c"}
    assert free_names(own_backward(outputs=(5, 1))) == {"b", "c"}, "an output is kept"
    assert free_names(own_backward(must_not_alias=((1, 2),))) == {"c"}
    reads = Node("late", "Neg", (1,), (), phase=Phase.OPTIMIZER)
    assert free_names(own_backward(reads)) == {"b", "c"}, "the optimizer may have changed what it is made of"
    grouped = own_backward()
    tensors = (replace(t, alias_group="g") if t.name == "b" else t for t in grouped.tensors)
    assert free_names(replace(grouped, tensors=tuple(tensors))) == {"a", "c"}


def test_values_made_of_what_changes_before_backward_ends_are_kept() -> None:
    changes = Node("change", "Update", (0,), (0,), mutates=(0,), phase=Phase.BACKWARD)
    model = own_backward()
    assert free_names(replace(model, nodes=(*model.nodes[:4], changes, *model.nodes[4:]))) == {"b", "c"}
    after = replace(changes, phase=Phase.OPTIMIZER)
    for place in (5, 6):  # directly after the backward half, and later
        nodes = (*model.nodes[:place], after, *model.nodes[place:])
        assert free_names(replace(model, nodes=nodes)) == {"a", "b", "c"}


def test_a_node_that_changes_what_it_reads_is_not_run_again() -> None:
    """Its other result is kept."""
    model = own_backward()
    count = Node("count", "Count", (0,), (0, 6), mutates=(0,))
    read = replace(model.nodes[4], reads=(4, 2, 3, 6))
    nodes = (count, *model.nodes[:4], read)
    assert free_names(replace(model, nodes=nodes)) == {"b", "c"}


def test_without_a_backward_half_nothing_that_is_read_is_computed_again() -> None:
    model = own_backward()
    optimizer = replace(model.nodes[5], reads=(1,))
    assert free_names(replace(model, nodes=(model.nodes[0], optimizer))) == set()
    changes = Node("change", "Update", (0,), (0,), mutates=(0,), phase=Phase.OPTIMIZER)
    assert free_names(replace(model, nodes=(model.nodes[0], changes, model.nodes[5]))) == {"a"}, "nobody reads it"


def test_a_forward_node_that_comes_last_changes_nothing() -> None:
    last = Node("last", "Constant", (), (6,))
    model = own_backward()
    assert free_names(replace(model, nodes=(*model.nodes[:5], last))) == {"a", "b", "c", "s"}


def test_bodies_are_not_run_again_nor_what_they_read() -> None:
    model = text_model(
        "node cos Cos x -> a", "node tanh Tanh x -> b", "begin if If x -> c", "arm then_branch -> d",
        "  node sin Sin a -> d", "  node exp Exp a -> unread", "end if", "node matmul MatMul a b c -> y backward",
    )  # fmt: skip
    source = build_joint(model)
    assert free_names(model) - {"unread"} == {"b"}
    assert [model.nodes[n].name for n in source.order] == ["tanh"]


def test_nodes_are_run_again_for_the_results_that_may_be() -> None:
    """One whose only result is kept is not among them; one of whose results one is kept is."""
    kept = own_backward(outputs=(5, 1))
    assert [kept.nodes[n].name for n in build_joint(kept).order] == ["cos", "exp"]
    model = text_model("node split Split x -> a b", "node matmul MatMul a b -> y backward", outputs="y a")
    assert (free_names(model), build_joint(model).order) == ({"b"}, [0])


def test_random_numbers_are_not_drawn_again() -> None:
    for op, domain in (("RandomNormal", ""), ("Dropout", ""), ("native_dropout", "aten"), ("rand_like", "aten")):
        assert not is_repeatable(own_backward(), Node("n", op, (0,), (1,), domain))
    assert is_repeatable(own_backward(), Node("n", "Dropout", (1,), (4,))), "a view of its operand"
    assert not is_repeatable(own_backward(), Node("n", "Dropout", (1,), (4,), "aten")), "not ONNX's"
    drawn = floating(
        "node matmul0 MatMul x w -> a", "node randomnormallike0 Randomnormallike a -> b", "node tanh0 Tanh b -> c",
        "node matmul1 MatMul c w -> y", parameters="w",
    )  # fmt: skip
    assert free_names(expand_to_joint(drawn)) == {"a", "c"}
    assert is_repeatable(own_backward(), Node("n", "mm", (0,), (1,), "aten"))


def test_costs_are_those_of_products_and_else_of_elements() -> None:
    """Also of steps with fewer operands than they should have, or with scalars: a model may say anything."""
    shapes = {
        "x": (4, 8), "w": (8, 16), "y": (4, 16), "k": (6, 3, 5, 5), "i": (1, 3, 9, 9), "o": (1, 6, 5, 5), "v": (4, 16),
        "scalar": (), "row": (1, 16), "one": (1, 3, 5, 5), "p": (1, 1, 5, 5),
    }  # fmt: skip
    rows = [Tensor(name, shape, "float32", Role.INPUT, 0) for name, shape in shapes.items()]
    rows[6] = replace(rows[6], view=View(2, 0, 0))
    cases = {
        Node("a", "MatMul", (0, 1), (2,)): 2 * 4 * 16 * 8,
        Node("b", "addmm", (2, 0, 1), (2,), "aten"): 2 * 4 * 16 * 8,
        Node("c", "Gemm", (0, 1), (2,)): 2 * 4 * 16 * 8,
        Node("d", "Conv", (4, 3), (5,)): 2 * 150 * 75,
        **{Node(op, op, (0, 1), (2,), "aten"): 2 * 4 * 16 * 8 for op in ("mm", "bmm", "matmul")},
        Node("dot", "dot_general", (0, 1), (2,), "jax.lax"): 2 * 4 * 16 * 8,
        Node("baddbmm", "baddbmm", (2, 0, 1), (2,), "aten"): 2 * 4 * 16 * 8,
        Node("convolution", "convolution", (4, 3), (5,), "aten"): 2 * 150 * 75,
        Node("mm1", "mm", (0, 1), (2,), "com.example"): 64,
        Node("e", "Tanh", (2,), (2,)): 64,
        Node("f", "Reshape", (2,), (6,)): 0,
        Node("g", "Free", (2,), ()): 0,
        Node("h", "Split", (2,), (6, 2)): 64 + 64,
        Node("i", "addmm", (0,), (2,), "aten"): 64,
        Node("j", "MatMul", (7, 1), (2,)): 64,
        Node("k", "Gemm", (0, 1), (7,)): 1,
        Node("l", "Gemm", (0, 1), (8,)): 2 * 16 * 32,
        Node("m", "Add", (0, 1), (2,)): 64,
        Node("n", "Conv", (4,), (5,)): 150,
        Node("o", "Conv", (4, 7), (5,)): 150,
        Node("p", "Conv", (4, 9), (10,)): 2 * 25 * 75,
    }
    model = Model("costs", tuple(rows), tuple(cases), (Body(-1, "", (), ()),))
    assert build_joint(model).cost == list(cases.values())


def test_a_script_makes_views_anew_of_what_is_computed_again() -> None:
    model = floating(
        "node matmul0 MatMul x w -> a", "node tanh0 Tanh a -> b", "node reshape0 Reshape b -> c",
        "node reshape1 Reshape c -> d", "node matmul1 MatMul d v -> e", "node sin0 Sin e -> y",
        "tensor c f32 16 view b 0", "tensor d f32 4x4 view c 0", parameters="w v",
    )  # fmt: skip
    source = build_joint(expand_to_joint(model))
    position = next(n for n, node in enumerate(source.model.nodes) if node.name == "matmul1.grad")
    again = apply_script(source, {position: [0, 1]}).model
    validate_model(again)
    assert lines(again)[1:6] == [
        "node matmul0.recompute0 MatMul x w -> a.recompute0",
        "node tanh0.recompute0 Tanh a.recompute0 -> b.recompute0",
        "node reshape0.recompute0 Reshape b.recompute0 -> c.recompute0",
        "node reshape1.recompute0 Reshape c.recompute0 -> d.recompute0",
        "node matmul1.grad MatMulGrad e.grad d.recompute0 v -> d.grad v.grad",
    ]


def test_a_script_makes_views_anew_for_what_is_run_again_too() -> None:
    model = floating(
        "node sin0 Sin x -> b", "node reshape0 Reshape b -> c", "node sin1 Sin c -> d", "node sin2 Sin d -> y",
        "tensor c f32 16 view b 0",
    )  # fmt: skip
    source = build_joint(expand_to_joint(model))
    position = next(n for n, node in enumerate(source.model.nodes) if node.name == "sin2.grad")
    again = apply_script(source, {position: [0, 2]}).model
    validate_model(again)
    assert lines(again)[:5] == [
        "node sin0.recompute0 Sin x -> b.recompute0",
        "node reshape0.recompute0 Reshape b.recompute0 -> c.recompute0",
        "node sin1.recompute0 Sin c.recompute0 -> d.recompute0",
        "node sin2.grad SinGrad y.seed d.recompute0 -> d.grad",
        "node sin1.grad SinGrad d.grad c.recompute0 -> c.grad",
    ]


def test_a_long_schedule_is_none_without_end() -> None:
    source = build_joint(expand_to_joint(chain([64] * 600)))
    made = rewrite(source, Policy(frozenset()))
    assert made.complete
    assert len(made.nodes) > len(source.model.nodes) + 590


def test_a_schedule_that_repeats_without_end_is_given_up() -> None:
    source = build_joint(expand_to_joint(chain([64] * 200)))
    assert rewrite(source, Policy(frozenset())).complete
    endless = rewrite(source, Policy(frozenset(), frozenset()))
    assert not endless.complete
    assert len(endless.nodes) < 5 * len(source.model.nodes) + 1000
