"""Where the user's cache and data lie, as the XDG Base Directory Specification has it. spec: V4.3, V6.3"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from proofs.proving.kernel import installed
from proofs.proving.lemmas import at_use
from proofs.tools import users_folders
from tests.support.commands import TOOL

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("folder", "variable", "default"),
    [
        (users_folders.cache_folder, "XDG_CACHE_HOME", ".cache"),
        (users_folders.data_folder, "XDG_DATA_HOME", ".local/share"),
    ],
)
def test_a_variable_counts_where_its_path_is_absolute(
    folder: Callable[[], Path], variable: str, default: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv(variable, str(tmp_path / "base"))
    assert folder() == tmp_path / "base/tmmu"
    for ignored in ("", "base", "./base", "../base", "~/base"):
        monkeypatch.setenv(variable, ignored)
        assert folder() == tmp_path / "home" / default / "tmmu"
    monkeypatch.delenv(variable)
    assert folder() == tmp_path / "home" / default / "tmmu"


def test_nothing_that_is_kept_lies_below_the_folder_where_one_happens_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in ("XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(variable, "here")
    assert at_use.cache_folder() == tmp_path / ".cache/tmmu/lemmas"
    assert TOOL.cache_folder() == tmp_path / ".cache/tmmu/tool"
    assert installed.folder() == tmp_path / ".local/share/tmmu/kernel" / installed.digest()


def test_it_needs_no_package() -> None:
    """`make kernel` asks for it before anything is installed."""
    command = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import proofs.proving.kernel.install",
    ]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stderr == ""
