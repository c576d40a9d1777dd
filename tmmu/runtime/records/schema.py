"""The content of each kind of record in a trace: the same as `spec/records.cddl`, in code, and stricter.

spec: U5.9, U5.20, RE3.6
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from tmmu.core.records import record_error
from tmmu.core.vocabulary import UINT64_END

SCHEMA = "tmmu_trace_v1"
PREFIX = 8
"""The number of bytes of the replay token that the header shows; its digest represents the rest."""

Record = dict[str, Any]
HEADER, TENSOR, SUMMARY, END = "allocation_header", "tensor", "summary", "end"
EVENTS = ("replan", "value", "commit", "error")
STATUS = ("success", "failed")
"""The completion of a run (001 0.I)."""

BESIDE = ("status", "failure_code", "allocation_time_ns", "trace_final_hash")
"""The keys of the end of a trace that are not part of the hashed data."""

ACCESS = ("given", "returned")
"""The use of a value by the caller: it writes the value before the first step, or reads it after the last."""


def _is_uint(value: Any) -> bool:
    return type(value) is int and 0 <= value < UINT64_END


def _is_hash(value: Any) -> bool:
    return isinstance(value, bytes) and len(value) == 32


def _is_hash_or_null(value: Any) -> bool:
    return value is None or _is_hash(value)


def _is_ratio(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_uint, value)) and value[1] > 0


def _is_range(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_uint, value))


def _is_address(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and _is_uint(value[1])


def _is_sizes(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_uint, value.values()))


def _is_envelope(value: Any) -> bool:
    """Return whether the value has the least and the largest size of each named dimension."""
    return isinstance(value, dict) and all(_is_range(ends) and ends[0] <= ends[1] for ends in value.values())


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_text_or_null(value: Any) -> bool:
    return value is None or _is_text(value)


def _is_one_of(words: Container[str]) -> Callable[[Any], bool]:
    """Return the check that a value is one of some texts. A value of another type may have no hash, or no truth."""
    return lambda value: isinstance(value, str) and value in words


def _is_maps(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _is_configuration(value: Any) -> bool:
    """Return whether the value has arenas, devices and rules; the reader of plans checks their content."""
    return (
        isinstance(value, dict) and set(value) == {"arenas", "devices", "rules"} and all(map(_is_maps, value.values()))
    )


def _is_seal(value: Any) -> bool:
    """Return whether the value is the record of one arena in a commit; a digest that was not requested is null."""
    return (
        isinstance(value, dict)
        and set(value) == {"arena", "high_water", "content"}
        and _is_text(value["arena"])
        and _is_uint(value["high_water"])
        and _is_hash_or_null(value["content"])
    )


def _are_seals(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_seal, value))


KEYS: dict[str, dict[str, Callable[[Any], bool]]] = {
    HEADER: {
        "trace_schema": _is_one_of((SCHEMA,)), "metric_schema": _is_text, "spec_version": _is_text,
        "model": _is_text, "ir_hash": _is_hash, "mode": _is_text, "layout": _is_text,
        "replay_token_prefix": lambda value: isinstance(value, bytes) and len(value) == PREFIX,
        "replay_token_digest": _is_hash, "arena_config": _is_configuration, "arena_config_hash": _is_hash,
        "tmmu_plan_hash": _is_hash, "rank": _is_uint, "world_size": _is_uint,
    },
    TENSOR: {
        "tensor_id": _is_text, "arena": _is_text, "logical_slot": _is_uint, "logical_address": _is_address,
        "size": _is_uint, "live_range": _is_range, "bytes": _is_uint, "generation": _is_uint,
    },
    SUMMARY: {
        "peak_bytes_per_arena": _is_sizes, "footprint_per_arena": _is_sizes, "total_logical_slots": _is_uint,
        "reuse_ratio": _is_ratio, "fragmentation_pct": _is_ratio, "activation_retention_ratio": _is_ratio,
    },
    "replan": {
        "t": _is_uint, "reason": _is_text, "shape": _is_sizes, "old_envelope": _is_envelope,
        "new_envelope": _is_envelope, "old_replan_key": _is_hash, "new_replan_key": _is_hash,
        "old_tmmu_plan_hash": _is_hash, "new_tmmu_plan_hash": _is_hash,
    },
    "value": {
        "t": _is_uint, "tensor_id": _is_text, "access": _is_one_of(ACCESS), "content": _is_hash,
    },
    "commit": {
        "t": _is_uint, "tmmu_plan_hash": _is_hash, "arenas": _are_seals, "values_hash": _is_hash_or_null,
        "resource_ledger_hash": _is_hash, "previous_state_hash": _is_hash, "state_hash": _is_hash,
    },
    "error": {
        "t": _is_uint, "rank": _is_uint, "failure_code": _is_text, "failure_operator": _is_text,
        "replay_token": _is_hash, "diagnostics_hash": _is_hash,
    },
    END: {
        "records": _is_uint, "status": _is_one_of(STATUS), "failure_code": _is_text_or_null,
        "allocation_time_ns": _is_uint, "trace_final_hash": _is_hash,
    },
}  # fmt: skip
"""The keys of each kind of record other than `kind`, with the check of each value."""


def check_record(record: Any, number: int) -> None:
    """Raise INVALID_RECORD if a record has an unknown kind, or a key that is missing, unknown or of another type."""
    place = f"record {number}"
    if not isinstance(record, dict) or not _is_one_of(KEYS)(record.get("kind")):
        raise record_error(place, "its kind is missing or unknown")
    keys = KEYS[record["kind"]]
    for key, fits in keys.items():
        if key not in record:
            raise record_error(place, f"the key {key!r} is missing")
        if not fits(record[key]):
            raise record_error(f"{place}, {key}", "the value has a wrong type")
    if unknown := [key for key in record if key != "kind" and key not in keys]:
        raise record_error(place, f"the key {unknown[0]!r} is unknown")
