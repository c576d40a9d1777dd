"""`tmmu trace`: `show` and `diff` of recorded runs; `torch` and `jax` are in `trace_training`.

spec: U7.3, U7.4, U7.5
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from tmmu.cli import options
from tmmu.cli.trace_training import jax, torch
from tmmu.cli.units import plain
from tmmu.core.flags import OnceGroup, existing, format_examples
from tmmu.core.output import count_noun, format_json, print_lines

SAME, DIFFERENT, INCOMPARABLE = 0, 1, 3
"""How `tmmu trace diff` exits."""


@click.group(cls=OnceGroup)
def trace() -> None:
    """Trace training steps; show and compare runs.

    `torch` and `jax` trace training steps into models; `show` and `diff` read the traces of runs.
    """


trace.add_command(torch)
trace.add_command(jax)


@trace.command(
    epilog=format_examples(
        "tmmu trace show run.trace",
        "tmmu trace show run.trace --format json",
    )
)
@click.argument("file", type=existing)
@options.style
def show(file: str, style: str) -> int:
    """Print the trace of a run, a line a record.

    The kinds and order of the records of FILE and their hash chain are checked first.
    """
    from tmmu.runtime.records import trace as traces

    records = traces.load(file)
    for record in records:
        print_lines(format_json(plain(record), indent=None) if style == "json" else line(record))
    return 0


@trace.command(
    epilog=format_examples(
        "tmmu trace diff run.trace again.trace",
    )
)
@click.argument("first", type=existing)
@click.argument("second", type=existing)
def diff(first: str, second: str) -> int:
    """Compare two traces.

    Exit codes: 0 the same, 1 different, 3 not comparable.
    """
    from tmmu.runtime.records import compare
    from tmmu.runtime.records import trace as traces

    a, b = traces.load(first), traces.load(second)
    if reasons := compare.incomparable(a, b):
        print_lines("not comparable: the runs are not of one model, configuration, token and schema")
        for reason in reasons:
            print_lines(f"  {reason.key}: {text(reason.first)} and {text(reason.second)}")
        return INCOMPARABLE
    found = compare.first_difference(a, b)
    if found is None:
        print_lines(
            f"comparable, and the same: {count_noun(len(a), 'record')}, chain {text(a[-1]['trace_final_hash'])}"
        )
        return SAME
    print_lines("comparable, and different")
    values = f"{text(found.first)} and {text(found.second)}"
    print_lines(f"  record {found.record}, {found.what}: {found.key}: {values}")
    print_lines(f"  {compare.meaning(found, a, b)}")
    return DIFFERENT


def text(value: Any) -> str:
    """A value of a record in one line."""
    if value is None:
        return "nothing"
    value = plain(value)
    return value if isinstance(value, str) else format_json(value, indent=None)


def line(record: dict[str, Any]) -> str:
    """A record for people."""
    return " ".join(_words(record))


def _words(record: dict[str, Any]) -> Iterator[str]:
    kind = record["kind"]
    if kind == "tensor":
        begin, (birth, death) = record["logical_address"][1], record["live_range"]
        yield f"tensor {record['tensor_id']}: {record['arena']} slot {record['logical_slot']}"
        yield f"generation {record['generation']} [{begin}, {begin + record['size']}) of {record['bytes']} bytes"
        yield f"steps [{birth}, {death}]"
        return
    yield kind
    for key, value in record.items():
        if key == "arena_config":
            yield f"arenas={','.join(str(arena.get('name')) for arena in value['arenas'])}"
        elif key.endswith(("_ratio", "_pct")):
            share = value[0] / value[1]
            yield f"{key}={share:.1f}%" if key.endswith("_pct") else f"{key}={share:.4f}"
        elif key != "kind":
            yield f"{key}={text(value)}"
