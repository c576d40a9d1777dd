"""What the ranks of a mesh run and hold, on models small enough to write the answer down.

spec: R7.1 to R7.18
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from proofs.readers.models.ir import read_ir
from proofs.sharding.loops import loops
from proofs.sharding.stages import derive_rank_model
from tests.support.both_ranks import agreed
from tests.support.sharded import LAYERS, model, run, shape, spec
from tmmu.core.dims.expressions import symbol
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Phase, Role, View
from tmmu.planner.sharding import Local, build_shards
from tmmu.planner.sharding.relations import relation
from tmmu.planner.sharding.spec import resolve
from tmmu.planner.training.expand import expand_to_joint


def test_a_split_batch_needs_no_collective_in_a_forward_model() -> None:
    (local,) = agreed(LAYERS, spec({"data": 2}, ("x", ["data"])))
    assert run(local) == ["MatMul x w1 -> a", "Relu a -> b", "MatMul b w2 -> y"]
    assert [shape(local, name) for name in ("x", "w1", "a", "y")] == [(2, 6), (6, 8), (2, 8), (2, 2)]


def test_columns_then_rows_need_one_sum_over_the_ranks() -> None:
    """spec: R7.9, R7.10, R7.16"""
    (local,) = agreed(LAYERS, spec({"tensor": 2}, ("w1", ["", "tensor"]), ("w2", ["tensor"])))
    assert run(local) == ["MatMul x w1 -> a", "Relu a -> b", "MatMul b w2 -> down.out0", "AllReduce down.out0 -> y"]
    assert [shape(local, name) for name in ("w1", "a", "w2", "down.out0")] == [(6, 4), (4, 4), (4, 2), (4, 2)]
    assert local.model.nodes[-1].domain == "tmmu.mesh/tensor"


def test_a_result_that_is_to_be_split_where_it_is_a_sum_is_scattered() -> None:
    two = [("w1", ["", "tensor"]), ("w2", ["tensor"]), ("y", ["tensor"])]
    (local,) = agreed(LAYERS, spec({"tensor": 2}, *two))
    assert run(local)[-1] == "ReduceScatter.0 down.out0 -> y"
    assert shape(local, "y") == (2, 2)


def test_an_operand_that_does_not_fit_is_gathered_into_a_tensor_of_its_own() -> None:
    """spec: R7.15"""
    (local,) = agreed(LAYERS, spec({"data": 2, "tensor": 2}, ("x", ["data"]), ("w1", ["data", "tensor"])))
    assert run(local)[:2] == ["AllGather.0 w1 -> up.in1.AllGather.0.data", "MatMul x up.in1.AllGather.0.data -> a"]
    assert (shape(local, "w1"), shape(local, "up.in1.AllGather.0.data")) == ((3, 4), (6, 4))
    gathered = next(t for t in local.model.tensors if t.name == "up.in1.AllGather.0.data")
    assert gathered.role is Role.ACTIVATION


def test_an_operation_that_is_not_known_needs_everything_whole() -> None:
    odd = model(["mix com.example::Mix: x -> y"], {"x": (4, 4), "y": (4, 4)}, "y")
    (local,) = agreed(odd, spec({"data": 2}, ("x", ["data"]), ("y", ["", "data"])))
    assert run(local) == [
        "AllGather.0 x -> mix.in0.AllGather.0.data", "Mix mix.in0.AllGather.0.data -> mix.out0",
        "Shard.1 mix.out0 -> y",
    ]  # fmt: skip


def test_softmax_is_divided_where_the_spec_says_across_what_it_works() -> None:
    soft = model(["s Softmax: x -> y"], {"x": (4, 4), "y": (4, 4)}, "y")
    rules = ("x", ["data"])
    assert len(run(agreed(soft, spec({"data": 2}, rules))[0])) == 2
    said = spec({"data": 2}, rules, operators=[{"op": "Softmax", "across": [-1]}])
    assert run(agreed(soft, said)[0]) == ["Softmax x -> y"]
    across = spec({"data": 2}, ("x", ["", "data"]), operators=[{"op": "Softmax", "across": [-1]}])
    assert run(agreed(soft, across)[0])[0] == "AllGather.1 x -> s.in0.AllGather.1.data"


def test_a_product_with_a_bias_is_not_summed_in_parts() -> None:
    """Each rank would add the bias once. spec: R7.11"""
    shapes = [(4, 6), (6, 8)], [(4, 8)]
    assert relation("", "Gemm", *shapes).reads == ((0, 2), (2, 1))
    assert relation("", "Gemm", [*shapes[0], (8,)], shapes[1]).reads == ((0, None), (None, 1), (1,))
    assert {("in", 0, 1), ("in", 1, 0)} in loops("", "Gemm", *shapes).sets
    assert all(len(s) > 1 and ("in", 0, 1) not in s for s in loops("", "Gemm", [*shapes[0], (8,)], shapes[1]).sets)


@pytest.mark.parametrize(
    ("op", "reads", "writes"),
    [
        ("Gemm", [(4, 4), (4, 4)], [(4, 4)]), ("Transpose", [(4, 4)], [(4, 4)]), ("Concat", [(4, 4)], [(4, 4)]),
        ("Gather", [(4, 4), (4,)], [(4, 4)]), ("ReduceSum", [(4, 4)], [(4,)]), ("Conv", [(4,), (4,)], [(4,)]),
        ("MatMul", [(4,), (4, 4)], [(4,)]), ("Reshape", [(4, 0)], [(0, 3)]), ("MaxPool", [(4, 4, 4)], [(4, 4, 2)] * 2),
        ("Softmax", [(4, 4)], [(4, 4)]), ("Slice", [(4, 4), (1,), (1,)], [(4, 4)]), ("Split", [(4,)], [(4,)]),
        ("Gemm", [(4, 4)], []), ("MatMul", [], []), ("Gather", [(4, 4)], [(4, 4)]), ("Shape", [(2,), (2,)], [(1,)]),
        ("BatchNormalization", [(4, 4), (4,)], [(4, 4), (4,)]), ("Conv", [(1, 4, 2)], [(1, 4, 2)]),
    ],
)  # fmt: skip
def test_where_shapes_leave_a_choice_no_loop_is_divided(op: str, reads: Any, writes: Any) -> None:
    """Square operands, an index as long as what it picks from, operands that the operator does not have. spec: R7.9"""
    found = relation("", op, reads, writes)
    usable = {label for labels in found.reads for label in labels if label is not None}
    everywhere = [label for label in usable if found.sums or all(label in of for of in found.writes)]
    if op == "ReduceSum":
        assert usable == set()
    else:
        assert everywhere == []
    assert not [s for s in loops("", op, reads, writes).sets if any(side == "in" for side, _, _ in s)]


def test_dimensions_that_do_not_divide_are_an_error_that_says_which() -> None:
    """spec: R7.8"""
    with pytest.raises(TmmuError) as refused:
        agreed(LAYERS, spec({"data": 4}, ("x", ["", "data"])))
    assert (refused.value.code_id, refused.value.place) == ("INVALID_SHARDING", "tensor 'x'")
    assert re.search("dimension 1 of 6 .*'data' of 4", str(refused.value))


def test_padding_is_at_the_end_and_stays_out_of_sums() -> None:
    """spec: R7.6, R7.11"""
    padded = spec({"data": 4}, ("x", ["", "data"]), pad=True)
    (local,) = agreed(LAYERS, padded)
    assert shape(local, "x") == (4, 2)
    assert run(local)[0] == "AllGather.1 x -> up.in0.AllGather.1.data"
    tables = [build_shards(local, padded, rank) for rank in range(4)]
    row = [tensor.name for tensor in local.model.tensors].index("x")
    at = int(tables[0].dims_at[tables[0].tensor.tolist().index(row)]) + 1
    assert [(int(t.start[at]), int(t.held[at]), int(t.chunk[at])) for t in tables] == [
        (0, 2, 2), (2, 2, 2), (4, 2, 2), (6, 0, 2),
    ]  # fmt: skip


def test_what_is_repeated_may_be_padded_as_other_work_by_element() -> None:
    """Planner and verifier must agree on it, else a right plan is refuted. spec: R7.11, R7.31"""
    net = model(["e ai.onnx::Expand: x w -> y"], {"x": (5, 1), "w": (2,), "y": (5, 6)}, "y")
    (local,) = agreed(net, spec({"data": 2}, ("x", ["data"]), pad=True))
    assert (run(local), shape(local, "y")) == (["Expand x w -> y"], (3, 6))


def test_an_axis_of_one_rank_splits_nothing() -> None:
    """spec: R7.2"""
    (local,) = agreed(LAYERS, spec({"data": 1}, ("x", ["data"]), ("w1", ["", "data"])))
    assert (local.model.tensors, run(local)) == (LAYERS.tensors, run(Local(LAYERS, [])))
    assert agreed(LAYERS, {}) == [Local(LAYERS, [])]


def trained(stage: int, **other: Any) -> Local:
    net = model(
        ["mul MatMul: x w -> y", "step com.example::Adam: w w.grad m -> w m"],
        {"x": (4, 6), "w": (6, 8), "y": (4, 8), "w.grad": (6, 8), "m": (6, 8)},
        "y",
        step=Phase.OPTIMIZER,
    )
    rules = ({"names": ["x"], "roles": ["input"], "split": ["data"]},)
    zero = {"zero": {"axis": "data", "stage": stage}} if stage else {}
    return agreed(expand_to_joint(net), resolve({"mesh": {"data": 2}, "rules": list(rules), **zero, **other}))[0]


SUM = ["MatMulGrad y.seed x -> mul.grad.out0"]


def test_data_parallel_training_sums_the_gradient() -> None:
    """spec: R7.7"""
    assert run(trained(0)) == [
        "MatMul x w -> y", *SUM, "AllReduce mul.grad.out0 -> w.grad", "Adam w w.grad m -> w m",
    ]  # fmt: skip


def test_zero_1_splits_the_optimizer_state_and_updates_a_part() -> None:
    """spec: R7.12, R7.14, R7.16"""
    local = trained(1)
    assert run(local) == [
        "MatMul x w -> y", *SUM, "AllReduce mul.grad.out0 -> w.grad", "Shard.0 w -> step.in0.Shard.0.data",
        "Shard.0 w.grad -> step.in1.Shard.0.data",
        "Adam step.in0.Shard.0.data step.in1.Shard.0.data m -> step.in0.Shard.0.data m",
        "AllGather.0 step.in0.Shard.0.data w -> w",
    ]  # fmt: skip
    assert (shape(local, "m"), shape(local, "w")) == ((3, 8), (6, 8))


def test_zero_2_scatters_the_gradient() -> None:
    local = trained(2)
    assert run(local)[1:3] == [*SUM, "ReduceScatter.0 mul.grad.out0 -> w.grad"]
    assert (shape(local, "w.grad"), shape(local, "mul.grad.out0")) == ((3, 8), (6, 8))


def test_zero_3_gathers_a_parameter_for_the_step_that_computes_with_it() -> None:
    """spec: R7.13"""
    assert run(trained(3)) == [
        "AllGather.0 w -> mul.in1.AllGather.0.data", "MatMul x mul.in1.AllGather.0.data -> y", *SUM,
        "ReduceScatter.0 mul.grad.out0 -> w.grad", "Adam w w.grad m -> w m",
    ]  # fmt: skip


def test_zero_takes_the_first_dimension_that_divides_and_says_where_none_does() -> None:
    odd = model(["n Relu: x -> y", "k Neg: w -> z"], {"x": (4,), "y": (4,), "w": (3, 4), "z": (3, 4)}, "y z")
    (local,) = agreed(odd, spec({"data": 2}, zero={"axis": "data", "stage": 3}))
    assert shape(local, "w") == (3, 2)
    with pytest.raises(TmmuError, match=r"tensor 'w': dimension 0 of 3 .*'data' of 8"):
        agreed(odd, spec({"data": 8}, zero={"axis": "data", "stage": 3}))


def test_stages_send_and_receive_what_the_other_reads() -> None:
    """spec: R7.17, R7.18"""
    net = replace(LAYERS, bodies=(replace(LAYERS.bodies[0], outputs=(2, 5)),))
    by_name = {"axis": "p", "stages": [["up"], ["*"]]}
    first, second = agreed(net, spec({"p": 2}, pipeline=by_name))
    assert run(first) == ["MatMul x w1 -> a", "Send.1 a -> "]
    assert run(second) == ["Recv.0  -> a", "Relu a -> b", "MatMul b w2 -> y"]
    assert [[m.tensors[t].name for t in m.outputs] for m in (first.model, second.model)] == [["a"], ["y"]]
    assert [len(agreed(net, spec({"p": n}, pipeline={"axis": "p"}))) for n in (1, 2, 3)] == [1, 2, 3]


def test_a_gradient_step_runs_on_its_forward_nodes_stage() -> None:
    first, second = agreed(expand_to_joint(LAYERS), spec({"p": 2}, pipeline={"axis": "p", "stages": [["up"], ["*"]]}))
    assert [node.name for node in first.model.nodes] == ["up", "a.Send.1", "a.grad.Recv.1", "up.grad"]
    assert "act.grad" in [node.name for node in second.model.nodes]


REFUSED = {
    "out of order": (replace(LAYERS, nodes=LAYERS.nodes[::-1]), spec({"data": 2}), "it is read before it is written"),
    "names no stage": (LAYERS, spec({"p": 2}, pipeline={"axis": "p", "stages": [["up"], []]}), "no stage has"),
    "too many dimensions": (LAYERS, spec({"data": 2}, ("x", ["", "", "data"])), "splits 3 dimensions, it has 2"),
    "random": (
        model(["r RandomNormalLike: x -> y"], {"x": (4,), "y": (4,)}, "y"), spec({"data": 2}), "draws random numbers",
    ),
    "alias group": (
        replace(LAYERS, tensors=(replace(LAYERS.tensors[0], alias_group="g"), *LAYERS.tensors[1:])),
        spec({"data": 2}), "an alias group cannot be sharded",
    ),
    "dynamic": (
        replace(LAYERS, tensors=(replace(LAYERS.tensors[0], shape=(symbol("n", 1, 4), 6)), *LAYERS.tensors[1:])),
        spec({"data": 2}), "a dynamic shape cannot be sharded",
    ),
    "window": (
        replace(LAYERS, tensors=tuple(replace(t, view=View(0, 0, 64)) if t.name == "a" else t for t in LAYERS.tensors)),
        spec({"data": 2}, ("x", ["data"])), "a window of 'x', which is split",
    ),
    "changed in two stages": (
        model(["a Neg: w -> y", "b com.example::Sgd: w y -> w"], {"w": (4,), "y": (4,)}, "y"),
        spec({"p": 2}, pipeline={"axis": "p", "stages": [["a"], ["b"]]}), "it is mutated, and used in two stages",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_sharded_is_refused_by_name(what: str) -> None:
    """spec: R7.30"""
    wrong, by, message = REFUSED[what]
    with pytest.raises(TmmuError, match=message) as refused:
        agreed(wrong, by)
    assert refused.value.code_id == "INVALID_SHARDING"
    assert refused.value.place is not None
    if what not in ("dynamic", "window", "alias group", "out of order"):  # readers of whole models refuse these before
        with pytest.raises(TmmuError) as also:
            derive_rank_model(read_ir(wrong), by, 0)
        assert also.value.code_id == "INVALID_SHARDING"


def test_parts_add_up_to_the_tensor() -> None:
    by = spec({"data": 2, "tensor": 2}, ("w1", ["data", "tensor"]))
    (local,) = agreed(LAYERS, by)
    row = [tensor.name for tensor in local.model.tensors].index("w1")
    whole = np.zeros((6, 8), int)
    for rank in range(4):
        table = build_shards(local, by, rank)
        at = int(table.dims_at[table.tensor.tolist().index(row)])
        (a, m), (b, n) = ((int(table.start[at + d]), int(table.held[at + d])) for d in range(2))
        whole[a : a + m, b : b + n] += 1
    assert (whole == 1).all()
