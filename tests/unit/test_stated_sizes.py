"""Sizes that a user states of tensors of which nothing else gives them, in planner, verifier and files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import ran
from tests.support.onnx_files import model_of, refusal, resolved, written
from tests.support.verdicts import judged
from tmmu.core.bindings import bindings_object, parse_size, read_bindings
from tmmu.core.vocabulary import Bindings
from tmmu.importers.onnx import import_onnx
from tmmu.ir import text, text_writer

OWN = """main (float[n, 4] x, bool b) => (float[n, 4] y, z) {
    a = com.example.Mix (x)
    c = com.example.Count (a)
    r = Relu (a)
    y = Add (r, x)
    z = Identity (c)
}"""
MORE = ', "com.example" : 1'


def own(body: str = OWN):  # type: ignore[no-untyped-def]
    return model_of(body, more=MORE)


def test_what_is_stated_gives_the_sizes_that_nothing_else_gives(tmp_path: Path) -> None:
    """Those that follow from them are worked out. spec: T10.14"""
    given = resolved(tmp_path, own(), dims={"n": 3}, shapes={"x": (3, 4)}, stated={"a": "f32:3x4", "c": "bytes:10"})
    assert given.sizes["a"] == given.sizes["y"] == ((3, 4), "float32")
    assert given.sizes["c"] == given.sizes["z"] == ((10,), "uint8")
    assert given.bindings.stated == {"a": "f32:3x4", "c": "bytes:10"}
    assert given.bindings.shapes == {"x": (3, 4)}


def test_a_shape_of_what_is_no_input_is_stated_and_only_what_is_needed_is_recorded(tmp_path: Path) -> None:
    """spec: T10.14"""
    body = OWN.replace("com.example.Mix (x)", "Cast <to = 1> (x)")
    given = resolved(tmp_path, own(body), dims={"n": 3}, shapes={"a": (3, 4), "r": (3, 4)}, stated={"c": "bytes:1"})
    assert given.bindings.stated == {"c": "bytes:1"}
    assert given.bindings.shapes == {}


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"y": "f32:3x5"}, "float32 [3, 4], not f32:3x5"),
        ({"y": "float64:3x4"}, "float32 [3, 4]"),
        ({"y": "bytes:48"}, "float32 [3, 4]"),
        ({"nowhere": "bytes:48"}, "no tensor is named"),
        ({"w": "bytes:48"}, "its size is stored"),
        ({"x": "f32:3x4"}, "the model states the element type of a graph input"),
        ({"c": "1x"}, "expected a size"),
        ({"c": "word:1"}, "expected a size"),
        ({"c": "bytes:1x2"}, "no tensor can have the size"),
        ({"c": f"f32:{1 << 64}"}, "no tensor can have the size"),
        ({"c": "3"}, "its element type is not known"),
    ],
)
def test_what_contradicts_the_model_or_names_nothing_is_refused(
    stated: dict[str, str], words: str, tmp_path: Path
) -> None:
    """spec: T10.7, T10.14"""
    body = OWN.replace("z) {", "z) <float[2] w = {1, 2}> {")
    error = refusal(tmp_path, own(body), dims={"n": 3}, stated={"a": "f32:3x4", "c": "bytes:2"} | stated)
    assert error.code_id == "INVALID_BINDING"
    assert words in error.what


def test_a_tensor_of_which_nothing_is_known_is_refused_with_the_flags(tmp_path: Path) -> None:
    """spec: T10.6, T10.14"""
    error = refusal(tmp_path, own(), dims={"n": 3})
    assert "--shape a=float32:1x10" in str(error.fix)
    assert "--bytes a=40" in str(error.fix)


def test_what_is_no_tensor_is_planned_by_its_bytes(tmp_path: Path) -> None:
    """spec: T9.2, T10.14"""
    body = """main (float[n, 4] x, string[2] names) => (float[n, 4] y, parts) {
        parts = SplitToSequence <axis = 0> (x)
        m = com.example.Count (names)
        y = Relu (x) }"""
    assert "sequence" in refusal(tmp_path, own(body), dims={"n": 3}, stated={"names": "bytes:9", "m": "bytes:1"}).what
    given = {"names": "bytes:9", "m": "bytes:1", "parts": "bytes:48"}
    model = import_onnx(written(tmp_path, own(body)), Bindings(dims={"n": 3}, stated=given))
    assert {tensor.name: tensor.bytes for tensor in model.tensors}["parts"] == 48
    assert {tensor.name: tensor.bytes for tensor in model.tensors}["names"] == 9
    assert model.bindings.stated == given


def test_a_verdict_lists_what_was_stated_and_the_plans_word_does_not_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: V5.3, V5.5, C1.6"""
    model, plan = written(tmp_path, own()), str(tmp_path / "p.plan.cbor")
    given = ["--shape", "a=f32:3x4", "--bytes", "c=10"]
    assert ran(capsys, "plan", model, "--dim", "n=3", *given, "-o", plan)[0] == 0
    assert judged(plan, model, given)[0] == 0
    assert "; sizes as given here: a=float32:3x4, c=bytes:10" in judged(plan, model, given)[1]
    assert judged(plan, model, [*given, "--require", "sizes"])[0] == 3
    assert judged(plan, model, given[:2])[0] == 4
    assert judged(plan, model, [*given[:3], "c=11"])[0] == 2


def test_an_ir_file_takes_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: T10.7"""
    path = tmp_path / "m.ir.txt"
    path.write_text("tmmu-ir-text 1\ntensor x f32 4 input\ntensor y f32 4 output\nnode n Relu x -> y\n")
    assert "binds nothing" in ran(capsys, "plan", str(path), "--bytes", "y=16")[2]


@pytest.mark.parametrize("shape", ["1x10", "scalar", "float32:1x10", "bytes:40"])
def test_files_keep_what_was_stated(shape: str, tmp_path: Path) -> None:
    """spec: P1.3, X3.9, X3.10"""
    bound = Bindings(stated={"a": shape})
    assert read_bindings(bindings_object(bound)) == bound
    assert "stated" not in bindings_object(Bindings())
    body = OWN.replace("com.example.Mix (x)", "Neg (x)")
    model = import_onnx(written(tmp_path, own(body)), Bindings(dims={"n": 3}, stated={"c": "bytes:10"}))
    assert text.read(text_writer.write(model).encode(), "m").bindings == model.bindings
    with pytest.raises(ValueError, match="text"):
        read_bindings({**bindings_object(bound), "stated": {"a": 3}})
    assert parse_size(shape)[0] == {"scalar": (), "bytes:40": (40,)}.get(shape, (1, 10))
