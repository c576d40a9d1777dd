"""The checker's tables of operators, held against the operators as onnx's own reference evaluator runs them.

An operator may work in place of an operand if changing one element of it changes the result at no other index, and
views if the result's bytes are the operand's. Both are tried, on the listed operators and on some that must fail.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from proofs.readers.operators import (
    GRADIENTS,
    KNOWN_DOMAINS,
    OPERATORS,
    is_covered,
    is_floating,
    is_view,
    iterates,
    overwritable,
    qualify_name,
    shows_in_every_result,
)
from tmmu.core.dtypes import BITS

Array = NDArray[Any]


def floats(values: object) -> Array:
    return np.array(values, dtype=np.float32)


def integers(values: object) -> Array:
    return np.array(values, dtype=np.int64)


IN_PLACE = {op: row.in_place for (domain, op), row in OPERATORS.items() if row.in_place and not domain}
VIEWS = [op for (domain, op), row in OPERATORS.items() if row.view is not None]
OPSET = onnx.defs.onnx_opset_version()
SHAPE = (2, 3)
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "Cast": {"to": TensorProto.INT32}, "BitCast": {"to": TensorProto.INT32}, "BitShift": {"direction": "LEFT"},
    "TensorScatter": {"axis": 1},
}  # fmt: skip
SETTINGS: dict[str, list[Array]] = {
    "Clip": [floats(0.2), floats(0.7)], "CastLike": [floats(1)], "Trilu": [integers(0)],
    "ScatterElements": [integers([[1, 0, 1]]), floats([[7, 8, 9]])],
    "ScatterND": [integers([[0, 1], [1, 0]]), floats([7, 8])], "TensorScatter": [floats([[7], [8]]), integers([1, 0])],
}  # fmt: skip
"""What an operator reads besides the operands that it may work in place of."""


def tensors(op: str, count: int) -> list[Array]:
    """Operands of a type that the operator takes, with values inside its domain, the same on every run."""
    if op == "Where":
        return [np.array([[True, False, True], [False, True, False]]), *tensors("Add", 2)]
    kinds = onnx.defs.get_schema(op, OPSET, "").inputs[0].types
    start = np.arange(1, 7).reshape(SHAPE)
    if "tensor(float)" in kinds and op != "Equal":
        least = 1 if op == "Acosh" else 0
        return [(start / 8 + k / 16 + least).astype(np.float32) for k in range(count)]
    if "tensor(uint8)" in kinds:
        return [(start + k).astype(np.uint8) for k in range(count)]
    return [(start + k) % 2 == 0 for k in range(count)]


def run(op: str, operands: list[Array], **attributes: Any) -> Array:
    names = [f"x{k}" for k in range(len(operands))]
    node = helper.make_node(op, names, ["y"], **ATTRIBUTES.get(op, {}), **attributes)
    inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(o.dtype), o.shape)
              for n, o in zip(names, operands, strict=True)]  # fmt: skip
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    with np.errstate(all="ignore"):
        results = ReferenceEvaluator(model).run(None, dict(zip(names, operands, strict=True)))
    assert isinstance(results, list)
    return np.asarray(results[0])


def reads_at_its_own_index_alone(op: str, operands: list[Array], position: int, **attributes: Any) -> bool:
    """Whether changing each element of one operand in turn leaves every other element of the result as it was."""
    before = run(op, operands, **attributes)
    if before.shape != operands[position].shape:
        return False
    for index in np.ndindex(before.shape):
        changed = [operand.copy() for operand in operands]
        old = changed[position][index]
        changed[position][index] = ~old if old.dtype == np.bool_ else old + old.dtype.type(1)
        moved = run(op, changed, **attributes) != before
        moved[index] = False
        if moved.any():
            return False
    return True


@pytest.mark.parametrize("op", sorted(IN_PLACE))
def test_what_may_work_in_place_reads_each_element_at_its_own_index(op: str) -> None:
    """spec: T3.2, V2.1"""
    for position in IN_PLACE[op]:
        operands = tensors(op, max(2, position + 1) if len(IN_PLACE[op]) > 1 else 1)
        operands += SETTINGS.get(op, [])
        assert reads_at_its_own_index_alone(op, operands, position)


@pytest.mark.parametrize(
    ("op", "operands", "attributes"),
    [
        ("Softmax", [floats([[1, 2, 3], [4, 5, 6]])], {}),
        ("LogSoftmax", [floats([[1, 2, 3], [4, 5, 6]])], {}),
        ("CumSum", [floats([1, 2, 3]), integers(0)], {}),
        ("MatMul", [floats([[1, 2], [3, 4]]), floats([[1, 2], [3, 4]])], {}),
        ("Gemm", [floats([[1, 2], [3, 4]]), floats([[1, 2], [3, 4]])], {}),
        ("Transpose", [floats([[1, 2], [3, 4]])], {}),
        ("LpNormalization", [floats([[1, 2, 3], [4, 5, 6]])], {}),
        ("AveragePool", [floats([[[1, 2, 3, 4]]])], {"kernel_shape": [3], "pads": [1, 1]}),
        ("Add", [floats([[1, 2, 3]]), floats([[1], [2]])], {}),
    ],
)  # fmt: skip
def test_what_reads_neighbours_is_seen_to_and_is_not_listed(op: str, operands: list[Array], attributes: Any) -> None:
    """The same trial says no; a broadcast operand is kept out by its shape. spec: T3.2, T3.3"""
    assert not reads_at_its_own_index_alone(op, operands, 0, **attributes)
    assert op == "Add" or overwritable("", op, "ab") == ()


@pytest.mark.parametrize("op", sorted(VIEWS))
def test_a_view_shows_the_bytes_of_its_operand(op: str) -> None:
    """spec: V1.6"""
    x = floats([[1, 2, 3], [4, 5, 6]])
    given = {"Reshape": [x, integers([3, 2])], "Squeeze": [x[None], integers([0])], "Unsqueeze": [x, integers([1])]}
    assert run(op, given.get(op, [x])).tobytes() == x.tobytes()


def test_a_copy_in_another_order_is_no_view() -> None:
    x = floats([[1, 2, 3], [4, 5, 6]])
    assert run("Transpose", [x]).tobytes() != x.tobytes()
    assert not is_view("", "Transpose")


def test_every_listed_operator_is_one_of_onnx_and_has_the_operands() -> None:
    for op, positions in IN_PLACE.items():
        inputs = onnx.defs.get_schema(op, OPSET, "").inputs
        options = [formal.option for formal in inputs]
        assert max(positions) < len(inputs)
        optional = onnx.defs.OpSchema.FormalParameterOption.Optional
        # With absent operands left out of the reads, a position holds only if none before it can be absent.
        assert optional not in options[: max(positions) + 1]


def test_the_tables_speak_for_ai_onnx_alone() -> None:
    """spec: V2.1"""
    assert is_view("ai.onnx", "Reshape")
    assert overwritable("ai.onnx", "Relu", "a") == ("a",)
    for domain in ("ai.onnx.ml", "com.microsoft", "aten"):
        assert domain not in KNOWN_DOMAINS
        assert not is_view(domain, "Reshape")
        assert overwritable(domain, "Relu", "a") == ()


@pytest.mark.parametrize(
    ("op", "operands", "takes"),
    [
        ("Relu", "a", "a"), ("Clip", "abc", "a"), ("Add", "ab", "ab"), ("Add", "aa", "aa"), ("PRelu", "ab", "ab"),
        ("Where", "abc", "abc"), ("Sum", "abc", "a"), ("Max", "a", "a"), ("MatMul", "ab", ""), ("Reshape", "a", ""),
        ("AddGrad", "a", ""), ("Relu", "", ""), ("Sum", "", ""),
    ],
)  # fmt: skip
def test_a_result_may_take_any_operand_that_is_read_at_its_own_index(op: str, operands: str, takes: str) -> None:
    """A table that lists fewer refuses right plans. spec: T3.2"""
    assert overwritable("", op, operands) == tuple(takes)


@pytest.mark.parametrize("op", ["Max", "Mean", "Min", "Sum"])
def test_what_is_folded_takes_no_operand_that_comes_again(op: str) -> None:
    """A kernel that goes over its operands one after the other reads it when it is gone. spec: T3.10"""
    assert overwritable("", op, "aba") == overwritable("", op, "aa") == ()
    assert overwritable("", op, "abb") == ("a",)
    a, b = floats([1, 2]), floats([10, 20])
    folded = a.copy()
    for operand in (b, folded):
        folded += operand
    assert not np.array_equal(folded, run("Sum", [a, b, a]))


def test_the_tables_speak_for_gradients_and_collectives_too() -> None:
    """By their own domains and names. spec: V2.1"""
    assert [is_covered(domain) for domain in ("", "ai.onnx", GRADIENTS, "tmmu.mesh/tp")] == [True] * 4
    assert [is_covered(domain) for domain in ("tmmu", "tmmu.mesh", "tmmu.gradients", "com.microsoft")] == [False] * 4
    assert [overwritable(GRADIENTS, op, "a") for op in ("ReluGrad", "MulGrad", "MatMulGrad", "CastGrad", "Relu")] == [
        ("a",), ("a",), (), (), (),
    ]  # fmt: skip
    assert [overwritable("tmmu.mesh/tp", op, "a") for op in ("AllReduce", "AllGather", "Relu")] == [("a",), (), ()]
    assert [shows_in_every_result(GRADIENTS, op) for op in ("AddGrad", "SumGrad", "MulGrad")] == [True, True, False]
    assert [shows_in_every_result(domain, "AddGrad") for domain in ("", "tmmu.mesh/tp")] == [False, False]
    assert [is_view(GRADIENTS, op) for op in ("AddGrad", "Reshape")] == [True, False]


def test_floats_alone_have_gradients() -> None:
    floating = [dtype for dtype in BITS if is_floating(dtype)]
    assert {"float16", "float32", "float64", "bfloat16"} <= set(floating)
    assert not any(dtype.startswith(("int", "uint", "bool", "string")) for dtype in floating)


def test_every_node_with_bodies_but_if_may_run_them_again() -> None:
    """spec: T8.3"""
    assert [iterates("", op) for op in ("If", "Loop", "Scan", "Call")] == [False, True, True, True]
    assert not iterates("ai.onnx", "If")
    assert iterates("my.domain", "If")
    assert [iterates("jax.lax", op) for op in ("cond", "while", "If")] == [False, True, True]


def test_an_operator_is_named_by_domain_and_type() -> None:
    assert qualify_name("my.domain", "Fuse") == "my.domain::Fuse"
    assert [qualify_name("", op) for op in ("Relu", "a::b")] == ["Relu", "::a::b"]
