"""Shapes over an envelope: what each operator makes of open dimensions, what bodies do, and what is refused by name.

spec: R6.1, R6.2, R6.4, T10.1
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.onnx_files import model_of, refusal, resolved, written
from tests.support.operator_rows import with_row
from tmmu.core.dims.expressions import format_dim
from tmmu.core.vocabulary import Bindings
from tmmu.importers.onnx import import_onnx
from tmmu.onnx import table
from tmmu.onnx.resolution import corners
from tmmu.onnx.walk import Walk

RANGES = {"a": (1, 8), "b": (2, 5)}
STORED = """<int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] three = {3}, int64[1] last = {-1},
    int64[1] end = {100}, int64[2] keep = {0, -1}, int64[3] split = {-1, 2, 2}>"""
INPUTS = (
    "float[a, b, 12] x, float[a, b] p, float[10, 3] c, float[2, 3, a, b] i, float[4, 3, 3, 3] w, float[3, 2, 3, 3] t"
)


def shape(folder: Path, nodes: str, opset: int = 18, **ranges: tuple[int, int]) -> str:
    """The shape of `y`, made of x [a, b, 12], p [a, b], c [10, 3] and i [2, 3, a, b] (images of open sides)."""
    text = f"main ({INPUTS}) => (y) {STORED} {{ {nodes} }}"
    found = resolved(folder, model_of(text, opset=opset), ranges=RANGES | ranges)
    return ", ".join(map(format_dim, found.sizes["y"][0]))


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("y = Relu (x)", "a, b, 12"),
        ("y = Transpose <perm = [2, 0, 1]> (x)", "12, a, b"),
        ("y = Softmax (p)", "a, b"),
        ("u = Unsqueeze (p, zero) y = Add (p, u)", "1, a, b"),
        ("y = Add (c, c)", "10, 3"),
        ("q = Transpose (p) y = MatMul (p, q)", "a, a"),
        ("q = Transpose <perm = [0, 2, 1]> (x) y = MatMul (x, q)", "a, b, b"),
        ("y = Reshape (x, keep)", "a, 12*b"),
        ("y = Reshape (x, split)", "3*a*b, 2, 2"),
        ("y = Flatten <axis = 2> (x)", "a*b, 12"),
        (
            "n = Shape (x) s = Slice (n, zero, two) r = ReduceProd (s) z = Concat <axis = 0> (r, last)"
            " y = Reshape (x, z)",
            "a*b, 12",
        ),
        ("n = Shape <end = 1> (x) y = Slice (c, n, end, zero)", "-a + 10, 3"),
        ("n = Shape <start = 1, end = 2> (x) y = Slice (c, zero, n, zero)", "b, 3"),
        ("n = Shape <start = 1, end = 2> (x) g = Neg (n) y = Slice (x, g, end, one)", "a, b, 12"),
        ("y = Slice (x, last, zero, one, last)", "a, b - 1, 12"),
        ("y = Slice (x, end, zero, one, last)", "a, b - 1, 12"),
        ("e = Constant <value_ints = [-1000]> () y = Slice (x, end, e, one, last)", "a, b, 12"),
        ("y = Slice (x, zero, end, zero, two)", "(a + 1)//(2), b, 12"),
        ("y = Concat <axis = 1> (x, x)", "a, 2*b, 12"),
        ("z, y = Split <axis = 2, num_outputs = 2> (x)", "a, b, 6"),
        ("n = Shape <start = 1, end = 2> (x) m = Sub (n, one) s = Concat <axis = 0> (one, m)"
         " z, y = Split <axis = 1> (x, s)", "a, b - 1, 12"),
        ("n = Shape (p) y = Tile (p, n)", "a*a, b*b"),
        ("n = Shape (p) y = ConstantOfShape (n)", "a, b"),
        ("n = Shape <end = 1> (p) z = Concat <axis = 0> (n, zero, zero, one) y = Pad (p, z)", "2*a, b + 1"),
        ("n = Size (p) z = Squeeze (zero) o = Squeeze (one) y = Range (z, n, o)", "a*b"),
        ("n = Size (p) z = Squeeze (zero) o = Squeeze (two) y = Range (z, n, o)", "(a*b + 1)//(2)"),
        ("n = Shape (x) e = Equal (n, last) k = Where (e, n, n) y = Expand (x, k)", "a, b, 12"),
        ("n = Shape (p) m = Max (n, two) k = Min (m, end) y = ConstantOfShape (k)", "max(2, a), b"),
        ("n = Shape (p) m = Mod (n, two) y = ConstantOfShape (m)", "a - 2*(a)//(2), b - 2*(b)//(2)"),
        ("n = Shape (p) m = Sub (two, n) k = Abs (m) g = ReduceMax (k) y = Relu (p)", "a, b"),
        ("y = GlobalAveragePool (i)", "2, 3, 1, 1"),
        ("y = Conv <pads = [1, 1, 1, 1]> (i, w)", "2, 4, a, b"),
        ("y = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (i, w)", "2, 4, (a + 1)//(2), (b + 1)//(2)"),
        ("y = Conv <auto_pad = \"SAME_UPPER\", strides = [2, 1]> (i, w)", "2, 4, (a + 1)//(2), b"),
        ("y = ConvTranspose <strides = [2, 2]> (i, t)", "2, 2, 2*a + 1, 2*b + 1"),
        ("y = MaxPool <kernel_shape = [1, 2], auto_pad = \"VALID\"> (i)", "2, 3, a, b - 1"),
        (
            "y = MaxPool <kernel_shape = [1, 3], strides = [1, 2], pads = [0, 1, 0, 1], ceil_mode = 1> (i)",
            "2, 3, a, (b)//(2) + 1",
        ),
        ("s = Constant <value = float[4] {1.0, 1.0, 2.0, 3.0}> () y = Resize (i, , s)", "2, 3, 2*a, 3*b"),
        ("n = Shape (i) y = Resize (i, , , n)", "2, 3, a, b"),
        ("v = Unsqueeze (p, zero) y = Squeeze (v, zero)", "a, b"),
        ("v, y = TopK <axis = 0> (p, one)", "1, b"),
        ("y = Gather <axis = 1> (x, two)", "a, 1, 12"),
        ("y = ReduceSum (x, one)", "a, 1, 12"),
    ],
)  # fmt: skip
def test_open_dimensions_go_through_operators(nodes: str, expected: str, tmp_path: Path) -> None:
    assert shape(tmp_path, nodes) == expected


def test_no_window_begins_in_the_padding_behind_the_data_since_version_22(tmp_path: Path) -> None:
    pool = "y = AveragePool <kernel_shape = [1, 1], strides = [2, 1], ceil_mode = 1> (i)"
    assert shape(tmp_path, pool, opset=22) == "2, 3, min((a + 1)//(2), (a)//(2) + 1), b"


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("y = Add (x, p)", r"\[a, b, 12\] and \[a, b\] cannot be broadcast for every shape: 12 against a|b against a"),
        ("q = Transpose (p) y = MatMul (q, q)", "do not fit for every shape: a against b"),
        ("s = Concat <axis = 0> (two, last) y = Reshape (p, s)", r"\[a, b\] cannot become \[2, -1\] for every shape"),
        ("n = Shape (p) m = Sub (n, two) y = Reshape (p, m)", "a dimension of a - 2 may be 0 or less"),
        ("y = Squeeze (p, zero)", r"dimension 0 of \[a, b\] is not 1 for every shape"),
        ("z = Transpose (p) y = Concat <axis = 1> (p, z)", "do not fit for every shape: a against b"),
        ("s = Concat <axis = 0> (one, one) z, y = Split <axis = 0> (x, s)", "2 against a"),
        ("n = Shape <end = 1> (p) m = Sub (n, three) y = Slice (x, m, end, zero)", "negative only for some shapes"),
        ("y = Conv (i, w)", "Conv: a window of 3 does not fit a for every shape"),
        ("y = MaxPool <kernel_shape = [1, 1], strides = [2, 2], ceil_mode = 1> (i)", "not stated before version 22"),
        ("n = Shape (p) m = Sub (n, three) y = ConstantOfShape (m)", "dimension 0, a - 3, may be negative at a=1"),
        (
            "n = Shape (p) g = Greater (n, three) k = Where (g, n, three) y = ConstantOfShape (k)",
            "depends on the value",
        ),
        ("y = Squeeze (p)", "its shape|no rule"),
    ],
)
def test_what_does_not_hold_for_every_shape_is_refused_by_name(nodes: str, message: str, tmp_path: Path) -> None:
    """spec: R6.2"""
    text = f"main ({INPUTS}) => (y) {STORED} {{ {nodes} }}"
    error = refusal(tmp_path, model_of(text), ranges=RANGES)
    assert error.code_id in ("INVALID_IR_SHAPES", "INVALID_IR")
    assert re.search(message, str(error)), str(error)


def test_a_cache_is_planned_for_the_smallest_sequence(tmp_path: Path) -> None:
    """`cache[seq:1024]` shrinks as the sequence grows."""
    text = """main (float[seq, 8] x, float[1024, 8] cache) => (y, tail) <int64[1] zero = {0}, int64[1] end = {1024}> {
        n = Shape <end = 1> (x) tail = Slice (cache, n, end, zero) y = Relu (x) }"""
    model = import_onnx(written(tmp_path, model_of(text)), Bindings(ranges={"seq": (24, 1024)}))
    sizes = {tensor.name: tensor.bytes for tensor in model.tensors}
    assert sizes["tail"] == 32 * (1024 - 24)
    assert sizes["y"] == 32 * 1024


BODY = """main (float[n, 4] x, bool flag, int64 trips) => (y, z) <bool yes = {1}> {
    y = If (flag) <then_branch = inner () => (float[n, 4] t) { t = Relu (x) },
        else_branch = other () => (float[n, 4] e) { e = Tanh (x) }>
    s = Shape <end = 1> (x) m = Squeeze (s)
    k, z = Loop (m, yes, x) <body = round (int64 r, bool c, float[n, 4] v) => (bool again, float[n, 4] w, float[n, 4] u)
        { again = Identity (c) w = Add (v, x) u = Relu (w) }>
}"""


def test_bodies_are_worked_out_for_every_shape(tmp_path: Path) -> None:
    """A Loop runs as often as a dimension says, and stacks what it makes."""
    sizes = resolved(tmp_path, model_of(BODY), ranges={"n": (1, 6)}).sizes
    assert [format_dim(dim) for dim in sizes["y"][0]] == ["n", "4"]
    assert [format_dim(dim) for dim in sizes["z"][0]] == ["n", "n", "4"]


def test_branches_of_different_shapes_are_refused(tmp_path: Path) -> None:
    text = """main (float[n, 4] x, bool flag) => (y) {
        y = If (flag) <then_branch = a () => (float[q, 4] t) { t = Relu (x) },
        else_branch = b () => (float[q, 4] e) { e = Concat <axis = 0> (x, x) }> }"""
    assert "'flag'" in str(refusal(tmp_path, model_of(text), ranges={"n": (1, 6)}))


def test_a_condition_that_the_envelope_decides_rules_a_branch_out(tmp_path: Path) -> None:
    """spec: T10.5"""
    text = """main (float[n, 4] x) => (y) <int64 small = {9}> {
        s = Shape <end = 1> (x) m = Squeeze (s) c = Less (m, small)
        y = If (c) <then_branch = a () => (float[q, 4] t) { t = Relu (x) },
        else_branch = b () => (float[q, 4] e) { e = Concat <axis = 0> (x, x) }> }"""
    found = resolved(tmp_path, model_of(text), ranges={"n": (1, 6)})
    assert len(found.ruled_out) == 1
    assert "its shape depends on" in str(refusal(tmp_path, model_of(text), ranges={"n": (1, 12)}))


def test_shapes_that_the_file_states_are_believed_for_open_dimensions_too(tmp_path: Path) -> None:
    text = "main (float[n, 4] x) => (y) <float[n, 2] t> { t = own.Op (x) y = Relu (t) }"
    model = model_of(text, more=', "own" : 1')
    found = resolved(tmp_path, model, ranges={"n": (1, 6)}, trust_shapes=True)
    assert [format_dim(dim) for dim in found.sizes["y"][0]] == ["n", "2"]
    assert "own::Op" in str(refusal(tmp_path, model, ranges={"n": (1, 6)}))


@pytest.mark.parametrize(
    ("ranges", "dims", "message"),
    [
        ({"n": (6, 1)}, {}, "the range 6 to 1 is empty"),
        ({"n": (1, 6)}, {"n": 3}, "bound twice"),
        ({"m": (1, 6)}, {}, "no dimension is named 'm'"),
        ({"n": (1, 1 << 63)}, {}, "expected a dimension from 0 to 9223372036854775807, got 9223372036854775808"),
        ({"n": (1, 1 << 62)}, {}, "does not fit 64 bits at n=4611686018427387904"),
    ],
)
def test_ranges_that_the_model_cannot_have_are_refused(
    ranges: dict[str, tuple[int, int]], dims: dict[str, int], message: str, tmp_path: Path
) -> None:
    model = model_of("main (float[n, 4] x) => (y) { y = Relu (x) }")
    assert message in str(refusal(tmp_path, model, ranges=ranges, dims=dims))


def test_a_whole_shape_does_not_go_with_a_range_of_its_dimension(tmp_path: Path) -> None:
    model = model_of("main (float[n, 4] x) => (y) { y = Relu (x) }")
    said = str(refusal(tmp_path, model, ranges={"n": (1, 6)}, shapes={"x": (3, 4)}))
    assert "'n' is bound twice: from 1 to 6 and 3" in said


def test_an_expression_that_is_wrong_at_a_corner_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that forgets a dimension gives another size than the operators do."""
    wrong = replace(table.row_of("", "Concat"), shapes=lambda asked: [asked.shape(0)])
    monkeypatch.setattr(table, "OPERATORS", with_row(table.OPERATORS, wrong))
    model = model_of("main (float[n, 4] x) => (y) { y = Concat <axis = 0> (x, x) }")
    said = str(refusal(tmp_path, model, ranges={"n": (1, 6)}))
    assert re.search(r"\[2, 4\] at n=1, but \[n, 4\] gives \[1, 4\]", said)


def test_a_shape_of_the_envelope_at_which_the_model_is_wrong_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = replace(table.row_of("", "Reshape"), shapes=lambda asked: [(1, 4)])
    monkeypatch.setattr(table, "OPERATORS", with_row(table.OPERATORS, wrong))
    model = model_of("main (float[n, 4] x) => (y) <int64[2] s = {1, 4}> { y = Reshape (x, s) }")
    assert "(at n=6, which is in the envelope)" in str(refusal(tmp_path, model, ranges={"n": (1, 6)}))


def test_the_corners_lie_inside_and_are_none_without_an_envelope() -> None:
    assert corners({}) == []
    for corner in corners({"a": (3, 4), "b": (0, 1), "c": (7, 1 << 40)}):
        assert 3 <= corner["a"] <= 4
        assert 0 <= corner["b"] <= 1
        assert 7 <= corner["c"] <= 1 << 40
    assert Walk.__doc__
