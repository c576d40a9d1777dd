"""Only regular files within a bound are opened for reading; JSON and TOML are parsed to a bounded depth."""

from __future__ import annotations

import json
import os
import socket
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmmu.core import reading


def make_every_kind(folder: Path) -> dict[str, Path]:
    """One path for each kind of thing that is not a regular file."""
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(folder / "socket"))
    return {name: folder / name for name in ("pipe", "link", "socket")} | {
        "folder": folder, "device": Path("/dev/zero"), "terminal": Path("/dev/ptmx"),
    }  # fmt: skip


def test_only_regular_files_are_opened_and_nothing_waits(tmp_path: Path) -> None:
    """spec: RE3.1"""
    ways = (reading.open_file, lambda path: reading.read_file(path, 9), lambda path: reading.read_head(path, 9))
    for name, path in make_every_kind(tmp_path).items():
        for read in ways:
            with pytest.raises(reading.NotRegular, match="folder" if name == "folder" else "not a regular file"):
                read(path)
    for absent in (tmp_path / "absent", "a\0b"):
        with pytest.raises(FileNotFoundError):
            reading.read_file(absent, 9)


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    """A file of the system states no size, and is bounded all the same. spec: RE3.2, RE6.2"""
    path = tmp_path / "f"
    path.write_bytes(b"1234")
    assert (reading.read_file(path, 4), reading.read_head(path, 2)) == (b"1234", b"12")
    with pytest.raises(reading.TooLarge, match="4 bytes, more than the limit of 3"):
        reading.read_file(path, 3)
    assert reading.read_file("/proc/self/status", 1 << 40).startswith(b"Name:")
    with pytest.raises(reading.TooLarge):
        reading.read_file("/proc/self/status", 10)


DEEP_JSON = ("[" * 100_000, '{"a":' * 5000, "[" * 33 + "]" * 33, '["' + "[" * 40 + '",' + "[" * 32)
DEEP_TOML = (
    "a" + ".a" * 50_000 + "=1", "a=" + "[" * 100_000, "[" + "a ." * 60 + "a]", "a={b=" * 50,
    'x."a"' + ".'b'" * 40 + "=1",
)  # fmt: skip


@pytest.mark.parametrize("text", DEEP_JSON)
def test_deep_json_is_a_value_error(text: str) -> None:
    """spec: RE3.3"""
    with pytest.raises(ValueError, match="nests deeper than 32"):
        reading.parse_json(text.encode())


@pytest.mark.parametrize("text", DEEP_TOML)
def test_deep_toml_is_a_value_error(text: str) -> None:
    """Dotted keys count as nesting. spec: RE3.3"""
    with pytest.raises(ValueError, match="nests deeper than 32"):
        reading.parse_toml(text.encode())


@pytest.mark.parametrize("parse", [reading.parse_json, reading.parse_toml])
@pytest.mark.parametrize("data", [b"\xff", b"a=\xed\xa0\x80", b"\xef\xbb\xbf{}", b"{", b"=", b"a=" + b"9" * 5000])
def test_what_cannot_be_parsed_is_a_value_error(parse: Callable[[bytes], object], data: bytes) -> None:
    """spec: RE3.3"""
    with pytest.raises(ValueError, match=r"."):
        parse(data)


leaves = st.none() | st.booleans() | st.integers() | st.text()
shallow = st.recursive(leaves, lambda of: st.lists(of) | st.dictionaries(st.text(), of), max_leaves=20)


@given(shallow)
def test_shallow_json_is_what_was_written(value: object) -> None:
    assert reading.parse_json(json.dumps(value)) == value
    assert reading.parse_json(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")) == value


PIECES = ("a", '"b.c.d"', "'[[['", ".", "[", "]", "{", "}", "=", "1.5", "\n", "#.[", ",", " ", '"""x\n.."""')


@given(st.lists(st.sampled_from(PIECES)))
def test_toml_is_refused_for_its_nesting_only_if_it_nests(parts: list[str]) -> None:
    """Dots and brackets in texts and comments do not count. spec: RE3.3"""
    text = "".join(parts)
    try:
        expected = tomllib.loads(text)
    except ValueError:
        return
    assert reading.parse_toml(text.encode()) == expected


def test_many_dots_and_brackets_beside_each_other_are_no_nesting() -> None:
    lines = [f'k{i} = ["a.b.c.d.e.f", 1.5, [2.5]] # [[[....' for i in range(200)]
    assert len(reading.parse_toml("\n".join(lines).encode())) == 200
    assert reading.parse_json(json.dumps([["[[[["]] * 1000)) == [["[[[["]] * 1000
