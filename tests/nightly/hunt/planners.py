"""The planners that are hunted: a worker each, and the environment that it runs in.

A row in `PLANNERS` is all that the driver needs. An environment is a folder with a virtual environment;
several planners may share one. Those in the folder that HUNT_VENVS names are used as they are; what is missing is made.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
WORKERS = Path(__file__).parent / "workers"
VENVS = Path(os.environ.get("HUNT_VENVS", ROOT / ".hunt" / "venvs"))


class Planner(NamedTuple):
    """A planner: its name on the command line, its environment, what is installed there, and its worker's file."""

    name: str
    environment: str
    packages: tuple[str, ...]
    worker: Path

    @property
    def python(self) -> Path:
        """The interpreter of its environment, which need not be there."""
        return VENVS / self.environment / "bin" / "python"

    @property
    def command(self) -> list[str]:
        """What starts its worker."""
        return [str(self.python), str(self.worker)]


def _planner(name: str, environment: str, *packages: str) -> Planner:
    return Planner(name, environment, packages, WORKERS / f"{name}.py")


PLANNERS = {
    planner.name: planner
    for planner in (
        _planner("executorch", "executorch", "executorch"),
        _planner("litert", "tflite", "ai-edge-litert", "ethos-u-vela", "tflite-micro"),
        _planner("vela", "tflite", "ai-edge-litert", "ethos-u-vela", "tflite-micro"),
        _planner("tvm", "tvm", "apache-tvm"),
        _planner("iree", "iree", "iree-base-compiler", "iree-base-runtime"),
        _planner("inductor", "torch", "torch"),
        _planner("tinygrad", "tinygrad", "tinygrad", "numpy"),
        _planner("xla", "jax", "jax"),
    )
}


def install(planner: Planner) -> None:
    """Make the environment of a planner where it is missing. Raises CalledProcessError where pip fails."""
    if planner.python.exists():
        return
    print(f"installing {' '.join(planner.packages)} in {planner.python.parents[1]}", file=sys.stderr)
    venv.create(planner.python.parents[1], with_pip=True)
    command = [str(planner.python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *planner.packages]
    subprocess.run(command, check=True)
