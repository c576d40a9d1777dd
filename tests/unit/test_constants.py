"""Constants of ONNX models: no steps, parameters where they are read, and the same for planner, verifier and run."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from proofs.readers.models.onnx import FOLDED_BYTES, read_onnx
from proofs.verify import judge
from tests.support.onnx_files import model_of, written
from tests.support.simulations import Simulated, evaluated, same
from tmmu.core.vocabulary import Bindings, Role
from tmmu.importers import onnx as importer
from tmmu.importers.onnx import import_onnx
from tmmu.onnx.folding import RESULT_LIMIT
from tmmu.planner import plan_memory
from tmmu.plans import file

MASKED = """main (float[4, 4] x) => (float[4, 4] y, float[n] z, float[2] c)
    <float[4] weight = {1, 2, 3, 4}, int64[1] two = {2}>
{
    four = Constant <value = int64[1] {4}> ()
    both = Mul (two, two)
    shape = Concat <axis = 0> (four, both)
    ones = ConstantOfShape <value = float[1] {1.0}> (shape)
    mask = Trilu <upper = 0> (ones)
    c = Constant <value_floats = [1.0, 2.0]> ()
    a = Mul (x, mask)
    turned = Identity (weight)
    y = Add (a, turned)
    z = Gather (weight, two)
}"""


def proved(model: onnx.ModelProto, folder: Path) -> judge.Verdict:
    """The verdict on the plan that is made of a model."""
    path = written(folder, model)
    target = str(folder / "p.plan.cbor")
    file.save(plan_memory(import_onnx(path)).plan, target)
    return judge.verify(target, judge.Options(model=path))


def test_what_follows_from_constants_has_no_step_and_what_is_read_of_it_is_a_parameter(tmp_path: Path) -> None:
    """Stored floats are no constants, as training changes them. spec: T10.12, T10.13"""
    model = import_onnx(written(tmp_path, model_of(MASKED)))
    assert [node.op for node in model.nodes] == ["Mul", "Identity", "Add", "Gather"]
    roles = {tensor.name: tensor.role for tensor in model.tensors}
    assert roles["mask"] is roles["c"] is roles["two"] is Role.PARAMETER
    assert not roles.keys() & {"four", "both", "shape", "ones"}
    assert proved(model_of(MASKED), tmp_path).verdict == "PROVED"


def test_a_run_is_given_what_the_constants_are(tmp_path: Path) -> None:
    """spec: T10.12"""
    run = Simulated(model_of(MASKED), tmp_path)
    assert run.report.corruption is None
    assert same(run.outputs, evaluated(model_of(MASKED), run.written))


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_larger_results_than_a_mebibyte_keep_their_step(more: int, tmp_path: Path) -> None:
    """spec: T10.12"""
    assert RESULT_LIMIT == FOLDED_BYTES
    count = FOLDED_BYTES + more
    text = f"""main (bool[{count}] x) => (bool[{count}] y) {{
        n = Constant <value = int64[1] {{{count}}}> ()
        f = ConstantOfShape <value = bool[1] {{1}}> (n)
        y = And (x, f) }}"""
    path = written(tmp_path, model_of(text))
    steps = [node.op for node in import_onnx(path).nodes]
    assert steps == [step.op for step in read_onnx(path, Bindings()).steps]
    assert steps == (["And"] if more < 1 else ["ConstantOfShape", "And"])


@pytest.mark.parametrize(
    "reading",
    ["x", "default", "random", "late"],
)
def test_what_the_caller_or_a_draw_decides_is_not_constant(reading: str, tmp_path: Path) -> None:
    """An input, a default that the caller may replace, a random operator, and what a step gives. spec: T10.12"""
    sources = {
        "x": "a = Neg (x)", "default": "a = Neg (d)", "random": "a = RandomNormal <shape = [2]> ()",
        "late": "s = Shape (x) k = Cast <to = 1> (s) a = Neg (k)",
    }  # fmt: skip
    inputs = "float[2] x, int64[2] d" if reading == "default" else "float[2] x"
    stored = "<int64[2] d = {1, 2}>" if reading == "default" else ""
    kind = "int64[2]" if reading == "default" else "float[n]"
    model = model_of(f"main ({inputs}) => ({kind} a) {stored} {{ {sources[reading]} }}")
    path = written(tmp_path, model)
    assert [node.op for node in import_onnx(path).nodes][-1] in ("Neg", "RandomNormal")
    assert proved(model, tmp_path).verdict == "PROVED"


def test_a_plan_in_which_a_constant_has_a_step_is_refuted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: T10.12, V3.1"""
    monkeypatch.setattr(importer, "constant_nodes", lambda *_: frozenset())
    found = proved(model_of(MASKED), tmp_path)
    assert found.verdict == "REFUTED"
    assert "Constant" in str(found.witness)


def test_a_plan_in_which_what_is_no_constant_has_no_step_is_refuted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: T10.12, V3.1"""
    right = importer.constant_nodes
    monkeypatch.setattr(importer, "constant_nodes", lambda *given: right(*given) | {"Identity#7"})
    found = proved(model_of(MASKED), tmp_path)
    assert found.verdict == "REFUTED"
    assert "Identity#7" in str(found.witness)


def test_constants_of_bodies_are_parameters_and_are_copied_when_they_are_returned(tmp_path: Path) -> None:
    """spec: T8.8, T10.12, T10.13"""
    value = helper.make_tensor("v", TensorProto.FLOAT, [2], [1.0, 2.0])
    branches = {}
    for name, nodes in (
        ("then_branch", [helper.make_node("Constant", [], ["t"], name="own", value=value)]),
        ("else_branch", [helper.make_node("Neg", ["x"], ["e"], name="turned")]),
    ):
        output = helper.make_tensor_value_info(nodes[0].output[0], TensorProto.FLOAT, [2])
        branches[name] = helper.make_graph(nodes, name, [], [output])
    model = model_of("main (float[2] x, bool b) => (float[2] y) { y = Identity(x) }")
    model.graph.node[0].CopyFrom(helper.make_node("If", ["b"], ["y"], name="choice", **branches))
    read = import_onnx(written(tmp_path, model))
    assert [node.op for node in read.nodes] == ["If", "Neg"]
    assert {t.name: t.role for t in read.tensors}["choice/then_branch/t"] is Role.PARAMETER
    assert proved(model, tmp_path).verdict == "PROVED"
    run = Simulated(model, tmp_path)
    assert run.report.corruption is None
    assert same(run.outputs, evaluated(model, run.written))
