"""How Hypothesis runs: the profile `fast` in `make test-fast`, `ci` in `make test`, `full` in `make test-full`, `soak`
for long runs, `mutation` the same examples in each run; HYPOTHESIS_PROFILE chooses.

Under CI the examples follow from the tests alone, so that a run can be repeated to the letter; elsewhere every run
looks at new ones. Nothing has a deadline: a slow machine is no error.

The tests of the kernel run where it is built, and C is compiled by the compilers that are installed. What is left out
is named in the summary.
"""

from __future__ import annotations

import gc
import math
import os
import shutil
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from proofs.proving.kernel import installed
from tests.support import durations, tools
from tmmu.core import progress

KERNEL = Path(__file__).parent / "integration" / "kernel"
progress.INTERVAL_S = 3600.0  # what a command prints does not depend on how busy the machine is
gc.disable()  # until tests are collected
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in what a shell runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
collect_ignore = (
    [] if installed.find_program() is not None else [str(path) for path in sorted(KERNEL.glob("test_*.py"))]
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a suite leave out tests by how long they take, and measure that anew."""
    group = parser.getgroup("tmmu", "tests by how long they take (tests/support/durations.py)")
    group.addoption("--at-most", type=float, default=math.inf, metavar="SECONDS", help="leave longer tests out")
    group.addoption("--longer-than", type=float, default=-1.0, metavar="SECONDS", help="leave other tests out")
    group.addoption("--write-durations", action="store_true", help="write how long the tests of this run took")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose tests by how long they take, and let each worker begin with its share of the longest."""
    limits = config.getoption("longer_than"), config.getoption("at_most")
    if config.getoption("write_durations") and limits != (-1.0, math.inf):
        raise pytest.UsageError("--write-durations measures all tests of its files: leave out the limits")
    chosen, others = durations.divide(items, *limits)
    config.hook.pytest_deselected(items=others)
    items[:] = durations.order(chosen, getattr(config, "workerinput", {}).get("workercount", 1))


_measured: dict[str, float] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up what a test took, with what is set up for it."""
    _measured[report.nodeid] = _measured.get(report.nodeid, 0.0) + report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write how long tests took, in the process that has the reports of all workers."""
    if session.config.getoption("write_durations") and not hasattr(session.config, "workerinput"):
        durations.write(_measured)


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
