"""`failed.txt`: the models of a folder of plans that could not be planned, beside the plans of the others.

`tmmu plan` writes it and `verify-plan` reads it, so that a folder without some of its plans does not count as complete.
The first line marks the file as ours. Each further line is the path of a model, a tab, and its error. A file of the
same name without the first line is a user's: it is neither read, nor replaced, nor removed. spec: C2.12, C1.18
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from tmmu.core import canonical
from tmmu.core.errors import TmmuError
from tmmu.core.output import escape_line
from tmmu.core.reading import read_head

NAME = "failed.txt"
TITLE = "tmmu plan: these models have no plan here"
"""The first line."""
LIMIT = 1 << 26
"""The largest file that is read, in bytes."""


def is_record(path: str | os.PathLike[str]) -> bool:
    """Decide whether a file is a `failed.txt` that `tmmu plan` wrote, by its name and its first line.

    A regular file of this name that cannot be opened counts as one: the reader then says why.
    """
    if os.path.basename(path) != NAME:
        return False
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False
    except OSError:
        return False
    try:
        return read_head(path, len(TITLE) + 1) == f"{TITLE}\n".encode()
    except OSError:
        return True


def load(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the error of each model, with control characters escaped. Raises OSError, INVALID_PLAN if it is too large.

    O(bytes).
    """
    lines = canonical.read_bounded(path, LIMIT).decode(errors="backslashreplace").split("\n")[1:]
    return {model: error for model, _, error in (line.partition("\t") for line in lines) if model}


def update(folder: str, planned: Mapping[str, str | None], *, is_whole: bool) -> str | None:
    """Note in the folder of plans which models have no plan there; return the path of the file if one is left.

    `planned` has the error of each model of this run, None for one that has a plan now. If all have one and the run
    `is_whole`, the file is removed; else the lines of models that are not of this run stay. Raises
    TMMU_ALLOCATION_FAILURE if the file must be written and a user's own file has its name, or if it cannot be written.
    """
    path = os.path.join(folder, NAME)
    failed = {escape_line(model): escape_line(error) for model, error in planned.items() if error is not None}
    if os.path.lexists(path) and not is_record(path):
        if not failed:
            return None
        raise TmmuError(
            "TMMU_ALLOCATION_FAILURE", f"a file that tmmu plan did not write is kept; not noted is {min(failed)}",
            file=path, fix="rename that file, and plan again",
        )  # fmt: skip
    if is_whole and not failed:
        canonical.remove(path)
        return None
    given = set(map(escape_line, planned))
    before = load(path) if os.path.lexists(path) else {}
    noted = {model: error for model, error in before.items() if model not in given} | failed
    if not noted:
        canonical.remove(path)
        return None
    if noted != before:
        lines = (f"{model}\t{error}" for model, error in sorted(noted.items()))
        canonical.write_atomically(path, "\n".join((TITLE, *lines, "")).encode())
    return path
