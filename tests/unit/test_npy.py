"""NumPy's files: what NumPy writes is read, and every other file is refused by one error. spec: RE3.4, RE3.5"""

from __future__ import annotations

import contextlib
import io
import resource
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmmu.core import npy
from tmmu.core.npy import NotAnArray


def written(array: np.ndarray[Any, Any], version: tuple[int, int] | None = None) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version)
    return out.getvalue()


def with_header(text: str, data: bytes = b"", version: int = 1) -> bytes:
    head = text.encode()
    return b"\x93NUMPY" + bytes((version, 0)) + struct.pack("<H" if version == 1 else "<I", len(head)) + head + data


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=4)))
    kind = draw(st.sampled_from(["?", "u1", "<i4", ">i4", "<u8", "<f2", "<f4", ">f8", "<c8"]))
    counted = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(kind)
    return np.asarray(counted, order="F" if draw(st.booleans()) else "C")


@given(arrays(), st.sampled_from([(1, 0), (2, 0), (3, 0), None]))
def test_what_numpy_writes_is_read(array: np.ndarray[Any, Any], version: tuple[int, int] | None) -> None:
    data = written(array, version)
    found = npy.decode_array(data)
    assert found.dtype == array.dtype
    assert np.array_equal(found, array)
    assert npy.parse_header(data).start + array.nbytes == len(data)


@given(arrays(), st.data())
def test_a_changed_file_is_another_array_or_refused(array: np.ndarray[Any, Any], data: st.DataObject) -> None:
    given_bytes = bytearray(written(array))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(given_bytes) - 1))
        given_bytes[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
        if not given_bytes:
            break
    with contextlib.suppress(NotAnArray):
        npy.decode_array(bytes(given_bytes))


WRONG = {
    "": "does not begin", "(\n": r"\( in place of \{", "{'descr':'<f4'": "not a map", "{}": "does not state",
    "{'descr':'<f4','fortran_order':False,'shape':(4,),'more':True}": "does not state",
    "{'descr':'<f4','descr':'<f4','fortran_order':False,'shape':()}": "new key",
    "{'descr':'|O','fortran_order':False,'shape':(1,)}": "type '|O'",
    "{'descr':'<U3','fortran_order':False,'shape':(1,)}": "type '<U3'",
    "{'descr':'<f3','fortran_order':False,'shape':(1,)}": "do not exist",
    "{'descr':[('a','<i4')],'fortran_order':False,'shape':(1,)}": "several fields",
    "{'descr':'<f4','fortran_order':0,'shape':(1,)}": "in place of a value",
    "{'descr':'<f4','fortran_order':False,'shape':(1)}": "a number in place of a shape",
    "{'descr':'<f4','fortran_order':False,'shape':(-1,)}": "not a map",
    "{'descr':'<f4','fortran_order':False,'shape':(1 1)}": "in place of a comma",
    "{'descr':'<f4','fortran_order':False,'shape':True}": "no shape",
    "{'descr':'<f4','fortran_order':False,'shape':(1000000000000,)}": "states 4000000000000 bytes",
    "{'descr':'<f4','fortran_order':False,'shape':(99999999999999999999,0)}": "no array of its shape",
    "{'descr':'|V2','fortran_order':False,'shape':(0,9223372036854775812)}": "no array of its shape",
    "{'descr':'<f4','fortran_order':False,'shape':(" + "1," * 65 + ")}": "in place of a size",
    "{'descr':'<f4','fortran_order':False,'shape':(1,)} or 1": "goes on after its end",
    "{'descr':" + "[" * 3000: "several fields", "(" * 3000: r"in place of \{",
}  # fmt: skip


@pytest.mark.parametrize(("header", "message"), WRONG.items())
def test_a_wrong_header_is_refused(header: str, message: str) -> None:
    data = with_header(header) if header else b"PK"
    with pytest.raises(NotAnArray, match=message.replace("'|O'", r"'\|O'")):
        npy.decode_array(data)


@pytest.mark.parametrize("shape", ["0,9223372036854775812", "0,4611686018427387904,4", "1," * 65])
def test_a_header_whose_shape_numpy_does_not_have_is_refused(shape: str) -> None:
    """Readers that map a file read its header alone."""
    with pytest.raises(NotAnArray):
        npy.parse_header(with_header(f"{{'descr':'|V2','fortran_order':False,'shape':({shape})}}"))


def archive(
    members: dict[str, bytes], method: int = zipfile.ZIP_STORED, damage: Callable[[bytearray], None] | None = None
) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as made:
        for name, data in members.items():
            made.writestr(f"{name}.npy", data)
    data = bytearray(out.getvalue())
    if damage is not None:
        damage(data)
    return bytes(data)


def of_method(number: int) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        data[8] = data[data.find(b"PK\1\2") + 10] = number

    return change


def encrypt(data: bytearray) -> None:
    data[6] |= 1
    data[data.find(b"PK\1\2") + 8] |= 1


def overwrite(data: bytearray) -> None:
    data[40:60] = b"\xff" * 20


GOOD = written(np.zeros((4, 4), "<f4"))
DAMAGED = {
    "encrypted": archive({"x": GOOD}, damage=encrypt), "unknown method": archive({"x": GOOD}, damage=of_method(99)),
    "lzma": archive({"x": GOOD}, zipfile.ZIP_LZMA), "bz2": archive({"x": GOOD}, zipfile.ZIP_BZIP2),
    "not deflated": archive({"x": GOOD}, damage=of_method(8)),
    "deflated, damaged": archive({"x": GOOD}, zipfile.ZIP_DEFLATED, overwrite),
    "header": archive({"x": with_header("(\n")}), "no array": archive({"x": b"hello"}), "empty": b"",
    "cut off": archive({"x": GOOD})[:-30], "bomb": archive({"x": bytes(1 << 24)}, zipfile.ZIP_DEFLATED),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_archive_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(DAMAGED[name])
    with pytest.raises(NotAnArray):
        npy.load_archive(tmp_path / "x.npz", lambda name: 64)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_archive_of_numpy_is_read(save: Callable[..., None], tmp_path: Path) -> None:
    save(tmp_path / "x.npz", a=np.arange(6).reshape(2, 3), b=np.float32(1.5))
    found = npy.load_archive(tmp_path / "x.npz", lambda name: 64)
    assert (found["a"].tolist(), found["b"].shape, float(found["b"])) == ([[0, 1, 2], [3, 4, 5]], (), 1.5)


def test_an_array_in_a_file_is_read_or_mapped(tmp_path: Path) -> None:
    for name, array in {"full": np.asfortranarray(np.eye(3)), "none": np.zeros((0, 4), "u2")}.items():
        np.save(tmp_path / f"{name}.npy", array)
        for read in (npy.map_array, lambda path: npy.load_array(path, 1 << 20)):
            assert np.array_equal(read(tmp_path / f"{name}.npy"), array)
    (tmp_path / "full.npy").write_bytes(GOOD[:-1])
    for read in (npy.map_array, lambda path: npy.load_array(path, 1 << 20)):
        with pytest.raises(NotAnArray, match="states 64 bytes of elements, and 63 are there"):
            read(tmp_path / "full.npy")


def test_a_stated_size_asks_for_no_memory(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(with_header("{'descr':'<f8','fortran_order':False,'shape':(4000000000,)}"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for read in (npy.map_array, lambda path: npy.load_array(path, 1 << 40)):
        with pytest.raises(NotAnArray, match="states 32000000000 bytes"):
            read(tmp_path / "x.npy")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 14  # KiB
