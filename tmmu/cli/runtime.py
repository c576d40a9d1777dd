"""`tmmu apply`, `tmmu checkpoint`, `tmmu restore`: a plan in real memory, and what is kept of it.

spec: U7.1, U7.2, U7.6, U7.7
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tmmu.cli.training import memory as amount
from tmmu.cli.units import size
from tmmu.core.errors import TmmuError, one_line
from tmmu.core.flags import existing
from tmmu.core.vocabulary import EXECUTION_MODES

if TYPE_CHECKING:
    from tmmu.plan.sections import Plan
    from tmmu.runtime.events import EventLog
    from tmmu.runtime.execution import Execution

Command = TypeVar("Command", bound=Callable[..., Any])
output = click.Path(dir_okay=False)


def options(command: Command) -> Command:
    """What applying and restoring have in common."""
    for option in (
        click.option("--format", "style", type=click.Choice(["text", "json"]), default="text", show_default=True),
        click.option("--contents", is_flag=True, help="Let the commit cover the bytes of all arenas."),
        click.option("--errors", type=output, metavar="FILE", help="Where to write the error record of a failure."),
        click.option("--journal", type=output, metavar="FILE", help="Where commits are kept; made if it is not there."),
        click.option("--events", type=output, metavar="FILE", help="Add what happens to this event log."),
        click.option("--ledger", type=output, metavar="FILE", help="Where to write the resource counters."),
        click.option("--trace", "trace_file", type=output, metavar="FILE", help="Where to write the trace."),
        click.option("--budget", callback=amount, metavar="BYTES", help="The most memory to take: 24GiB, or bytes."),
        click.option(
            "--mode", type=click.Choice(EXECUTION_MODES), default="local", show_default=True, help="How it is run."
        ),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("plan", type=existing)
@options
@click.option("--huge-pages", is_flag=True, help="Ask the system for huge pages.")
@click.option(
    "--debug-fill",
    type=click.IntRange(0, (1 << 128) - 1),
    metavar="SEED",
    help="Fill with a pattern, not with zeros (local and managed).",
)
def apply(plan: str, huge_pages: bool, debug_fill: int | None, **flags: Any) -> int:
    """Put the arenas of PLAN into memory, all or none, and commit. `verify-plan` proves plans; this looks at hashes."""
    from tmmu.runtime.apply import apply_plan

    apart(plan, *_written(flags))
    with recorded(flags["errors"]) as failure:
        failure.plan = loaded = _loaded(plan)
        flags["events"] = _log(flags)
        with _applied(
            plan, flags, lambda **given: apply_plan(loaded, huge_pages=huge_pages, debug_seed=debug_fill, **given)
        ) as execution:
            _print(plan, execution, flags)
    return 0


@click.command()
@click.argument("plan", type=existing)
@click.option("-o", "--output", "target", type=output, required=True, help="Where to write the checkpoint.")
@click.option("--journal", type=existing, help="The journal whose last sealed state the checkpoint has.")
def checkpoint(plan: str, target: str, journal: str | None) -> int:
    """Write the checkpoint of PLAN: its slots, live ranges and metrics, with the state that a journal has sealed."""
    from tmmu.core import canonical
    from tmmu.plan import file
    from tmmu.runtime import checkpoint as checkpoints
    from tmmu.runtime import journal as journals

    apart(plan, target, journal)
    loaded = _loaded(plan)
    plan_hash = file.identity(loaded)
    state = journals.genesis(plan_hash) if journal is None else journals.load(journal, plan_hash)
    canonical.write_atomically(target, checkpoints.encode(loaded, state))
    click.echo(f"wrote {target}")
    click.echo(f"  plan {plan_hash.hex()}, {state.batches} batches, state {state.state_hash.hex()}")
    return 0


@click.command()
@click.argument("file", metavar="CHECKPOINT", type=existing)
@options
@click.option("--against", type=existing, metavar="PLAN", help="The plan of today: the checkpoint must be of it.")
@click.option("-o", "--output", "target", type=output, metavar="PLAN", help="Where to write the checkpoint's plan.")
def restore(file: str, against: str | None, target: str | None, **flags: Any) -> int:
    """Compute every hash of CHECKPOINT again, put its arenas into memory, and commit; abort on any difference."""
    from tmmu.plan import file as plans
    from tmmu.runtime import checkpoint as checkpoints

    apart(file, target, *_written(flags))
    with recorded(flags["errors"]) as failure:
        flags["events"] = _log(flags)
        found = checkpoints.load(file, None if against is None else _loaded(against), flags["events"])
        failure.plan = found.plan
        with _applied(file, flags, lambda **given: checkpoints.resume(found, **given)) as execution:
            if target is not None:
                plans.save(found.plan, target)
            _print(file, execution, flags)
    if target is not None:
        click.echo(f"wrote {target}", err=flags["style"] == "json")
    return 0


def _written(flags: dict[str, Any]) -> list[str | None]:
    return [flags[name] for name in ("trace_file", "ledger", "journal", "errors", "events")]


def _log(flags: dict[str, Any]) -> EventLog | None:
    """The event log that was asked for."""
    from tmmu.runtime.events import EventLog

    return None if flags["events"] is None else EventLog(flags["events"])


def apart(*paths: str | None) -> None:
    """No file may be read and written, or written twice, by one command."""
    seen: set[str] = set()
    for path in filter(None, paths):
        if os.path.realpath(path) in seen:
            raise click.UsageError(f"{path} is named twice; choose another file")
        seen.add(os.path.realpath(path))


def _loaded(path: str) -> Plan:
    """A plan all of whose hashes recompute."""
    from tmmu.plan import file

    stated = file.load(path)
    for field, found, expected in file.false_hashes(stated):
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
    """What the record of a failure needs beside it."""

    plan: Plan | None = None


@contextmanager
def recorded(path: str | None) -> Iterator[Failure]:
    """Write the error record of whatever is refused inside."""
    known = Failure()
    try:
        yield known
    except TmmuError as error:
        from tmmu.runtime.records import errors

        token, rank = (
            (errors.NO_TOKEN, 0) if known.plan is None else (known.plan.origin.replay_token, known.plan.origin.rank)
        )
        errors.emit(error, path, replay_token=token, rank=rank)


@contextmanager
def _applied(name: str, flags: dict[str, Any], make: Callable[..., Execution]) -> Iterator[Execution]:
    """An execution; its trace and ledger are written when it is there, and also where it could not be made."""
    from tmmu.core import records as sequence
    from tmmu.runtime.records.ledger import Ledger, of_steps
    from tmmu.runtime.records.trace import Trace

    trace, ledger = Trace(), Ledger()
    try:
        execution = make(
            execution_mode=flags["mode"], memory_bytes_budget=flags["budget"], journal=flags["journal"],
            hash_contents=flags["contents"], trace=trace, ledger=ledger, events=flags["events"],
        )  # fmt: skip
    except TmmuError as error:
        error.in_file(name)
        if flags["trace_file"] is not None and trace.records:
            trace.save(flags["trace_file"])
        if flags["ledger"] is not None:
            sequence.write(ledger.records, flags["ledger"])
        raise
    with execution:
        if flags["trace_file"] is not None:
            trace.save(flags["trace_file"])
        if flags["ledger"] is not None:
            for counters in of_steps(execution.plan, execution.bytes_allocated):
                ledger.stepped(execution.state.batches, counters)
            sequence.write(ledger.records, flags["ledger"])
        yield execution


def _print(name: str, execution: Execution, flags: dict[str, Any]) -> None:
    document = _document(execution)
    if flags["style"] == "json":
        click.echo(json.dumps(document, indent=1, ensure_ascii=False))
    else:
        for text in _text(name, document):
            click.echo(one_line(text))


def _document(execution: Execution) -> dict[str, Any]:
    from tmmu.runtime.records import metrics

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
        "batches": execution.state.batches,
        "state_hash": execution.state.state_hash.hex(),
    }


def _text(name: str, document: dict[str, Any]) -> Iterator[str]:
    yield f"applied {name}: {document['bytes_allocated']} bytes ({size(document['bytes_allocated'])}) in memory"
    for arena in document["arenas"]:
        if arena["bytes"]:
            kind = document["reused_arenas"] if arena["reuse"] else "persistent"
            yield f"  {arena['name']}: {arena['bytes']} bytes, aligned to {arena['alignment']}, {kind}"
    for mapping in document["mappings"]:
        if mapping["is_memory"] and mapping["bytes"]:
            parts = ", ".join(f"{name} at {at}" for name, at in mapping["arenas"].items())
            yield f"  memory {mapping['name']}: {mapping['bytes']} bytes in one mapping: {parts}"
    yield f"  plan {document['plan_hash']}"
    yield f"  {document['batches']} batches, state {document['state_hash']}"
