"""Faults at the system calls of the commands that write plans, stores, journals and checkpoints: a sample of them.

`nightly/test_every_fault.py` tries them all. spec: RE5.1, RE5.2, RE5.3, P1.4, MN8.13
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support import faults
from tests.support.fault_cases import CASES, NEW, OLD
from tests.support.faults import Fault

pytestmark = pytest.mark.skipif(not faults.CAN_WATCH, reason=faults.WHY_NOT)  # each test watches calls


@pytest.mark.parametrize("name", CASES)
def test_a_fault_leaves_the_old_file_or_the_new_one(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    case = CASES[name]
    case.write_before(tmp_path)
    for left in faults.explore(case.work, tmp_path, count=2, seed=len(name)):
        case.check(left, tmp_path)


def write_twice() -> int:
    """Write as the commands must not: in place, and without looking at how much was written."""
    descriptor = os.open("f", os.O_WRONLY | os.O_TRUNC)
    os.write(descriptor, b"first")
    os.write(descriptor, b"second")
    os.fsync(descriptor)
    return 0


def test_every_fault_is_where_it_is_said_to_be(tmp_path: Path) -> None:
    """And a writer that is not careful is found out by each kind."""
    (tmp_path / "before").mkdir()
    (tmp_path / "before" / "f").write_bytes(b"old")
    found = {left.fault: left for left in faults.explore(write_twice, tmp_path)}
    content = {fault: (left.folder / "f").read_bytes() for fault, left in found.items()}
    assert {fault: data for fault, data in content.items() if fault.kind in ("kill", "torn", "short")} == {
        Fault("kill", 0): b"old", Fault("kill", 1): b"", Fault("kill", 2): b"first", Fault("kill", 3): b"firstsecond",
        Fault("torn", 1): b"fi", Fault("torn", 2): b"firstsec",
        Fault("short", 1): b"fsecond", Fault("short", 2): b"firsts",
    }  # fmt: skip
    codes = {fault: left.ended.code for fault, left in found.items()}
    assert {fault for fault, code in codes.items() if code == 0} == {
        Fault("short", 1),
        Fault("short", 2),
        Fault("full", 2),
    }
    assert {fault for fault, code in codes.items() if code == -9} == {
        fault for fault in found if fault.kind in ("kill", "torn")
    }
    assert "Input/output error" in found[Fault("error", 3)].ended.output
    assert "No space left" in found[Fault("full", 1)].ended.output
    assert "Read-only" in found[Fault("read-only", 0)].ended.output
    assert all(left.ended.is_reached for left in found.values())


def test_a_call_elsewhere_is_not_counted(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()

    def work() -> int:
        (tmp_path / "there").write_bytes(b"x" * 10)
        Path("f").write_bytes(b"y")
        print("said")
        return 0

    assert faults.run(work, tmp_path / "here") == (0, "said\n", ["open", "write"], False)


@pytest.mark.parametrize("wrong", [OLD, NEW])
def test_a_case_says_no(wrong: str, tmp_path: Path) -> None:
    """Half a plan is neither, and the old one after success is not enough."""
    case = CASES["plan"]
    case.write_before(tmp_path)
    [left] = faults.explore(case.work, tmp_path, kinds=("short",), count=1)
    assert case.check(left, tmp_path) == NEW
    before = (tmp_path / "before" / "p.plan.cbor").read_bytes()
    (left.folder / "p.plan.cbor").write_bytes(before if wrong == OLD else before[:50])
    with pytest.raises(AssertionError):
        case.check(left, tmp_path)
