"""Two traces: can they be compared at all, and what is the first thing in which they differ (001, section 7).

spec: U5.15, U5.16
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tmmu.runtime.records.schema import Record

CONTEXT = ("ir_hash", "arena_config_hash", "replay_token_digest", "trace_schema", "metric_schema")
"""Two runs are comparable where their headers agree in these."""


class Difference(NamedTuple):
    """The first difference: the number of the record, what it is, the key, and both values (None: there is none)."""

    record: int
    what: str
    key: str
    first: Any
    second: Any


def incomparable(first: Sequence[Record], second: Sequence[Record]) -> list[Difference]:
    """Why two traces cannot be compared; nothing where they can."""
    a, b = first[0], second[0]
    return [Difference(0, a["kind"], key, a[key], b[key]) for key in CONTEXT if a[key] != b[key]]


def first_difference(first: Sequence[Record], second: Sequence[Record]) -> Difference | None:
    """The first record in which two traces differ, and its first key in alphabetical order; None where none does."""
    for number, (a, b) in enumerate(zip(first, second, strict=False)):
        if a["kind"] != b["kind"]:
            return Difference(number, named(a), "kind", a["kind"], b["kind"])
        for key in sorted(a):
            if a[key] != b[key]:
                return Difference(number, named(a), key, a[key], b[key])
    if len(first) == len(second):
        return None
    number = min(len(first), len(second))
    longer = (first if len(first) > len(second) else second)[number]
    has = (longer["kind"], None) if len(first) > len(second) else (None, longer["kind"])
    return Difference(number, named(longer), "kind", *has)


def named(record: Record) -> str:
    """A record in a word or two: its kind with the tensor or the iteration that it is of."""
    name = record.get("tensor_id", record.get("t"))
    return record["kind"] if name is None else f"{record['kind']} {name!r}"
