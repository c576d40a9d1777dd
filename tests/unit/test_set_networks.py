"""Real networks as plan sets, with small sizes: planned, proved, and run with their state kept from call to call.

spec: PS1.2, PS3.1, PS4.1, SIM9.4
"""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser
import pytest

from proofs.verify.entry import run as verify_plan
from tests.support.set_networks import SMALL, networks
from tmmu.cli.entry import run
from tmmu.examples.weights import with_weights
from tmmu.plans import sets

SETS = networks((SMALL, SMALL), prompt=4)


UPDATES = (
    "ScatterND (cache, places, k)", "ScatterElements <axis = 1> (cache, columns, k)",
    "TensorScatter <axis = 1> (cache, k, row)",
)  # fmt: skip
"""Nodes that write rows of a cache, as exporters of language models write them."""


def update_program(update: str, first: int, rows: int) -> onnx.ModelProto:
    """A program that writes rows of a cache from `first` on, and multiplies all of it."""
    places = range(first, first + rows)
    return onnx.parser.parse_model(f"""<ir_version: 11, opset_import: ["" : 24]>
    g (float[1, {rows}, 4] x, float[1, 16, 4] cache) => (float[1, 16, 4] cache1, float[1, {rows}, 16] y) <
        int64[1] row = {{{first}}},
        int64[1, {rows}, 2] places = {{{", ".join(f"0, {place}" for place in places)}}},
        int64[1, {rows}, 4] columns = {{{", ".join(f"{place}" for place in places for _ in range(4))}}}
    > {{ k = Relu (x) cache1 = {update} t = Transpose <perm = [0, 2, 1]> (cache1) y = MatMul (x, t) }}""")


@pytest.mark.parametrize("update", UPDATES, ids=lambda update: update.split()[0])
def test_a_cache_whose_rows_are_written_anew_is_shared_in_place(update: str, tmp_path: Path) -> None:
    """spec: T3.12, PS1.2"""
    models = {name: tmp_path / f"{name}.onnx" for name in ("prefill", "decode")}
    for path, first, rows in zip(models.values(), (0, 4), (4, 1), strict=True):
        onnx.save(update_program(update, first, rows), path)
    folder = str(tmp_path / "set")
    given = ["--share", "cache", "--donate", "cache", "-o", folder, "--quiet"]
    assert run(["plan", *map(str, models.values()), *given]) == 0
    (cache,) = [each for each in sets.load(folder).agreement.shared if not each.is_weight]
    assert set(cache.uses.values()) == {("cache", "cache1")}
    assert verify_plan([folder, "--donate=cache"]) == 0
    kernels = [f"--model={name}={path}" for name, path in models.items()]
    assert run(["run", folder, "--calls", "prefill,decode*2", *kernels, "--sanitize"]) == 0


@pytest.mark.parametrize("title", SETS)
def test_real_networks_are_planned_proved_and_run_as_sets(title: str, tmp_path: Path) -> None:
    """The weights of one seed are those of both programs, and are stored once."""
    one, models = SETS[title], {}
    for name, build in one.programs.items():
        models[name] = tmp_path / f"{name}.onnx"
        onnx.save(with_weights(build(), 1, "none")[0], models[name])
    folder = tmp_path / "set"
    assert run(["plan", *map(str, models.values()), *one.flags, "-o", str(folder), "--quiet"]) == 0
    shared = sets.load(folder).agreement.shared
    state = [each for each in shared if not each.is_weight]
    assert len(state) == {"gpt2": 2, "whisper": 4, "LSTM": 2}[title.split(",")[0]]
    assert all(use.entry is not None for each in state for use in each.uses.values() if each.name[:5] != "cross")
    donated = [word for flag, word in zip(one.flags, one.flags[1:], strict=False) if flag == "--donate"]
    patterns = [pattern.partition(":")[2] or pattern for pattern in donated]
    assert verify_plan([str(folder), *(f"--donate={pattern}" for pattern in patterns)]) == 0
    kernels = [f"--model={name}={path}" for name, path in models.items()]
    assert run(["run", str(folder), "--calls", one.calls, *kernels, "--sanitize"]) == 0
