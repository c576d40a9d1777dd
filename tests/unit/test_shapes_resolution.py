"""The size of every tensor: agreed on by other ways of finding it, or refused by name."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.support.onnx_files import model_of, refusal, resolved, written
from tmmu import examples
from tmmu.core.dtypes import BITS
from tmmu.core.vocabulary import Bindings
from tmmu.onnx import Resolved, resolve
from tmmu.onnx.sizes import DTYPES, UNKNOWN, Type

EXPAND = "main (float one) => (y) { y = Expand (one, t) }"


EXECUTED = """main (float[b, 6] x, int64[n] list, bool flag) => (y, z, all, j) <float[6, 6] w = {0}> {
    one = Constant <value_float = 1.0> ()
    h = MatMul (x, w)
    m = Constant <value = int64[3] {0, 2, -1}> ()
    r = Reshape (h, m)
    t = Transpose <perm = [0, 2, 1]> (r)
    y = If (flag) <then_branch = a () => (p) { p = ReduceSum (t, list) },
                   else_branch = b () => (q) { s = Shape (t) q = Expand (one, s) }>
    three = Constant <value_int = 3> ()
    go = Constant <value = bool {1}> ()
    z, all = Loop (three, go, x) <body = c (int64 i, bool d, float[b, 6] v) => (d, u, k) {
        u = Add (v, h) flat = Constant <value = int64[1] {-1}> () k = Reshape (u, flat)
    }>
    s1, s2, s3 = Split <axis = 1, num_outputs = 3> (h)
    j = Concat <axis = 0> (s1, s3)
}"""


@pytest.mark.parametrize("flag", [True, False])
def test_a_run_gives_every_tensor_the_shape_that_was_found(tmp_path: Path, flag: bool) -> None:
    """spec: T10.1"""
    model = model_of(EXECUTED)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.eye(6, dtype=np.float32), "w"))
    feeds = {"x": np.ones((2, 6), np.float32), "list": np.array([0, 2]), "flag": np.array(flag)}
    found = resolved(tmp_path, model, dims={"b": 2}, values={"list": "0,2", "flag": str(flag)})
    run = ReferenceEvaluator(model).run(None, feeds, intermediate=True)
    assert isinstance(run, dict)
    for name, value in run.items():
        if name:
            assert found.sizes[name] == (value.shape, value.dtype.name), name
    assert {"y", "z", "all", "s3", "j", "r", "t"} <= run.keys()


@pytest.mark.parametrize("name", sorted(examples.MODELS))
def test_the_examples_are_resolved(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / "model.onnx")
    examples.write(name, path)
    dims = {
        dim: 2 for dim in ("batch", "seq") if f'"{dim}"' in str(onnx.load(path, load_external_data=False).graph.input)
    }
    bindings = (
        {"shapes": {"images": (1, 3, 640, 640)}, "values": {"rate": "16000"}} if name == "detector" else {"dims": dims}
    )
    found = resolve(path, Bindings(**bindings))
    assert all(dim >= 0 for shape, _ in found.sizes.values() for dim in shape)


def with_default(name: str, values: list[int]) -> TensorProto:
    return helper.make_tensor(name, TensorProto.INT64, [len(values)], values)


def test_a_default_that_decides_a_shape_is_a_binding(tmp_path: Path) -> None:
    """spec: T10.2"""
    model = model_of(
        "main (float[2, 3] x, int64[2] t, float[3] bias) => (y) { a = Add (x, bias) s = Abs (t) y = Reshape (a, s) }"
    )
    model.graph.initializer.extend([with_default("t", [3, 2]), numpy_helper.from_array(np.ones(3, np.float32), "bias")])
    found = resolved(tmp_path, model)
    assert (found.sizes["y"][0], dict(found.bindings.defaults)) == ((3, 2), {"t": "[3,2]"})
    del model.graph.input[1:]
    assert dict(resolved(tmp_path, model).bindings.defaults) == {}


def test_a_default_that_decides_a_branch_is_a_binding(tmp_path: Path) -> None:
    """spec: T10.2"""
    text = """main (float[2] x, bool c) => (y) {
        y = If (c) <then_branch = t () => (p) { p = Relu (x) }, else_branch = e () => (q) { q = Tanh (x) }>
    }"""
    model = model_of(text)
    model.graph.initializer.append(helper.make_tensor("c", TensorProto.BOOL, [], [True]))
    found = resolved(tmp_path, model)
    assert (set(found.ruled_out), dict(found.bindings.defaults)) == ({"If#0/else_branch"}, {"c": "true"})


def test_a_default_that_decides_how_often_a_loop_runs_is_a_binding(tmp_path: Path) -> None:
    """spec: T10.2"""
    text = """main (float[2] x, int64 n) => (all) {
        z, all = Loop (n, , x) <body = b (int64 i, bool d, v) => (d, u, k) { u = Relu (v) k = Abs (v) }>
    }"""
    model = model_of(text)
    model.graph.initializer.append(helper.make_tensor("n", TensorProto.INT64, [], [5]))
    found = resolved(tmp_path, model)
    assert (found.sizes["all"][0], dict(found.bindings.defaults)) == ((5, 2), {"n": "5"})


def test_of_several_defaults_only_those_that_decide_are_bindings(tmp_path: Path) -> None:
    """spec: T10.2"""
    model = model_of("main (float[2] x, int64[2] pads, float fill) => (y) { y = Pad (x, pads, fill) }")
    fill = helper.make_tensor("fill", TensorProto.FLOAT, [], [0.5])
    model.graph.initializer.extend([with_default("pads", [1, 2]), fill])
    found = resolved(tmp_path, model)
    assert (found.sizes["y"][0], dict(found.bindings.defaults)) == ((5,), {"pads": "[1,2]"})


def test_a_default_without_which_a_node_is_wrong_is_a_binding(tmp_path: Path) -> None:
    """spec: T10.2"""
    model = model_of("main (float[4, 4] x, int64[1] k) => (y) { y, i = TopK (x, k) }")
    model.graph.initializer.append(with_default("k", [2]))
    found = resolved(tmp_path, model)
    assert (found.sizes["y"][0], dict(found.bindings.defaults)) == ((4, 2), {"k": "[2]"})


def test_the_user_may_replace_a_default(tmp_path: Path) -> None:
    model = model_of("main (float[6] x, int64[2] t) => (y) { y = Reshape (x, t) }")
    model.graph.initializer.append(with_default("t", [3, 2]))
    found = resolved(tmp_path, model, values={"t": "1,6"})
    assert (found.sizes["y"][0], dict(found.bindings.defaults), dict(found.bindings.values)) == (
        (1, 6),
        {},
        {"t": "1,6"},
    )


def test_a_long_default_is_shortened(tmp_path: Path) -> None:
    model = model_of("main (float[1] x, int64[800] t) => (y) { m = ReduceMax <keepdims = 1> (t) y = Expand (x, m) }")
    model.graph.initializer.append(with_default("t", list(range(800))))
    text = resolved(tmp_path, model).bindings.defaults["t"]
    assert text.startswith("[0,1,2,")
    assert text.endswith("... (800 elements)")


DROPOUT = "main (float[2, 3] x) => (y) { y, mask = Dropout (x) }"


def test_an_optional_output_without_reader_and_shape_is_unproduced(tmp_path: Path) -> None:
    """spec: T9.1"""
    found = resolved(tmp_path, model_of(DROPOUT, opset=9, ir_version=4))
    assert found.unproduced == {"mask"}
    assert "mask" not in found.sizes
    assert resolved(tmp_path, DROPOUT).unproduced == frozenset()


@pytest.mark.parametrize(
    "text",
    [
        DROPOUT.replace("(y)", "(y, mask)"),
        DROPOUT.replace("(x) }", "(x) z = Relu (mask) }"),
        "main (float[2, 3] x) => (y) { y, mask = Dropout (x) c = Constant <value = bool {1}> () "
        "z = If (c) <then_branch = t () => (mask) { }, else_branch = e () => (x) { }> }",
    ],
)
def test_an_optional_output_that_somebody_reads_needs_a_shape(tmp_path: Path, text: str) -> None:
    """spec: T9.1"""
    error = refusal(tmp_path, model_of(text, opset=9, ir_version=4))
    assert (error.code_id, error.place) == ("INVALID_IR_SHAPES", "tensor 'mask' of node 'Dropout#0'")


def test_an_output_that_is_not_optional_needs_a_shape_even_unread(tmp_path: Path) -> None:
    """spec: T9.1"""
    text = "main (float[2, 3] x, float[6] c) => (y) { y = Relu (x) b = Cast <to = 9> (c) lost = Compress (x, b) }"
    assert refusal(tmp_path, text).place == "tensor 'lost' of node 'Compress#2'"


def test_an_unknown_operator_is_refused_by_name(tmp_path: Path) -> None:
    """spec: T10.6"""
    error = refusal(tmp_path, model_of("main (float[2] x) => (y) { y = local.Fused (x) }", more=', "local" : 1'))
    assert (error.code_id, error.place) == ("INVALID_IR_SHAPES", "tensor 'y' of node 'Fused#0'")
    assert ("local::Fused" in str(error), "--trust-shapes" in str(error)) == (True, True)
    error = refusal(tmp_path, "main (float[2] x) => (y) { y = local.Fused (x) }")
    assert "local::Fused" in str(error)
    assert "ai.onnx::Fused" in str(refusal(tmp_path, "main (float[2] x) => (y) { y = Fused (x) }"))


STATED = model_of(
    "main (float[b, 3] x) => (float[b, 5] y) <float[b, 4] t> { t = local.A (x) y = local.B (t) }", more=', "local" : 1'
)


def test_stated_shapes_count_only_where_they_are_trusted(tmp_path: Path) -> None:
    """spec: T10.6"""
    assert refusal(tmp_path, STATED, dims={"b": 2}).place == "tensor 't' of node 'A#0'"
    found = resolved(tmp_path, STATED, dims={"b": 2}, trust_shapes=True)
    assert (found.sizes["t"][0], found.sizes["y"][0]) == ((2, 4), (2, 5))
    assert found.bindings.trust_shapes


def test_trust_that_was_not_needed_is_not_recorded(tmp_path: Path) -> None:
    text = "main (float[3] x) => (float[9] y) <float[8] t> { t = Relu (x) y = Relu (t) }"
    found = resolved(tmp_path, text, trust_shapes=True)
    assert (found.sizes["y"], found.bindings.trust_shapes) == (((3,), "float32"), False)


def test_names_that_only_stated_shapes_have_may_be_bound_where_they_are_trusted(tmp_path: Path) -> None:
    model = model_of(
        "main (float[3] x) => (y) <float[found, 4] t> { t = local.A (x) y = Relu (t) }", more=', "local" : 1'
    )
    assert resolved(tmp_path, model, dims={"found": 7}, trust_shapes=True).sizes["y"][0] == (7, 4)
    assert refusal(tmp_path, model, dims={"found": 7}).code_id == "INVALID_BINDING"
    error = refusal(tmp_path, model, trust_shapes=True)
    assert "the file does not state it either" in str(error)


def test_a_stated_shape_completes_what_is_known_and_does_not_contradict_it(tmp_path: Path) -> None:
    text = "main (float[2, 3] x, bool[2] c) => (y) <float[STATED] t> { t = Compress <axis = 0> (x, c) y = Relu (t) }"
    for stated, shape in (("1, 3", (1, 3)), ("1, n", (1, 3))):
        found = resolved(tmp_path, text.replace("STATED", stated), trust_shapes=True)
        assert (found.sizes["y"][0], found.bindings.trust_shapes) == (shape, True)
    for stated in ("1, 4", "3"):
        error = refusal(tmp_path, text.replace("STATED", stated), trust_shapes=True)
        assert re.search(r" float32 \[.* float32 \[\?, 3\]", str(error))
    error = refusal(tmp_path, text.replace("float[STATED]", "int64[1, 3]"), trust_shapes=True)
    assert re.search(r"int64 \[1, 3\], .*float32 \[\?, 3\]", str(error))
    assert "Compress" in str(refusal(tmp_path, text.replace(" <float[STATED] t>", ""), trust_shapes=True))


def test_a_type_that_is_stated_without_a_shape_does_not_suffice(tmp_path: Path) -> None:
    text = "main (float[2, 3] x, bool[2] c) => (y) <float[] t> { t = Compress <axis = 0> (x, c) y = Relu (t) }"
    assert "the file does not state it either" in str(refusal(tmp_path, text, trust_shapes=True))


def test_a_stated_dimension_that_is_no_number_is_open(tmp_path: Path) -> None:
    model = model_of("main (float[3] x) => (y) <float[7] t> { t = local.A (x) y = Relu (t) }", more=', "local" : 1')
    for value in (0, -1):
        model.graph.value_info[0].type.tensor_type.shape.dim[0].dim_value = value
        assert "the file does not state it either" in str(refusal(tmp_path, model, trust_shapes=True))


def test_the_bodies_of_an_unknown_operator_are_as_the_file_states(tmp_path: Path) -> None:
    inner = model_of("main (float[4] v, float[2] u) => (float[4] w) { w = Relu (v) }").graph
    node = helper.make_node("Each", ["x"], ["y"], domain="local", body=inner)
    x, y = (helper.make_tensor_value_info(name, 1, [n]) for name, n in (("x", 8), ("y", 9)))
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    model = helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=imports, ir_version=8)
    found = resolved(tmp_path, model, trust_shapes=True)
    assert (found.sizes["Each#0/body/w"][0], found.sizes["y"][0]) == ((4,), (9,))
    error = refusal(tmp_path, model)
    assert error.place == "input 'v' of body 'Each#0/body'"
    inner.input[0].type.tensor_type.shape.dim[0].Clear()
    node = helper.make_node("Each", ["x"], ["y"], domain="local", body=inner)
    model.graph.node[0].CopyFrom(node)
    assert refusal(tmp_path, model, trust_shapes=True).place == "input 'v' of body 'Each#0/body'"


def test_a_result_that_is_no_tensor_is_refused_by_name(tmp_path: Path) -> None:
    """spec: T9.2"""
    error = refusal(
        tmp_path, "main (float[2] x) => (y) { s = SequenceConstruct (x, x) y = ConcatFromSequence <axis = 0> (s) }"
    )
    assert (error.code_id, error.place) == ("INVALID_IR_SHAPES", "tensor 's' of node 'SequenceConstruct#0'")
    assert "it is a sequence" in str(error)
    error = refusal(tmp_path, 'main (float[2] x) => (y) { y = Relu (x) s = Constant <value_string = "a"> () }')
    assert "its element type is STRING" in str(error)


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (TensorProto(name="w", dims=[1], data_type=TensorProto.STRING), "its element type is STRING"),
        (TensorProto(name="w", dims=[-1], data_type=TensorProto.FLOAT), "has a negative dimension"),
        (TensorProto(name="w", dims=[1]), "it has no element type"),
        (TensorProto(name="w", dims=[1 << 62], data_type=TensorProto.FLOAT), "does not fit 64 bits"),
    ],
)
def test_a_weight_that_cannot_be_is_refused_by_name(tmp_path: Path, tensor: TensorProto, words: str) -> None:
    model = model_of("main (float[2] x) => (y) { y = Relu (x) }")
    model.graph.initializer.append(tensor)
    error = refusal(tmp_path, model)
    assert error.place == "initializer 'w'"
    assert words in str(error)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("main (float[2] x, float[3] w) => (y) { y = Add (x, w) }", "Add: Incompatible dimensions"),
        ("main (float[2] x) => (y) { y = Add (x) }", "Add: Node with schema"),
        ("main (float[2] x) => (y) { y = Concat (x, x) }", "Required attribute 'axis' is missing"),
        ("main (float[6] x) => (y) { t = Constant <value_ints = [4]> () y = Reshape (x, t) }", "[6] cannot become [4]"),
        ("main (float[6] x) => (y) { t = Constant <value_ints = [-1, 4]> () y = Reshape (x, t) }", "Reshape"),
        ("main (float[-1] x, int64[1] s) => (y) { y = Expand (x, s) }", "is not fixed"),
        ("main (float x) => (y) { t = Constant <value_ints = [-4]> () y = Expand (x, t) }", "Expand"),
        ("main (float x) => (y) { t = Constant <value_ints = [-4]> () y = ConstantOfShape (t) }", "ConstantOfShape"),
        ("main (float[3] x) => (y) { p = Constant <value_ints = [-2, -2]> () y = Pad (x, p) }", "negative dimension"),
    ],
)
def test_operands_that_do_not_fit_are_refused_at_their_node(tmp_path: Path, text: str, words: str) -> None:
    """spec: I1.5"""
    error = refusal(tmp_path, text)
    assert error.code_id == "INVALID_IR_SHAPES"
    assert words in str(error)


def test_a_result_that_overflows_is_refused_by_name(tmp_path: Path) -> None:
    """spec: A1.3"""
    text = "main (float[4, 4] x) => (y) <int64[2] r = {1048576, 1048576}> { a = Tile (x, r) y = Tile (a, r) }"
    error = refusal(tmp_path, text)
    assert (error.code_id, error.place) == ("ALLOCATION_OVERFLOW", "tensor 'y' of node 'Tile#1'")


@pytest.mark.parametrize("dtype", sorted(BITS))
def test_every_element_type_of_a_plan_is_read(tmp_path: Path, dtype: str) -> None:
    number = next(number for number, name in DTYPES.items() if name == dtype)
    x = helper.make_tensor_value_info("x", number, [3, 5])
    y = helper.make_tensor_value_info("y", number, [15])
    graph = helper.make_graph([helper.make_node("Flatten", ["x"], ["y"], axis=0)], "g", [x], [y])
    newest = onnx.defs.onnx_opset_version()
    found = resolved(tmp_path, helper.make_model(graph, opset_imports=[helper.make_opsetid("", newest)]))
    assert found.sizes["y"] == ((1, 15), dtype)


@pytest.mark.parametrize("opset", range(7, onnx.defs.onnx_opset_version() + 1))
def test_every_opset_from_7_on_is_understood(tmp_path: Path, opset: int) -> None:
    text = """main (float[1, 3, 8, 8] x, float[4, 3, 3, 3] w, float[4] s) => (y) {
        c = Conv (x, w) b = BatchNormalization (c, s, s, s, s) r = Relu (b) g = GlobalAveragePool (r) f = Flatten (g)
        t = Constant <value = int64[2] {2, -1}> () u = Reshape (f, t) y = Softmax (u)
    }"""
    assert resolved(tmp_path, model_of(text, opset=opset, ir_version=7)).sizes["y"] == ((2, 2), "float32")


def test_an_operator_that_is_defined_by_others_alone_is_resolved(tmp_path: Path) -> None:
    text = "main (float[2, 3] x, float[3] z) => (y) { y = GreaterOrEqual (x, z) }"
    assert resolved(tmp_path, model_of(text, opset=12)).sizes["y"] == ((2, 3), "bool")
    text = "main (float[1, 4, 5] x, float[4] s) => (y) { y = GroupNormalization <num_groups = 2> (x, s, s) }"
    assert resolved(tmp_path, model_of(text, opset=21)).sizes["y"] == ((1, 4, 5), "float32")
    text = "main (float[1, 4, 5, 6] x) => (y) { y = MeanVarianceNormalization (x) }"
    assert resolved(tmp_path, model_of(text, opset=13)).sizes["y"] == ((1, 4, 5, 6), "float32")


def test_an_operator_without_any_rule_is_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, model_of("main (float[6] x, bool[6] c) => (y) { y = Compress (x, c) }", opset=9))
    assert error.place == "tensor 'y' of node 'Compress#0'"


def test_a_transform_of_real_numbers_gives_half_a_spectrum_unless_it_says_otherwise(tmp_path: Path) -> None:
    # The rule that comes with the operator takes an absent `onesided` for 0, its definition for 1, as runtimes do.
    text = """main (float[1, 128, 1] x) => (y) { step = Constant <value_int = 8> () n = Constant <value_int = 16> ()
        y = STFT (x, step, , n) }"""
    assert resolved(tmp_path, text).sizes["y"][0] == (1, 15, 9, 2)
    whole = text.replace("STFT (", "STFT <onesided = 0> (")
    assert resolved(tmp_path, whole).sizes["y"][0] == (1, 15, 16, 2)


def test_values_that_do_not_suffice_leave_a_shape_unknown(tmp_path: Path) -> None:
    """spec: T10.6"""
    text = "main (int64 end) => (y) <int64 start = {2}, int64 step = {2}> { y = Range (start, end, step) }"
    error = refusal(tmp_path, text)
    assert error.fix == "bind it with --value end=..."
    assert resolved(tmp_path, text, values={"end": "9"}).sizes["y"][0] == (4,)


def test_of_several_unknown_values_the_one_that_matters_is_asked_for(tmp_path: Path) -> None:
    """spec: T10.6"""
    error = refusal(tmp_path, "main (int64 x, int64[2] pads) => (y) { y = Expand (x, pads) }")
    assert error.fix == "bind it with --value pads=..."
    error = refusal(tmp_path, "main (float[2] x, int64[2] pads, float fill) => (y) { y = Pad (x, pads, fill) }")
    assert error.fix == "bind it with --value pads=..."


def test_what_depends_on_data_is_not_asked_for(tmp_path: Path) -> None:
    """spec: T10.6"""
    error = refusal(tmp_path, "main (float[2, 3] x, bool[2] c) => (y) { y = Compress <axis = 0> (x, c) }")
    assert ("ai.onnx::Compress" in str(error), "--value" in str(error)) == (True, False)


def test_a_range_may_be_given_vectors_of_one(tmp_path: Path) -> None:
    text = """main (float x) => (y) { a = Constant <value_ints = [0]> () b = Constant <value_ints = [6]> ()
        c = Constant <value_ints = [2]> () y = Range (a, b, c) }"""
    assert resolved(tmp_path, text).sizes["y"] == ((3,), "int64")


def test_a_graph_output_may_be_a_graph_input_or_a_weight(tmp_path: Path) -> None:
    model = model_of("main (float[2] x) => (float[2] x, float[3] w) { }")
    model.graph.initializer.append(TensorProto(name="w", dims=[3], data_type=TensorProto.FLOAT))
    assert resolved(tmp_path, model).sizes == {"x": ((2,), "float32"), "w": ((3,), "float32")}


def test_the_users_graph_is_left_as_it_is(tmp_path: Path) -> None:
    """spec: T10.1"""
    model = model_of(EXPAND)
    model.graph.initializer.append(with_default("t", [5]))
    assert resolved(tmp_path, model).graph == model


def test_resolving_twice_gives_the_same(tmp_path: Path) -> None:
    """spec: D1.1"""
    path = written(tmp_path, STATED)
    first, second = (resolve(path, Bindings(dims={"b": 2}, trust_shapes=True)) for _ in range(2))
    assert isinstance(first, Resolved)
    assert (first.sizes, first.bindings, list(first.sizes)) == (second.sizes, second.bindings, list(second.sizes))


def test_types_are_shown_as_people_write_them() -> None:
    assert str(Type((2, None), "int4")) == "int4 [2, ?]"
    assert str(UNKNOWN) == "unknown type [...]"
    assert UNKNOWN.size() is Type((1,), None).size() is Type((None,), "int4").size() is None


def test_the_resolution_stands_alone() -> None:
    """spec: D1.3"""
    code = """import sys, tmmu.onnx
print(sorted(m for m in sys.modules if m.split(".")[0] in ("tmmu", "proofs") and not m.startswith("tmmu.onnx")))"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    envelope = {f"tmmu.core.dims{module}" for module in ("", ".expressions", ".maxima", ".operations")}
    assert set(eval(out)) == {
        "tmmu",
        "tmmu.core.bindings",
        "tmmu.core.errors",
        "tmmu.core.extras",
        "tmmu.core.fields",
        "tmmu.core.folders",
        "tmmu.core.kind",
        "tmmu.core.output",
        "tmmu.core.reading",
        "tmmu.core",
        "tmmu.core.dtypes",
        "tmmu.core.vocabulary",
        *envelope,
    }


@pytest.mark.parametrize(
    ("nodes", "what"),
    [
        ("a, b, c, d = Split <axis = 0, num_outputs = 3> (x)", "num_outputs is 3, but there are 4 outputs"),
        ("a = GatherND <batch_dims = -3> (x, i)", "expected batch_dims from 0, got -3"),
    ],
)
def test_what_ends_the_process_in_inference_is_refused_before(nodes: str, what: str, tmp_path: Path) -> None:
    """Inference reads beyond a vector there. spec: T10.6"""
    text = f"main (float[6] x, int64[1, 1] i) => (float[N] a) {{ {nodes} }}"
    assert what in str(refusal(tmp_path, model_of(text, 18)))
