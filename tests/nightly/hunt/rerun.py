"""`make reports`: the programs of `reports/` again, each in its project's environment, and whether the error is there.

python -m tests.nightly.hunt.rerun tinygrad litert    # the reports of these projects; without a name, all

A program needs no other file. It prints three lines: the expected values, those of a counter-test (the same without the
planner, or with another level or device), and the actual ones. The actual ones are last, since the process may crash.
Each program runs with the pinned packages of its project first, and then with the newest ones. It has one of these
states:

- *still wrong*: the actual values differ from the expected ones, or the process was ended by a signal, and the
  counter-test gives the expected values.
- *mended*: the actual values are the expected ones, and so are those of the counter-test.
- *cannot install*: a package or a tool is missing.
- *cannot tell*: the program did not get as far as its last line, or its counter-test gives other values, so that it
  says nothing about the error. Or the environment was there before, with other versions than the pinned ones.

What a program printed, crashed or not, is kept in `.hunt/reports`. Only the standard library is needed.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.nightly.hunt.planners import ENVIRONMENTS, ROOT, make_environment, name_missing, python_of

PROGRAMS = Path(__file__).parent / "reports"
RECORDS = ROOT / ".hunt" / "reports"
SECONDS = 900.0
"""The longest that a program may take."""

PROJECTS = {
    "executorch": "executorch", "iree": "iree", "litert": "tflite", "mnn": "mnn", "openvino": "openvino",
    "tflm": "tflite", "tinygrad": "tinygrad", "tract": "tract", "tvm": "tvm", "vela": "tflite", "xla": "jax",
}  # fmt: skip
"""The environment of each project. The name of a program begins with its project."""

NEEDS = {"tinygrad-unaligned-window": ("clang",)}
"""The tools that a program needs besides packages."""

LINE = re.compile(r"^(expected|actual|counter-test \(.*?\)): *(.*)$", re.MULTILINE)


class Run(NamedTuple):
    """One run of a program: its exit code (None: it did not end in time), and what it printed."""

    code: int | None
    output: str
    errors: str


class State(NamedTuple):
    """What a run says about the error: one of the four words above, and the reason."""

    word: str
    reason: str

    def __str__(self) -> str:
        return f"{self.word}: {self.reason}" if self.reason else self.word


def judge(run: Run) -> State:
    """Return the state that a run shows."""
    said = {word.partition(" ")[0]: value.strip() for word, value in LINE.findall(run.output)}
    expected, counter, actual = (said.get(word) for word in ("expected", "counter-test", "actual"))
    if run.code is None:
        return State("cannot tell", f"the program did not end in {SECONDS:.0f} s")
    killed = run.code < 0
    if expected is None or counter is None or (actual is None and not killed):
        last = (run.errors.strip().splitlines() or ["nothing was printed"])[-1]
        return State("cannot tell", f"the program ended with exit code {run.code}: {last}")
    if counter != expected:
        return State("cannot tell", f"the counter-test gives {counter} in place of {expected}")
    if killed:
        return State("still wrong", f"the process ended with {signal.Signals(-run.code).name}")
    if actual != expected:
        return State("still wrong", f"{actual} in place of {expected}")
    return State("mended", "")


def run_program(python: Path, program: Path, seconds: float = SECONDS) -> Run:
    """Run a program in a folder of its own. The file that it is in is the only one of this project that it sees."""
    with tempfile.TemporaryDirectory(prefix="report-") as folder:
        command = [str(python), "-I", "-W", "ignore", str(program)]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return Run(None, "", "")
    return Run(done.returncode, done.stdout, done.stderr)


VERSIONS = """
import sys
from importlib.metadata import PackageNotFoundError, version

for package in sys.argv[1:]:
    try:
        print(f"{package}=={version(package)}")
    except PackageNotFoundError:
        pass
"""
"""A program that prints which versions of packages its interpreter has."""


@cache
def find_others(python: Path, packages: Sequence[str]) -> str:
    """Return what an environment has in place of some of its packages; empty if it has none of them in another version.

    A package that it lacks is not one of them: a program that needs it says so.
    """
    names = [package.partition("==")[0] for package in packages]
    command = [str(python), "-I", "-c", VERSIONS, *names]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    pinned = dict(zip(names, packages, strict=True))
    others = [f"{each} in place of {pinned[each.partition('==')[0]]}" for each in found if each not in packages]
    return ", ".join(others)


def normalize_name(name: str) -> str:
    """Return a package's name as the index compares it: case, hyphens and underscores do not count."""
    return name.lower().replace("_", "-")


@cache
def find_newest(python: Path, packages: Sequence[str]) -> list[str]:
    """Return the newer versions of named packages that pip would install. Raises ChildProcessError if pip fails."""
    names = [package.partition("==")[0] for package in packages]
    command = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--dry-run", "--upgrade"]
    done = subprocess.run([*command, "--report", "-", *names], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ChildProcessError((done.stderr.strip().splitlines() or ["pip failed"])[-1])
    found = [(each["metadata"]["name"], each["metadata"]["version"]) for each in json.loads(done.stdout)["install"]]
    wanted = {normalize_name(name) for name in names}
    return [f"{name}=={version}" for name, version in found if normalize_name(name) in wanted]


def keep_record(name: str, version: str, run: Run, state: State) -> None:
    """Write what a run printed to a file that no commit holds."""
    RECORDS.mkdir(parents=True, exist_ok=True)
    text = f"{state}\nexit code {run.code}\n\n{run.output}\n{run.errors}"
    (RECORDS / f"{name}-{version}.txt").write_text(text)


def run_pinned(name: str, environment: str) -> State:
    """Run a program with the pinned packages."""
    try:
        make_environment(python_of(environment), ENVIRONMENTS[environment])
    except ChildProcessError as error:
        return State("cannot install", str(error))
    if others := find_others(python_of(environment), ENVIRONMENTS[environment]):
        return State("cannot tell", f"{python_of(environment).parents[1]} has {others}")
    return run_in(name, environment, "pinned")


def run_newest(name: str, environment: str) -> tuple[str, State] | None:
    """Run a program with the newest packages. Returns those that are newer, or None if the pinned ones are the newest.

    The environment of an earlier run is made again if other versions are the newest by now.
    """
    pinned, newest = python_of(environment), python_of(f"{environment}-newest")
    found: list[str] = []
    try:
        found = find_newest(pinned, ENVIRONMENTS[environment])
        if not found:
            return None
        packages = {normalize_name(each.partition("==")[0]): each for each in (*ENVIRONMENTS[environment], *found)}
        if newest.exists() and find_others(newest, tuple(packages.values())):
            newest.unlink()
        make_environment(newest, tuple(packages.values()))
    except ChildProcessError as error:
        return " ".join(found), State("cannot install", str(error))
    return " ".join(found), run_in(name, f"{environment}-newest", "newest")


def run_in(name: str, environment: str, version: str) -> State:
    """Run a program in an environment that is there, and keep what it printed."""
    run = run_program(python_of(environment), PROGRAMS / f"{name}.py")
    state = judge(run)
    keep_record(name, version, run, state)
    return state


def rerun(names: Sequence[str]) -> Iterator[str]:
    """Yield a line for each report and version."""
    for name in names:
        environment = PROJECTS[name.partition("-")[0]]
        packages = " ".join(each for each in ENVIRONMENTS[environment] if not each.startswith("numpy"))
        if missing := name_missing(NEEDS.get(name, ())):
            yield f"{name} ({packages}): cannot install: {missing}"
            continue
        pinned = run_pinned(name, environment)
        yield f"{name} ({packages}): {pinned}"
        if pinned.word == "cannot install":
            continue
        newest = run_newest(name, environment)
        if newest is None:
            yield f"{name} (newest): the pinned versions are the newest; {pinned.word}"
        else:
            yield f"{name} (newest, {newest[0]}): {newest[1]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("projects", nargs="*", help=f"of {', '.join(PROJECTS)}; without a name, all of them")
    projects = parser.parse_args().projects or list(PROJECTS)
    if unknown := [project for project in projects if project not in PROJECTS]:
        parser.error(f"unknown project {', '.join(unknown)}; known are {', '.join(PROJECTS)}")
    names = sorted(path.stem for path in PROGRAMS.glob("*.py") if path.stem.partition("-")[0] in projects)
    for line in rerun(names):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
