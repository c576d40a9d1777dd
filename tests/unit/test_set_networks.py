"""Real networks as plan sets, with small sizes: planned, proved, and run with their state kept from call to call.

spec: PS1.2, PS3.1, PS4.1, SIM9.4
"""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from proofs.verify.entry import run as verify_plan
from tests.support.set_networks import SMALL, networks
from tmmu.cli.entry import run
from tmmu.examples.weights import with_weights
from tmmu.plans import sets

SETS = networks((SMALL, SMALL), prompt=4)


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
