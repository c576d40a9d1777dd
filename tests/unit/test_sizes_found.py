"""Contradictions between onnx's shape inference or reference evaluator and the operators' texts.

Each is a line of `spec/findings-archive.md`, and here a node whose result sizes the verifier computes differently.
A new version of onnx that fixes one makes its test fail.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proofs.readers.operators.sizes.call import Misfit
from tests.support.random_nodes import Drawn, by_evaluator, drawn, executed, reading, shapes
from tests.support.random_values import evaluated, same_as, valued


def f(*shape: int) -> Any:
    return np.ones(shape, np.float32)


POOL: dict[str, Any] = {"kernel_shape": [2], "strides": [2], "auto_pad": "VALID", "ceil_mode": 1}
INFERENCE = {
    "einsum": (Drawn("Einsum", [f(1), f(3, 3)], {"equation": "d,cd->dc"}), "[1, 3]", "[3, 3]"),
    "range": (Drawn("Range", [np.array(x, np.float32) for x in (-3.4, 0.3, 3.7)]), "[1]", "no result: "),
    "slope": (Drawn("PRelu", [f(1, 4), f(5, 4)]), "[1, 4]", "no result: "),
    "first-operand": (Drawn("Min", [f(1), f(4)], opset=7), "[1]", "no result: "),
    "window": (Drawn("Conv", [f(1, 2, 2), f(2, 2, 3)], {"strides": [3]}), "[1, 2, 1]", "[1, 2, 0]"),
    "rounded-up": (Drawn("MaxPool", [f(1, 2, 7)], POOL, opset=22), "[1, 2, 4]", "[1, 2, 3]"),
    "transposed": (
        Drawn("ConvTranspose", [f(2, 2, 7), f(2, 2, 2)],
              {"auto_pad": "SAME_LOWER", "strides": [2], "output_padding": [1]}), "[2, 2, 15]", "[2, 2, 14]"),
}  # fmt: skip


@pytest.mark.parametrize("name", INFERENCE)
def test_inference_differs_from_the_text(name: str, tmp_path: Path) -> None:
    """spec: V3.8"""
    node, inferred, found = INFERENCE[name]
    program = reading(node, tmp_path)
    assert program is not None
    (difference,) = program.size_differences
    assert (difference.node, difference.tensor) == ("n", "r0")
    assert difference.inferred == f"float32 {inferred}"
    assert difference.found.removeprefix("float32 ").startswith(found)


EVALUATOR = {
    "slice": (Drawn("Slice", [f(3), *(np.array([x]) for x in (-7, -5, 0, -2))], opset=13), (1,), (0,)),
    "pool": (
        Drawn("MaxPool", [f(1, 2, 7)], {"auto_pad": "SAME_LOWER", "strides": [2], "kernel_shape": [3]}, opset=22),
        (1, 2, 4), (1, 2, 3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EVALUATOR)
def test_the_evaluator_differs_from_the_text(name: str, tmp_path: Path) -> None:
    """spec: V3.7"""
    node, right, smaller = EVALUATOR[name]
    program = reading(node, tmp_path)
    assert program is not None
    assert (program.size_differences, program.shapes["r0"]) == ((), right)
    results = executed(node, by_evaluator)
    assert results is not None
    assert shapes(results) == {"r0": smaller}


DEVIATING = ("Slice", "MaxPool", "AveragePool", "LpPool")
"""Operators of which the evaluator is known to deviate."""


def test_random_nodes_have_the_sizes_that_the_evaluator_gives(tmp_path: Path) -> None:
    """spec: V3.7, V3.8"""
    compared = 0
    for number in range(700):
        node = drawn(number)
        program, results = reading(node, tmp_path), executed(node, by_evaluator)
        if program is None or results is None or node.op in DEVIATING or program.assumed_sizes:
            continue
        if not program.size_differences:
            assert {name: program.shapes[name] for name in results} == shapes(results), node
            compared += 1
    assert compared > 400


def test_random_numbers_are_those_that_the_evaluator_gives() -> None:
    """spec: V3.7"""
    compared = 0
    for number in range(1200):
        node = valued(number)
        try:
            value = evaluated(node)
        except Misfit:
            continue
        results = executed(node, by_evaluator)
        if value is not None and results is not None and node.op not in DEVIATING:
            assert same_as(value, results["r0"]), node
            compared += 1
    assert compared > 1000
