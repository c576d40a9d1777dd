"""The examples whose steps overlap: planned, proved and run in interleavings of which some have two steps at a time.

spec: SIM10.1, X6.1, X6.2
"""

from __future__ import annotations

from pathlib import Path

import pytest

from proofs.verify import entry
from tests.benchmarks.streams import NAMES
from tmmu import examples
from tmmu.cli.entry import run


@pytest.mark.parametrize("layout", ["packed", "slots"])
@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_planned_proved_and_run(name: str, layout: str, tmp_path: Path) -> None:
    model, plan = tmp_path / "m.ir.txt", tmp_path / "p.cbor"
    examples.write(name, model)
    assert run(["plan", str(model), "--layout", layout, "-o", str(plan)]) == 0
    assert entry.run([str(plan), "--model", str(model), "--donate", "*", "--require", "slot-count", "-q"]) == 0
    assert run(["run", str(plan), "--donate", "*", "--schedules", "2", "--sanitize"]) == 0
