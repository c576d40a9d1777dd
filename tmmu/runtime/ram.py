"""The memory that this process may use: that of the machine, or less if a control group limits it. spec: FD3.1"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

CONTROL_GROUPS = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")


def total_ram(groups: Path = CONTROL_GROUPS, own: Path = OWN_GROUPS, physical: int | None = None) -> int:
    """Return the bytes of memory that this process may use: the least of the machine's memory and of all limits on it.

    Parameters
    ----------
    groups, own
        The mount point of control groups, and the file that names those of this process (both versions).
    physical
        The memory of the machine; None: ask the system.
    """
    if physical is None:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([physical, *_read_limits(groups, own)])


def recommended_working_set(groups: Path = CONTROL_GROUPS, own: Path = OWN_GROUPS, physical: int | None = None) -> int:
    """Return 3/4 of `total_ram`, in integers."""
    return total_ram(groups, own, physical) * 3 // 4


def control_groups(controller: str, groups: Path, own: Path) -> Iterator[tuple[Path, int]]:
    """Yield the folders of the groups of this process and of all groups around them, each with its version (2 or 1).

    In a container, the paths may be those outside of it; then the root of the mount applies.
    """
    for line in text_of(own).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:  # version 2, with or without version 1
            roots, version = (groups, groups / "unified"), 2
        elif controller in controllers.split(","):
            roots, version = (groups / controllers, groups / controller), 1
        else:
            continue
        parts = [part for part in path.split("/") if part]
        depths = range(1 if ".." in parts else len(parts) + 1)
        yield from ((root.joinpath(*parts[:n]), version) for root in roots for n in depths)


def _read_limits(groups: Path, own: Path) -> Iterator[int]:
    """Yield the limits of all these groups, except those that cannot be read."""
    for folder, version in control_groups("memory", groups, own):
        text = text_of(folder / ("memory.max" if version == 2 else "memory.limit_in_bytes")).strip()
        if text.isascii() and text.isdigit():  # the text "max" is no limit
            yield int(text)


def text_of(path: Path) -> str:
    """Return the text of a file of the system; "" if it is missing or cannot be read."""
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""
