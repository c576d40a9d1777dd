"""The tests where a tool is missing, or cannot do what it usually can: they pass, or name what to install."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import program

ROOT = Path(__file__).resolve().parents[2]
OF_TOOLS = ("test_codegen.py", "test_c_kernels.py", "test_printing_a_plan.py", "test_report.py", "test_report_page.py")
"""The tests that use compilers, build tools and browsers."""
COMPILERS = ("gcc", "cc", "clang", "g++", "c++")
WITHOUT_RUNTIME = 'PATH=/usr/bin:/bin\nfor word; do case $word in -fsanitize*) exit 1;; esac; done\nexec gcc "$@"'
"""A clang as Debian's package installs it alone: the library of its sanitizers is missing."""
BROKEN = "exit 1"


def path_without(folder: Path, masked: tuple[str, ...]) -> Path:
    """A folder with links to all programs of the path, without some."""
    folder.mkdir()
    for where in os.environ["PATH"].split(os.pathsep):
        for each in sorted(Path(where).glob("*")):
            if each.name not in masked and not (folder / each.name).exists():
                (folder / each.name).symlink_to(each)
    return folder


def run_tests(folder: Path) -> str:
    """What pytest prints of the tests, which must pass."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(f"tests/integration/{n}" for n in OF_TOOLS)],
        cwd=ROOT, env={**os.environ, "PATH": str(folder)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def test_without_a_compiler_and_without_a_browser_the_tests_name_both(tmp_path: Path) -> None:
    out = run_tests(path_without(tmp_path / "bin", (*COMPILERS, "chromium", "chromium-browser", "cmake")))
    assert "apt-get install gcc" in out
    assert "apt-get install chromium" in out
    assert "apt-get install cmake" in out


def test_a_clang_that_cannot_link_a_sanitizer_and_a_browser_that_does_not_start_are_left_out(tmp_path: Path) -> None:
    folder = path_without(tmp_path / "bin", ("clang", "chromium", "chromium-browser"))
    program(folder / "clang", WITHOUT_RUNTIME)
    program(folder / "chromium", BROKEN)
    assert "apt-get install chromium" in run_tests(folder)


def test_an_older_gcc_alone_is_enough(tmp_path: Path) -> None:
    older = next(filter(None, (shutil.which(f"gcc-{k}") for k in (9, 10, 11))), None)
    if older is None:
        pytest.skip("apt-get install gcc-11")  # a gcc before that of the system
    folder = path_without(tmp_path / "bin", COMPILERS)
    for name in ("gcc", "cc"):
        (folder / name).symlink_to(older)
    assert "no C compiler" not in run_tests(folder)
