"""The wheel: the same bytes from two builds, whole licences, and an SBOM of its program. spec: V6.10, V6.12"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from proofs.proving.kernel import libraries
from proofs.proving.kernel.installed import find_program

ROOT = Path(__file__).resolve().parents[2]


def test_two_builds_of_the_wheel_are_the_same_and_state_what_they_contain(tmp_path: Path) -> None:
    if find_program() is None:
        pytest.skip("the kernel is not built: make kernel")  # a wheel without it has nothing to compare
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w"]
    wheels = []
    for name in ("one", "other"):
        subprocess.run([*command, tmp_path / name, ROOT], env={**os.environ, "TMMU_WHEEL_WITH_KERNEL": "1"}, check=True)
        wheels += (tmp_path / name).iterdir()
    assert len({hashlib.sha256(path.read_bytes()).digest() for path in wheels}) == 1
    with zipfile.ZipFile(wheels[0]) as wheel:
        built = "proofs/proving/kernel/built/"
        names = {name.removeprefix(built) for name in wheel.namelist() if name.startswith(built)}
        document = json.loads(wheel.read("tmmu-0.1.0.dist-info/sboms/tmmu.cdx.json"))
        program = hashlib.sha256(wheel.read(f"{built}kernel")).hexdigest()
        metadata = wheel.read("tmmu-0.1.0.dist-info/METADATA").decode()
    linked = libraries.read_record(find_program().parent)  # type: ignore[union-attr]
    assert {"kernel", "kernel.json", "NOTICE"} | {f"licences/{one.package}.txt" for one in linked} <= names
    assert {one.source for one in linked} == {"gmp", "glibc", "ocaml", "ocaml-zarith", "gcc-12"}
    assert [part["name"] for part in document["components"]] == ["kernel", *(one.source for one in linked)]
    assert document["components"][0]["hashes"][0]["content"] == program
    assert f"License-Expression: {libraries.licence_of(linked)}\n" in metadata
