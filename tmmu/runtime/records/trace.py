"""The trace of a run: a header, a record for each tensor, a summary, events, and the end of a hash chain.

h(0) is the commitment of nothing, h(i) that of [h(i-1), SHA-256 of record i]. The last record contains the last hash,
and is itself part of the chain without it. Therefore two runs are equal if their last hashes are. The last record also
contains the completion of the run and the duration of its allocations, which no hash covers.
spec: U5.5, U5.9 to U5.14, U5.20
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tmmu.core import canonical
from tmmu.core import records as sequence
from tmmu.core.errors import TmmuError
from tmmu.core.records import record_error
from tmmu.plans import file
from tmmu.plans.claims import arena_config_object
from tmmu.plans.gate import SPEC_VERSION
from tmmu.plans.sections import Plan, arena_configurations
from tmmu.runtime.handles import TensorMap
from tmmu.runtime.records import errors, metrics
from tmmu.runtime.records.ratios import ratio
from tmmu.runtime.records.schema import (
    BESIDE,
    END,
    EVENTS,
    HEADER,
    PREFIX,
    SCHEMA,
    STATUS,
    SUMMARY,
    TENSOR,
    Record,
    check_record,
)

if TYPE_CHECKING:
    from tmmu.plans.replan import ReplanRecord


def link(previous: bytes, record: Mapping[str, Any]) -> bytes:
    """Return the next hash of the chain."""
    return canonical.commitment("trace_chain_v1", [previous, hashlib.sha256(canonical.encode(record)).digest()])


def start() -> bytes:
    """Return the hash before the first record."""
    return canonical.commitment("trace_chain_v1", [])


def header(plan: Plan) -> Record:
    """Make the header of a trace: hashes and configuration of the plan, and the schemas of the other records."""
    hashes = file.compute_hashes(plan)
    return {
        "kind": HEADER,
        "trace_schema": SCHEMA,
        "metric_schema": metrics.SCHEMA,
        "spec_version": SPEC_VERSION,
        "model": plan.origin.model,
        "ir_hash": plan.origin.ir_hash,
        "mode": plan.origin.mode,
        "layout": plan.origin.layout,
        "replay_token_prefix": plan.origin.replay_token[:PREFIX],
        "replay_token_digest": hashlib.sha256(plan.origin.replay_token).digest(),
        "arena_config": arena_config_object(arena_configurations(plan), plan.configuration.policy),
        "arena_config_hash": hashes["arena_config_hash"],
        "tmmu_plan_hash": hashes["plan_hash"],
        "rank": plan.origin.rank,
        "world_size": plan.origin.world_size,
    }


def allocation(plan: Plan, tensor_map: TensorMap | None = None) -> Iterator[Record]:
    """Yield a record for each tensor, by name in the order of its UTF-8 bytes, and their summary. O(N log N)."""
    handles = TensorMap(plan) if tensor_map is None else tensor_map
    storage, backing = plan.allocation.tensors.storage.tolist(), plan.allocation.storages.bytes.tolist()
    for name, handle in handles.items():
        yield {
            "kind": TENSOR,
            "tensor_id": name,
            "arena": handle.arena,
            "logical_slot": handle.logical_slot,
            "logical_address": list(handle.logical_address),
            "size": handle.size,
            "live_range": list(handle.lifetime),
            "bytes": backing[storage[handles.row(name)]],
            "generation": handle.generation,
        }
    found = metrics.of_plan(plan)
    fragmentation = found["internal_fragmentation_ratio"]
    yield {
        "kind": SUMMARY,
        "peak_bytes_per_arena": {arena["arena"]: arena["peak_tmmu_usage"] for arena in found["arenas"]},
        "footprint_per_arena": {arena["arena"]: arena["peak_physical_bytes"] for arena in found["arenas"]},
        "total_logical_slots": found["total_logical_slots"],
        "reuse_ratio": found["memory_reuse_ratio"],
        "fragmentation_pct": ratio(100 * fragmentation[0], fragmentation[1]),
        "activation_retention_ratio": found["activation_retention_ratio"],
    }


class Trace:
    """The trace of a run while it is made; only `save` writes it."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.chain = start()
        self.allocation_time_ns = 0
        """The duration of all calls of ApplyPlan so far."""

    def add(self, record: Record) -> None:
        """Append a record. Raises INVALID_RECORD if it is invalid or not allowed after the last one."""
        check_record(record, len(self.records))
        check_order(self.records[-1]["kind"] if self.records else None, record, len(self.records))
        self.records.append(record)
        self.chain = link(self.chain, record)

    def allocated(self, plan: Plan, tensor_map: TensorMap | None = None) -> None:
        """Append the records of one allocation, and before the first one the header."""
        if not self.records:
            self.add(header(plan))
        for record in allocation(plan, tensor_map):
            self.add(record)

    def append_replan(self, record: ReplanRecord) -> None:
        """Append the record that the plan was exchanged at the safepoint before iteration `record.t`."""
        self.add(record.to_object())

    def failed(self, error: TmmuError, replay_token: bytes, t: int = 0, rank: int = 0) -> None:
        """Append a failure, in the short form of a trace."""
        record = errors.of_error(error, replay_token=replay_token, t=t, rank=rank)
        self.add(
            {
                "kind": "error", "t": t, "rank": rank, "failure_code": error.code_id,
                "failure_operator": error.operator, "replay_token": replay_token,
                "diagnostics_hash": canonical.digest(record["diagnostics"]),
            }
        )  # fmt: skip

    def end(self) -> list[Record]:
        """Return all records, including the one that ends the trace."""
        last: Record = {"kind": END, "records": len(self.records)}
        beside = {**completion(self.records), "allocation_time_ns": self.allocation_time_ns}
        return [*self.records, last | beside | {"trace_final_hash": link(self.chain, last)}]

    def save(self, path: str | os.PathLike[str]) -> bytes:
        """Write the trace, whole or not at all; return its final hash."""
        records = self.end()
        sequence.write(records, path)
        final: bytes = records[-1]["trace_final_hash"]
        return final


def load(path: str | os.PathLike[str]) -> list[Record]:
    """Read the records of a trace, the end included. Raises INVALID_RECORD unless kinds, order and chain are right."""
    records = sequence.read(path)
    try:
        check(records)
    except TmmuError as error:
        error.in_file(os.fspath(path))
        raise
    return records


def check(records: Sequence[Any]) -> None:
    """Raise INVALID_RECORD, with its number, for the first record that is invalid or not allowed at its place."""
    chain, previous, last_name = start(), None, b""
    for number, record in enumerate(records):
        check_record(record, number)
        check_order(previous, record, number)
        if record["kind"] == TENSOR:
            name = record["tensor_id"].encode()
            if previous == TENSOR and name <= last_name:
                raise record_error(f"record {number}", "its tensor_id is not after the one before it")
            last_name = name
        previous = record["kind"]
        if previous != END:
            chain = link(chain, record)
    if previous != END:
        raise record_error(f"record {len(records)}", "the end is missing: the trace was cut off")
    last = records[-1]
    hashed = {key: value for key, value in last.items() if key not in BESIDE}
    if last["records"] != len(records) - 1 or last["trace_final_hash"] != link(chain, hashed):
        raise record_error(f"record {len(records) - 1}", "its hash does not match the chain of the records before it")
    if any(last[key] != value for key, value in completion(records[:-1]).items()):
        raise record_error(f"record {len(records) - 1}", "its completion does not match the records before it")


def completion(records: Sequence[Record]) -> Record:
    """Return the completion of 001 0.I: failed, with its code, if a failure is the last record."""
    if records and records[-1]["kind"] == "error":
        return {"status": STATUS[1], "failure_code": records[-1]["failure_code"]}
    return {"status": STATUS[0], "failure_code": None}


FOLLOWS: dict[str | None, tuple[str, ...]] = {
    None: (HEADER,),
    HEADER: (TENSOR, SUMMARY, "error", END),
    TENSOR: (TENSOR, SUMMARY),
    SUMMARY: (*EVENTS, END),
    "replan": (TENSOR, SUMMARY, *EVENTS, END),
    "value": ("value", "commit", "error"),
    "commit": (*EVENTS, END),
    "error": (*EVENTS, END),
    END: (),
}
"""The kinds that may follow a record of each kind; None stands for the begin of the trace."""


def check_order(previous: str | None, record: Record, number: int) -> None:
    """Raise INVALID_RECORD if a record of this kind may not follow `previous`."""
    if record["kind"] not in FOLLOWS[previous]:
        after = f"after {previous!r}" if previous else "at the beginning"
        raise record_error(f"record {number}", f"a record of kind {record['kind']!r} is not allowed {after}")
