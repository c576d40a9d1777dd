"""Random nodes through onnxruntime: no result is larger than what a plan that is proved would have for it."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest

from proofs.readers.operators.sizes.call import Misfit
from tests.support.random_nodes import Drawn, drawn, executed, reading, shapes
from tests.support.random_values import evaluated, same_as, valued

HERE = importlib.util.find_spec("onnxruntime") is not None
with_onnxruntime = pytest.mark.skipif(not HERE, reason="onnxruntime is not installed")  # CI does without

NODES = 20_000


def by_onnxruntime(model: onnx.ModelProto) -> Sequence[Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found: Sequence[Any] = session.run(None, {})
    return found


def deviates(node: Drawn) -> bool:
    """Whether onnxruntime 1.32 is known to give less than the text: SAME takes no notice of dilations in pools."""
    return node.op.endswith("Pool") and "SAME" in node.attributes.get("auto_pad", "") and "dilations" in node.attributes


@with_onnxruntime
def test_random_nodes_have_the_sizes_that_onnxruntime_gives(tmp_path: Path) -> None:
    """spec: V3.7, V3.8"""
    count = Counter[str]()
    for number in range(NODES):
        node = drawn(number)
        program, results = reading(node, tmp_path), executed(node, by_onnxruntime)
        if program is None or results is None or program.size_differences:
            count["refused"] += 1
        elif program.assumed_sizes:
            count["assumed"] += 1
        else:
            assert deviates(node) or {name: program.shapes[name] for name in results} == shapes(results), node
            count["agree"] += 1
    assert count["agree"] > NODES * 0.8
    assert count["assumed"] < NODES * 0.02


@with_onnxruntime
def test_random_numbers_are_those_that_onnxruntime_gives() -> None:
    """spec: V3.7"""
    compared = 0
    for number in range(NODES):
        node = valued(number)
        try:
            value = evaluated(node)
        except Misfit:
            continue
        results = executed(node, by_onnxruntime)
        if value is not None and results is not None:
            assert same_as(value, results["r0"]), node
            compared += 1
    assert compared > NODES * 0.8
