"""The header of a symbolic plan computes the sizes and offsets of each shape. spec: R6.17, R6.15"""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.growing import growing
from tests.support.text_models import text_model
from tests.support.tools import require_compilers
from tmmu.cli.entry import run as tmmu
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model
from tmmu.mico.offsets import write_offsets
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import file
from tmmu.plans.metrics import compute_footprints
from tmmu.plans.replan import convert_to_units
from tmmu.plans.sections import Plan
from tmmu.plans.shapes import at_shape

FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-unused-variable", "-Wno-unused-const-variable")
MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "p.h"
int main(int argc, char **argv) {
    p_plan plan;
    (void)argc;
    if (!p_at(%s, &plan)) { puts("outside"); return 0; }
    for (int k = 0; k < P_TENSORS; k++) printf("%%llu %%llu\\n", (unsigned long long)p_offset(&plan, k), (unsigned long long)plan.bytes[k]);
    for (int k = 0; k < P_ARENAS; k++) printf("%%llu\\n", (unsigned long long)plan.footprint[k]);
    return 0;
}
"""  # noqa: E501 - C


def mixed() -> Model:
    """Two dimensions, with quotients, differences, the lesser and the greater of sizes, and windows."""
    return text_model(
        "dim m 1 9", "dim n 2 5", "node a MatMul x -> a", "node b MatMul a -> b", "node c MatMul b a -> c",
        "tensor x u8 mxn", "tensor a f32 (10-m)xn", "tensor b u8 ((m*n+1)//2)", "tensor c f64 (min(m,n))x(max(m,n))",
        outputs="c",
    )  # fmt: skip


def states(plan: Plan, header: str, folder: Path, shapes: list[dict[str, int]], compiler: str) -> None:
    """Assert that C and the plan say the same at each shape."""
    (folder / "p.h").write_text(header)
    arguments = ", ".join(f"atoll(argv[{k + 1}])" for k in range(len(plan.ranges)))
    (folder / "main.c").write_text(MAIN % arguments)
    program = folder / "main"
    subprocess.run([compiler, *FLAGS, "-o", program, folder / "main.c"], check=True)
    t = plan.allocation.tensors
    for shape in shapes:
        small = at_shape(plan, convert_to_units(plan, shape))
        offset = small.allocation.storages.offset[t.storage] + t.window
        rows = [f"{o} {size}" for o, size in zip(offset.tolist(), small.allocation.tensors.bytes.tolist(), strict=True)]
        expected = [*rows, *map(str, compute_footprints(small.allocation))]
        printed = subprocess.run([program, *map(str, shape.values())], capture_output=True, text=True, check=True)
        assert printed.stdout.split("\n")[:-1] == expected, shape


@pytest.mark.parametrize("model", [growing, mixed])
def test_c_computes_the_offsets_of_every_shape(model: Any, tmp_path: Path) -> None:
    plan = plan_memory(model(), options=PlanOptions(symbolic=True)).plan
    ranges = [range(low, high + 1) for low, high in plan.ranges.values()]
    shapes = [dict(zip(plan.ranges, point, strict=True)) for point in itertools.product(*ranges)]
    for compiler in require_compilers():
        states(plan, write_offsets(plan, "p", ""), tmp_path, shapes, compiler)
        outside = [str(high + 1) for _, high in plan.ranges.values()]
        printed = subprocess.run([tmp_path / "main", *outside], capture_output=True, text=True, check=True).stdout
        assert printed == "outside\n"


def test_the_command_writes_it_of_a_proved_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a step: sizes between are outside."""
    monkeypatch.chdir(tmp_path)
    assert tmmu(["example", "llama-block", "-o", "m.onnx"]) == 0
    dims = ("--dim", "batch=1", "--dim", "seq=8..64:8")
    assert tmmu(["plan", "m.onnx", "-o", "p.cbor", "--symbolic", "--layout", "slots", *dims]) == 0
    assert tmmu(["codegen", "p.cbor", "--model", "m.onnx", "-o", "c", "--name", "p"]) == 0
    [written] = (tmp_path / "c").iterdir()
    plan = file.load(tmp_path / "p.cbor").plan
    header = written.read_text()
    assert "PROVED p.cbor against m.onnx" in header
    for compiler in require_compilers():
        states(plan, header, tmp_path, [{"seq": 8}, {"seq": 24}, {"seq": 64}], compiler)
        for seq in ("7", "12", "72"):
            printed = subprocess.run([tmp_path / "main", seq], capture_output=True, text=True, check=True).stdout
            assert printed == "outside\n"
    assert tmmu(["plan", "m.onnx", "-o", "q.cbor", *dims]) == 0
    assert tmmu(["codegen", "q.cbor", "--model", "m.onnx", "-o", "d"]) == 4  # the offsets are numbers, the sizes not


def test_a_plan_whose_sizes_exceed_64_bits_on_the_way_is_refused() -> None:
    plan = plan_memory(
        text_model("dim m 1 4611686018427387904", "node a Relu x -> y", each="u8 (m//1024)"),
        options=PlanOptions(symbolic=True),
    ).plan
    with pytest.raises(TmmuError, match="may exceed 62 bits"):
        write_offsets(plan, "p", "")
    assert file.encode(plan)
