"""Several models in one program: their names, the caller's memory, state that calls keep, constants in flash.

spec: MC10.1 to MC10.8
"""

from __future__ import annotations

import itertools
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from tests.support.c_linked import TOGETHER, WIDTH, activations, cell, executed, linked, macros, symbols, written
from tests.support.c_models import saved
from tests.support.c_programs import WARNINGS, accepted, by_runtime, compilers, drawn_inputs, planned
from tmmu.importers.onnx import import_onnx
from tmmu.mico import CodeOptions, generate
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.sections import Plan


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for models."""
    return tmp_path_factory.mktemp("models")


FORMS = {
    "mlp": ("mlp", {"memory": "malloc"}),
    "lenet": ("lenet", {"memory": "static", "weights": "file"}),
    "block": ("block", {"memory": "caller"}),
    "cell": ("cell", {"memory": "malloc"}),
    "lenet_again": ("lenet", {"memory": "malloc", "weights": "file"}),
}
"""A model and its form for each prefix; every form of memory and of weights, and one model twice."""


def test_no_two_models_show_one_name(folder: Path, tmp_path: Path) -> None:
    """Symbols of all pairs, types and macros of all headers in one source, and names of files. spec: MC10.1"""
    compiler = compilers(WARNINGS)[0]
    shown: dict[str, set[str]] = {}
    headers: list[Path] = []
    files: dict[str, set[str]] = {}
    for prefix, (model, form) in FORMS.items():
        path = cell(folder / "cell.onnx") if model == "cell" else saved(model, folder)
        made = written(path, tmp_path / prefix, prefix, **form)
        shown[prefix] = {
            name for name, kind in symbols(made, compiler, "-O1").items() if kind.isupper() and kind != "U"
        }
        assert all(name.startswith(f"{prefix}_") for name in shown[prefix])
        assert {f"{prefix}_{word}" for word in ("init_in", "reset", "forward", "input_bytes")} < shown[prefix]
        own = sorted(made.glob("*.h"))
        assert all(
            name.startswith(f"{prefix.upper()}_") or name.startswith(f"{prefix}_") for name in macros(own, compiler)
        )
        headers += own
        files[prefix] = {each.name for each in made.iterdir()} - {"Makefile", "CMakeLists.txt", "o.o"}
    for one, other in itertools.combinations(FORMS, 2):
        assert not shown[one] & shown[other], (one, other)
        assert not files[one] & files[other], (one, other)
    source = "".join(f'#include "{header}"\n' for header in headers)
    command = [compiler, *WARNINGS, "-fsyntax-only", "-x", "c", "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_without_a_prefix_they_do(folder: Path, tmp_path: Path) -> None:
    """The check above notices names that two models show. spec: MC10.1"""
    compiler = compilers(WARNINGS)[0]
    one, other = (written(saved(name, folder), tmp_path / name, "") for name in ("mlp", "lenet"))
    assert "model_forward" in symbols(one, compiler).keys() & symbols(other, compiler).keys()


def test_two_models_take_turns_in_the_memory_of_the_larger(folder: Path, tmp_path: Path) -> None:
    """Each writes what it writes alone, and `init_in` refuses what is too small or not aligned. spec: MC10.3, MC10.4"""
    expected, needed = {}, 0
    for name in ("lenet", "mlp"):
        path = saved(name, folder)
        inputs = drawn_inputs(onnx.load(path))
        (tmp_path / f"{name}.in").write_bytes(b"".join(array.tobytes() for array in inputs.values()))
        written(path, tmp_path / name, name)
        expected[name] = by_runtime(onnx.load(path), inputs)[0]
        needed = max(needed, activations(planned(path)))
    program = linked([tmp_path / "lenet", tmp_path / "mlp"], TOGETHER, compilers()[0])
    assert executed(program) == f"{needed} 1 1 1 1 1"
    for name, turn in itertools.product(expected, "01"):
        found = np.frombuffer((tmp_path / f"{name}.{turn}").read_bytes(), np.float32)
        assert np.allclose(found, expected[name].ravel(), rtol=0, atol=1e-5 * abs(expected[name]).max())
        assert (tmp_path / f"{name}.{turn}").read_bytes() == (tmp_path / f"{name}.0").read_bytes()


def with_arenas(plan: Plan) -> Plan:
    """The plan with every second storage of activations in an arena of its own; it has no other section."""
    allocation = plan.allocation
    at = next(n for n, arena in enumerate(allocation.arenas) if arena.name == "activations")
    arena = allocation.storages.arena.copy()
    arena[np.flatnonzero(arena == at)[::2]] = len(allocation.arenas)
    second = replace(allocation.arenas[at], name="Far RAM")
    storages = replace(allocation.storages, arena=arena)
    return Plan(replace(allocation, arenas=(*allocation.arenas, second), storages=storages))


def test_a_plan_with_two_arenas_takes_two_memories(folder: Path, tmp_path: Path) -> None:
    """Each is refused by itself. spec: MC10.3, MC10.4"""
    path = saved("mlp", folder)
    generate(
        with_arenas(planned(path)),
        str(path),
        str(tmp_path / "c"),
        prove=accepted,
        options=CodeOptions(memory="caller", prefix="m"),
    )
    driver = """\
#include "m.h"
#include <stdio.h>
static uint8_t near[M_MEMORY_ACTIVATIONS_BYTES] __attribute__((aligned(M_MEMORY_ACTIVATIONS_ALIGNMENT)));
static uint8_t far[M_MEMORY_FAR_RAM_BYTES] __attribute__((aligned(M_MEMORY_FAR_RAM_ALIGNMENT)));
static m_model m;
int main(void)
{
    printf("%d", m_init_in(&m, near, sizeof near, far, sizeof far - 1));
    printf("%d", m_init_in(&m, near, sizeof near - 1, far, sizeof far));
    printf("%d", m_init_in(&m, near, sizeof near, far + 4, sizeof far));
    printf("%d", m_init_in(&m, near, sizeof near, far, sizeof far));
    m_forward(&m);
    return 0;
}
"""
    assert executed(linked([tmp_path / "c"], driver, compilers()[0])) == "1120"


def test_the_callers_memory_is_the_only_one(folder: Path, tmp_path: Path) -> None:
    """No array for tensors, and nothing that allocates. spec: MC10.5"""
    made = written(saved("lenet", folder), tmp_path / "c", "lenet")
    found = symbols(made, compilers(())[0])
    assert not {"malloc", "free", "lenet_init", "lenet_free"} & found.keys()
    assert not [name for name, kind in found.items() if kind in "bBdDC"]


CALLS = """\
#include "cell.h"
#include <stdio.h>
#include <string.h>
static uint8_t memory[CELL_MEMORY_BYTES] __attribute__((aligned(CELL_MEMORY_ALIGNMENT)));
int main(void)
{
    cell_model cell;
    memset(memory, 0x7F, sizeof memory);
    if (cell_init_in(&cell, memory, sizeof memory) != CELL_OK) {
        return 1;
    }
    for (int call = 0; call < 6; call++) {
        if (call == 4) {
            cell_reset(&cell);
        }
        float x[6], y[6], h[6];
        for (int k = 0; k < 6; k++) {
            x[k] = (float)(call * k - 3);
        }
        memcpy(cell.x.data, x, sizeof x);
        cell_forward(&cell);
        memcpy(y, cell_output(&cell, 0), sizeof y);
        memcpy(h, cell_output(&cell, 1), sizeof h);
        for (int k = 0; k < 6; k++) {
            printf("%a %a\\n", y[k], h[k]);
        }
    }
    return 0;
}
"""


def kept(path: Path, how: str) -> Plan:
    """The plan of a recurrent network whose input is donated, with both ends of its state at one address."""
    model = import_onnx(str(path))
    model = replace(model, bindings=replace(model.bindings, donated=("h_in",)))
    fixed = {"h_in": 0, "h_out": 0} if how == "fixed" else {}
    return plan_memory(model, options=PlanOptions(layout="packed", fixed=fixed)).plan


@pytest.mark.parametrize("how", ["fixed", "in place"])
def test_state_is_kept_from_call_to_call(how: str, tmp_path: Path) -> None:
    """Six calls are those of an evaluator that is given its own result; the fifth begins anew. spec: MC10.6, MC10.7"""
    path = cell(tmp_path / "cell.onnx")
    options = CodeOptions(memory="caller", prefix="cell")
    generate(kept(path, how), str(path), str(tmp_path / "c"), prove=accepted, options=options)
    assert "Kept from call to call: h_in (h_in, h_out), at first zeros." in (tmp_path / "c" / "cell.h").read_text()
    lines = executed(linked([tmp_path / "c"], CALLS, compilers()[0])).split()
    found = np.array([float.fromhex(each) for each in lines], np.float32).reshape(6, WIDTH, 2)
    evaluator = ReferenceEvaluator(onnx.load(path))
    h: Any = None
    for call in range(6):
        h = np.zeros(WIDTH, np.float32) if call in (0, 4) else h
        x = np.array([call * k - 3 for k in range(WIDTH)], np.float32)
        y, h = evaluator.run(None, {"x": x, "h_in": h})
        assert np.array_equal(found[call], np.stack([y, h], 1)), call


def test_an_input_that_nobody_donates_is_no_state(tmp_path: Path) -> None:
    """spec: MC10.6, MC10.7"""
    made = written(cell(tmp_path / "cell.onnx"), tmp_path / "c", "cell")
    assert "/* There is no state. */" in (made / "cell.h").read_text()
    assert "memset" not in (made / "cell.c").read_text()


@pytest.mark.parametrize("weights", ["embed", "file"])
def test_constants_go_to_the_section_that_is_named(weights: str, folder: Path, tmp_path: Path) -> None:
    """Read-only data otherwise. spec: MC10.8"""
    made = written(saved("mlp", folder), tmp_path / "c", "mlp", weights=weights)
    compiler = compilers(())[0]
    sections = []
    for flags in ((), ('-DMLP_WEIGHTS_SECTION=".flash"',)):
        command = [compiler, *WARNINGS, *flags, "-c", "-o", "o.o", "mlp_weights.c"]
        subprocess.run(command, check=True, cwd=made)
        listed = subprocess.run(["objdump", "-t", "o.o"], check=True, cwd=made, capture_output=True, text=True).stdout
        sections.append(set(re.findall(r" g .*?(\.\S+)\s+[0-9a-f]+ mlp_", listed)))
    assert sections == [{".rodata"}, {".flash"}]


@pytest.mark.parametrize("prefix", ["Net", "9", "net_", "_net", "time", "kernels", "a b", "é"])
def test_what_cannot_begin_a_name_is_no_prefix(prefix: str) -> None:
    """spec: MC10.2"""
    with pytest.raises(ValueError, match="cannot be a"):
        CodeOptions(prefix=prefix)


@pytest.mark.parametrize("wrong", [{"memory": "stack"}, {"weights": "none"}])
def test_other_choices_do_not_exist(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="to be one of"):
        CodeOptions(**wrong)
