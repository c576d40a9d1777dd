"""C of whole networks against a runtime, of int8 networks against the evaluator, kernels under every compiler.

Networks of hundreds of megabytes, sanitizers on the slow ones, and more random nodes than `make test` has time for.
spec: MC2.5, MC4.3, MC4.4, MC4.8, MC5.2
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from tests.support.c_cases import drawn, model_of
from tests.support.c_models import saved
from tests.support.c_programs import (
    SANITIZED,
    WARNINGS,
    WITHIN,
    CProgram,
    assert_close,
    by_runtime,
    compilers,
    drawn_inputs,
    planned,
    weighted,
)
from tests.support.tools import C_COMPILERS, require_compiler, require_program
from tmmu import examples

NETWORKS: dict[str, dict[str, int]] = {
    "mico-vgg": {},
    "resnet50": {"batch": 1},
    "gpt2": {"batch": 1, "seq": 8},
    "llama-block": {"batch": 1, "seq": 4},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("networks")


@pytest.mark.parametrize("layout", ["packed", "slots", "pools"])
@pytest.mark.parametrize("name", NETWORKS)
def test_large_networks_compute_what_a_runtime_computes(name: str, layout: str, folder: Path, tmp_path: Path) -> None:
    """The block of Llama is in bfloat16, in which the evaluator, too, rounds after each step."""
    path = folder / f"{name}.onnx"
    if not path.exists():
        onnx.save(weighted(examples.model(name)), path)
    model = onnx.load(path)
    inputs = drawn_inputs(model, dims=NETWORKS[name])
    half = name == "llama-block"
    expected = ReferenceEvaluator(model).run(None, inputs) if half else by_runtime(model, inputs)
    made = CProgram(planned(path, layout, dims=NETWORKS[name]), path, tmp_path / "c")
    flags = SANITIZED if name == "mico-vgg" else (*WARNINGS, "-O2")
    for one, other in zip(
        made.outputs(made.build(compilers(flags)[0], flags), inputs, expected), expected, strict=True
    ):
        assert_close(one, other, 1.6e-2 if half else 1e-5)


@pytest.mark.parametrize("compiler", C_COMPILERS)
@pytest.mark.parametrize("layout", ["packed", "slots", "pools"])
@pytest.mark.parametrize("static", [False, True])
def test_resnet8_runs_under_sanitizers(compiler: str, layout: str, static: bool, folder: Path, tmp_path: Path) -> None:
    require_compiler(compiler, *SANITIZED)
    path = saved("resnet8", folder)
    model = onnx.load(path)
    inputs = drawn_inputs(model)
    expected = by_runtime(model, inputs)
    made = CProgram(planned(path, layout), path, tmp_path / "c", memory="static" if static else "malloc")
    found = made.outputs(made.build(compiler, (*SANITIZED, "-O1")), inputs, expected)
    assert_close(found[0], expected[0], 1e-5)


@pytest.mark.parametrize("seed", range(2, 12))
def test_kernels_are_right_at_every_level_of_optimization(seed: int, tmp_path: Path) -> None:
    cases, expected = drawn(seed)
    model, inputs = model_of(cases)
    path = tmp_path / "cases.onnx"
    onnx.save(model, path)
    plan = planned(path, ("packed", "slots", "pools")[seed % 3], donated="all" if seed % 2 == 0 else ())
    like = [result for results in expected for result in results]
    for static, compiler, flags in (
        (False, compilers()[0], (*SANITIZED, "-O2")),
        (True, compilers(WARNINGS)[-1], (*WARNINGS, "-O3")),
        (True, compilers(WARNINGS)[0], (*WARNINGS, "-O3", "-march=native")),
    ):
        made = CProgram(
            plan, path, tmp_path / "-".join((compiler, *flags[-2:])), memory="static" if static else "malloc"
        )
        found = iter(made.outputs(made.build(compiler, flags), inputs, like))
        for case, results in zip(cases, expected, strict=True):
            for result in results:
                assert_close(next(found), result, WITHIN.get(result.dtype.name, 0), f"{case.op} {case.attributes}")


@pytest.mark.parametrize("layout", ["packed", "pools"])
def test_valgrind_finds_nothing(layout: str, folder: Path, tmp_path: Path) -> None:
    """No read of bytes that nothing has written, none outside, and nothing is left allocated."""
    require_program("valgrind")
    path = saved("lenet", folder)
    made = CProgram(planned(path, layout), path, tmp_path / "c")
    program = made.build(compilers(WARNINGS)[0], (*WARNINGS, "-O1"))
    drawn_inputs(onnx.load(path))["x"].tofile(made.folder / "inputs")
    done = subprocess.run(
        ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", str(program), "inputs", "outputs"],
        capture_output=True, text=True, check=False, cwd=made.folder,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


class Calibration:
    """Inputs from which the quantizer of ONNX Runtime takes its ranges."""

    def __init__(self) -> None:
        self.left: list[dict[str, Any]] = [{"x": draw(seed)} for seed in range(8)]

    def get_next(self) -> dict[str, Any] | None:
        return self.left.pop() if self.left else None


def draw(seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal((1, 1, 28, 28), np.float32)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("form", ["QOperator", "QDQ"])
def test_int8_networks_are_those_of_the_evaluator(form: str, per_channel: bool, folder: Path, tmp_path: Path) -> None:
    """LeNet as ONNX Runtime quantizes it; as operators its convolutions, and as pairs of operators everything.

    Around integers the rest is float32, within rounding; what is rounded again may be off by one step of its scale.
    """
    pytest.importorskip("onnxruntime")  # whose quantizer makes the networks: extra judges
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    path = tmp_path / "int8.onnx"
    quantize_static(
        saved("lenet", folder), path, Calibration(), quant_format=QuantFormat[form], per_channel=per_channel,
        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
        op_types_to_quantize=["Conv", "MatMul"] if form == "QOperator" else None,
    )  # fmt: skip
    model = onnx.load(path)
    model.opset_import[0].version, model.ir_version = 21, 10  # the evaluator has no DequantizeLinear before 19
    del model.opset_import[1:]
    onnx.save(model, path)
    made = CProgram(planned(path), path, tmp_path / "c")
    program = made.build(compilers()[0])
    for seed in range(8):
        expected = ReferenceEvaluator(model).run(None, {"x": draw(seed)})
        found = made.outputs(program, {"x": draw(seed)}, expected)
        assert_close(found[0], expected[0], 1e-5)
