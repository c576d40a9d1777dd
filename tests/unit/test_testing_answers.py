"""What a planner may return, and the sentence about each answer that is none. spec: TP2.3, TP2.4"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tmmu
from tmmu.testing.answers import BadAnswer, read_answer
from tmmu.testing.buffer import TimedBuffer
from tmmu.testing.problems import BufferProblem, GraphProblem

TWO = BufferProblem([TimedBuffer("a", 0, 1, 8), TimedBuffer("b", 1, 2, 4)])
RIGHT = {"a": 0, "b": 8}
TEXT = "tmmu-plan-text 1\narena m 16\nbuffer a 8 m 0 live 0 1\nbuffer b 4 m 8 live 1 2\n"


@pytest.mark.parametrize(
    "answer",
    [
        RIGHT, [0, 8], (0, 8), np.array([0, 8]), {"a": np.int64(0), "b": np.uint8(8)}, json.dumps(RIGHT), "[0, 8]",
        "id,lower,upper,size,offset\na,0,2,8,0\nb,1,3,4,8\n", "offset,id\n8,b\n0,a\n", TEXT, TEXT.encode(),
    ],
    ids=repr,
)  # fmt: skip
def test_an_answer_has_many_forms(answer: Any) -> None:
    assert read_answer(answer, TWO).offsets == RIGHT


def test_an_answer_may_be_a_file(tmp_path: Path) -> None:
    for name, text in (("p.plan.txt", TEXT), ("p.json", json.dumps(RIGHT)), ("p.csv", "id,offset\na,0\nb,8\n")):
        path = tmp_path / name
        path.write_text(text)
        assert read_answer(path, TWO).offsets == read_answer(str(path), TWO).offsets == RIGHT
    with pytest.raises(BadAnswer, match="cannot be read"):
        read_answer(tmp_path / "none", TWO)


@pytest.mark.parametrize(
    "answer",
    [(RIGHT, 12), ([0, 8], 12), (np.array([0, 8]), 12), (TEXT, 12), json.dumps({"offsets": RIGHT, "footprint": 12})],
)
def test_an_answer_may_state_the_footprint(answer: Any) -> None:
    assert read_answer(answer, TWO).footprint == 12


def test_a_graph_may_have_a_whole_plan() -> None:
    graph = tmmu.Graph()
    graph.output(graph.node("Relu", graph.input("x", (4,)), graph.tensor("y", (4,))))
    answer = read_answer(tmmu.plan(graph), GraphProblem(graph))
    assert answer.offsets is None
    assert list(GraphProblem(graph).violations(answer.plan)) == []  # type: ignore[arg-type]  # there is one
    with pytest.raises(BadAnswer, match="states lifetimes"):
        read_answer(TEXT, GraphProblem(graph))


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (None, "expected a dict of offsets by name, .* got NoneType"),
        (7, "got int"),
        ({"a": 0}, "no offset for 'b'"),
        ([0], "no offset for 'b': expected 2 offsets, got 1"),
        ([0, 8, 9], "expected 2 offsets, got 3"),
        ({"a": 0, "b": -8}, "expected the offset of 'b' to be from 0 .* got -8"),
        ({"a": 0, "b": "8"}, "expected an integer as the offset of 'b', got '8'"),
        ('{"a": 0, "b": "8"}', "expected an integer as the offset of 'b', got '8'"),
        ("id,offset\na,0\nb,8.0\n", "expected an integer as the offset of 'b', got '8.0'"),
        ({"a": 0, "b": 8.0}, "expected an integer as the offset of 'b', got 8.0"),
        ({"a": 0, "b": float("nan")}, "the offset of 'b', got nan"),
        ({"a": 0, "b": True}, "the offset of 'b', got True"),
        ({"a": 0, "b": np.bool_(True)}, "the offset of 'b', got"),
        ({"a": 0, "b": None}, "the offset of 'b', got None"),
        ({"a": 0, "b": 1 << 64}, "the offset of 'b' to be from 0 to"),
        ({"a": 0, "b": 8, "c": 9}, "unknown name 'c'"),
        ({1: 0}, "unknown name 1"),
        ('{"a": 0, "a": 8, "b": 8}', "two offsets for 'a'"),
        ('{"a": 0, "b": NaN}', "the offset of 'b', got nan"),
        ('{"a": 0', "not JSON"),
        ("", "expected CSV with the columns id and offset"),
        ("hello", "got 'hello'"),
        ("id\r,", "not CSV"),
        ("id,offset\n{\rf", "not CSV"),
        ("id,offset\na,0\nb,8.5\n", "an integer as the offset of 'b', got '8.5'"),
        ("id,offset\na,0\nb\n", "expected 2 cells in the row of 'b', got 1"),
        ("id,offset\na,0\na,0\nb,8\n", "two offsets for 'a'"),
        ("tmmu-plan-text 1\nbuffer a\n", "the answer:2:"),
        (b"\0\1", "not a plan"),
        ((RIGHT, -1), "the footprint to be from 0"),
        ((RIGHT, "many"), "an integer as the footprint, got 'many'"),
    ],
)
def test_a_wrong_answer_is_one_sentence_with_the_tensor(answer: Any, sentence: str) -> None:
    with pytest.raises(BadAnswer, match=sentence) as caught:
        read_answer(answer, TWO)
    assert "\n" not in str(caught.value)
