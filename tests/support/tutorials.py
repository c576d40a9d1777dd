"""The pages of `spec/tutorials/` as sessions: what a page has the reader type is run, and what it prints is compared.

A fence with a title is a file that the reader writes. A fence `sh` is commands, one a line; one that ends with another
exit code than 0 has it in a comment, `# exit code 1`. A fence `text` right after it is what they print, where a line
`…` stands for any lines, and `…` in a line for any text. Commands of the project and Python files run in this process,
any other in a shell.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.snapshots import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "spec/tutorials").glob("*.md"))
FENCE = re.compile(r"^(`{3,})(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
REDIRECTED = re.compile(r"(?P<command>[^|<>;&$]+?)(?: > (?P<file>[\w./-]+))?")
"""A command that needs no shell."""
CHECKOUT = ("pyproject.toml", "tests/__init__.py", "tests/conftest.py", "tests/unit/__init__.py",
            "tests/unit/test_operator_tables.py", "tests/support/__init__.py",
            "tests/support/operator_rows.py", "tests/support/tools.py", "tests/support/durations.py",
            "tests/support/durations.json")  # fmt: skip
"""What the page on operators needs of a checkout, beside the packages."""
KERNEL = re.compile(
    r"; again: by the Coq kernel(?: at every shape)?(?=[;\n])|, by the Coq kernel(?: at every shape)?"
    r"|, kernel \([^)]*\)|  not checked: kernel \([^)]*\)\n"
)


class Fence(NamedTuple):
    """A fenced block of a page: its language, the file that it is, if any, its text, and what stands before it."""

    language: str
    title: str
    text: str
    before: str


class Command(NamedTuple):
    """One line of a fence `sh`, without its comment, and the exit code that the page states."""

    text: str
    code: int


def fences(page: str) -> list[Fence]:
    """The fenced blocks in order, each with the text between it and the one before."""
    found, end = [], 0
    for fence in FENCE.finditer(page):
        found.append(Fence(fence[2], fence[3] or "", fence[4], page[end : fence.start()].strip()))
        end = fence.end()
    return found


def commands(text: str) -> Iterator[Command]:
    """The commands of a fence; a backslash at the end of a line joins the next."""
    for line in text.replace("\\\n", " ").splitlines():
        command, _, comment = line.partition(" # ")
        if command.strip():
            code = re.search(r"exit code (\d+)", comment)
            yield Command(" ".join(command.split()), int(code[1]) if code else 0)


def python(arguments: list[str]) -> int:
    """`python FILE ARGUMENT...` in this process."""
    before = sys.argv
    sys.argv = arguments
    try:
        runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.argv = before
    return 0


HERE: dict[str, Callable[[list[str]], int]] = {**COMMANDS, "python": python}


def ran(command: str) -> tuple[int, str]:
    """The exit code and the output of a command in the working directory, errors among it."""
    simple = REDIRECTED.fullmatch(command)
    words = shlex.split(simple["command"]) if simple else []
    if words and words[0] in HERE and (words[0] != "python" or words[1].endswith(".py")):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err if simple["file"] else out):
            code = HERE[words[0]](words[1:])
        if simple["file"]:
            Path(simple["file"]).write_text(out.getvalue())
        return code, (err if simple["file"] else out).getvalue()
    return typed(command)


def copy_checkout(folder: Path, packages: Path) -> None:
    """Copy to `folder` what the page on operators changes and tests, with the packages of `packages`."""
    for package in ("tmmu", "proofs"):
        shutil.copytree(packages / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    for file in CHECKOUT:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, folder / file)


def typed(command: str) -> tuple[int, str]:
    """The exit code and the output of a command that a shell runs with the programs beside this Python."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, shell=True, text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "PATH": path},
    )  # fmt: skip
    return done.returncode, done.stdout


def without_kernel(text: str) -> str:
    """The text without what a verdict says of the Coq kernel: the pages are written where it is not installed.

    >>> without_kernel("  proved: peak; again: from the definition, by the Coq kernel; compared: hashes\\n")
    '  proved: peak; again: from the definition; compared: hashes\\n'
    >>> without_kernel("  not checked: arena configuration (--arenas), kernel (not installed)\\n")
    '  not checked: arena configuration (--arenas)\\n'
    """
    return KERNEL.sub("", text)


def matches(stated: str, printed: str) -> bool:
    """Whether `printed` is what a page states.

    >>> matches("a\\n…\\nz … of 3\\n", "a\\nb\\nc\\nz 1 of 3\\n"), matches("a\\n", "a\\nb\\n")
    (True, False)
    """
    lines = [r"(?:.*\n)*?" if line.strip() == "…" else re.escape(line).replace("…", ".*") + r" *\n"
             for line in stated.splitlines()]  # fmt: skip
    return re.fullmatch("".join(lines), printed) is not None


def objections(page: str, run: Callable[[str], tuple[int, str]] = ran) -> Iterator[str]:
    """Run a page in the working directory: each command that ends otherwise, each output that is another.

    With `typed`, the kernel may be installed or not.
    """
    found = fences(page)
    for fence, after in zip(found, [*found[1:], None], strict=True):
        if fence.title:
            Path(fence.title).parent.mkdir(parents=True, exist_ok=True)
            Path(fence.title).write_text(fence.text)
        elif fence.language == "sh":
            printed = ""
            for command in commands(fence.text):
                code, output = run(command.text)
                printed += output
                if code != command.code:
                    yield f"{command.text}: exit code {code}, not {command.code}\n{output}"
            if after is None or (after.language, after.title, after.before) != ("text", "", ""):
                continue
            stated = after.text
            if run is typed:
                stated, printed = without_kernel(stated), without_kernel(printed)
            if not matches(stated, printed):
                lines = difflib.unified_diff(stated.splitlines(), printed.splitlines(), "page", "printed", n=9)
                yield f"after {fence.text}" + "\n".join(lines)


def main() -> None:
    """Print what each fence of the page that is named prints, run in the working directory."""
    for fence in fences(Path(sys.argv[1]).read_text()):
        if fence.title:
            Path(fence.title).parent.mkdir(parents=True, exist_ok=True)
            Path(fence.title).write_text(fence.text)
        elif fence.language == "sh":
            for command in commands(fence.text):
                code, output = ran(command.text)
                print(f"$ {command.text}\n{output}[{code}]")


if __name__ == "__main__":
    main()
