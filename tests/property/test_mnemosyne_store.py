"""Vectors that are put come back, whatever they are; and after each loss of power whole puts are there, or none.

spec: MN8.4, MN8.6, MN8.9, MN8.10, MN5.16
"""

from __future__ import annotations

import random
import tempfile
from functools import partial
from pathlib import Path

import ml_dtypes
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import sealed_logs
from tests.support.power import Disk, Remains, after_the_loss
from tests.support.sealed_logs import SECRET
from tests.support.stored_vectors import KINDS, got, second_vectors
from tmmu.core.errors import TmmuError
from tmmu.mnemosyne.keys import MasterKey
from tmmu.mnemosyne.npy_files import ArrayVectors
from tmmu.mnemosyne.store import VectorStore
from tmmu.mnemosyne.store_blocks import PutOptions

PUTS = st.lists(
    st.tuples(st.integers(0, 40), st.none() | st.integers(1, 50), st.booleans(), st.booleans()), min_size=1, max_size=4
)


@settings(deadline=None)
@given(st.sampled_from(KINDS), st.integers(0, 9), PUTS, st.integers(0, 1 << 32))
def test_all_bits_of_all_puts_come_back_in_their_order(
    kind: str, width: int, puts: list[tuple[int, int | None, bool, bool]], seed: int
) -> None:
    """Of random bits: NaN, infinities and all; a second reader finds the same. spec: MN8.2, MN8.6"""
    source = np.random.default_rng(seed)
    dtype = np.dtype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)
    expected, tokens = [], []
    with tempfile.TemporaryDirectory() as folder:
        store = VectorStore(Path(folder, "log"), MasterKey(SECRET))
        for count, block, has_ids, compress in puts:
            given = np.frombuffer(source.bytes(count * width * dtype.itemsize), dtype).reshape(count, width)
            ids = source.integers(0, 1 << 64, count, np.uint64) if has_ids else None
            store.put(ArrayVectors(given), PutOptions(block=block, compress=compress), ids)
            tokens += range(len(tokens), len(tokens) + count) if ids is None else ids.tolist()
            expected.append(given.view(f"u{dtype.itemsize}"))
        rows, numbers, found = got(store)
        whole = np.concatenate(expected)
        assert np.array_equal(rows.view(f"u{dtype.itemsize}"), whole)
        assert rows.dtype == (np.uint16 if kind == "bfloat16" else dtype)
        assert numbers.tolist() == tokens
        assert (found.vectors, found.puts, found.unfinished) == (len(whole), len(puts), 0)
        if not any(compress for *_, compress in puts):
            patterns, ids_there, _ = second_vectors(Path(folder, "log").read_bytes())
            assert np.array_equal(patterns.reshape(whole.shape), whole)
            assert all(there in (-1, token) for there, token in zip(ids_there, tokens, strict=True))


SECRETS = (SECRET, bytes(range(32)))


def opened(store: Path, anchor: Path) -> tuple[int, np.ndarray]:  # type: ignore[type-arg]
    """Which of the two keys opens a store, and its vectors; exactly one does."""
    found, refused = [], []
    for number, secret in enumerate(SECRETS):
        try:
            found.append((number, got(VectorStore(store, MasterKey(secret), anchor))[0].reshape(-1, 40)))
        except TmmuError as error:
            refused.append(error.code_id)
    assert (len(found), refused) == (1, ["WRONG_KEY"]) or not any(len(rows) for _, rows in found)  # before its header
    return found[0]


ACTIONS = st.lists(st.tuples(st.sampled_from(["put", "put", "rotate"]), st.integers(1, 9)), min_size=1, max_size=4)


@settings(deadline=None, max_examples=max(3, settings.default.max_examples // 3))
@given(ACTIONS, st.integers(0, 1 << 32))
def test_power_is_lost_at_every_point_of_puts_and_rotations(actions: list[tuple[str, int]], seed: int) -> None:
    """What was acknowledged is there, under one of the two keys; of the rest whole puts. spec: MN8.4, MN8.10, MN5.16"""
    choose = random.Random(seed).randrange
    state, current = Remains(None, None, 0), 0
    puts: list[np.ndarray] = []  # type: ignore[type-arg]
    with tempfile.TemporaryDirectory() as name, sealed_logs.sealings() as pairs:
        folder = Path(name).resolve()
        log, anchor = folder / "log", folder / "anchor"
        disk = Disk(folder)
        for action, count in actions:
            if action == "rotate" and not puts:
                continue
            begun = len(disk.done)
            with disk.recording():
                store = VectorStore(log, MasterKey(SECRETS[current]), anchor)
                if action == "put":
                    puts.append(np.random.default_rng(choose(1 << 30)).integers(0, 256, (count, 40), np.uint8))
                    acknowledge = partial(acknowledged, disk, sum(map(len, puts)))
                    store.put(ArrayVectors(puts[-1]), PutOptions(block=3), acknowledged=acknowledge)
                else:
                    current = 1 - current
                    store.rotate(MasterKey(SECRETS[current]))
            kept = (log.read_bytes(), anchor.read_bytes())
            remains = [after_the_loss(state, disk.done[:point], choose) for point in range(begun, len(disk.done) + 1)]
            ends = np.cumsum([0, *map(len, puts)]).tolist()
            whole = np.concatenate(puts)
            for left in remains:
                place(log, anchor, left.log, left.anchor)
                if left.log is None:
                    assert left.acknowledged == 0
                    continue
                _, rows = opened(log, anchor)
                assert len(rows) in ends
                assert len(rows) >= left.acknowledged
                assert np.array_equal(rows, whole[: len(rows)])
            if choose(2):
                place(log, anchor, *kept)
                continue
            state, disk = remains[choose(len(remains))], Disk(folder)
            place(log, anchor, state.log, state.anchor)
            if state.log is None:
                puts, current = [], 0
            else:
                current, rows = opened(log, anchor)
                del puts[ends.index(len(rows)) :]
    assert len(set(pairs)) == len(pairs)


def acknowledged(disk: Disk, count: int, _: int) -> None:
    disk.acknowledged(count)


def place(log: Path, anchor: Path, log_bytes: bytes | None, anchor_bytes: bytes | None) -> None:
    for path in log.parent.iterdir():
        path.unlink()
    for path, content in ((log, log_bytes), (anchor, anchor_bytes)):
        if content is not None:
            path.write_bytes(content)
