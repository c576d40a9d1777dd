"""What `tmmu plan --share` does beside planning: bindings of each program, equal weights, and the check of the set.

spec: PS3.3, PS3.7
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from proofs.definition.violations import Obligation, Violation
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ANYWHERE, Bindings
from tmmu.planner import DEFAULT, PlanOptions
from tmmu.planner.sets.plan import SetOptions
from tmmu.plans import sets as files
from tmmu.tasks import sets
from tmmu.tasks.sets import SetRequest, bindings_of_program
from tmmu.tasks.training import TrainingOptions


def matmul(path: Path, weight: str, values: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> str:
    """Write a model that multiplies its input, of a symbolic batch, with a stored matrix."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in "xy")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", weight], ["y"], name="m")], "m", [x], [y],
        [numpy_helper.from_array(values, weight)],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return str(path)


def request(models: dict[str, str], **bound: int) -> SetRequest:
    bindings = Bindings({"batch": 1, **{name.replace("__", ":"): size for name, size in bound.items()}})
    options = PlanOptions(layout="packed")
    return SetRequest(models, bindings, TrainingOptions(), options, (DEFAULT, ANYWHERE), SetOptions())


def test_initializers_of_equal_content_are_stored_once(tmp_path: Path) -> None:
    ones, twos = np.ones((4, 4), np.float32), np.full((4, 4), 2, np.float32)
    models = {
        "a": matmul(tmp_path / "a.onnx", "u", ones), "b": matmul(tmp_path / "b.onnx", "v", ones),
        "c": matmul(tmp_path / "c.onnx", "u", twos),
    }  # fmt: skip
    made = sets.plan_and_check(request(models))
    (one,) = made.planned.plan_set.agreement.shared
    assert {program: use.entry for program, use in one.uses.items()} == {"a": "u", "b": "v"}
    assert (one.is_weight, one.is_initial) == (True, True)
    arenas = {arena.name: arena.bytes for arena in made.planned.plan_set.agreement.arenas}
    assert arenas["parameters"] == 2 * 128 - 64  # two of the three matrices
    made.write(str(tmp_path / "session"))
    assert files.load(tmp_path / "session") == made.planned.plan_set


def test_a_program_has_bindings_of_its_own(tmp_path: Path) -> None:
    path = matmul(tmp_path / "m.onnx", "w", np.ones((4, 4), np.float32))
    made = sets.plan_and_check(request({"prefill": path, "decode": path}, prefill__batch=8))
    sizes = {name: plan.bindings.dims["batch"] for name, plan in made.planned.plans.items()}
    assert sizes == {"prefill": 8, "decode": 1}
    given = Bindings({"n": 1}, donated=("a", "p:b", "q:c"), ranges={"p:n": (1, 4), "q:m": (1, 2)})
    found = bindings_of_program(given, "p", {"p": 0, "q": 0})
    assert (found.dims, found.ranges, found.donated) == ({}, {"n": (1, 4)}, ("a", "b"))


def test_a_set_in_which_the_verifier_finds_anything_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(*_: object) -> Iterator[Violation]:
        yield Violation(Obligation.STATE_IS_UNTOUCHED, "y is over w", ("y",))

    monkeypatch.setattr(sets, "find_violations", found)
    path = matmul(tmp_path / "m.onnx", "w", np.ones((4, 4), np.float32))
    with pytest.raises(TmmuError) as refused:
        sets.plan_and_check(request({"a": path, "b": path}))
    assert (refused.value.code_id, refused.value.place) == ("CONTRACT_VIOLATION", "state_is_untouched")


def test_what_no_program_has_and_symbolic_offsets_are_refused(tmp_path: Path) -> None:
    path = matmul(tmp_path / "m.onnx", "w", np.ones((4, 4), np.float32))
    with pytest.raises(TmmuError, match="'nothing'"):
        sets.plan_and_check(request({"a": path, "b": path}, nothing=3))
    asked = request({"a": path, "b": path})
    with pytest.raises(TmmuError, match="one offset for each tensor"):
        sets.plan_and_check(asked._replace(options=PlanOptions(layout="slots", symbolic=True)))
