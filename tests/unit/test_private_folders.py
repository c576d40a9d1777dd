"""The folders of the user, programs, and files that an earlier run wrote: what counts, and what does not.

spec: RE1.1, RE1.2, RE1.3, RE1.4, RE1.5, V4.3, V6.3
"""

from __future__ import annotations

import ast
import os
import pwd
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from proofs.proving.kernel import installed
from proofs.proving.lemmas import at_use
from proofs.proving.lemmas.engine import record
from proofs.tools import maven
from proofs.verify import entry
from proofs.verify.fleet.results import Results
from tests.support.commands import TOOL, program
from tmmu import examples
from tmmu.core import folders

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [(folders.cache_folder, "XDG_CACHE_HOME", ".cache"), (folders.data_folder, "XDG_DATA_HOME", ".local/share")]


def no_user(number: int) -> pwd.struct_passwd:
    raise KeyError(number)


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in folders.VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(("folder", "variable", "default"), FOLDERS)
def test_a_variable_counts_if_its_path_is_absolute(
    folder: Callable[[], Path], variable: str, default: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(variable, str(tmp_path / "base"))
    assert folder() == tmp_path / "base/tmmu"
    for ignored in ("", "base", "./base", "../base", "~/base"):
        monkeypatch.setenv(variable, ignored)
        assert folder() == tmp_path / default / "tmmu"
    monkeypatch.delenv(variable)
    assert folder() == tmp_path / default / "tmmu"


def test_a_home_that_is_relative_or_missing_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is then looked for anywhere. Where no variable is set, the system's table of users counts."""
    (tmp_path / "~").mkdir()
    monkeypatch.chdir(tmp_path)
    for named in ("~", ".", "here", str(tmp_path / "missing")):
        monkeypatch.setenv("HOME", named)
        assert [folder() for folder, *_ in FOLDERS] == [None, None]
        assert (installed.folder(), installed.find_theory(), at_use.cache_folder()) == (None, None, None)
        assert folders.ELSEWHERE in (installed.refusal() or "")
        with pytest.raises(maven.Unfetchable, match="set HOME"):
            maven.fetch_archive(TOOL)
        assert not folders.has_caches()
    user = pwd.struct_passwd(("me", "x", 1, 1, "", str(tmp_path), "/bin/sh"))
    unset: tuple[str | None, ...] = ("", None)
    for value in unset:
        if value is None:
            monkeypatch.delenv("HOME")
        else:
            monkeypatch.setenv("HOME", value)
        monkeypatch.setattr(pwd, "getpwuid", lambda _: user)
        assert folders.home_folder() == tmp_path
        monkeypatch.setattr(pwd, "getpwuid", no_user)
        assert folders.home_folder() is None


def test_temporary_files_are_never_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    (tmp_path / "file").touch()
    monkeypatch.setattr(folders, "TEMPORARY", ())
    for name in ("own", ".", "", str(tmp_path / "file"), str(tmp_path / "missing")):
        monkeypatch.setenv("TMPDIR", name)
        with pytest.raises(OSError, match="set TMPDIR"):
            folders.temporary_folder()
    monkeypatch.setenv("TEMP", str(tmp_path / "own"))
    assert folders.temporary_folder() == str(tmp_path / "own")
    (tmp_path / "own").chmod(0o777)
    with pytest.raises(OSError, match="set TMPDIR"):
        folders.temporary_folder()
    (tmp_path / "own").chmod(0o1777)
    assert folders.temporary_folder() == str(tmp_path / "own")


def test_a_program_is_found_in_absolute_folders_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    here, there = program(tmp_path / "tool", "exit 0"), program(tmp_path / "bin" / "tool", "exit 0")
    for path in ("", ":", ".", "./bin", "bin", f"{tmp_path}/missing", f"{here}"):
        assert folders.find_program("tool", path) is None
    assert folders.find_program("tool", f":.:bin:{tmp_path / 'bin'}") == str(there)
    there.chmod(0o644)
    assert folders.find_program("tool", str(tmp_path / "bin")) is None
    assert folders.find_program("./tool") == str(here)
    assert folders.find_program("bin", str(tmp_path)) is None


def test_the_environment_of_a_command_names_no_relative_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    given = {"PATH": ":.:/usr/bin:bin:/bin", "HOME": "~", "TMPDIR": "tmp", "XDG_CACHE_HOME": "/cache", "OTHER": "."}
    monkeypatch.setattr(pwd, "getpwuid", no_user)
    folders.clean_environment(given)
    unnamed = {"HOME": ""}
    folders.clean_environment(unnamed)
    assert unnamed == {"HOME": folders.NO_HOME}
    expected = {"PATH": "/usr/bin:/bin", "HOME": folders.NO_HOME, "XDG_CACHE_HOME": "/cache", "OTHER": "."}
    assert given == expected
    assert os.path.isabs(tempfile.gettempdir())
    monkeypatch.setattr(folders, "TEMPORARY", ())
    folders.clean_environment(given)
    with pytest.raises(OSError, match="Not a directory"):
        tempfile.mkdtemp()


def open_to_others(part: str, mode: int) -> Callable[[Path], None]:
    return lambda file: {"file": file, "folder": file.parent, "above": file.parent.parent}[part].chmod(mode)


def be_a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


WRONG: dict[str, tuple[Callable[[Path], None], str]] = {
    "a file that all may write": (open_to_others("file", 0o666), "chmod go-w"),
    "a file of another group": (open_to_others("file", 0o660), "chmod go-w"),
    "a folder that all may write": (open_to_others("folder", 0o777), "chmod go-w"),
    "a sticky folder that all may write": (open_to_others("folder", 0o1777), "chmod go-w"),
    "a folder above": (open_to_others("above", 0o777), "who may exchange"),
    "a pipe": (be_a_pipe, "neither a file nor a folder"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_others_can_write_is_not_used_and_the_message_says_what_to_do(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "_is_own_group", lambda _: False)
    file = tmp_path / "above" / "folder" / "file"
    folders.make_private(file.parent)
    assert {path.stat().st_mode & 0o777 for path in (file.parent, file.parent.parent)} == {0o700}
    file.write_bytes(b"content")
    file.chmod(0o644)
    assert folders.read_private(file, 4) == b"cont"
    damage, said = WRONG[name]
    damage(file)
    with pytest.raises(folders.NotPrivate, match=said):
        folders.read_private(file, 4)
    link = tmp_path / "link"
    link.symlink_to(file)
    with pytest.raises(folders.NotPrivate, match=said):
        folders.read_private(link, 4)


def test_a_file_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 12345)
    with pytest.raises(folders.NotPrivate, match="and not to you: move it away"):
        folders.check_private(tmp_path / "file")


def test_a_group_of_this_user_alone_is_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    import grp

    user = pwd.struct_passwd(("me", "x", 7, 7, "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: user)
    for name, members, number, expected in (
        ("me", [], 7, True), ("me", ["me"], 7, True), ("me", ["me", "you"], 7, False), ("users", [], 7, False),
        ("me", [], 8, False),
    ):  # fmt: skip
        group = grp.struct_group((name, "x", number, members))
        monkeypatch.setattr(grp, "getgrgid", lambda _, group=group: group)
        folders._is_own_group.cache_clear()
        assert folders._is_own_group(number) is expected
    folders._is_own_group.cache_clear()


def test_a_record_of_lemmas_that_others_can_write_is_not_used_and_the_verdict_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    plan, *_ = examples.write("text-plan", tmp_path / "p.plan.txt")
    assert entry.run([str(plan)]) == 0
    assert "proved again" not in capsys.readouterr().out
    kept = at_use.cache_folder()
    assert kept is not None
    [file] = kept.iterdir()
    assert kept.stat().st_mode & 0o777 == 0o700
    asked: list[bool] = []

    def prove(*_: object) -> dict[str, str]:
        asked.append(True)
        return {}

    monkeypatch.setattr(record, "prove", prove)
    assert entry.run([str(plan)]) == 0
    assert not asked
    kept.chmod(0o777)
    capsys.readouterr()
    assert entry.run([str(plan)]) == 0
    assert f"the lemmas were proved again, as {kept} can be written by others: chmod go-w {kept}" in (
        capsys.readouterr().out
    )
    assert asked
    kept.chmod(0o700)
    file.chmod(0o666)
    assert entry.run([str(plan)]) == 0
    assert len(asked) == 2


def test_an_archive_in_a_folder_that_others_can_write_is_not_run(tmp_path: Path) -> None:
    def fetch(folder: Path) -> Path:
        (folder / "fetched").write_bytes(b"archive")
        return folder / "fetched"

    assert maven.fetch_archive(TOOL, tmp_path / "cache", fetch).read_bytes() == b"archive"
    (tmp_path / "cache").chmod(0o777)
    with pytest.raises(maven.Unfetchable, match=r"the tool is not used, as .* chmod go-w"):
        maven.fetch_archive(TOOL, tmp_path / "cache", fetch)


def test_verdicts_are_not_taken_from_a_folder_that_others_can_write(tmp_path: Path) -> None:
    assert Results(str(tmp_path / "kept")).distrust == ""
    (tmp_path / "kept").chmod(0o777)
    assert Results(str(tmp_path / "kept")).distrust.startswith("no verdict is taken from")


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def unguarded(source: str) -> list[str]:
    """What in a source asks for a folder or program other than by `folders`."""
    found = [name for name in ("expanduser", "XDG_", ".home(", "gettempdir", "TMPDIR") if name in source]
    for name, call in calls(ast.parse(source)):
        is_temporary = re.fullmatch(r"tempfile\.\w+", name) and not any(key.arg == "dir" for key in call.keywords)
        if name in ("shutil.which", "which") or is_temporary:
            found.append(name)
    return found


def test_every_folder_and_program_is_asked_for_in_one_place() -> None:
    wrong = {}
    for top in ("tmmu", "proofs"):
        for path in (ROOT / top).rglob("*.py"):
            if path != Path(folders.__file__):
                wrong[str(path.relative_to(ROOT))] = unguarded(path.read_text())
    allowed = {"proofs/tools/maven.py": ["XDG_"]}  # in a message
    assert {path: found for path, found in wrong.items() if found} == allowed
    assert unguarded("import shutil, tempfile; shutil.which('cc'); tempfile.mkdtemp()") == [
        "shutil.which",
        "tempfile.mkdtemp",
    ]


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
