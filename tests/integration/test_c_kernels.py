"""Every C kernel computes what the operator is defined to: random nodes of the whole table in one program.

The oracle is onnx's reference evaluator. spec: MC4.1 to MC4.3, MC4.6 to MC4.8
"""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.support.c_cases import drawn, model_of
from tests.support.c_programs import WITHIN, CProgram, assert_close, compilers, planned
from tmmu.mico.kernels import TABLE

SEEDS = range(2)


@pytest.mark.parametrize("seed", SEEDS)
def test_kernels_compute_what_their_operators_are_defined_to(seed: int, tmp_path: Path) -> None:
    """Under even seeds results take the bytes of inputs, which are given up."""
    cases, expected = drawn(seed)
    assert len(cases) > 170
    model, inputs = model_of(cases)
    path = tmp_path / "cases.onnx"
    onnx.save(model, path)
    plan = planned(path, "packed" if seed % 2 == 0 else "pools", donated="all" if seed % 2 == 0 else ())
    made = CProgram(plan, path, tmp_path / "c")
    like = [result for results in expected for result in results]
    found = iter(made.outputs(made.build(compilers()[seed % len(compilers())]), inputs, like))
    for case, results in zip(cases, expected, strict=True):
        what = f"{case.op} {dict(case.attributes)} {[None if o is None else o.shape for o in case.operands]}"
        for result in results:
            assert_close(next(found), result, WITHIN.get(result.dtype.name, 0), what)


def test_the_cases_cover_the_table() -> None:
    cases = {case.op for seed in range(12) for case in drawn(seed)[0]}
    assert TABLE.keys() - cases == set()
