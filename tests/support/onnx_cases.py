"""The tests that onnx generates for each operator, with recorded results, read by the verifier.

What a test gives as inputs becomes stored here, so that values which decide a shape are known.
"""

from __future__ import annotations

import importlib
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case import node as generated
from onnx.backend.test.case.test_case import TestCase

from proofs.readers.models.onnx import read_onnx
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Bindings


def cases(*operators: str) -> list[TestCase]:
    """The tests that begin with one of these operators, or all, which takes a few seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some compute with infinities
        if not operators:
            found: list[TestCase] = generated.collect_testcases(None)
            return found
        for operator in operators:
            importlib.import_module(f"onnx.backend.test.case.node.{operator.lower()}")
    # What was imported before is there as well.
    return [case for case in generated._NodeTestCases if case.model.graph.node[0].op_type in operators]


def compared(tests: Iterable[TestCase], folder: Path) -> tuple[Counter[str], list[str]]:
    """How many tests were compared, and those in which a size of a result is not that of the recorded one.

    `agree` counts those in which each size was worked out, `assumed` those with an operator without a rule, `refused`
    those that shape inference refuses, and `no tensors` those whose inputs a model cannot store.
    """
    count, wrong = Counter[str](), list[str]()
    for test in tests:
        inputs, outputs = test.data_sets[0]
        model = _stored(test.model, inputs)
        if model is None:
            count["no tensors"] += 1
            continue
        onnx.save(model, folder / "m.onnx")
        try:
            found = read_onnx(folder / "m.onnx", Bindings())
        except TmmuError:
            count["refused"] += 1
            continue
        wrong += [f"{test.name}: {difference}" for difference in found.size_differences]
        for value, output in zip(model.graph.output, outputs, strict=False):
            recorded = tuple(output.dims) if isinstance(output, TensorProto) else np.asarray(output).shape
            if value.name in found.shapes and found.shapes[value.name] != recorded:
                wrong.append(f"{test.name}: {value.name} is {found.shapes[value.name]}, recorded {recorded}")
        count["assumed" if found.assumed_sizes else "agree"] += 1
    return count, wrong


def _stored(model: onnx.ModelProto, inputs: list[Any]) -> onnx.ModelProto | None:
    """The model with its inputs as initializers; None where one is no tensor."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    names = [value.name for value in found.graph.input]
    del found.graph.input[:]
    for name, given in zip(names, inputs, strict=False):
        if isinstance(given, TensorProto):
            found.graph.initializer.append(given)
            found.graph.initializer[-1].name = name
        elif isinstance(given, np.ndarray | np.generic):
            found.graph.initializer.append(numpy_helper.from_array(np.asarray(given), name))
        else:
            return None
    return found
