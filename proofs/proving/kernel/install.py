"""Compile the theory, extract the program, compile it, and install both: `make kernel` and `tmmu kernel install`.

If that is done already, it returns at once; a damaged program is built again. Debian's Coq and OCaml are installed from
the system's packages if that is permitted (root, and apt); otherwise the command that installs them is printed.
Everything is built in a new folder and then renamed, so that the installed files are always whole. Only the standard
library is imported: `python3 -m proofs.proving.kernel.install` runs before anything else is installed. spec: V6.3,
V6.11
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

from proofs.proving.kernel import libraries
from proofs.proving.kernel.installed import (
    OF_PROGRAM,
    ORDER,
    PROGRAM,
    SOURCES,
    STATED,
    THEORY,
    KernelBuild,
    digest,
    folder,
    read_build,
)
from tmmu.core import children, folders
from tmmu.core.reading import digest_file

PACKAGES = ("coq", "libzarith-ocaml-dev", "ocaml-findlib", "ocaml-nox")
NEEDED = ("coqc", "coqchk", "ocamlfind", "ocamlopt")
MAP = "linked.map"
STATIC = ("-ccopt", "-static", "-ccopt", f"-Wl,-Map={MAP}") if sys.platform == "linux" else ()
CLOSED = "Closed under the global context"


def main() -> int:
    """Install the kernel of these sources. Return 0 if it is installed afterwards."""
    target = folder()
    if target is None:
        print(f"there is no folder for the kernel: {folders.ELSEWHERE}", file=sys.stderr)
        return 1
    if _is_whole(target):
        print(f"the kernel is installed in {target}")
        return 0
    if not _tools():
        return 1
    folders.make_private(target.parent)
    start = time.monotonic()
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="building-") as name:
        whole = Path(name) / "whole"
        build(whole)
        try:
            if target.exists() and not _is_whole(target):
                os.rename(target, Path(name) / "damaged")
            os.rename(whole, target)
        except OSError:
            if not _is_whole(target):  # otherwise another process has installed the same kernel
                raise
    print(f"the kernel is installed in {target} ({time.monotonic() - start:.0f} s)")
    return 0


def _is_whole(target: Path) -> bool:
    """Return whether a folder has a program that can be run and has the recorded digest, with its libraries' record."""
    runs = os.access(target / PROGRAM, os.X_OK) and read_build(target) is not None
    return runs and (target / libraries.RECORD).is_file()


def _tools() -> bool:
    if all(folders.find_program(tool) for tool in NEEDED) and _zarith():
        return True
    command = ["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES]
    if not (hasattr(os, "geteuid") and os.geteuid() == 0 and folders.find_program("apt-get")):
        print(f"Coq and OCaml are needed: sudo {' '.join(command)}", file=sys.stderr)
        return False
    print(f"installing {', '.join(PACKAGES)}", flush=True)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for step in (["apt-get", "update", "-q"], command):
        done = children.run(step, environment=quiet)
        if done.returncode:
            printed = (done.stderr or done.stdout).decode(errors="replace").strip()
            print(f"{' '.join(step)} failed: {printed[-400:]}", file=sys.stderr)
            return False
    return all(folders.find_program(tool) for tool in NEEDED) and _zarith()


def _zarith() -> bool:
    return children.run(["ocamlfind", "query", "zarith"]).returncode == 0


def build(whole: Path, sources: Path = SOURCES) -> None:
    """Make the folder to install: the program `kernel`, which needs no other library, its digests, and the theory.

    The theory is `theory/*.vo` and Coq's list of assumptions. On Debian, what the program contains of other libraries
    is recorded with their licences, for wheels.
    """
    theory = whole / THEORY
    theory.mkdir(parents=True)
    for name in ORDER:
        shutil.copy(sources / f"{name}.v", theory)
    printed = "".join(compile_file(theory, name) for name in ORDER)
    (whole / "assumptions.txt").write_text(printed)
    if CLOSED not in printed or re.search(r"^Ax", printed, re.MULTILINE):
        raise SystemExit(f"the theorem rests on assumptions:\n{printed}")
    with tempfile.TemporaryDirectory(dir=whole) as name:
        work = Path(name)
        for file in OF_PROGRAM:
            shutil.copy(sources / file, work)
        _run(["coqc", "-Q", str(theory), "Tmmu", "Extract.v"], work)
        _run(
            ["ocamlfind", "ocamlopt", "-w", "-a", "-inline", "200", "-package", "zarith,unix", "-linkpkg", *STATIC,
             "checker.mli", "checker.ml", "sha256.ml", "main.ml", "-o", PROGRAM],
            work,
        )  # fmt: skip
        shutil.move(work / PROGRAM, whole / PROGRAM)
        _record_libraries(whole, work)
    of = KernelBuild(digest(sources), digest_file(whole / PROGRAM), digest_file(theory / "Theorems.vo"))
    (whole / STATED).write_text(json.dumps(of._asdict(), indent=1) + "\n")


def _record_libraries(whole: Path, work: Path) -> None:
    """Record what is linked, or why that is not known: `make wheel` refuses such a program, a user's own may be so."""
    try:
        linked = libraries.read_map((work / MAP).read_text())
        found = libraries.find_libraries((work / path for path in linked), (work, Path(folders.temporary_folder())))
        libraries.write_record(whole, found)
    except (OSError, ValueError) as error:
        libraries.write_unknown(whole, str(error))


def compile_file(theory: Path, name: str) -> str:
    """Compile one file of the theory. Return what Coq prints."""
    return _run(["coqc", "-q", "-Q", ".", "Tmmu", f"{name}.v"], theory)


def _run(command: list[str], where: Path) -> str:
    done = children.run(command, folder=where)
    if done.returncode:
        printed = (done.stderr or done.stdout).decode(errors="replace")
        raise SystemExit(f"{' '.join(command)} failed:\n{printed[-2000:]}")
    return done.stdout.decode(errors="replace")


if __name__ == "__main__":
    sys.exit(main())
