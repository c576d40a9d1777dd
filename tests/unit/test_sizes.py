"""Sizes that the verifier works out itself: what shape inference gets wrong, what rules refuse, what stays assumed."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner

from proofs.readers.models.onnx import read_onnx
from proofs.readers.models.reference import ReferenceProgram
from proofs.readers.operators.sizes import moving
from proofs.verify.command import command
from tests.support.onnx_cases import cases, compared
from tests.support.onnx_files import LIGHT, model_of
from tmmu import examples
from tmmu.cli.entry import run
from tmmu.core.dims.expressions import evaluate, symbol
from tmmu.core.vocabulary import Bindings
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import file
from tmmu.tasks.models import load

EINSUM = """g (float[1] d, float[64,64] cd) => (float[N] z) {
  y = Einsum <equation = "d,cd->dc"> (d, cd) z = Relu(y) }"""
RANGE = """g (float[1] x) => (float[N] z) <float a = {-3.4}, float b = {0.3}, float s = {3.7}> {
  y = Range(a, b, s) z = Relu(y) }"""
ONE_HOT = """g (float[64] x) => (float[64] y) <float[1] i = {0.5}, int64 n = {2}, int64[2] v = {0, 1}> {
  row = OneHot(i, n, v) hit = ReduceMax <keepdims = 0> (row) c = Cast <to = 9> (hit)
  [pick] y = If (c) <then_branch = t () => (float[64] a) { a = Softmax(x) },
                     else_branch = e () => (float[64] b) { b = Relu(x) }> }"""
OWN = "g (float[2] x) => (float[2] y) { [own] y = my.domain.Fuse(x) }"


def read(text: str, folder: Path, bindings: Bindings | None = None, opset: int = 17) -> ReferenceProgram:
    onnx.save(model_of(text, opset), folder / "m.onnx")
    return read_onnx(folder / "m.onnx", bindings or Bindings())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (EINSUM, ("size", "Einsum#0", "y", "float32 [1, 64]", "float32 [64, 64]")),
        (RANGE, ("size", "Range#0", "y", "float32 [1]", "no result: ")),
        (ONE_HOT, ("branch", "pick", "", "else_branch runs", "then_branch runs")),
    ],
    ids=["einsum", "range", "onehot"],
)
def test_a_size_or_branch_that_inference_gets_wrong_is_a_difference(
    text: str, expected: tuple[str, ...], tmp_path: Path
) -> None:
    """spec: V3.7, V3.8"""
    (found,) = read(text, tmp_path).size_differences
    assert found[:4] == expected[:4]
    assert found.found.startswith(expected[4])


def test_a_plan_that_rests_on_a_wrong_size_is_refuted_with_both_sizes(tmp_path: Path) -> None:
    """spec: V3.8"""
    model, plan = str(tmp_path / "m.onnx"), str(tmp_path / "p.cbor")
    onnx.save(model_of(EINSUM), model)
    file.save(plan_memory(load(model)).plan, plan)  # which `tmmu plan` does not write
    found = CliRunner().invoke(command, [plan, "--model", model, "--format", "json"], standalone_mode=False)
    (verdict,) = json.loads(found.stdout)["files"]
    witness = verdict["witness"]
    assert (found.return_value, witness["field"], witness["node"]) == (1, "size", "Einsum#0")
    assert (witness["stated"], witness["recomputed"]) == ("float32 [1, 64]", "float32 [64, 64]")
    assert (witness["tensors"], witness["steps"]) == (["y"], [0])


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("g (float[2] x) => (float[2] y) { y, mask = Dropout(x) }", []),  # the mask is not filled, by the text
        (
            "g (float[2, 3] x) => (float[2, 3] y) <float[3] s = {1, 1, 1}> "
            "{ y, m, v, sm, sv = BatchNormalization(x, s, s, s, s) }",
            ["ai.onnx::BatchNormalization"],
        ),
    ],
)
def test_a_result_that_is_taken_for_none_is_listed(text: str, listed: list[str], tmp_path: Path) -> None:
    """In this version named results state that a BatchNormalization trains, and have bytes then. spec: V3.9, T9.1"""
    program = read(text, tmp_path, opset=9)
    assert (program.size_differences, list(program.assumed_sizes)) == ((), listed)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (EINSUM, "'Einsum#0': by onnx's inference 'y' is float32 [1, 64], by the text of its operator float32 [64"),
        (RANGE, "'Range#0': by onnx's inference 'y' is float32 [1], by the text of its operator no result: "),
        (ONE_HOT, "'pick': by onnx's inference else_branch runs, by the text of its operator then_branch runs"),
    ],
    ids=["einsum", "range", "onehot"],
)  # fmt: skip
def test_no_plan_is_written_that_rests_on_a_wrong_size(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: C2.11"""
    model, plan = tmp_path / "m.onnx", tmp_path / "p.cbor"
    onnx.save(model_of(text), model)
    assert run(["plan", str(model), "-o", str(plan)]) == 4
    out, err = capsys.readouterr()
    assert f"node {said}" in err
    assert (out, err.count("\n"), "[INVALID_IR_SHAPES]" in err, plan.exists()) == ("", 1, True, False)


def test_nor_is_one_by_planning_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another verifier might have proved the first. spec: C2.11"""
    model, old, new = (str(tmp_path / name) for name in ("m.onnx", "old.cbor", "new.cbor"))
    onnx.save(model_of(EINSUM.replace("64,64", "n,64")), model)
    options = PlanOptions(replan_policy="REPLAN_AT_SAFEPOINT")
    file.save(plan_memory(load(model, Bindings(ranges={"n": (2, 3)})), options=options).plan, old)
    assert run(["replan", old, "--model", model, "--dim", "n=4", "-o", new]) == 4
    assert "node 'Einsum#0': by onnx's inference 'y' is" in capsys.readouterr().err
    assert not Path(new).exists()


def test_an_operator_without_a_rule_is_listed_and_can_be_forbidden(tmp_path: Path) -> None:
    """spec: V3.9"""
    model, plan = str(tmp_path / "m.onnx"), str(tmp_path / "p.cbor")
    onnx.save(model_of(OWN, more=', "my.domain" : 1'), model)
    assert run(["plan", model, "-o", plan, "--trust-shapes"]) == 0
    for required, code in (("model", 0), ("sizes", 3)):
        asked = [plan, "--model", model, "--trust-shapes", "--format", "json", "--require", required]
        found = CliRunner().invoke(command, asked, standalone_mode=False)
        (verdict,) = json.loads(found.stdout)["files"]
        assert found.return_value == code
        assert verdict["assumptions"]["assumed_sizes"] == {"my.domain::Fuse": "it has no rule"}


@pytest.mark.parametrize("path", LIGHT, ids=lambda path: path.stem)
def test_real_networks_are_covered_by_rules_that_agree(path: Path) -> None:
    """spec: V3.7"""
    found = read_onnx(path, Bindings())
    assert (found.size_differences, found.assumed_sizes) == ((), {})


BOUND = {
    "gpt2": Bindings(dims={"batch": 1, "seq": 64}), "resnet50": Bindings(dims={"batch": 1}),
    "unet": Bindings(dims={"batch": 1}), "llama-block": Bindings(dims={"batch": 1, "seq": 8}),
    "detector": Bindings(shapes={"images": (1, 3, 640, 640)}, values={"rate": "16000"}), "loop": Bindings(),
}  # fmt: skip


@pytest.mark.parametrize("name", BOUND)
def test_the_examples_are_covered_by_rules_that_agree(name: str, tmp_path: Path) -> None:
    """spec: V3.7"""
    examples.write(name, tmp_path / "m.onnx")
    found = read_onnx(tmp_path / "m.onnx", BOUND[name])
    assert (found.size_differences, found.assumed_sizes) == ((), {})


def test_open_dimensions_have_sizes_that_agree_for_every_shape(tmp_path: Path) -> None:
    """spec: V3.7"""
    examples.write("gpt2", tmp_path / "m.onnx")
    found = read_onnx(tmp_path / "m.onnx", Bindings(ranges={"batch": (1, 4), "seq": (1, 1024)}))
    assert (found.size_differences, found.assumed_sizes) == ((), {})


REMAINDER = """main (float[n] x) => (float[M] y) {
    s = Shape (x)
    t = Constant <value = int64[1] {3}> ()
    m = Mod (s, t)
    y = ConstantOfShape (m)
}"""
DEPTH = """main (float[n] x) => (float[M, 2] y) <int64[2] i = {0, 0}, float[2] v = {0, 1}> {
    s = Shape (x)
    t = Constant <value = int64[1] {4}> ()
    m = Mod (s, t)
    one = Constant <value = int64[1] {1}> ()
    depth = Add (m, one)
    y = OneHot <axis = 0> (i, depth, v)
}"""


def test_a_slice_of_an_open_dimension_has_the_size_of_each_closed_one() -> None:
    """The rule over numbers is held against onnxruntime in `tests/nightly/test_sizes_of_onnxruntime.py`. spec: V3.7"""
    n, ends = symbol("n", 0, 5), (-(2**63) + 1, -6, -3, -1, 0, 2, 5, 2**63 - 1)
    for start, end, step in product(ends, ends, (-3, -1, 1, 2)):
        found = moving.cut(n, start, end, step)
        for size in range(6):
            assert evaluate(found, {"n": size}) == moving.cut(size, start, end, step), (start, end, step, size)
    assert [moving.cut(size, -1, -(2**63) + 1, -1) for size in range(6)] == list(range(6))


@pytest.mark.parametrize(("text", "operator"), [(REMAINDER, "ConstantOfShape"), (DEPTH, "OneHot")])
def test_a_size_that_bounds_do_not_show_to_be_right_is_assumed_and_not_wrong(
    text: str, operator: str, tmp_path: Path
) -> None:
    """The bounds of n - 3 * (n // 3) go below 0, and its values do not. spec: V3.9"""
    onnx.save(model_of(text), tmp_path / "m.onnx")
    found = read_onnx(tmp_path / "m.onnx", Bindings(ranges={"n": (0, 5)}))
    assert (found.size_differences, list(found.assumed_sizes)) == ((), [f"ai.onnx::{operator}"])


def test_sizes_are_those_that_onnx_records_in_its_tests(tmp_path: Path) -> None:
    """A sample of all, which the nightly tests compare. spec: V3.7"""
    sample = cases("Einsum", "OneHot", "AveragePool", "ConvTranspose", "LSTM", "Resize")
    count, wrong = compared(sample, tmp_path)
    assert wrong == []
    assert count["agree"] > 70
