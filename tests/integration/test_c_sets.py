"""Plan sets in C: programs take turns in one memory, state is kept between calls, weights are there once.

spec: MC11.1 to MC11.9
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.support.c_linked import WIDTH, symbols
from tests.support.c_models import saved
from tests.support.c_programs import SANITIZED, WARNINGS, compilers
from tmmu.cli.entry import run as tmmu
from tmmu.plans import sets

HALF = np.full(WIDTH, 0.5, np.float32)


def saved_program(
    path: Path, nodes: Sequence[tuple[str, str, str]], inputs: str, outputs: str, half: Any = HALF
) -> str:
    """A model of elementwise nodes: operator, operands, result; `half` is stored if a node reads it."""
    made = [helper.make_node(op, given.split(), [result], name=result) for op, given, result in nodes]
    typed = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [WIDTH]) for name in each.split()]
        for each in (inputs, outputs)
    ]
    stored = [numpy_helper.from_array(half, "half")] if any("half" in given.split() for _, given, _ in nodes) else []
    graph = helper.make_graph(made, path.stem, typed[0], typed[1], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path)
    return str(path)


PROGRAMS = {
    "prefill": ([("Mul", "x w", "h")], "x w", "h"),
    "decode": (
        [("Mul", "h_in half", "decayed"), ("Add", "decayed x", "h_out"), ("Mul", "h_out w", "y")],
        "x h_in w",
        "y h_out",
    ),
    "peek": ([("Mul", "h_in half", "seen"), ("Neg", "seen", "y")], "h_in", "y"),
}
"""One writes the state, one changes it, one reads it; w is a weight that the caller writes, half is in two files."""
SHARED = [
    "--share",
    "w",
    "--share",
    "prefill:h=decode:h_in",
    "--share",
    "decode:h_in=peek:h_in",
    "--donate",
    "decode:h_in",
]


def planned_set(folder: Path, *flags: str) -> list[str]:
    """The flags that name the models of a set in `folder / set`."""
    paths = [saved_program(folder / f"{name}.onnx", *program) for name, program in PROGRAMS.items()]
    assert tmmu(["plan", *paths, *SHARED, *flags, "-q", "-o", str(folder / "set")]) == 0
    return [flag for path in paths for flag in ("--model", path)]


def test_programs_compute_in_turn_what_an_evaluator_computes(tmp_path: Path) -> None:
    """Each call finds the state that the last one left, and the state of no other call. spec: MC11.3, MC11.6, MC11.8"""
    models = planned_set(tmp_path)
    command = [
        "codegen",
        str(tmp_path / "set"),
        *models,
        "--donate",
        "h_in",
        "--prefix",
        "net",
        "-o",
        str(tmp_path / "c"),
    ]
    assert tmmu([*command, "--caller-memory"]) == 0
    header = (tmp_path / "c" / "net.h").read_text()
    manifest = sets.load(tmp_path / "set")
    needed = {arena.name: arena.bytes for arena in manifest.agreement.arenas}
    assert f"#define NET_MEMORY_BYTES {needed['activations']}" in header
    compiler = compilers()[0]
    sources = sorted(str(path) for path in (tmp_path / "c").glob("*.c"))
    subprocess.run([compiler, *SANITIZED, "-o", "program", *sources, "-lm"], check=True, cwd=tmp_path)
    random, w = np.random.default_rng(1), np.linspace(-1, 2, WIDTH, dtype=np.float32)
    calls = ["prefill", "decode", "peek", "decode", "peek", "prefill", "peek", "decode"]
    given, expected, state = [w], [], np.zeros(WIDTH, np.float32)
    for name in calls:
        model = onnx.load(tmp_path / f"{name}.onnx")
        fed = {"w": w, "h_in": state, "x": random.standard_normal(WIDTH).astype(np.float32)}
        fed = {value.name: fed[value.name] for value in model.graph.input}
        given += [fed[name] for name in ("x",) if name in fed]
        results = ReferenceEvaluator(model).run(None, fed)
        expected += results
        state = {"prefill": results[0], "decode": results[-1], "peek": state}[name]
    (tmp_path / "in").write_bytes(b"".join(array.tobytes() for array in given))
    done = subprocess.run(
        ["./program", ",".join(calls), "in", "out"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    found = np.fromfile(tmp_path / "out", np.float32).reshape(-1, WIDTH)
    np.testing.assert_allclose(found, np.stack(expected), rtol=1e-6)
    for wrong, words in (("prefill,other", "other: is not the name"), ("prefill", "is not as long")):
        done = subprocess.run(
            ["./program", wrong, "in", "out"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, words in done.stderr) == (1, True)


RESET = """\
#include "net.h"
#include <stdio.h>
#include <string.h>
static uint8_t memory[NET_MEMORY_BYTES] __attribute__((aligned(NET_MEMORY_ALIGNMENT)));
static net_model net;
int main(void)
{
    const float one = 1;
    float y;
    memset(memory, 0x7F, sizeof memory);
    int refused = net_init_in(&net, memory, sizeof memory - 1) == NET_TOO_SMALL;
    refused = refused && net_init_in(&net, memory, sizeof memory) == NET_OK;
    for (int call = 0; call < 3; call++) {
        if (call == 2) {
            net_reset(&net);
        }
        for (size_t k = 0; k < 6; k++) {
            memcpy(net.decode.w.data + 4 * k, &one, 4);
            memcpy(net.decode.x.data + 4 * k, &one, 4);
        }
        net_decode_forward(&net);
        memcpy(&y, net_decode_output(&net, 0), 4);
        printf("%g ", y);
    }
    printf("%d", refused);
    return 0;
}
"""


def test_reset_begins_anew(tmp_path: Path) -> None:
    """spec: MC11.4"""
    models = planned_set(tmp_path, "--initial", "*h*")
    command = [
        "codegen",
        str(tmp_path / "set"),
        *models,
        "--donate",
        "h_in",
        "--prefix",
        "net",
        "-o",
        str(tmp_path / "c"),
    ]
    assert tmmu(command) == 0
    (tmp_path / "driver.c").write_text(RESET)
    sources = [str(path) for path in (tmp_path / "c").glob("*.c") if path.name != "net_main.c"]
    compiler = compilers()[0]
    subprocess.run(
        [compiler, *SANITIZED, "-Ic", "-o", "program", "driver.c", *sources, "-lm"], check=True, cwd=tmp_path
    )
    done = subprocess.run(["./program"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "1 1.5 1 1"


STORED = """
#include <stdio.h>
#include <string.h>
#include "net.h"
static net_model net;
int main(void) {
    const float x[WIDTH] = {1};
    net_init(&net);
    for (int k = 0; k < 4; k++) {
        float y;
        if (k == 3) net_reset(&net);
        memcpy(net_step_input(&net, 0), x, sizeof x);
        net_step_forward(&net);
        memcpy(&y, net_step_output(&net, 0), 4);
        printf("%g ", y);
    }
    return 0;
}
"""
SUMS = ([("Add", "half x", "h_out")], "x half", "h_out")
"""A program that changes a state of which its file has the first value, which the caller may replace."""
ONE_ARENA = """[arenas.all]
roles = ["parameter", "optimizer", "input", "activation", "gradient", "scratch"]
"""
"""An initializer and a result can share bytes only in one arena."""


def test_state_begins_with_the_value_in_a_file(tmp_path: Path) -> None:
    """spec: MC11.4"""
    path = saved_program(tmp_path / "step.onnx", *SUMS)
    (tmp_path / "one.toml").write_text(ONE_ARENA)
    share = ["--share", "step:half=step:h_out", "--donate", "half", "--arenas", str(tmp_path / "one.toml")]
    assert tmmu(["plan", path, *share, "-q", "-o", str(tmp_path / "set")]) == 0
    given = ["--model", path, "--donate", "half", "--prefix", "net", "-o", str(tmp_path / "c")]
    assert tmmu(["codegen", str(tmp_path / "set"), *given]) == 0
    (tmp_path / "driver.c").write_text(STORED)
    sources = [str(path) for path in (tmp_path / "c").glob("*.c") if path.name != "net_main.c"]
    flags = [*SANITIZED, f"-DWIDTH={WIDTH}", "-Ic", "-o", "program"]
    subprocess.run([compilers()[0], *flags, "driver.c", *sources, "-lm"], check=True, cwd=tmp_path)
    done = subprocess.run(["./program"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "1.5 2.5 3.5 1.5 "


def test_kernels_and_equal_weights_are_there_once(tmp_path: Path) -> None:
    """Two programs read `half`; a third has another value under this name. spec: MC11.7"""
    paths = [saved_program(tmp_path / f"{name}.onnx", *PROGRAMS[name]) for name in ("decode", "peek")]
    paths.append(saved_program(tmp_path / "other.onnx", *PROGRAMS["peek"], half=2 * HALF))
    assert tmmu(["plan", *paths, "--one-memory", "-q", "-o", str(tmp_path / "set")]) == 0
    models = [flag for path in paths for flag in ("--model", path)]
    assert tmmu(["codegen", str(tmp_path / "set"), *models, "--prefix", "net", "-o", str(tmp_path / "c")]) == 0
    found = symbols(tmp_path / "c", compilers(WARNINGS)[0])
    assert sorted(name for name in found if "data_of" in name) == [
        "net_data_of_weight_half",
        "net_data_of_weight_half_2",
    ]
    shown = {name for name, kind in found.items() if kind.isupper() and kind != "U"}
    assert all(name.startswith("net_") for name in shown)
    assert {f"net_{name}_forward" for name in ("decode", "peek", "other")} < shown


def command(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str]:
    code = tmmu(["codegen", *map(str, arguments)])
    return code, "".join(capsys.readouterr())


def test_what_is_no_proved_set_with_its_models_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is written. spec: MC11.1, MC11.2, MC11.9"""
    folder, target = tmp_path / "set", tmp_path / "c"
    models = planned_set(tmp_path)
    given = ("-o", target, "--donate", "h_in")
    other = str(saved("mlp", tmp_path))
    capsys.readouterr()
    for arguments, exit_, words in (
        ((folder, *models[:-2], *given), 4, "give the model of peek"),
        ((folder, *models, "--model", other, *given), 4, "no program of the set"),
        ((folder, *models, "-o", target), 1, "REFUTED"),
        ((folder, *models, *given, "--donate", "nobody"), 2, "nobody"),
        ((folder / "peek.cbor", "--model", models[-1], "-o", target), 4, "give the folder of the set"),
        ((folder / "peek.cbor", *models, "-o", target), 2, "one --model"),
        ((tmp_path, *models, *given), 4, "has no set.cbor"),
    ):
        code, printed = command(capsys, *arguments)
        assert (code, words in printed) == (exit_, True), (arguments, printed)
    (folder / "peek.cbor").unlink()
    code, printed = command(capsys, folder, *models, *given)
    assert (code, "peek" in printed) == (4, True)
    assert not target.exists()


def test_two_values_of_a_shared_tensor_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The C begins with them, although a caller may give both programs another one. spec: MC11.5"""
    nodes, _, outputs = PROGRAMS["peek"]
    paths = [
        saved_program(tmp_path / f"{name}.onnx", nodes, "h_in half", outputs, half=value)
        for name, value in (("one", HALF), ("two", 2 * HALF))
    ]
    assert tmmu(["plan", *paths, "--share", "half", "-q", "-o", str(tmp_path / "set")]) == 0
    models = [flag for path in paths for flag in ("--model", path)]
    code, printed = command(capsys, tmp_path / "set", *models, "-o", tmp_path / "c")
    assert (code, "have different values of it" in printed) == (4, True)


def test_state_that_a_file_fixes_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One program changes it, and in another it is a constant. spec: MC11.5"""
    paths = [
        saved_program(tmp_path / "step.onnx", *SUMS),
        saved_program(tmp_path / "peek.onnx", *PROGRAMS["peek"]),
    ]
    share = ["--share", "half", "--share", "step:half=step:h_out", "--donate", "step:half"]
    (tmp_path / "one.toml").write_text(ONE_ARENA)
    share += ["--arenas", str(tmp_path / "one.toml")]
    assert tmmu(["plan", *paths, *share, "-q", "-o", str(tmp_path / "set")]) == 0
    models = [flag for path in paths for flag in ("--model", path)]
    code, printed = command(capsys, tmp_path / "set", *models, "--donate", "half", "-o", tmp_path / "c")
    assert (code, "the file of peek fixes its value" in printed) == (4, True)
    assert not (tmp_path / "c").exists()
