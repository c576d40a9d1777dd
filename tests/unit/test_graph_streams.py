"""Graphs whose nodes are declared on streams: the model is that of the text, and each wrong call is refused.

spec: LIB3.3, LIB3.4
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tmmu
from tmmu.ir import text
from tmmu.ir.graph import GraphStream

TEXT = """tmmu-ir-text 1
model layers
tensor x f32 8x8 input
tensor w f32 8x8 parameter
tensor f f32 8x8
tensor a f32 8x8
tensor b f32 8x8
tensor g f32 8x8
tensor y f32 8x8 output
start load my::Fetch w -> f on main
node a Tanh x -> a on side
wait f.wait load on main
node b Gemm x f -> b on main
start more my::Fetch w -> g on main after a
wait ready more on side after b
node y Sum a b g -> y on side
"""
SHAPE = (8, 8)


def declare() -> tmmu.Graph:
    """Return a graph with tensors and without nodes."""
    g = tmmu.Graph("layers")
    g.input("x", SHAPE)
    g.parameter("w", SHAPE)
    for name in "fabgy":
        g.tensor(name, SHAPE)
    return g


def build() -> tmmu.Graph:
    g = declare()
    main, side = g.stream("main"), g.stream("side")
    assert main.start("Fetch", "w", "f", name="load", domain="my") == "f"
    assert side.node("Tanh", "x", "a") == "a"
    assert main.wait("load", name="f.wait") == "f.wait"
    main.node("Gemm", ["x", "f"], "b")
    main.after("a", "a").start("Fetch", "w", "g", name="more", domain="my")
    side.after("b").wait("more", name="ready")
    g.output(side.node("Sum", ["a", "b", "g"], "y"))
    return g


def test_a_graph_on_streams_is_the_model_of_the_text() -> None:
    assert build().model() == text.read(TEXT.encode(), "m")


def test_a_graph_on_streams_is_planned_and_proved() -> None:
    g = build()
    assert tmmu.verify(tmmu.plan(g), model=g).proved


def of_side(g: tmmu.Graph) -> GraphStream:
    return g.stream("side")


WRONG: dict[str, tuple[Callable[[tmmu.Graph], object], str]] = {
    "an empty stream": (lambda g: g.stream(""), "stream ''"),
    "a stream of operations": (lambda g: g.stream("async/0"), "stream 'async/0'"),
    "an unknown node": (lambda g: of_side(g).after("aa"), "stream 'side'"),
    "no stream": (lambda g: g.node("Relu", "x", "y"), "node 'y'"),
    "a wait without start": (lambda g: of_side(g).wait("a"), "operation 'a'"),
    "a wait twice": (lambda g: of_side(g).wait("more"), "operation 'more'"),
    "a name twice": (lambda g: of_side(g).start("Fetch", "w", "y", name="a"), "node 'a'"),
    "an unknown tensor": (lambda g: of_side(g).start("Fetch", "w", "z"), "node 'z'"),
    "a change that is not written": (lambda g: of_side(g).start("Add", "x", (), name="n", changes="x"), "node 'n'"),
    "a hint of no operand": (lambda g: of_side(g).node("Relu", "x", (), name="n", in_place={"y": "x"}), "node 'n'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_is_refused_and_changes_nothing(name: str) -> None:
    call, place = WRONG[name]
    g = build()
    with pytest.raises(tmmu.TmmuError) as refusal:
        call(g)
    assert (refusal.value.code_id, refusal.value.place) == ("INVALID_IR", place)
    assert g.model() == build().model()


def test_a_stream_beside_nodes_without_one_is_refused() -> None:
    g = declare()
    g.node("Relu", "x", "a")
    with pytest.raises(tmmu.TmmuError, match="no stream"):
        g.stream("main").node("Relu", "x", "b")


def test_an_operation_that_nothing_waits_for_is_refused() -> None:
    g = declare()
    g.output(g.stream("main").start("Fetch", "w", "f"))
    with pytest.raises(tmmu.TmmuError, match="no node waits"):
        g.model()


def test_a_stream_against_its_operands_is_a_cycle() -> None:
    g = tmmu.Graph("cycle")
    g.input("x", SHAPE)
    main = g.stream("main")
    main.node("Relu", g.tensor("a", SHAPE), g.tensor("b", SHAPE))
    main.node("Relu", "x", "a")
    with pytest.raises(tmmu.TmmuError, match="LIVENESS_CYCLE"):
        g.model()
