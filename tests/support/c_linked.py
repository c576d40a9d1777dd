"""Several generated folders of C in one program, with a driver that a test states, and what a linker sees of them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.support.c_programs import SANITIZED, WARNINGS, accepted, planned
from tmmu.mico import CodeOptions, generate
from tmmu.plans.sections import Plan

WIDTH = 6

TOGETHER = """\
#include "lenet.h"
#include "mlp.h"
#include <stdio.h>
#define MOST(a, b) ((a) > (b) ? (a) : (b))
#define ALIGNMENT MOST(LENET_MEMORY_ALIGNMENT, MLP_MEMORY_ALIGNMENT)
static uint8_t memory[MOST(LENET_MEMORY_BYTES, MLP_MEMORY_BYTES)] __attribute__((aligned(ALIGNMENT)));
static lenet_model lenet;
static mlp_model mlp;
static int load(const char *in, uint8_t *input, size_t bytes)
{
    FILE *file = fopen(in, "rb");
    int right = file != NULL && fread(input, 1, bytes, file) == bytes;
    return right && fclose(file) == 0 ? 0 : 1;
}
static int save(const char *out, const uint8_t *output, size_t bytes)
{
    FILE *file = fopen(out, "wb");
    int right = file != NULL && fwrite(output, 1, bytes, file) == bytes;
    return right && fclose(file) == 0 ? 0 : 1;
}
int main(void)
{
    mlp.memory_pool_0 = NULL;
    printf("%lu", (unsigned long)sizeof memory);
    printf(" %d", lenet_init_in(&lenet, NULL, sizeof memory) == LENET_TOO_SMALL);
    printf(" %d", mlp_init_in(&mlp, memory, MLP_MEMORY_BYTES - 1) == MLP_TOO_SMALL);
    for (size_t k = 1; k < MLP_MEMORY_ALIGNMENT; k++) {
        if (mlp_init_in(&mlp, memory + k, MLP_MEMORY_BYTES) != MLP_MISALIGNED) {
            printf(" %lu", (unsigned long)k);
        }
    }
    printf(" %d", mlp.memory_pool_0 == NULL);
    printf(" %d", lenet_init_in(&lenet, memory, LENET_MEMORY_BYTES) == LENET_OK);
    printf(" %d", mlp_init_in(&mlp, memory, MLP_MEMORY_BYTES) == MLP_OK);
    int wrong = 0;
    for (int turn = 0; turn < 2; turn++) {
        wrong |= load("lenet.in", lenet_input(&lenet, 0), lenet_input_bytes(0));
        lenet_forward(&lenet);
        wrong |= save(turn ? "lenet.1" : "lenet.0", lenet_output(&lenet, 0), lenet_output_bytes(0));
        wrong |= load("mlp.in", mlp_input(&mlp, 0), mlp_input_bytes(0));
        mlp_forward(&mlp);
        wrong |= save(turn ? "mlp.1" : "mlp.0", mlp_output(&mlp, 0), mlp_output_bytes(0));
    }
    return wrong;
}
"""
"""Lenet and mlp in one array, twice in turn: it prints whether `init_in` refuses what it must."""


def cell(path: Path) -> Path:
    """A recurrent network of elementwise operators: h_out = 0.5 h_in + x, y = relu(h_out)."""
    half = numpy_helper.from_array(np.full(WIDTH, 0.5, np.float32), "half")
    nodes = [
        helper.make_node("Mul", ["h_in", "half"], ["decayed"], name="decay"),
        helper.make_node("Add", ["decayed", "x"], ["h_out"], name="add"),
        helper.make_node("Relu", ["h_out"], ["y"], name="relu"),
    ]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [WIDTH]) for name in ("x", "h_in")]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [WIDTH]) for name in ("y", "h_out")]
    graph = helper.make_graph(nodes, "cell", inputs, outputs, [half])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path)
    return path


def written(path: Path, folder: Path, prefix: str, **options: str) -> Path:
    """The folder of the C of a model, in the caller's memory unless `memory` states another."""
    chosen = CodeOptions(**{"memory": "caller", "prefix": prefix, **options})
    generate(planned(path), str(path), str(folder), prove=accepted, options=chosen)
    return folder


def sources(folders: Sequence[Path]) -> list[str]:
    """All sources but those that have a `main`."""
    return [str(path) for folder in folders for path in sorted(folder.glob("*.c")) if not path.name.endswith("main.c")]


def linked(folders: Sequence[Path], driver: str, compiler: str, flags: Sequence[str] = SANITIZED) -> Path:
    """A program of all folders and a driver; nothing may be printed."""
    target = folders[0].parent / "together"
    target.with_suffix(".c").write_text(driver)
    include = [f"-I{folder}" for folder in folders]
    command = [compiler, *flags, *include, "-o", str(target), str(target.with_suffix(".c")), *sources(folders), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folders[0])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return target


def executed(program: Path, *arguments: str) -> str:
    """What a program prints."""
    command = [str(program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=program.parent)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def symbols(folder: Path, compiler: str, *flags: str) -> dict[str, str]:
    """The kind, a letter of nm, of each symbol in the objects of a folder."""
    found: dict[str, str] = {}
    for source in sources([folder]):
        subprocess.run([compiler, *WARNINGS, *flags, "-c", "-o", "o.o", source], check=True, cwd=folder)
        listed = subprocess.run(["nm", "o.o"], capture_output=True, text=True, check=True, cwd=folder).stdout
        found |= {name: kind for kind, name in re.findall(r" (\w) (\S+)$", listed, re.MULTILINE)}
    return found


def macros(headers: Sequence[Path], compiler: str) -> set[str]:
    """The macros that headers define, those of the headers of C apart."""

    def defined(text: str) -> set[str]:
        command = [compiler, "-std=c99", "-dM", "-E", "-x", "c", "-"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        return set(re.findall(r"^#define (\w+)", done.stdout, re.MULTILINE))

    standard = "".join(f"#include <{name}.h>\n" for name in ("stdbool", "stddef", "stdint"))
    return defined(standard + "".join(f'#include "{path}"\n' for path in headers)) - defined(standard)


def activations(plan: Plan) -> int:
    """The bytes of the arena of activations."""
    arenas = zip(plan.allocation.arenas, plan.usage, strict=True)
    return next(usage.footprint or 0 for arena, usage in arenas if arena.name == "activations")
