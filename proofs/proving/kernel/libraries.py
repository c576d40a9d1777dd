"""Record which libraries the kernel's program contains: with their licences, and as a CycloneDX document for wheels.

The linker writes a map of all that it links. Each file in it belongs to this build or to a package of Debian, whose
name, version and source are recorded beside the program. Only the standard library is imported. spec: V6.12
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tmmu.core import children, folders

RECORD, NOTICE_FILE, LICENCES = "libraries.json", "NOTICE", "licences"
"""Beside the program: the record of its libraries, a notice for readers, and the folder of their licences."""
LICENCE = {
    "gmp": "LGPL-3.0-or-later OR GPL-2.0-or-later",
    "glibc": "LGPL-2.1-or-later",
    "ocaml-zarith": "LGPL-2.0-only WITH OCaml-LGPL-linking-exception",
    "ocaml": "LGPL-2.1-only WITH OCaml-LGPL-linking-exception",
    "gcc": "GPL-3.0-or-later WITH GCC-exception-3.1",
}
"""The licence of each library that may be linked, by Debian's source package without the number of its version."""
OURS = "Apache-2.0"
NOTICE = """The program `kernel` in this folder is linked statically. It contains parts of the libraries below.
Their licences are in `licences/`.

{libraries}

The program's own sources are in this package, in `proofs/proving/kernel`: the files `*.v` and `main.ml`, under {ours}.
So you can link it anew with other versions of these libraries: install them, with Coq and OCaml, and run
`tmmu kernel install`. The program that this builds is used instead of this one.

The sources of the libraries are Debian's, in the versions above: `apt-get source PACKAGE=VERSION`.
"""
DOCUMENTS, TEXTS = Path("/usr/share/doc"), Path("/usr/share/common-licenses")


class LinkedLibrary(NamedTuple):
    """A package whose files are linked: its name and version, and those of its source."""

    package: str
    version: str
    source: str
    source_version: str

    @property
    def licence(self) -> str:
        """The licence, as an SPDX expression. KeyError if it is not known."""
        return LICENCE[re.sub(r"-[0-9]+$", "", self.source)]


def read_map(text: str) -> set[Path]:
    """Return the files that a linker's map names as linked: each object, and each archive with a linked member.

    A shared library cannot be part of a static program, and is refused with ValueError.
    """
    archives, separator, rest = text.partition("\nMemory Configuration\n")
    if not separator:
        raise ValueError("the linker's map has no part `Memory Configuration`")
    members = {match[1] for match in re.finditer(r"^(/\S+\.a)\(", archives, re.MULTILINE)}
    loaded = re.findall(r"^LOAD (\S+)$", rest, re.MULTILINE)
    if shared := [name for name in loaded if re.search(r"\.so(\.|$)", name)]:
        raise ValueError(f"{shared[0]} is a shared library")
    return {Path(name) for name in members} | {Path(name) for name in loaded if not name.endswith(".a")}


def find_libraries(files: Iterable[Path], own: Iterable[Path]) -> list[LinkedLibrary]:
    """Return the packages that the files are from, in order of name.

    `own` are the folders whose files this build has made. Raises ValueError for a file of no package, for a package
    whose licence is not known, and on a system without dpkg.
    """
    if folders.find_program("dpkg-query") is None:
        raise ValueError("the packages of linked files are known on Debian only (dpkg-query is missing)")
    made = [path.resolve() for path in own]
    found = set()
    for path in sorted({file.resolve() for file in files}):
        if any(folder in path.parents for folder in made):
            continue
        owner = _query("-S", str(path)).split(": ")[0]
        if not owner or "," in owner:
            raise ValueError(f"{path} is linked, and is a file of no package, or of several")
        fields = r"${Package}\t${Version}\t${source:Package}\t${source:Version}"
        library = LinkedLibrary(*_query("-W", "-f", fields, owner).split("\t"))
        if re.sub(r"-[0-9]+$", "", library.source) not in LICENCE:
            raise ValueError(f"{path} is linked, and the licence of {library.source} is not known")
        found.add(library)
    return sorted(found)


def _query(*words: str) -> str:
    program = folders.find_program("dpkg-query") or "dpkg-query"
    done = children.run([program, *words])
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else ""


def write_record(where: Path, libraries: Iterable[LinkedLibrary]) -> None:
    """Write the record of the libraries, a notice and their licence texts into a folder.

    Raises ValueError if a text is missing.
    """
    libraries = list(libraries)
    (where / RECORD).write_text(json.dumps([library._asdict() for library in libraries], indent=1) + "\n")
    listed = "\n".join(
        f"- {one.source} {one.source_version}: {one.licence}"
        for one in {library.source: library for library in libraries}.values()
    )
    (where / NOTICE_FILE).write_text(NOTICE.format(libraries=listed, ours=OURS))
    (where / LICENCES).mkdir()
    wanted = set()
    for library in libraries:
        text = _read_text(DOCUMENTS / library.package / "copyright")
        (where / LICENCES / f"{library.package}.txt").write_text(text)
        wanted |= {(TEXTS / name.rstrip(".")).resolve().name for name in re.findall(rf"{TEXTS}/([\w.+-]+)", text)}
    for name in sorted(wanted):
        (where / LICENCES / f"{name}.txt").write_text(_read_text(TEXTS / name))


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"a licence text is missing: {path}: {error.strerror}") from error


def write_unknown(where: Path, reason: str) -> None:
    """Write a record that states why the libraries are not known."""
    (where / RECORD).write_text(json.dumps({"unknown": reason}) + "\n")


def read_record(where: Path) -> list[LinkedLibrary]:
    """Return the libraries that are recorded beside a program. Raises ValueError if they are not known."""
    try:
        found = json.loads((where / RECORD).read_bytes())
        if isinstance(found, dict):
            raise ValueError(found["unknown"])
        return [LinkedLibrary(**entry) for entry in found]
    except (OSError, TypeError, KeyError) as error:
        raise ValueError(f"{where / RECORD} is not a record of libraries") from error


def licence_of(libraries: Iterable[LinkedLibrary]) -> str:
    """Return the licence of a wheel with a program of these libraries, as an SPDX expression."""
    terms = sorted({library.licence for library in libraries})
    return " AND ".join([OURS, *(f"({term})" if " OR " in term else term for term in terms)])


def build_document(version: str, program: str, libraries: Iterable[LinkedLibrary]) -> dict[str, Any]:
    """Return the CycloneDX document of a wheel: this package, the program with its SHA-256, and its libraries.

    The same wheel has the same document, so it states neither a time nor a random number.
    """
    package = f"pkg:pypi/tmmu@{version}"
    parts = [
        {
            "type": "library", "bom-ref": f"deb:{one.package}", "name": one.source, "version": one.source_version,
            "purl": f"pkg:deb/debian/{one.package}@{one.version}?arch=amd64",
            "licenses": [{"expression": one.licence}],
        }
        for one in libraries
    ]  # fmt: skip
    kernel = {
        "type": "application", "bom-ref": "kernel", "name": "kernel", "version": version,
        "hashes": [{"alg": "SHA-256", "content": program}], "licenses": [{"expression": OURS}],
        "description": "The checker that Coq has proved, in proofs/proving/kernel/built.",
    }  # fmt: skip
    of_package = {
        "type": "library", "bom-ref": package, "name": "tmmu", "version": version, "purl": package,
        "licenses": [{"expression": OURS}],
    }  # fmt: skip
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": {"component": of_package},
        "components": [kernel, *parts],
        "dependencies": [
            {"ref": package, "dependsOn": ["kernel"]},
            {"ref": "kernel", "dependsOn": [part["bom-ref"] for part in parts]},
        ],
    }  # fmt: skip
