"""Every C kernel computes what the operator is defined to: random nodes of the whole table in one program.

The oracle is onnx's reference evaluator. spec: MC4.1 to MC4.3, MC4.6 to MC4.9, MC4.12, MC4.13
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from proofs.readers.operators import OPERATORS
from tests.support.c_cases import drawn, model_of
from tests.support.c_programs import WITHIN, CProgram, assert_close, compilers, planned
from tmmu.mico.kernels import TABLE
from tmmu.plans.sections import Plan

SEEDS = range(2)


def apart_but_in_place(plan: Plan, pairs: Mapping[str, str]) -> Plan:
    """The plan with bytes of its own for each storage, but results (the keys) at the bytes of operands."""
    allocation = plan.allocation
    rows = {name: row for row, name in enumerate(allocation.tensors.name)}
    storage = allocation.tensors.storage.copy()
    for result, operand in pairs.items():
        storage[rows[result]] = storage[rows[operand]]
    room = (allocation.storages.bytes + np.uint64(256)) // np.uint64(128) * np.uint64(128)
    offset = (np.cumsum(room) - room).astype(np.uint64)
    tensors, storages = replace(allocation.tensors, storage=storage), replace(allocation.storages, offset=offset)
    return replace(plan, allocation=replace(allocation, tensors=tensors, storages=storages))


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


def test_whatever_the_verifier_permits_in_place_is_computed_in_place(tmp_path: Path) -> None:
    """Each operator of its table at each operand that it lists, forced there whether or not our planner would.

    spec: MC4.6
    """
    cases, expected, at = [], [], []
    listed = {(op, k) for (domain, op), row in OPERATORS.items() if not domain for k in row.in_place}
    wanted = {(op, k) for op, k in listed if op in TABLE} - VIEWED
    for seed in range(30):
        for case, results in zip(*drawn(seed), strict=True):
            for k, operand in enumerate(case.operands):
                fits = operand is not None and k not in case.stored
                if fits and (case.op, k) in wanted and _same(operand, results[0]):
                    wanted.discard((case.op, k))
                    cases.append(case)
                    expected.append(results)
                    at.append(k)
        if not wanted:
            break
    assert wanted == set()
    model, inputs = model_of(cases)
    path = tmp_path / "cases.onnx"
    onnx.save(model, path)
    pairs = {f"n{n}.r0": f"n{n}.o{k}" for n, k in enumerate(at)}
    made = CProgram(apart_but_in_place(planned(path), pairs), path, tmp_path / "c")
    like = [result for results in expected for result in results]
    found = iter(made.outputs(made.build(compilers()[0]), inputs, like))
    for case, results, k in zip(cases, expected, at, strict=True):
        for result in results:
            assert_close(next(found), result, WITHIN.get(result.dtype.name, 0), f"{case.op} in place of operand {k}")


VIEWED = {*((op, 0) for (_, op), row in OPERATORS.items() if row.view is not None), ("IsInf", 0), ("IsNaN", 0)}
"""Of views nothing is computed, and results of these two are narrower than what they are of."""


def _same(operand: Any, result: Any) -> bool:
    return bool(operand.shape == result.shape and operand.itemsize == result.itemsize and operand.size > 1)


def test_the_cases_cover_the_table() -> None:
    missing = set(TABLE)
    for seed in range(20):
        missing -= {case.op for case in drawn(seed)[0]}
        if not missing:
            break
    assert missing == set()
