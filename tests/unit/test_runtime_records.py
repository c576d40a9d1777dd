"""Files of records: canonical, in order, chained; what they say, and what their readers refuse.

spec: U5.1 to U5.14
"""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cbor2
import pycddl
import pytest

from tests.support.full_trace import change as replanned
from tests.support.full_trace import full, plan
from tests.support.refusals import refused
from tests.support.text_models import text_model
from tmmu.core import canonical
from tmmu.core import records as sequence
from tmmu.core.errors import REGISTRY, TmmuError
from tmmu.core.vocabulary import ANYWHERE
from tmmu.examples.broken.editing import changed
from tmmu.planner import DEFAULT, plan_memory
from tmmu.plans import file
from tmmu.plans.claims import arena_config_object
from tmmu.runtime import checkpoint
from tmmu.runtime.apply import apply_plan
from tmmu.runtime.commit import commit_execution
from tmmu.runtime.recording import RunRecords
from tmmu.runtime.records import compare, errors, metrics
from tmmu.runtime.records import trace as traces
from tmmu.runtime.records.ledger import Ledger
from tmmu.runtime.records.ratios import ratio
from tmmu.runtime.records.schema import KEYS, check_record
from tmmu.runtime.records.trace import Trace
from tmmu.runtime.safepoint import exchange

ROOT = Path(__file__).resolve().parents[2]


def sha256(value: Any) -> bytes:
    return hashlib.sha256(cbor2.dumps(value, canonical=True)).digest()


# Sequences.


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    records = full()
    sequence.write(records, tmp_path / "t")
    assert sequence.read(tmp_path / "t") == records
    assert b"".join(map(canonical.encode, records)) == (tmp_path / "t").read_bytes()
    assert list(sequence.read_items(b"")) == []


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x61", "record 0: it is cut off at byte 1"),
        (b"\xa0\xa1\x61a", "record 1: it is cut off at byte 4"),
        (b"\xa0\x9f\xff", "record 1: not a record (an indefinite or reserved length)"),
        (b"\x1c", "record 0: not a record"),
        (b"\xa0\x18\x01", "record 1: not in canonical form"),
        (b"\x82\x01", "record 0: it is cut off"),
        (b"\xfb\x3f\xf0\x00\x00\x00\x00\x00\x00", "record 0: not a canonical CBOR record (no float"),
        (b"\x5b\xff\xff\xff\xff\xff\xff\xff\xff", "record 0: not a record (a record of more than"),
        (b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff", "record 0: not a record (a record of more than"),
        (b"\x1b\x00\x00", "record 0: it is cut off"),
        (b"\x81" * 100 + b"\x00", "record 0: not a canonical CBOR record"),
    ],
)
def test_bytes_that_are_no_records_are_refused_with_the_number(data: bytes, text: str) -> None:
    with refused("INVALID_RECORD", text):
        list(sequence.read_items(data))


def test_every_cut_of_a_sequence_is_noticed_or_ends_between_two_records() -> None:
    records = full()
    data = b"".join(map(canonical.encode, records))
    ends = {item.end for item in sequence.read_items(data)} | {0}
    for length in {*range(0, len(data), 11), *ends}:
        if length in ends:
            list(sequence.read_items(data[:length]))
        else:
            with refused("INVALID_RECORD", "cut off"):
                list(sequence.read_items(data[:length]))


def test_a_deep_item_is_walked_without_recursion() -> None:
    data = b"\x81" * 1_000_000 + b"\x00"
    assert sequence.find_item_end(data, 0) == len(data)


# Ratios and metrics.


def test_a_ratio_is_two_integers_in_lowest_terms() -> None:
    assert (ratio(6, 8), ratio(0, 7), ratio(0, 0), ratio(0, 0, 1)) == ([3, 4], [0, 1], [0, 1], [1, 1])
    large = ratio((1 << 80) + 1, 1 << 81)
    assert max(large) < 1 << 64
    assert large[0] / large[1] == pytest.approx(0.5)


def test_the_metrics_are_those_of_the_formulas() -> None:
    found = metrics.of_plan(plan())
    # x, w, a, b, y of 64 bytes; a is saved, and dies at its last reader in this mode; two slots and w's.
    assert found["total_logical_slots"] == 3
    assert found["memory_reuse_ratio"] == [2, 5]
    assert found["activation_retention_ratio"] == [1, 3]
    assert found["internal_fragmentation_ratio"] == [0, 1]
    parameters, _, activations, empty = found["arenas"]
    assert (parameters["peak_logical_slots"], parameters["max_live"], parameters["memory_reuse_ratio"]) == (
        1,
        1,
        [0, 1],
    )
    assert (activations["peak_physical_bytes"], activations["peak_tmmu_usage"]) == (192, 128)
    assert (activations["memory_reuse_ratio"], activations["max_live"]) == ([1, 2], 2)
    assert (empty["memory_reuse_ratio"], empty["internal_fragmentation_ratio"]) == ([0, 1], [0, 1])


def test_slots_of_unequal_tenants_are_fragmented() -> None:
    made = plan_memory(text_model("node relu Relu x -> a", "node relu2 Relu a -> y", sizes={"x": 100, "y": 60})).plan
    assert metrics.of_plan(made)["internal_fragmentation_ratio"] == [5, 41]


def test_a_wrong_plan_has_no_negative_ratio() -> None:
    """A storage larger than its slot, and slots that nobody has."""
    made = changed(plan(), "storages", 1, bytes=10_000)
    assert metrics.of_plan(made)["internal_fragmentation_ratio"][0] == 0
    assert metrics.reuse(9, 3) == [0, 1]


def test_what_is_measured_stands_in_the_end_of_a_trace_alone_and_no_hash_covers_it() -> None:
    """spec: U5.5, U5.20"""
    records = full()
    keys = {key for record in records[:-1] for key in record} | set(metrics.of_plan(plan()))
    assert not [key for key in keys if "time" in key or key.endswith("_ns")]
    assert records[-1]["allocation_time_ns"] > 0
    traces.check([*records[:-1], records[-1] | {"allocation_time_ns": 0}])
    again = full()
    assert compare.first_difference(records, [*again[:-1], again[-1] | {"allocation_time_ns": 1 << 40}]) is None


def test_a_trace_states_how_the_run_was_completed() -> None:
    """The failure that nothing follows is the one with which it ended. spec: U5.20"""
    trace = Trace()
    apply_plan(plan(), records=RunRecords(trace=trace)).close()
    error = TmmuError("ARENA_TOO_SMALL", "full", arena="a", capacity=1, required=2)
    for number, completed in enumerate(
        (("success", None), ("failed", "ARENA_TOO_SMALL"), ("success", None), ("failed", "ARENA_TOO_SMALL"))
    ):
        if number in (1, 3):
            trace.failed(error, bytes(32), 1)
        elif number == 2:
            trace.append_replan(replanned(1))
        records = trace.end()
        assert (records[-1]["status"], records[-1]["failure_code"]) == completed
        traces.check(records)
        other = "success" if completed[1] else "failed"
        for wrong in ({"status": other}, {"failure_code": None if completed[1] else "ARENA_TOO_SMALL"}):
            with refused("INVALID_RECORD", "its completion does not match the records before it"):
                traces.check([*records[:-1], records[-1] | wrong])


def test_applying_is_timed_also_where_it_fails() -> None:
    """spec: U5.20"""
    trace = Trace()
    with refused("CONTRACT_VIOLATION"):
        apply_plan(plan(), records=RunRecords(trace=trace), memory_bytes_budget=1)
    assert trace.allocation_time_ns > 0
    trace = Trace()
    first = apply_plan(plan(), records=RunRecords(trace=trace))
    both = trace.allocation_time_ns
    assert both >= first.allocation_time_ns > 0
    with exchange(first, plan_memory(text_model("node relu Relu x w -> y", parameters="w")).plan, "why") as second:
        assert trace.allocation_time_ns >= both + second.allocation_time_ns > both


# Error records.


@pytest.mark.parametrize("code_id", REGISTRY)
def test_an_error_record_has_the_documents_fields(code_id: str, tmp_path: Path) -> None:
    error = TmmuError(code_id, "wrong", operator="UML_OS.X_v1", arena="größe", size=3, raw=b"\0", yes=True)
    with refused_any(code_id):
        errors.emit(error, tmp_path / "e", replay_token=bytes([7]) * 32, t=4, rank=2)
    [record] = sequence.read(tmp_path / "e")
    code = REGISTRY[code_id]
    assert record == {
        "kind": "error_record", "code_id": code_id, "numeric_code": code.numeric, "severity": code.severity,
        "subsystem": code.category, "t": 4, "rank": 2, "failure_operator": "UML_OS.X_v1",
        "replay_token": bytes([7]) * 32, "message": code.message, "retryable": False, "privacy_class": "INTERNAL",
        "diagnostics": {"arena": "größe", "size": 3, "raw": b"\0", "yes": True},
    }  # fmt: skip


def refused_any(code_id: str) -> Any:
    return pytest.raises(TmmuError, match=rf"\[{code_id}\]")


def test_the_failure_comes_out_also_where_its_record_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = TmmuError("MODE_VIOLATION", "no", mode="x")
    with refused_any("MODE_VIOLATION") as caught:
        errors.emit(error, tmp_path / "no" / "e")
    assert "its record" in str(caught.value)
    assert "cannot be written" in str(caught.value)
    with refused_any("MODE_VIOLATION"):
        errors.emit(error, None)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with refused_any("MODE_VIOLATION") as caught:
        errors.emit(TmmuError("MODE_VIOLATION", "no", mode="x"), tmp_path / "e")
    assert "its record" in str(caught.value)
    assert "(No space left on device)" in str(caught.value)


# Traces.


def test_a_trace_has_its_records_in_their_order() -> None:
    kinds = [record["kind"] for record in full()]
    tensors = ["tensor"] * 5
    assert kinds == [
        "allocation_header", *tensors, "summary", "commit", "value", "commit", "replan", *tensors, "summary", "error",
        "end",
    ]  # fmt: skip


def test_the_header_says_what_the_trace_is_of() -> None:
    made, head = plan(), full()[0]
    hashes = file.compute_hashes(made)
    assert head["ir_hash"] == made.origin.ir_hash
    assert head["replay_token_prefix"] == made.origin.replay_token[:8]
    assert head["replay_token_digest"] == hashlib.sha256(made.origin.replay_token).digest()
    assert (head["arena_config_hash"], head["tmmu_plan_hash"]) == (hashes["arena_config_hash"], hashes["plan_hash"])
    assert head["arena_config"] == arena_config_object(DEFAULT, ANYWHERE)
    assert (head["trace_schema"], head["metric_schema"]) == ("tmmu_trace_v1", "tmmu_metrics_v1")


def test_there_is_one_record_for_each_tensor_by_name() -> None:
    records = [record for record in traces.allocation(plan()) if record["kind"] == "tensor"]
    assert [record["tensor_id"] for record in records] == ["a", "b", "w", "x", "y"]
    assert records[1] == {
        "kind": "tensor", "tensor_id": "b", "arena": "activations", "logical_slot": 1,
        "logical_address": ["activations", 128], "size": 64, "live_range": [1, 2], "bytes": 64, "generation": 1,
    }  # fmt: skip


def test_the_record_of_a_view_has_its_own_size_and_its_storages_bytes() -> None:
    made = plan_memory(text_model("node view1 View x -> v", "node relu Relu v -> y", "tensor v u8 32 view x 16")).plan
    [view] = [record for record in traces.allocation(made) if record.get("tensor_id") == "v"]
    base = next(record for record in traces.allocation(made) if record.get("tensor_id") == "x")
    assert (view["size"], view["bytes"]) == (32, 64)
    assert view["logical_address"][1] == base["logical_address"][1] + 16


def test_the_summary_says_what_the_metrics_say() -> None:
    *_, summary = traces.allocation(plan())
    assert summary["peak_bytes_per_arena"] == {"parameters": 64, "optimizer": 0, "activations": 128, "gradients": 0}
    assert summary["footprint_per_arena"]["activations"] == 192
    assert (summary["total_logical_slots"], summary["reuse_ratio"], summary["fragmentation_pct"]) == (3, [2, 5], [0, 1])
    uneven = plan_memory(text_model("node relu Relu x -> a", "node relu2 Relu a -> y", sizes={"x": 100, "y": 60})).plan
    assert list(traces.allocation(uneven))[-1]["fragmentation_pct"] == [500, 41]


def test_the_chain_is_that_of_the_page() -> None:
    records = full()
    chain = sha256(["trace_chain_v1", []])
    assert chain.hex() == "882b5851e1a6c9de1b44ee807ebf8fb74ce5bbcf1a851cba9ec84bfc5ec42e98"
    for record in records:
        hashed = {key: record[key] for key in ("kind", "records")} if record["kind"] == "end" else record
        chain = sha256(["trace_chain_v1", [chain, sha256(hashed)]])
    assert (records[-1]["records"], records[-1]["trace_final_hash"]) == (len(records) - 1, chain)


def test_a_saved_trace_is_loaded_as_it_was(tmp_path: Path) -> None:
    trace = Trace()
    apply_plan(plan(), records=RunRecords(trace=trace)).close()
    final = trace.save(tmp_path / "t")
    assert traces.load(tmp_path / "t") == trace.end()
    assert final == trace.end()[-1]["trace_final_hash"]


def resealed(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same records with a chain that fits."""
    chain = traces.start()
    for record in records[:-1]:
        chain = traces.link(chain, record)
    last = {"kind": "end", "records": len(records) - 1}
    beside = {**traces.completion(records[:-1]), "allocation_time_ns": 0}
    return [*records[:-1], last | beside | {"trace_final_hash": traces.link(chain, last)}]


Change = Callable[[list[dict[str, Any]]], object]
ORDERS: list[tuple[str, Change, str]] = [
    ("no header", lambda r: r.pop(0), "'tensor' is not allowed at the beginning"),
    (
        "two headers",
        lambda r: r.insert(0, r[0]),
        "record 1: a record of kind 'allocation_header' is not allowed after 'allocation_header'",
    ),
    ("no summary", lambda r: r.pop(6), "record 6: a record of kind 'commit' is not allowed after 'tensor'"),
    ("tensors the other way", lambda r: r.insert(1, r.pop(2)), "record 2: its tensor_id is not after"),
    ("a tensor twice", lambda r: r.insert(1, r[1]), "record 2: its tensor_id is not after"),
    (
        "a tensor after a commit",
        lambda r: r.insert(8, r[1]),
        "record 8: a record of kind 'tensor' is not allowed after 'commit'",
    ),
    ("two ends", lambda r: r.append(r[-1]), "'end' is not allowed after 'end'"),
    ("something after the end", lambda r: r.append(r[7]), "'commit' is not allowed after 'end'"),
    ("an unknown kind", lambda r: r[7].update(kind="party"), "record 7: its kind is missing or unknown"),
    ("no kind", lambda r: r[7].pop("kind"), "record 7: its kind is missing or unknown"),
    ("a record that is no map", lambda r: r.__setitem__(7, ["commit"]), "record 7: its kind is missing or unknown"),
]


@pytest.mark.parametrize(("change", "text"), [row[1:] for row in ORDERS], ids=[row[0] for row in ORDERS])
def test_a_record_that_does_not_belong_where_it_stands_is_refused(change: Change, text: str) -> None:
    records = copy.deepcopy(full())
    change(records)
    with refused("INVALID_RECORD", text):
        traces.check(records)
    if records[-1].get("kind") == "end":
        with refused("INVALID_RECORD", text):
            traces.check(resealed(records))


@pytest.mark.parametrize("number", range(len(full())))
def test_a_key_that_is_missing_unknown_or_of_another_kind_is_refused(number: int) -> None:
    records = full()
    for key in KEYS[records[number]["kind"]]:
        for change in (lambda r, k=key: r.pop(k), lambda r, k=key: r.update({k: {"a": "wrong"}})):
            wrong = copy.deepcopy(records)
            change(wrong[number])
            with refused("INVALID_RECORD", f"record {number}", repr(key) if key not in wrong[number] else key):
                traces.check(wrong)
    wrong = copy.deepcopy(records)
    wrong[number]["comment"] = "hello"
    with refused("INVALID_RECORD", f"record {number}: the key 'comment' is unknown"):
        traces.check(wrong)


def test_any_other_content_has_another_chain() -> None:
    records = full()
    for number, record in enumerate(records[:-1]):
        wrong = copy.deepcopy(records)
        key = {"tensor": "size", "allocation_header": "rank", "summary": "total_logical_slots"}.get(record["kind"], "t")
        wrong[number][key] += 1
        with refused("INVALID_RECORD", "its hash does not match the chain of the records before it"):
            traces.check(wrong)
    for change in ({"records": 3}, {"trace_final_hash": bytes(32)}):
        with refused("INVALID_RECORD", "its hash does not match the chain"):
            traces.check([*records[:-1], records[-1] | change])


def test_a_trace_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    records = full()
    for length in range(len(records)):
        with refused("INVALID_RECORD"):
            traces.check(records[:length])
    sequence.write(records[:-1], tmp_path / "t")
    with refused("INVALID_RECORD", str(tmp_path / "t"), "the end is missing"):
        traces.load(tmp_path / "t")


def test_a_trace_takes_no_record_that_does_not_belong_to_it() -> None:
    trace = Trace()
    with refused("INVALID_RECORD", "'replan' is not allowed at the beginning"):
        trace.append_replan(replanned(0))
    trace.allocated(plan())
    with refused("INVALID_RECORD", "has a wrong type"):
        trace.append_replan(replanned(-1))
    assert trace.records[-1]["kind"] == "summary"


# The schemas.


def schema(rule: str) -> pycddl.Schema:
    """The page with `rule` as what is judged."""
    return pycddl.Schema(f"start = {rule}\n" + (ROOT / "spec/records.cddl").read_text())


def accepts(judge: pycddl.Schema, value: Any) -> bool:
    try:
        judge.validate_cbor(canonical.encode(value))
    except pycddl.ValidationError:
        return False
    return True


def test_every_record_that_is_written_fits_its_schema(tmp_path: Path) -> None:
    judge = schema("trace-record")
    assert [record["kind"] for record in full() if not accepts(judge, record)] == []
    ledger = Ledger()
    with apply_plan(plan(), records=RunRecords(ledger=ledger, journal=tmp_path / "j")) as execution:
        execution.begin()
        execution.step(0)
        commit_execution(execution)
        checkpoint.save(execution, tmp_path / "c")
        checkpoint.save(execution, tmp_path / "d", memory=False)
    assert len(ledger.records) == 2
    assert all(accepts(schema("ledger-record"), record) for record in ledger.records)
    error = TmmuError("INVALID_ADDRESS", "no", arena="a", offset=1, raw=b"", yes=True)
    assert accepts(schema("error-record"), errors.of_error(error))
    header, *commits = sequence.read(tmp_path / "j")
    assert accepts(schema("journal-header"), header)
    assert all(accepts(schema("commit"), commit) for commit in commits)
    for name in "cd":
        schema("checkpoint").validate_cbor((tmp_path / name).read_bytes())


RULES = {"allocation_header": "allocation-header", "error": "trace-error"}
OTHERS: tuple[Any, ...] = (7, "text", [1], {"a": 1}, None, [{"a": 1}])


@pytest.mark.parametrize("kind", KEYS)
def test_the_schema_accepts_what_the_reader_accepts_and_refuses_other_keys(kind: str) -> None:
    """Its validator takes a map for a text and a number for bytes of some length: the reader refuses these."""
    record = next(record for record in full() if record["kind"] == kind)
    judge = schema(RULES.get(kind, kind))
    others = [{**record, "comment": 1}, *({k: v for k, v in record.items() if k != key} for key in record)]
    assert [(accepts(judge, other), reads(other)) for other in others] == [(False, False)] * len(others)
    values = [{**record, key: other} for key in KEYS[kind] for other in OTHERS]
    assert [value for value in (record, *values) if reads(value) and not accepts(judge, value)] == []
    assert sum(accepts(judge, value) for value in values) < len(values) / 2
    assert reads(record)


def reads(record: Any) -> bool:
    try:
        check_record(record, 0)
    except TmmuError:
        return False
    return True
