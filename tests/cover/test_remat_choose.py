"""What is computed again: rewriting by hand-made policies, the choice against an exact oracle, and its limits."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.cover.test_training_expand import MLP, floating, lines
from tests.strategies.recompute_oracle import cheapest
from tmmu.errors import TmmuError
from tmmu.ir.validate import validate
from tmmu.planner import DEFAULT, plan_memory
from tmmu.planner.remat import check_budget, rematerialise, schedules
from tmmu.planner.remat.choose import peak
from tmmu.planner.remat.rewrite import Policy, follow, is_repeatable, joint_of, rewrite
from tmmu.planner.remat.strategies import Classes, chen, segment_counts
from tmmu.planner.training.expand import expand
from tmmu.vocabulary import Body, Model, Node, Phase, Role, Tensor, View


def chain(widths: Sequence[int]) -> Model:
    """A chain of operators that nobody knows, so that each gradient step reads the operand and the result."""
    rows = [Tensor(f"v{i}", (w,), "float32", Role.ACTIVATION, 4 * w, 4) for i, w in enumerate(widths)]
    rows[0] = replace(rows[0], name="x", role=Role.INPUT)
    nodes = tuple(Node(f"n{i}", "Stage", (i,), (i + 1,), "test") for i in range(len(widths) - 1))
    return Model("chain", tuple(rows), nodes, (Body(-1, "", (0,), (len(rows) - 1,)),))


def repeated(joint: Model, again: Model) -> int:
    """The operations that a graph repeats, by the costs of the graph it was made from."""
    cost = dict(zip((node.name for node in joint.nodes), joint_of(joint).cost, strict=True))
    return sum(cost[node.name.partition(".recompute")[0]] for node in again.nodes if ".recompute" in node.name)


def least(joint: Model) -> int:
    with pytest.raises(TmmuError) as raised:
        rematerialise(joint, DEFAULT, 1)
    assert raised.value.code_id == "ARENA_TOO_SMALL"
    return int(raised.value.diagnostics["required"])


def test_a_graph_that_fits_is_not_changed() -> None:
    """spec: M1.11"""
    joint = expand(MLP)
    assert rematerialise(joint, DEFAULT, peak(joint, DEFAULT)) is joint


@pytest.mark.parametrize("seed", range(12))
def test_on_small_chains_no_schedule_repeats_less(seed: int) -> None:
    """spec: M1.10, M1.11"""
    chance = random.Random(seed)
    widths = [16 * chance.randrange(1, 6) for _ in range(chance.randrange(4, 10))]
    joint = expand(chain(widths))
    full = peak(joint, DEFAULT)
    for percent in (90, 80, 70, 60):
        budget = full * percent // 100
        best = cheapest([4 * w for w in widths], widths[1:], budget)
        if best is None:
            with pytest.raises(TmmuError, match="cannot be met"):
                rematerialise(joint, DEFAULT, budget)
            continue
        again = rematerialise(joint, DEFAULT, budget)
        assert peak(again, DEFAULT) <= budget
        assert repeated(joint, again) == best


def test_the_oracle_knows_a_chain_by_hand() -> None:
    # x, a, b, c, d of 10 bytes: at the first backward step all five are live, with the seed and the gradient of c.
    assert cheapest([10] * 5, [7, 8, 9, 9], 70) == 0
    # Without a it is 60; a is made again once c is gone.
    assert cheapest([10] * 5, [7, 8, 9, 9], 69) == cheapest([10] * 5, [7, 8, 9, 9], 60) == 7
    assert cheapest([10] * 5, [7, 8, 9, 9], 59) is None


@pytest.mark.parametrize("length", [16, 40])
def test_never_worse_than_square_root_many_segments(length: int) -> None:
    """spec: M1.10"""
    joint = expand(chain([64] * (length + 1)))
    source = joint_of(joint)
    segments = rewrite(source, chen(Classes(source)))
    budget = peak(segments.model, DEFAULT)
    assert budget < peak(joint, DEFAULT) * 3 // 4
    again = rematerialise(joint, DEFAULT, budget)
    assert peak(again, DEFAULT) <= budget
    assert repeated(joint, again) <= segments.cost


def test_long_chains_fit_into_much_less_than_they_keep() -> None:
    joint = expand(chain([64] * 101))
    assert least(joint) < peak(joint, DEFAULT) // 6


def test_cheap_results_are_repeated_before_dear_ones() -> None:
    model = floating(
        "matmul0: x w -> a", "tanh0: a -> b", "matmul1: b w -> c", "tanh1: c -> d", "matmul2: d w -> e",
        "tanh2: e -> f", "matmul3: f w -> g", "tanh3: g -> h", "matmul4: h w -> y", parameters="w",
    )  # fmt: skip
    joint = expand(replace(model, tensors=tuple(
        replace(t, shape=(64, 64), bytes=1 << 14) if t.name != "w" else t for t in model.tensors
    )))  # fmt: skip
    again = rematerialise(joint, DEFAULT, peak(joint, DEFAULT) - 1)
    assert {node.op for node in again.nodes if ".recompute" in node.name} <= {"Tanh", "MatMul"}
    assert repeated(joint, again) <= 2 * 64 * 64 * 64 + 4 * 64 * 64


def test_what_cannot_be_met_says_the_least_that_can() -> None:
    """spec: M1.11"""
    joint = expand(chain([64] * 30))
    lowest = least(joint)
    assert peak(rematerialise(joint, DEFAULT, lowest), DEFAULT) == lowest
    with pytest.raises(TmmuError, match=f"budget of {lowest - 1} bytes cannot be met: at least {lowest} are live"):
        rematerialise(joint, DEFAULT, lowest - 1)


def test_the_choice_is_always_the_same() -> None:
    joint = expand(chain([64, 32, 64, 16, 64, 48] * 4))
    budget = peak(joint, DEFAULT) * 2 // 3
    assert rematerialise(joint, DEFAULT, budget) == rematerialise(joint, DEFAULT, budget)


def test_a_value_is_computed_again_with_all_that_it_needs_and_held() -> None:
    """spec: M1.8, M1.9"""
    source = joint_of(expand(MLP))
    again = rewrite(source, Policy(frozenset())).model
    validate(again)
    assert lines(again)[1:5] == [
        "matmul0.recompute0: MatMul x w -> a.recompute0",
        "relu0.recompute0: Relu a.recompute0 -> b.recompute0",
        "matmul1.grad: MatMulGrad c.grad b.recompute0 v -> b.grad v.grad",
        "relu0.grad: ReluGrad b.grad b.recompute0 -> a.grad.part0",
    ]
    assert {tensor.name for tensor in again.tensors if tensor.saved_for_backward} == {"x"}
    kept = rewrite(source, Policy(frozenset({source.model.nodes[0].writes[0]}))).model
    assert "relu0.recompute0: Relu a -> b.recompute0" in lines(kept)


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
    source = joint_of(model)
    return {tensor.name for t, tensor in enumerate(model.tensors) if source.free[t]}


def test_a_view_that_backward_makes_shows_what_was_computed_again() -> None:
    source = joint_of(own_backward())
    again = rewrite(source, Policy(frozenset())).model
    validate(again)
    rows = {tensor.name: t for t, tensor in enumerate(again.tensors)}
    view = again.tensors[rows["va"]].view
    assert view is not None
    assert view.base == rows["a.recompute0"]
    plan_memory(again, mode="backward", layout="slots")


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
    assert free_names(replace(model, nodes=(*model.nodes, after))) == {"a", "b", "c"}


def test_random_numbers_are_not_drawn_again() -> None:
    for op, domain in (("RandomNormal", ""), ("Dropout", ""), ("native_dropout", "aten"), ("rand_like", "aten")):
        assert not is_repeatable(own_backward(), Node("n", op, (0,), (1,), domain))
    assert is_repeatable(own_backward(), Node("n", "Dropout", (1,), (4,))), "a view of its operand"
    assert is_repeatable(own_backward(), Node("n", "mm", (0,), (1,), "aten"))


def test_costs_are_those_of_products_and_else_of_elements() -> None:
    shapes = {"x": (4, 8), "w": (8, 16), "y": (4, 16), "k": (6, 3, 5, 5), "i": (1, 3, 9, 9), "o": (1, 6, 5, 5)}
    rows = [Tensor(name, shape, "float32", Role.INPUT, 0) for name, shape in shapes.items()]
    rows.append(replace(rows[2], name="v", view=View(2, 0, 0)))
    cases = {
        Node("a", "MatMul", (0, 1), (2,)): 2 * 4 * 16 * 8,
        Node("b", "addmm", (2, 0, 1), (2,), "aten"): 2 * 4 * 16 * 8,
        Node("c", "Gemm", (0, 1), (2,)): 2 * 4 * 16 * 8,
        Node("d", "Conv", (4, 3), (5,)): 2 * 150 * 75,
        Node("e", "Tanh", (2,), (2,)): 64,
        Node("f", "Reshape", (2,), (6,)): 0,
        Node("g", "Free", (2,), ()): 0,
    }
    model = Model("costs", tuple(rows), tuple(cases), (Body(-1, "", (), ()),))
    assert joint_of(model).cost == list(cases.values())


def test_numbers_of_segments_are_all_of_few_and_some_of_many() -> None:
    assert segment_counts(5) == [1, 2, 3, 4, 5]
    many = segment_counts(10_000)
    assert 100 in many
    assert len(many) < 32
    assert max(many) <= 10_000


def test_a_script_makes_views_anew_of_what_is_computed_again() -> None:
    flat = {"c": {"shape": (16,), "dtype": "float32", "bytes": 64, "alignment": 4}}
    model = floating(
        "matmul0: x w -> a", "tanh0: a -> b", "reshape0: b -> c", "reshape1: c -> d", "matmul1: d v -> e",
        "sin0: e -> y", parameters="w v", like=flat, views={"c": ("b", 0), "d": ("c", 0)},
    )  # fmt: skip
    source = joint_of(expand(model))
    position = next(n for n, node in enumerate(source.model.nodes) if node.name == "matmul1.grad")
    again = follow(source, {position: [0, 1]}).model
    validate(again)
    assert lines(again)[1:6] == [
        "matmul0.recompute0: MatMul x w -> a.recompute0",
        "tanh0.recompute0: Tanh a.recompute0 -> b.recompute0",
        "reshape0.recompute0: Reshape b.recompute0 -> c.recompute0",
        "reshape1.recompute0: Reshape c.recompute0 -> d.recompute0",
        "matmul1.grad: MatMulGrad e.grad d.recompute0 v -> d.grad v.grad",
    ]


def test_the_search_says_no_to_what_is_too_large_or_cannot_fit() -> None:
    small = joint_of(expand(chain([64] * 5)))
    full = peak(small.model, DEFAULT)
    assert schedules.cheapest(small, DEFAULT, full) == {}
    assert schedules.cheapest(small, DEFAULT, 64) is None
    assert schedules.cheapest(joint_of(expand(chain([64] * 46))), DEFAULT, full * 99) == {}, "just small enough"
    assert schedules.cheapest(joint_of(expand(chain([64] * 62))), DEFAULT, full * 99) is None, "too many nodes"


def test_a_schedule_that_repeats_without_end_is_given_up() -> None:
    source = joint_of(expand(chain([64] * 200)))
    assert rewrite(source, Policy(frozenset())).complete
    endless = rewrite(source, Policy(frozenset(), frozenset()))
    assert not endless.complete
    assert len(endless.nodes) < 5 * len(source.model.nodes) + 1000


def test_a_plan_over_its_budget_is_refused_whatever_made_it_larger() -> None:
    """spec: M1.11"""
    joint = expand(MLP)
    full = peak(joint, DEFAULT)
    check_budget(plan_memory(joint, mode="backward", layout="slots").plan, full)
    with pytest.raises(TmmuError, match=f"{full} bytes are live at one step") as raised:
        check_budget(plan_memory(joint, mode="backward", layout="slots").plan, full - 1)
    assert raised.value.code_id == "ARENA_TOO_SMALL"
