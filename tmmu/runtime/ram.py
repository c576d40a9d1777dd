"""How much memory this process may use: that of the machine, or less where a control group says so. spec: FD3.1"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

CONTROL_GROUPS = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")


def total_ram(groups: Path = CONTROL_GROUPS, own: Path = OWN_GROUPS, physical: int | None = None) -> int:
    """Bytes of memory that this process may use: the least of the machine's and of all limits that hold for it.

    Parameters
    ----------
    groups, own
        Where control groups are mounted, and the file that names those of this process (both versions).
    physical
        The memory of the machine, if it is not to be asked for.
    """
    if physical is None:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([physical, *_limits(groups, own)])


def recommended_working_set(groups: Path = CONTROL_GROUPS, own: Path = OWN_GROUPS, physical: int | None = None) -> int:
    """3/4 of it, in integers."""
    return total_ram(groups, own, physical) * 3 // 4


def _limits(groups: Path, own: Path) -> Iterator[int]:
    """The limits of the groups of this process and of all groups around them; what cannot be read limits nothing.

    Inside of a container the paths may be those outside of it: what holds then is the file at the root of the mount.
    """
    for line in _text(own).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:  # version 2, alone or beside version 1
            roots, name = (groups, groups / "unified"), "memory.max"
        elif "memory" in controllers.split(","):
            roots, name = (groups / controllers, groups / "memory"), "memory.limit_in_bytes"
        else:
            continue
        parts = [part for part in path.split("/") if part]
        depths = range(1 if ".." in parts else len(parts) + 1)
        for text in (_text(root.joinpath(*parts[:n], name)).strip() for root in roots for n in depths):
            if text.isascii() and text.isdigit():  # and not "max"
                yield int(text)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""
