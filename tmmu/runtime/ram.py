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


def control_groups(controller: str, groups: Path, own: Path) -> Iterator[tuple[Path, int]]:
    """The folders of the groups of this process and of all groups around them, each with its version (2 or 1).

    Inside of a container the paths may be those outside of it: what holds then is the root of the mount.
    """
    for line in text_of(own).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:  # version 2, alone or beside version 1
            roots, version = (groups, groups / "unified"), 2
        elif controller in controllers.split(","):
            roots, version = (groups / controllers, groups / controller), 1
        else:
            continue
        parts = [part for part in path.split("/") if part]
        depths = range(1 if ".." in parts else len(parts) + 1)
        yield from ((root.joinpath(*parts[:n]), version) for root in roots for n in depths)


def _limits(groups: Path, own: Path) -> Iterator[int]:
    """The limits of all these groups; what cannot be read limits nothing."""
    for folder, version in control_groups("memory", groups, own):
        text = text_of(folder / ("memory.max" if version == 2 else "memory.limit_in_bytes")).strip()
        if text.isascii() and text.isdigit():  # and not "max"
            yield int(text)


def text_of(path: Path) -> str:
    """The text of a file of the system; none where it is not there or cannot be read."""
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""
