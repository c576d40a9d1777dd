"""Common parts of `tmmu apply`, `tmmu restore` and `tmmu checkpoint`: a plan in real memory, and its record.

spec: U7.1, U7.2, U7.6, U7.7
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tmmu.cli.options import RecordOptions
from tmmu.cli.units import seconds
from tmmu.core import records as sequence
from tmmu.core.errors import TmmuError
from tmmu.core.output import count_noun, format_json, format_size, print_lines, print_text
from tmmu.core.progress import progress
from tmmu.plans import file
from tmmu.plans.sections import Plan
from tmmu.runtime.events import EventLog
from tmmu.runtime.execution import Execution
from tmmu.runtime.recording import RunRecords
from tmmu.runtime.records import errors, metrics
from tmmu.runtime.records.ledger import Ledger, of_steps
from tmmu.runtime.records.schema import STATUS
from tmmu.runtime.records.trace import Trace


def event_log(path: str | None) -> EventLog | None:
    """The event log that was asked for."""
    return None if path is None else EventLog(path)


def load(path: str) -> Plan:
    """A plan all of whose hashes recompute."""
    stated = file.load(path)
    for field, found, expected in file.find_false_hashes(stated):
        raise TmmuError(
            "REPLAY_DIVERGENCE",
            f"the file states {found.hex()[:16]}…, it is {expected.hex()[:16]}…",
            file=path,
            place=field,
            fix="write the plan again; `verify-plan` reports what is wrong with it",
            operator="UML_OS.TMMU.ApplyPlan_v1",
            expected=expected,
            found=found,
        )
    return stated.plan


@dataclass
class Failure:
    """The context that the record of a failure needs."""

    plan: Plan | None = None


@contextmanager
def record_failures(path: str | None) -> Iterator[Failure]:
    """Write the error record of whatever is refused inside."""
    known = Failure()
    try:
        yield known
    except TmmuError as error:
        token, rank = (
            (errors.NO_TOKEN, 0) if known.plan is None else (known.plan.origin.replay_token, known.plan.origin.rank)
        )
        errors.emit(error, path, replay_token=token, rank=rank)


@contextmanager
def open_execution(
    name: str, files: RecordOptions, log: EventLog | None, make: Callable[[RunRecords], Execution]
) -> Iterator[Execution]:
    """Yield an execution that is made with records, and closed at the end.

    Its trace and ledger are written when it is there, and also if it could not be made.
    """
    trace, ledger = Trace(), Ledger()
    records = RunRecords(ledger=ledger, trace=trace, journal=files.journal, events=log, hash_contents=files.contents)
    try:
        with progress(name) as doing:
            doing("mapping and zeroing arenas")
            execution = make(records)
    except TmmuError as error:
        error.in_file(name)
        if files.trace is not None and trace.records:
            trace.save(files.trace)
        if files.ledger is not None:
            sequence.write(ledger.records, files.ledger)
        raise
    with execution:
        if files.trace is not None:
            trace.save(files.trace)
        if files.ledger is not None:
            for counters in of_steps(execution.plan, execution.bytes_allocated):
                ledger.stepped(execution.state.batches, counters)
            sequence.write(ledger.records, files.ledger)
        yield execution


def print_applied(name: str, execution: Execution, style: str) -> None:
    """Print what was mapped, and the state that was committed."""
    document = _document(execution)
    if style == "json":
        print_text(format_json(document))
    else:
        print_lines(*_text(name, document))


def _document(execution: Execution) -> dict[str, Any]:
    memory = execution.memory
    return {
        "model": execution.plan.origin.model,
        "execution_mode": execution.execution_mode,
        "plan_hash": execution.plan_hash.hex(),
        "bytes_allocated": execution.bytes_allocated,
        "reused_arenas": execution.origin,
        "arenas": [
            {
                "name": found.arena.name,
                "bytes": found.extent.size,
                "memory": next((each.name for each in memory.mappings if each.is_memory and a in each.arenas), None),
                "alignment": found.extent.alignment,
                "reuse": found.arena.reuse,
            }
            for a, found in enumerate(memory.arenas)
        ],
        "mappings": [
            {
                "name": each.name,
                "is_memory": each.is_memory,
                "bytes": each.size,
                "bytes_allocated": each.reserved,
                "arenas": {memory.arenas[a].arena.name: at for a, at in zip(each.arenas, each.at, strict=True)},
            }
            for each in memory.mappings
        ],
        "metrics": metrics.of_plan(execution.plan),
        "status": STATUS[0],
        "allocation_time_ns": execution.allocation_time_ns,
        "batches": execution.state.batches,
        "state_hash": execution.state.state_hash.hex(),
    }


def _text(name: str, document: dict[str, Any]) -> Iterator[str]:
    yield f"applied {name}: {document['bytes_allocated']} bytes ({format_size(document['bytes_allocated'])}) in memory"
    for arena in document["arenas"]:
        if arena["bytes"]:
            kind = document["reused_arenas"] if arena["reuse"] else "persistent"
            yield f"  {arena['name']}: {arena['bytes']} bytes, aligned to {arena['alignment']}, {kind}"
    for mapping in document["mappings"]:
        if mapping["is_memory"] and mapping["bytes"]:
            parts = ", ".join(f"{name} at {at}" for name, at in mapping["arenas"].items())
            yield f"  memory {mapping['name']}: {mapping['bytes']} bytes in one mapping: {parts}"
    yield f"  {document['status']}, applied in {seconds(document['allocation_time_ns'])}"
    yield f"  plan {document['plan_hash']}"
    yield f"  {count_noun(document['batches'], 'batch', 'batches')}, state {document['state_hash']}"
