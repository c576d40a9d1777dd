"""The planners that are hunted: a worker each, and the environment that it runs in.

A row in `PLANNERS` is all that the driver needs. An environment is a folder with a virtual environment, which several
planners may share; `ENVIRONMENTS` has the versions of its packages. An environment in the folder that HUNT_VENVS names
is used as it is. A missing one is made.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
WORKERS = Path(__file__).parent / "workers"
VENVS = Path(os.environ.get("HUNT_VENVS", ROOT / ".hunt" / "venvs"))

ENVIRONMENTS: dict[str, tuple[str, ...]] = {
    "executorch": ("executorch==1.5.1", "torch==2.15.0"),
    "iree": ("iree-base-compiler==3.13.0", "iree-base-runtime==3.13.0", "numpy==2.4.6"),
    "jax": ("jax==0.10.2",),
    "mnn": ("MNN==3.6.1", "onnx==1.23.2", "numpy==2.4.6"),
    "onnxruntime": ("onnxruntime==1.32.0", "onnx==1.23.2", "numpy==2.4.6"),
    "openvino": ("openvino==2026.4.1", "onnx==1.23.2", "numpy==2.4.6"),
    "tflite": (
        "ai-edge-litert==2.3.0", "ethos-u-vela==5.2.0", "tflite-micro==0.dev20261023182759", "flatbuffers==25.12.19",
        "numpy==2.4.6",
    ),
    "tinygrad": ("tinygrad==0.14.0", "numpy==2.4.6"),
    "torch": ("torch==2.15.0",),
    "tract": ("tract==0.23.9", "onnx==1.23.2", "numpy==2.4.6"),
    "tvm": ("apache-tvm==0.27.0.post1", "numpy==2.4.6"),
}  # fmt: skip
"""The packages of each environment, in the versions that the hunt and the reports were run with."""

TOOLS = {"clang": "apt-get install clang", "g++": "apt-get install g++"}
"""Tools that pip does not install, and the command that installs each."""


class Planner(NamedTuple):
    """A planner: its name on the command line, its environment, its worker's file, and the tools that it needs."""

    name: str
    environment: str
    worker: Path
    tools: tuple[str, ...] = ()

    @property
    def packages(self) -> tuple[str, ...]:
        """What is installed in its environment."""
        return ENVIRONMENTS[self.environment]

    @property
    def python(self) -> Path:
        """The interpreter of its environment, which need not be there."""
        return python_of(self.environment)

    @property
    def command(self) -> list[str]:
        """What starts its worker."""
        return [str(self.python), str(self.worker)]


def python_of(environment: str) -> Path:
    """Return the interpreter of an environment, which need not be there."""
    return VENVS / environment / "bin" / "python"


def _planner(name: str, environment: str, *tools: str) -> Planner:
    return Planner(name, environment, WORKERS / f"{name}.py", tools)


PLANNERS = {
    planner.name: planner
    for planner in (
        _planner("executorch", "executorch"),
        _planner("litert", "tflite"),
        _planner("vela", "tflite"),
        _planner("tflm", "tflite"),
        _planner("tvm", "tvm"),
        _planner("iree", "iree"),
        _planner("inductor", "torch", "g++"),
        _planner("tinygrad", "tinygrad", "clang"),
        _planner("xla", "jax"),
        _planner("onnxruntime", "onnxruntime"),
        _planner("openvino", "openvino"),
        _planner("mnn", "mnn"),
        _planner("tract", "tract"),
    )
}


def install(planner: Planner) -> None:
    """Make the environment of a planner if it is missing. Raises ChildProcessError with what is missing."""
    if missing := name_missing(planner.tools):
        raise ChildProcessError(missing)
    make_environment(planner.python, planner.packages)


def name_missing(tools: tuple[str, ...]) -> str:
    """Return the tools that are not on the path, with the command that installs each. Empty if all are there."""
    return "; ".join(f"{tool} is missing: {TOOLS[tool]}" for tool in tools if shutil.which(tool) is None)


def make_environment(python: Path, packages: tuple[str, ...]) -> None:
    """Make a virtual environment with some packages if it is missing.

    Raises ChildProcessError with pip's last line if pip fails. The interpreter is removed then, so that the next call
    makes the environment again.
    """
    if python.exists():
        return
    folder = python.parents[1]
    print(f"installing {' '.join(packages)} in {folder}", file=sys.stderr)
    venv.create(folder, with_pip=True, clear=True)
    command = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        python.unlink()
        raise ChildProcessError((done.stderr.strip().splitlines() or ["pip failed"])[-1])
