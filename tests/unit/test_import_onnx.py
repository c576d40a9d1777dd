"""ONNX models as the planner sees them: tensors, nodes, bodies, views and in-place hints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.support.onnx_files import model_of, written
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import MAIN, Bindings, Model, Role, Tensor, View
from tmmu.importers.onnx import import_onnx
from tmmu.ir.order import sort_topologically
from tmmu.operators import OPERATORS, row_of


def imported(folder: Path, model: onnx.ModelProto | str, **bindings: Any) -> Model:
    return import_onnx(written(folder, model_of(model) if isinstance(model, str) else model), Bindings(**bindings))


def names(model: Model, rows: Sequence[int]) -> str:
    return " ".join(model.tensors[row].name for row in rows)


def lines(model: Model) -> list[str]:
    """Each node as `body: name: reads -> writes`."""
    return [f"{n.body}: {n.name}: {names(model, n.reads)} -> {names(model, n.writes)}" for n in model.nodes]


def tensor(model: Model, name: str) -> Tensor:
    return next(t for t in model.tensors if t.name == name)


def views(model: Model) -> dict[str, str]:
    return {t.name: model.tensors[t.view.base].name for t in model.tensors if t.view is not None}


def hints(model: Model) -> list[tuple[str, str]]:
    return [(model.tensors[r].name, model.tensors[o].name) for node in model.nodes for r, o in node.in_place]


PLAIN = """main (float[2, 3] x, float[3] bias) => (y)
    <float[3] w = {1, 2, 3}, float[3] bias = {0, 0, 0}, float h = {1}>
{
    [first] a = Add (x, w)
    b = Clip (a, , h)
    y = Mul (b, b)
}"""


def test_tensors_are_inputs_then_weights_then_results_in_step_order(tmp_path: Path) -> None:
    """spec: M3.2"""
    model = imported(tmp_path, PLAIN)
    assert [(t.name, t.role.value, t.bytes, t.alignment) for t in model.tensors] == [
        ("x", "input", 24, 4), ("bias", "parameter", 12, 4), ("w", "parameter", 12, 4), ("h", "parameter", 4, 4),
        ("a", "activation", 24, 4), ("b", "activation", 24, 4), ("y", "activation", 24, 4),
    ]  # fmt: skip
    assert names(model, model.inputs) == "x"
    assert tensor(model, "a").shape == (2, 3)


def test_reads_keep_the_operators_order_without_absent_operands(tmp_path: Path) -> None:
    model = imported(tmp_path, PLAIN)
    assert lines(model) == ["0: first: x w -> a", "0: Clip#1: a h -> b", "0: Mul#2: b b -> y"]
    assert [(node.op, node.domain) for node in model.nodes] == [("Add", ""), ("Clip", ""), ("Mul", "")]


def test_the_model_has_the_graphs_name_or_one_of_its_own(tmp_path: Path) -> None:
    model = model_of(PLAIN)
    assert imported(tmp_path, model).name == "main"
    for name, shown in (("", "main_graph"), ("a\0b", "ab"), ("\0", "main_graph")):
        model.graph.name = name
        assert imported(tmp_path, model).name == shown


def test_the_domain_of_ai_onnx_is_empty_and_others_are_kept(tmp_path: Path) -> None:
    model = model_of("main (float[2] x) => (float[2] y) { a = Relu (x) y = local.Op (a) }", more=', "local" : 1')
    model.graph.node[0].domain = "ai.onnx"
    found = imported(tmp_path, model, trust_shapes=True)
    assert [node.domain for node in found.nodes] == ["", "local"]
    assert found.bindings.trust_shapes


VIEWED = """main (float[2, 6] x) => (y) <
    float[12] w = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, int64[2] target = {3, 4}, int64[1] axis = {0}> {
    a = Reshape (x, target) b = Flatten <axis = 0> (a) c = Squeeze (b, axis) d = Unsqueeze (c, axis) e = Identity (d)
    f, mask = Dropout (e) v = Reshape (w, target) y = Relu (f)
}"""


def test_views_show_the_whole_of_their_first_operand(tmp_path: Path) -> None:
    """spec: T2.4"""
    model = imported(tmp_path, VIEWED)
    assert views(model) == {"a": "x", "b": "a", "c": "b", "d": "c", "e": "d", "f": "e", "v": "w"}
    assert tensor(model, "f").view == View(model.tensors.index(tensor(model, "e")), 0, 48)
    assert tensor(model, "mask").view is None
    assert hints(model) == [("y", "f")]


def test_an_operator_of_another_domain_views_nothing_and_hints_nothing(tmp_path: Path) -> None:
    text = "main (float[2] x) => (float[2] y) <float[2] a> { a = local.Identity (x) y = local.Relu (a) }"
    model = imported(tmp_path, model_of(text, more=', "local" : 1'), trust_shapes=True)
    assert (views(model), hints(model)) == ({}, [])


def dropout(mode: str, before: str = "", opset: int = 18, header: str = "float[4] x, float r") -> str:
    return f"main ({header}) => (y) {{ {before} y = Dropout (x, r{mode}) }}"


@pytest.mark.parametrize(
    ("text", "bindings", "is_view"),
    [
        (dropout(""), {}, True),
        (dropout(", t", "t = Constant <value = bool {0}> ()"), {}, True),
        (dropout(", t", "t = Constant <value = bool {1}> ()"), {}, False),
        (dropout(", t", "k = Constant <value = bool {1}> () t = Not (k)"), {}, False),
        (dropout(", t", header="float[4] x, float r, bool t"), {}, False),
        (dropout(", t", header="float[4] x, float r, bool t"), {"values": {"t": "true"}}, False),
        (dropout(", t", header="float[4] x, float r, bool t"), {"values": {"t": "False"}}, True),
        (dropout(", t", header="float[4] x, float r, bool t"), {"values": {"t": "0"}}, True),
    ],
)
def test_a_dropout_is_a_view_where_it_certainly_does_not_train(
    tmp_path: Path, text: str, bindings: dict[str, Any], is_view: bool
) -> None:
    """spec: V1.6"""
    assert views(imported(tmp_path, text, **bindings)) == ({"y": "x"} if is_view else {})


def test_a_stored_training_mode_counts_unless_the_caller_may_replace_it(tmp_path: Path) -> None:
    for value, listed, is_view in ((False, False, True), (True, False, False), (False, True, False)):
        model = model_of(dropout(", t", header="float[4] x, float r, bool t"))
        model.graph.initializer.append(helper.make_tensor("t", TensorProto.BOOL, [], [value]))
        if not listed:
            del model.graph.input[2]
        assert bool(views(imported(tmp_path, model))) is is_view


def test_old_dropouts_are_views(tmp_path: Path) -> None:
    for opset in (7, 10, 12):
        model = model_of("main (float[4] x) => (y) { y = Dropout (x) }", opset=opset)
        assert views(imported(tmp_path, model)) == {"y": "x"}


def test_operators_that_go_element_by_element_may_work_in_place(tmp_path: Path) -> None:
    """spec: T3.2, T3.3"""
    text = """main (float[2, 3] x, float[2, 3] z, float[3] row, bool[2, 3] c) => (y) {
        a = Relu (x) b = Add (a, z) d = Add (row, b) e = Mul (d, d) f = Where (c, e, z) g = Cast <to = 6> (f)
        h = Cast <to = 7> (g) i = Cast <to = 1> (h) j = Max (i, z, a) k = Less (j, z) l = And (k, c) s = Softmax (j)
        t = Transpose (s) m = MatMul (t, s) n = CumSum (m, zero) y = Clip (n, low, low) o = Equal (l, c) p = IsNaN (j)
    }"""
    text = text.replace("=> (y) {", "=> (y) { zero = Constant <value_int = 0> () low = Constant <value_float = 0.0> ()")
    assert hints(imported(tmp_path, text)) == [
        ("a", "x"), ("b", "a"), ("b", "z"), ("d", "b"), ("e", "d"), ("f", "e"), ("f", "z"), ("g", "f"), ("j", "i"),
        ("l", "k"), ("l", "c"), ("y", "n"), ("o", "l"), ("o", "c"),
    ]  # fmt: skip


def test_an_operand_that_is_folded_in_a_second_time_is_not_overwritten(tmp_path: Path) -> None:
    """A kernel that adds one operand after the other would read it when it is gone. spec: T3.10"""
    text = """main (float[4] x, float[4] z) => (y) {
        a = Relu (x) b = Sum (a, z, a) c = Relu (x) d = Mean (c, z, z) e = Add (d, d) y = Max (e, e)
    }"""
    assert hints(imported(tmp_path, text)) == [("a", "x"), ("c", "x"), ("d", "c"), ("e", "d")]


def test_packed_elements_of_equal_width_may_change_place(tmp_path: Path) -> None:
    """spec: T3.3"""
    for dtype, given in ((TensorProto.UINT4, [("y", "x")]), (TensorProto.INT8, [])):
        graph = helper.make_graph(
            [helper.make_node("Cast", ["x"], ["y"], to=dtype)],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.INT4, [5])],
            [helper.make_tensor_value_info("y", dtype, [5])],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        found = imported(tmp_path, model)
        assert hints(found) == given
        assert tensor(found, "x").bytes == 3


def test_the_tables_name_operators_of_ai_onnx_alone() -> None:
    """spec: T3.2"""
    for operator in (op for (domain, op), row in OPERATORS.items() if not domain and (row.view or row.takes)):
        schema = onnx.defs.get_schema(operator)
        assert schema.domain == ""
        assert max(row_of("", operator).takes, default=0) < max(len(schema.inputs), schema.max_input)


UPDATES = {
    "ScatterElements": (np.array([[1, 0, 1]]), np.full((1, 3), 7)),
    "ScatterND": (np.array([[0, 1], [1, 0]]), np.array([7, 8])),
    "TensorScatter": (np.full((2, 1), 7), np.array([1, 0])),
}
"""The further operands of operators that write some elements of the first one anew."""


@pytest.mark.parametrize("operator", [op for (domain, op), row in OPERATORS.items() if row.takes and not domain])
def test_an_elementwise_result_depends_on_its_operands_at_its_own_index(operator: str) -> None:
    """spec: T3.2"""
    # One element of an overwritable operand is changed: no other element of the result may notice.
    schema = onnx.defs.get_schema(operator)
    count = 2 if operator in ("Max", "Mean", "Min", "Sum") else schema.min_input
    dtype = _accepted(schema)
    for position in row_of("", operator).takes:
        operands = [np.full((2, 3), True if operator == "Where" and k == 0 else 1).astype(dtype) for k in range(count)]
        if operator == "Where":
            operands[0] = operands[0].astype(bool)
        if operator in UPDATES:
            kinds = [dtype if k == (operator != "TensorScatter") else np.int64 for k in (0, 1)]
            operands[1:] = [each.astype(kind) for each, kind in zip(UPDATES[operator], kinds, strict=True)]
        before = _run(operator, operands)
        operands[position][1, 2] = 0
        after = _run(operator, operands)
        assert before.shape == after.shape == (2, 3)
        assert np.array_equal(
            np.delete(before.reshape(-1), 5), np.delete(after.reshape(-1), 5), equal_nan=before.dtype.kind == "f"
        )


def _accepted(schema: onnx.defs.OpSchema) -> type[np.generic]:
    first = schema.inputs[1 if schema.name == "Where" else 0].types
    for name, dtype in (("float", np.float32), ("int32", np.int32), ("uint8", np.uint8), ("bool", np.bool_)):
        if f"tensor({name})" in first:
            return dtype
    raise AssertionError(schema.name)


def _run(operator: str, operands: list[np.ndarray]) -> np.ndarray:
    settings: dict[str, dict[str, Any]] = {
        "Cast": {"to": 1}, "BitShift": {"direction": "LEFT"}, "TensorScatter": {"axis": 1},
    }  # fmt: skip
    inputs = [f"i{k}" for k in range(len(operands))]
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(operand.dtype), operand.shape)
        for name, operand in zip(inputs, operands, strict=True)
    ]
    node = helper.make_node(operator, inputs, ["o"], **settings.get(operator, {}))
    graph = helper.make_graph([node], "g", values, [helper.make_value_info("o", onnx.TypeProto())])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", onnx.defs.onnx_opset_version())])
    with np.errstate(all="ignore"):
        (result,) = ReferenceEvaluator(model).run(None, dict(zip(inputs, operands, strict=True)))
    return np.asarray(result)


IF = """main (float[4] x, bool c) => (y) {
    [before] a = Relu (x)
    [n] y = If (c) <
        then_branch = t () => (p) { [tanh] p = Tanh (a) },
        else_branch = e () => (q) <float[4] w = {1, 2, 3, 4}> { [add] b = Add (a, w) [view] q = Identity (b) }>
}"""


def test_the_nodes_of_bodies_follow_their_owner(tmp_path: Path) -> None:
    """spec: T8.10, T8.12"""
    model = imported(tmp_path, IF)
    assert lines(model) == [
        "0: before: x -> a",
        "0: n: c -> y",
        "1: n/then_branch/tanh: a -> n/then_branch/p",
        "2: n/else_branch/add: a n/else_branch/w -> n/else_branch/b",
        "2: n/else_branch/view: n/else_branch/b -> n/else_branch/q",
    ]
    assert [
        (b.owner, b.attribute, names(model, b.inputs), names(model, b.outputs), b.iterates) for b in model.bodies
    ] == [
        (-1, "", "x c", "y", False),
        (1, "then_branch", "", "n/then_branch/p", False),
        (1, "else_branch", "", "n/else_branch/q", False),
    ]
    assert [t.name for t in model.tensors] == [
        "x", "c", "a", "n/else_branch/w", "n/then_branch/p", "n/else_branch/b", "n/else_branch/q", "y",
    ]  # fmt: skip
    assert tensor(model, "n/else_branch/w").role is Role.PARAMETER
    assert sort_topologically(model) is model


def test_a_branch_that_is_ruled_out_is_left_out(tmp_path: Path) -> None:
    """spec: T10.5"""
    model = imported(tmp_path, IF, values={"c": "true"})
    assert [node.name for node in model.nodes] == ["before", "n", "n/then_branch/tanh"]
    assert [body.attribute for body in model.bodies] == ["", "then_branch"]
    assert not any("else_branch" in t.name for t in model.tensors)
    assert dict(model.bindings.values) == {"c": "true"}


LOOP = """main (float[4] x, float[4] z, int64 n, bool c) => (y, u) {
    [l] y, u = Loop (n, c, x, z) <body = b (int64 i, bool d, float[4] v, float[4] w) => (d, w, k) {
        [view] r = Identity (v) [local] s = Relu (r) [again] k = Identity (s) [capture] m = Add (x, z)
    }>
}"""


def test_a_loop_gives_its_body_what_it_is_given(tmp_path: Path) -> None:
    """spec: T8.2, T8.8"""
    model = imported(tmp_path, LOOP)
    body = model.bodies[1]
    assert (names(model, body.inputs), body.iterates) == ("l/body/i l/body/d l/body/v l/body/w", True)
    assert names(model, body.outputs) == "l/body/d l/body/w l/body/k"
    assert {tensor(model, f"l/body/{name}").role for name in "idvwrskm"} == {Role.ACTIVATION}
    assert lines(model)[0] == "0: l: n c x z -> y u"


def test_no_view_crosses_the_boundary_of_a_body(tmp_path: Path) -> None:
    """spec: T8.6"""
    assert views(imported(tmp_path, LOOP)) == {"l/body/k": "l/body/s"}
    text = IF.replace("[tanh] p = Tanh (a)", "[same] p = Identity (a)").replace("Identity (b)", "Identity (w)")
    assert views(imported(tmp_path, text)) == {}


def test_bodies_in_bodies_are_numbered_from_the_outside(tmp_path: Path) -> None:
    text = """main (float[4] x, bool c) => (y) {
        [o] y = If (c) <then_branch = t () => (p) {
                [i] p = If (c) <then_branch = tt () => (x) { }, else_branch = te () => (s) { s = Tanh (x) }>
                z = Relu (p)
            }, else_branch = e () => (q) { q = Abs (x) }>
    }"""
    model = imported(tmp_path, text)
    assert [node.name for node in model.nodes] == [
        "o", "o/then_branch/i", "o/then_branch/i/else_branch/Tanh#0", "o/then_branch/Relu#1", "o/else_branch/Abs#0",
    ]  # fmt: skip
    assert [(body.owner, body.attribute) for body in model.bodies] == [
        (-1, ""), (0, "then_branch"), (0, "else_branch"), (1, "then_branch"), (1, "else_branch"),
    ]  # fmt: skip
    assert names(model, model.bodies[3].outputs) == "x"
    assert [node.body for node in model.nodes] == [MAIN, 1, 4, 1, 2]


def test_what_is_donated_is_given_by_the_caller(tmp_path: Path) -> None:
    """spec: T10.7"""
    assert imported(tmp_path, PLAIN, donated=("x", "w", "x")).bindings.donated == ("w", "x")
    for name in ("a", "nothing", "y"):
        with pytest.raises(TmmuError) as caught:
            imported(tmp_path, PLAIN, donated=("x", name))
        assert (caught.value.code_id, caught.value.place) == ("INVALID_BINDING", f"--donate {name}")
        assert "name one of bias, h, w, x" in str(caught.value)
        assert caught.value.file == str(tmp_path / "model.onnx")


def test_a_sparse_weight_is_a_parameter_and_may_be_donated(tmp_path: Path) -> None:
    model = model_of("main (float[1, 8] x) => (float[1, 4] y) { y = MatMul (x, w) }")
    values = helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])
    at = helper.make_tensor("w_at", TensorProto.INT64, [1], [3])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, at, [8, 4]))
    found = imported(tmp_path, model, donated=("w",))
    assert (tensor(found, "w").role, tensor(found, "w").bytes) == (Role.PARAMETER, 128)


def test_an_output_that_nobody_computes_is_passed_through(tmp_path: Path) -> None:
    model = model_of("main (float[2] x) => (float[2] x, float[3] w) { }")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float32), "w"))
    found = imported(tmp_path, model)
    assert (names(found, found.outputs), found.nodes) == ("x w", ())


def test_unproduced_outputs_are_written_by_no_step(tmp_path: Path) -> None:
    """spec: T9.1"""
    model = model_of("main (float[2] x) => (y) { y, mask = Dropout (x) }", opset=9)
    found = imported(tmp_path, model)
    assert (found.unproduced, lines(found)) == (("mask",), ["0: Dropout#0: x -> y"])


def test_the_bindings_and_the_digest_go_with_the_model(tmp_path: Path) -> None:
    """spec: R2.3"""
    text = "main (float[n] x, int64[1] t) => (y) { y = Reshape (x, t) }"
    found = imported(tmp_path, text, dims={"n": 6}, values={"t": "-1"}, shapes={"x": (6,)})
    assert (dict(found.bindings.dims), dict(found.bindings.shapes), dict(found.bindings.values)) == (
        {"n": 6}, {"x": (6,)}, {"t": "-1"},
    )  # fmt: skip
    assert found.source_digest is not None
    assert len(found.source_digest) == 32


def test_refusals_name_the_file(tmp_path: Path) -> None:
    """spec: R5.2"""
    path = written(tmp_path, model_of("main (float[n] x) => (y) { y = Relu (x) }"))
    with pytest.raises(TmmuError, match="INVALID_IR_SHAPES") as caught:
        import_onnx(path)
    assert str(caught.value).startswith(f"{path}: input 'x': ")
