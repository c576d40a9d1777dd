"""Checkpoints: a plan with its slots, live ranges, metrics and sealed state, and optionally the bytes of its arenas.

On restore, every hash is recomputed, including that of the sealed state from its commit and those of the bytes that the
commit covers. Slots and live ranges are derived from the plan again. Any difference aborts. Addresses are offsets, so
the arenas may be anywhere afterwards. spec: U6.1 to U6.11
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tmmu.core import canonical, kind
from tmmu.core.columns import Names, build_column
from tmmu.core.errors import TmmuError
from tmmu.core.records import record_error
from tmmu.plans import file
from tmmu.plans.gate import SPEC_VERSION
from tmmu.plans.metrics import first_slot
from tmmu.plans.sections import Plan
from tmmu.runtime.apply import apply_plan
from tmmu.runtime.events import EventLog
from tmmu.runtime.execution import Execution, violation
from tmmu.runtime.filling import UNFILLED
from tmmu.runtime.handles import generations
from tmmu.runtime.journal import JournalState, genesis, seal_commit
from tmmu.runtime.memory import MappedMemory
from tmmu.runtime.recording import UNRECORDED, Continuation, RunRecords
from tmmu.runtime.records import metrics
from tmmu.runtime.records.schema import check_record

FORMAT = "tmmu-checkpoint"
LIMIT = 1 << 36
"""The largest checkpoint that is read, in bytes."""

KEYS: dict[str, tuple[type, ...]] = {
    "format": (str,), "spec_version": (str,), "plan": (bytes,), "tmmu_plan_hash": (bytes,), "batches": (int,),
    "state_hash": (bytes,), "commit": (dict, type(None)), "tensors": (dict,), "metrics": (dict,),
    "memory": (list, type(None)), "checkpoint_hash": (bytes,),
}  # fmt: skip
"""Every key of a checkpoint with the types that its value may have."""


class Checkpoint(NamedTuple):
    """The checked content of a checkpoint: the plan, the state, and the bytes of each arena or None."""

    plan: Plan
    plan_hash: bytes
    state: JournalState
    memory: list[bytes] | None

    @property
    def is_covered(self) -> bool:
        """Whether the sealed state covers the bytes of every arena; true if there are no bytes. spec: U6.11"""
        sealed_arenas = [] if self.state.commit is None else self.state.commit["arenas"]
        return self.memory is None or all(arena["content"] is not None for arena in sealed_arenas)


def tensor_columns(plan: Plan) -> dict[str, Any]:
    """Return the logical slots and live ranges of a plan's tensors, in the order of the UTF-8 bytes of their names."""
    t, s = plan.allocation.tensors, plan.allocation.storages
    names = t.name.list()
    order = np.array(sorted(range(len(names)), key=lambda row: names[row].encode()), np.int64)
    rows = first_slot(plan.slots)
    first = np.array([rows.get(a, 0) for a in range(len(plan.allocation.arenas))], np.int64)
    storage = t.storage[order]
    return {
        "tensor_id": Names.of([names[row] for row in order.tolist()]).blob,
        "arena": build_column(s.arena[storage], np.uint32),
        "logical_slot": build_column(plan.slots.of[storage] - first[s.arena[storage]], np.uint32),
        "generation": build_column(generations(plan)[storage], np.uint32),
        "birth": build_column(t.birth[order], np.uint32),
        "death": build_column(t.death[order], np.uint32),
    }


def encode(plan: Plan, state: JournalState | None = None, memory: MappedMemory | None = None) -> bytes:
    """Encode a checkpoint; without a state, that of a plan that has not run.

    Raises CONTRACT_VIOLATION for a state without its commit, which restore could not check: that of a journal that
    continues another run.
    """
    plan_hash = file.plan_identity(plan)
    state = state or genesis(plan_hash)
    if state.batches and state.commit is None:
        raise violation("the journal has no commit of the state that it begins with", "commit a batch first")
    body: dict[str, Any] = {
        "format": FORMAT,
        "spec_version": SPEC_VERSION,
        "plan": file.encode(plan),
        "tmmu_plan_hash": plan_hash,
        "batches": state.batches,
        "state_hash": state.state_hash,
        "commit": state.commit,
        "tensors": tensor_columns(plan),
        "metrics": metrics.of_plan(plan),
        "memory": None if memory is None else [found.content.tobytes() for found in memory.arenas],
    }
    return canonical.encode(body | {"checkpoint_hash": canonical.digest(body)})


def check_contents(execution_mode: str) -> None:
    """Raise MODE_VIOLATION if the bytes of arenas may not be written to a file in this mode. spec: U6.9"""
    if execution_mode in UNFILLED:
        raise TmmuError(
            "MODE_VIOLATION",
            f"a checkpoint must not contain the bytes of the arenas in execution mode {execution_mode!r}",
            fix="write it without them, or run in local or managed mode",
            operator="UML_OS.TMMU.ApplyPlan_v1",
            mode=execution_mode,
        )


def save(execution: Execution, path: str | os.PathLike[str], *, memory: bool = True) -> None:
    """Write a checkpoint of the sealed state, whole or not at all; with the bytes of the arenas if `memory` is true.

    Raises CONTRACT_VIOLATION while a batch is open, TMMU_ALLOCATION_FAILURE if the file cannot be written, and
    MODE_VIOLATION for the bytes of arenas in confidential and regulated mode.
    """
    if memory:
        check_contents(execution.execution_mode)
    if execution.is_open:
        raise violation("a checkpoint cannot be made while a batch is open", "commit the batch first")
    data = encode(execution.plan, execution.state, execution.memory if memory else None)
    events, t = execution.events, execution.state.batches
    report = None if events is None else lambda what: events("checkpoint", what=what, t=t)
    canonical.write_atomically(path, data, report)


def load(path: str | os.PathLike[str], current: Plan | None = None, events: EventLog | None = None) -> Checkpoint:
    """Read the checkpoint at `path`, and recompute every hash; with `current`, check that it belongs to that plan.

    Raises INVALID_RECORD if the bytes are not a checkpoint, REPLAY_DIVERGENCE if a hash, a slot or a live range does
    not follow from the plan, or if the plan is not `current`.
    """
    try:
        data = canonical.read_bounded(path, LIMIT, "INVALID_RECORD")
        kind.check_record(os.fspath(path), data[: kind.HEAD], kind.WORDS[kind.CHECKPOINT])
        found = decode(data, current)
    except TmmuError as error:
        error.in_file(os.fspath(path))
        if events is not None:
            events("checkpoint refused")
        raise
    if events is not None:
        events("restored", plan_hash=found.plan_hash.hex(), t=found.state.batches)
    return found


def decode(data: bytes, current: Plan | None = None) -> Checkpoint:
    """Decode and check the bytes of a checkpoint, as `load` does."""
    try:
        value = canonical.decode(data, "checkpoint")
    except TmmuError as error:
        raise record_error("checkpoint", error.what) from error
    if not isinstance(value, dict) or set(value) != set(KEYS):
        raise record_error("checkpoint", "its keys are not those of a checkpoint")
    for key, types in KEYS.items():
        if type(value[key]) not in types:
            raise record_error(key, "the value has a wrong type")
    if (value["format"], value["spec_version"]) != (FORMAT, SPEC_VERSION):
        raise record_error(
            "format", f"{value['format']!r} {value['spec_version']!r} is not a known format of checkpoints"
        )
    body = {key: item for key, item in value.items() if key != "checkpoint_hash"}
    if value["checkpoint_hash"] != canonical.digest(body):
        raise record_error("checkpoint_hash", "it does not match the other keys: the file is damaged")
    try:
        stated = file.require_steps(file.decode(value["plan"]))
    except TmmuError as error:
        raise record_error("plan", error.what) from error
    plan = stated.plan
    for field, found, expected in file.find_false_hashes(stated):
        raise _make_divergence(field, expected, found)
    plan_hash = stated.hashes.get("plan_hash", stated.hashes["file_digest"])
    if value["tmmu_plan_hash"] != plan_hash:
        raise _make_divergence("tmmu_plan_hash", plan_hash, value["tmmu_plan_hash"])
    for key, derived in (("tensors", tensor_columns(plan)), ("metrics", metrics.of_plan(plan))):
        if canonical.encode(value[key]) != canonical.encode(derived):
            raise _make_divergence(key, canonical.digest(derived), canonical.digest(value[key]))
    if current is not None:
        # The plan hash leaves operators, types and bodies out; the digest of the file covers everything.
        now = file.compute_hashes(current)
        for field in (name for name in ("plan_hash", "file_digest") if name in stated.hashes):
            if now.get(field) != stated.hashes[field]:
                raise _make_divergence(f"{field} of the current plan", stated.hashes[field], now.get(field, b""))
    state = JournalState(value["batches"], value["state_hash"], value["commit"])
    if state.batches < 0 or len(state.state_hash) != 32 or (state.batches == 0 and state != genesis(plan_hash)):
        raise record_error("state_hash", "it is not a state of this plan")
    checkpoint = Checkpoint(plan, plan_hash, state, _check_memory(value["memory"], plan))
    _check_sealed(checkpoint)
    return checkpoint


def _check_memory(value: list[Any] | None, plan: Plan) -> list[bytes] | None:
    if value is not None and (
        len(value) != len(plan.allocation.arenas) or not all(isinstance(item, bytes) for item in value)
    ):
        raise record_error("memory", "it is not one byte string for each arena")
    return value


def _check_sealed(found: Checkpoint) -> None:
    """Check that the commit is that of the last batch of this plan, and the state and bytes match it. spec: U6.10

    Raises INVALID_RECORD if the commit is not that of the last batch, REPLAY_DIVERGENCE if a digest differs.
    """
    state, commit = found.state, found.state.commit
    if (commit is None) != (state.batches == 0):
        raise record_error("commit", "expected a commit if and only if a batch has run")
    if commit is None:
        return
    check_record(commit, state.batches)
    names = [arena.name for arena in found.plan.allocation.arenas]
    of = commit["kind"], commit.get("t"), commit.get("tmmu_plan_hash")
    if of != ("commit", state.batches - 1, found.plan_hash) or [a["arena"] for a in commit["arenas"]] != names:
        raise record_error("commit", "it is not the commit of the last batch of this plan")
    for hash_of_state in (commit["state_hash"], state.state_hash):
        if hash_of_state != (expected := seal_commit(commit)):
            raise _make_divergence("state_hash", expected, hash_of_state)
    for arena, content in zip(commit["arenas"], found.memory or (), strict=False):
        if arena["content"] is not None and arena["content"] != (digest := hashlib.sha256(content).digest()):
            raise _make_divergence(f"memory of arena {arena['arena']!r}", arena["content"], digest)


def restore(
    path: str | os.PathLike[str],
    *,
    current: Plan | None = None,
    execution_mode: str = "local",
    memory_bytes_budget: int | None = None,
    base: Mapping[str, Any] | None = None,
    records: RunRecords = UNRECORDED,
) -> Execution:
    """Load the checkpoint at `path` and return the execution that continues it. Raises as `load` and `resume` do."""
    found = load(path, current, records.events)
    return resume(
        found, execution_mode=execution_mode, memory_bytes_budget=memory_bytes_budget, base=base, records=records
    )


def resume(
    found: Checkpoint,
    *,
    execution_mode: str = "local",
    memory_bytes_budget: int | None = None,
    base: Mapping[str, Any] | None = None,
    records: RunRecords = UNRECORDED,
) -> Execution:
    """Return the execution that continues from a checkpoint, in separate memory or at `base`.

    If the checkpoint contains the bytes of the arenas, they are restored; else reused arenas are zero. Parameters and
    exceptions are those of `apply_plan`.
    """
    return apply_plan(
        found.plan, execution_mode=execution_mode, memory_bytes_budget=memory_bytes_budget, base=base,
        records=records, start=Continuation(found.state, found.memory),
    )  # fmt: skip


def _make_divergence(field: str, expected: bytes, found: bytes) -> TmmuError:
    return TmmuError(
        "REPLAY_DIVERGENCE",
        f"expected {expected.hex()}, found {found.hex()}",
        place=field,
        fix="restore it with the plan from which it was made",
        operator="UML_OS.TMMU.ApplyPlan_v1",
        expected=expected,
        found=found,
    )
