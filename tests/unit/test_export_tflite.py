"""A plan of ours in a TensorFlow Lite model: what is placed, what the file keeps, what is refused.

The judge of a plan is the verifier's own reader, which shares nothing with the writer but tables of a flatbuffer.
spec: FP11.1 to FP11.6
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofs.readers.plans import tflite as reader
from proofs.readers.plans.tflite import OPERATORS
from tests.support.buffers import hard, right
from tests.support.flatbuffer_files import model, node, stored, subgraph, write
from tests.support.objections import objections
from tmmu.core.errors import TmmuError
from tmmu.core.flatbuffer import Flatbuffer
from tmmu.core.source import Source
from tmmu.exporters import tflite
from tmmu.planner.buffers import LiveBuffer, pack_buffers, peak_bytes
from tmmu.plans import file
from tmmu.plans.sections import Plan

NAMES = ("RELU", "ADD", "CONV_2D", "RESHAPE", "IF", "WHILE", "CALL_ONCE", "SVDF")
CODES: list[int | str] = [*map(OPERATORS.index, NAMES), "ethos-u"]
RELU, ADD, CONV, RESHAPE, IF, WHILE, ONCE, SVDF, NPU = range(9)


def written(graphs: list[Any], offsets: list[int] | None = None, **options: int) -> tflite.OfflinePlan:
    """The model with its plan, which the verifier's reader reads and finds right, twice over."""
    found = tflite.plan_offline(Source("m.tflite", model(graphs, offsets, CODES)), **options)
    read = reader.read(Source("m.tflite", found.data, capacity=found.footprint))
    file.pass_gate(read.plan, read.reading)
    assert isinstance(read.plan, Plan)
    assert list(objections(read.plan, None, read.reading.donated)) == []
    assert tflite.plan_offline(Source("m.tflite", found.data), **options)[1:] == found[1:]
    return found


def offsets(found: tflite.OfflinePlan) -> list[int]:
    """The offsets in the metadata."""
    return reader._Reading(Source("m.tflite", found.data)).offsets


def chain(*nodes: Any, **more: Any) -> list[Any]:
    """A subgraph of four tensors x, a, b and y of 16 bytes, or as `more` has them."""
    return [subgraph([more.get(name, stored(16, name)) for name in "xaby"], list(nodes), [0], [3])]


def body(*nodes: Any) -> Any:
    """A subgraph of p, t and q, from p to q."""
    return subgraph([stored(16, name) for name in "ptq"], list(nodes), [0], [2])


LINE = (node(CONV, [0], [1]), node(CONV, [1, -1], [2]), node(ADD, [1, 2], [3]))
STEPS = (node(CONV, [0], [1]), node(CONV, [1], [2]))


def test_bytes_are_used_again() -> None:
    """spec: FP11.2, FP11.3"""
    found = written(chain(*LINE))
    assert (found.footprint, found.peak, found.placed, found.tensors) == (48, 48, 4, 4)
    assert sorted(offsets(found)) == [0, 0, 16, 32]


def test_a_plan_that_is_there_is_replaced_and_all_else_is_kept() -> None:
    """spec: FP11.5"""
    before = model(chain(*LINE), [0, 0, 0, 0], CODES)
    found = tflite.plan_offline(Source("m.tflite", before))
    assert found.data.endswith(before)
    assert (len(found.data) - len(before)) % 64 == 0
    root = Flatbuffer(Source("m.tflite", found.data)).root()
    assert [each.text(0) for each in root.tables(6)] == [reader.METADATA]
    buffers = root.tables(4)
    assert len(buffers) == 4
    assert buffers[-1].content(0).at % 16 == 0
    assert found.data[buffers[1].content(0).at :].startswith(b"constant")


def test_every_field_of_the_model_stands_where_it_did() -> None:
    """spec: FP11.5"""
    graph = subgraph([stored(8, "x"), stored(8, "y")], [node(0, [0], [1])], [0], [1])
    fields = {
        0: ("u32", 3), 1: [{3: ("i32", 0)}], 2: [graph], 3: "described", 4: [{}], 5: ("i32", [7, 9]),
        6: [{0: "other", 1: ("u32", 0)}], 7: [{2: "main"}],
    }  # fmt: skip
    found = tflite.plan_offline(Source("m.tflite", write(fields, b"TFL3")))
    root = Flatbuffer(Source("m.tflite", found.data)).root()
    assert (root.number(0, "u32"), root.text(3), root.numbers(5, "i32")) == (3, "described", [7, 9])
    assert [each.text(0) for each in root.tables(6)] == ["other", reader.METADATA]
    assert root.tables(7)[0].text(2) == "main"
    with pytest.raises(TmmuError, match="not in the supported schema"):
        tflite.plan_offline(Source("m.tflite", write({**fields, 8: ("u32", 1)}, b"TFL3")))


def test_what_the_runtime_has_of_its_own_is_left_to_it() -> None:
    """Constants, variables, tensors of no bytes or of text, and what no operator uses. spec: FP11.3"""
    tensors = {"a": stored(16, "a", buffer=1), "b": stored(16, "b", variable=True)}
    assert [at == -1 for at in offsets(written(chain(*LINE, **tensors)))] == [False, True, True, False]
    tensors = {"a": stored(16, "a", kind=5), "b": stored(0, "b")}
    assert [at == -1 for at in offsets(written(chain(*LINE, **tensors)))] == [False, True, True, False]
    assert [at == -1 for at in offsets(written(chain(node(CONV, [0], [3]))))] == [False, True, True, False]


@pytest.mark.parametrize("kind", [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 15, 16, 17, 18])
def test_sizes_are_those_that_the_verifier_works_out(kind: int) -> None:
    """Two tables of element types agree: the capacity is the footprint. spec: FP11.2"""
    assert written(chain(node(CONV, [0], [3]), x=stored(7, "x", kind=kind)), alignment=1).footprint > 16


def test_a_view_lies_where_its_operand_does() -> None:
    """spec: FP11.3"""
    found = written(chain(node(CONV, [0], [1]), node(RESHAPE, [1], [2]), node(ADD, [1, 2], [3])))
    assert offsets(found)[1] == offsets(found)[2]
    found = written(chain(node(CONV, [0], [1]), node(RESHAPE, [1], [2]), node(ADD, [1, 2], [3]), b=stored(8, "b")))
    assert offsets(found)[1] != offsets(found)[2]


@pytest.mark.parametrize("code", [IF, WHILE])
@pytest.mark.parametrize("inner", [STEPS, (node(CONV, [0], [2]),), (node(RESHAPE, [0], [1]), node(CONV, [1], [2]))])
def test_what_an_operator_runs_is_laid_out_where_it_stands(code: int, inner: Any) -> None:
    """x and y live while the subgraphs run; those run one after the other, and may run again. spec: FP11.4"""
    call = node(code, [0, 0] if code == IF else [0], [1], options=[1, 2])
    nodes = [call, node(CONV, [1], [2]), node(ADD, [0, 2], [3])]
    assert written([*chain(*nodes), body(*inner), body(*STEPS)]).footprint <= 64
    again = node(code, [1, 1] if code == IF else [1], [2], options=[2, 1])
    written([*chain(call, again, node(ADD, [0, 2], [3])), body(*inner), body(*STEPS)])


def test_what_runs_once_is_laid_out_where_it_stands() -> None:
    """spec: FP11.4"""
    once = subgraph([stored(64, "t")], [node(CONV, [], [0])], [], [])
    found = written([*chain(node(CONV, [0], [3]), node(ONCE, [], [], options=[1])), once])
    assert (found.placed, found.footprint) == (3, 80)


@given(st.data())
def test_any_graph_gets_a_plan_that_is_right(data: st.DataObject) -> None:
    """Any operators over any earlier tensors, branches and loops in each other. spec: FP11.2 to FP11.4"""
    count = data.draw(st.integers(1, 3))
    graphs = []
    for g in range(count):
        sizes = data.draw(st.lists(st.sampled_from([8, 16, 32]), min_size=2, max_size=7)) if not g else [16] * 5
        nodes = []
        for t in range(1, len(sizes)):
            code = data.draw(st.sampled_from([RELU, ADD, CONV, RESHAPE, *([IF, WHILE] if g + 1 < count else [])]))
            reads = [data.draw(st.integers(0, t - 1)) for _ in range(2)]
            callees = [data.draw(st.integers(g + 1, count - 1)) for _ in range(2)] if code in (IF, WHILE) else []
            nodes.append(node(code, reads, [t], **({"options": callees} if callees else {})))
        tensors = [stored(size, f"{g}.{t}") for t, size in enumerate(sizes)]
        graphs.append(subgraph(tensors, nodes, [0], [len(sizes) - 1]))
    found = written(graphs, alignment=data.draw(st.sampled_from([1, 16])))
    assert found.peak <= found.footprint


REFUSED: dict[str, Any] = {
    "byte 4": b"\0\0\0\0TFL2" + bytes(64),
    "operator ethos-u": model(chain(node(NPU, [0], [3])), None, CODES),
    "after its tables": write({1: [], 2: [subgraph([], [], [], [])], 4: [{1: ("u64", 4096)}]}, b"TFL3"),
    "no subgraph": write({4: [{}]}, b"TFL3"),
    "is not below 4": model(chain(node(CONV, [0], [4])), None, CODES),
    "expected an operator code below 9, got 9": model(chain(node(9, [0], [3])), None, CODES),
    "expected a subgraph below 1, got 7": model(chain(node(IF, [0], [3], options=[7, 7])), None, CODES),
    "expected a buffer below 3, got 9": model(chain(*LINE, a=stored(16, "a", buffer=9)), None, CODES),
    "64 bits": model(chain(*LINE, a=stored(16, "a", shape=[1 << 30] * 3)), None, CODES),
    "cannot state": model(chain(*LINE, a=stored(16, "a", shape=[1 << 30, 2])), None, CODES),
    "options are stored": model(chain({**node(CONV, [0], [3]), 9: ("u64", 4096)}), None, CODES),
    "deeper than": model([chain(node(ONCE, [0], [3], options=[0]))[0]], None, CODES),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_planned_is_refused_with_its_place(what: str) -> None:
    """spec: FP11.6, FP2.3"""
    with pytest.raises(TmmuError, match=what) as refused:
        tflite.plan_offline(Source("m.tflite", REFUSED[what]))
    assert refused.value.code_id == "INVALID_PLAN"


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 99), st.sampled_from([1, 8, 16]))))
def test_buffers_that_live_at_one_step_share_no_byte(rows: list[tuple[int, int, int, int]]) -> None:
    """spec: FP11.1"""
    buffers = [LiveBuffer(min(a, b), max(a, b), size, step) for a, b, size, step in rows]
    found = pack_buffers(buffers)
    searched = pack_buffers(buffers, effort=10_000)
    assert peak_bytes(buffers) <= searched.height <= found.height
    for offsets_, height in (found, searched):
        spans = [(at, at + max(1, each.bytes)) for at, each in zip(offsets_, buffers, strict=True)]
        assert max((end for _, end in spans), default=0) <= height
        for k, (one, (low, high)) in enumerate(zip(buffers, spans, strict=True)):
            assert low % one.alignment == 0
            for other, (first, last) in zip(buffers[:k], spans[:k], strict=True):
                lives_together = one.birth <= other.death and other.birth <= one.death
                assert not (lives_together and low < last and first < high)


def test_an_effort_finds_a_lower_placement_of_buffers() -> None:
    given = hard(3)
    rows = zip(given.birth, given.death, given.size, given.alignment, strict=True)
    buffers = [LiveBuffer(*row) for row in rows]
    greedy, searched = (pack_buffers(buffers, effort=effort) for effort in (0, 30_000))
    assert right(given, list(searched.offsets))
    assert searched.height < greedy.height


@pytest.mark.parametrize(
    "wrong", [LiveBuffer(2, 1, 4), LiveBuffer(-1, 1, 4), LiveBuffer(0, 1, -4), LiveBuffer(0, 1, 4, 3)]
)
def test_a_buffer_without_a_lifetime_a_size_or_an_alignment_is_refused(wrong: LiveBuffer) -> None:
    """spec: FP11.1"""
    with pytest.raises(ValueError, match="buffer 1"):
        pack_buffers([LiveBuffer(0, 1, 4), wrong])
