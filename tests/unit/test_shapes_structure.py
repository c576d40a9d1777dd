"""Every name means one value that exists when it is read, or the model is refused."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import helper

from tests.support.onnx_files import model_of, refusal, resolved
from tmmu.onnx import structure as naming
from tmmu.onnx.structure import structure

NESTED = """main (float[3] x, bool c) => (float[3] y) {
    a = Relu (x)
    [outer] y = If (c) <
        then_branch = t () => (float[3] p) {
            [inner] p = If (c) <
                then_branch = tt () => (float[3] r) { r = Add (a, x) },
                else_branch = te () => (float[3] s) { s = Identity (a) }>
        },
        else_branch = e () => (float[3] q) <float[3] stored = {1, 2, 3}> { q = Add (a, stored) }>
}"""


def test_bodies_see_what_is_defined_around_them() -> None:
    found = structure(model_of(NESTED).graph)
    assert [scope.name for scope in found.scopes] == [
        "", "outer/then_branch", "outer/else_branch", "outer/then_branch/inner/then_branch",
        "outer/then_branch/inner/else_branch",
    ]  # fmt: skip
    deepest = found.scopes[3]
    assert deepest.find("a", 0) is found.main
    assert deepest.find("r", deepest.end) is deepest
    assert deepest.find("r", 0) is None
    assert deepest.find("y", 0) is None
    assert {"a", "x", "c", "outer/else_branch/stored", "outer/then_branch/p"} <= found.read


def test_two_branches_may_use_the_same_names(tmp_path: Path) -> None:
    text = """main (float[3] x, bool c) => (float[3] y) {
        y = If (c) <then_branch = t () => (float[3] y) { y = Relu (x) },
                    else_branch = e () => (float[3] y) { y = Tanh (x) }>
    }"""
    assert {"y", "If#0/then_branch/y", "If#0/else_branch/y"} <= resolved(tmp_path, text).sizes.keys()


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("main (float[3] x) => (float[3] y) { y = Add (x, z) }", "INVALID_IR", "it reads 'z', which is not defined"),
        ("main (float[3] x) => (float[3] z) { y = Relu (x) }", "INVALID_IR", "output of the main graph: it reads 'z'"),
        (
            "main (float[3] x) => (float[3] y) { [late] y = Add (x, a) [early] a = Relu (x) }",
            "INVALID_IR",
            "node 'late': it reads 'a', which node 'early' writes later; sort the nodes topologically",
        ),
        (
            "main (float[3] x) => (float[3] y) { [n1] y = Add (a, b) [n2] a = Relu (x) [n3] b = Relu (x) }",
            "INVALID_IR",
            "node 'n1': it reads 'a', which node 'n2' writes later",
        ),
        (
            "main (float[3] x) => (float[3] y) { [n1] a = Add (x, b) [n2] b = Relu (a) [n3] y = Relu (b) }",
            "LIVENESS_CYCLE",
            "node 'n1': it depends on its own result",
        ),
        (
            "main (float[3] x) => (float[3] y) { [n1] y = Relu (a) [n2] a = Add (x, b) [n3] b = Relu (a) }",
            "LIVENESS_CYCLE",
            "node 'n2'",
        ),
        ("main (float[3] x) => (float[3] y) { [self] y = Add (x, y) }", "LIVENESS_CYCLE", "node 'self'"),
        ("main (float[3] x) => (float[3] y) { y = Relu (x) y = Tanh (x) }", "INVALID_IR", "'y' is defined twice"),
        ("main (float[3] x) => (float[3] x) { x = Relu (x) }", "INVALID_IR", "'x' is defined twice"),
        ("main (float[3] x, float[3] x) => (float[3] y) { y = Relu (x) }", "INVALID_IR", "'x' is defined twice"),
        ("main (float[3] x) => (float[3] y, float[3] y) { y = Relu (x) }", "INVALID_IR", "outputs is listed twice"),
        ("main (float x) => (y) <float w = {1}, float w = {1}> { y = Add (x, w) }", "INVALID_IR", "it is stored twice"),
    ],
)  # fmt: skip
def test_a_value_is_defined_once_and_before_it_is_read(tmp_path: Path, text: str, code: str, words: str) -> None:
    """spec: I1.8"""
    error = refusal(tmp_path, text)
    assert error.code_id == code
    assert words in str(error)


def test_a_node_has_an_operator(tmp_path: Path) -> None:
    for operator in ("", "Re\0lu"):
        model = model_of("main (float[3] x) => (float[3] y) { y = Relu (x) }")
        model.graph.node[0].op_type = operator
        assert "no operator" in str(refusal(tmp_path, model))


def test_a_cycle_through_a_body_is_a_cycle_of_its_owner(tmp_path: Path) -> None:
    """spec: I1.8"""
    text = """main (float[3] x, bool c) => (float[3] y) {
        [owner] y = If (c) <then_branch = t () => (float[3] p) { p = Relu (y) },
                            else_branch = e () => (float[3] q) { q = Relu (x) }>
    }"""
    error = refusal(tmp_path, text)
    assert (error.code_id, error.place) == ("LIVENESS_CYCLE", "node 'owner'")


def test_a_local_name_of_a_body_makes_no_cycle(tmp_path: Path) -> None:
    text = """main (float[3] x, bool c) => (float[3] z) {
        [owner] y = If (c) <then_branch = t () => (float[3] y) { y = Relu (later) },
                            else_branch = e () => (float[3] q) { q = Relu (x) }>
        z = Relu (y)
        later = Relu (x)
    }"""
    error = refusal(tmp_path, text)
    assert (error.code_id, error.place) == ("INVALID_IR", "node 'owner/then_branch/Relu#0'")
    assert all(name in str(error) for name in ("'later'", "'Relu#2'"))


def test_a_body_hides_no_name_that_it_sees(tmp_path: Path) -> None:
    text = """main (float[3] x, bool c) => (float[3] y) {
        y = If (c) <then_branch = t () => (float[3] x) { x = Relu (x) },
                    else_branch = e () => (float[3] q) { q = Relu (x) }>
    }"""
    error = refusal(tmp_path, text)
    assert (error.code_id, "hides a value" in str(error)) == ("INVALID_IR", True)


def test_a_value_of_a_body_is_not_read_outside(tmp_path: Path) -> None:
    """spec: I1.9"""
    error = refusal(tmp_path, NESTED.replace("Identity (a)", "Identity (q)"))
    assert "it reads 'q', which is not defined" in str(error)


def test_names_that_would_clash_are_refused(tmp_path: Path) -> None:
    """spec: I1.3"""
    body = "then_branch = t () => (float[3] p) { p = Relu (x) }, else_branch = e () => (float[3] q) { q = Relu (x) }"
    model = model_of(f"main (float[3] x, bool c) => (float[3] y) {{ [n] y = If (c) <{body}> z = Relu (x) }}")
    values, nodes = onnx.ModelProto(), onnx.ModelProto()
    values.CopyFrom(model)
    values.graph.node[1].output[0] = "n/then_branch/p"
    assert "two values are named 'n/then_branch/p'" in str(refusal(tmp_path, values))
    nodes.CopyFrom(model)
    nodes.graph.node[1].name = "If#0"
    nodes.graph.node[0].name = ""
    assert "two nodes are named 'If#0'" in str(refusal(tmp_path, nodes))


@pytest.mark.parametrize("name", ["", "with\0nul"])
def test_a_value_without_a_usable_name_is_refused(tmp_path: Path, name: str) -> None:
    """spec: I1.3"""
    model = model_of("main (float[3] x) => (float[3] y) { y = Relu (x) }")
    model.graph.input[0].name = model.graph.node[0].input[0] = name
    assert "the name of a value is empty or contains a NUL" in str(refusal(tmp_path, model))


def test_a_body_needs_a_name_of_its_own(tmp_path: Path) -> None:
    def with_bodies(*names: str) -> onnx.ModelProto:
        inner = helper.make_graph([], "inner", [], [helper.make_tensor_value_info("x", 1, [3])])
        node = helper.make_node("If", ["c"], ["y"])
        node.attribute.extend(helper.make_attribute(name, [inner] if name.endswith("es") else inner) for name in names)
        inputs = [helper.make_tensor_value_info("c", 9, []), helper.make_tensor_value_info("x", 1, [3])]
        graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", 1, [3])])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)

    assert resolved(tmp_path, with_bodies("then_branch", "else_branch")).sizes["y"] == ((3,), "float32")
    assert "'then_branch' occurs 2 times" in str(refusal(tmp_path, with_bodies("then_branch", "then_branch")))
    assert "two bodies named 'branches[0]'" in str(refusal(tmp_path, with_bodies("branches", "branches[0]")))
    assert "name of a body is empty" in str(refusal(tmp_path, with_bodies("then_branch", "else\0branch")))


def test_what_a_body_is_given_it_does_not_store_as_well(tmp_path: Path) -> None:
    text = """main (float[3] x, int64 n, bool c) => (float[3] y) {
        y = Loop (n, c, x) <body = b (int64 i, bool d, float[3] v) => (bool d, float[3] w)
            <float[3] v = {1, 2, 3}> { w = Relu (v) }>
    }"""
    assert "'v' is both its input and stored in it" in str(refusal(tmp_path, text))


def test_bodies_nest_only_so_deeply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The depth that protobuf allows is less than the limit, so the limit is lowered.
    monkeypatch.setattr("tmmu.onnx.structure.MAX_BODY_DEPTH", 2)
    assert max(scope.depth for scope in structure(model_of(NESTED).graph).scopes) == 2
    monkeypatch.setattr("tmmu.onnx.structure.MAX_BODY_DEPTH", 1)
    error = refusal(tmp_path, NESTED)
    assert (error.place, error.what) == ("node 'outer/then_branch/inner'", "bodies nest deeper than 1")


def test_names_that_repeat_a_long_name_beyond_reason_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of a node with bodies stands before each name in them. spec: V1.16, T8.12"""
    text = """main (float[2] x, bool c) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] p) { p = Relu (x) },
                   else_branch = e () => (float[2] q) { q = Exp (x) }>
    }"""
    model = model_of(text)
    monkeypatch.setattr(naming, "NAMES_LIMIT", 4 * len("n/then_branch"))  # two names in each branch
    model.graph.node[0].name = "n"
    assert resolved(tmp_path, model).sizes
    model.graph.node[0].name = "nn"
    assert "body 'nn/else_branch'" in str(refusal(tmp_path, model))
