"""Commands that write plans, stores, journals and checkpoints, each with what must hold after any fault.

A case has files `before`, a command line, and a judge. The judge looks at the folder that a fault has left and returns
`old` or `new`, or fails: nothing else may be there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from tests.support.faults import Left
from tests.support.stored_vectors import got
from tests.support.text_models import text_model
from tmmu.cli.entry import run
from tmmu.core.errors import TmmuError
from tmmu.ir import files
from tmmu.mnemosyne import anchors
from tmmu.mnemosyne.keys import MasterKey
from tmmu.mnemosyne.store import VectorStore
from tmmu.plans import file
from tmmu.runtime import journal

VECTORS = (np.arange(6 * 4).reshape(6, 4) * 7919 % 65521).astype(np.uint16)
OLD, NEW = "old", "new"


def command(line: str) -> int:
    """Run a command line of tmmu."""
    return run(line.split())


def _given(folder: Path) -> None:
    """Write what the commands read: two models, a plan, vectors, two keys."""
    np.save(folder / "v.npy", VECTORS)
    for name in ("k0", "k1"):
        MasterKey.create(folder / name)
    for node, name in (("Relu", "m"), ("Neg", "other")):
        files.save(text_model(f"node n {node} x -> y"), folder / f"{name}.ir.cbor")


@dataclass(frozen=True)
class FaultCase:
    """A command under faults. `prepare` is run in the folder `before`, `line` in a copy of it."""

    line: str
    judge: Callable[[Path, Path], str]
    prepare: tuple[str, ...] = ()
    is_printed: bool = False
    """Whether the command prints what is durable, before it ends."""

    def write_before(self, root: Path) -> None:
        """Write the folder `before`."""
        (root / "before").mkdir(parents=True)
        _given(root / "before")
        here = os.getcwd()
        os.chdir(root / "before")
        try:
            for line in self.prepare:
                assert command(line) == 0, line
        finally:
            os.chdir(here)

    def work(self) -> int:
        """Run the command in the working folder."""
        return command(self.line)

    def check(self, left: Left, root: Path) -> str:
        """Check what a fault has left, and return `OLD` or `NEW`."""
        fault, ended = left.fault, left.ended
        what = f"{fault} {left.folder}: {ended}"
        assert "internal error" not in ended.output, what
        assert "Traceback" not in ended.output, what
        assert ended.code in {"short": (0,), "kill": (-9,), "torn": (-9,)}.get(fault.kind, (0, 4)), what
        assert ended.is_reached, what
        found = self.judge(left.folder, root / "after")
        has_printed = self.is_printed and re.search(r"^\d+$", ended.output, re.MULTILINE)
        assert found == NEW or (ended.code != 0 and not has_printed), what
        if ended.code != -9 and fault.kind != "read-only" and "remove" not in ended.calls[fault.at : fault.at + 1]:
            assert not [name for name in os.listdir(left.folder) if name.startswith(".")], what
        return found


def same_file(name: str) -> Callable[[Path, Path], str]:
    """Return a judge of a file that is replaced as a whole."""

    def judge(folder: Path, after: Path) -> str:
        found, before = (folder / name).read_bytes(), (folder.parent / "before" / name).read_bytes()
        assert before != (after / name).read_bytes()
        assert found in (before, (after / name).read_bytes()), name
        return OLD if found == before else NEW

    return judge


def opened(folder: Path) -> tuple[int, int]:
    """Return the key that opens a store, of two, and the number of its vectors, which are those of whole puts."""
    found: list[tuple[int, int]] = []
    refused: list[str] = []
    for number in range(2):
        try:
            rows, _, _ = got(VectorStore(folder / "S", MasterKey.load(folder / f"k{number}")))
        except TmmuError as error:
            refused.append(error.code_id)
            continue
        assert len(rows) % len(VECTORS) == 0
        assert not len(rows) or (rows.reshape(-1, *VECTORS.shape) == VECTORS).all()
        found.append((number, len(rows)))
    assert (len(found), refused) == (1, ["WRONG_KEY"]), folder
    return found[0]


def judge_put(folder: Path, _after: Path) -> str:
    """Judge a store with one put of vectors, to which a second was added."""
    key, rows = opened(folder)
    assert (key, rows) in ((0, len(VECTORS)), (0, 2 * len(VECTORS)))
    os.chdir(folder)
    assert command("mnemosyne put S v.npy --key k0 --append --block 2") == 0  # and it goes on from there
    assert opened(folder) == (0, rows + len(VECTORS))
    return OLD if rows == len(VECTORS) else NEW


def judge_first_put(folder: Path, _after: Path) -> str:
    """Judge a store that did not exist."""
    os.chdir(folder)
    if not Path("S").exists() or command("mnemosyne get S --key k0 -o w.npy") != 0:
        assert command("mnemosyne put S v.npy --key k0 --block 2") == 0
        assert opened(folder) == (0, len(VECTORS))
        return OLD
    assert (np.load("w.npy") == VECTORS).all()
    return NEW


def judge_rekey(folder: Path, _after: Path) -> str:
    """Judge a store under one of two keys. The command, once more, has it under the second."""
    key, rows = opened(folder)
    assert rows == len(VECTORS)
    os.chdir(folder)
    assert command(REKEY) == 0
    assert opened(folder) == (1, rows)
    return OLD if key == 0 else NEW


def kept(store: Path) -> tuple[list[int], int]:
    """Return the numbers of the vectors of a store, which has them all in all ways, and how many it could compact."""
    opened_store = VectorStore(store, MasterKey.load(store.parent / "k0"))
    rows, numbers, found = got(opened_store)
    assert (rows == VECTORS[numbers]).all()
    _, state = opened_store.read(is_checked=True)
    assert state.anchored is not None
    with opened_store as single:
        assert single.numbers().tolist() == numbers.tolist()
        assert (single[:] == rows).all()
    return numbers.tolist(), found.marked


def judge_delete(folder: Path, _after: Path) -> str:
    """Judge a store of six vectors of which two were deleted, or none. It goes on from there."""
    numbers, _ = kept(folder / "S")
    assert numbers in ([0, 1, 2, 3, 4, 5], [0, 3, 4, 5])
    os.chdir(folder)
    assert command("mnemosyne delete S --key k0 --range 0:2") == 0
    assert command("mnemosyne compact S --key k0") == 0
    assert kept(folder / "S") == ([number for number in numbers if number > 1], 0)
    return OLD if len(numbers) == 6 else NEW


def judge_compact(folder: Path, _after: Path) -> str:
    """Judge a store of six vectors without two. The command, once more, removes these."""
    numbers, marked = kept(folder / "S")
    assert numbers == [0, 3, 4, 5]
    os.chdir(folder)
    assert command(COMPACT) == 0
    assert kept(folder / "S") == (numbers, 0)
    assert not Path(".S.new").exists()
    assert len(Path("S.anchor").read_bytes()) == anchors.SIZE
    return OLD if marked else NEW


def judge_snapshot(folder: Path, _after: Path) -> str:
    """Judge a snapshot of four vectors; if there is none, the command makes it."""
    os.chdir(folder)
    is_new = Path("T").exists() and Path("T.anchor").exists()
    if not Path("T").exists():
        assert command(SNAPSHOT) == 0
    for name, marked in (("S", 2), ("T", 0)):
        assert kept(folder / name) == ([0, 3, 4, 5], marked)
    assert command("mnemosyne put T v.npy --key k0 --append") == 0
    assert not Path(".T.new").exists() or Path(".T.new").samefile("T")
    return NEW if is_new else OLD


@cache
def plan_hash(path: Path) -> bytes:
    """Return the hash of a plan file."""
    return file.compute_hashes(file.load(path).plan)["plan_hash"]


def judge_journal(folder: Path, _after: Path) -> str:
    """Judge a journal of one commit, to which a second was added. A third is added to it."""
    made = journal.load(folder / "j", plan_hash(folder.parent / "before" / "p.plan.cbor")).batches
    assert made in (1, 2)
    os.chdir(folder)
    assert command("apply p.plan.cbor --journal j") == 0
    assert command("checkpoint p.plan.cbor --journal j -o c") == 0
    return OLD if made == 1 else NEW


PLAN = "plan m.ir.cbor -o p.plan.cbor"
PUT = "mnemosyne put S v.npy --key k0 --block 2"
DELETE = "mnemosyne delete S --key k0 --range 1:3"
COMPACT = "mnemosyne compact S --key k0"
SNAPSHOT = "mnemosyne snapshot S T --key k0"
REKEY = "mnemosyne rekey S --key k0 --new-key k1"
CASES = {
    "plan": FaultCase(PLAN, same_file("p.plan.cbor"), ("plan other.ir.cbor -o p.plan.cbor",)),
    "checkpoint": FaultCase(
        "checkpoint p.plan.cbor -o c", same_file("c"),
        ("plan other.ir.cbor -o p.plan.cbor", "checkpoint p.plan.cbor -o c", PLAN),
    ),
    "journal": FaultCase("apply p.plan.cbor --journal j", judge_journal, (PLAN, "apply p.plan.cbor --journal j")),
    "first put": FaultCase(PUT, judge_first_put),
    "put": FaultCase(f"{PUT} --append --ack", judge_put, (PUT,), is_printed=True),
    "rekey": FaultCase(REKEY, judge_rekey, (PUT,)),
    "delete": FaultCase(DELETE, judge_delete, (PUT,)),
    "compact": FaultCase(COMPACT, judge_compact, (PUT, DELETE)),
    "snapshot": FaultCase(SNAPSHOT, judge_snapshot, (PUT, DELETE)),
    "get": FaultCase(
        "mnemosyne get S --key k0 -o w.npy", same_file("w.npy"),
        (PUT, "mnemosyne get S --key k0 -o w.npy", f"{PUT} --append"),
    ),
}  # fmt: skip
