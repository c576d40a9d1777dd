"""Which files are models, what of them is kept, and how far functions expand."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support.onnx_files import model_of, refusal, resolved, written
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Bindings
from tmmu.onnx import functions, reading, resolve

RELU = "main (float[3] x) => (float[3] y) { y = Relu (x) }"


@pytest.mark.parametrize(
    "data",
    # Among them two that parse: a version alone, and a version with an empty graph.
    [b"", b"\x08\x08", b"\x08\x08\x3a\x00", b"\xff" * 40, b"not a model at all"],
)
def test_bytes_that_are_no_model_are_refused(tmp_path: Path, data: bytes) -> None:
    """spec: C2.6"""
    assert refusal(tmp_path, data).code_id == "INVALID_IR"


def test_a_path_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """spec: C2.6"""
    for path, words in ((tmp_path / "none.onnx", "No such file"), (tmp_path, "")):
        with pytest.raises(TmmuError) as caught:
            resolve(path)
        assert (caught.value.code_id, caught.value.file) == ("INVALID_IR", str(path))
        assert words in str(caught.value)


def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    seen: list[BaseException] = []

    def read() -> None:
        try:
            resolve(tmp_path / "pipe")
        except TmmuError as error:
            seen.append(error)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(20)
    assert "not a regular file" in str(seen[0])


def test_a_file_beyond_the_limit_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, model_of(RELU))
    monkeypatch.setattr(reading, "FILE_LIMIT", Path(path).stat().st_size)
    assert resolve(path).sizes["y"] == ((3,), "float32")
    monkeypatch.setattr(reading, "FILE_LIMIT", Path(path).stat().st_size - 1)
    with pytest.raises(TmmuError, match="expected at most"):
        resolve(path)


WITH_BODIES = """main (float[n] x, bool c) => (y) <float[3] w = {1, 2, 3}, int64[1] t = {-1}> {
    [first] a = Add (x, w) r = Reshape (a, t)
    y = If (c) <then_branch = then () => (p) { p = Clip (r, , low) }, else_branch = other () => (q) { q = Tanh (r) }>
    low = Constant <value_float = 1.0> ()
}"""


def test_any_damage_to_a_file_is_a_refusal_or_harmless(tmp_path: Path) -> None:
    """spec: C2.6"""
    model = model_of(WITH_BODIES)
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([nodes[3], *nodes[:3]])
    data = model.SerializeToString()
    assert resolve(written(tmp_path, data), Bindings(dims={"n": 3})).sizes["y"] == ((3,), "float32")
    refused: list[TmmuError] = []
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1 << position % 8
        path = written(tmp_path, bytes(damaged))
        try:
            resolve(path, Bindings(dims={"n": 3}))
        except TmmuError as error:
            refused.append(error)
    assert 0 < len(refused) < len(data)
    assert {error.code_id for error in refused} == {"INVALID_IR", "INVALID_IR_SHAPES", "INVALID_BINDING"}
    assert not any("\n" in str(error) or error.file != path for error in refused)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("opset", 6, "expected an opset from 7 to"),
        ("opset", 10_000, "update onnx"),
        ("ir_version", 10_000, "got 10000"),
    ],
)
def test_versions_that_are_not_understood_are_refused(tmp_path: Path, field: str, value: int, words: str) -> None:
    model = model_of(RELU)
    if field == "opset":
        model.opset_import[0].version = value
    else:
        model.ir_version = value
    assert words in str(refusal(tmp_path, model))


def test_the_version_of_the_operators_is_stated_once(tmp_path: Path) -> None:
    model = model_of(RELU)
    model.opset_import.add(domain="ai.onnx", version=18)
    assert resolved(tmp_path, model).sizes["y"] == ((3,), "float32")
    model.opset_import[1].version = 17
    assert "the version of the operators" in str(refusal(tmp_path, model))
    del model.opset_import[:]
    assert "the version of the operators" in str(refusal(tmp_path, model))
    model.opset_import.add(domain="com.example", version=1)
    assert "operators of ai.onnx" in str(refusal(tmp_path, model))
    model.graph.node[0].domain = "com.example"
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 3
    assert resolved(tmp_path, model, trust_shapes=True).sizes["y"] == ((3,), "float32")


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    data = model_of("main (float[3] input) => (float[3] y) { y = Relu (input) }").SerializeToString()
    assert "not UTF-8" in str(refusal(tmp_path, data.replace(b"input", b"inp\xfft")))


def test_the_digest_is_that_of_the_file(tmp_path: Path) -> None:
    """spec: R2.3"""
    path = written(tmp_path, model_of(RELU))
    assert resolve(path).source_digest == hashlib.sha256(Path(path).read_bytes()).digest()


def with_weight(tensor: TensorProto) -> onnx.ModelProto:
    model = model_of("main (float[1, 512] x) => (float[1, 1024] y) { y = MatMul (x, w) }")
    model.graph.initializer.append(tensor)
    return model


def test_weights_are_needed_by_their_header_alone(tmp_path: Path) -> None:
    external = TensorProto(name="w", dims=[512, 1024], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    external.external_data.add(key="location", value="/etc/hostname")
    absent = TensorProto(name="w", dims=[512, 1024], data_type=TensorProto.FLOAT)
    inline = numpy_helper.from_array(np.zeros((512, 1024), np.float32), "w")
    for tensor in (external, absent, inline):
        found = resolved(tmp_path, with_weight(tensor))
        assert (found.sizes["w"], found.sizes["y"]) == (((512, 1024), "float32"), ((1, 1024), "float32"))


def test_the_data_of_large_weights_are_dropped_and_of_small_ones_kept(tmp_path: Path) -> None:
    model = with_weight(numpy_helper.from_array(np.ones((512, 1024), np.float32), "w"))
    model.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float32), "small"))
    constant = helper.make_tensor("c", TensorProto.FLOAT, [300_000], np.ones(300_000, np.float32).tolist())
    model.graph.node.append(helper.make_node("Constant", [], ["c"], value=constant))
    found = resolved(tmp_path, model)
    w, small = found.graph.graph.initializer
    assert (len(w.raw_data), len(small.raw_data)) == (0, 12)
    assert found.sizes["c"] == ((300_000,), "float32")
    assert not found.graph.graph.node[1].attribute[0].t.float_data


def test_a_sparse_weight_counts_as_the_dense_one_that_it_stands_for(tmp_path: Path) -> None:
    model = model_of("main (float[1, 8] x) => (float[1, 4] y) { y = MatMul (x, w) }")
    values = helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0])
    indices = helper.make_tensor("w_at", TensorProto.INT64, [2], [3, 17])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [8, 4]))
    assert resolved(tmp_path, model).sizes["w"] == ((8, 4), "float32")


FUNCTIONS = """main (float[3] x) => (float[3] y) { y = local.twice (x) }
<domain: "local", opset_import: ["" : 18, "local" : 1]> twice (a) => (c) { b = local.once (a) c = local.once (b) }
<domain: "local", opset_import: ["" : 18]> once (a) => (b) { b = Relu (a) }
"""


def test_local_functions_are_inlined(tmp_path: Path) -> None:
    found = resolved(tmp_path, model_of(FUNCTIONS, more=', "local" : 1'))
    assert [node.op_type for node in found.graph.graph.node] == ["Relu", "Relu"]
    assert len(found.sizes) == 3
    assert set(found.sizes.values()) == {((3,), "float32")}


def test_a_function_called_in_a_body_is_inlined_there(tmp_path: Path) -> None:
    text = """main (float[3] x, bool c) => (float[3] y) {
        y = If (c) <then_branch = t () => (float[3] p) { p = local.once (x) },
                    else_branch = e () => (float[3] q) { q = Tanh (x) }>
    }
    <domain: "local", opset_import: ["" : 18]> once (a) => (b) { b = Relu (a) }"""
    found = resolved(tmp_path, model_of(text, more=', "local" : 1'))
    assert [node.op_type for node in found.graph.graph.node[0].attribute[0].g.node] == ["Relu"]


def test_a_function_that_calls_itself_is_refused(tmp_path: Path) -> None:
    text = FUNCTIONS.replace("b = Relu (a)", "b = local.twice (a)")
    text = text.replace('["" : 18]> once', '["" : 18, "local" : 1]> once')
    assert "calls itself" in str(refusal(tmp_path, model_of(text, more=', "local" : 1')))


def test_a_function_is_defined_once(tmp_path: Path) -> None:
    model = model_of(FUNCTIONS, more=', "local" : 1')
    model.functions.append(model.functions[1])
    assert "function 'once': it is defined twice" in str(refusal(tmp_path, model))


@pytest.mark.parametrize(
    ("domain", "name"),
    [
        ("", "Concat"),
        ("ai.onnx", "Concat"),
        ("", "Gelu"),
        ("ai.onnx.ml", "Scaler"),
        ("ai.onnx.preview.training", "Adam"),
        ("com.microsoft", "Gelu"),
    ],
)
def test_a_function_with_the_name_of_an_operator_is_refused(tmp_path: Path, domain: str, name: str) -> None:
    """ONNX leaves to the runtime which of the two runs, whether it is called or not. spec: T10.9"""
    model = model_of(FUNCTIONS, more=', "local" : 1')
    model.functions[1].domain, model.functions[1].name = domain, name
    assert f"function '{name}': an operator of ONNX or of a runtime has the same name" in str(refusal(tmp_path, model))


PICK = """<domain: "local", opset_import: ["" : 18]> pick {axis} (a, i) => (b) {{
    b = Gather <axis: int = @axis> (a, i) }}
"""
OUTER = """<domain: "local", opset_import: ["" : 18, "local" : 1]> outer {0} (a, i) => (b) {{
    b = local.pick <axis: int = @{1}> (a, i) }}
"""
DEFAULT, NONE = "<axis: int = 1>", "<axis>"


@pytest.mark.parametrize(
    ("call", "functions", "shape"),
    [
        ("pick", PICK.format(axis=DEFAULT), (3, 5)),
        ("pick <axis = 0>", PICK.format(axis=DEFAULT), (5, 2)),
        ("pick <axis = 1>", PICK.format(axis=NONE), (3, 5)),
        ("pick", PICK.format(axis=NONE), (5, 2)),  # Gather's own default
        ("outer", PICK.format(axis=NONE) + OUTER.format("<by: int = 1>", "by"), (3, 5)),
        ("outer", PICK.format(axis=DEFAULT) + OUTER.format("<by>", "by"), (3, 5)),
        ("outer <by = 0>", PICK.format(axis=DEFAULT) + OUTER.format("<by>", "by"), (5, 2)),
        ("outer", PICK.format(axis=NONE) + OUTER.format("<by>", "by"), (5, 2)),
    ],
)
def test_attributes_of_functions_have_their_values(
    call: str, functions: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    """Those of the call, else the defaults, else none; in a body as well, and for several calls. spec: T10.1"""
    text = f"""main (float[3, 2] x, int64[5] i, bool c) => (y, z, w) {{
        y = local.{call} (x, i)
        z = If (c) <then_branch = t () => (p) {{ p = local.{call} (x, i) }},
                    else_branch = e () => (q) {{ q = Exp (y) }}>
        w = local.{call.split()[0]} <{"by" if "outer" in call else "axis"} = 1> (x, i)
    }}
    {functions}"""
    model = model_of(text, ir_version=9, more=', "local" : 1')
    found = resolved(tmp_path, model)
    assert [found.sizes[name][0] for name in "yzw"] == [shape, shape, (3, 5)]


def test_a_function_of_another_opset_is_refused(tmp_path: Path) -> None:
    text = FUNCTIONS.replace('["" : 18]> once', '["" : 17]> once')
    assert "another version of the operators" in str(refusal(tmp_path, model_of(text, more=', "local" : 1')))


def test_functions_that_expand_beyond_reason_are_refused_unexpanded(tmp_path: Path) -> None:
    lines = ["main (float[3] x) => (float[3] y) { y = local.f0 (x) }"]
    for level in range(200):
        calls = f"b = local.f{level + 1} (a) c = local.f{level + 1} (b)"
        lines.append(f'<domain: "local", opset_import: ["" : 18, "local" : 1]> f{level} (a) => (c) {{ {calls} }}')
    lines.append('<domain: "local", opset_import: ["" : 18]> f200 (a) => (c) { c = Relu (a) }')
    error = refusal(tmp_path, model_of("\n".join(lines), more=', "local" : 1'))
    assert error.code_id == "INVALID_IR"
    assert "its functions expand to" in str(error)


def test_the_limits_of_expansion_are_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(FUNCTIONS, more=', "local" : 1')
    monkeypatch.setattr(functions, "NODE_LIMIT", 4)  # the two calls, and in each the one node
    assert "y" in resolved(tmp_path, model).sizes
    monkeypatch.setattr(functions, "NODE_LIMIT", 3)
    assert "the limits are 3" in str(refusal(tmp_path, model))
