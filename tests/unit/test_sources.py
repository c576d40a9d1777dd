"""The line of source code that made a node, as exporters of PyTorch record it. spec: RP1.17"""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from tmmu.onnx.sources import TRACE, find_source, list_sources

NEW = (
    'File "/home/me/train.py", line 9, in main\n    model(x)\n'
    '  File "/home/me/net.py", line 31, in forward\n    return self.act(x)\n'
    '  File "/v/lib/python3.11/site-packages/torch/nn/modules/activation.py", line 133, in forward\n    return F.relu'
)
OLD = (
    "/v/lib/python3.11/site-packages/torch/nn/functional.py(1500): relu\n"
    "/home/me/net.py(31): forward\n/home/me/train.py(9): main\n"
)


def node(trace: str = "", text: str = "", name: str = "act") -> onnx.NodeProto:
    made = helper.make_node("Relu", ["x"], ["y"], name=name)
    if trace:
        made.metadata_props.add(key=TRACE, value=trace)
    made.doc_string = text
    return made


@pytest.mark.parametrize(
    ("trace", "text", "expected"),
    [
        (NEW, "", "net.py:31"),
        ("", OLD, "net.py:31"),
        ("", "", None),
        ("", "a text about nothing", None),
        ('File "C:\\\\me\\\\net.py", line 4, in forward', "", "net.py:4"),
        ('File "/v/site-packages/timm/vit.py", line 7, in forward', "", "vit.py:7"),  # no other line is recorded
        ("no traceback", "", None),
    ],
)
def test_the_line_is_the_innermost_of_the_users_program(trace: str, text: str, expected: str | None) -> None:
    assert find_source(node(trace, text)) == expected


def test_long_traces_are_read_from_their_inner_end() -> None:
    assert find_source(node('File "/a/outer.py", line 1, in f\n' * 100_000 + NEW)) == "net.py:31"


def test_nodes_of_bodies_have_their_lines_too(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    arms = [
        helper.make_graph([node(NEW, name=arm)], arm, [], [value("y", TensorProto.FLOAT, [4])])
        for arm in ("one", "two")
    ]
    choose = helper.make_node("If", ["c"], ["z"], name="choose", then_branch=arms[0], else_branch=arms[1])
    inputs = [value("c", TensorProto.BOOL, []), value("x", TensorProto.FLOAT, [4])]
    graph = helper.make_graph([choose], "g", inputs, [value("z", TensorProto.FLOAT, [4])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.save(model, tmp_path / "m.onnx")
    assert list_sources(tmp_path / "m.onnx") == {
        "choose/then_branch/one": "net.py:31", "choose/else_branch/two": "net.py:31",
    }  # fmt: skip
