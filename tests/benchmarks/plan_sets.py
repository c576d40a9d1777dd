"""What programs need in one memory, and each by itself: `python -m tests.benchmarks.plan_sets`.

The footprint is that of the arena `activations`, and stands beside the sum of the same models planned one by one.
Models of a set that share nothing take turns there. TFLM's multi-tenant allocator and ExecuTorch's methods that share
planned buffers are not measured: neither is installed where this was written.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.support import set_programs
from tmmu import examples
from tmmu.cli.entry import run
from tmmu.plans import sets
from tmmu.plans.file import load

ARENA = "activations"
CASES: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "two MCU models": (("mico-lenet", "mico-mlp"), ("--one-memory",)),
    "a detector and a classifier": (("detector", "resnet50"), ("--one-memory", "--dim", "batch=1")),
}
"""The examples of each set, and the options to plan it with."""


def plan_sets() -> None:
    """Print a row for each set: its footprint, the sum of its models by themselves, and the seconds of planning."""
    print("\nplan sets: bytes of the arena activations, layout packed")
    print(f"{'set':30} {'together':>13} {'one by one':>13} {'ratio':>7} {'seconds':>8}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, (models, flags) in CASES.items():
            paths = [str(folder / f"{model}.onnx") for model in models]
            for model, path in zip(models, paths, strict=True):
                examples.write(model, path)
            measure(title, paths, flags, folder / title)
        for model in ("warm", "step"):
            set_programs.recurrent(folder / f"{model}.onnx", {"warm": 32, "step": 8}[model], 1)
        paths = [str(folder / "warm.onnx"), str(folder / "step.onnx")]
        measure("recurrent state over calls", paths, ("--share", "h", "--donate", "h"), folder / "state")


def measure(title: str, paths: Sequence[str], flags: Sequence[str], folder: Path) -> None:
    """Plan a set and its models by themselves, and print the row."""
    begun = time.perf_counter()
    assert run(["plan", *paths, *flags, "-o", str(folder), "--quiet"]) == 0
    seconds = time.perf_counter() - begun
    alone = 0
    own = [flag for flag in flags if flag != "--one-memory"]
    while "--share" in own:
        at = own.index("--share")
        del own[at : at + 2]
    for path in paths:
        plan = f"{path}.plan.cbor"
        assert run(["plan", path, *own, "--layout", "packed", "-o", plan, "--quiet"]) == 0
        alone += sets.footprints(load(plan).plan)[ARENA]
    together = next(arena.bytes for arena in sets.load(folder).agreement.arenas if arena.name == ARENA)
    print(f"{title:30} {together:>13} {alone:>13} {together / alone:>7.3f} {seconds:>8.2f}", flush=True)


if __name__ == "__main__":
    plan_sets()
