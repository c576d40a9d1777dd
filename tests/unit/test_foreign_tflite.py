"""Offline plans of TensorFlow Lite and Vela's tables: what is read, and what is refused. spec: FP6.1 to FP6.12"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from proofs.readers.plans import tflite, vela
from proofs.readers.plans.foreign_plan import ForeignPlan
from proofs.readers.plans.tflite import ASSUMED, OPERATORS
from tests.support.flatbuffer_files import model, node, stored, subgraph, write
from tests.support.objections import objections
from tmmu.core.errors import TmmuError
from tmmu.core.source import Source
from tmmu.plans import file
from tmmu.plans.sections import BufferPlan, Plan

CODES: list[int | str] = [
    *(
        OPERATORS.index(name)
        for name in ("RELU", "ADD", "CONV_2D", "RESHAPE", "IF", "WHILE", "CALL_ONCE", "SVDF", "DYNAMIC_UPDATE_SLICE")
    ),
    "ethos-u",
]
RELU, ADD, CONV, RESHAPE, IF, WHILE, ONCE, SVDF, UPDATE, NPU = range(10)


def read(graphs: list[Any], offsets: list[int], capacity: int | None = None) -> ForeignPlan:
    """What is read of a model; it passes the gate."""
    found = tflite.read(Source("m.tflite", model(graphs, offsets, CODES), capacity=capacity))
    file.pass_gate(found.plan, found.reading)
    return found


def wrong(found: ForeignPlan) -> set[str]:
    """What is false in it."""
    assert isinstance(found.plan, Plan)
    return {str(each.obligation) for each in objections(found.plan, None, found.reading.donated)}


def names(found: ForeignPlan) -> list[str]:
    assert isinstance(found.plan, Plan)
    return found.plan.allocation.tensors.name.list()


def chain(*nodes: Any, **more: Any) -> list[Any]:
    """A subgraph of four tensors x, a, b and y of 16 bytes, or as `more` has them."""
    tensors = [more.get(name, stored(16, name)) for name in ("x", "a", "b", "y")]
    return [subgraph(tensors, list(nodes), [0], [3])]


LINE = (node(CONV, [0], [1]), node(CONV, [1, -1], [2]), node(ADD, [1, 2], [3]))


@pytest.mark.parametrize(
    ("offsets", "is_right"),
    [([0, 16, 0, 32], True), ([0, 16, 32, 0], True), ([0, 16, 8, 32], False), ([0, 0, 16, 32], False),
     ([0, 16, 16, 32], False), ([0, 16, 0, 0], True), ([0, 16, 0, 8], False)],
)  # fmt: skip
def test_accesses_follow_from_the_operators_in_their_order(offsets: list[int], is_right: bool) -> None:
    """ADD works in place, a convolution does not. spec: FP6.1, FP6.4, FP6.5"""
    assert (wrong(read(chain(*LINE), offsets)) == set()) is is_right


RIGHT, WRONG = [0, 16, 0, 32], [0, 16, 8, 32]


@pytest.mark.parametrize(
    ("lists", "found"),
    [((RIGHT, WRONG), False), ((WRONG, RIGHT), True), ((RIGHT, [0]), None), (([0], RIGHT), None)],
)  # fmt: skip
def test_of_several_lists_the_last_counts_and_all_must_fit(lists: Any, found: bool | None) -> None:
    """As TensorFlow Lite Micro has it. spec: FP6.1"""
    data = [struct.pack(f"<{3 + len(each)}i", 1, 1, len(each), *each) for each in lists]
    entries = [{0: tflite.METADATA, 1: ("u32", k)} for k in (1, 2)]
    codes = [{3: ("i32", code)} for code in CODES if isinstance(code, int)]
    made = write({1: codes, 2: chain(*LINE), 4: [{}, *({0: each} for each in data)], 6: entries}, b"TFL3")
    if found is None:
        with pytest.raises(TmmuError, match="1 offsets for 4 tensors"):
            tflite.read(Source("m.tflite", made))
    else:
        assert (wrong(tflite.read(Source("m.tflite", made))) == set()) is found


def test_an_update_may_take_the_bytes_of_its_first_operand_alone() -> None:
    """spec: FP6.5"""
    update = node(UPDATE, [1, 2], [3])
    nodes = (node(CONV, [0], [1]), node(CONV, [0], [2]), update)
    assert wrong(read(chain(*nodes), [0, 16, 32, 16])) == set()
    assert wrong(read(chain(*nodes), [0, 16, 32, 32])) != set()


def test_an_input_that_nothing_reads_is_whole_when_the_model_begins() -> None:
    """The first operator may write over it, another input may not. spec: FP6.14"""
    tensors = [stored(16, name) for name in "xuy"]
    graphs = [subgraph(tensors, [node(CONV, [0], [2])], [0, 1], [2])]
    assert wrong(read(graphs, [0, 16, 16])) == set()
    assert "no_live_overlap" in wrong(read(graphs, [0, 8, 32]))


def test_an_ethos_u_operator_writes_after_it_has_read() -> None:
    """Over its operand, not over what is read later. spec: FP6.13"""
    tensors = [stored(16, "x"), stored(16, "y"), stored(16, "z"), stored(4, "commands", buffer=1)]
    nodes = [node(NPU, [3, 3, 3, 3, 0], [1]), node(CONV, [1], [2])]
    found = read([subgraph(tensors, nodes, [0], [2])], [0, 0, 16, -1])
    assert wrong(found) == set()
    assert found.reading.assumptions == (ASSUMED,)
    assert wrong(read([subgraph(tensors, nodes, [0], [2, 0])], [0, 0, 16, -1])) != set()


def test_the_result_of_an_if_may_be_overwritten_by_the_operator_that_reads_it() -> None:
    """spec: FP6.7"""
    graphs = branches(IF)
    assert wrong(read(graphs, [0, 16, 32, 32, 64, 80, 64, 80])) == set()
    assert wrong(read(graphs, [0, 16, 32, 40, 64, 80, 64, 80])) != set()


def test_a_capacity_is_the_users() -> None:
    """spec: FP1.7"""
    assert wrong(read(chain(*LINE), [0, 16, 0, 32], 48)) == set()
    assert wrong(read(chain(*LINE), [0, 16, 0, 32], 47)) == {"capacity"}


def test_constants_and_what_the_runtime_places_are_outside() -> None:
    """spec: FP6.2"""
    found = read(chain(*LINE, b=stored(16, "b", buffer=1)), [0, 16, 0, -1])
    assert names(found) == ["x", "a"]
    assert {"constants", "tensors that the runtime places"} <= found.reading.outside.keys()


@pytest.mark.parametrize(
    ("kind", "bytes_", "offset"), [(3, 16, 16), (17, 16, 16), (17, 16, 8), (9, 16, 8), (1, 32, 32)]
)
def test_the_runtime_has_a_byte_for_an_element_of_four_bits(kind: int, bytes_: int, offset: int) -> None:
    """It unpacks them: a plan that packs int4 lets tensors overlap. spec: FP6.3"""
    tensors = {name: stored(16, name, kind=kind) for name in "xaby"}
    found = read(chain(*LINE, **tensors), [0, offset, 0, 2 * bytes_])
    assert isinstance(found.plan, Plan)
    assert found.plan.allocation.tensors.bytes.tolist() == [bytes_] * 4
    assert (wrong(found) == set()) is (offset == bytes_)


@pytest.mark.parametrize("kind", [19, 20, 13])
def test_an_element_type_that_the_runtime_does_not_know_is_refused(kind: int) -> None:
    """int2, uint4 and resources. spec: FP6.3"""
    with pytest.raises(TmmuError, match=f"a tensor of type {kind} "):
        read(chain(*LINE, b=stored(16, "b", kind=kind)), [0, 16, 0, 32])


OPEN = {"x": stored(shape=[1, 16], name="x", signature=[-1, 16])}


def of_open(dims: dict[str, int], **tensors: Any) -> ForeignPlan:
    source = Source("m.tflite", model(chain(*LINE, **tensors), [0, 16, 0, 32], CODES), dims=dims)
    return tflite.read(source)


def test_an_open_dimension_is_read_only_at_the_size_of_the_file_and_if_the_user_says_so() -> None:
    """The sizes of all tensors are those at the placeholder, at which such a model may not even run. spec: FP6.16"""
    with pytest.raises(TmmuError, match="placeholders: x:0") as refused:
        of_open({}, **OPEN)
    assert refused.value.fix is not None
    assert "add --dim x:0=1" in refused.value.fix
    assert of_open({"x:0": 1}, **OPEN).reading.assumptions == ("the open dimension x:0 is 1, as in the file",)
    with pytest.raises(TmmuError, match="--dim x:0=8: the sizes in the file are those at 1"):
        of_open({"x:0": 8}, **OPEN)
    with pytest.raises(TmmuError, match="--dim x:1=16: its open dimensions are x:0"):
        of_open({"x:0": 1, "x:1": 16}, **OPEN)
    with pytest.raises(TmmuError, match="--dim n=1: its open dimensions are none"):
        of_open({"n": 1})


@pytest.mark.parametrize("signature", [[1, 17], [16], [-1, -1, -1]])
def test_a_signature_that_is_not_of_the_shape_is_refused(signature: list[int]) -> None:
    """spec: FP6.16"""
    with pytest.raises(TmmuError, match=r"its shape is \[1, 16\] and its signature"):
        of_open({}, a=stored(shape=[1, 16], name="a", signature=signature))


def test_a_reshape_in_the_bytes_of_its_operand_is_a_view_and_elsewhere_a_copy() -> None:
    """spec: FP6.5"""
    nodes = node(CONV, [0], [1]), node(RESHAPE, [1], [2]), node(ADD, [1, 2], [3])
    assert wrong(read(chain(*nodes), [0, 16, 16, 32])) == set()
    assert wrong(read(chain(*nodes), [0, 16, 48, 32])) == set()
    assert "no_live_overlap" in wrong(read(chain(*nodes), [0, 16, 24, 48]))
    nodes = node(CONV, [0], [1]), node(CONV, [1], [2]), node(ADD, [1, 2], [3])
    assert "no_live_overlap" in wrong(read(chain(*nodes), [0, 16, 16, 32]))


def test_variables_are_state_and_intermediates_are_written() -> None:
    """spec: FP6.4"""
    nodes = node(SVDF, [0, 1], [2], intermediates=[3]), node(CONV, [2, 0], [4])
    tensors = [stored(16, "x"), stored(16, "state", variable=True), *(stored(16, name) for name in ("b", "i", "y"))]
    graphs = [subgraph(tensors, list(nodes), [0], [4])]
    found = read(graphs, [0, 16, 32, 48, 48])
    assert found.reading.donated == ("state",)
    assert wrong(found) == set()
    for offsets in ([0, 16, 32, 48, 16], [0, 16, 32, 32, 48], [0, 16, 32, 16, 48]):
        assert wrong(read(graphs, offsets)) != set()


def test_the_scratch_of_an_ethos_u_is_outside() -> None:
    """It has its operands and results in it. spec: FP6.6"""
    tensors = [stored(16, "x"), stored(64, "scratch"), stored(16, "y"), stored(4, "commands", buffer=1)]
    graphs = [subgraph(tensors, [node(NPU, [3, 3, 1, 1, 0], [2])], [0], [2])]
    found = read(graphs, [0, 0, 16, -1])
    assert wrong(found) == set()
    assert names(found) == ["x", "y"]
    assert "scratch of 0 ethos-u" in found.reading.outside


def branches(code: int) -> list[Any]:
    """y = If(flag, x) or While(x), then z = x + y; the subgraphs have a tensor more than input and output."""
    main = [stored(1, "flag"), *(stored(16, name) for name in "xyz")]
    reads = [0, 1] if code == IF else [1]
    inner = [
        subgraph([stored(16, f"p{g}"), stored(16, f"q{g}")], [node(CONV, [0], [1])], [0], [1]) for g in range(2)
    ]  # fmt: skip
    nodes = [node(code, reads, [2], options=[1, 2]), node(ADD, [1, 2], [3])]
    return [subgraph(main, nodes, [0, 1], [3]), *inner]


@pytest.mark.parametrize(
    ("inner", "is_right"),
    [((64, 80, 64, 80), True), ((64, 80, 96, 64), True), ((64, 64, 96, 64), False), ((16, 80, 64, 80), False),
     ((32, 80, 64, 80), True), ((64, 80, 32, 80), True), ((64, 36, 64, 80), False), ((64, 80, 72, 88), True)],
)  # fmt: skip
def test_the_arms_of_an_if_use_one_anothers_bytes(inner: tuple[int, ...], is_right: bool) -> None:
    """Not those of the operands, nor those of the results for what is copied there. spec: FP6.7, FP6.9"""
    found = read(branches(IF), [0, 16, 32, 48, *inner])
    assert (wrong(found) == set()) is is_right
    assert "0 IF/1/p1" in names(found)


@pytest.mark.parametrize(
    ("inner", "is_right"),
    [((64, 80, 96, 112), True), ((64, 80, 64, 80), True), ((16, 80, 96, 112), False), ((64, 80, 32, 112), False),
     ((64, 80, 96, 96), False)],
)  # fmt: skip
def test_the_results_of_a_while_are_kept_over_its_iterations(inner: tuple[int, ...], is_right: bool) -> None:
    """spec: FP6.8"""
    assert (wrong(read(branches(WHILE), [0, 16, 32, 48, *inner])) == set()) is is_right


def test_a_subgraph_is_stated_for_each_call_and_one_without_is_outside() -> None:
    """spec: FP6.9"""
    tensors = [stored(16, name) for name in "xay"]
    calls = [
        node(ONCE, [], [], options=[1]),
        node(CONV, [0], [1]),
        node(ONCE, [], [], options=[1]),
        node(ADD, [0, 1], [2]),
    ]
    inner = subgraph([stored(16, "x")], [node(CONV, [], [0])], [], [])
    found = read([subgraph(tensors, calls, [0], [2]), inner, inner], [0, 16, 32, 32, 0])
    assert names(found)[1:] == ["0 CALL_ONCE/x", "a", "2 CALL_ONCE/x", "y"]
    assert found.reading.outside["subgraph 2"] == "no operator calls it"
    assert wrong(found) == set()
    assert wrong(read([subgraph(tensors, calls, [0], [2]), inner], [0, 16, 32, 16])) != set()


def refused(data: bytes) -> str | None:
    with pytest.raises(TmmuError) as error:
        tflite.read(Source("m.tflite", data))
    assert (error.value.code_id, error.value.file) == ("INVALID_PLAN", "m.tflite")
    return error.value.place


OFFLINE = "OfflineMemoryAllocation"


@pytest.mark.parametrize(
    ("graphs", "offsets", "place"),
    [
        (chain(*LINE), None, None), (chain(*LINE), [0, 16, 0], OFFLINE), (chain(*LINE), [0] * 5, OFFLINE),
        (chain(*LINE), [0, 16, 0, -2], OFFLINE), (chain(*LINE), b"\0" * 7, OFFLINE), (chain(*LINE), b"\0" * 8, OFFLINE),
        (chain(*LINE), struct.pack("<7i", 1, 1, 9, 0, 0, 0, 0), OFFLINE), ([], [], OFFLINE),
        (chain(node(ADD, [0, 4], [3])), [0] * 4, "operator 0 of subgraph 0"),
        (chain(node(ADD, [0, -2], [3])), [0] * 4, "operator 0 of subgraph 0"),
        (chain(node(99, [0], [3])), [0] * 4, "operator 0 of subgraph 0"),
        (chain(a=stored(16, kind=5)), [0] * 4, "tensor 1 of subgraph 0"),
        (chain(a=stored(16, shape=[4, -4])), [0] * 4, "tensor 1 of subgraph 0"),
        (chain(a=stored(16, shape=[2**31 - 1] * 9)), [0] * 4, "tensor 1 of subgraph 0"),
        (chain(a=stored(16, buffer=3)), [0] * 4, "tensor 1 of subgraph 0"),
        (chain(node(IF, [0], [3], options=[0, 9])), [0] * 4, "0 IF"),
        (chain(node(WHILE, [0], [3])), [0] * 4, "0 WHILE"),
        (chain(*LINE), [-1] * 4, OFFLINE),
    ],
)  # fmt: skip
def test_what_is_no_plan_is_refused_with_its_place(graphs: list[Any], offsets: Any, place: str | None) -> None:
    """spec: FP2.4, FP6.1, FP6.2"""
    assert refused(model(graphs, offsets, CODES)) == place


def test_subgraphs_that_call_themselves_are_refused() -> None:
    """spec: FP2.2, FP2.3"""
    calls = [node(ONCE, [], [], options=[0])] * 2
    place = refused(model(chain(*calls), [0] * 4, CODES))
    assert place is not None
    assert place.count("/") == 64


# Vela

TABLE = """Allocation, memory Sram, usage mask: FeatureMap|Staging
Start Time - End Time  : Start Addr -   End Addr: Tensor Size: Memory Usage: Format         : Name
         0 -          3:        0x0 -       0x10:          16:           32: NHWC           : x
         2 -          5:       0x10 -       0x20:          16:           32: NHWC           : a:0
         2 -          5:       0x10 -       0x20:          16:           32: NHWC           : b
Allocation Peak Tensor Size: 32 bytes == 0.03 KiB
"""
END = "Network summary for m\n"


def peak(size: int) -> str:
    """What stands behind a table of so many bytes."""
    return f"Allocation Peak Tensor Size: {size} bytes == 0 KiB\n"


def buffers(text: str) -> list[tuple[Any, ...]]:
    """Name, arena, both times, address and bytes of each buffer."""
    found = vela.read(Source("v.txt", (text + END).encode()))
    assert isinstance(found.plan, BufferPlan)
    s, names = found.plan.buffers.storages, [arena.name for arena in found.plan.buffers.arenas]
    columns = (s.birth, s.death, s.offset, s.bytes)
    rows = zip(found.plan.buffers.name, s.arena.tolist(), *(c.tolist() for c in columns), strict=True)
    return [(name, names[arena], *rest) for name, arena, *rest in rows]


def test_rows_are_buffers_and_equal_ones_a_live_range() -> None:
    """spec: FP6.10, FP6.11"""
    expected = [("x", "Sram", 0, 3, 0, 16), ("a:0, b", "Sram", 2, 5, 16, 16)]
    assert buffers(TABLE) == expected
    assert buffers(TABLE + TABLE)[2:] == [
        ("x #2", "Sram #2", 0, 3, 0, 16),
        ("a:0, b #2", "Sram #2", 2, 5, 16, 16),
    ]
    assert vela.read(Source("v.txt", (TABLE + END).encode())).reading.assumptions[0].endswith("a:0, b")
    purpose = TABLE.replace(": Format  ", ": Purpose: Format  ").replace(": NHWC", ": FeatureMap: NHWC")
    assert buffers(purpose) == expected


def test_numbers_go_to_their_ends_and_a_table_ends_with_its_rows() -> None:
    """spec: FP6.10, FP6.12"""
    high, low = 0xFEDCBA9876543210, 0x1234567
    row = f" 1234567890 - 1234567890: 0x{low:x} - 0x{high:X}: {high - low} : 0: NHWC: long\n"
    empty = " 0 - 4294967294: 0xabcdef - ABCDEF: 0 : 0: NHWC: e\n"
    head = TABLE.splitlines(keepends=True)[1]
    assert buffers(head + row + empty + peak(high) + "\nWarning: x\n####\n") == [
        ("long", "memory", 1234567890, 1234567890, low, high - low), ("e", "memory", 0, 4294967294, 0xABCDEF, 0),
    ]  # fmt: skip
    found = vela.read(Source("v.txt", (head + row + peak(high) + END).encode(), capacity=7))
    assert isinstance(found.plan, BufferPlan)
    assert (found.plan.buffers.arenas[0].capacity, found.reading.assumptions, found.reading.outside) == (7, (), {})
    assert found.plan.buffers.storages.alignment.tolist() == [1]


@pytest.mark.parametrize("count", [8, 9])
def test_of_many_rows_that_are_one_some_are_listed(count: int) -> None:
    head = TABLE.splitlines(keepends=True)[1]
    text = head + "".join(f" {k} - 9: 0x0 - 0x1: 1: 0: NHWC: {name}{k}\n" for k in range(count) for name in "ab")
    (assumption,) = vela.read(Source("v.txt", (text + peak(1) + END).encode())).reading.assumptions
    assert assumption.endswith("a7, b7" + " and 1 more" * (count - 8))


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [("0x10 -       0x20:          16:           32: NHWC           : b", "0x10 - 0x20: 16", 5),
     ("0 -          3", "4 - 3", 3),
     ("0x0 -", "0x8 -", 3), ("0 -          3", "-1 - 3", 3), ("0x10:", "0xg:", 3), ("0x0 -       0x10", "0x10", 3),
     ("          16:           32: NHWC           : x", "x: 32: NHWC: x", 3), ("0 -          3", "0 - 4294967295", 3)],
)  # fmt: skip
def test_a_row_that_is_none_is_refused_with_its_line(old: str, new: str, line: int) -> None:
    """spec: FP6.12"""
    assert old in TABLE
    with pytest.raises(TmmuError) as error:
        buffers(TABLE.replace(old, new))
    assert (error.value.code_id, error.value.place) == ("INVALID_PLAN", f"line {line}")
    with pytest.raises(TmmuError):
        buffers("\n".join(TABLE.splitlines()[:2]))


OLDER = """Allocation Peak Tensor Size:         24 (      0x18) Bytes     0.02 KiB
Allocation Peak Memory Usage:        32 (      0x20) Bytes     0.03 KiB
Allocation Overhead:                  8 Bytes (33.33 %)
"""


@pytest.mark.parametrize(
    ("text", "what"),
    [(TABLE, "Network summary for"), (TABLE + TABLE, "Network summary for"),
     (TABLE.rpartition("Allocation")[0] + END, "line 5: .* Allocation Peak"),
     (TABLE + TABLE.rpartition("Allocation")[0] + END, "line 11: .* Allocation Peak"),
     (TABLE.replace("32 bytes", "48 bytes") + END, "line 5: .* end at byte 32, and it takes 48"),
     (TABLE.replace("32 bytes", "16 bytes") + END, "line 5: .* end at byte 32, and it takes 16"),
     (TABLE.rpartition("Allocation")[0] + OLDER.partition("\n")[0] + "\n" + END, "line 5: .* it takes 24")],
)  # fmt: skip
def test_a_table_ends_with_the_bytes_that_it_takes_and_the_last_one_with_the_summary(text: str, what: str) -> None:
    """Of either compilation core of Vela's. spec: FP6.15"""
    with pytest.raises(TmmuError, match=what) as error:
        vela.read(Source("v.txt", text.encode()))
    assert "not whole" in str(error.value)
    assert buffers(TABLE.rpartition("Allocation")[0] + OLDER) == buffers(TABLE)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (": a:0\n", ": a:0\nnovel\n", 5), (": a:0\n", ": a:0\n\n", 6), ("Staging\n", "Staging novel,\n", 1),
        (": Format  ", ": Novel   ", 2), ("KiB\n", "KiB novel\n", 6), ("KiB\n", "KiB\nnovel\n", 7),
        ("Allocation, ", "Novel\n", 1),
        ("32: NHWC           : x", "novel: NHWC           : x", 3), (": NHWC           : x", ": N HWC: x", 3),
        ("KiB\n", "KiB\n 0 - 3: 0x0 - 0x10: 16: 32: NHWC: y\n", 7), ("for m\n", "for m\nnovel: 1\n", 8),
    ],
)  # fmt: skip
def test_a_line_of_vela_that_is_not_known_is_refused(old: str, new: str, line: int) -> None:
    """spec: FP6.19"""
    text = TABLE + END
    assert old in text
    vela.read(Source("v", (f"Warning: x\n{text}\nCPU operators = 0 (0.0%)\n").encode()))
    with pytest.raises(TmmuError) as error:
        vela.read(Source("v", text.replace(old, new, 1).encode()))
    assert error.value.place == f"line {line}"


def changed(code: int = 0, tensor: Any = None, more: Any = None, **fields: Any) -> bytes:
    """A model of one operator, with further fields of its tables."""
    tensors = [stored(16, "x"), stored(16, "y") | (tensor or {})]
    made = node(0, [0], [1]) | (more or {})
    return model([subgraph(tensors, [made], [0], [1])], fields.get("offsets", [0, 16]), [code])


@pytest.mark.parametrize(
    "data",
    [
        changed(tensor={10: ("u32", 1)}), changed(more={14: ("u32", 1)}), changed(tensor={6: {}}),
        changed(tensor={9: [{}]}),
        changed(more={7: ("u8", [1])}), changed(code=118, more={3: ("u8", 1), 4: {}}),
        changed(code=118, more={3: ("u8", 92), 4: {2: ("i32", 0)}}),
        changed(offsets=b"\2\0\0\0\1\0\0\0\2\0\0\0\0\0\0\0\x10\0\0\0"),
    ],
)  # fmt: skip
def test_a_model_with_more_than_its_schema_is_refused(data: bytes) -> None:
    """spec: FP6.17, FP6.18"""
    with pytest.raises(TmmuError) as error:
        tflite.read(Source("m", data))
    assert error.value.place


@pytest.mark.parametrize(("code", "count"), [(0, 0), (208, 0), (209, 1), (31, 1), (51, 1), (32, 0)])
def test_an_operator_that_is_not_known_is_undecided(code: int, count: int) -> None:
    """spec: FP6.17"""
    assert len(tflite.read(Source("m", changed(code=code))).reading.undecided) == count
