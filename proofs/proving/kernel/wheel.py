"""Build a wheel with hatchling, with the kernel's program in it if `make wheel` requests that. spec: V6.10, V6.12"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

WANTED = "TMMU_WHEEL_WITH_KERNEL"
"""The environment variable that requests it."""
TAG = "py3-none-manylinux_2_17_x86_64"
"""The tag of the wheel: the program is linked statically, for Linux on x86-64."""
BUILT = "proofs/proving/kernel/built"
"""The folder of the program in the wheel."""


class LicenceHook(MetadataHookInterface):
    """States the licence: that of this package, and of the libraries in the program if the wheel contains it."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Implement hatchling's hook. Raises SystemExit as `KernelHook` does."""
        sys.path.insert(0, self.root)
        from proofs.proving.kernel.libraries import OURS, licence_of

        metadata["license"] = licence_of(_whole_kernel()[1]) if os.environ.get(WANTED) else OURS


class KernelHook(BuildHookInterface[Any]):
    """Adds the installed program, its digests, its licences and its SBOM. Any other build is left unchanged."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Implement hatchling's hook. Raises SystemExit if the kernel of these sources is not installed."""
        if version == "editable" or not os.environ.get(WANTED):
            return
        sys.path.insert(0, self.root)
        from proofs.proving.kernel.installed import PROGRAM, STATED
        from proofs.proving.kernel.libraries import LICENCES, NOTICE_FILE, RECORD, build_document
        from tmmu.core import folders
        from tmmu.core.reading import digest_file

        folder, libraries = _whole_kernel()
        for name in (PROGRAM, STATED, RECORD, NOTICE_FILE, LICENCES):
            build_data["force_include"][str(folder / name)] = f"{BUILT}/{name}"
        document = build_document(self.metadata.version, digest_file(folder / PROGRAM), libraries)
        self.made = tempfile.TemporaryDirectory(dir=folders.temporary_folder())
        sbom = Path(self.made.name) / "tmmu.cdx.json"
        sbom.write_text(json.dumps(document, indent=1) + "\n")
        build_data["sbom_files"].append(str(sbom))
        build_data |= {"pure_python": False, "tag": TAG}

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was made for the wheel alone."""
        if made := getattr(self, "made", None):
            made.cleanup()


def _whole_kernel() -> tuple[Path, Any]:
    """Return the folder of the installed kernel, and the libraries that are recorded in it."""
    from proofs.proving.kernel.installed import folder, read_build
    from proofs.proving.kernel.libraries import read_record

    whole = folder()
    if whole is None or read_build(whole) is None:
        raise SystemExit("the kernel of these sources is not installed: run `make kernel`")
    try:
        return whole, read_record(whole)
    except ValueError as error:
        raise SystemExit(f"it is not known which libraries the kernel's program contains: {error}") from error
