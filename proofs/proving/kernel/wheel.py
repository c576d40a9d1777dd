"""Build a wheel with hatchling, with the kernel's program in it if `make wheel` requests that. spec: V6.10"""

from __future__ import annotations

import os
import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WANTED = "TMMU_WHEEL_WITH_KERNEL"
"""The environment variable that requests it."""
TAG = "py3-none-manylinux_2_17_x86_64"
"""The tag of the wheel: the program is linked statically, for Linux on x86-64."""


class KernelHook(BuildHookInterface[Any]):
    """Adds the installed program and its digests. Any other build is left unchanged."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Implement hatchling's hook. Raises SystemExit if the kernel of these sources is not installed."""
        if version == "editable" or not os.environ.get(WANTED):
            return
        sys.path.insert(0, self.root)
        from proofs.proving.kernel.installed import PROGRAM, STATED, folder, read_build

        if read_build(folder()) is None:
            raise SystemExit("the kernel of these sources is not installed: run `make kernel`")
        for name in (PROGRAM, STATED):
            build_data["force_include"][str(folder() / name)] = f"proofs/proving/kernel/built/{name}"
        build_data |= {"pure_python": False, "tag": TAG}
