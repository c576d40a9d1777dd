"""The memory of programs in one arena, and of each by itself: `python -m tests.benchmarks.plan_sets [PYTHON]`.

The footprint is that of the arena `activations`, state included. Beside it is the sum of the same programs planned one
by one. Programs of a set that share nothing take turns there.

PYTHON is that of an environment with ExecuTorch and tflite-micro, whose planners then place the same buffers:

* ExecuTorch with `share_mutable_buffers`: the most that its greedy algorithm makes of one method, and the state once;
* TFLM's multi-tenant allocator: the most that its greedy planner makes of one model, and the state of each model,
  since variable tensors are persistent and belong to one interpreter.

Both are given the storages of the set's plans without those of the state. Results are in place there already.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tests.support import other_planners
from tests.support.set_networks import networks
from tmmu import examples
from tmmu.cli.entry import run
from tmmu.plans import sets
from tmmu.plans.file import load
from tmmu.plans.sections import Plan

ARENA = "activations"
BLOCK = 16
"""The bytes to which both peers round sizes."""


@dataclass(frozen=True)
class MeasuredSet:
    """A set: the file of each program's model with the options of this program alone, and the options of the set."""

    models: Mapping[str, Sequence[str]]
    flags: Sequence[str]


def build_sets(folder: Path) -> dict[str, MeasuredSet]:
    """Write the models, and return the sets by their titles."""
    taking_turns: dict[str, dict[str, Sequence[str]]] = {
        "two MCU models": {"mico-lenet": (), "mico-mlp": ()},
        "a detector and a classifier": {
            "detector": ("--shape", "images=1x3x320x320", "--value", "rate=16000"), "resnet50": ("--dim", "batch=1"),
        },
    }  # fmt: skip
    found = {}
    for title, names in taking_turns.items():
        models = {str(folder / f"{name}.onnx"): own for name, own in names.items()}
        for name, path in zip(names, models, strict=True):
            list(examples.write(name, path))
        found[title] = MeasuredSet(models, ("--one-memory",))
    for title, network in networks().items():
        models = {}
        for program, build in network.programs.items():
            path = str(folder / f"{program}.onnx")
            onnx.save(build(), path)
            donated = [
                pattern.rpartition(":")[2]
                for flag, pattern in zip(network.flags, network.flags[1:], strict=False)
                if flag == "--donate" and pattern.partition(":")[0] in (pattern, program)
            ]
            models[path] = [word for pattern in donated for word in ("--donate", pattern)]
        flags = [*network.flags]
        while "--donate" in flags:  # those of each program say it
            del flags[flags.index("--donate") : flags.index("--donate") + 2]
        found[title] = MeasuredSet(models, flags)
    return found


def plan_sets(python: str | None = None) -> None:
    """Print a row for each set: its footprint, that of its programs by themselves, and those of the peers."""
    print("\nplan sets: bytes of the arena activations, layout packed")
    print(
        f"{'set':30} {'together':>12} {'state':>11} {'one by one':>12} {'ratio':>6} "
        f"{'ExecuTorch':>12} {'TFLM':>12} {'seconds':>8}"
    )
    with tempfile.TemporaryDirectory() as name:
        for title, measured in build_sets(Path(name)).items():
            print(row_of(title, measured, Path(name), python), flush=True)


def row_of(title: str, measured: MeasuredSet, folder: Path, python: str | None) -> str:
    """Plan a set and its programs by themselves, and return the row."""
    own = [
        word
        for path, flags in measured.models.items()
        for flag, value in zip(flags[::2], flags[1::2], strict=True)
        for word in (flag, f"{Path(path).stem}:{value}")
    ]
    begun = time.perf_counter()
    made = footprint([*measured.models, *measured.flags, *own], folder / title)
    seconds = time.perf_counter() - begun
    state = [one for one in sets.load(folder / title).agreement.shared if one.arena == ARENA]
    alone, parts = 0, dict[str, list[dict[str, Any]]]()
    for path, flags in measured.models.items():
        part = Path(path).stem
        alone += footprint([path, "--one-memory", *flags], folder / f"{title} {part}")
        names = [name for one in state if part in one.uses for name in one.uses[part].names]
        parts[part] = buffers_of(load(sets.plan_path(folder / title, part)).plan, names)
    peers = ["", ""]
    if python is not None:
        once = sum(rounded(one.bytes) for one in state)
        each = sum(rounded(one.bytes) * len(one.uses) for one in state)
        peers[0] = str(once + most_of(python, "executorch-greedy", parts))
        peers[1] = str(each + most_of(python, "tflm-greedy", parts))
    held, ratio = sum(one.bytes for one in state), made / alone
    figures = f"{made:>12} {held:>11} {alone:>12} {ratio:>6.3f} {peers[0]:>12} {peers[1]:>12} {seconds:>8.2f}"
    return f"{title:30} {figures}"


def footprint(arguments: Sequence[str], folder: Path) -> int:
    """Plan a set into a folder, and return the bytes of its activations."""
    assert run(["plan", *arguments, "-o", str(folder), "--quiet"]) == 0
    return next(arena.bytes for arena in sets.load(folder).agreement.arenas if arena.name == ARENA)


def buffers_of(plan: Plan, state: Sequence[str]) -> list[dict[str, Any]]:
    """Return the storages of activations in which no tensor of the state is, as buffers for the planners of others."""
    t, s = plan.allocation.tensors, plan.allocation.storages
    row = [arena.name for arena in plan.allocation.arenas].index(ARENA)
    kept = [name in state for name in t.name.list()]
    left = set(np.flatnonzero(s.arena == row).tolist()) - set(t.storage[np.array(kept, np.bool_)].tolist())
    return [
        {"name": str(k), "bytes": int(s.bytes[k]), "first": int(s.birth[k]), "last": int(s.death[k])}
        for k in sorted(left)
        if int(s.bytes[k])
    ]


def most_of(python: str, planner: str, parts: Mapping[str, list[dict[str, Any]]]) -> int:
    """Return the largest footprint that another project's planner makes of the buffers of one program."""
    lines = "".join(json.dumps({"buffers": buffers}) + "\n" for buffers in parts.values())
    command = [os.path.abspath(python), other_planners.__file__, planner]
    done = subprocess.run(command, input=lines, capture_output=True, text=True)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    wrong = next((answer["error"] for answer in answers if "error" in answer), "")
    if len(answers) != len(parts) or wrong:
        raise SystemExit(f"{planner} failed: {wrong or done.stderr.strip()[-300:]}")
    return max(int(answer["footprint"]) for answer in answers)


def rounded(size: int) -> int:
    """Return a size in whole blocks of the peers."""
    return -(-size // BLOCK) * BLOCK


if __name__ == "__main__":
    plan_sets(*sys.argv[1:])
