"""Readers in other processes while a writer appends, deletes and compacts, and is killed.

spec: MN11.9, MN11.6, MN5.16
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.support.effort import share
from tests.support.sealed_logs import SECRET
from tests.support.stored_vectors import got
from tests.support.writers import numbered
from tmmu.mnemosyne import VectorStore
from tmmu.mnemosyne.keys import MasterKey

ROOT = Path(__file__).resolve().parents[2]

WRITER = """
import json, random, sys
from pathlib import Path
from tests.support.sealed_logs import SECRET
from tests.support.writers import acknowledge, numbered
from tmmu.mnemosyne import VectorStore
from tmmu.mnemosyne.keys import MasterKey

folder, choose = Path(sys.argv[1]), random.Random(int(sys.argv[2]))
store = VectorStore(folder / "S", MasterKey(SECRET))
while True:
    with store as opened:
        for _ in range(3):
            end, there = opened.append(numbered(0, 0).reshape(0, 8)), opened.numbers().tolist()
            if choose.random() < 0.5 or len(there) < 20:
                count = choose.randrange(1, 5)
                acknowledge(folder, json.dumps(there + list(range(end, end + count))))
                opened.append(numbered(end, count))
            else:
                some = choose.sample(there, choose.randrange(1, 9))
                acknowledge(folder, json.dumps([number for number in there if number not in some]))
                opened.delete(some)
            acknowledge(folder, "done")
    store.compact()
"""
"""Writes the numbers that the store will have before each change, and after it that the change is durable."""

TURNS = share(8)


def notes(folder: Path) -> tuple[list[list[int]], bool]:
    """The states of the store in their order, and whether the last one is durable."""
    lines = (folder / "acks").read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith("[")], lines[-1:] == ["done"]


def test_a_reader_sees_a_state_that_was_acknowledged_or_a_later_one(tmp_path: Path) -> None:
    """Never a part of a change, nor an error, whatever the writer does just then; also after it was killed."""
    seen = set()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    key = MasterKey(SECRET)
    with VectorStore(tmp_path / "S", key) as store:
        store.append(numbered(0, 1))
    (tmp_path / "acks").write_text("[0]\ndone\n")
    for turn in range(TURNS):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(turn)], env=environment)
        begun = len(notes(tmp_path)[0])
        try:
            while len(notes(tmp_path)[0]) < begun + 12:
                assert writer.poll() is None
                seen.add(look(tmp_path, key))
        finally:
            writer.kill()
            writer.wait()
        states, is_done = notes(tmp_path)
        last = look(tmp_path, key)
        assert last == len(states) - 1 or (not is_done and last == len(states) - 2)
        drop_what_was_not_done(tmp_path, last)
    assert len(seen) > TURNS


def drop_what_was_not_done(folder: Path, last: int) -> None:
    """Leave the states up to the one that is there, so that the next writer goes on from it."""
    states = notes(folder)[0][: last + 1]
    (folder / "acks").write_text("".join(f"{json.dumps(state)}\ndone\n" for state in states))


def look(folder: Path, key: MasterKey) -> int:
    """Read the store by its index and as a whole; return which state it has, by the last of both."""
    at = -1
    for way in ("index", "whole"):
        states, is_done = notes(folder)
        acknowledged = len(states) - 1 if is_done else len(states) - 2
        if way == "index":
            with VectorStore(folder / "S", key) as opened:
                found, rows = opened.numbers().tolist(), opened[:]
        else:
            rows, ids, _ = got(VectorStore(folder / "S", key))
            found = ids.tolist()
            rows = rows.reshape(len(found), 8)
        states, _ = notes(folder)
        possible = [n for n in range(acknowledged, len(states)) if states[n] == found]
        assert possible, (way, found, states[acknowledged:])
        assert np.array_equal(rows, numbered(0, 1 << 12)[found])
        at = possible[0]
    return at
