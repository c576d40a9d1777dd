"""`plan.cbor`: a plan as canonical bytes, its hashes, and the gate that every plan file must pass (R1, R2).

`to_object` and `from_object` are inverse to each other; `save` computes every hash, `load` refuses whatever is
not exactly a plan, and leaves it to `stated` and `recompute` to show a hash that does not hold: a plan with a
false hash is a plan, and refuted. The gate is trusted by every proof. spec: P1.1, P1.2, P1.3, P1.4
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tmmu import canonical
from tmmu.errors import TmmuError
from tmmu.ir.columns import bindings_object, read_bindings
from tmmu.ir.dtypes import BITS
from tmmu.plan.columns import (
    NONE,
    PARTS,
    ROLES,
    SHARES,
    Bodies,
    Names,
    Plan,
    Slots,
    Steps,
    Storages,
    Table,
    Tensors,
)
from tmmu.vocabulary import UINT64_END, Arena, Role, Usage

FORMAT, SPEC_VERSION = "tmmu-plan", "1.0"
LAYOUTS = ("slots",)
MODES = ("inference", "forward", "backward")
LIMIT = 1 << 34
"""The largest plan file that is read, in bytes."""

HASHES = ("execution_order_hash", "arena_config_hash", "shard_spec_hash", "plan_hash", "layout_digest", "file_digest")
Rows = TypeVar("Rows", bound=Table)

COLUMNS: dict[type[Table], dict[str, Any]] = {
    Tensors: {
        "name": Names, "dtype": np.uint8, "role": np.uint8, "flags": np.uint8, "bytes": np.uint64,
        "alignment": np.uint64, "birth": np.uint32, "death": np.uint32, "storage": np.uint32, "window": np.uint64,
        "writer": np.uint32, "shares": np.uint8, "of": np.uint32,
    },
    Storages: {
        "arena": np.uint32, "bytes": np.uint64, "alignment": np.uint64, "birth": np.uint32, "death": np.uint32,
        "slot": np.uint32, "offset": np.uint64,
    },
    Slots: {"arena": np.uint32, "bytes": np.uint64, "alignment": np.uint64},
    Steps: {
        "node": Names, "op": np.uint32, "part": np.uint8, "body": np.uint32, "reads_at": np.uint32,
        "reads": np.uint32, "writes_at": np.uint32, "writes": np.uint32, "mutates_at": np.uint32, "mutates": np.uint32,
    },
    Bodies: {"name": Names, "parent": np.uint32, "enter": np.uint32, "leave": np.uint32, "iterates": np.uint8},
}  # fmt: skip
"""The columns of each table and their types; `name` and `node` are text columns."""


class Stated(NamedTuple):
    """A plan as it was read, and the hashes that its file states."""

    plan: Plan
    hashes: dict[str, bytes]


def arena_config(arenas: Sequence[Arena]) -> list[dict[str, Any]]:
    """The configuration object whose digest is `arena_config_hash`. spec: R2.4"""
    return [
        {
            "name": a.name, "roles": [str(role) for role in a.roles], "capacity": a.capacity, "alignment": a.alignment,
            "page_size": a.page_size, "reuse": a.reuse, "device": a.device,
        }
        for a in arenas
    ]  # fmt: skip


def _table(table: Table) -> dict[str, Any]:
    values = {name: getattr(table, name) for name in COLUMNS[type(table)]}
    return {name: value.blob if isinstance(value, Names) else value for name, value in values.items()}


def to_object(plan: Plan) -> dict[str, Any]:
    """The plan as maps and columns, hashes included: what `plan.cbor` holds. O(plan)."""
    body = {
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
        "arena_config": arena_config(plan.arenas),
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
    }
    return body | recompute(body)


def recompute(body: dict[str, Any]) -> dict[str, bytes]:
    """Every hash of a plan object, from the object's other keys. spec: R2.1, R2.2, R2.5, R2.6

    `plan_hash` is the commitment of 001 II.K, `layout_digest` the same without the replay token, and `file_digest`
    covers the canonical bytes of all other keys, so that no byte of the file is outside a hash.
    """
    steps, storages = body["steps"], body["storages"]
    order = [Names(steps["node"], steps["count"]).list(), steps["part"]]
    hashes = {
        "execution_order_hash": canonical.digest(order),
        "arena_config_hash": canonical.digest(body["arena_config"]),
        "shard_spec_hash": canonical.digest(body["shard_spec"]),
    }
    tables = [body[key] for key in ("tensors", "storages", "slots", "steps")]
    addresses = [storages[key] for key in ("arena", "slot", "offset")]

    def commit(slot_assignment: list[Any]) -> bytes:
        return canonical.commitment(
            "tmmu_plan_v1",
            [
                body["ir_hash"], body["mode"], hashes["arena_config_hash"], hashes["execution_order_hash"], body["rank"],
                body["world_size"], hashes["shard_spec_hash"], slot_assignment, addresses,
            ],
        )  # fmt: skip

    hashes["plan_hash"] = commit([body["replay_token"], body["bindings"], *tables])
    hashes["layout_digest"] = commit([body["bindings"], *tables])
    everything = {key: value for key, value in body.items() if key != "file_digest"} | hashes
    hashes["file_digest"] = hashlib.sha256(canonical.encode(everything)).digest()
    return hashes


def encode(plan: Plan) -> bytes:
    """The bytes of `plan.cbor`."""
    return canonical.encode(to_object(plan))


def save(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Write `plan` to `path`, whole or not at all. spec: P1.4"""
    canonical.write_atomically(path, encode(plan))


def load(path: str | os.PathLike[str]) -> Stated:
    """The plan at `path` and its stated hashes; raises INVALID_PLAN naming the file and the place. spec: P1.2"""
    name = os.fspath(path)
    try:
        return decode(canonical.read_bounded(path, LIMIT))
    except TmmuError as error:
        raise error.in_file(name)


def decode(data: bytes) -> Stated:
    """The gate: the plan that `data` encodes, or INVALID_PLAN. Memory is a small multiple of the input."""
    return from_object(canonical.decode(data, "plan"))


def false_hashes(stated: Stated) -> list[tuple[str, bytes, bytes]]:
    """Each hash that does not recompute: its field, what the file states, what it should be. spec: V1.8"""
    actual = recompute({key: value for key, value in to_object(stated.plan).items() if key not in HASHES})
    found = [(field, stated.hashes[field], actual[field]) for field in HASHES[:-1] if stated.hashes[field] != actual[field]]
    body = to_object(stated.plan) | {key: value for key, value in stated.hashes.items() if key != "file_digest"}
    whole = hashlib.sha256(canonical.encode({key: v for key, v in body.items() if key != "file_digest"})).digest()
    if stated.hashes["file_digest"] != whole:
        found.append(("file_digest", stated.hashes["file_digest"], whole))
    return found


# The gate. Each helper names the place and says what is wrong there.


def _refuse(place: str, what: str) -> TmmuError:
    return TmmuError("INVALID_PLAN", what, place=place, fix="write the plan again with the tool that made it")


def _integer(value: Any, place: str, end: int = UINT64_END, least: int = 0) -> int:
    if type(value) is not int or not least <= value < end:
        raise _refuse(place, f"{value!r} is no integer from {least} to {end - 1}")
    return value


def _text(value: Any, place: str) -> str:
    if type(value) is not str:
        raise _refuse(place, f"{value!r} is no text")
    return value


def _keys(value: Any, keys: Sequence[str], place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _refuse(place, "no map")
    for key in keys:
        if key not in value:
            raise _refuse(place, f"the key {key!r} is missing")
    for key in value:
        if key not in keys:
            raise _refuse(place, f"the key {key!r} is unknown")
    return value


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise _refuse(place, "no array")
    return value


def _read_table(kind: type[Rows], value: Any, place: str, rows: int | None = None) -> Rows:
    """A table whose columns all have one length and the right type; text columns hold unique UTF-8 names if `unique`."""
    spec = COLUMNS[kind]
    value = _keys(value, list(spec), place)
    columns: dict[str, Any] = {}
    for name, dtype in spec.items():
        column = value[name]
        if dtype is Names:
            if not isinstance(column, bytes):
                raise _refuse(f"{place}.{name}", "no byte string")
        elif not isinstance(column, np.ndarray) or column.dtype != np.dtype(dtype):
            raise _refuse(f"{place}.{name}", f"no column of {np.dtype(dtype)}")
        elif not name.endswith("_at") and name not in Steps.LISTS:
            rows = len(column) if rows is None else rows
            if len(column) != rows:
                raise _refuse(f"{place}.{name}", f"{len(column)} rows where the table has {rows}")
        columns[name] = column
    for name, dtype in spec.items():
        if dtype is Names:
            columns[name] = _names(columns[name], rows or 0, f"{place}.{name}")
    return kind(**columns)


def _names(blob: bytes, rows: int, place: str) -> Names:
    try:
        names = Names(blob, rows)
        found = len(names.list())
    except UnicodeDecodeError as error:
        raise _refuse(place, "no UTF-8") from error
    if found != rows or (rows == 0 and blob):
        raise _refuse(place, f"{found} names where the table has {rows} rows")
    return names


def _index(column: Any, rows: int, place: str, absent: bool = False) -> None:
    """Every entry is a row below `rows` (or NONE where it may be absent)."""
    outside = column >= rows
    if absent:
        outside &= column != NONE
    if outside.any():
        raise _refuse(f"{place} row {int(outside.argmax())}", f"points beyond {rows} rows")


def _read_arena(value: Any, place: str) -> Arena:
    value = _keys(value, ("name", "roles", "capacity", "alignment", "page_size", "reuse", "device"), place)
    roles = []
    for role in _list(value["roles"], f"{place}.roles"):
        if role not in tuple(Role):
            raise _refuse(f"{place}.roles", f"unknown role {role!r}")
        roles.append(Role(role))
    if type(value["reuse"]) is not bool:
        raise _refuse(f"{place}.reuse", "no boolean")
    return Arena(
        _text(value["name"], f"{place}.name"),
        tuple(roles),
        _integer(value["capacity"], f"{place}.capacity", least=1),
        _integer(value["alignment"], f"{place}.alignment", least=1),
        _integer(value["page_size"], f"{place}.page_size", least=1),
        value["reuse"],
        _text(value["device"], f"{place}.device"),
    )


def _read_usage(value: Any, place: str) -> Usage:
    value = _keys(value, Usage._fields, place)
    if type(value["minimal"]) is not bool:
        raise _refuse(f"{place}.minimal", "no boolean")
    return Usage(*(_integer(value[key], f"{place}.{key}") for key in Usage._fields[:-1]), value["minimal"])


def _hash(value: Any, place: str, absent: bool = False) -> bytes:
    if value is None and absent:
        return b""
    if not isinstance(value, bytes) or len(value) != 32:
        raise _refuse(place, "no SHA-256 (32 bytes)")
    return value


def _shard_spec(value: Any) -> dict[str, Any]:
    if value != {}:
        raise _refuse("shard_spec", "sharding is not known to this version")
    return {}


def from_object(value: Any) -> Stated:
    """The plan in a decoded object. Every index is in range, every column has its table's length. spec: P1.2, P1.3"""
    keys = [
        "format", "spec_version", "model", "mode", "layout", "order", "replay_token", "ir_hash", "source_digest", "rank",
        "world_size", "shard_spec", "arena_config", "usage", "bindings", "ops", "dtypes", "tensors", "storages", "slots",
        "steps", "bodies", "must_not_alias", "unproduced",
    ]  # fmt: skip
    value = _keys(value, [*keys, *HASHES], "plan")
    if value["format"] != FORMAT or value["spec_version"] != SPEC_VERSION:
        raise _refuse("format", f"{value['format']!r} {value['spec_version']!r}, not {FORMAT!r} {SPEC_VERSION!r}")
    if value["layout"] not in LAYOUTS:
        raise _refuse("layout", f"unknown layout {value['layout']!r}")
    if value["mode"] not in MODES:
        raise _refuse("mode", f"unknown mode {value['mode']!r}")
    arenas = tuple(_read_arena(a, f"arena_config[{i}]") for i, a in enumerate(_list(value["arena_config"], "arena_config")))
    usage = tuple(_read_usage(u, f"usage[{i}]") for i, u in enumerate(_list(value["usage"], "usage")))
    if len(usage) != len(arenas) or len({a.name for a in arenas}) != len(arenas):
        raise _refuse("usage", "not one entry for each arena, or an arena's name repeats")
    ops = []
    for i, pair in enumerate(_list(value["ops"], "ops")):
        if len(_list(pair, f"ops[{i}]")) != 2:
            raise _refuse(f"ops[{i}]", "no pair of domain and operator")
        ops.append((_text(pair[0], f"ops[{i}]"), _text(pair[1], f"ops[{i}]")))
    types = tuple(_text(t, "dtypes") for t in _list(value["dtypes"], "dtypes"))
    if unknown := [t for t in types if t not in BITS]:
        raise _refuse("dtypes", f"unknown dtype {unknown[0]!r}")
    tensors = _read_table(Tensors, value["tensors"], "tensors")
    if len(set(tensors.name)) != len(tensors) or "" in set(tensors.name):
        raise _refuse("tensors.name", "a name is empty or used twice")
    storages = _read_table(Storages, value["storages"], "storages")
    slots = _read_table(Slots, value["slots"], "slots")
    bodies = _read_table(Bodies, value["bodies"], "bodies")
    steps = _read_steps(value["steps"], len(tensors))
    _check_references(tensors, storages, slots, steps, bodies, len(arenas), len(ops), len(types))
    pairs = []
    for i, pair in enumerate(_list(value["must_not_alias"], "must_not_alias")):
        if len(_list(pair, f"must_not_alias[{i}]")) != 2:
            raise _refuse(f"must_not_alias[{i}]", "no pair")
        pairs.append(tuple(_integer(x, f"must_not_alias[{i}]", len(tensors)) for x in pair))
    try:
        bindings = read_bindings(value["bindings"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _refuse("bindings", str(error)) from error
    rank, world = _integer(value["rank"], "rank", 1 << 32), _integer(value["world_size"], "world_size", 1 << 32, 1)
    if rank >= world:
        raise _refuse("rank", f"{rank} of {world} ranks")
    source = _hash(value["source_digest"], "source_digest", absent=True) or None
    plan = Plan(
        _text(value["model"], "model"), value["mode"], value["layout"], _text(value["order"], "order"),
        _hash(value["replay_token"], "replay_token"), _hash(value["ir_hash"], "ir_hash"), source, arenas, usage,
        bindings, tuple(ops), types, tensors, storages, slots, steps, bodies,
        tuple((a, b) for a, b in pairs),
        tuple(_text(x, "unproduced") for x in _list(value["unproduced"], "unproduced")), rank, world,
        _shard_spec(value["shard_spec"]),
    )  # fmt: skip
    return Stated(plan, {key: _hash(value[key], key) for key in HASHES})


def _read_steps(value: Any, tensors: int) -> Steps:
    value = dict(_keys(value, ["count", *COLUMNS[Steps]], "steps"))
    count = _integer(value.pop("count"), "steps.count", NONE)
    steps = _read_table(Steps, value, "steps", count)
    if len(set(zip(steps.node, steps.part.tolist(), strict=True))) != count or "" in set(steps.node):
        raise _refuse("steps.node", "a node is empty or executed twice")
    for name in Steps.LISTS:
        at, flat = getattr(steps, f"{name}_at"), getattr(steps, name)
        if len(at) != count + 1 or at[0] != 0 or at[-1] != len(flat) or (at[1:] < at[:-1]).any():
            raise _refuse(f"steps.{name}_at", f"no bounds of {count} rows")
        _index(flat, tensors, f"steps.{name}")
    return steps


def _check_references(
    tensors: Tensors, storages: Storages, slots: Slots, steps: Steps, bodies: Bodies, arenas: int, ops: int, types: int
) -> None:
    _index(tensors.dtype, types, "tensors.dtype")
    _index(tensors.role, len(ROLES), "tensors.role")
    _index(tensors.flags, 8, "tensors.flags")
    _index(tensors.shares, len(SHARES), "tensors.shares")
    _index(tensors.storage, len(storages), "tensors.storage")
    _index(tensors.writer, len(steps), "tensors.writer", absent=True)
    _index(tensors.of, len(tensors), "tensors.of", absent=True)
    _index(storages.arena, arenas, "storages.arena")
    _index(storages.slot, len(slots), "storages.slot")
    _index(slots.arena, arenas, "slots.arena")
    _index(steps.op, ops, "steps.op")
    _index(steps.part, len(PARTS), "steps.part")
    _index(steps.body, len(bodies), "steps.body")
    _index(bodies.parent, len(bodies), "bodies.parent", absent=True)
    _index(bodies.enter, len(steps), "bodies.enter", absent=True)
    _index(bodies.leave, len(steps), "bodies.leave", absent=True)
    _index(bodies.iterates, 2, "bodies.iterates")
    if not len(bodies) or bodies.name[0] != "" or int(bodies.parent[0]) != NONE or len(set(bodies.name)) != len(bodies):
        raise _refuse("bodies", "the first body is not the main graph, or a body's name repeats")
