"""C programs of plans, for tests: generated, compiled once for each text, and run on arrays.

An object file is made once for the same text, compiler and flags in a test run: kernels and weights are the same under
every layout.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.support.tools import require_compilers
from tmmu.core.vocabulary import Bindings
from tmmu.importers.onnx import import_onnx
from tmmu.mico import CodeOptions, generate
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.sections import Plan

Arrays = dict[str, NDArray[Any]]

WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror")
SANITIZED = (*WARNINGS, "-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")

WITHIN = {"float64": 1e-10, "float32": 4e-6, "float16": 2e-3, "bfloat16": 1.6e-2}
"""How far floats may be off, of the largest."""


def compilers(flags: Sequence[str] = SANITIZED) -> list[str]:
    """The compilers that can build with these flags; without any, the test is left out."""
    return require_compilers(*flags)


def accepted(_plan: Plan, _model: str) -> Any:
    """Stands for a verifier that accepts every plan, wrong ones too."""
    return SimpleNamespace(verdict="PROVED", line="PROVED by a test")


def weighted(model: onnx.ModelProto, seed: int = 1) -> onnx.ModelProto:
    """The model with weights drawn in the place of those that lie in a file that is not there."""
    random = np.random.default_rng(seed)
    for tensor in model.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            shape, dtype = tuple(tensor.dims), helper.tensor_dtype_to_np_dtype(tensor.data_type)
            fan = int(np.prod(shape[1:])) if len(shape) > 1 else 16
            drawn = random.standard_normal(shape, np.float32) / np.float32(max(1, fan) ** 0.5)
            tensor.CopyFrom(numpy_helper.from_array(drawn.astype(dtype), tensor.name))
    return model


def planned(path: Path, layout: str = "packed", **bound: Any) -> Plan:
    """The plan of a model file."""
    donated = bound.pop("donated", ())
    model = import_onnx(str(path), Bindings(**bound))
    if donated:
        names = tuple(model.tensors[t].name for t in model.inputs) if donated == "all" else donated
        model = _donating(model, names)
    return plan_memory(model, options=PlanOptions(layout=layout)).plan


def _donating(model: Any, names: Sequence[str]) -> Any:
    from dataclasses import replace

    return replace(model, bindings=replace(model.bindings, donated=tuple(sorted(names))))


class CProgram:
    """A folder of generated C, and how it is compiled and run.

    Parameters
    ----------
    plan, model
        What is generated.
    folder
        Where: it is made.
    options
        Of `CodeOptions`; weights are a file unless stated otherwise. A stand-in for the verifier accepts the plan.
    """

    objects: Path | None = None
    """Where object files are kept, set by a fixture."""

    def __init__(self, plan: Plan, model: Path, folder: Path, **options: Any) -> None:
        self.folder, self.model = folder, onnx.load(model)
        generate(plan, str(model), str(folder), prove=accepted, options=CodeOptions(**{"weights": "file", **options}))

    def build(
        self, compiler: str, flags: Sequence[str] = SANITIZED, extra: Sequence[Path] = (), link: str = ""
    ) -> Path:
        """The program, compiled; nothing may be printed."""
        kept = self.objects or self.folder
        headers = b"".join(path.read_bytes() for path in sorted(self.folder.glob("*.h")))
        objects = []
        for source in (*sorted(self.folder.glob("*.c")), *extra):
            weights = self.folder / "weights.bin"
            data = weights.read_bytes() if source.name == "weights.c" and weights.exists() else b""
            key = b"\0".join((" ".join((compiler, *flags)).encode(), headers, source.read_bytes(), data))
            target = kept / f"{hashlib.sha256(key).hexdigest()}.o"
            if not target.exists():
                self._ran(compiler, *flags, "-c", "-o", str(target), str(source))
            objects.append(str(target))
        program = self.folder / f"program-{compiler}"
        self._ran(compiler, *flags, "-o", str(program), *objects, "-lm", *filter(None, [link]))
        return program

    def _ran(self, *command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), " ".join(command)

    def execute(self, program: Path, inputs: Mapping[str, NDArray[Any]]) -> subprocess.CompletedProcess[str]:
        """Run a program on arrays, named as the graph's inputs; the outputs go to the file `outputs`."""
        (self.folder / "inputs").write_bytes(
            b"".join(np.ascontiguousarray(array).tobytes() for array in inputs.values())
        )
        return subprocess.run(
            [str(program), "inputs", "outputs"], capture_output=True, text=True, check=False, cwd=self.folder
        )

    def outputs(self, program: Path, inputs: Mapping[str, NDArray[Any]], like: Sequence[NDArray[Any]]) -> list[Any]:
        """What a program makes of arrays, as arrays of the shapes and types of `like`."""
        done = self.execute(program, inputs)
        assert (done.returncode, done.stderr) == (0, "")
        raw = (self.folder / "outputs").read_bytes()
        assert len(raw) == sum(each.nbytes for each in like)
        found, at = [], 0
        for each in like:
            found.append(np.frombuffer(raw, each.dtype, each.size, at).reshape(each.shape))
            at += each.nbytes
        return found


def drawn_inputs(model: onnx.ModelProto, seed: int = 0, dims: Mapping[str, int] = {}) -> Arrays:
    """Arrays for the inputs of a model: floats around zero, whole numbers below 5."""
    random = np.random.default_rng(seed)
    stored = {tensor.name for tensor in model.graph.initializer}
    found: Arrays = {}
    for value in model.graph.input:
        if value.name not in stored:
            kind = value.type.tensor_type
            shape = [dim.dim_value or dims[dim.dim_param] for dim in kind.shape.dim]
            dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
            whole = dtype.kind in "iu"
            made = random.integers(0, 5, shape) if whole else random.standard_normal(shape, np.float32)
            found[value.name] = np.asarray(made).astype(dtype)
    return found


def by_runtime(model: onnx.ModelProto, inputs: Mapping[str, NDArray[Any]]) -> list[Any]:
    """The outputs by ONNX Runtime where it is installed and has the kernels, else by onnx's reference evaluator."""
    try:
        import onnxruntime
    except ImportError:
        return list(ReferenceEvaluator(model).run(None, dict(inputs)))
    onnxruntime.set_default_logger_severity(4)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(inputs)))


def assert_close(found: NDArray[Any], expected: NDArray[Any], within: float, what: str = "") -> None:
    """Every element is right within `within` of the largest; other than numbers, and integers, are equal."""
    assert found.shape == expected.shape, what
    if expected.dtype.kind in "iub":
        np.testing.assert_array_equal(found, expected, what)
        return
    one, other = found.astype(np.float64), expected.astype(np.float64)
    assert np.array_equal(np.isfinite(one), np.isfinite(other)), what
    usual = np.isfinite(other)
    assert np.array_equal(one[~usual], other[~usual], equal_nan=True), what
    largest = float(np.abs(other[usual]).max(initial=1e-30))
    off = float(np.abs(one[usual] - other[usual]).max(initial=0.0))
    assert off <= within * largest, f"{what}: {off} where the largest is {largest}"
