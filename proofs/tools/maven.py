"""Fetch programs that are published as archives on Maven, each by its coordinates and its digest.

An archive is fetched once, by a resolver of Maven artifacts (`jgo`, from the extra `java`) or the user's own `mvn`, and
kept in the user's cache. Every use compares the digest: an archive with other bytes is not run.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tmmu.core import children, folders
from tmmu.core.extras import MissingPackage, install_command, is_installed
from tmmu.core.reading import digest_file

FETCH_S = 300
"""The time limit for Maven, in seconds."""


class Unfetchable(Exception):
    """The archive is not in the cache and cannot be fetched. The message states why and what to do."""


class Artifact(NamedTuple):
    """An archive to fetch: the program's name for messages, its Maven coordinates, and the SHA-256 of its bytes."""

    title: str
    group: str
    name: str
    version: str
    sha256: str

    @property
    def coordinates(self) -> str:
        """Group, name and version, as Maven writes them."""
        return f"{self.group}:{self.name}:{self.version}"

    @property
    def file(self) -> str:
        """The name of the archive's file."""
        return f"{self.name}-{self.version}.jar"

    def cache_folder(self) -> Path:
        """Return `tmmu/NAME` in the user's cache. Raises `Unfetchable` if the user has no cache."""
        cache = folders.cache_folder()
        if cache is None:
            raise Unfetchable(f"there is no folder for {self.title}: {folders.ELSEWHERE}")
        return cache / self.name


Fetch = Callable[[Path], Path]
"""Fetches an archive into a folder and returns its path."""


def fetch_archive(artifact: Artifact, folder: Path | None = None, fetch: Fetch | None = None) -> Path:
    """Return the path of the archive, fetched if the cache (`folder`) does not hold it. Needs no network afterwards.

    Raises `Unfetchable`, also for a folder that others can write to, and `MissingPackage` if nothing is installed to
    fetch it. A file in the cache with other bytes is replaced. spec: RE1.3
    """
    folder = artifact.cache_folder() if folder is None else folder
    kept = folder / artifact.file
    try:
        folders.make_private(folder)
        folders.check_private(kept if kept.exists() else folder)
        if kept.is_file() and digest_file(kept) == artifact.sha256:
            return kept
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            fetched = (fetch or fetcher(artifact))(Path(scratch))
            found = digest_file(fetched)
            if found != artifact.sha256:
                raise Unfetchable(
                    f"{artifact.coordinates}: expected the SHA-256 {artifact.sha256}, got {found}; it is not run. "
                    "Check the repository that your Maven settings name"
                )
            with fetched.open("rb+") as file:
                os.fsync(file.fileno())
            fetched.replace(kept)
    except folders.NotPrivate as error:
        raise Unfetchable(f"{artifact.title} is not used, as {error}") from error
    except OSError as error:
        raise Unfetchable(f"the cache {folder} cannot be written ({error.strerror}); set XDG_CACHE_HOME") from error
    return kept


def fetcher(artifact: Artifact) -> Fetch:
    """Return the function that fetches here: jgo if it is installed, else Maven.

    Raises `MissingPackage` without either.
    """
    if is_installed("jgo"):
        return lambda scratch: fetch_by_jgo(artifact, scratch)
    if folders.find_program("mvn"):
        return lambda scratch: fetch_by_maven(artifact, scratch)
    what = f"{artifact.title} ({artifact.coordinates}) is not in {artifact.cache_folder()}"
    fix = f"{install_command('jgo', 'java')}; or apt-get install maven"
    raise MissingPackage("jgo", f"{what}, and neither jgo nor Maven is installed to fetch it", fix)


def fetch_by_jgo(artifact: Artifact, scratch: Path) -> Path:
    """Fetch with the resolver of the package jgo, into a separate cache."""
    from jgo.maven import MavenContext, PythonResolver

    try:
        context = MavenContext(resolver=PythonResolver(), repo_cache=scratch)
        resolved = context.project(artifact.group, artifact.name).at_version(artifact.version).artifact().resolve()
    except Exception as error:  # the resolver's own errors and its network library's
        raise Unfetchable(f"{artifact.coordinates} cannot be fetched ({error}); is there a network?") from error
    return Path(resolved)


def fetch_by_maven(artifact: Artifact, scratch: Path) -> Path:
    """Fetch with the user's Maven and its settings."""
    options = [f"-Dartifact={artifact.coordinates}", f"-DoutputDirectory={scratch}"]
    command = [folders.find_program("mvn") or "mvn", "-q", "-B", "dependency:copy", *options]
    try:
        done = children.run(command, folder=scratch, timeout=FETCH_S)
        printed = (done.stdout + done.stderr).decode(errors="replace").strip().splitlines()
    except subprocess.TimeoutExpired:
        printed = [f"no answer within {FETCH_S} s"]
    found = scratch / artifact.file
    if not found.is_file():
        why = printed[0] if printed else "Maven gave no reason"
        raise Unfetchable(f"{artifact.coordinates} cannot be fetched by Maven ({why}); is there a network?")
    return found
