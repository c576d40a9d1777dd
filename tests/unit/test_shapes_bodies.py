"""If, Loop and Scan: what their bodies are given, which run, and what comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper

from tests.support.onnx_files import model_of, refusal, resolved


def branches(then: str, otherwise: str, inputs: str = "float[4] x, bool c", before: str = "") -> str:
    return f"""main ({inputs}) => (y) {{ {before}
        [n] y = If (c) <then_branch = t () => (p) {{ {then} }}, else_branch = e () => (q) {{ {otherwise} }}>
    }}"""


RELU_OR_TANH = branches("p = Relu (x)", "q = Tanh (x)")
HALVES = branches("p = Relu (x)", "a, q = Split <num_outputs = 2> (x)")


def test_an_undecided_condition_keeps_both_branches(tmp_path: Path) -> None:
    found = resolved(tmp_path, RELU_OR_TANH)
    assert found.ruled_out == frozenset()
    assert {name: size[0] for name, size in found.sizes.items()} == {
        "x": (4,), "c": (), "n/then_branch/p": (4,), "n/else_branch/q": (4,), "y": (4,),
    }  # fmt: skip


@pytest.mark.parametrize(("value", "shape", "gone"), [("true", (4,), "else_branch"), ("false", (2,), "then_branch")])
def test_a_bound_condition_rules_a_branch_out(tmp_path: Path, value: str, shape: tuple[int, ...], gone: str) -> None:
    """spec: T10.5"""
    found = resolved(tmp_path, HALVES, values={"c": value})
    assert (found.sizes["y"][0], found.ruled_out) == (shape, frozenset({f"n/{gone}"}))
    assert not any(name.startswith(f"n/{gone}/") for name in found.sizes)


def test_a_branch_that_is_ruled_out_need_not_fit_the_shapes(tmp_path: Path) -> None:
    """spec: T10.5"""
    decided = "k = Constant <value_int = 9> () c = Equal (rate, k)"
    text = branches("p = Relu (x)", "q = MatMul (x, w)", "float[4] x, int64 rate", decided)
    model = model_of(text)
    model.graph.initializer.append(onnx.TensorProto(name="w", dims=[5, 5], data_type=1))
    assert resolved(tmp_path, model, values={"rate": "9"}).sizes["y"][0] == (4,)
    error = refusal(tmp_path, model, values={"rate": "8"})
    assert (error.code_id, error.place) == ("INVALID_IR_SHAPES", "node 'n/else_branch/MatMul#0'")
    assert "--value" not in str(error)
    error = refusal(tmp_path, model)  # undecided, both have to fit
    assert error.place == "node 'n/else_branch/MatMul#0'"
    assert "--value rate=..." in str(error)


def test_the_flag_is_that_of_the_innermost_branch_that_a_flag_decides(tmp_path: Path) -> None:
    """spec: T10.6"""
    text = """main (float[4] x, float[5] w, bool c, int64 n) => (y) {
        y = If (c) <then_branch = t () => (p) { p = Relu (x) }, else_branch = e () => (q) {
            q = Loop (n, , x) <body = b (int64 i, bool go, v) => (go, u) {
                even = Equal (i, n)
                u = If (even) <then_branch = g () => (r) { r = Add (v, w) }, else_branch = h () => (s) { s = Abs (v) }>
            }>
        }>
    }"""
    error = refusal(tmp_path, text)
    assert error.place == "node 'If#0/else_branch/Loop#0/body/If#1/then_branch/Add#0'"
    assert "--value c=..." in str(error.fix)
    assert resolved(tmp_path, text, values={"c": "true"}).sizes["y"][0] == (4,)
    without = text.replace("bool c, int64 n", "int64 n").replace("y = If (c)", "c = Less (n, n) z = Not (c) y = If (z)")
    assert "--value n=..." in str(refusal(tmp_path, without))
    unhelped = text.replace("bool c, int64 n", "int64 n, float[2, 2] f").replace(
        "y = If (c)", "t = ReduceMax <keepdims = 0> (f) c = Cast <to = 9> (t) y = If (c)"
    )
    assert "--value" not in str(refusal(tmp_path, unhelped))


def test_a_condition_that_follows_from_shapes_rules_a_branch_out(tmp_path: Path) -> None:
    """spec: T10.5"""
    before = "s = Size (x) k = Constant <value_int = 4> () c = Equal (s, k)"
    text = branches("p = Relu (x)", "a, q = Split <num_outputs = 2> (x)", "float[n] x", before)
    assert resolved(tmp_path, text, dims={"n": 4}).sizes["y"][0] == (4,)
    assert resolved(tmp_path, text, dims={"n": 6}).sizes["y"][0] == (3,)


def test_branches_of_different_shapes_are_refused_with_the_flag_that_decides(tmp_path: Path) -> None:
    """spec: T10.6"""
    error = refusal(tmp_path, HALVES)
    assert (error.code_id, error.place) == ("INVALID_IR_SHAPES", "tensor 'y' of node 'n'")
    assert "--value c=..." in str(error)


def test_branches_of_different_types_are_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, branches("p = Relu (x)", "q = Cast <to = 7> (x)"))
    assert (error.code_id, "result 0" in str(error)) == ("INVALID_IR", True)


def test_the_value_of_the_branch_that_is_taken_is_known(tmp_path: Path) -> None:
    text = """main (float one, bool c) => (z) {
        [n] y = If (c) <then_branch = t () => (p) { p = Constant <value_ints = [5, 6]> () },
                        else_branch = e () => (q) { q = Constant <value_ints = [7]> () }>
        z = Expand (one, y)
    }"""
    assert resolved(tmp_path, text, values={"c": "1"}).sizes["z"][0] == (5, 6)
    assert resolved(tmp_path, text, values={"c": "0"}).sizes["z"][0] == (7,)


def test_a_value_that_an_undecided_branch_gives_is_unknown(tmp_path: Path) -> None:
    text = """main (float one, bool c) => (z) {
        [n] y = If (c) <then_branch = t () => (p) { p = Constant <value_ints = [5]> () },
                        else_branch = e () => (q) { q = Constant <value_ints = [7]> () }>
        z = Expand (one, y)
    }"""
    assert "'y', a result of If" in str(refusal(tmp_path, text))


def test_a_branch_may_return_what_it_captures(tmp_path: Path) -> None:
    text = """main (float[4] x, bool c) => (y) {
        [n] y = If (c) <then_branch = t () => (x) { }, else_branch = e () => (q) { q = Relu (x) }>
    }"""
    assert resolved(tmp_path, text).sizes["y"] == ((4,), "float32")
    assert resolved(tmp_path, text, values={"c": "true"}).sizes["y"] == ((4,), "float32")


def test_conditions_inside_conditions_are_decided_too(tmp_path: Path) -> None:
    """spec: T10.5"""
    text = """main (float[4] x, bool c, bool d) => (y) {
        [n] y = If (c) <then_branch = t () => (p) {
                [m] p = If (d) <then_branch = tt () => (r) { r = Relu (x) },
                                else_branch = te () => (s) { s = Tanh (x) }>
            }, else_branch = e () => (q) { q = Abs (x) }>
    }"""
    assert resolved(tmp_path, text, values={"d": "0"}).ruled_out == {"n/then_branch/m/then_branch"}
    assert resolved(tmp_path, text, values={"c": "0"}).ruled_out == {"n/then_branch"}


def loop(body: str, states: str = "x", results: str = "y", inputs: str = "float[4] x, int64 n, bool c") -> str:
    return f"main ({inputs}) => ({results}) {{ [l] {results} = Loop (n, c, {states}) <body = b {body}> }}"


STEP = "(int64 i, bool d, v) => (d, w) { w = Relu (v) }"
STACK = "(int64 i, bool d, v) => (d, w, s) { w = Relu (v) s = Tanh (v) }"


def asks(condition: str) -> str:
    """The body of STACK that decides itself whether to go on."""
    return STACK.replace("(d, w, s) {", f"(go, w, s) {{ {condition}")


def test_a_loop_hands_its_states_on(tmp_path: Path) -> None:
    found = resolved(tmp_path, loop(STEP))
    assert found.sizes["l/body/v"] == found.sizes["l/body/w"] == found.sizes["y"] == ((4,), "float32")
    assert (found.sizes["l/body/i"], found.sizes["l/body/d"]) == (((), "int64"), ((), "bool"))


def test_what_a_body_states_of_its_inputs_is_not_believed(tmp_path: Path) -> None:
    """spec: T10.1"""
    body = "(int64 i, bool d, float[9] v) => (bool d, float[9] w) { w = Relu (v) }"
    assert resolved(tmp_path, loop(body)).sizes["l/body/v"] == ((4,), "float32")


def test_the_iteration_may_be_a_vector_of_one(tmp_path: Path) -> None:
    body = "(int64[1] i, bool[1] d, v) => (d, w) { w = Relu (v) }"
    found = resolved(tmp_path, loop(body))
    assert (found.sizes["l/body/i"], found.sizes["l/body/d"]) == (((1,), "int64"), ((1,), "bool"))


def test_a_state_that_changes_its_shape_is_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, loop("(int64 i, bool d, v) => (d, w) { w = Concat <axis = 0> (v, v) }"))
    assert (error.code_id, error.place) == ("INVALID_IR_SHAPES", "node 'l'")
    assert " 0 changes from float32 [4] to float32 [8]" in str(error)


@pytest.mark.parametrize(
    ("values", "body", "length"),
    [
        ({"n": "6", "c": "true"}, STACK, 6),
        ({"n": "0", "c": "true"}, STACK, 0),
        ({"n": "-3", "c": "true"}, STACK, 0),
        ({"n": "6", "c": "false"}, STACK, 0),
        ({"n": "6", "c": "true"}, asks("go = Not (d)"), 1),
        ({"n": "0", "c": "true"}, asks("go = Not (d)"), 0),
        ({"n": "6", "c": "true"}, asks("go = Constant <value = bool {1}> ()"), 6),
    ],
)  # fmt: skip
def test_what_a_loop_collects_is_as_long_as_it_runs(
    tmp_path: Path, values: dict[str, str], body: str, length: int
) -> None:
    found = resolved(tmp_path, loop(body, results="y, all"), values=values)
    assert found.sizes["all"] == ((length, 4), "float32")


def test_a_loop_may_have_no_state(tmp_path: Path) -> None:
    text = "main (int64 n) => (all) { all = Loop (n) <body = b (int64 i, bool d) => (d, s) { s = Neg (i) }> }"
    assert resolved(tmp_path, text, values={"n": "6"}).sizes["all"] == ((6,), "int64")
    assert "bind it with --value n=..." in str(refusal(tmp_path, text))


def test_without_a_condition_a_loop_runs_to_its_limit(tmp_path: Path) -> None:
    text = loop(STACK.replace("w = Relu", "go = Less (v, v) w = Relu"), results="y, all").replace("(n, c,", "(n, ,")
    assert resolved(tmp_path, text, values={"n": "6"}).sizes["all"] == ((6, 4), "float32")
    # What the body is told is then nothing to rely on.
    told = text.replace("(d, w, s)", "(no, w, s)").replace("w = Relu", "no = Not (d) w = Relu")
    assert resolved(tmp_path, told, values={"n": "6"}).sizes["all"] == ((6, 4), "float32")


@pytest.mark.parametrize(
    ("values", "body", "limit", "words"),
    [
        ({"c": "true"}, STACK, "n", "depends on the value of 'n'; bind it with --value n"),
        ({"n": "6"}, STACK, "n", "depends on the value of 'c'; bind it with --value c"),
        ({"c": "true"}, STACK, "", "no rule of ai.onnx::Loop gives its shape"),
        ({"n": "6", "c": "true"}, asks("go = Less (i, n)"), "n", "depends on the value of 'l/body/i'"),
    ],
)
def test_a_loop_of_unknown_length_collects_nothing_of_known_size(
    tmp_path: Path, values: dict[str, str], body: str, limit: str, words: str
) -> None:
    """spec: T10.6"""
    error = refusal(tmp_path, loop(body, results="y, all").replace("(n, c", f"({limit}, c"), values=values)
    assert (error.code_id, error.place) == ("INVALID_IR_SHAPES", "tensor 'all' of node 'l'")
    assert words in str(error)


def test_a_limit_of_many_elements_limits_nothing(tmp_path: Path) -> None:
    text = loop(STACK, results="y, all", inputs="float[4] x, int64[2] n, bool c")
    assert "ai.onnx::Loop gives its shape" in str(refusal(tmp_path, text, values={"n": "1,2", "c": "1"}))


def test_a_result_of_a_branch_may_be_left_out(tmp_path: Path) -> None:
    text = """main (float[4] x, bool c) => (z) {
        [n] , z = If (c) <then_branch = t () => (p, x) { p = Relu (x) }, else_branch = e () => (q, r) {
            q = Tanh (x) r = Abs (x) }>
    }"""
    for values in ({}, {"c": "true"}):
        assert resolved(tmp_path, text, values=values).sizes["z"][0] == (4,)


def test_nothing_is_folded_that_depends_on_an_iteration(tmp_path: Path) -> None:
    """spec: T10.3"""
    text = loop(
        """(int64 i, bool d, v) => (d, w) <int64[1] z = {0}, float o = {1}> {
            t = Unsqueeze (i, z) e = Expand (o, t) w = Relu (v)
        }"""
    )
    error = refusal(tmp_path, text, values={"n": "3", "c": "1"})
    assert error.place == "tensor 'l/body/e' of node 'l/body/Expand#1'"
    assert "'l/body/i'" in str(error)


def scan(
    body: str, operands: str, results: str = "y, all", inputs: str = "float[2] h, float[7, 4] x", **lists: Any
) -> str:
    attributes = ", ".join(f"{name} = {value}" for name, value in {"num_scan_inputs": 1, **lists}.items())
    return f"main ({inputs}) => ({results}) {{ [s] {results} = Scan ({operands}) <body = b {body}, {attributes}> }}"


SCANNED = "(float[2] a, float[4] e) => (z, o) { z = Relu (a) o = Tanh (e) }"


def test_a_scan_takes_slices_and_stacks_what_it_gives(tmp_path: Path) -> None:
    found = resolved(tmp_path, scan(SCANNED, "h, x"))
    assert found.sizes["s/body/e"] == ((4,), "float32")
    assert (found.sizes["y"][0], found.sizes["all"][0]) == ((2,), (7, 4))


@pytest.mark.parametrize("axis", [1, -1])
def test_a_scan_goes_along_any_axis(tmp_path: Path, axis: int) -> None:
    lists = {"scan_input_axes": f"[{axis}]", "scan_output_axes": f"[{axis}]"}
    found = resolved(tmp_path, scan(SCANNED, "h, x", **lists))
    assert (found.sizes["s/body/e"][0], found.sizes["all"][0]) == ((7,), (7, 4))


def test_a_scan_along_an_axis_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for lists in ({"scan_input_axes": "[2]"}, {"scan_output_axes": "[-3]"}):
        error = refusal(tmp_path, scan(SCANNED, "h, x", **lists))
        assert (error.code_id, error.place) == ("INVALID_IR", "node 's'")


def test_a_scan_of_different_lengths_is_refused(tmp_path: Path) -> None:
    body = "(e, f) => (o) { o = Relu (e) }"
    text = scan(body, "x, z", "all", "float[7, 4] x, float[8, 4] z").replace("inputs = 1", "inputs = 2")
    error = refusal(tmp_path, text)
    assert "[7, 8]" in str(error)
    assert resolved(tmp_path, text.replace("[8, 4]", "[7, 9]")).sizes["all"][0] == (7, 4)


def test_a_scan_whose_state_changes_is_refused(tmp_path: Path) -> None:
    body = "(a, e) => (z, o) { z = Concat <axis = 0> (a, a) o = Tanh (e) }"
    assert " 0 changes from float32 [2] to float32 [4]" in str(refusal(tmp_path, scan(body, "h, x")))


def test_a_scan_scans_something(tmp_path: Path) -> None:
    for count in (0, 3):
        text = scan(SCANNED, "h, x").replace("num_scan_inputs = 1", f"num_scan_inputs = {count}")
        assert f"it scans {count} of its 2 inputs" in str(refusal(tmp_path, text))


def test_a_scan_of_opset_8_is_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, model_of(scan(SCANNED, ", h, x"), opset=8))
    assert (error.code_id, error.place) == ("INVALID_IR", "node 's'")
    assert "convert the model to opset 9" in str(error)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (RELU_OR_TANH.replace("else_branch = e", "other = e"), "If must not have the bodies other, then_branch"),
        (RELU_OR_TANH.replace("If (c)", "If (c, c)"), "expected one input, the condition, got 2"),
        (RELU_OR_TANH.replace("If (c)", "If ()"), "expected one input, the condition, got 0"),
        (RELU_OR_TANH.replace("[n] y =", "[n] y, z ="), "its body has 1 outputs, too few for 2 results"),
        (RELU_OR_TANH.replace("t ()", "t (v)"), "its body has 1 inputs, but is given 0"),
        (loop("(int64 i, bool d) => (d) { w = Relu (x) }"), "its body has 2 inputs, but is given 3"),
        (loop("(int64 i, bool d, v) => (d) { w = Relu (v) }"), "its body has 1 outputs, too few"),
        (loop(STEP, results="y, z"), "its body has 2 outputs, too few for 2 results"),
        (loop(STEP, states=", x"), "one of its inputs is absent"),
        (loop("(int64 i, bool d, v) => (i, w) { w = Relu (v) }"), "the first output of its body is not a condition"),
        (
            loop("(int64 i, bool d, v) => (e, w) { w = Relu (v) e = Less (v, v) }"),
            "first output of its body is not a condition",
        ),
        (scan("(e) => (o) { o = Relu (e) }", "h, x", "all"), "its body has 1 inputs, but is given 2"),
        (scan(SCANNED, ", x"), "one of its inputs is absent"),
    ],
)
def test_bodies_fit_their_node(tmp_path: Path, text: str, words: str) -> None:
    error = refusal(tmp_path, text)
    assert error.code_id == "INVALID_IR"
    assert error.place in ("node 'n'", "node 'l'", "node 's'")
    assert words in str(error)


def test_an_if_without_bodies_is_refused(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("If", ["c"], ["y"], name="n")],
        "g",
        [helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("y", 1, [3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    assert refusal(tmp_path, model).place == "node 'n'"


def test_a_condition_of_many_elements_decides_nothing(tmp_path: Path) -> None:
    text = branches("p = Relu (x)", "q = Tanh (x)", "float[4] x, bool[2] c")
    assert resolved(tmp_path, text, values={"c": "1,0"}).ruled_out == frozenset()


def test_bodies_store_weights_of_their_own(tmp_path: Path) -> None:
    text = RELU_OR_TANH.replace(
        "t () => (p) { p = Relu (x) }", "t () => (p) <float[4] w = {1, 2, 3, 4}> { p = Add (x, w) }"
    )
    assert resolved(tmp_path, text).sizes["n/then_branch/w"] == ((4,), "float32")
