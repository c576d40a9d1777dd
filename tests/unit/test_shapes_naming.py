"""How nodes and bodies are named."""

from __future__ import annotations

import onnx
from onnx import helper

from tests.support.onnx_files import model_of
from tmmu.onnx import node_ids
from tmmu.onnx.naming import bodies_of, domain_of


def graph(*nodes: onnx.NodeProto) -> onnx.GraphProto:
    return helper.make_graph(list(nodes), "g", [], [])


def test_a_node_is_named_by_itself_or_else_by_its_operator_and_position() -> None:
    """spec: T8.12"""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"], name="twice"),
        helper.make_node("Tanh", ["c"], ["d"], name="twice"),
        helper.make_node("Relu", ["d"], ["e"], name="with\0nul"),
    ]
    assert node_ids(graph(*nodes), "") == ["first", "Relu#1", "Relu#2", "Tanh#3", "Relu#4"]
    assert node_ids(graph(*nodes[:2]), "loop/body") == ["loop/body/first", "loop/body/Relu#1"]


def test_the_then_branch_comes_first_however_it_is_stored() -> None:
    """spec: T8.10"""
    text = """main (bool c) => (float y) {
        y = If (c) <else_branch = e () => (float q) { q = Constant <value_float = 1.0> () },
                    then_branch = t () => (float p) { p = Constant <value_float = 2.0> () }>
    }"""
    assert [name for name, _ in bodies_of(model_of(text).graph.node[0])] == ["then_branch", "else_branch"]


def test_bodies_in_a_list_are_numbered() -> None:
    node = helper.make_node("Choose", ["x"], ["y"], domain="com.example", cases=[graph(), graph()], only=graph())
    assert [name for name, _ in bodies_of(node)] == ["cases[0]", "cases[1]", "only"]


def test_ai_onnx_has_two_names() -> None:
    names = ("", "ai.onnx", "ai.onnx.ml")
    assert [domain_of(helper.make_node("Relu", [], [], domain=d)) for d in names] == ["", "", "ai.onnx.ml"]
