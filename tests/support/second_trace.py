"""The trace of the second planner's plan, whole: 001 §7's records, 001 II.K's plan hash, the chain of U5.12 and U5.13.

From `spec/tags.md`, `plan.cddl` and `records.cddl`, and from nothing of `tmmu.plans` and `tmmu.runtime`.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from functools import partial
from itertools import accumulate
from math import gcd
from typing import Any

import numpy as np

from tests.support.second_planner import CALLERS, PERSISTENT, SecondPlan, Storage
from tmmu.core import canonical
from tmmu.core.bindings import bindings_object
from tmmu.core.columns import NONE, build_column, flatten_rows, number_values
from tmmu.core.vocabulary import NodePart, Role, Shares
from tmmu.ir import columns as ir

SPEC_VERSION = "2.0"
PARTS, ROLES, SHARES = list(NodePart), list(Role), list(Shares)
u8, u32, u64 = (partial(build_column, dtype=width) for width in (np.uint8, np.uint32, np.uint64))
STORAGES = {"arena": u32, "bytes": u64, "alignment": u64, "birth": u32, "death": u32, "offset": u64}

COMPLETED = {"status": "success", "failure_code": None, "allocation_time_ns": 0}
"""What the end of a plan's trace has beside its chain: nothing has failed, and nothing was applied."""


def replay_token(seed: int) -> bytes:
    """The token of a seed: all of this project's own fields are digests of the empty map. spec: A4.1"""
    return canonical.commitment("replay_token_v1", ["1.0", *[canonical.digest({})] * 5, seed])


def trace(plan: SecondPlan, token: bytes) -> list[dict[str, Any]]:
    """The records of one allocation and their end. spec: U5.9 to U5.13"""
    records = [header(plan, token), *tensors(plan), summary(plan)]
    chain = canonical.commitment("trace_chain_v1", [])
    last: dict[str, Any] = {"kind": "end", "records": len(records)}
    for record in (*records, last):
        chain = canonical.commitment("trace_chain_v1", [chain, canonical.digest(record)])
    return [*records, last | COMPLETED | {"trace_final_hash": chain}]


def configuration(plan: SecondPlan) -> dict[str, Any]:
    """The arenas, as the header and the plan hash have them. spec: R2.4, U5.10"""
    rows = [asdict(arena) | {"roles": [str(role) for role in arena.roles]} for arena in plan.arenas]
    return {"arenas": rows, "devices": [], "rules": []}


def header(plan: SecondPlan, token: bytes) -> dict[str, Any]:
    """What the trace is of. spec: U5.10"""
    return {
        "kind": "allocation_header", "trace_schema": "tmmu_trace_v1", "metric_schema": "tmmu_metrics_v1",
        "spec_version": SPEC_VERSION, "model": plan.model.name, "ir_hash": ir.model_digest(plan.model),
        "mode": plan.mode,
        "layout": "slots", "replay_token_prefix": token[:8], "replay_token_digest": hashlib.sha256(token).digest(),
        "arena_config": configuration(plan), "arena_config_hash": canonical.digest(configuration(plan)),
        "tmmu_plan_hash": plan_hash(plan, token), "rank": 0, "world_size": 1,
    }  # fmt: skip


def tensors(plan: SecondPlan) -> list[dict[str, Any]]:
    """A record for each tensor, in the order of the bytes of the names. spec: U2.7, U5.11, T2.11"""
    rows = zip(plan.tensors, plan.storage, plan.window, plan.lives, strict=True)
    return [
        {
            "kind": "tensor", "tensor_id": tensor.name, "arena": (arena := plan.arenas[storage.arena].name),
            "logical_slot": storage.slot, "logical_address": [arena, storage.offset + window], "size": tensor.bytes,
            "live_range": list(life), "bytes": storage.bytes, "generation": storage.generation,
        }
        for tensor, storage, window, life in sorted(rows, key=lambda row: row[0].name.encode())
    ]  # fmt: skip


def summary(plan: SecondPlan) -> dict[str, Any]:
    """The totals, by the formulas of `spec/runtime.md`. spec: R3.1, R3.3, A3.1, U5.3, U5.4"""
    held = used = 0
    peaks, ends = {}, {}
    for arena, slots in zip(plan.arenas, plan.slots, strict=True):
        mine = [storage for slot in slots for storage in slot.tenants]
        changes = sorted([(x.death + 1, -x.bytes) for x in mine] + [(x.birth, x.bytes) for x in mine])
        peaks[arena.name] = max(accumulate(change for _, change in changes), default=0)
        ends[arena.name] = max((x.offset + max(1, x.bytes) for x in mine), default=0)
        used += sum(x.bytes * span(x) for x in mine)
        held += sum(slot.bytes * span(x) for slot in slots for x in slot.tenants)
    count, all_slots = len(plan.tensors), sum(map(len, plan.slots))
    activations = [
        t for t, (why, _) in zip(plan.tensors, plan.shares, strict=True)
        if t.role == Role.ACTIVATION and why != Shares.VIEW
    ]  # fmt: skip
    saved = sum(t.bytes for t in activations if t.saved_for_backward)
    return {
        "kind": "summary", "peak_bytes_per_arena": peaks, "footprint_per_arena": ends,
        "total_logical_slots": all_slots, "reuse_ratio": ratio(count - all_slots, count),
        "fragmentation_pct": ratio(100 * (held - used), held),
        "activation_retention_ratio": ratio(saved, sum(t.bytes for t in activations)),
    }  # fmt: skip


def span(storage: Storage) -> int:
    """How many steps a storage lives."""
    return storage.death - storage.birth + 1


def ratio(part: int, whole: int) -> list[int]:
    """Two integers in lowest terms, and nothing of nothing as 0 ÷ 1. spec: U5.3"""
    common = gcd(part, whole)
    return [part // common, whole // common] if whole else [0, 1]


def plan_hash(plan: SecondPlan, token: bytes) -> bytes:
    """001 II.K, for one rank without shards. spec: R2.1 to R2.5, A4.2"""
    nodes = [plan.model.nodes[step.node] for step in plan.steps]
    order = [[node.name for node in nodes], u8([PARTS.index(step.part) for step in plan.steps])]
    slots = [(a, slot) for a, mine in enumerate(plan.slots) for slot in mine]
    of_slot = {id(storage): row for row, (_, slot) in enumerate(slots) for storage in slot.tenants}
    of = u32([of_slot[id(storage)] for storage in plan.storages])
    storages = {key: width([getattr(s, key) for s in plan.storages]) for key, width in STORAGES.items()}
    slot_table = {
        "arena": u32([a for a, _ in slots]), "bytes": u64([slot.bytes for _, slot in slots]),
        "alignment": u64([slot.alignment for _, slot in slots]), "of": of,
    }  # fmt: skip
    bindings = bindings_object(plan.model.bindings)
    table = [token, bindings, tensor_table(plan), storages, step_table(plan, order[1]), slot_table]
    addresses = [storages["arena"], of, storages["offset"]]
    given = [ir.model_digest(plan.model), plan.mode, canonical.digest(configuration(plan)), canonical.digest(order)]
    return canonical.commitment("tmmu_plan_v1", [*given, 0, 1, canonical.digest({}), table, addresses])


def tensor_table(plan: SecondPlan) -> dict[str, Any]:
    """The columns of the tensors. spec: P2.1, P2.3"""
    tensors, model = plan.tensors, plan.model
    row = {id(storage): s for s, storage in enumerate(plan.storages)}
    writer: dict[int, int] = {}
    for s, step in enumerate(plan.steps):
        for t in step.writes:
            writer.setdefault(t, NONE if tensors[t].role in CALLERS else s)
    flags, outputs = [], set(model.outputs)
    for t, tensor in enumerate(tensors):
        is_output, is_saved = t in outputs, tensor.saved_for_backward
        kept = tensor.role in PERSISTENT and tensor.name not in model.bindings.donated
        returned = is_output or kept or (is_saved and plan.mode == "forward")
        flags.append((t in model.inputs) + 2 * is_output + 4 * is_saved + 8 * returned)
    return {
        "name": b"\0".join(tensor.name.encode() for tensor in tensors),
        "dtype": u8(number_values([tensor.dtype for tensor in tensors])[1]),
        "role": u8([ROLES.index(tensor.role) for tensor in tensors]), "flags": u8(flags),
        "bytes": u64([tensor.bytes for tensor in tensors]), "alignment": u64([tensor.alignment for tensor in tensors]),
        "birth": u32([life.birth for life in plan.lives]), "death": u32([life.death for life in plan.lives]),
        "storage": u32([row[id(storage)] for storage in plan.storage]), "window": u64(plan.window),
        "writer": u32([writer.get(t, NONE) for t in range(len(tensors))]),
        "shares": u8([SHARES.index(why) for why, _ in plan.shares]), "of": u32([of for _, of in plan.shares]),
    }  # fmt: skip


def step_table(plan: SecondPlan, parts: Any) -> dict[str, Any]:
    """The columns of the steps: `x_at` are the bounds of the lists in `x`."""
    nodes = [plan.model.nodes[step.node] for step in plan.steps]
    lists = {key: flatten_rows([getattr(step, key) for step in plan.steps]) for key in ("reads", "writes", "mutates")}
    return {
        "count": len(nodes), "node": b"\0".join(node.name.encode() for node in nodes), "part": parts,
        "op": u32(number_values([(node.domain, node.op) for node in nodes])[1]),
        "body": u32([step.body for step in plan.steps]),
        **{f"{key}_at": bounds for key, (bounds, _) in lists.items()},
        **{key: flat for key, (_, flat) in lists.items()},
    }  # fmt: skip
