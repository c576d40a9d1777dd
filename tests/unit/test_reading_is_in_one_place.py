"""Every path that is opened for reading goes through `tmmu.core.reading`: the tree is scanned for other ways.

A call that is allowed is listed with its reason. spec: RE3.1
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.sources import nodes

ROOT = Path(__file__).resolve().parents[2]

OPENS = {
    "open", "read_text", "read_bytes", "copyfile", "copytree", "FileIO", "fdopen", "fromfile", "memmap",
    "open_memmap", "loadtxt", "genfromtxt", "ZipFile", "load_from_string", "load_model", "FromFile",
}  # fmt: skip
"""The names of functions and methods that open a file, whatever they belong to."""
PARSES = {
    ("json", "load"), ("json", "loads"), ("tomllib", "load"), ("tomllib", "loads"), ("pickle", "load"),
    ("pickle", "loads"), ("np", "load"), ("numpy", "load"), ("onnx", "load"), ("ast", "literal_eval"),
}  # fmt: skip
"""Parsers whose time, memory or recursion a hostile text decides, or that open a file by themselves."""
OWN = "tmmu/core/reading.py"

ALLOWED: dict[tuple[str, str], str] = {
    ("proofs/model_check/following/generate.py", "read_text"): "modules of this package",
    ("proofs/model_check/tlc.py", "read_text"): "a copy that this function has just written",
    ("proofs/proving/kernel/install.py", "read_text"): "a map that the linker has just written",
    ("proofs/proving/kernel/installed.py", "read_bytes"): "sources of this package",
    ("proofs/proving/kernel/libraries.py", "read_text"): "files of the system",
    ("proofs/proving/kernel/libraries.py", "read_bytes"): "a record of the kernel's own folder, while a wheel is built",
    ("proofs/proving/kernel/libraries.py", "json.loads"): "a record of the kernel's own folder, while a wheel is built",
    ("proofs/proving/lemmas/engine/record.py", "fdopen"): "writes a new file",
    ("proofs/proving/lemmas/engine/record.py", "read_bytes"): "sources of this package",
    ("proofs/proving/solvers/child.py", "fdopen"): "the process's own pipe",
    ("proofs/proving/solvers/smtinterpol.py", "open"): "writes a file and reads it again",
    ("proofs/readers/models/onnx_streams.py", "json.loads"): "one string of a bounded file",
    ("proofs/tools/maven.py", "open"): "a file that this function has just fetched",
    ("proofs/verify/fleet/results.py", "read_bytes"): "sources of this package",
    ("proofs/verify/fleet/results.py", "json.loads"): "text that this function has just written",
    ("proofs/verify/forked.py", "fdopen"): "the process's own pipe",
    ("proofs/verify/forked.py", "pickle.loads"): "written by the fork of this process",
    ("tmmu/core/canonical.py", "fdopen"): "writes a new file",
    ("tmmu/core/children.py", "pickle.loads"): "written by the parent of this process",
    ("tmmu/core/folders.py", "fdopen"): "an open regular file",
    ("tmmu/core/folders.py", "open"): "a private file, which is checked, without waiting",
    ("tmmu/core/new_files.py", "open"): "new files, a folder to sync it, and a file to lock it",
    ("tmmu/core/dims/text.py", "json.loads"): "one string of a bounded text",
    ("tmmu/core/npy.py", "ZipFile"): "an open regular file",
    ("tmmu/core/npy.py", "memmap"): "an open regular file",
    ("tmmu/core/npy.py", "open"): "a member of an archive",
    ("tmmu/core/pages.py", "read_text"): "pages of this package",
    ("tmmu/core/statements.py", "json.loads"): "one string of a bounded text",
    ("tmmu/examples/traced/__init__.py", "read_bytes"): "data of this package",
    ("tmmu/importers/onnx_streams.py", "json.loads"): "one string of a bounded file",
    ("tmmu/mico/export.py", "load_from_string"): "bytes that torch has just written",
    ("tmmu/mico/writing.py", "open"): "writes new files, and a folder to sync it",
    ("tmmu/mnemosyne/address_space.py", "read_text"): "files of the system",
    ("tmmu/mnemosyne/anchors.py", "open"): "opened for writing, which never waits",
    ("tmmu/mnemosyne/hardware.py", "read_bytes"): "files of the system",
    ("tmmu/mnemosyne/keys.py", "fdopen"): "writes a new file, or reads an open regular file",
    ("tmmu/mnemosyne/keys.py", "open"): "writes a new file, and a folder to sync it",
    ("tmmu/mnemosyne/locks.py", "open"): "a lock, opened for reading and writing, which never waits",
    ("tmmu/mnemosyne/measured.py", "fromfile"): "a file that this command has just written",
    ("tmmu/mnemosyne/measured.py", "open"): "a file that this command has just written",
    ("tmmu/mnemosyne/sealed_log.py", "open"): "opened for reading and writing, which never waits; its kind is checked",
    ("tmmu/onnx/optimized.py", "read_bytes"): "a file that ONNX Runtime has just written",
    ("tmmu/runtime/events.py", "open"): "written, for reading and writing, which never waits",
    ("tmmu/runtime/journal.py", "open"): "opened for reading and writing, which never waits; read by `read_bounded`",
    ("tmmu/runtime/ram.py", "read_text"): "files of the system",
    ("tmmu/tasks/runtime_figures.py", "json.loads"): "a file that ONNX Runtime has just written",
    ("tmmu/tasks/runtime_figures.py", "read_bytes"): "a file that ONNX Runtime has just written",
    ("tmmu/testing/problems.py", "json.loads"): "text of the caller's own test",
    ("tmmu/testing/programs.py", "json.loads"): "a line of the caller's own planner",
}
"""What else opens files or parses, by file and call, with the reason."""
OUR_CLASSES = {"Journal", "SealedLog", "SealedReader", "StoreWriter", "segment", "key"}
"""What has a method `open` of its own."""


def called(source: str) -> Iterator[str]:
    """The calls of a module that open a file or parse hostile text."""
    for node in nodes(source):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if isinstance(function, ast.Name) and function.id in OPENS:
            yield function.id
        if isinstance(function, ast.Attribute):
            of = function.value.id if isinstance(function.value, ast.Name) else ""
            if (of, function.attr) in PARSES:
                yield f"{of}.{function.attr}"
            elif function.attr in OPENS and of not in OUR_CLASSES:
                yield function.attr


def unlisted(root: Path) -> set[tuple[str, str]]:
    """The calls of a tree that go past the reader, and are not listed."""
    return found_in(root) - set(ALLOWED)


@cache
def found_in(root: Path) -> set[tuple[str, str]]:
    paths = (path for folder in ("tmmu", "proofs") for path in sorted((root / folder).rglob("*.py")))
    files = {str(path.relative_to(root)): path.read_text() for path in paths}
    return {(name, call) for name, text in files.items() if name != OWN for call in called(text)}


def test_files_are_opened_for_reading_in_one_place() -> None:
    """spec: RE3.1"""
    assert unlisted(ROOT) == set()


def test_no_reason_is_left_over() -> None:
    assert set(ALLOWED) - found_in(ROOT) == set()


def test_another_way_to_open_a_file_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "proofs").mkdir()
    (tmp_path / "tmmu").mkdir()
    lines = (
        "with open(path, 'rb') as f: pass", "x = Path(p).read_bytes()", "y = os.open(p, 0)", "z = np.load(p)",
        "d = json.loads(t)", "a = np.lib.format.open_memmap(p)", "b = archive.zipfile.ZipFile(p)", "tomllib.load(f)",
    )  # fmt: skip
    for number, line in enumerate(lines):
        (tmp_path / "tmmu" / f"m{number}.py").write_text(line)
    (tmp_path / "proofs" / "right.py").write_text("data = read_file(path, 4)\nlog = Journal.open(path, h)\n")
    assert len(unlisted(tmp_path)) == len(lines)
    assert all(re.fullmatch(r"tmmu/m\d\.py", name) for name, _ in unlisted(tmp_path))
