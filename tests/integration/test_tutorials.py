"""Each tutorial is run as a reader would: its commands end, and print, as the page states."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.tutorials import HERE, PAGES, ROOT, commands, copy_checkout, fences, objections
from tmmu.core import progress


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in; the kernel counts as not installed."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # which a tutorial's own pytest does not need
    monkeypatch.setattr(progress, "INTERVAL_S", 3600.0)  # no line of progress on a slow machine
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
@pytest.mark.checkout
def test_a_tutorial_does_what_it_states(page: Path, folder: Path) -> None:
    if page.stem == "operator":
        copy_checkout(folder, ROOT)
    assert list(objections(page.read_text())) == []


def test_every_tutorial_runs_commands_and_states_what_they_print() -> None:
    assert len(PAGES) >= 7
    for page in PAGES:
        found = fences(page.read_text())
        assert any(fence.language == "sh" for fence in found), page
        assert any(fence.language == "text" and not fence.title for fence in found), page


def test_every_command_of_a_recipe_is_one_that_the_page_runs() -> None:
    found = fences((ROOT / "spec/tutorials/ci.md").read_text())
    run = {command.text for fence in found if fence.language == "sh" for command in commands(fence.text)}
    recipes = [fence.text for fence in found if fence.language == "yaml"]
    listed = re.findall(rf"^ *- (?:run: )?((?:{'|'.join(HERE)}) .+)$", "\n".join(recipes), re.MULTILINE)
    assert len(recipes) >= 3
    assert len(listed) >= 6
    assert set(listed) <= run


def test_a_wrong_command_and_a_wrong_output_are_noticed(folder: Path) -> None:
    right = '```text title="p.plan.txt"\ntmmu-plan-text 1\narena a 8\nbuffer b 8 a 0 live 0 1\n```\n'
    right += "```sh\nverify-plan p.plan.txt\nls > files  # all\n```\n```text\nPROVED p.plan.txt …\n…\n```\n"
    assert list(objections(right)) == []
    assert (folder / "files").read_text() == "files\np.plan.txt\n"
    for old, new in (("arena a 8", "arena a 7"), ("# all", "# exit code 1"), ("PROVED", "UNKNOWN"), ("ls", "false")):
        assert list(objections(right.replace(old, new))) != [], new
    assert len(list(objections(right.replace("verify-plan p", "verify-plan q")))) == 2
