"""One encoding for one value, nothing hostile gets in, and a file is written whole or not at all."""

from __future__ import annotations

import enum
import hashlib
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cbor2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.hostile import HOSTILE
from tmmu.core import canonical
from tmmu.core.errors import TmmuError

TEXT_CASES = [
    ({"b": 1, "a": [True, None]}, "a2616182f5f6616201"),
    ({"aa": 0, "b": 0}, "a261620062616100"),  # the shorter key first, which its length byte decides
    ((), "80"),
    (23, "17"),
    (24, "1818"),
    (-1, "20"),
    ((1 << 64) - 1, "1bffffffffffffffff"),
    (-(1 << 63), "3b7fffffffffffffff"),
    (b"\x00", "4100"),
    (np.array([1, 2], np.uint8), "d840420102"),
    (np.array([1], np.uint16), "d845420100"),
    (np.array([1], np.uint32), "d8464401000000"),
    (np.array([1], ">u8"), "d847480100000000000000"),
]


class Word(enum.StrEnum):
    ONE = "one"


@pytest.mark.parametrize(("value", "expected"), TEXT_CASES)
def test_values_have_the_encoding_of_the_standards(value: Any, expected: str) -> None:
    """spec: R1.1, R1.7"""
    assert canonical.encode(value).hex() == expected


def test_what_is_written_is_read_back() -> None:
    value = {"list": [1, -2, "three", b"4", None, False], "map": {"": {}}}
    assert canonical.decode(canonical.encode(value)) == value
    assert canonical.decode(canonical.encode(Word.ONE)) == "one"
    for dtype in (np.uint8, np.uint16, np.uint32, np.uint64):
        column = np.arange(5, dtype=dtype)
        again = canonical.decode(canonical.encode(column))
        assert again.dtype == dtype
        assert again.tolist() == column.tolist()


@pytest.mark.parametrize(
    "value",
    [
        1.0,
        np.float64(1),
        np.zeros(2),
        np.zeros(2, np.int64),
        np.zeros((2, 2), np.uint8),
        {1: 2},
        {b"k": 2},
        {"deep": [{"a": 0.5}]},
        {1, 2},
        object(),
        np.uint64(3),
    ],
)
def test_what_has_no_encoding_is_refused(value: Any) -> None:
    """spec: R1.2"""
    with pytest.raises(TypeError):
        canonical.encode(value)


@pytest.mark.parametrize("value", [1 << 64, -(1 << 63) - 1, {"deep": [1 << 70]}])
def test_an_integer_beyond_64_bits_is_refused(value: Any) -> None:
    """spec: R1.2"""
    with pytest.raises(OverflowError):
        canonical.encode(value)


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_bytes_are_refused(what: str) -> None:
    """spec: R1.3, R1.4, R1.7"""
    with pytest.raises(TmmuError) as refused:
        canonical.decode(HOSTILE[what], "plan")
    assert refused.value.code_id == "INVALID_PLAN"
    assert "\n" not in str(refused.value)


def test_nesting_up_to_the_limit_is_read() -> None:
    """spec: R1.4"""
    value: Any = 0
    for _ in range(canonical.MAX_DEPTH - 1):
        value = [value]
    assert canonical.decode(canonical.encode(value)) == value


def test_a_file_of_too_many_items_is_refused_before_any_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each item of one byte would become an object of many; a column of any length is one item, and its tag another."""
    monkeypatch.setattr(canonical, "ITEMS_LIMIT", 10)
    values: list[Any] = [[0] * 9, {"a": [0] * 7}, ["x" * 300] * 9, [b"x" * 70_000, 1 << 40], np.zeros(1000, np.uint64)]
    for value in values:
        canonical.decode(canonical.encode(value))
    for value in ([0] * 10, {"a": [0] * 8}, ["x" * 300] * 10, [[[]] * 5] * 2):
        with pytest.raises(TmmuError, match="more than 10 data items"):
            canonical.decode(canonical.encode(value))


def test_every_tag_that_is_no_column_is_refused() -> None:
    """spec: R1.4"""
    for tag in range(1 << 10):
        for content in (0, "a", b"", bytes(8), [0]):
            data = cbor2.dumps(cbor2.CBORTag(tag, content), canonical=True)
            if tag in canonical.TYPED_ARRAYS and isinstance(content, bytes):
                assert canonical.encode(canonical.decode(data)) == data
            else:
                with pytest.raises(TmmuError):
                    canonical.decode(data)


def test_hostile_bytes_cost_neither_time_nor_memory() -> None:
    """All of them at once, in a process that may use little of either."""
    script = """
import resource
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
from tests.support.hostile import HOSTILE
from tmmu.core import canonical
from tmmu.core.errors import TmmuError
refused = 0
for data in HOSTILE.values():
    try:
        canonical.decode(data)
    except TmmuError:
        refused += 1
print(refused)
"""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env=environment, check=False
    )
    assert (done.stdout.strip(), done.stderr) == (str(len(HOSTILE)), "")


def test_the_first_byte_that_is_not_canonical_is_named() -> None:
    with pytest.raises(TmmuError, match="from byte 4 on"):
        canonical.decode(canonical.encode({"a": 1}) + b"\0")
    with pytest.raises(TmmuError, match="from byte 2 on"):
        canonical.decode(bytes.fromhex("a2616200616100"))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=6,
)


@given(VALUES)
def test_decoding_undoes_encoding(value: Any) -> None:
    assert canonical.decode(canonical.encode(value)) == value


@given(st.binary(max_size=64))
def test_whatever_is_read_is_written_as_it_was(data: bytes) -> None:
    """spec: R1.3"""
    try:
        value = canonical.decode(data)
    except TmmuError:
        return
    assert canonical.encode(value) == data


def test_digest_and_commitment_are_sha256_of_the_encoding() -> None:
    """spec: R1.5, R1.6"""
    assert canonical.digest({"a": 1}) == hashlib.sha256(bytes.fromhex("a1616101")).digest()
    assert canonical.commitment("t", [1]) == hashlib.sha256(bytes.fromhex("8261748101")).digest()
    assert canonical.commitment("t", 1) != canonical.commitment("u", 1)


# Writing.


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_written_with_the_rights_of_any_new_file(tmp_path: Path) -> None:
    """spec: P1.4"""
    old = os.umask(0o027)
    try:
        canonical.write_atomically(tmp_path / "new", b"content")
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(old)
    assert (tmp_path / "new").read_bytes() == b"content"
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    assert entries(tmp_path) == ["new"]


def test_a_relative_name_and_the_longest_name_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("plain", "n" * 255):
        canonical.write_atomically(name, b"content")
        assert Path(name).read_bytes() == b"content"


def raising(error: BaseException) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize("call", ["fsync", "replace", "chmod"])
def test_a_failure_in_the_middle_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """A full disk is the system's error, with the name of the file, and any other a refusal. spec: P1.4, C5.9"""
    target = tmp_path / "plan"
    target.write_bytes(b"old")
    monkeypatch.setattr(os, call, raising(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left on device") as full:
        canonical.write_atomically(target, b"new")
    assert (full.value.errno, full.value.filename) == (28, str(target))
    monkeypatch.setattr(os, call, raising(OSError(13, "Permission denied")))
    with pytest.raises(TmmuError, match="Permission denied") as refused:
        canonical.write_atomically(target, b"new")
    monkeypatch.undo()
    assert (refused.value.code_id, refused.value.file) == ("TMMU_ALLOCATION_FAILURE", str(target))
    assert (target.read_bytes(), entries(tmp_path)) == (b"old", ["plan"])


def test_an_interruption_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "plan"
    target.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        canonical.write_atomically(target, b"new")
    monkeypatch.undo()
    assert (target.read_bytes(), entries(tmp_path)) == (b"old", ["plan"])


def test_what_cannot_be_written_is_refused_by_its_own_name(tmp_path: Path) -> None:
    """spec: C2.6"""
    (tmp_path / "file").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")
    for name in ("missing/plan", "file/plan", "", "pipe", "n" * 256):
        path = str(tmp_path / name)
        with pytest.raises(TmmuError) as refused:
            canonical.write_atomically(path, b"content")
        assert (refused.value.code_id, refused.value.file) == ("TMMU_ALLOCATION_FAILURE", path)
        assert refused.value.fix
    assert entries(tmp_path) == ["file", "pipe"]


def test_a_device_is_never_replaced() -> None:
    with pytest.raises(TmmuError, match="not a regular file"):
        canonical.write_atomically("/dev/null", b"content")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_symbolic_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    canonical.write_atomically(tmp_path / "link", b"content")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"content"


# Reading.


def test_a_file_up_to_the_limit_is_read_and_a_larger_one_is_refused_unread(tmp_path: Path) -> None:
    """spec: P1.5"""
    path = tmp_path / "plan"
    path.write_bytes(b"1234")
    assert canonical.read_bounded(path, 4) == b"1234"
    with pytest.raises(TmmuError, match="4 bytes, more than the limit of 3") as refused:
        canonical.read_bounded(path, 3, "INVALID_IR")
    assert (refused.value.code_id, refused.value.file) == ("INVALID_IR", str(path))
    with path.open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(TmmuError, match="more than the limit"):
        canonical.read_bounded(path, 1 << 34)


def test_a_device_without_end_is_not_read() -> None:
    with pytest.raises(TmmuError, match="not a regular file"):
        canonical.read_bounded("/dev/zero", 1 << 34)


def test_a_file_of_very_many_items_is_refused_before_it_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten empty arrays cost ten bytes in the file and a thousand in memory. spec: R1.4"""
    many = canonical.encode({"a": [[] for _ in range(10)]})
    assert canonical.decode(many) == {"a": [[] for _ in range(10)]}
    monkeypatch.setattr(canonical, "ITEMS_LIMIT", 12)
    with pytest.raises(TmmuError, match="more than 12 data items"):
        canonical.decode(many)
