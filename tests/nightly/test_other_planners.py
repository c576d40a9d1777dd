"""Planners of other projects in the suite. `HUNT_VENVS` names the folder with their environments.

The figures that a run prints (`pytest -s`) are in `spec/testing.md`. spec: TP5.3
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis.strategies import SearchStrategy

from tests.nightly.hunt.planners import VENVS
from tests.support import other_planners, small_planners
from tmmu import testing
from tmmu.core.source import Source
from tmmu.exporters.minimalloc import place_buffers
from tmmu.testing.answers import BadAnswer
from tmmu.testing.problems import BufferProblem
from tmmu.testing.programs import BatchProgram, write_csv
from tmmu.testing.properties import Planner

EXAMPLES = 400
UNIT = 256
"""The unit of the second kind of buffers: no smaller than the block of any planner here."""


def packed(buffers: list[testing.TimedBuffer]) -> str:
    """Our layout `packed`, from and to MiniMalloc's CSV."""
    return place_buffers(Source("buffers", write_csv(buffers).encode())).data.decode()


OURS = {"packed": packed, "first fit by size": small_planners.plan_buffers}


class Environment(NamedTuple):
    """Where a planner is: the folder below `HUNT_VENVS`, and the packages that are installed there."""

    folder: str
    packages: str


TINYGRAD, EXECUTORCH = Environment("tinygrad", "tinygrad numpy"), Environment("executorch", "executorch")
TFLITE, GGML = Environment("tflite", "ai-edge-litert tflite-micro"), Environment("ggml", "libggml-python")
ENVIRONMENTS = {"tinygrad": TINYGRAD, "executorch": EXECUTORCH, "tflm": TFLITE, "litert": TFLITE, "ggml": GGML}
BLOCKS = {"tinygrad-tlsf": 16, "executorch": 16, "tflm": 16, "litert": 64, "ggml": 32, "tinygrad": 256, "packed": 1}
"""The unit of offsets of each planner, of the first name that it begins with."""


def given(unit: int) -> SearchStrategy[Any]:
    """Buffers of at most 1 MiB, of any bytes or of multiples of a unit. One has a byte: ggml aborts without one."""
    drawn = testing.buffers(largest=(1 << 20) // unit)
    return drawn.map(lambda buffers: [replace(b, bytes=b.bytes * unit) for b in buffers]).filter(
        lambda buffers: any(b.bytes for b in buffers)
    )


@contextmanager
def planner(name: str) -> Iterator[Planner]:
    """A planner by name: ours, or a program in the environment of its project, which is skipped if it is missing."""
    if name in OURS:
        function: Any = OURS[name]
        yield Planner(lambda buffers: function(buffers), name)
        return
    environment = ENVIRONMENTS[name.partition("-")[0]]
    folder = VENVS / environment.folder
    if not (folder / "bin/python").exists():
        command = f"python -m venv {folder} && {folder}/bin/pip install {environment.packages}"
        pytest.skip(f"{name} is not installed: {command}")  # another project, in its environment
    program = BatchProgram([str(folder / "bin/python"), str(Path(other_planners.__file__)), name], timeout=120)
    try:
        yield Planner(program, name, takes_capacity=False)
    finally:
        program.close()


@pytest.mark.parametrize("unit", [1, UNIT])
@pytest.mark.parametrize("name", [*OURS, *other_planners.PLANNERS])
def test_a_planner_of_another_project_has_all_properties(name: str, unit: int) -> None:
    block = next((block for start, block in BLOCKS.items() if name.startswith(start)), 1)
    with planner(name) as planned:
        figures = testing.check_planner(planned, given(unit), granularity=block, examples=EXAMPLES, folder="")
    print(f"\n{name}, sizes in units of {unit}: {figures.mean:.3f} {figures.worst:.3f}, {dict(figures.held)}")
    assert figures.held["safe"] == figures.held["deterministic"] == figures.held["bounded"] == figures.examples


def test_ggml_ends_its_process_for_a_graph_without_bytes() -> None:
    """Finding 317: such a tensor has the address NULL, and is given a place a second time."""
    with planner("ggml") as planned, pytest.raises(BadAnswer, match="ended by SIGABRT"):
        planned.ask(BufferProblem([testing.TimedBuffer("a", 0, 0, 0)]))
