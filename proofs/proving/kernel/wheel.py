"""How hatchling builds a wheel: with the kernel's program in it where `make wheel` asks for that. spec: V6.10"""

from __future__ import annotations

import os
import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WANTED = "TMMU_WHEEL_WITH_KERNEL"
"""The variable of the environment that asks for it."""
TAG = "py3-none-manylinux_2_17_x86_64"
"""The program is linked statically, and is for Linux on x86-64."""


class KernelHook(BuildHookInterface[Any]):
    """Adds the installed program and what it was built from; any other build is left as it is."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """See hatchling. Raises SystemExit where the kernel of these sources is not installed."""
        if version == "editable" or not os.environ.get(WANTED):
            return
        sys.path.insert(0, self.root)
        from proofs.proving.kernel.installed import PROGRAM, STATED, folder, stated

        if stated(folder()) is None:
            raise SystemExit("the kernel of these sources is not installed: run `make kernel`")
        for name in (PROGRAM, STATED):
            build_data["force_include"][str(folder() / name)] = f"proofs/proving/kernel/built/{name}"
        build_data |= {"pure_python": False, "tag": TAG}
