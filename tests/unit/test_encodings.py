"""A stored tensor states its elements once: importer and verifier refuse whatever else the format can hold.

Each has code of its own; both are asked about every element type in every field, and about random mixtures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import AttributeProto, SparseTensorProto, TensorProto, defs, helper, numpy_helper

from proofs.readers.models.onnx import read_onnx
from proofs.readers.models.sizes import encodings as verifiers
from proofs.readers.operators import row_of
from proofs.readers.operators.sizes.stored import value_of
from tmmu.core.dtypes import BITS
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Bindings
from tmmu.importers.onnx import import_onnx
from tmmu.onnx import encodings as importers
from tmmu.onnx.sizes import DTYPES
from tmmu.onnx.values import stored_value

FIELDS = ("raw_data", *importers.TYPED)
SHAPES = ((), (0,), (1,), (3,), (2, 5))


def refused(stored: TensorProto | SparseTensorProto) -> list[str]:
    """What importer and verifier say of an initializer, in this order; empty where they take it."""
    graph = onnx.GraphProto()
    (graph.initializer if isinstance(stored, TensorProto) else graph.sparse_initializer).append(stored)
    return both(graph)


def both(graph: onnx.GraphProto) -> list[str]:
    answers = []
    for look in (lambda: importers.check([graph], graph.node), lambda: verifiers.check(graph, "")):
        try:
            look()
        except TmmuError as refusal:
            answers.append(f"{refusal.code_id}: {refusal}")
    assert len(answers) != 1, f"one refuses what the other takes: {answers}"
    assert all(answer.startswith("INVALID_IR: ") for answer in answers)
    return answers


def zeros(number: int, shape: tuple[int, ...], raw: bool) -> TensorProto:
    """Zeros of an element type, in the form in which onnx's text says that they are stored."""
    made = TensorProto(name="t", data_type=number, dims=shape)
    elements = int(np.prod(shape))
    if number == TensorProto.STRING:
        made.string_data.extend([b""] * elements)
        return made
    dtype = DTYPES[number]
    if raw:
        made.raw_data = bytes(-(-elements * BITS[dtype] // 8))
        return made
    per_entry = max(1, 8 // BITS[dtype])
    entries = -(-elements // per_entry) * (2 if dtype.startswith("complex") else 1)
    getattr(made, helper.tensor_dtype_to_field(number)).extend([0] * entries)
    return made


@pytest.mark.parametrize("number", [*DTYPES, TensorProto.STRING])
def test_each_type_has_one_field_and_one_number_of_entries(number: int) -> None:
    """spec: T10.8"""
    for shape in SHAPES:
        elements = int(np.prod(shape))
        for raw in (True, False):
            right = zeros(number, shape, raw)
            assert refused(right) == []
            if number not in (TensorProto.STRING, *_UNREAD):
                assert numpy_helper.to_array(right).shape == shape
            assert not elements or refused(resized(right, shape, (elements + 8,)))
            assert not elements or refused(resized(right, shape, (0,)))
        stripped = TensorProto(name="t", data_type=number, dims=shape)
        assert refused(stripped) == []
        for field in FIELDS:
            alone = TensorProto(name="t", data_type=number, dims=shape)
            fill(alone, field, max(1, elements))
            mine = field == ("string_data" if number == TensorProto.STRING else helper.tensor_dtype_to_field(number))
            if field != "raw_data" and not mine:
                assert refused(alone), f"{field} holds what is no {number}"


_UNREAD = {number for number, name in DTYPES.items() if name in ("uint2", "int2", "float8e8m0")}
"""Types that onnx's own reader reads only where a package is installed."""


def resized(tensor: TensorProto, _: tuple[int, ...], shape: tuple[int, ...]) -> TensorProto:
    other = TensorProto()
    other.CopyFrom(tensor)
    del other.dims[:]
    other.dims.extend(shape)
    return other


def fill(tensor: TensorProto, field: str, count: int) -> None:
    if field == "raw_data":
        tensor.raw_data = bytes(count)
    else:
        getattr(tensor, field).extend([b"" if field == "string_data" else 0] * count)


def external(tensor: TensorProto, **stated: str) -> TensorProto:
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in stated.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


def boolean(**fields: Any) -> TensorProto:
    return TensorProto(name="t", data_type=TensorProto.BOOL, **fields)


def of(number: int, *entries: int, field: str = "int32_data") -> TensorProto:
    made = TensorProto(name="t", data_type=number, dims=[len(entries)])
    getattr(made, field).extend(entries)
    return made


FILE = {"location": "data"}
TWICE = {key: [onnx.StringStringEntryProto(key=key, value=value) for value in "01"] for key in ("offset", "length")}
TENSORS: dict[str, tuple[TensorProto, bool]] = {
    "true in one field, false in another": (boolean(raw_data=b"\1", int32_data=[0]), True),
    "the same in two fields": (boolean(raw_data=b"\0", int32_data=[0]), True),
    "an empty field beside a full one": (boolean(raw_data=b"", int32_data=[0]), True),
    "two fields, neither of the type": (boolean(int64_data=[0], double_data=[0]), True),
    "a file and a field": (external(boolean(raw_data=b"\0"), **FILE), True),
    "a file and a field of entries": (external(boolean(int32_data=[0]), **FILE), True),
    "a file": (external(boolean(), location="data", offset="4096", length="1"), False),
    "a file that is not used": (boolean(external_data=external(boolean(), **FILE).external_data), True),
    "a file beside a field that is used": (
        boolean(raw_data=b"\0", external_data=external(boolean(), **FILE).external_data), True),
    "no file": (external(boolean()), True),
    "a file without a name": (external(boolean(), location=""), True),
    "two files": (boolean(data_location=TensorProto.EXTERNAL, external_data=[
        onnx.StringStringEntryProto(key="location", value=name) for name in "ab"]), True),
    "a file of another length": (external(boolean(), location="data", length="2"), True),
    "a length that is no number": (external(boolean(), location="data", length="-1"), True),
    "an offset that is no number": (external(boolean(), location="data", offset="\u0663"), True),
    "an offset of too many digits": (external(boolean(), location="data", offset="9" * 5000), True),
    "two offsets": (external(boolean(external_data=TWICE["offset"]), **FILE), True),
    "two lengths": (external(boolean(external_data=TWICE["length"]), **FILE), True),
    "an offset in letters": (external(boolean(), location="data", offset="0x1"), True),
    "an offset of twenty digits": (external(boolean(), location="data", offset="9" * 20), False),
    "an offset of twenty-one digits": (external(boolean(), location="data", offset="9" * 21), True),
    "a field beside an empty one of a negative shape": (
        TensorProto(name="t", data_type=1, dims=[-1], float_data=[1]), False),  # refused by its shape where it is read
    "a checksum": (external(boolean(), location="data", checksum="0"), False),
    "strings in a file": (external(TensorProto(name="t", data_type=TensorProto.STRING), **FILE), True),
    "strings as bytes": (TensorProto(name="t", data_type=TensorProto.STRING, raw_data=b"x"), True),
    "a segment": (boolean(raw_data=b"\0", segment=TensorProto.Segment(begin=0, end=1)), True),
    "a bool that is 2": (boolean(raw_data=b"\2"), True),
    "an entry for a bool that is 2": (boolean(int32_data=[2]), True),
    "an entry for a bool that is 256": (boolean(int32_data=[256]), True),
    "the least of int8": (of(TensorProto.INT8, -128, 127), False),
    "less than int8 has": (of(TensorProto.INT8, -129), True),
    "more than int8 has": (of(TensorProto.INT8, 128), True),
    "the largest of uint8": (of(TensorProto.UINT8, 255), False),
    "more than uint8 has": (of(TensorProto.UINT8, 256), True),
    "less than uint16 has": (of(TensorProto.UINT16, -1), True),
    "bits of a float16": (of(TensorProto.FLOAT16, 0xFFFF), False),
    "more bits than a float16 has": (of(TensorProto.FLOAT16, 0x10000), True),
    "two int4 in a byte": (resized(of(TensorProto.INT4, 0xFF), (), (2,)), False),
    "two int4 in more than a byte": (resized(of(TensorProto.INT4, 0x100), (), (2,)), True),
    "more than uint32 has": (of(TensorProto.UINT32, 1 << 32, field="uint64_data"), True),
    "the largest of uint32": (of(TensorProto.UINT32, (1 << 32) - 1, field="uint64_data"), False),
    "the largest of uint64": (of(TensorProto.UINT64, (1 << 64) - 1, field="uint64_data"), False),
}  # fmt: skip


@pytest.mark.parametrize("name", TENSORS)
def test_what_states_its_elements_twice_or_wrongly_is_refused(name: str) -> None:
    """spec: T10.8"""
    tensor, expected = TENSORS[name]
    answers = refused(tensor)
    assert bool(answers) is expected
    assert all("t" in answer for answer in answers)
    for kind, value in ((AttributeProto.TENSOR, tensor), (AttributeProto.TENSORS, [tensor])):
        node = helper.make_node("Other", [], ["y"], name="n", domain="my")
        field = {AttributeProto.TENSOR: "t", AttributeProto.TENSORS: "tensors"}[kind]
        held = value if isinstance(value, list) else None
        made = AttributeProto(name="value", type=kind, **{field: held or tensor})
        node.attribute.append(made)
        assert bool(both(onnx.GraphProto(node=[node]))) is expected


@st.composite
def mixtures(draw: st.DrawFn) -> TensorProto:
    """A tensor of small shape whose fields are filled at random, mostly with as many entries as fit."""
    number = draw(st.sampled_from([*DTYPES, TensorProto.STRING]))
    shape = draw(st.sampled_from(SHAPES))
    made = zeros(number, shape, draw(st.booleans()))
    for field in draw(st.lists(st.sampled_from(FIELDS), max_size=2)):
        if draw(st.booleans()):
            made.ClearField(field)
        else:
            fill(made, field, draw(st.integers(0, 4)))
    if draw(st.integers(0, 5)) == 0:
        external(made, **{key: draw(st.sampled_from(("", "0", "1", "x"))) for key in ("location", "length")})
    return made


@given(mixtures())
def test_planner_and_verifier_take_the_same_tensors_and_read_the_same_values(tensor: TensorProto) -> None:
    """spec: T10.8, D1.3"""
    answers = refused(tensor)
    value = value_of(tensor)
    if answers:
        assert value is None
    elif value is not None:
        read = stored_value(tensor)
        assert read is not None
        assert np.array_equal(read, value.cells.astype(read.dtype))


def sparse(values: TensorProto, indices: list[Any], dims: list[int]) -> SparseTensorProto:
    return helper.make_sparse_tensor(values, numpy_helper.from_array(np.array(indices, np.int64), "i"), dims)


TWO = numpy_helper.from_array(np.array([1.0, 2.0], np.float32), "s")
SPARSE: dict[str, tuple[SparseTensorProto, bool]] = {
    "by row and column": (sparse(TWO, [[0, 1], [2, 0]], [3, 2]), False),
    "by number": (sparse(TWO, [1, 4], [3, 2]), False),
    "one place twice": (sparse(TWO, [1, 1], [3, 2]), True),
    "places that descend": (sparse(TWO, [[2, 0], [0, 1]], [3, 2]), True),
    "a place outside": (sparse(TWO, [1, 6], [3, 2]), True),
    "a column outside": (sparse(TWO, [[0, 1], [0, 2]], [3, 2]), True),
    "a negative place": (sparse(TWO, [-1, 1], [3, 2]), True),
    "places of another rank": (sparse(TWO, [[0], [1]], [3, 2]), True),
    "a place too few": (sparse(TWO, [1], [3, 2]), True),
    "values in a square": (sparse(numpy_helper.from_array(np.ones((1, 2), np.float32), "s"), [1, 2], [3, 2]), True),
    "places of int32": (
        helper.make_sparse_tensor(TWO, numpy_helper.from_array(np.array([1, 4], np.int32), "i"), [3, 2]), True),
    "values stated twice": (sparse(TensorProto(
        name="s", data_type=1, dims=[2], raw_data=bytes(8), float_data=[1, 2]), [1, 4], [3, 2]), True),
    "places stated twice": (helper.make_sparse_tensor(TWO, TensorProto(
        name="i", data_type=7, dims=[2], raw_data=bytes(16), int64_data=[0, 1]), [3, 2]), True),
    "places by entries": (helper.make_sparse_tensor(TWO, TensorProto(
        name="i", data_type=7, dims=[2], int64_data=[0, 1]), [3, 2]), False),
    "places left out": (helper.make_sparse_tensor(TWO, TensorProto(name="i", data_type=7, dims=[2]), [3, 2]), False),
    "places in a file": (helper.make_sparse_tensor(TWO, external(
        TensorProto(name="i", data_type=7, dims=[2]), **FILE), [3, 2]), False),
    "a negative dimension": (sparse(TWO, [1, 4], [3, -2]), False),  # refused by its shape where it is read
}  # fmt: skip


@pytest.mark.parametrize("name", SPARSE)
def test_a_sparse_tensor_has_a_place_for_each_value(name: str) -> None:
    """spec: T10.8"""
    tensor, expected = SPARSE[name]
    assert bool(refused(tensor)) is expected
    for kind in ("SPARSE_TENSOR", "SPARSE_TENSORS"):
        value: Any = tensor if kind == "SPARSE_TENSOR" else [tensor]
        attribute = AttributeProto(name="v", type=kind, **{kind.lower(): value})
        node = onnx.NodeProto(op_type="Other", domain="my", output=["y"], attribute=[attribute])
        assert bool(both(onnx.GraphProto(node=[node]))) is expected


def twice(op: str, *attributes: AttributeProto) -> onnx.NodeProto:
    return onnx.NodeProto(op_type=op, output=["y"], attribute=attributes)


INT, FLOATS = helper.make_attribute("value_int", 1), helper.make_attribute("value_floats", [1.0])


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (twice("Constant", INT), False), (twice("Constant", INT, FLOATS), True), (twice("Constant"), True),
        (twice("Other", INT, FLOATS), False),
        (helper.make_node("Constant", [], ["y"], domain="my"), False), (twice("Other", INT, INT), True),
        (twice("Other", INT, helper.make_attribute("value_int", [1])), True),
    ],
)  # fmt: skip
def test_a_node_states_each_of_its_values_once(node: onnx.NodeProto, expected: bool) -> None:
    """spec: T10.8"""
    assert bool(both(onnx.GraphProto(node=[node]))) is expected
    node.name = "n"
    assert all("n" in answer for answer in both(onnx.GraphProto(node=[node])))


def dropout(trains: TensorProto, within: bool) -> onnx.ModelProto:
    """A Dropout whose training_mode is stored, in the main graph or in a branch."""
    trains.name = "t"
    ratio = numpy_helper.from_array(np.array(0.5, np.float32), "r")
    drop = helper.make_node("Dropout", ["x", "r", "t"], ["y"], name="drop")
    nodes, stored = [drop, helper.make_node("Relu", ["y"], ["z"], name="relu")], [ratio, trains]
    value, result = (helper.make_tensor_value_info(name, 1, [64]) for name in "xz")
    inputs = [value]
    if within:
        arms = [helper.make_graph(nodes, "g", [], [result], stored)]
        arms.append(helper.make_graph([helper.make_node("Neg", ["x"], ["n"])], "h", [], [
            helper.make_tensor_value_info("n", 1, [64])]))  # fmt: skip
        nodes = [helper.make_node("If", ["c"], ["z"], name="if", then_branch=arms[0], else_branch=arms[1])]
        inputs, stored = [value, helper.make_tensor_value_info("c", 9, [])], []
    graph = helper.make_graph(nodes, "main", inputs, [result], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def readers(path: Path) -> Iterator[Callable[[], object]]:
    yield lambda: import_onnx(path)
    yield lambda: read_onnx(path, Bindings())


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize(
    "trains",
    [
        boolean(raw_data=b"\1", int32_data=[0]), external(boolean(raw_data=b"\0"), location="w", length="1"),
    ],
    ids=["two-fields", "external"],
)  # fmt: skip
def test_a_mode_that_is_stated_twice_is_refused_by_both(
    trains: TensorProto, within: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verifier by itself, also where the importer would not. spec: T10.8"""
    path = tmp_path / "m.onnx"
    onnx.save_model(dropout(boolean(raw_data=b"\0"), within), path)
    for read in readers(path):
        read()
    path.write_bytes(dropout(trains, within).SerializeToString())
    for k, read in enumerate(readers(path)):
        if k:
            monkeypatch.setattr(importers, "check", lambda graphs, nodes: None)
        with pytest.raises(TmmuError, match=r"m\.onnx.*'?t'?: its elements are") as refusal:
            read()
        assert refusal.value.code_id == "INVALID_IR"


def flags() -> list[tuple[str, str, str]]:
    """Every integer attribute of every operator of ONNX that is a flag by either list: domain, operator, attribute."""
    return sorted({
        (schema.domain, schema.name, name)
        for schema in defs.get_all_schemas_with_history()
        for name, attribute in schema.attributes.items()
        if attribute.type == defs.OpSchema.AttrType.INT
        and (name in importers.FLAGS or name in row_of(schema.domain, schema.name).flags.split())
    })  # fmt: skip


def test_a_flag_is_0_or_1() -> None:
    """spec: T10.10"""
    assert {name for *_, name in flags()} == importers.FLAGS
    for domain, operator, name in flags():
        for value in (-1, 0, 1, 2):
            node = helper.make_node(operator, ["x"], ["y"], domain=domain, **{name: value})
            answers = both(onnx.GraphProto(node=[node]))
            assert len(answers) == (0 if value in (0, 1) else 2), (operator, name, value)
            assert all("expected 0 or 1" in answer for answer in answers)
    own = helper.make_node("Own", ["x"], ["y"], domain="my.domain", keepdims=2)
    assert both(onnx.GraphProto(node=[own])) == []
