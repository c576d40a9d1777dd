"""Mutants in processes that have everything already: all tests collected, all modules imported, functions swapped.

One process collects the tests once. It looks, in children, which lines each test runs; then each mutant is a child that
swaps the code of the changed function and runs the tests that reach it, until one fails. A change that is noticed here
is noticed. One that is not is run anew in a process of its own where the changed lines also run during imports.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import inspect
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.nightly.mutation.reached import Reached, Test
from tests.nightly.mutation.running import FLAGS, ROOT, UNPREPARED, Child, module_of, separate
from tests.nightly.mutation.swapping import functions

SOURCES = ("proofs", "tmmu")
AT_ONCE = 100
"""Tests after which what was seen is kept."""


Say = Callable[[str], None]


class Collected:
    """All tests of this process, which is about to fork."""

    def __init__(self, items: list[pytest.Item]) -> None:
        self.items = {item.nodeid: item for item in items}
        self.versions = {item.nodeid: _version(item) for item in items}
        self.functions = functions(ROOT)
        self.failures: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note who failed."""
        if report.failed:
            self.failures.append(report.nodeid)

    def run(
        self, names: list[str], before: Callable[[str], None] = lambda name: None, to_the_end: bool = False
    ) -> None:
        """Run tests in this order, up to the first that fails."""
        chosen = [self.items[name] for name in names]
        for item, following in zip(chosen, [*chosen[1:], None], strict=True):
            before(item.nodeid)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failures and not to_the_end:
                return

    def child(self, names: list[str], seconds: float, prepare: Callable[[], object], note: Path) -> Child:
        """A process that prepares itself and runs tests; its exit code is 0 where none fails, and a note says which."""

        def run() -> int:
            try:
                prepare()
            except BaseException:
                return UNPREPARED
            self.run(names)
            if self.failures:
                note.write_text(self.failures[0])
            return 1 if self.failures else 0

        return separate(run, seconds)


def _version(item: pytest.Item) -> str:
    """The digest of a test's text."""
    function = getattr(item, "function", None)
    try:
        text = inspect.getsource(inspect.unwrap(function)) if function is not None else ""
    except (OSError, TypeError):
        text = ""
    inner = getattr(getattr(function, "hypothesis", None), "inner_test", None)
    text += inspect.getsource(inner) if inner is not None else ""
    return hashlib.sha256(f"{item.nodeid}\n{text}".encode()).hexdigest()[:10]


Then = Callable[[Collected, "Watch", Say], None]


class _Plugin:
    """Takes the place of the loop that runs the tests."""

    def __init__(self, watch: Watch, then: Callable[[Collected], None]) -> None:
        self.watch, self.then = watch, then

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Everything is collected and imported: go on from here."""
        self.watch.imports_are_done()
        collected = Collected(session.items)
        session.config.pluginmanager.register(collected)
        gc.collect()
        gc.freeze()  # so that children share these pages
        self.then(collected)
        return True


class Watch:
    """Which lines run: of imports, then of each test."""

    def __init__(self, reached: Reached) -> None:
        self.reached = reached
        self.coverage = _coverage()
        self.coverage.start()

    def imports_are_done(self) -> None:
        """Note the lines that ran so far, and watch no more in this process."""
        self.coverage.stop()
        data = self.coverage.get_data()
        for file in data.measured_files():
            self.reached.imported[_relative(file)] = _bits(data.lines(file) or [])
        self.reached.save_imported()

    def tests(self, collected: Collected, files: Iterable[str], workers: int, say: Say) -> list[str]:
        """Look at tests that are new or have changed; returns those that fail as everything is."""
        missing = [name for name in collected.items if not self._known(collected, name)]
        say(f"looking at what {len(missing)} of {len(collected.items)} tests run")
        log = self.reached.path.with_suffix(".log")
        children = [
            separate(partial(_look, collected, missing[k::workers], self.reached), 7200, log=log)
            for k in range(workers)
        ]
        try:
            for child in children:
                while child.finished() is None:
                    time.sleep(0.05)
        finally:
            for child in children:
                child.kill()
        self.reached.load(files)
        failed = [name for name in missing if not self._known(collected, name)]
        self.reached.keep(collected.items)
        return failed

    def _known(self, collected: Collected, name: str) -> bool:
        test = self.reached.tests.get(name)
        return test is not None and not test.failed and test.version == collected.versions[name]


def _coverage() -> Any:
    import coverage

    found = coverage.Coverage(
        data_file=None, include=[f"{ROOT}/{name}/*" for name in SOURCES], config_file=False, messages=False
    )
    found.set_option("run:disable_warnings", ["no-data-collected"])  # of tests that run no line of ours
    return found


def _look(collected: Collected, names: list[str], reached: Reached) -> int:
    """Run tests, some at a time, and keep what they ran and how long they took."""
    for k in range(0, len(names), AT_ONCE):
        some = names[k : k + AT_ONCE]
        began: list[float] = []
        coverage = _coverage()

        def before(name: str, coverage: Any = coverage, began: list[float] = began) -> None:
            coverage.switch_context(name)
            began.append(time.monotonic())

        coverage.start()
        collected.run(some, before, to_the_end=True)
        coverage.stop()
        began.append(time.monotonic())
        lines: dict[str, dict[str, int]] = {name: {} for name in some}
        data = coverage.get_data()
        for file in data.measured_files():
            path = _relative(file)
            for line, contexts in data.contexts_by_lineno(file).items():
                for name in filter(None, contexts):
                    lines[name][path] = lines[name].get(path, 0) | 1 << line
        reached.save({
            name: Test(collected.versions[name], round(end - start, 3), name in collected.failures, lines[name])
            for name, start, end in zip(some, began, began[1:], strict=False)
        })  # fmt: skip
    return 0


def _relative(file: str) -> str:
    return str(Path(file).relative_to(ROOT))


def _bits(lines: list[int]) -> int:
    return sum(1 << line for line in lines)


def collect(files: Iterable[str], tests: Sequence[str], reached: Reached, then: Then) -> int:
    """Collect the tests of files in a process of its own and go on there; returns its exit code.

    The files are imported first: what a test loads only as it runs would not be there to be changed.
    This process stays without a module of the project, for the mutants that have to be imported.
    """

    def run() -> int:
        said = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        watch = Watch(reached)
        for path in files:
            importlib.import_module(module_of(path))
        code = 0

        def go_on(collected: Collected) -> None:
            nonlocal code
            try:
                then(collected, watch, lambda line: print(line, file=said))
            except SystemExit as end:
                code = int(end.code or 0)
            except BaseException:
                traceback.print_exc()
                code = 70

        ended = int(pytest.main([*FLAGS, "-s", *tests], plugins=[_Plugin(watch, go_on)]))
        return code or (0 if ended in (0, 5) else ended)

    child = separate(run, float("inf"), quiet=False)
    try:
        while (code := child.exit_code()) is None:
            time.sleep(0.05)
    except KeyboardInterrupt:
        os.kill(child.pid, signal.SIGINT)
        raise
    return code
