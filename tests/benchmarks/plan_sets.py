"""What programs need in one memory, and each by itself: `python -m tests.benchmarks.plan_sets`.

The footprint is that of the arena `activations`, and stands beside the sum of the same models planned one by one.
Models of a set that share nothing take turns there. TFLM's multi-tenant allocator and ExecuTorch's methods that share
planned buffers are not measured: neither is installed where this was written.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.support import set_programs
from tmmu import examples
from tmmu.cli.entry import run
from tmmu.plans import sets
from tmmu.plans.file import load

ARENA = "activations"
CASES: dict[str, dict[str, tuple[str, ...]]] = {
    "two MCU models": {"mico-lenet": (), "mico-mlp": ()},
    "a detector and a classifier": {
        "detector": ("--shape", "images=1x3x320x320", "--value", "rate=16000"), "resnet50": ("--dim", "batch=1"),
    },
}  # fmt: skip
"""The examples of each set, and the bindings of each."""


def plan_sets() -> None:
    """Print a row for each set: its footprint, the sum of its models by themselves, and the seconds of planning."""
    print("\nplan sets: bytes of the arena activations, layout packed")
    print(f"{'set':30} {'together':>13} {'one by one':>13} {'ratio':>7} {'seconds':>8}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, models in CASES.items():
            flags = {str(folder / f"{model}.onnx"): own for model, own in models.items()}
            for model, path in zip(models, flags, strict=True):
                examples.write(model, path)
            measure(title, flags, ("--one-memory",), folder / title)
        for model, rows in (("warm", 32), ("step", 8)):
            set_programs.recurrent(folder / f"{model}.onnx", rows, 1)
        paths = [str(folder / "warm.onnx"), str(folder / "step.onnx")]
        measure("recurrent state over calls", dict.fromkeys(paths, ("--donate", "h")), ("--share", "h"), folder / "h")


def measure(title: str, models: Mapping[str, Sequence[str]], flags: Sequence[str], folder: Path) -> None:
    """Plan a set and its models by themselves, and print the row."""
    begun = time.perf_counter()
    asked = [*flags, *(word for pair in pair_flags(models) for word in pair)]
    assert run(["plan", *models, *asked, "-o", str(folder), "--quiet"]) == 0
    seconds = time.perf_counter() - begun
    alone = 0
    for path, own in models.items():
        assert run(["plan", path, *own, "--layout", "packed", "-o", f"{path}.plan.cbor", "--quiet"]) == 0
        alone += sets.footprints(load(f"{path}.plan.cbor").plan)[ARENA]
    together = next(arena.bytes for arena in sets.load(folder).agreement.arenas if arena.name == ARENA)
    print(f"{title:30} {together:>13} {alone:>13} {together / alone:>7.3f} {seconds:>8.2f}", flush=True)


def pair_flags(models: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Yield each flag of a model with its value, which is of that program alone."""
    for path, own in models.items():
        yield from ((flag, f"{Path(path).stem}:{value}") for flag, value in zip(own[::2], own[1::2], strict=True))


if __name__ == "__main__":
    plan_sets()
