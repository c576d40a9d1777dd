"""How Hypothesis runs: the profile `fast` in `make test-fast`, `ci` in `make test`, `full` in `make test-full`, `soak`
for long runs, `mutation` the same examples in each run; HYPOTHESIS_PROFILE chooses.

Under CI the examples follow from the tests alone, so that a run can be repeated to the letter; elsewhere every run
looks at new ones. Nothing has a deadline: a slow machine is no error.

The tests of the kernel run where it is built, and C is compiled by the compilers that are installed. What is left out
is named in the summary.
"""

from __future__ import annotations

import gc
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from proofs.proving.kernel import installed
from tests.support import tools
from tmmu.core import progress

KERNEL = Path(__file__).parent / "integration" / "kernel"
LONG = KERNEL.with_name("models"), KERNEL.with_name("test_types.py")
progress.INTERVAL_S = 3600.0  # what a command prints does not depend on how busy the machine is
gc.disable()  # until tests are collected
collect_ignore = (
    [] if installed.find_program() is not None else [str(path) for path in sorted(KERNEL.glob("test_*.py"))]
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let each worker begin with its share of what takes longest, the runs of TLC and the types.

    `--dist worksteal` first gives each worker one piece of the list, all of one length. At the end short tests keep all
    of them busy.
    """
    workers: int = getattr(config, "workerinput", {}).get("workercount", 1)
    long = [item for item in items if any(item.path.is_relative_to(path) for path in LONG)]
    short = [item for item in items if not any(item.path.is_relative_to(path) for path in LONG)]
    size, ordered = len(items) // workers, list[pytest.Item]()
    for worker in range(workers):
        mine = long[worker::workers]
        ordered += mine + short[: max(0, size - len(mine))]
        del short[: max(0, size - len(mine))]
    items[:] = ordered + short


def pytest_collection_finish() -> None:
    """Take the tests themselves out of what Python's collector looks through; a full collection took seconds."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what was left out."""
    for path in collect_ignore:
        terminalreporter.write_line(
            f"LEFT OUT: tests/integration/kernel/{Path(path).name} (the kernel is not built: make kernel)"
        )
    for compiler in tools.C_COMPILERS:
        if shutil.which(compiler) is None:
            terminalreporter.write_line(f"LEFT OUT: C with {compiler} (not installed: apt-get install {compiler})")


settings.register_profile(
    "fast",
    deadline=None,
    derandomize="CI" in os.environ,
    max_examples=8,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("ci", settings.get_profile("fast"), max_examples=25)
settings.register_profile("full", settings.get_profile("fast"), max_examples=100)
settings.register_profile("soak", settings.get_profile("full"), derandomize=False, max_examples=10_000)
settings.register_profile(
    "mutation",
    settings.get_profile("ci"),
    max_examples=40,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],  # that something fails is enough
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))
