"""Streams in the metadata of ONNX models: importer and verifier read the same from them, each by itself.

spec: X7.1, X7.2, X7.3, X7.4, X7.5, X7.6, X7.7
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

import tmmu
from proofs.readers.models.onnx import read_onnx
from tmmu.core.vocabulary import MAIN, UNBOUND
from tmmu.importers.onnx import import_onnx

Metadata = dict[str, Any]
Orders = dict[str, tuple[str, tuple[str, ...]]]


def value(name: str, shape: tuple[int, ...] = (64,), dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def state(proto: onnx.ModelProto | onnx.NodeProto, entries: Metadata) -> None:
    """Add entries; what is not text is written as JSON."""
    for key, stated in entries.items():
        proto.metadata_props.add(key=f"tmmu.{key}", value=stated if isinstance(stated, str) else json.dumps(stated))


def build(of_model: Metadata, of_nodes: dict[str, Metadata]) -> onnx.ModelProto:
    """Return a model of a folded node, four nodes, an If with one node in each branch, and a last node."""
    branches = {
        f"{word}_branch": helper.make_graph([helper.make_node(op, ["h"], [word], name=word)], word, [], [value(word)])
        for word, op in (("then", "Neg"), ("else", "Abs"))
    }
    one = helper.make_tensor("one", TensorProto.FLOAT, (1,), [1.0])
    nodes = [
        helper.make_node("Constant", [], ["one"], name="const", value=one),
        helper.make_node("Neg", ["w"], ["f"], name="load"),
        helper.make_node("Tanh", ["x"], ["s"], name="side"),
        helper.make_node("Mul", ["x", "f"], ["m"], name="mul"),
        helper.make_node("Exp", ["m"], ["h"], name="exp"),
        helper.make_node("If", ["c"], ["p"], name="pick", **branches),
        helper.make_node("Sum", ["p", "s", "one"], ["y"], name="join"),
    ]
    for node in nodes:
        state(node, of_nodes.get(node.name, {}))
    for branch in nodes[5].attribute:
        state(branch.g.node[0], of_nodes.get(branch.g.node[0].name, {}))
    weight = helper.make_tensor("w", TensorProto.FLOAT, (64,), [0.0] * 64)
    graph = helper.make_graph(nodes, "g", [value("x"), value("c", (), TensorProto.BOOL)], [value("y")], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    state(model, of_model)
    return model


TWO: Metadata = {"streams": ["main", "side"]}
STARTED: Metadata = {"start": "true"}
FETCHED: dict[str, Metadata] = {
    "load": STARTED, "side": {"stream": "side"}, "mul": {"wait": ["load"]}, "join": {"after": ["side"]}
}  # fmt: skip

RIGHT: dict[str, tuple[Metadata, dict[str, Metadata], Orders]] = {
    "none": ({}, {}, {}),
    "one stream": ({"streams": ["a"]}, {}, dict.fromkeys(("load", "side", "mul", "exp", "pick", "join"), ("a", ()))),
    "an operation that is fetched": (TWO, FETCHED, {
        "load": ("async/0", ()), "side": ("side", ()), "mul": ("main", ("load",)), "exp": ("main", ()),
        "pick": ("main", ()), "join": ("main", ("side",)),
    }),
    "a lane is used again by the stream that waited": (TWO, {
        "load": STARTED, "side": {**STARTED, "stream": "side"}, "mul": {"wait": ["side", "load"]}, "exp": STARTED,
        "join": {"wait": ["exp"]},
    }, {
        "load": ("async/0", ()), "side": ("async/1", ()), "mul": ("main", ("side", "load")),
        "exp": ("async/0", ("mul",)), "pick": ("main", ()), "join": ("main", ("exp",)),
    }),
    "and not by another one": (TWO, {
        "load": STARTED, "side": {"stream": "side", "wait": ["load"]}, "mul": STARTED, "exp": {"after": ["mul"]},
        "pick": {"wait": ["mul"]}, "join": {"after": ["side"]},
    }, {
        "load": ("async/0", ()), "side": ("side", ("load",)), "mul": ("async/1", ()), "exp": ("main", ("mul",)),
        "pick": ("main", ("mul",)), "join": ("main", ("side",)),
    }),
    "the caller waits": ({**TWO, "wait": ["join"]}, {"join": {**STARTED, "after": ["pick"]}}, {
        **dict.fromkeys(("load", "side", "mul", "exp", "pick"), ("main", ())), "join": ("async/0", ("pick",)),
    }),
    "what has no step counts for nothing": (TWO, {
        "const": {**STARTED, "stream": "side"}, "load": STARTED, "side": {"wait": ["const"], "after": ["load"]},
        "mul": {"wait": ["load"]},
    }, {
        "load": ("async/0", ()), "side": ("main", ("load",)), "mul": ("main", ("load",)),
        **dict.fromkeys(("exp", "pick", "join"), ("main", ())),
    }),
}  # fmt: skip

CYCLE = "LIVENESS_CYCLE"
WRONG: dict[str, tuple[Metadata, dict[str, Metadata], str]] = {
    "a cycle": (TWO, {"load": {"after": ["mul"]}}, f"{CYCLE} load"),
    "a wait for itself": (TWO, {"load": {"after": ["load"]}}, f"{CYCLE} load"),
    "an unknown stream": (TWO, {"load": {"stream": "mian"}}, "load"),
    "an unknown node": (TWO, {"mul": {"after": ["laod"]}}, "mul"),
    "a node of a body": (TWO, {"join": {"after": ["pick/then_branch/then"]}}, "join"),
    "a wait without start": (TWO, {"mul": {"wait": ["load"]}}, "mul"),
    "a wait twice": (TWO, {**FETCHED, "exp": {"wait": ["load"]}}, "exp"),
    "a start that is never awaited": (TWO, {"load": STARTED}, "load"),
    "a start that is only an event": (TWO, {"load": STARTED, "mul": {"after": ["load"]}}, "load"),
    "a start that waits": (TWO, {"load": STARTED, "side": {**STARTED, "wait": ["load"]}}, "side"),
    "a start of bodies": ({**TWO, "wait": ["pick"]}, {"pick": STARTED}, "pick"),
    "a start that is not true": (TWO, {"load": {"start": "1"}}, "load"),
    "a wait of the caller without start": ({**TWO, "wait": ["load"]}, {}, "the model"),
    "a wait of the caller for nothing": ({**TWO, "wait": ["laod"]}, {}, "the model"),
    "a wait of the caller without streams": ({"wait": []}, {}, "the model"),
    "no list of streams": ({}, {"load": {"stream": "main"}}, "load"),
    "an empty list of streams": ({"streams": []}, {}, "the model"),
    "a stream without a name": ({"streams": [""]}, {}, "the model"),
    "a stream of operations": ({"streams": ["async/0"]}, {}, "the model"),
    "a stream twice": ({"streams": ["a", "a"]}, {}, "the model"),
    "a stream that cannot be written": ({"streams": ["\ud800"]}, {}, "the model"),
    "no list": (TWO, {"mul": {"after": "load"}}, "mul"),
    "a list of numbers": (TWO, {"mul": {"after": [1]}}, "mul"),
    "a text as list": (TWO, {"mul": {"after": '"load"'}}, "mul"),
    "an unknown key": (TWO, {"mul": {"afetr": ["load"]}}, "mul"),
    "an unknown key of the model": ({"stream": "main"}, {}, "the model"),
    "a body": (TWO, {"then": {"stream": "main"}}, "pick"),
}  # fmt: skip


def of_importer(path: Path) -> Orders:
    nodes = import_onnx(path).nodes
    assert all(node.body == MAIN or not node.stream for node in nodes)
    return {node.name: (node.stream, node.after) for node in nodes if node.stream}


def of_verifier(path: Path) -> Orders:
    return {name: tuple(order) for name, order in read_onnx(path, UNBOUND).streams.items()}  # type: ignore[misc]


READERS = pytest.mark.parametrize("read", [of_importer, of_verifier])


@READERS
@pytest.mark.parametrize("name", RIGHT)
def test_each_node_has_its_stream_and_its_waits(name: str, read: Callable[[Path], Orders], tmp_path: Path) -> None:
    of_model, of_nodes, orders = RIGHT[name]
    onnx.save(build(of_model, of_nodes), tmp_path / "m.onnx")
    found = read(tmp_path / "m.onnx")
    assert found == orders
    assert list(found) == [node for node in ("load", "side", "mul", "exp", "pick", "join") if node in orders]


@READERS
@pytest.mark.parametrize("name", WRONG)
def test_wrong_metadata_are_refused(name: str, read: Callable[[Path], Orders], tmp_path: Path) -> None:
    of_model, of_nodes, expected = WRONG[name]
    onnx.save(build(of_model, of_nodes), tmp_path / "m.onnx")
    with pytest.raises(tmmu.TmmuError) as refusal:
        read(tmp_path / "m.onnx")
    place = str(refusal.value.place).removeprefix("node ").strip("'").partition("/")[0]
    assert f"{refusal.value.code_id} {place}".removeprefix("INVALID_IR ") == expected


@READERS
@pytest.mark.parametrize("change", ["twice", "call"])
def test_what_a_table_cannot_state_is_refused(change: str, read: Callable[[Path], Orders], tmp_path: Path) -> None:
    model = build(TWO, {"load": {"stream": "main"}})
    if change == "twice":
        state(model.graph.node[1], {"stream": "side"})
    else:
        opsets = [helper.make_opsetid("", 17)]
        function = helper.make_function("my", "Own", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], opsets)
        model.functions.append(function)
        model.opset_import.append(helper.make_opsetid("my", 1))
        model.graph.node[1].op_type, model.graph.node[1].domain = "Own", "my"
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(tmmu.TmmuError, match="load"):
        read(tmp_path / "m.onnx")


def test_a_model_is_planned_and_proved_on_its_streams(tmp_path: Path) -> None:
    onnx.save(build(TWO, FETCHED), path := tmp_path / "m.onnx")
    plan = tmmu.plan(path)
    assert tmmu.verify(plan, model=path).proved
    onnx.save(build(TWO, {**FETCHED, "exp": {"after": ["side"]}}), path)
    assert not tmmu.verify(plan, model=path).proved


def test_a_model_with_a_race_is_not_planned(tmp_path: Path) -> None:
    onnx.save(build(TWO, {"load": {"stream": "side"}}), path := tmp_path / "m.onnx")
    with pytest.raises(tmmu.TmmuError, match="after load"):
        tmmu.plan(path)
