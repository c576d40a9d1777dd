"""Deletions, compactions and snapshots in any order, beside a dictionary of vectors.

spec: MN11.1 to MN11.5, MN11.8
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.effort import share
from tests.support.sealed_logs import key
from tests.support.stored_vectors import got
from tmmu.core.errors import TmmuError
from tmmu.mnemosyne import VectorStore, compaction, store_blocks, store_index
from tmmu.mnemosyne.npy_files import ArrayVectors
from tmmu.mnemosyne.store_blocks import PutOptions

SEEDS = share(20)


class Model:
    """What a store has: vectors by number as it first returned them, and the last number of each token id."""

    def __init__(self) -> None:
        self.rows: dict[int, NDArray[Any]] = {}
        self.ids: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.end = 0

    def check(self, path: Path) -> None:
        """Compare all ways of reading with it."""
        there = sorted(self.rows)
        with VectorStore(path, key()) as opened:
            opened.check_index()
            assert len(opened) == len(there)
            assert opened.numbers().tolist() == there
            assert opened.numbers(3, 12).tolist() == [number for number in there if 3 <= number < 12]
            for number in range(-self.end, self.end):
                if number % self.end in self.rows:
                    assert same(opened.get(number), self.rows[number % self.end])
                else:
                    refused(partial(opened.get, number), "was deleted")
            for token in range(130):
                number = self.last.get(token, -1)
                if number in self.rows:
                    assert same(opened.get(token_id=token), self.rows[number]), (token, number)
                else:
                    refused(partial(opened.get, token_id=token), "")
            for part in (slice(2, 40, 3), slice(30, 1, -2), slice(-9, None)):
                numbers = [number for number in range(*part.indices(self.end)) if number in self.rows]
                assert same(opened[part], self.stacked(numbers, opened[:]))
            assert same(np.array(list(opened)), self.stacked(there, np.array(list(opened))))
        rows, ids, found = got(VectorStore(path, key()))
        assert same(rows, self.stacked(there, rows))
        assert ids.tolist() == [self.ids[number] for number in there]
        assert (found.there, found.vectors) == (len(there), self.end)

    def stacked(self, numbers: list[int], like: NDArray[Any]) -> NDArray[Any]:
        return np.array([self.rows[number] for number in numbers], like.dtype).reshape(len(numbers), *like.shape[1:])


def same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Bit for bit."""
    return one.tobytes() == other.tobytes()


def refused(call: Any, text: str) -> None:
    with pytest.raises(TmmuError) as error:
        call()
    assert error.value.code_id == "INVALID_VECTORS"
    assert text in str(error.value)


@contextlib.contextmanager
def small_index(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """An index of several levels and pages, and copies of several puts, for few vectors."""
    values = {"TAIL": 300, "FANOUT": 3, "PAIRS": 4, "FENCES": 2, "MERGED": 64, "CACHED": 2}
    with patch.context() as changed:
        for name, value in values.items():
            changed.setattr(store_index, name, value)
        changed.setattr(compaction, "AT_A_TIME", 200)
        changed.setattr(store_blocks, "AT_A_TIME", 200)
        yield


@pytest.mark.parametrize(
    ("kind", "mode", "compress"),
    [("uint16", "lossless", False), ("float32", "lossless", True), ("float32", "float", False),
     ("float16", "int8", False), ("float32", "int8", True)],
)  # fmt: skip
@pytest.mark.parametrize("is_small", [False, True])
def test_a_store_has_what_was_put_and_not_deleted_whatever_is_done_to_it(
    kind: str, mode: str, compress: bool, is_small: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_index(monkeypatch) if is_small else contextlib.nullcontext():
        for seed in range(SEEDS):
            folder = tmp_path / str(seed)
            folder.mkdir()
            go_through(folder, np.random.default_rng(seed), kind, PutOptions(mode=mode, compress=compress))


def go_through(folder: Path, choose: np.random.Generator, kind: str, options: PutOptions) -> None:
    """Put, append, delete, compact and take snapshots at random."""
    path, model = folder / "log", Model()
    compacted = 0
    for turn in range(int(choose.integers(5, 12))):
        what = "put" if not turn else str(choose.choice(["put", "append", "delete", "delete", "compact", "snapshot"]))
        if what in ("put", "append"):
            add(path, model, choose, kind, options, is_put=what == "put")
        elif what == "delete":
            delete(path, model, choose)
        elif what == "compact":
            found = VectorStore(path, key()).compact()
            assert (found.there, found.marked) == (len(model.rows), 0)
            compacted += 1
        else:
            snapshot = folder / f"snapshot {turn}"
            found = VectorStore(path, key()).snapshot(snapshot)
            assert (found.there, found.marked) == (len(model.rows), 0)
            model.check(snapshot)
        model.check(path)


def add(path: Path, model: Model, choose: np.random.Generator, kind: str, options: PutOptions, *, is_put: bool) -> None:
    count = int(choose.integers(0, 25 if is_put else 3))
    rows = (choose.standard_normal((count, 6)) * 30).astype(kind)
    ids = choose.integers(0, 130, count).astype(np.uint64) if choose.random() < 0.5 else None
    if is_put:
        block = int(choose.integers(1, 9))
        store = VectorStore(path, key())
        store.put(ArrayVectors(rows), PutOptions(options.mode, block, options.compress), ids)
    else:
        with VectorStore(path, key()) as opened:
            opened.append(rows, ids)
    with VectorStore(path, key()) as opened:
        for at in range(count):
            number = model.end + at
            token = number if ids is None else int(ids[at])
            model.rows[number], model.ids[number] = opened.get(number).copy(), token
            model.last[token] = number
    model.end += count


def delete(path: Path, model: Model, choose: np.random.Generator) -> None:
    there, how = sorted(model.rows), int(choose.integers(4))
    with VectorStore(path, key()) as opened:
        if how == 0:
            some = [int(each) for each in choose.permutation(there)[: int(choose.integers(0, 9))]]
            assert opened.delete(some) == len(some)
        elif how == 1:
            first, step = int(choose.integers(0, model.end + 1)), int(choose.integers(1, 5))
            some = [number for number in range(first, model.end, step) if number in model.rows][:30]
            assert opened.delete(slice(first, some[-1] + 1 if some else first, step)) == len(some)
        elif how == 2:
            tokens = [token for token, number in model.last.items() if number in model.rows]
            some = []
            if tokens:
                token = int(choose.choice(tokens))
                assert opened.delete(token_id=token) == 1
                some = [model.last[token]]
        else:
            some = there[-1:]
            if some:
                assert opened.delete(some[0] - model.end) == 1
        for number in some:
            refused(partial(opened.delete, [number]), "was deleted")
            refused(partial(opened.get, number), "was deleted")
        for number in some:
            del model.rows[number]
        assert len(opened) == len(model.rows)
