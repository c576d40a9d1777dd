"""What `tmmu plan --share` does beside planning: bindings of each program, equal weights, and the check of the set.

spec: PS1.11, PS1.5, PS3.2, PS3.3, PS3.7, PS3.11
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from proofs.definition.violations import Obligation, Violation
from proofs.proving.solvers.process import Z3
from proofs.sets.rows import DEFINITIONS, evaluate_rows
from proofs.sets.state import StateTensor, find_state
from proofs.sets.violations import _resized
from proofs.verify.checks import Subject
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ANYWHERE, Bindings
from tmmu.planner import DEFAULT, PlanOptions
from tmmu.planner.sets.plan import SetOptions
from tmmu.plans import file
from tmmu.plans import sets as files
from tmmu.plans.sections import Plan
from tmmu.plans.sets import Agreement, SharedTensor, SharedUse
from tmmu.simulator.calls import find_state as find_run_state
from tmmu.simulator.program import PlanProgram
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


def test_shared_tensors_with_different_values_in_their_files_are_refused(tmp_path: Path) -> None:
    ones, twos = np.ones((4, 4), np.float32), np.full((4, 4), 2, np.float32)
    models = {"a": matmul(tmp_path / "a.onnx", "w", ones), "b": matmul(tmp_path / "b.onnx", "w", twos)}
    asked = request(models)._replace(wanted=SetOptions(("w",)))
    with pytest.raises(TmmuError, match="a:w and b:w have different values in their files"):
        sets.plan_and_check(asked)
    matmul(tmp_path / "b.onnx", "w", ones)
    (one,) = sets.plan_and_check(asked).planned.plan_set.agreement.shared
    assert one.name == "w"


@pytest.mark.parametrize("name", ["a:nothing", "a:batsch"])
def test_a_binding_of_one_program_must_fit_that_program(tmp_path: Path, name: str) -> None:
    path = matmul(tmp_path / "m.onnx", "w", np.ones((4, 4), np.float32))
    asked = request({"a": path, "b": path})
    bound = replace(asked.bindings, dims={"batch": 1, name: 2})
    with pytest.raises(TmmuError, match=name.removeprefix("a:")):
        sets.plan_and_check(asked._replace(bindings=bound))
    with pytest.raises(TmmuError, match=name.removeprefix("a:")):
        sets.plan_and_check(asked._replace(bindings=replace(asked.bindings, donated=(name,))))


def test_state_whose_size_depends_on_the_shape_is_refused_by_planner_and_verifier(tmp_path: Path) -> None:
    """A call at a small shape writes a part of it, and the next call would read the rest."""
    path = matmul(tmp_path / "m.onnx", "w", np.ones((4, 4), np.float32))
    asked = request({"a": path, "b": path}, b__batch=8)._replace(wanted=SetOptions(("a:y=b:x",)))
    ranged = replace(asked.bindings, dims={"b:batch": 8}, ranges={"a:batch": (1, 8)})
    with pytest.raises(TmmuError, match=r"a:y has 16\*batch bytes, 16 at batch=1; .*batch=8"):
        sets.plan_and_check(asked._replace(bindings=ranged))
    made = sets.plan_and_check(asked._replace(bindings=ranged, wanted=SetOptions()))
    plans = made.planned.plans
    members = [sets._member(name, _subject(plan)) for name, plan in plans.items()]
    use = {"a": SharedUse(None, "y"), "b": SharedUse("x", None)}
    t = plans["a"].allocation
    row = t.tensors.name.list().index("y")
    at = int(t.storages.offset[t.tensors.storage[row]])
    one = SharedTensor("x", "activations", at, 128, int(t.tensors.alignment[row]), "float32", False, use)
    state = [StateTensor("x", "activations", at, 128, False, use)]
    found = list(_resized(members, state))
    assert [(each.programs, each.tensors, each.shape, each.sizes) for each in found] == [
        (("a",), ("y",), {"batch": 1}, (16, 128))
    ]
    with Z3(DEFINITIONS) as solver:
        outcome = evaluate_rows(solver, members, Agreement(("a", "b"), (), (one,)), state, 60)
    assert Obligation.SHARED_AT_ONE_PLACE in outcome.open


def _subject(plan: Plan) -> Subject:
    return Subject(file.require_steps(file.decode(file.encode(plan))))


TRAIN = """tmmu-ir-text 1
tensor x f32 8x16 input
tensor w f32 16x16 parameter
tensor m f32 16x16 optimizer
tensor y f32 8x16
tensor g f32 16x16
tensor l f32 8x16 output
node f Gemm x w -> y
node l Relu y -> l
node g my::Grad x y -> g
node u my::Adam g w m -> w m changes w m
"""
EVAL = """tmmu-ir-text 1
tensor x f32 8x16 input
tensor w f32 16x16 parameter
tensor y f32 8x16 output
node f Gemm x w -> y
"""


def test_what_a_training_step_changes_is_state_for_all_calls(tmp_path: Path) -> None:
    """The weights are shared with an evaluation, and optimizer state that only the step has is left alone by it."""
    for name, lines in (("train", TRAIN), ("eval", EVAL)):
        (tmp_path / f"{name}.ir.txt").write_text(lines)
    asked = request({"train": str(tmp_path / "train.ir.txt"), "eval": str(tmp_path / "eval.ir.txt")})
    given = Bindings(donated=("w", "m"))
    made = sets.plan_and_check(asked._replace(bindings=given, wanted=SetOptions(("w",))))
    (one,) = made.planned.plan_set.agreement.shared
    assert one.uses == {"train": SharedUse("w", "w"), "eval": SharedUse("w", None)}
    plans = made.planned.plans
    members = [sets._member("train", Subject(_subject(plans["train"]).stated, donated=frozenset({"w", "m"})))]
    members.append(sets._member("eval", _subject(plans["eval"])))
    state = {each.label: each.uses for each in find_state(members, made.planned.plan_set.agreement)}
    assert state["train:m"] == {"train": SharedUse("m", "m")}
    called = find_run_state(
        "train", PlanProgram(plans["train"], frozenset({"w", "m"})), made.planned.plan_set.agreement
    )
    assert called.takes.keys() == called.leaves.keys() == {"w", "train: m"}
