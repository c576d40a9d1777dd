"""`plan.cbor`: a plan as canonical bytes, with its hashes (R1, R2).

`to_object` and the gate's `from_object` are inverse to each other. `save` computes every hash; `load` refuses what is
not exactly a plan (`tmmu.plan.gate`) and leaves hashes to `false_hashes`: a plan with a false hash is a plan, and
refuted. spec: P1.1, P1.3, P1.4, P1.5
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from tmmu.core import canonical, kind
from tmmu.core.bindings import bindings_object
from tmmu.core.columns import Names, Table
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ANYWHERE, Arena, ArenaPolicy
from tmmu.plan.columns import Envelope, Plan
from tmmu.plan.gate import COLUMNS, ENVELOPE, FORMAT, HASHES, SPEC_VERSION, Stated, from_object

LIMIT = 1 << 34
"""The largest plan file that is read, in bytes."""


def arena_config(arenas: Sequence[Arena], policy: ArenaPolicy = ANYWHERE) -> dict[str, Any]:
    """The configuration object whose digest is `arena_config_hash`. spec: R2.4"""
    return {
        "arenas": [
            {
                "name": a.name, "roles": [str(role) for role in a.roles], "capacity": a.capacity,
                "alignment": a.alignment, "page_size": a.page_size, "reuse": a.reuse, "device": a.device,
                "memory": a.memory,
            }
            for a in arenas
        ],
        "devices": [
            {
                "name": device.name, "memories": [dict(memory._asdict()) for memory in device.memories],
                "nodes": list(device.nodes), "ops": list(device.ops),
            }
            for device in policy.devices
        ],
        "rules": [
            {
                "arenas": list(rule.arenas), "roles": [str(role) for role in rule.roles], "names": list(rule.names),
                "ops": list(rule.ops), "devices": list(rule.devices),
            }
            for rule in policy.rules
        ],
    }  # fmt: skip


def _table(table: Table) -> dict[str, Any]:
    values = {name: getattr(table, name) for name in COLUMNS[type(table)]}
    return {name: value.blob if isinstance(value, Names) else value for name, value in values.items()}


def to_object(plan: Plan) -> dict[str, Any]:
    """The plan as maps and columns, hashes included: what `plan.cbor` holds. O(plan)."""
    body = without_hashes(plan)
    return body | recompute(body)


def without_hashes(plan: Plan) -> dict[str, Any]:
    """Everything that the hashes cover. O(plan)."""
    return {
        "format": FORMAT,
        "spec_version": SPEC_VERSION,
        "model": plan.model,
        "mode": plan.mode,
        "layout": plan.layout,
        "order": plan.order,
        "replay_token": plan.replay_token,
        "ir_hash": plan.ir_hash,
        "source_digest": plan.source_digest,
        "rank": plan.rank,
        "world_size": plan.world_size,
        "shard_spec": plan.shard_spec,
        "shards": _table(plan.shards),
        "arena_config": arena_config(plan.arenas, plan.policy),
        "usage": [dict(usage._asdict()) for usage in plan.usage],
        "bindings": bindings_object(plan.bindings),
        "ops": [list(pair) for pair in plan.ops],
        "dtypes": list(plan.dtypes),
        "tensors": _table(plan.tensors),
        "storages": _table(plan.storages),
        "slots": _table(plan.slots),
        "steps": {"count": len(plan.steps), **_table(plan.steps)},
        "bodies": _table(plan.bodies),
        "must_not_alias": [list(pair) for pair in plan.must_not_alias],
        "unproduced": list(plan.unproduced),
        "address_token_digest": plan.address_token_digest,
        **({} if plan.envelope is None else {"envelope": _envelope(plan.envelope)}),
    }


def _envelope(envelope: Envelope) -> dict[str, Any]:
    columns = {name: getattr(envelope, name) for name in ENVELOPE}
    return {"policy": envelope.policy, "terms": _table(envelope.terms), **columns}


def recompute(body: dict[str, Any]) -> dict[str, bytes]:
    """Every hash of a plan object, from the object's other keys. spec: R2.1, R2.2, R2.5, R2.6, R7.21

    `plan_hash` is the commitment of 001 II.K, `layout_digest` the same without the replay token and with rank 0, and
    `file_digest` covers the canonical bytes of all other keys, so that no byte of the file is outside a hash.
    """
    return _hashes(body, _encoded(body))


def _encoded(body: dict[str, Any]) -> dict[str, Any]:
    """A plan object whose tables and lists are encoded, once: the hashes and the file hold them several times."""
    return {key: canonical.Encoded(value) if isinstance(value, (dict, list)) else value for key, value in body.items()}


def _hashes(body: dict[str, Any], encoded: dict[str, Any]) -> dict[str, bytes]:
    steps, storages = body["steps"], body["storages"]
    order = [Names(steps["node"], steps["count"]).list(), steps["part"]]
    hashes = {
        "execution_order_hash": canonical.digest(order),
        "arena_config_hash": canonical.digest(encoded["arena_config"]),
        "shard_spec_hash": canonical.digest(encoded["shard_spec"]),
    }
    tables = [encoded[key] for key in ("tensors", "storages", "slots", "steps")]
    addresses = canonical.Encoded([storages[key] for key in ("arena", "slot", "offset")])

    def commit(rank: int, slot_assignment: list[Any]) -> bytes:
        return canonical.commitment(
            "tmmu_plan_v1",
            [
                body["ir_hash"], body["mode"], hashes["arena_config_hash"], hashes["execution_order_hash"],
                rank, body["world_size"], hashes["shard_spec_hash"], slot_assignment, addresses,
            ],
        )  # fmt: skip

    bound = [encoded[key] for key in ("bindings", "envelope") if key in encoded]
    hashes["plan_hash"] = commit(body["rank"], [body["replay_token"], *bound, *tables])
    hashes["layout_digest"] = commit(0, [*bound, *tables])
    hashes["file_digest"] = _file_digest(encoded, hashes)
    return hashes


def _file_digest(encoded: dict[str, Any], hashes: dict[str, bytes]) -> bytes:
    """The digest of a file that states these hashes."""
    others = {field: value for field, value in hashes.items() if field != "file_digest"}
    return canonical.digest({**encoded, **others})


def encode(plan: Plan) -> bytes:
    """The bytes of `plan.cbor`."""
    body = without_hashes(plan)
    encoded = _encoded(body)
    return canonical.encode({**encoded, **_hashes(body, encoded)})


def save(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Write `plan` to `path`, whole or not at all. spec: P1.4"""
    canonical.write_atomically(path, encode(plan))


def load(path: str | os.PathLike[str]) -> Stated:
    """The plan at `path` and its stated hashes; raises INVALID_PLAN naming the file and the place. spec: P1.2"""
    name = os.fspath(path)
    try:
        data = canonical.read_bounded(path, LIMIT)
        kind.check_plan(name, data[: kind.HEAD])
        return decode(data)
    except TmmuError as error:
        error.in_file(name)
        raise


def decode(data: bytes) -> Stated:
    """The gate: the plan that `data` encodes, or INVALID_PLAN. Memory is a small multiple of the input."""
    return from_object(canonical.decode(data, "plan"))


def false_hashes(stated: Stated) -> list[tuple[str, bytes, bytes]]:
    """Each hash that does not recompute: its field, what the file states, what it should be. spec: V1.8"""
    body = without_hashes(stated.plan)
    encoded = _encoded(body)
    actual = _hashes(body, encoded)
    if actual == stated.hashes:
        return []
    # What the digest of the file should be depends on the other hashes as the file states them.
    actual["file_digest"] = _file_digest(encoded, stated.hashes)
    return [(field, stated.hashes[field], actual[field]) for field in HASHES if stated.hashes[field] != actual[field]]
