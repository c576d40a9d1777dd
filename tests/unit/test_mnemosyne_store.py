"""The store: what it writes, what it refuses, and that what is refused leaves it as it was.

spec: MN8.2 to MN8.7, MN8.13, MN8.14
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support.sealed_logs import key, read, second_reader
from tests.support.stored_vectors import got, put, second_vectors, store
from tmmu.core.errors import TmmuError
from tmmu.mnemosyne import mapped_file, store_blocks, vector_blocks
from tmmu.mnemosyne.npy_files import ArrayVectors, NpyVectors, open_npy_vectors, open_npy_writer
from tmmu.mnemosyne.regions import RegionStore
from tmmu.mnemosyne.sealed_log import SealedLog
from tmmu.mnemosyne.store import VectorStore
from tmmu.mnemosyne.store_blocks import PutOptions
from tmmu.mnemosyne.vector_blocks import VectorLayout, decode_block, default_block, encode_block

VECTORS = (np.arange(60).reshape(20, 3) * 7919 % 251).astype(np.float16)
LAYOUT = VectorLayout("lossless", "float16", 3)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_is_written_is_what_the_page_describes(tmp_path: Path) -> None:
    """Blocks of 8 in two puts, the second with token ids. spec: MN8.2, MN8.6"""
    put(tmp_path, VECTORS, block=8)
    ids = np.arange(5, dtype=np.uint64) + (1 << 63)
    found = put(tmp_path, VECTORS[:5], ids, block=4)
    patterns, tokens, places = second_vectors((tmp_path / "log").read_bytes())
    assert np.array_equal(patterns, np.concatenate([VECTORS, VECTORS[:5]]).view(np.uint16))
    assert tokens == [-1] * 20 + ids.tolist()
    assert places == [(0, 12), (1, 4), (2, 0), (0, 1), (1, 0)]
    assert (found.vectors, found.blocks, found.puts, found.with_ids, found.unfinished) == (25, 5, 2, 2, 0)
    assert found.raw == found.content == 25 * 6
    rows, numbers, again = got(store(tmp_path))
    assert again == found
    assert np.array_equal(rows, np.concatenate([VECTORS, VECTORS[:5]]))
    assert numbers.tolist() == [*range(20), *ids.tolist()]


def unfinished(folder: Path, left: int = 3) -> None:
    """A put that was killed before its last block."""
    with SealedLog.open(folder / "log", key()) as log:
        log.append(20, encode_block(LAYOUT, VECTORS[:4], 0, 4 + left))
        log.append(24, encode_block(LAYOUT, VECTORS[:4], 1, left))
        log.sync()
        log.abandon()


def test_a_put_without_its_end_is_not_read_and_cut_off_by_the_next(tmp_path: Path) -> None:
    """spec: MN8.4"""
    put(tmp_path, VECTORS, block=8)
    unfinished(tmp_path)
    rows, _, found = got(store(tmp_path))
    assert np.array_equal(rows, VECTORS)
    assert (found.vectors, found.unfinished, len(read(tmp_path / "log"))) == (20, 2, 6)
    put(tmp_path, VECTORS[::-1], block=20)
    rows, _, found = got(store(tmp_path))
    assert np.array_equal(rows, np.concatenate([VECTORS, VECTORS[::-1]]))
    assert (found.blocks, found.unfinished, len(read(tmp_path / "log"))) == (4, 0, 6)


def test_a_store_that_has_an_unfinished_put_alone_is_as_one_without_vectors(tmp_path: Path) -> None:
    """Into which one puts without appending. spec: MN8.4, MN8.5"""
    unfinished(tmp_path)
    assert got(store(tmp_path))[2].vectors == 0
    store(tmp_path).put(ArrayVectors(VECTORS[:, :2]), append=False)
    assert np.array_equal(got(store(tmp_path))[0], VECTORS[:, :2])
    assert [part.kind[0] for part in second_reader((tmp_path / "log").read_bytes())] == list("hhrrt")


def test_vectors_that_do_not_fit_are_refused_and_the_store_is_as_it_was(tmp_path: Path) -> None:
    """Also where it shows only in a later block. spec: MN8.5, MN8.13"""
    put(tmp_path, VECTORS, block=8)
    before = content(tmp_path)
    bad = VECTORS.astype(np.float32)
    bad[13, 2] = np.nan
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: put(tmp_path, VECTORS[:, :2]), "vectors of 2 float16, lossless do not fit into a store of 3 float16"),
        (lambda: put(tmp_path, VECTORS.astype(np.float32)), "vectors of 3 float32, lossless do not fit"),
        (lambda: put(tmp_path, VECTORS, mode="int8"), "vectors of 3 float16, int8 do not fit"),
        (lambda: store(tmp_path).put(ArrayVectors(VECTORS), append=False), "the store already has 20 vectors"),
        (lambda: put(tmp_path, VECTORS, np.zeros(19, np.uint64)), "expected 20 token ids"),
        (lambda: put(tmp_path, VECTORS, block=1 << 27), "more than 268435456 bytes"),
    ]
    for case, message in cases:
        with pytest.raises(TmmuError, match=message) as refused:
            case()
        assert refused.value.code_id == "INVALID_VECTORS"
        assert content(tmp_path) == before
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(TmmuError, match="vector 13 element 2: nan is not finite"):
        put(other, bad, mode="int8", block=4)
    assert content(other) == {}
    put(other, VECTORS.astype(np.float32), mode="int8", block=4)
    before = content(other)
    with pytest.raises(TmmuError, match="vector 13 element 2: nan is not finite"):
        put(other, bad, block=4)
    assert content(other) == before


def test_an_empty_put_has_a_layout_and_empty_vectors_are_stored(tmp_path: Path) -> None:
    """spec: MN8.5, MN8.6"""
    put(tmp_path, VECTORS[:0])
    assert (got(store(tmp_path))[0].shape, got(store(tmp_path))[0].dtype) == ((0, 3), np.float16)
    with pytest.raises(TmmuError, match="do not fit"):
        put(tmp_path, VECTORS[:, :2])
    put(tmp_path, VECTORS[:0], np.zeros(0, np.uint64))
    put(tmp_path, VECTORS)
    assert got(store(tmp_path))[2].puts == 3
    assert np.array_equal(got(store(tmp_path))[0], VECTORS)
    (tmp_path / "narrow").mkdir()
    put(tmp_path / "narrow", VECTORS[:, :0], compress=True, block=3)
    assert got(store(tmp_path / "narrow"))[0].shape == (20, 0)


@pytest.mark.parametrize("mode", ["float", "int8"])
@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32"])
def test_modes_that_round_give_float32_within_their_bound(mode: str, kind: str, tmp_path: Path) -> None:
    """spec: MN8.6"""
    given = np.cumsum(np.random.default_rng(3).standard_normal((50, 8)), 0).astype(
        ml_dtypes.bfloat16 if kind == "bfloat16" else kind
    )
    if mode == "float" and kind == "float16":
        with pytest.raises(TmmuError, match="float subtraction takes float32"):
            put(tmp_path, given, mode=mode)
        return
    put(tmp_path, given, mode=mode, block=7, compress=True)
    rows, _, found = got(store(tmp_path))
    assert rows.dtype == np.float32
    error = np.abs(rows.astype(np.float64) - given.astype(np.float64)).max()
    assert 0 < error < 0.05 if mode == "int8" else error < 1e-5
    assert found.compressed == found.blocks == 8
    assert put(tmp_path, given, block=50).layout == VectorLayout(mode, kind, 8)  # the mode of the store
    if mode == "int8":
        item = 2 if kind == "float16" else 4
        (tmp_path / "plain").mkdir()
        assert put(tmp_path / "plain", given, mode=mode, block=50).content == 8 * item + 49 * 12


def foreign(folder: Path, *records: bytes | memoryview) -> VectorStore:
    with SealedLog.open(folder / "log", key(), folder / "anchor") as log:
        for record in records:
            log.append(0, record)
    return store(folder)


BLOCK = encode_block(LAYOUT, VECTORS[:4], 0, 0)
FIRST, SECOND = encode_block(LAYOUT, VECTORS[:4], 0, 3), encode_block(LAYOUT, VECTORS[:3], 1, 0)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([b"no block"], "expected version 1 or 3 of a block, got 110"),
        ([b""], "not a block of vectors"),
        ([b"\x01\x00"], "not a block of vectors"),
        ([bytes(BLOCK)[:1] + b"\x09" + bytes(BLOCK)[2:]], "not a block of vectors"),
        ([bytes(BLOCK)[:3] + b"\x63" + bytes(BLOCK)[4:]], "not a block of vectors"),
        ([struct.pack(">BBBBIIIQ", 1, 0, 1, 8, 3, 9, 0, 0) + bytes(9)], "not a block of vectors"),
        ([struct.pack(">BBBBIIIQ", 1, 0, 0, 8, 0, 1 << 31, 0, 0)], "not a block of vectors: 2147483648 of 0 elements"),
        ([struct.pack(">BBBBIIIQ", 1, 0, 2, 8, 1 << 20, 1 << 20, 0, 0)], "not a block of vectors: 1048576 of 1048576"),
        ([SECOND], "does not follow the one before"),
        ([FIRST, FIRST], "does not follow the one before"),
        ([FIRST, encode_block(LAYOUT, VECTORS[:3], 2, 0)], "does not follow the one before"),
        ([FIRST, encode_block(LAYOUT, VECTORS[:2], 1, 0)], "does not follow the one before"),
        ([FIRST, BLOCK], "does not follow the one before"),
        ([FIRST, encode_block(LAYOUT._replace(width=2), VECTORS[:3, :2], 1, 0)], "does not follow the one before"),
        ([BLOCK, encode_block(LAYOUT._replace(width=2), VECTORS[:3, :2], 0, 0)], "does not follow the one before"),
        ([bytes(BLOCK)[:-1]], r"not a block of vectors \(expected 24 bytes, got 23\)"),
        ([bytes(BLOCK)[:2] + b"\x02" + bytes(BLOCK)[3:]], "not a block of vectors"),
        ([encode_block(LAYOUT, VECTORS[:5], 0, 0, compress=True)[:8].tobytes() + struct.pack(">I", 4)
          + encode_block(LAYOUT, VECTORS[:5], 0, 0, compress=True)[12:].tobytes()],
              "a frame of 24 bytes, got another size"),
    ],
)  # fmt: skip
def test_a_log_that_is_no_store_is_refused(records: list[bytes | memoryview], message: str, tmp_path: Path) -> None:
    """spec: MN8.14"""
    opened = foreign(tmp_path, *records)
    before = content(tmp_path)
    with pytest.raises(TmmuError, match=message) as refused:
        got(opened)
    assert refused.value.code_id == "INVALID_LOG"
    if "24 bytes" not in message and records[0][2:3] != b"\x02":
        with pytest.raises(TmmuError, match=message):  # a writer looks at heads alone
            put(tmp_path, VECTORS)
        assert content(tmp_path) == before
    assert got(foreign(_fresh(tmp_path), FIRST, SECOND, BLOCK))[2].vectors == 11


def _fresh(folder: Path) -> Path:
    (folder / "fresh").mkdir()
    return folder / "fresh"


def npy(folder: Path, array: np.ndarray[Any, Any]) -> str:
    np.save(folder / "v.npy", array)
    return str(folder / "v.npy")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (VECTORS.T, "stored by columns"),
        (VECTORS[0], "expected 2 dimensions, got 1"),
        (VECTORS[None], "expected 2 dimensions, got 3"),
        (VECTORS > 3, "elements of type dtype"),
        (VECTORS.astype(">f2"), "elements of type dtype"),
        (VECTORS.astype(complex), "elements of type dtype"),
        (np.zeros((2, 2), "V3"), "elements of type dtype"),
        (np.zeros((2, 2), "i1,i1"), "elements of several fields"),
    ],
)
def test_a_file_without_such_vectors_is_refused(array: np.ndarray[Any, Any], message: str, tmp_path: Path) -> None:
    """spec: MN8.5"""
    with RegionStore() as regions:
        with pytest.raises(TmmuError, match=message) as refused, open_npy_vectors(npy(tmp_path, array), regions):
            pass
        assert (refused.value.code_id, refused.value.file) == ("INVALID_VECTORS", str(tmp_path / "v.npy"))


def test_a_file_that_is_cut_off_foreign_or_none_is_refused(tmp_path: Path) -> None:
    """spec: MN8.5"""
    whole = Path(npy(tmp_path, VECTORS)).read_bytes()
    pickled = tmp_path / "p.npy"
    np.save(pickled, np.array([[None]]), allow_pickle=True)
    os.mkfifo(tmp_path / "pipe")
    for data, message in ((whole[:-1], "it is cut off"), (b"%PDF", "not a NumPy file"), (b"", "not a NumPy file"),
                          (whole[:20], "not a NumPy file"), (pickled.read_bytes(), "elements")):  # fmt: skip
        (tmp_path / "v.npy").write_bytes(data)
        with RegionStore() as regions, pytest.raises(TmmuError, match=message):
            open_npy_vectors(str(tmp_path / "v.npy"), regions).__enter__()
    for name, message in (("none", "cannot be read"), ("pipe", "not a regular file"), (".", "it is a folder")):
        with RegionStore() as regions, pytest.raises(TmmuError, match=message):
            open_npy_vectors(str(tmp_path / name), regions).__enter__()
    with pytest.raises(TmmuError, match="got 1"):
        ArrayVectors(VECTORS[0])


def test_files_of_other_versions_of_the_header_are_read(tmp_path: Path) -> None:
    with open(tmp_path / "v.npy", "wb") as file:
        np.lib.format.write_array(file, VECTORS, (2, 0))
    with RegionStore() as regions, open_npy_vectors(str(tmp_path / "v.npy"), regions) as source:
        assert np.array_equal(source.rows(3, 9), VECTORS[3:9])
        del source


def test_files_are_read_in_windows_and_arrays_of_an_earlier_one_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: MN8.3"""
    monkeypatch.setattr(mapped_file, "WINDOW", 1 << 15)
    vectors = np.arange(1 << 16, dtype=np.uint32).reshape(-1, 16)
    with RegionStore() as regions:
        with open_npy_vectors(npy(tmp_path, vectors), regions) as source:
            assert isinstance(source, NpyVectors)
            held = source.rows(0, 100)
            most = 0
            for start in range(0, len(vectors), 128):
                assert np.array_equal(source.rows(start, start + 128), vectors[start : start + 128])
                most = max(most, regions.mapped_bytes)
            assert np.array_equal(held, vectors[:100])
            assert most <= 3 << 15
            del held
        assert regions.regions == ()
    put(tmp_path, vectors, block=100)
    assert np.array_equal(got(store(tmp_path))[0], vectors)


def test_a_file_that_is_truncated_while_it_is_read_is_lost_and_nothing_is_put(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zeros that a lost mapping reads are never stored. spec: MN8.13, MN2.6"""
    monkeypatch.setattr(mapped_file, "WINDOW", 1 << 14)
    monkeypatch.setattr(store_blocks, "AT_A_TIME", 1 << 15)
    vectors = np.ones((1 << 12, 16), np.uint32)
    name = npy(tmp_path, vectors)
    rows = NpyVectors.rows

    def truncating(self: NpyVectors, start: int, stop: int) -> Any:
        if start == 2048:
            os.truncate(name, 1000)
        return rows(self, start, stop)

    monkeypatch.setattr(NpyVectors, "rows", truncating)
    with RegionStore() as regions, pytest.raises(TmmuError) as refused, open_npy_vectors(name, regions) as source:
        store(tmp_path).put(source, PutOptions(block=512))
    assert refused.value.code_id in ("REGION_LOST", "REGION_REFUSED")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["v.npy"]


def test_a_written_file_is_that_of_numpy_and_what_comes_after_its_end_is_cut_off(tmp_path: Path) -> None:
    """spec: MN8.6"""
    for kind in ("int8", "float16", "float64", "bfloat16"):
        array = VECTORS.astype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)
        bits = array.view(np.uint16) if kind == "bfloat16" else array
        with open_npy_writer(str(tmp_path / "w.npy")) as written:
            written.write(5, bits[5:], kind)
            written.write(0, bits[:5], kind)
            written.end(11, 3, kind)
        np.save(tmp_path / "v.npy", array[:11])
        assert (tmp_path / "w.npy").read_bytes() == (tmp_path / "v.npy").read_bytes()


def test_a_block_is_about_8_kibibytes_if_its_size_is_not_given() -> None:
    """And 64 if it is compressed or rounded. spec: MN8.2, MN10.7"""
    assert default_block(VectorLayout("lossless", "float32", 512)) == 4
    assert default_block(VectorLayout("lossless", "float32", 512), True) == 32
    assert default_block(VectorLayout("int8", "float32", 512)) == 32
    assert default_block(VectorLayout("lossless", "float16", 4096)) == 1
    assert default_block(VectorLayout("lossless", "uint8", 1)) == 1024
    assert default_block(VectorLayout("lossless", "float64", 1 << 20)) == 1
    assert default_block(VectorLayout("lossless", "float64", 0)) == 1024


def test_without_the_package_the_command_that_installs_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, VECTORS, compress=True)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    for call in (lambda: put(tmp_path, VECTORS, compress=True), lambda: got(store(tmp_path))):
        with pytest.raises(TmmuError, match=r"zstandard; .*zstandard|zstandard; .*zstd") as refused:
            call()
        assert refused.value.code_id == "MISSING_PACKAGE"


def test_an_error_of_what_consumes_the_blocks_is_that_of_the_reading(tmp_path: Path) -> None:
    """Wherever it comes: in the last block, or behind it. spec: MN8.7"""
    put(tmp_path, VECTORS, block=2)
    for at in (0, 8, 18):

        def consume(first: int, _: object, at: int = at) -> None:
            if first == at:
                raise KeyError(first)

        with pytest.raises(KeyError):
            store(tmp_path).read(consume)


def test_a_block_is_compressed_where_it_is_asked_for(tmp_path: Path) -> None:
    equal = np.ones((64, 16), np.float32)
    assert put(tmp_path, equal, compress=True).content < equal.nbytes // 10
    assert np.array_equal(got(store(tmp_path))[0], equal)
    block = decode_block(encode_block(VectorLayout("lossless", "float32", 16), equal, 0, 0), "", "")
    assert not block.is_compressed
    assert vector_blocks.HEAD.size == 24
