"""`python -m tests.benchmarks.mico [NETWORK …]`: how long C of a plan takes beside ONNX Runtime, and its memory.

The C is compiled by gcc at -O2 and at -O3 -march=native, and both run on one thread, the same network with the same
weights, in float32 and with layers of 8 bits; each figure is the least processor time of several runs of
`model_forward` or of a session. Bytes are those of the activations' arena under each layout; MiCo's are the bytes of
its pools as it states them, for float32. Without ONNX Runtime its column is empty.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from proofs.verify.judge import verify
from proofs.verify.options import Options
from tmmu import examples
from tmmu.core.vocabulary import Bindings
from tmmu.importers.onnx import import_onnx
from tmmu.mico import CodeOptions, generate
from tmmu.mico.integers import quantize_example
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import file
from tmmu.plans.sections import Plan

LAYOUTS = ("packed", "slots", "pools")
NETWORKS: dict[str, tuple[dict[str, int], int | None]] = {
    "mico-mlp": ({}, 1280), "mico-lenet": ({}, 42_336), "mico-vgg": ({}, 589_824), "mico-resnet8": ({}, 786_432),
    "resnet50": ({"batch": 1}, None), "transformer-block": ({}, None),
}  # fmt: skip
"""Each with its dimensions, and the bytes of MiCo's pools; those of MiCo are measured in int8 too."""

FLAGS = (("-O2",), ("-O3", "-march=native"))

SECONDS = 2.0
"""How long one network runs."""

DRIVER = """
#include "model.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

int main(void)
{
    static Model model;
    double least = 1e30;
    clock_t began = clock();
    if (!model_init(&model))
        return 1;
    memset(model_input(&model, 0), 0, model_input_bytes(0));
    while (clock() - began < SECONDS * CLOCKS_PER_SEC || least > 1e29) {
        clock_t start = clock();
        for (int k = 0; k < REPEATS; k++)
            model_forward(&model);
        double each = (double)(clock() - start) / CLOCKS_PER_SEC / REPEATS;
        least = each < least ? each : least;
    }
    printf("%.9f", least);
    model_free(&model);
    return 0;
}
"""


def of_c(plan: Plan, model: Path, folder: Path, repeats: int) -> list[float]:
    """Seconds of one run of the C, for each of the flags."""

    def prove(made: Plan, path: str) -> Any:
        file.save(made, folder / "plan.cbor")
        return verify(str(folder / "plan.cbor"), Options(model=path))

    generate(plan, str(model), str(folder / "c"), prove=prove, options=CodeOptions("file"))
    (folder / "c/main.c").write_text(DRIVER)
    sources = sorted(map(str, (folder / "c").glob("*.c")))
    seconds = []
    for flags in FLAGS:
        command = ["gcc", "-std=c99", *flags, f"-DSECONDS={SECONDS}", f"-DREPEATS={repeats}", "-o", "bench", *sources]
        subprocess.run([*command, "-lm"], check=True, cwd=folder / "c")
        done = subprocess.run([folder / "c/bench"], check=True, capture_output=True, text=True)
        seconds.append(float(done.stdout))
    return seconds


def of_runtime(model: Path, dims: dict[str, int]) -> float | None:
    """Seconds of one run of ONNX Runtime on one thread, None if it is not installed."""
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    array = np.zeros([dims.get(dim, dim) for dim in given.shape], np.float32)
    least, end = float("inf"), time.process_time() + SECONDS
    while time.process_time() < end or least == float("inf"):
        start = time.process_time()
        session.run(None, {given.name: array})
        least = min(least, time.process_time() - start)
    return least


def activations(plan: Plan) -> int:
    """Return the bytes of the arena of the activations."""
    return next(
        usage.footprint or 0
        for arena, usage in zip(plan.allocation.arenas, plan.usage, strict=True)
        if arena.name == "activations"
    )


def measure(name: str, bits: int) -> None:
    """Print a line for one network."""
    dims, of_mico = NETWORKS[name]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        model = folder / "model.onnx"
        examples.write(name, str(model), seed=1, convert=partial(quantize_example, seed=1) if bits == 8 else None)
        plans = {
            layout: plan_memory(import_onnx(str(model), Bindings(dims=dims)), options=PlanOptions(layout=layout)).plan
            for layout in LAYOUTS
        }
        ours = of_c(plans["packed"], model, folder, 1000 if name == "mico-mlp" else 1)
        theirs = of_runtime(model, dims)
        times = " ".join(f"{each * 1e3:>11.3f}" for each in ours)
        beside = f"{theirs * 1e3:>11.3f} {ours[-1] / theirs:>7.1f}" if theirs is not None else " " * 19
        bytes_ = " ".join(f"{activations(plan):>11,}" for plan in plans.values())
        stated = f"{of_mico:,}" if of_mico and bits == 32 else ""
        print(f"{name:18} {bits:>4} {times} {beside} {bytes_} {stated:>11}", flush=True)


def main(names: list[str]) -> None:
    """Print the table of the networks, of all if none is named."""
    columns = " ".join(f"{layout:>11}" for layout in LAYOUTS)
    flags = " ".join(f"{'-O3 native' if each[1:] else each[0]:>11}" for each in FLAGS)
    print(f"\n{'network':18} {'bits':>4} {flags} {'runtime, ms':>11} {'ratio':>7} {columns} {'MiCo':>11}   bytes")
    for name in names or NETWORKS:
        for bits in (32, 8) if name.startswith("mico-") else (32,):
            measure(name, bits)


if __name__ == "__main__":
    main(sys.argv[1:])
