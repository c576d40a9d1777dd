"""The pytest plugin of `tmmu.testing`: the planner under test, profiles, seeds, saved cases, and a summary by property.

pytest loads it in every run where this package is installed, so it imports neither Hypothesis nor a planner: they
are loaded for the tests that need them. spec: TP4.1 to TP4.6
"""

from __future__ import annotations

import importlib
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tmmu.testing.profiles import FOLDER, PROFILES, ExampleRun, running

GIVEN = ("buffers", "dags", "graphs", "models")
"""The strategies that a planner can be given."""
SUFFIX = ".plan.txt"
MARKERS = {
    "tmmu_safety": "a property of tmmu.testing without which a plan corrupts memory",
    "tmmu_quality": "a property of tmmu.testing about the size and the stability of plans",
}
HELD, RATIO = "tmmu-held", "tmmu-footprint-to-peak"
"""The names of the properties of a test in a JUnit file: how often it held, and the mean ratio."""
_STACK = pytest.StashKey[ExitStack]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("tmmu", "planners of memory (tmmu.testing)")
    group.addoption(
        "--tmmu-planner", metavar="MODULE:FUNCTION",
        help="the planner under test, as for tmmu.testing.check_planner",
    )  # fmt: skip
    group.addoption("--tmmu-given", choices=GIVEN, default="buffers", help="what it is given (default: buffers)")
    group.addoption("--tmmu-profile", choices=tuple(PROFILES), default="fast", help="how many examples are drawn")
    group.addoption("--tmmu-seed", type=int, help="the seed of all examples; also --seed, beside --tmmu-planner")
    group.addoption(
        "--tmmu-folder", default=FOLDER, metavar="DIR", help=f"where failures are saved (default: {FOLDER})"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(parser: pytest.Parser, args: list[str]) -> None:
    """Declare `--seed` only beside `--tmmu-planner`: other plugins and projects have an option of that name."""
    if any(word.startswith("--tmmu-planner") for word in args):
        parser.getgroup("tmmu").addoption("--seed", dest="tmmu_seed", type=int, help="the seed of all examples")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and put the run in force that the options state."""
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    profile, seed = config.getoption("tmmu_profile"), config.getoption("tmmu_seed")
    if seed is None:
        seed = random.SystemRandom().randrange(1 << 32) if profile == "nightly" else 0
        config.option.tmmu_seed = seed
    stack = config.stash[_STACK] = ExitStack()
    stack.enter_context(running(ExampleRun(PROFILES[profile], seed, Path(config.getoption("tmmu_folder")))))


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the run."""
    if _STACK in config.stash:
        config.stash[_STACK].close()


def pytest_report_header(config: pytest.Config) -> str | None:
    """Return the line that repeats a run."""
    planner = config.getoption("tmmu_planner")
    if planner is None:
        return None
    return f"tmmu: planner {planner}, profile {config.getoption('tmmu_profile')}, seed {config.getoption('tmmu_seed')}"


def load_planner(name: str) -> Callable[..., Any]:
    """Return the function MODULE:FUNCTION; modules in the current folder count.

    Raises UsageError, with one sentence, if there is none.
    """
    module, _, path = name.partition(":")
    if not module or not path:
        raise pytest.UsageError(f"--tmmu-planner: expected MODULE:FUNCTION, got {name!r}")
    with _current_folder():
        try:
            found: Any = importlib.import_module(module)
        except ImportError as error:
            raise pytest.UsageError(f"--tmmu-planner: module {module!r} cannot be imported ({error})") from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise pytest.UsageError(f"--tmmu-planner: module {module!r} has no function {path!r}")
        found = getattr(found, part)
    if not callable(found):
        raise pytest.UsageError(f"--tmmu-planner: {name} is a {type(found).__name__}, expected a function")
    result: Callable[..., Any] = found
    return result


@contextmanager
def _current_folder() -> Iterator[None]:
    """Let modules in the current folder be imported, as `python -m` does."""
    folder = os.getcwd()
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse conformance tests without a planner that can be loaded: skipped, they would look like a success."""
    planner = config.getoption("tmmu_planner")
    if not any(_needs_planner(item) for item in items):
        return
    if planner is not None:
        load_planner(planner)
    else:
        raise pytest.UsageError("tmmu.testing.conformance: name the planner by --tmmu-planner MODULE:FUNCTION")


def _needs_planner(item: pytest.Item) -> bool:
    """Whether it is a test of the collected subclass, by name: its module loads the verifier."""
    cls = getattr(item, "cls", None)
    return cls is not None and (cls.__module__, cls.__name__) == ("tmmu.testing.conformance", "TestPlanner")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect saved cases: those that are named, and those in the folders that are."""
    if parent.config.getoption("tmmu_planner") is None or not file_path.name.endswith(SUFFIX):
        return None
    return CaseFile.from_parent(parent, path=file_path)


class CaseFile(pytest.File):
    """A file with a saved case. Other text plans in a folder have no test."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield the case. Raises CollectError for a file that was named and is no case."""
        from tmmu.testing.cases import NotACase, read_case

        try:
            yield CaseItem.from_parent(self, name=read_case(self.path).name)
        except NotACase as error:
            if self.session.isinitpath(self.path):
                raise self.CollectError(str(error)) from error


class CaseItem(pytest.Item):
    """A saved case, given to the planner under test again."""

    def runtest(self) -> None:
        """Examine the property that failed when the case was saved. Raises PlannerFailure if it fails again.

        A case of another planner is skipped, unless its file is named.
        """
        from tmmu.testing.cases import PlannerFailure, describe, read_case
        from tmmu.testing.properties import Planner

        planner, case = Planner(load_planner(self.config.getoption("tmmu_planner"))), read_case(self.path)
        if case.origin.planner != planner.name and not self.session.isinitpath(self.path):
            pytest.skip(f"it is a case of {case.origin.planner}; name the file to give it to {planner.name}")
        failure = case.examine(planner, (case.name, "answers"))
        if failure is not None:
            raise PlannerFailure(describe(planner.name, failure, self.path), failure, self.path)

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """Return the message of a failure without a traceback of ours."""
        from tmmu.testing.cases import PlannerFailure

        return str(excinfo.value) if isinstance(excinfo.value, PlannerFailure) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the place of the case in reports."""
        return self.path, None, f"case: {self.name}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how often each property held, if a planner was under test."""
    held, ratios = Counter[str](), list[str]()
    failed = set[str]()
    for outcome, reports in terminalreporter.stats.items():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == HELD and getattr(report, "when", "") == "call":
                    which, count = str(value).split()
                    held[which] += int(count)
                    failed |= {which} if outcome == "failed" else set()
                elif name == RATIO:
                    ratios.append(str(value))
    if not held and not failed:
        return
    terminalreporter.section("tmmu: properties of the planner")
    for which, examples in held.items():
        held_in = f"held in {examples} examples" if examples else "does not apply"
        terminalreporter.line(f"{which:16} {'FAILED' if which in failed else held_in}")
    if ratios:
        terminalreporter.line(f"footprint ÷ peak {ratios[0]}")
