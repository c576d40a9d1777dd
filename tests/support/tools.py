"""What the tools of this machine can do. A test asks for what it needs of a tool, and not only whether there is one.

If something is missing, the test is left out with the command that installs it.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

C_COMPILERS = ("gcc", "clang")
"""The compilers that generated C is for."""
PROGRAM = '#include <stdio.h>\nint main(void) { return printf("built") != 5; }\n'


@functools.cache
def can_build(compiler: str, *flags: str) -> bool:
    """Return whether a compiler builds a program that runs with these flags: a sanitizer needs its library."""
    if shutil.which(compiler) is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "p.c", Path(folder) / "p"
        source.write_text(PROGRAM)
        built = subprocess.run([compiler, *flags, "-o", program, source], capture_output=True, check=False)
        if built.returncode:
            return False
        ran = subprocess.run([program], capture_output=True, check=False)
        return (ran.returncode, ran.stdout, ran.stderr) == (0, b"built", b"")


def require_compilers(*flags: str) -> list[str]:
    """Return the compilers that can build with these flags; skip the test if there is none."""
    found = [name for name in C_COMPILERS if can_build(name, *flags)]
    if not found:
        pytest.skip(f"no C compiler can build with {' '.join(flags)}: apt-get install gcc")  # the test is about C
    return found


def require_compiler(name: str, *flags: str) -> None:
    """Skip the test if this compiler cannot build with these flags."""
    if not can_build(name, *flags):
        install = "g++" if "c++" in flags else {"clang": "clang libclang-rt-dev"}.get(name, name)
        pytest.skip(f"{name} cannot build with {' '.join(flags)}: apt-get install {install}")  # the test is about it


def require_program(name: str, package: str = "") -> None:
    """Skip the test if there is no such program."""
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed: apt-get install {package or name}")  # the test runs it


@functools.cache
def find_browser() -> str | None:
    """Return the path of a Chromium that shows a page, None if there is none."""
    for name in ("chromium", "chromium-browser"):
        path = shutil.which(name)
        command = [path or name, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "data:text/html,<p>shown"]
        if path and "shown" in subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout:
            return path
    return None


def require_browser() -> str:
    """Return the path of a Chromium that shows a page; skip the module if there is none."""
    found = find_browser()
    if found is None:
        pytest.skip("no Chromium shows a page: apt-get install chromium", allow_module_level=True)  # it shows the page
    return found
