"""Which values are worked out to learn a shape, which never are, and that the numbers are right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support.onnx_files import model_of, refusal, resolved
from tmmu.onnx import folding, values
from tmmu.onnx.folding import compute
from tmmu.onnx.table import OPERATORS

STORED = """<int64[2] s = {5, 6}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] nine = {9},
    int64[1] last = {-1}, int64[1] before = {-2}, int64[1] start = {-9}, float half = {0.5},
    int64 none = {0}, int64 step = {2}, int64 end = {6}>"""


def shape_of(folder: Path, arithmetic: str, opset: int = 18) -> tuple[int, ...]:
    """The shape that `arithmetic` makes of a tensor of [2, 3, 4] and of stored numbers: what `t` then holds."""
    text = f"main (float[2, 3, 4] x, float a) => (y) {STORED} {{ {arithmetic} y = Expand (a, t) }}"
    return resolved(folder, model_of(text, opset=opset)).sizes["y"][0]


@pytest.mark.parametrize(
    ("arithmetic", "shape"),
    [
        ("t = Shape (x)", (2, 3, 4)),
        ("t = Shape <start = 1> (x)", (3, 4)),
        ("t = Shape <start = -2, end = -1> (x)", (3,)),
        ("t = Shape <start = 5> (x)", ()),
        ("n = Size (x) t = Reshape (n, one)", (24,)),
        ("t = Constant <value_ints = [7, 8]> ()", (7, 8)),
        ("n = Constant <value_int = 7> () t = Unsqueeze (n, zero)", (7,)),
        ("t = Constant <value = int64[2] {7, 8}> ()", (7, 8)),
        ("t = Identity (s)", (5, 6)),
        ("n = Shape (x) i = Constant <value_ints = [2, 0]> () t = Gather (n, i)", (4, 2)),
        ("n = Shape (x) t = Concat <axis = 0> (n, s)", (2, 3, 4, 5, 6)),
        ("t = Add (s, s)", (10, 12)),
        ("t = Mul (s, s)", (25, 36)),
        ("n = Neg (s) t = Div (n, before)", (2, 3)),
        ("m = Neg (s) n = Div (m, two) t = Neg (n)", (2, 3)),
        ("t = Mod (s, two)", (1, 0)),
        ("t = Pow (s, two)", (25, 36)),
        ("b = Greater (s, zero) t = Where (b, s, zero)", (5, 6)),
        ("f = Cast <to = 1> (s) g = Mul (f, half) h = Ceil (g) t = Cast <to = 7> (h)", (3, 3)),
        ("f = Cast <to = 1> (s) g = Mul (f, half) h = Floor (g) t = Cast <to = 7> (h)", (2, 3)),
        ("t = Range (step, end, step)", (2, 4)),
        ("t = ConstantOfShape <value = int64[1] {3}> (two)", (3, 3)),
        ("t = ReduceProd (s, zero)", (30,)),
        ("p, q = Split <num_outputs = 2> (s) t = Identity (q)", (6,)),
        ("n = Shape (x) t = Slice (n, last, start, zero, last)", (4, 3, 2)),
        ("t = Min (s, nine, two)", (2, 2)),
        ("t = Clip (s, , end)", (5, 6)),
        ("t = Tile (s, two)", (5, 6, 5, 6)),
        ("i = Constant <value_ints = [1, 0]> () t = GatherElements (s, i)", (6, 5)),
        ("m = Constant <value_ints = [1, -1]> () r = Reshape (s, m) f = Flatten (r) t = Squeeze (f, zero)", (5, 6)),
    ],
)
def test_shape_arithmetic_is_worked_out(tmp_path: Path, arithmetic: str, shape: tuple[int, ...]) -> None:
    """spec: T10.3"""
    assert shape_of(tmp_path, arithmetic) == shape


OLD = """n = Shape (x) {slice} c = Unsqueeze <axes = [0]> (b) d = Squeeze <axes = [0]> (c)
    e = ReduceSum <axes = [0], keepdims = 1> (d) t = Concat <axis = 0> (d, e)"""


@pytest.mark.parametrize(
    ("opset", "sliced"),
    [
        (8, "b = Slice <starts = [1], ends = [99], axes = [0]> (n)"),
        (9, "b = Slice <starts = [1], ends = [99], axes = [0]> (n)"),
        (10, "b = Slice (n, one, nine)"),
        (12, "b = Slice (n, one, nine)"),
    ],
)
def test_shape_arithmetic_of_old_operators_is_worked_out(tmp_path: Path, opset: int, sliced: str) -> None:
    assert shape_of(tmp_path, OLD.replace("{slice}", sliced), opset=opset) == (3, 4, 7)


def test_counting_what_is_not_zero_gives_a_shape(tmp_path: Path) -> None:
    arithmetic = """ones = ConstantOfShape <value = int64[1] {1}> (two) n = NonZero (ones) r = Squeeze (n, zero)
        t = Concat <axis = 0> (s, r)"""
    assert shape_of(tmp_path, arithmetic) == (5, 6, 0, 1)
    assert shape_of(tmp_path, arithmetic.replace("(two)", "(nine)")) == (5, 6, *range(9))


def test_all_values_that_are_missing_are_named_at_once(tmp_path: Path) -> None:
    """spec: T10.6"""
    text = "main (float one, int64[1] n, int64[1] m) => (y) { t = Add (n, m) y = Expand (one, t) }"
    assert refusal(tmp_path, text).fix == "bind it with --value n=... --value m=..."
    assert refusal(tmp_path, text, values={"n": "[1]"}).fix == "bind it with --value m=..."
    assert resolved(tmp_path, text, values={"n": "[1]", "m": "[2]"}).sizes["y"][0] == (3,)


def test_what_is_not_zero_of_an_unknown_value_is_not_counted(tmp_path: Path) -> None:
    """spec: T10.6"""
    text = "main (float[2, 3] x) => (y) { y = NonZero (x) }"
    assert "'x'; use --trust-shapes" in str(refusal(tmp_path, text))
    assert "bind it with --value x=..." in str(refusal(tmp_path, text.replace("[2, 3]", "[3]")))
    assert resolved(tmp_path, text.replace("[2, 3]", "[3]"), values={"x": "1,0,2"}).sizes["y"] == ((1, 2), "int64")


def test_a_value_that_the_user_gives_is_worked_with(tmp_path: Path) -> None:
    text = "main (float one, int64 n) => (y) <int64[1] z = {0}> { t = Unsqueeze (n, z) y = Expand (one, t) }"
    assert resolved(tmp_path, text, values={"n": "9"}).sizes["y"][0] == (9,)
    error = refusal(tmp_path, text)
    assert (error.code_id, error.place, error.fix) == (
        "INVALID_IR_SHAPES", "tensor 'y' of node 'Expand#1'", "bind it with --value n=...",
    )  # fmt: skip
    assert "its shape depends on the value of 'n'" in str(error)


@pytest.mark.parametrize(
    ("arithmetic", "reason"),
    [
        ("f = RandomUniform <shape = [2]> () t = Cast <to = 7> (f)", "'f', a result of RandomUniform"),
        ("f = Cast <to = 1> (s) g = Exp (f) t = Cast <to = 7> (g)", "'g', a result of Exp"),
        ("z = Sub (s, s) t = Div (s, z)", "'t', a result of Div"),
        ("f = Cast <to = 1> (s) z = Sub (f, f) g = Div (f, z) t = Cast <to = 7> (g)", "'g', a result of Div"),
        ("f = Cast <to = 1> (s) g = ReduceSum (f, zero) t = Cast <to = 7> (g)", "'g', a result of ReduceSum"),
        ("t = Pow (s, last)", "'t', a result of Pow"),
        ("t = local.Mystery (s)", "operator local::Mystery is not known"),
    ],
)
def test_what_is_not_of_the_closed_list_or_has_no_result_stays_unknown(
    tmp_path: Path, arithmetic: str, reason: str
) -> None:
    """spec: T10.3"""
    text = f"main (float a) => (y) {STORED} {{ {arithmetic} y = Expand (a, t) }}"
    error = refusal(tmp_path, model_of(text, more=', "local" : 1'))
    assert error.code_id == "INVALID_IR_SHAPES"
    assert reason in str(error)


def test_an_operator_of_another_domain_is_not_taken_for_one_of_the_list() -> None:
    assert not folding.is_folded(helper.make_node("Add", ["a", "b"], ["c"], domain="local"))
    assert folding.is_folded(helper.make_node("Add", ["a", "b"], ["c"], domain="ai.onnx"))


def test_the_list_holds_nothing_random_and_nothing_with_a_body() -> None:
    """spec: T10.3"""
    for name in [op for (_, op), row in OPERATORS.items() if row.folded]:
        schema = onnx.defs.get_schema(name)
        assert not schema.name.startswith(("Random", "Bernoulli", "Multinomial", "Dropout"))
        assert not any(a.type == onnx.defs.OpSchema.AttrType.GRAPH for a in schema.attributes.values())


def test_a_shape_computation_of_gigabytes_is_refused_uncomputed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: T10.4"""
    text = """main (float one) => (y) {
        n = Constant <value = int64[1] {4000000000}> () huge = ConstantOfShape <value = int64[1] {1}> (n)
        z = Constant <value = int64[1] {0}> () t = ReduceSum (huge, z) y = Expand (one, t)
    }"""
    computed: list[str] = []

    def watched(node: onnx.NodeProto, operands: list[np.ndarray], opset: int) -> object:
        computed.append(node.op_type)
        return compute(node, operands, opset)

    monkeypatch.setattr(values, "compute", watched)
    error = refusal(tmp_path, text)
    assert "'huge', a result of ConstantOfShape" in str(error)
    assert computed == []
    assert resolved(tmp_path, text.replace("4000000000", "131072")).sizes["y"][0] == (131072,)
    assert computed == ["ConstantOfShape", "ReduceSum"]
    assert "'huge'" in str(refusal(tmp_path, text.replace("4000000000", "131073")))


def test_all_computations_together_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: T10.4"""
    arithmetic = " ".join(f"t{k} = Add (t{k - 1}, t{k - 1})" for k in range(1, 9)) + " t = Min (t8, s)"
    arithmetic = f"t0 = Identity (s) {arithmetic}"
    assert shape_of(tmp_path, arithmetic) == (5, 6)
    monkeypatch.setattr(values, "TOTAL_LIMIT", 200)
    text = f"main (float one) => (y) <int64[2] s = {{5, 6}}> {{ {arithmetic} y = Expand (one, t) }}"
    assert "a result of Add" in str(refusal(tmp_path, text))


def expanded_by(tensor: TensorProto) -> onnx.ModelProto:
    model = model_of("main (float one) => (y) { y = Expand (one, t) }")
    model.graph.initializer.append(tensor)
    return model


def test_the_data_of_small_tensors_may_decide_in_every_form_in_which_they_are_stored(tmp_path: Path) -> None:
    raw = numpy_helper.from_array(np.array([5, 6]), "t")
    typed = helper.make_tensor("t", TensorProto.INT64, [2], [5, 6])
    for tensor in (raw, typed):
        assert resolved(tmp_path, expanded_by(tensor)).sizes["y"][0] == (5, 6)


def test_data_that_are_not_in_the_file_are_never_looked_for(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(np.array([5, 6]).tobytes())
    external = TensorProto(name="t", dims=[2], data_type=TensorProto.INT64, data_location=TensorProto.EXTERNAL)
    external.external_data.add(key="location", value="data")
    absent = TensorProto(name="t", dims=[2], data_type=TensorProto.INT64)
    for tensor in (external, absent):
        assert "'t'; use --trust-shapes" in str(refusal(tmp_path, expanded_by(tensor)))


def test_numbers_that_numpy_lacks_are_not_worked_with(tmp_path: Path) -> None:
    text = """main (float one) => (y) { b = Constant <value = bfloat16[1] {1}> ()
        t = Cast <to = 7> (b) y = Expand (one, t) }"""
    assert "'b', a result of Constant" in str(refusal(tmp_path, text))


def test_a_result_of_another_type_than_inferred_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "compute", lambda node, operands, opset: [np.array([5, 6, 7])])
    text = "main (float one) => (y) <int64[2] s = {5, 6}> { t = Add (s, s) y = Expand (one, t) }"
    assert "'t', a result of Add" in str(refusal(tmp_path, text))


def test_an_evaluator_that_fails_gives_no_value() -> None:
    node = helper.make_node("Concat", ["a", "b"], ["c"], axis=0)
    assert compute(node, [np.zeros(1), np.zeros((1, 1))], 18) is None
    node = helper.make_node("Add", ["a", "b"], ["c"])
    results = compute(node, [np.array(1), np.array(2)], 18)
    assert results is not None
    assert int(results[0]) == 3


def test_a_long_chain_of_values_needs_no_recursion(tmp_path: Path) -> None:
    lines = ["t0 = Identity (s)", *(f"t{k} = Abs (t{k - 1})" for k in range(1, 1200)), "t = Neg (t1199)", "u = Neg (t)"]
    text = f"main (float one) => (y) <int64[2] s = {{5, 6}}> {{ {' '.join(lines)} y = Expand (one, u) }}"
    assert resolved(tmp_path, text).sizes["y"][0] == (5, 6)


def test_a_constant_without_its_data_has_no_value(tmp_path: Path) -> None:
    model = model_of("main (float one) => (y) { t = Constant <value = int64[2] {5, 6}> () y = Expand (one, t) }")
    assert resolved(tmp_path, model).sizes["y"][0] == (5, 6)
    del model.graph.node[0].attribute[0].t.int64_data[:]
    assert "'t', a result of Constant" in str(refusal(tmp_path, model))


@pytest.mark.parametrize(
    ("node", "says"),
    [
        ("y = NonZero (x)", "--shape y=int64:2xN or --bytes y=40"),
        ("y = MatMull (x, x)", "did you mean MatMul, "),
        ("y = local.MatMull (x, x)", "is not known; use --trust-shapes for the shape that the file states, "
         "or state it: --shape y=float32:1x10 or"),
    ],
)  # fmt: skip
def test_a_tensor_of_unknown_size_is_asked_for_by_what_is_known_of_it(tmp_path: Path, node: str, says: str) -> None:
    """spec: T10.14, C5.5"""
    assert says in str(refusal(tmp_path, f"main (float[2, 3] x) => (y) {{ {node} }}"))
