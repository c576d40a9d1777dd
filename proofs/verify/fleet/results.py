"""Verdicts that are kept in a folder, each under the digest of all that it rests on: `verify-plan --resume DIR`.

A record is one file, written whole or not at all. Its key is the SHA-256 of the bytes and the name of the plan (and of
files read beside it) and of the model, of every option that a verdict depends on, and of everything that judged the
plan: the sources of this package, the kernel's program, and the versions of all packages in use. A record counts only
for its key. A damaged record, or one of another key, is ignored.

DIR is trusted as the user's own files are: with the right to write there, a record can be forged, as can the plans. So
nothing is read there unless the user says so and no other user can write it, and a verdict that was taken from it has a
note that says so. spec: V7.5 to V7.8, RE1.3, RE1.4
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from proofs.proving.kernel import installed
from proofs.readers.plans import formats
from proofs.verify import formats as written
from proofs.verify import text
from proofs.verify.options import Options, ProofFolders, Solving
from proofs.verify.verdict import EXITS, PROVED, REFUTED, Verdict
from tmmu.core import canonical, folders, reading

PACKAGES = ("z3-solver", "cvc5", "cbor2", "numpy", "onnx")
"""What verdicts are made with beside this package."""
ROOT = Path(__file__).resolve().parents[3]
RECORD_LIMIT = 1 << 28
"""The largest record that is read, in bytes: a verdict may list every row of a plan."""


@cache
def versions() -> str:
    """The digest of what judges: this package's sources, the kernel and its program, Python and the packages used."""
    total = hashlib.sha256()
    for folder in ("proofs", "tmmu"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            content = path.read_bytes()
            total.update(f"{path.relative_to(ROOT)} {len(content)}\n".encode() + content)
    program = installed.find_program()
    kernel = "" if program is None else reading.digest_file(program)
    used = [f"{name} {_version(name)}" for name in PACKAGES]
    total.update("\n".join([installed.digest(), kernel, platform.python_version(), *used]).encode())
    return total.hexdigest()


def _version(package: str) -> str:
    """The version of an installed package; of the second solver, which may be absent, that it is."""
    from importlib import metadata  # it takes longer to import than this module

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def key(path: str, options: Options, model: str | None) -> str:
    """The key of the verdict on a plan under these options; `model` is the digest of the model's bytes.

    Raises OSError where the plan cannot be read. O(bytes).
    """
    read = [[os.path.basename(one), reading.digest_file(one)] for one in formats.read_with(path)]
    name = None if options.model is None else os.path.basename(options.model)
    chosen = _plain(deciding(options))
    return hashlib.sha256(json.dumps([read, name, model, chosen, versions()], sort_keys=True).encode()).hexdigest()


def deciding(options: Options) -> Options:
    """Return the options without the model, whose bytes count, and with defaults where no verdict depends on them.

    >>> deciding(Options(model="m.onnx", folders=ProofFolders(smt2="out"))) == Options()
    True
    """
    solving = replace(options.solving, workers=Solving().workers)
    return replace(options, model=None, solving=solving, folders=ProofFolders(optimum=options.folders.optimum))


def _plain(value: Any) -> Any:
    """An option as JSON has it, the same for equal options."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return [[_plain(k), _plain(v)] for k, v in sorted(value.items())]
    if isinstance(value, (set, frozenset)):
        return sorted(map(_plain, value))
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    assert value is None or isinstance(value, (str, int, float)), value
    return value


def as_read(verdict: Verdict) -> Verdict:
    """Return a verdict as its record restores it, of lists and texts, so that a taken one equals a new one."""
    return Verdict(**json.loads(json.dumps(asdict(verdict))))


class Results:
    """The records in a folder, which is created if it is missing. Raises TmmuError if it cannot be written."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.distrust = ""
        """Why no record is taken, and what to do."""
        folders.make_private(Path(folder).absolute())
        try:
            folders.check_private(Path(folder).absolute())
        except folders.NotPrivate as error:
            self.distrust = f"no verdict is taken from {folder}, as {error}"

    def taken(self, key: str, path: str, model: str | None) -> Verdict | None:
        """Return the verdict that is kept under a key, with plan and model as they are named now; None if none is."""
        try:
            kept = Path(self.folder, f"{key}.json").absolute()
            folders.check_private(kept)
            found = reading.parse_json(reading.read_file(kept, RECORD_LIMIT))
            stated, verdict = found["verdict"], Verdict(**found["verdict"])
            right = found["key"] == key and found["digest"] == _digest(stated)
        except (OSError, ValueError, TypeError, KeyError, folders.NotPrivate):
            return None
        if not right or not _is_whole(verdict) or verdict.exit != EXITS[verdict.verdict]:
            return None
        return replace(verdict, file=path, model=model, taken_from=self.folder)

    def keep(self, key: str, verdict: Verdict) -> None:
        """Write the record of a verdict: PROVED or REFUTED, as any other may come out otherwise the next time."""
        if verdict.verdict in (PROVED, REFUTED):
            stated = asdict(verdict)
            record = {"key": key, "digest": _digest(stated), "verdict": stated}
            canonical.write_atomically(Path(self.folder, f"{key}.json"), json.dumps(record).encode())


def _is_whole(verdict: Verdict) -> bool:
    """Decide whether a verdict that was read is one that `keep` writes: its fields have their types, and it is printed.

    A digest protects a record from damage. It has no key, so that a record may also have been made otherwise.
    spec: RE3.6
    """
    if any(not fits(getattr(verdict, name)) for name, fits in FIELDS.items()):
        return False
    try:
        donated = verdict.assumptions["donated"]
        printed = [*text.lines(verdict, verbose=True), *(write([verdict], ()) for write in written.WRITERS.values())]
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError):
        return False
    return bool(printed) and _are_texts(donated)


def _is_text(value: Any) -> bool:
    return type(value) is str


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_map(value: Any) -> bool:
    return isinstance(value, dict)


def _is_map_or_none(value: Any) -> bool:
    return value is None or isinstance(value, dict)


FIELDS: dict[str, Callable[[Any], bool]] = {
    "file": _is_text, "verdict": lambda value: _is_text(value) and value in (PROVED, REFUTED),
    "exit": lambda value: type(value) is int, "scope": _is_text,
    "obligations": lambda value: isinstance(value, list) and all(map(_is_map, value)),
    "proved": _are_texts, "compared": _are_texts, "notes": _are_texts, "constructs": _are_texts,
    "not_looked_at": lambda value: isinstance(value, dict) and all(map(_is_text, value.values())),
    "claims": _is_map, "assumptions": _is_map, "kernel": _is_map, "witness": _is_map_or_none,
    "reading": _is_map_or_none, "model": lambda value: value is None or _is_text(value),
}  # fmt: skip
"""The check of each field of a verdict that is kept."""


def _digest(stated: Any) -> str:
    return hashlib.sha256(json.dumps(stated, sort_keys=True).encode()).hexdigest()
