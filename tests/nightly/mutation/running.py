"""One mutant in a process of its own: the module is replaced as it is imported, and the tests of its file are run.

Processes are forked from one that has imported what other people wrote and nothing of this project, which saves most
of the start. Nothing is written to the tree: the changed source exists in that process alone. Child processes that a
test starts run the tree as it is, so that a change which only those would run is not noticed by them.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[3]

FLAGS = (
    "-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist",
    "-W", "ignore::pytest.PytestAssertRewriteWarning",  # Hypothesis is there before pytest could rewrite it
)  # fmt: skip
UNPREPARED = 99
"""The exit code of a process that could not do what comes before its tests."""
KILLED, SURVIVED, TIMED_OUT = "killed", "survived", "timed out"


def preload() -> None:
    """Import what the tests need of other people's, so that every child has it already."""
    for name in ("numpy", "cbor2", "click", "click.testing", "z3", "onnx", "networkx", "hypothesis", "pytest"):
        importlib.import_module(name)
    if any(name.split(".")[0] in ("proofs", "tmmu") for name in sys.modules):
        raise AssertionError("a module of this project is imported already: a change of it would not be seen")


def module_of(path: str) -> str:
    """The name of the module that a file of the repository holds.

    >>> module_of("proofs/definition/checker/memory.py"), module_of("proofs/proving/solvers/__init__.py")
    ('proofs.definition.checker.memory', 'proofs.proving.solvers')
    """
    return ".".join(Path(path).with_suffix("").parts).removesuffix(".__init__")


class _Changed(importlib.abc.MetaPathFinder):
    """Finds one module, with another source."""

    def __init__(self, path: str, source: str) -> None:
        self.path, self.source = ROOT / path, source
        self.name = module_of(path)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """The spec of the changed module, None for every other."""
        if name != self.name:
            return None
        source = self.source

        class Loader(importlib.machinery.SourceFileLoader):
            def get_code(self, fullname: str) -> CodeType:
                return compile(source, self.path, "exec")

        loader = Loader(name, str(self.path))
        inside = [str(self.path.parent)] if self.path.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(name, self.path, loader=loader, submodule_search_locations=inside)


class Child(NamedTuple):
    """A process that runs the tests of one mutant, and when it is late."""

    pid: int
    began: float
    deadline: float

    def finished(self) -> str | None:
        """What came of it; None while it runs. A child that is late is ended with everything that it started."""
        code = self.exit_code()
        if code == UNPREPARED:
            raise RuntimeError("a mutant could not be put into place, or a test is gone: nothing was tested")
        if code is not None:
            return SURVIVED if code == 0 else KILLED
        if time.monotonic() < self.deadline:
            return None
        self.kill()
        return TIMED_OUT

    def kill(self) -> None:
        """End it with everything that it started."""
        _end(self.pid)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def exit_code(self) -> int | None:
        """The code with which it ended, None while it runs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if not pid:
            return None
        _end(self.pid)  # solvers that it left
        return os.waitstatus_to_exitcode(status)


def _end(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def separate(run: Callable[[], int], seconds: float, quiet: bool = True, log: Path | None = None) -> Child:
    """Run a function in a process of its own, whose exit code is what it returns; what it prints goes to `log`."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        with contextlib.suppress(PermissionError, ProcessLookupError):  # the child does the same; either may be first
            os.setpgid(pid, pid)
        return Child(pid, time.monotonic(), time.monotonic() + seconds)
    code = 1
    try:
        os.setpgid(0, 0)
        _compile_apart()
        if quiet:
            sink = os.open(log or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(sink, 1)
            os.dup2(sink, 2)
        code = run()
    except BaseException:
        traceback.print_exc()
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _compile_apart() -> None:
    """What numba compiles of a changed function is read by no other process; its own name for it has no constants."""
    folder = f"{os.environ.get('XDG_CACHE_HOME', tempfile.gettempdir())}/numba-{os.getpid()}"
    os.environ["NUMBA_CACHE_DIR"] = folder
    if "numba" in sys.modules:  # it has read the environment
        sys.modules["numba"].config.CACHE_DIR = folder


def start(path: str, source: str, tests: Sequence[str], seconds: float, log: Path | None = None) -> Child:
    """Run tests with one module's source replaced; its output goes to `log`, or nowhere."""

    def run() -> int:
        os.chdir(ROOT)
        sys.path.insert(0, str(ROOT))
        sys.meta_path.insert(0, _Changed(path, source))
        import pytest

        code = int(pytest.main([*FLAGS, *tests]))
        return UNPREPARED if code == pytest.ExitCode.USAGE_ERROR and _gone(tests) else code

    return separate(run, seconds, log=log)


def _gone(tests: Sequence[str]) -> bool:
    """Whether one of the tests is not there for the source as it is either, so that no change did away with it."""
    command = [sys.executable, "-m", "pytest", "--collect-only", *FLAGS, *tests]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode != 0
