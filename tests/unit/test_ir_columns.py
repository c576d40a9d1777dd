"""A model as columns: written and read again it is the same, and what is no model is refused with its place.

spec: I1.1, I1.2
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.example_models import full
from tests.support.text_models import text_model
from tmmu.core import canonical
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Bindings, Body, Model
from tmmu.ir import columns, validate


def test_a_model_is_read_as_it_was_written() -> None:
    for model in (full(), Model("empty", (), (), (Body(-1, "", (), ()),))):
        validate.validate_model(model)
        data = canonical.encode(columns.to_object(model))
        again = columns.from_object(canonical.decode(data))
        assert again == model
        assert canonical.encode(columns.to_object(again)) == data


def test_the_digest_is_that_of_the_written_object_and_changes_with_every_part() -> None:
    """spec: R2.3"""
    model = full()
    assert columns.model_digest(model) == canonical.digest(columns.to_object(model))
    others = [
        replace(model, name="other"),
        replace(model, unproduced=()),
        replace(model, bindings=Bindings(ranges=model.bindings.ranges)),
    ]
    assert len({columns.model_digest(m) for m in (model, *others)}) == 4


def u32(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.uint32)


def u8(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.uint8)


def u64(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.uint64)


ABSENT = object()
WRONG: list[tuple[str, Any, str]] = [
    ("format", "tmmu-plan", "format"),
    ("format", u8(1, 2), "format: expected a text, got"),
    ("version", 2, "version"),
    ("extra", 1, "unknown key 'extra'"),
    ("tensors.extra", 1, "unknown key 'extra' in tensors"),
    ("views.extra", 1, "in views"),
    ("nodes.extra", 1, "in nodes"),
    ("in_place.extra", 1, "in in_place"),
    ("scratch.extra", 1, "in scratch"),
    ("bodies.extra", 1, "in bodies"),
    ("bindings.extra", 1, "in bindings"),
    ("name", ABSENT, "missing 'name'"),
    ("tensors.shape", ABSENT, "missing 'shape'"),
    ("name", 3, "name: expected a text, got"),
    ("tensors", [], "tensors: expected a map, got an array"),
    ("dtypes", "uint8", "unknown dtype"),
    ("dtypes", ["uint7", "float16"], "unknown dtype 'uint7'"),
    ("dtypes", ["uint8", 5], "a dtype: expected a text, got"),
    ("dtypes", ["uint8", "float16", "float32"], "dtypes is not in the form that is written"),
    ("groups", [7], "a group: expected a text, got"),
    ("groups", ["tied", "other"], "groups is not"),
    ("ops", [["", "Add"]], "nodes.op points beyond 1 entries"),
    ("ops", ["ab"] * 5, "ops is not in the form that is written"),
    ("ops", [["", 1]], "an operator: expected a text, got"),
    ("tensors.name", b"x", "expected 9 names in tensors.name, got 1"),
    ("tensors.name", "x", "tensors.name: expected a byte string, got"),
    ("tensors.name", b"\xff", "utf-8"),
    ("tensors.dtype", [0] * 9, "tensors.dtype: expected a column of uint8, got"),
    ("tensors.dtype", u32(0), "tensors.dtype: expected a column of uint8, got"),
    ("tensors.dtype", u8(*[9] * 9), "tensors.dtype points beyond 2 entries"),
    ("tensors.role", u8(*[200] * 9), "tensors.role points beyond 6 entries"),
    ("tensors.role", u8(0), "shorter"),
    ("tensors.saved", u8(0, 0, 2, 0, 0, 0, 0, 0, 0), "tensors is not"),
    ("tensors.group", u32(*[5] * 9), "tensors.group points beyond 1 entries"),
    ("tensors.shape_at", u32(0, 1), "tensors.shape_at: expected 10 ascending bounds of 9 rows"),
    ("tensors.shape_at", u32(1, *range(1, 10)), "expected 10 ascending bounds"),
    ("tensors.shape_at", u32(0, 2, 1, *range(3, 10)), "expected 10 ascending bounds"),
    ("tensors.shape_at", u32(*range(9), 8), "expected 10 ascending bounds"),
    ("views.tensor", u32(99), "views point beyond the tensors"),
    ("views.base", u32(99), "views point beyond the tensors"),
    ("views.strides", [], "shorter"),
    ("views.strides", [["8", "1"]], "views is not"),
    ("views.strides", [[8.5]], "no float"),
    ("envelopes", [[99, [0]], [3, [0]]], "envelopes is not"),
    ("envelopes", [[2, [9]], [3, [0]]], "envelopes points beyond the terms"),
    ("envelopes", [[2, [0, 0]], [3, [0]]], "envelopes is not"),
    ("envelopes", [], "terms and envelopes belong together"),
    ("terms", ABSENT, "terms and envelopes belong together"),
    ("terms.value", u64(1), "expected a number or a dimension of the envelope"),
    ("terms.op", u8(9), "unknown operation 9"),
    ("terms.op", u8(4), "refers to terms that do not come before it"),
    ("terms.left", u32(0, 0), "longer"),
    ("terms.extra", 1, "in terms"),
    ("bindings.ranges", {"m": [1]}, "two increasing sizes for 'm'"),
    ("bindings.ranges", {"m": [64, 64]}, "two increasing sizes for 'm'"),
    ("bindings.ranges", {"m\0": [1, 64]}, "contains a NUL"),
    ("bindings.ranges", {"n": [1, 64], "m": [1, 64]}, "'n' is bound already"),
    ("bindings.ranges", {"m": [1, 65]}, "is not in the form that is written"),
    ("envelopes", 3, "not iterable"),
    ("nodes.body", u32(9, 0, 0, 1, 0), "nodes.body points beyond 2 entries"),
    ("nodes.body", u32(0, 0, 0, 1, 0, 0), "nodes is not"),
    ("nodes.reads", u32(*[9] * 7), "nodes.reads points beyond 9 rows"),
    ("nodes.phase", u8(*[7] * 5), "nodes.phase points beyond 3 entries"),
    ("in_place.node", u32(99), "in_place points beyond"),
    ("in_place.result", u32(99), "in_place points beyond"),
    ("in_place.operand", u32(99), "in_place points beyond"),
    ("in_place.operand", u32(), "shorter"),
    ("scratch.node", u32(99, 0), "scratch points beyond"),
    ("scratch.arena", [None, 5], "scratch.arena: expected a text, got"),
    ("bodies.owner", u32(0, 2), "expected the main graph as the first body"),
    ("bodies.owner", u32(), "nodes.body points beyond 0 entries"),
    ("bodies.owner", u32(0xFFFFFFFF, 0xFFFFFFFF), "a node as the owner of every other"),
    ("bodies.iterates", u8(0, 3), "bodies is not"),
    ("must_not_alias", [[0, 99]], "must_not_alias points beyond"),
    ("must_not_alias", [[0, -1]], "must_not_alias points beyond"),
    ("must_not_alias", [["0", "5"]], "must_not_alias is not"),
    ("must_not_alias", [[0, True]], "must_not_alias is not"),
    ("unproduced", [3], "an unproduced name: expected a text, got"),
    ("unproduced", "mask", "unproduced is not"),
    ("source_digest", bytes(31), "source_digest: expected a SHA-256"),
    ("source_digest", "0" * 32, "source_digest: expected a SHA-256"),
    ("bindings", [], "bindings: expected a map, got an array"),
    ("bindings.dims", {"n": -1}, "bindings.dims: expected integers from 0"),
    ("bindings.dims", {"n": True}, "bindings.dims: expected integers from 0"),
    ("bindings.shapes", {"x": [1, "2"]}, "bindings.shapes: expected arrays of integers"),
    ("bindings.shapes", {"x": ""}, "bindings.shapes: expected arrays of integers"),
    ("bindings.shapes", {"x": u8()}, "bindings.shapes: expected arrays of integers"),
    ("bindings.values", {"rate": 16000}, "a binding: expected a text, got"),
    ("bindings.defaults", {"k": b"3"}, "a binding: expected a text, got"),
    ("bindings.donated", "x", "bindings.donated: expected an array, got"),
    ("bindings.trust_shapes", 1, "bindings.trust_shapes: expected a boolean, got 1"),
]


@pytest.mark.parametrize(("path", "value", "message"), WRONG, ids=[f"{p}-{k}" for k, (p, _, _) in enumerate(WRONG)])
def test_what_is_no_model_is_refused_with_its_place(path: str, value: Any, message: str) -> None:
    root = copy.deepcopy(columns.to_object(full()))
    *folders, last = path.split(".")
    table: Any = root
    for key in folders:
        table = table[key]
    if value is ABSENT:
        del table[last]
    else:
        table[last] = value
    with pytest.raises(TmmuError, match=message) as refused:
        columns.from_object(root)
    assert refused.value.code_id == "INVALID_IR"


@pytest.mark.parametrize("value", [None, 3, "text", b"bytes", [], u8(1)])
def test_what_is_no_map_at_all_is_refused(value: Any) -> None:
    with pytest.raises(TmmuError, match="the file: expected a map, got") as refused:
        columns.from_object(value)
    assert refused.value.code_id == "INVALID_IR"


def test_a_shape_of_endless_dimensions_is_refused_before_it_is_multiplied() -> None:
    model = text_model("node relu Relu x -> y", f"tensor x u8 {'x'.join('1' * 256)}")
    assert columns.from_object(columns.to_object(model)) == model
    x, y = model.tensors
    model = replace(model, tensors=(replace(x, shape=(1,) * 257), y))
    with pytest.raises(TmmuError, match="more than 256 dimensions"):
        columns.from_object(columns.to_object(model))
