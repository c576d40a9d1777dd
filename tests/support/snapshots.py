"""Sessions of the commands, a file each in `tests/corpus/snapshots/`: what is typed, what is printed, the exit code.

A line `$ command` is run in a folder that the session starts empty, `> text` continues the command; what follows is
what it printed on stdout (indented), on stderr (`! text`), and its exit code where that is not 0 (`[2]`). The commands
of the project run in this process, any other in a shell, where it makes files. Lines `# text` are comments.

`python -m tests.support.snapshots --write` runs every command again and writes what is printed now; `git diff` then
shows what changed. A new case is a new line `$ command`. The kernel and Java tools count as not installed.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from proofs.proving.kernel import installed
from tmmu.cli.entry import run as tmmu
from tmmu.core.process import run_command

SESSIONS = sorted((Path(__file__).parents[1] / "corpus" / "snapshots").glob("*.txt"))
COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "tmmu": tmmu,
    "verify-plan": partial(run_command, "proofs.verify.command"),
    "prove-lemmas": partial(run_command, "proofs.proving.lemmas.command"),
    "check-models": partial(run_command, "proofs.model_check.command"),
}
VARYING = tuple(
    (re.compile(pattern), stand_in)
    for pattern, stand_in in (
        (r'"sources": "[0-9a-f]{64}"', '"sources": "DIGEST"'),
        (r"z3 \d[\d.]*\d", "z3 VERSION"),
        (r"\b\d+\.\d+ s\b", "TIME s"),
        (r"mean \d+\.\d+, worst \d+\.\d+", "mean RATIO, worst RATIO"),
        (r'(allocation_time_ns"?[=:] ?)\d+', r"\1TIME"),
        (r"not TOML: .*; ", "not TOML: REASON; "),
        (r"canonical CBOR (\w+) \(.*\);", r"canonical CBOR \1 (REASON);"),
        (r"(?m)(^ *holds|is false) for .*", r"\1 for CASE"),
        (r'"(twin|case)": ".+"', r'"\1": "CASE"'),
        (r"No such option.*--([\w-]+)\S*", r"No such option --\1"),
    )
)
"""What differs between runs, machines and versions of Python and its packages, and what stands for it."""


class Ran(NamedTuple):
    """One command of a session: its text, its exit code, what it printed, and whether it changed a file."""

    command: str
    code: int
    out: str
    err: str
    changed: bool

    @property
    def ours(self) -> bool:
        """Whether it is a command of the project, and not one of the shell that prepares files."""
        return self.command.split()[0] in COMMANDS

    @property
    def text(self) -> str:
        """The command and what it printed as the session's file has it."""
        first, *rest = self.command.splitlines()
        lines = [f"$ {first}", *(f"> {line}" for line in rest), *(f"  {line}" for line in self.out.splitlines())]
        lines += [f"! {line}" for line in self.err.splitlines()] + [f"[{self.code}]"] * (self.code != 0)
        return "\n".join(line.rstrip() for line in lines)


def commands(text: str) -> Iterator[str]:
    """The commands and the comments of a session, in order; those of several lines as one text."""
    held = ""
    for line in text.splitlines():
        if held and not line.startswith("> "):
            yield held
            held = ""
        if line.startswith("$ "):
            held = line[2:]
        elif line.startswith("> "):
            held += "\n" + line[2:]
        elif line.startswith("#") or not line:
            yield line
    if held:
        yield held


def ran(command: str, folder: Path) -> Ran:
    """What `command` does in `folder`, which is the working directory."""
    before = _content(folder)
    name, *arguments = shlex.split(command) if command.split()[0] in COMMANDS else [""]
    if name:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = COMMANDS[name](arguments)
        printed = [out.getvalue(), err.getvalue()]
    else:
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        code, printed = done.returncode, [done.stdout, done.stderr]
    for pattern, stand_in in ((re.compile(re.escape(str(folder))), "FOLDER"), *VARYING):
        printed = [pattern.sub(stand_in, text) for text in printed]
    return Ran(command, code, printed[0], printed[1], _content(folder) != before)


def replayed(session: Path) -> Iterator[Ran | str]:
    """Each command of a session after it ran; comments and empty lines as they are."""
    with (
        tempfile.TemporaryDirectory() as name,
        contextlib.chdir(name),
        _environment(XDG_DATA_HOME=f"{name}/.data"),
        patch.object(installed, "PACKAGED", Path(name, ".data")),
    ):
        for part in commands(session.read_text()):
            yield part if part.startswith("#") or not part else ran(part, Path(name))


def text_of(parts: list[Ran | str]) -> str:
    """The file of a session."""
    return "".join(f"{part if isinstance(part, str) else part.text}\n" for part in parts)


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m tests.support.snapshots --write")
    for session in SESSIONS:
        session.write_text(text_of(list(replayed(session))))
