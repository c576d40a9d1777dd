"""Planners of other projects in the suite. `HUNT_VENVS` names the folder with their environments; `make hunt` makes
them. The figures are in `spec/testing.md`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nightly.hunt.planners import PLANNERS
from tests.support import other_planners
from tmmu import testing
from tmmu.testing.programs import BatchProgram
from tmmu.testing.properties import Planner


@pytest.mark.parametrize("name", other_planners.PLANNERS)
def test_a_planner_of_another_project_has_all_properties(name: str) -> None:
    python = PLANNERS[name.partition("-")[0]].python
    if not python.exists():
        pytest.skip(f"{name} is not installed: make hunt PLANNERS=tinygrad")  # another project, in its environment
    program = BatchProgram([str(python), str(Path(other_planners.__file__)), name])
    try:
        given = testing.buffers(largest=1 << 20).filter(bool)
        figures = testing.check_planner(
            Planner(program, name, takes_capacity=False), given, granularity=256, examples=400, folder=""
        )
    finally:
        program.close()
    assert figures.held["safe"] == figures.examples
