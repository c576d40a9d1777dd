"""Run the README as a reader would: from a checkout, its commands end and print as it states.

A fence `sh` is run, and the fence `text` behind it compared, as in the tutorials. A fence without a language is for
commands that install or build; the Makefile and CI run those.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.support.tutorials import ROOT, commands, fences, objections
from tmmu.cli.commands import COMMANDS

README = (ROOT / "README.md").read_text("utf-8")


@pytest.mark.checkout
def test_the_commands_of_the_readme_end_and_print_as_it_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))  # the kernel counts as not installed
    work = tmp_path / "work"
    work.mkdir()
    (work / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(work)
    run = [command for fence in fences(README) if fence.language == "sh" for command in commands(fence.text)]
    assert len(run) >= 7
    assert list(objections(README)) == []


def test_the_first_screen_has_the_two_commands_and_the_verifier() -> None:
    screen = "\n".join(README.splitlines()[:40])
    assert re.search(r"^make demo +# .+\nmake test +# .+$", screen, re.MULTILINE)
    assert re.search(r"^verify-plan tests/corpus/foreign/\S+", screen, re.MULTILINE)


def test_the_readme_is_short() -> None:
    assert len(README.encode()) <= 14_000


def test_every_extra_has_a_row_and_every_command_exists() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    table = README.partition("| extra |")[2].partition("\n\n")[0]
    rows = {name for line in table.splitlines() for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert set(extras) <= rows
    prose = re.sub(r"^```.*?^```", "", README, flags=re.MULTILINE | re.DOTALL)
    named = set(re.findall(r"`tmmu ([a-z-]+)\b", prose)) | set(re.findall(r"^tmmu ([a-z-]+)\b", README, re.MULTILINE))
    assert {"plan", "export", "mnemosyne"} <= named
    assert named <= set(COMMANDS)
