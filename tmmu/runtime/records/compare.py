"""The comparison of two traces: whether it is possible, and the first difference (001, section 7).

spec: U5.15, U5.16
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tmmu.runtime.records.schema import Record

CONTEXT = ("ir_hash", "arena_config_hash", "replay_token_digest", "trace_schema", "metric_schema")
"""Two runs are comparable if their headers have the same values of these keys."""


class TraceDifference(NamedTuple):
    """The first difference: number and name of the record, the key, and both values (None: the value is missing)."""

    record: int
    what: str
    key: str
    first: Any
    second: Any


def incomparable(first: Sequence[Record], second: Sequence[Record]) -> list[TraceDifference]:
    """Return the reasons why two traces cannot be compared; [] if they can."""
    a, b = first[0], second[0]
    return [TraceDifference(0, a["kind"], key, a[key], b[key]) for key in CONTEXT if a[key] != b[key]]


def first_difference(first: Sequence[Record], second: Sequence[Record]) -> TraceDifference | None:
    """Return the first differing record of two traces and its first differing key; None if the traces are equal.

    Keys are compared in alphabetical order. The duration of allocations is ignored.
    """
    for number, (a, b) in enumerate(zip(first, second, strict=False)):
        if a["kind"] != b["kind"]:
            return TraceDifference(number, describe_record(a), "kind", a["kind"], b["kind"])
        for key in sorted(a):
            if key != "allocation_time_ns" and a[key] != b[key]:
                return TraceDifference(number, describe_record(a), key, a[key], b[key])
    if len(first) == len(second):
        return None
    number = min(len(first), len(second))
    longer = (first if len(first) > len(second) else second)[number]
    has = (longer["kind"], None) if len(first) > len(second) else (None, longer["kind"])
    return TraceDifference(number, describe_record(longer), "kind", *has)


def describe_record(record: Record) -> str:
    """Describe a record in a word or two: its kind, with its tensor or iteration."""
    name = record.get("tensor_id", record.get("t"))
    return record["kind"] if name is None else f"{record['kind']} {name!r}"


WORDS = {
    ("allocation_header", "mode"): "the plans are for different modes",
    ("allocation_header", "layout"): "the plans were made with different layouts",
    ("allocation_header", "rank"): "the runs are of different ranks",
    ("allocation_header", "world_size"): "the runs are of different numbers of ranks",
    ("summary", None): "the plans have different totals, though every tensor lies at the same place",
    ("replan", None): "another plan was taken over, or for another reason",
    ("commit", "arenas"): "the bytes of the arenas differ, or how far they were used",
    ("commit", "resource_ledger_hash"): "other steps were run, or in other memory",
    ("commit", "previous_state_hash"): "the runs go on from different states",
    ("commit", "t"): "the runs go on from different states",
    ("error", None): "the runs failed in different ways",
}
"""The meaning of a difference, by the kind of the record and the key; None stands for every other key."""

OTHER_PLANS = "the runs are of different plans"


def meaning(found: TraceDifference, first: Sequence[Record], second: Sequence[Record]) -> str:
    """Describe the meaning of a difference for a user."""
    record = (first if found.record < len(first) else second)[found.record]
    kind = record["kind"]
    if found.key == "kind":
        ended = "error" in (found.first, found.second)
        return (
            "one of the runs failed"
            if ended
            else "one of the runs continues after the end of the other, or does another thing"
        )
    if kind == "tensor":
        same = found.key in ("tensor_id", "size")
        return "the plans have different tensors" if same else f"the plans place {record['tensor_id']!r} differently"
    if kind == "value" and found.key == "content":
        name = record["tensor_id"]
        if record["access"] == "given":
            return f"the runs were given different values of {name!r}: another input, weight or seed"
        return f"from the same values the runs computed a different {name!r}"
    words = WORDS.get((kind, found.key)) or WORDS.get((kind, None))
    if kind == "allocation_header" and (place := _find_misplaced(first, second)) is not None:
        return (
            f"{words or 'the runs are of different plans'}; the first tensor that they place differently is {place!r}"
        )
    return words or "the runs are of different plans"


def _find_misplaced(first: Sequence[Record], second: Sequence[Record]) -> str | None:
    """Return the first tensor whose records differ in two traces, None if there is none."""
    mine, others = (
        {record["tensor_id"]: record for record in records if record["kind"] == "tensor"} for records in (first, second)
    )
    return next((name for name in sorted({*mine, *others}) if mine.get(name) != others.get(name)), None)
