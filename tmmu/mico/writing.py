"""The files of the C, written whole or not at all. spec: MC1.7, MC1.8, MC10.1"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping

from tmmu.core.errors import TmmuError
from tmmu.mico import build, source
from tmmu.mico import weights as constants
from tmmu.mico.code import ModelCode
from tmmu.mico.kernels.functions import kernels
from tmmu.mico.runner import main


def check_folder(folder: str) -> None:
    """Raise TMMU_ALLOCATION_FAILURE if the folder is not empty or is not a folder. spec: MC1.7"""
    if not os.path.lexists(folder) or (os.path.isdir(folder) and not os.listdir(folder)):
        return
    raise TmmuError(
        "TMMU_ALLOCATION_FAILURE", "it already exists, and nothing in it is overwritten", file=folder,
        fix="remove it, or choose another folder",
    )  # fmt: skip


def write_code(code: ModelCode, folder: str, weights: str) -> list[str]:
    """Write the files of a model or a plan set, and return their paths. spec: MC10.1"""
    names, used = code.names, code.constants
    as_file = weights == "file" or sum(each.bytes for each in used) > constants.LITERALS
    declared, defined = kernels(
        (call for program in code.programs for step in program.steps for call in step.calls), names
    )
    files: dict[str, Iterable[bytes]] = {
        f"{names.stem}.h": encode(source.header(code)),
        f"{names.stem}.c": encode(source.forward(code)),
        names.file("kernels.h"): encode(source.kernels_header(declared, names)),
        names.file("kernels.c"): encode(source.kernels_source(defined, names)),
        names.file("weights.h"): encode(constants.header(used, as_file, names)),
        names.file("weights.c"): encode(constants.source(used, as_file, names)),
        names.file("main.c"): encode(main(code)),
        "Makefile": encode(build.makefile(code, as_file and bool(used))),
        "CMakeLists.txt": encode(build.cmake(code, as_file and bool(used))),
    }
    if as_file and used:
        files[names.file("weights.bin")] = constants.content(used)
    write_files(folder, files)
    return [os.path.join(folder, each) for each in files]


def encode(text: str) -> list[bytes]:
    """Return a text as the content of a file."""
    return [text.encode()]


def write_files(folder: str, files: Mapping[str, Iterable[bytes]]) -> None:
    """Write all files to a folder beside the target, sync it, and rename it. spec: MC1.7"""
    target = os.path.abspath(folder)
    temporary = ""
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        temporary = tempfile.mkdtemp(dir=os.path.dirname(target), prefix=".tmmu.", suffix=".tmp")
        for name, parts in files.items():
            with open(os.path.join(temporary, name), "wb") as file:
                for part in parts:
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
        umask = os.umask(0o077)
        os.umask(umask)
        os.chmod(temporary, 0o777 & ~umask)
        os.rename(temporary, target)
        around = os.open(os.path.dirname(target), os.O_RDONLY)
        try:
            os.fsync(around)
        finally:
            os.close(around)
    except OSError as error:
        what = f"cannot be written ({error.strerror})"
        raise TmmuError("TMMU_ALLOCATION_FAILURE", what, file=folder, fix="choose another place") from error
    finally:
        if temporary and os.path.isdir(temporary):
            shutil.rmtree(temporary)
