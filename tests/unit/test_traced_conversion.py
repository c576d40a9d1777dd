"""Traced graphs written by hand become models: views, changes, phases, gradients, bodies; and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proofs.verify.judge import verify
from proofs.verify.options import Options
from tests.support.traced import STEP, F, dense, lines, op, proved, step, traced
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model, Phase, Role, Tensor
from tmmu.importers.conversion import convert
from tmmu.importers.traced import Op, Region, TracedValue, TrainingTrace
from tmmu.ir import files
from tmmu.operators import row_of
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import file


def tensor(model: Model, name: str) -> Tensor:
    return next(t for t in model.tensors if t.name == name)


def test_a_training_step_has_its_phases_roles_gradients_and_saved_tensors(tmp_path: Path) -> None:
    """spec: M2.2, M2.7, M2.14, I2.5"""
    model = convert(step())
    assert lines(model) == [
        "f mm0: x w -> h", "f relu: h -> r", "f sum: r -> y", "f t: w -> wt", "b expand: seed -> dr",
        "b relu_backward: dr r -> dh", "b mm1: x dh -> w.grad",
    ]  # fmt: skip
    assert {t.name for t in model.tensors if t.role is Role.GRADIENT} == {"dr", "dh", "w.grad"}
    assert {t.name for t in model.tensors if t.saved_for_backward} == {"x", "r"}
    assert [model.tensors[t].name for t in model.inputs] == ["x", "seed"]
    hints = {(model.tensors[a].name, model.tensors[b].name) for n in model.nodes for a, b in n.in_place}
    assert hints == {("r", "h"), ("dh", "dr"), ("dh", "r")}
    for mode in ("backward", "forward", "inference"):
        proved(model, tmp_path, mode)


def test_a_trace_without_a_seed_is_forward_alone() -> None:
    trace = step(seeds=set(), outputs=["y"], gradients={})
    assert {node.phase for node in convert(trace).nodes} == {Phase.FORWARD}


def test_what_comes_after_backward_began_is_forward_only_where_an_output_needs_it() -> None:
    values = STEP | {"late": dense(4), "spare": dense(4)}
    trace = step(outputs=["y", "dw", "late"])
    trace.values |= values
    trace.ops += [op("late", "x", "late"), op("spare", "x", "spare")]
    phases = {node.name: node.phase for node in convert(trace).nodes}
    assert (phases["late"], phases["spare"]) == (Phase.FORWARD, Phase.BACKWARD)


@pytest.mark.parametrize(("reads", "taken"), [("h r", ("h",)), ("h h", ()), ("", ())])
def test_the_result_of_an_update_may_take_its_first_operand_unless_it_comes_again(
    reads: str, taken: tuple[str, ...]
) -> None:
    """spec: T3.12"""
    assert op("put", reads, "y", updates=True).takeable == taken
    assert op("put", "h r", "y").takeable == ()
    assert {row_of("jax.lax", "dynamic_update_slice").takes, row_of("aten", "index_put").takes} == {(0,)}


@pytest.mark.parametrize("missing", [None, "y"])
def test_every_parameter_must_have_a_gradient(missing: str | None) -> None:
    """A trace on the device meta loses its backward half without a word: that is what this finds. spec: I2.3"""
    if missing is None:
        with pytest.raises(TmmuError, match=r"parameter 'w': .*\[INVALID_IR\]"):
            convert(step(gradients={"w": None}))
    else:
        assert tensor(convert(step(gradients={"w": missing})), "w.grad").shape == ()


def test_a_transpose_shows_its_base_and_a_slice_of_columns_the_window_that_it_spans(tmp_path: Path) -> None:
    """spec: T2.4, T2.5, I2.1"""
    shared = {"storage": "A", "storage_bytes": 128}
    values = {
        "x": dense(4, 8), "w": dense(2), "a": TracedValue((4, 8), F, (8, 1), 0, **shared),
        "t": TracedValue((8, 4), F, (1, 8), 0, "A"), "rows": TracedValue((2, 8), F, (8, 1), 8, "A"),
        "columns": TracedValue((4, 2), F, (8, 1), 6, "A"), "again": TracedValue((2, 2), F, (8, 1), 14, "A"),
        "wide": TracedValue((3, 4, 8), F, (0, 8, 1), 0, "A"), "flat": TracedValue((128,), "uint8", (1,), 0, "A"),
        "y": dense(4),
    }  # fmt: skip
    trace = traced(
        values, op("make", "x w", "a"), op("t", "a", "t"), op("rows", "a", "rows"), op("columns", "t", "columns"),
        op("again", "columns", "again"), op("expand", "a", "wide"), op("bytes", "wide", "flat"),
        op("use", "rows columns again wide flat", "y"), outputs=["y"],
    )  # fmt: skip
    model = convert(trace)
    found = {t.name: (model.tensors[t.view.base].name, t.view.offset, t.view.bytes, t.shape)
             for t in model.tensors if t.view is not None}  # fmt: skip
    assert found == {
        "t": ("a", 0, 128, (8, 4)), "rows": ("a", 32, 64, (2, 8)), "columns": ("t", 24, 104, (26,)),
        "again": ("columns", 32, 40, (10,)), "wide": ("a", 0, 128, (32,)), "flat": ("wide", 0, 128, (128,)),
    }  # fmt: skip
    proved(model, tmp_path, "inference")


def test_a_view_beyond_its_operand_is_a_view_of_the_root(tmp_path: Path) -> None:
    values = {
        "x": dense(4, 8), "w": dense(2), "a": TracedValue((32,), F, (1,), 0, "A", 128),
        "half": TracedValue((16,), F, (1,), 0, "A"), "other": TracedValue((16,), F, (1,), 16, "A"), "y": dense(1),
    }  # fmt: skip
    ops = (op("make", "x", "a"), op("half", "a", "half"), op("as_strided", "half", "other"), op("use", "other", "y"))
    model = convert(traced(values, *ops, outputs=["y"]))
    view = tensor(model, "other").view
    assert view is not None
    assert (model.tensors[view.base].name, view.offset) == ("a", 64)
    assert lines(model)[2] == "f as_strided: half a -> other"
    proved(model, tmp_path, "inference")


def test_a_value_that_does_not_fill_its_storage_has_all_of_it() -> None:
    values = {
        "x": TracedValue((3,), F, (2,), 1, "X", 100), "w": dense(2),
        "odd": TracedValue((3,), F, (1,), 0, "O", 14), "y": dense(3),
    }  # fmt: skip
    model = convert(traced(values, op("odd", "x", "odd"), op("use", "x odd", "y"), outputs=["y"]))
    assert (tensor(model, "x").shape, tensor(model, "x").bytes) == ((25,), 100)
    assert (tensor(model, "odd").dtype, tensor(model, "odd").bytes) == ("uint8", 14)


def update(*ops: Op, **values: TracedValue) -> TrainingTrace:
    trace = step()
    trace.values |= {"m": dense(8, 8, storage="M"), "m1": dense(8, 8, storage="M"), **values}
    trace.given["m"] = Role.OPTIMIZER
    trace.ops += ops
    trace.outputs = ["y"]
    return trace


def test_what_is_changed_has_no_views_and_is_read_as_it_was_left(tmp_path: Path) -> None:
    """spec: I1.6, I1.11, I2.2, V1.10"""
    trace = update(
        op("mul_", "m", "m1", changes=("m",), elementwise=True, optimizer=True),
        op("addcdiv_", "w m1 dw", "w1", changes=("w",), elementwise=True, optimizer=True),
        w1=TracedValue((8, 8), F, (8, 1), 0, "W"),
    )
    model = convert(trace)
    assert lines(model)[-2:] == ["o mul_: m -> m", "o addcdiv_: w m w.grad -> w"]
    assert "f t: w -> wt" not in lines(model), "a view of what is changed is left out"
    assert model.bindings.donated == ("m", "w")
    proved(model, tmp_path)
    files.save(model, tmp_path / "m.ir.cbor")
    file.save(plan_memory(model, options=PlanOptions(mode="backward")).plan, tmp_path / "p.cbor")
    kept = verify(str(tmp_path / "p.cbor"), Options(model=str(tmp_path / "m.ir.cbor")))
    assert kept.verdict == "REFUTED", "who keeps his parameters must not have them changed"


def test_a_change_through_a_view_changes_the_whole(tmp_path: Path) -> None:
    values = {
        "x": dense(4, 8), "w": dense(2), "a": dense(32, storage="A"), "row": dense(8, storage="A", offset=8),
        "row1": dense(8, storage="A", offset=8), "y": dense(1),
    }  # fmt: skip
    ops = (
        op("make", "x", "a"),
        op("row", "a", "row"),
        op("copy_", "row x", "row1", changes=("row",)),
        op("use", "a", "y"),
    )
    model = convert(traced(values, *ops, outputs=["y"]))
    assert lines(model) == ["f make: x -> a", "f copy_: a x -> a", "f use: a -> y"]
    proved(model, tmp_path, "inference")


def test_tied_weights_are_one_tensor() -> None:
    trace = step()
    trace.values["tied"] = trace.values["w"]
    trace.given["tied"] = Role.PARAMETER
    trace.ops.append(op("use", "tied", "y2"))
    trace.values["y2"] = dense(1)
    model = convert(trace)
    assert "b use: w -> y2" in lines(model)
    assert "tied" not in {t.name for t in model.tensors}


def test_a_result_takes_an_operand_in_place_only_where_its_elements_lie_at_the_same_places() -> None:
    """spec: T3.2, T3.3, I2.6"""
    values = {
        "x": dense(4, 8), "w": dense(8), "a": dense(4, 8), "t": TracedValue((4, 8), F, (1, 4)),
        "half": dense(4, 8, dtype="float16"), "y": dense(4, 8),
    }  # fmt: skip
    made = [op("make", "x", "a t half"), op("add", "a t half x w a", "y", elementwise=True)]
    model = convert(traced(values, *made, outputs=["y"]))
    assert [(model.tensors[a].name, model.tensors[b].name) for a, b in model.nodes[1].in_place] == [
        ("y", "a"),
        ("y", "x"),
    ]
    plain = convert(traced(values, made[0], replace(made[1], elementwise=False), outputs=["y"]))
    assert plain.nodes[1].in_place == ()


def loop(iterates: bool = True) -> TrainingTrace:
    """A scan over a carry: the body views what it is given and what it captures, and returns a swap."""
    values = {
        "x": dense(4), "w": dense(4, storage="W"), "s.0": dense(4), "s.1": dense(4), "c": dense(4, storage="C"),
        "d": dense(4), "cv": dense(2, 2, storage="C"), "wv": dense(2, 2, storage="W"), "own": dense(4, storage="N"),
        "nv": dense(2, 2, storage="N"), "e": dense(4), "y": dense(1),
    }  # fmt: skip
    return traced(
        values,
        op("s", "x w", "s.0 s.1"),
        op("view0", "c", "cv", region=1),
        op("view1", "w", "wv", region=1),
        op("make", "d w", "own", region=1),
        op("view2", "own", "nv", region=1),
        op("add", "cv wv nv", "e", region=1),
        op("use", "s.0 s.1", "y"),
        outputs=["y"],
        regions=[Region("s", "body", ("c", "d"), ("d", "e"), iterates)],
    )


def test_no_view_crosses_the_boundary_of_a_body(tmp_path: Path) -> None:
    """spec: T8.6, T8.9, T8.12"""
    model = convert(loop())
    assert [t.name for t in model.tensors if t.view is not None] == ["s/body/nv"]
    assert lines(model)[1] == "f s/body/view0: s/body/c -> s/body/cv"
    assert model.bodies[1].iterates
    proved(model, tmp_path, "inference")


def test_names_inside_a_body_of_a_body_begin_with_both(tmp_path: Path) -> None:
    """spec: T8.12"""
    values = {name: dense(4) for name in ("x", "w", "o", "f", "i", "g", "k", "y")}
    trace = traced(
        values,
        op("outer", "x", "o"),
        op("inner", "f w", "i", region=1),
        op("neg", "g", "k", region=2),
        op("use", "o", "y"),
        outputs=["y"],
        regions=[Region("outer", "body", ("f",), ("i",), True), Region("inner", "body", ("g",), ("k",), True)],
    )
    model = convert(trace)
    assert lines(model)[2] == "f outer/body/inner/body/neg: outer/body/inner/body/g -> outer/body/inner/body/k"
    proved(model, tmp_path, "inference")


def test_the_body_of_a_backward_loop_is_backward(tmp_path: Path) -> None:
    values = {name: dense(4) for name in ("x", "w", "y", "h", "f", "k", "dw")} | {"seed": dense()}
    trace = traced(
        values,
        op("make", "x w", "y"),
        op("back", "seed", "dw"),
        op("neg", "f y h", "k", region=1),
        outputs=["y", "dw"], seeds={"seed"}, gradients={"w": "dw"},
        given={"x": Role.INPUT, "w": Role.PARAMETER, "seed": Role.INPUT, "h": Role.INPUT},
        regions=[Region("back", "body", ("f",), ("k",), True)],
    )  # fmt: skip
    model = convert(trace)
    assert [node.phase for node in model.nodes] == [Phase.FORWARD, Phase.BACKWARD, Phase.BACKWARD]
    assert tensor(model, "back/body/k").role is Role.GRADIENT
    assert tensor(model, "y").saved_for_backward
    proved(model, tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.values.pop("h"), "value 'h': the trace does not describe it"),
        (lambda t: t.outputs.append("nowhere"), "value 'nowhere': the trace does not describe it"),
        (lambda t: t.ops.pop(), "parameter 'w': it reads 'dw' before it is written|the caller: it reads 'dw'"),
        (lambda t: t.ops.reverse(), "operation 'mm1': it reads 'dh' before it is written"),
        (
            lambda t: t.values.update(h=TracedValue((4, 8), F, None, 0, "H", 64)),
            "it shows bytes up to 128, but its storage has 64",
        ),
        (lambda t: t.values.update(h=TracedValue((4, 8), F, (8,))), "shows no bytes"),
        (lambda t: t.ops.append(t.ops[0]), "the name is used twice|already written"),
        (lambda t: t.values.update(y=TracedValue((1 << 40, 1 << 40), F)), "do not fit 64 bits"),
    ],
)
def test_a_trace_that_is_no_graph_is_refused(change: Any, message: str) -> None:
    """spec: I1.3, I1.4, I1.5"""
    trace = step()
    change(trace)
    with pytest.raises(TmmuError, match=message):
        convert(trace)


def test_a_graph_without_operations_is_a_model() -> None:
    model = convert(traced({"x": dense(0, 4), "w": dense()}, outputs=["x"]))
    assert (len(model.nodes), model.tensors[0].bytes) == (0, 0)


def test_the_name_of_a_gradient_is_left_where_it_is_taken() -> None:
    trace = step()
    trace.values["w.grad"] = dense(1)
    trace.given["w.grad"] = Role.INPUT
    assert tensor(convert(trace), "dw").role is Role.GRADIENT


def twice(**more: Any) -> TrainingTrace:
    """A backward kernel that returns the gradients of two biases in one storage, as that of an LSTM does."""
    names = ("x", "w", "v", "y", "dx")
    values = {name: dense(4) for name in names} | {"seed": dense()}
    values |= {"dw": dense(4, storage="both", of=16), "dv": dense(4, storage="both", of=16)}
    return traced(
        values,
        op("layer", "x w v", "y"),
        op("layer_backward", "seed y", "dx dw dv"),
        op("scale", "dv", "used"),
        **{
            "outputs": ["y", "dw", "dv", "used"], "seeds": {"seed"}, "gradients": {"w": "dw", "v": "dv"},
            "given": {"x": Role.INPUT, "w": Role.PARAMETER, "v": Role.PARAMETER, "seed": Role.INPUT},
        } | more,
    )  # fmt: skip


def test_results_of_one_operation_in_one_storage_are_one_tensor(tmp_path: Path) -> None:
    """spec: I2.13"""
    trace = twice()
    trace.values["used"] = dense(4)
    model = convert(trace)
    assert lines(model)[1:] == ["b layer_backward: seed y -> dx w.grad", "b scale: w.grad -> used"]
    proved(model, tmp_path)
    trace = twice()
    trace.values |= {"used": dense(4), "dw": dense(2, storage="both", of=16)}  # the halves of one storage
    trace.values["dv"] = dense(2, storage="both", of=16, offset=2)
    model = convert(trace)
    assert tensor(model, "w.grad").bytes == 16
    proved(model, tmp_path)


@pytest.mark.parametrize("shape", [(4,), (2, 1), (0,)])
def test_a_gradient_that_begins_at_more_or_less_than_one_number_is_refused(shape: tuple[int, ...]) -> None:
    """spec: I2.12"""
    trace = step()
    trace.values["seed"] = dense(*shape)
    with pytest.raises(TmmuError, match="expected a loss of one number"):
        convert(trace)
    trace.values["seed"] = dense(1, 1)
    convert(trace)
