"""The gate: is a decoded object a plan? What passes here is trusted by every proof (P1.2).

Every key is there and none is unknown, every column has its type and its table's length, every index is in range,
names are unique, integers are exact. Whether the plan is *right* is not asked. Each refusal names the place.
spec: P1.1, P1.2, R8.1, O1.1
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np

from tmmu.core.bindings import read_bindings
from tmmu.core.columns import NONE, Names, Table
from tmmu.core.dims.table import read
from tmmu.core.dtypes import BITS
from tmmu.core.fields import array as _list
from tmmu.core.fields import integer as _integer
from tmmu.core.fields import keys as _keys
from tmmu.core.fields import refuse as _refuse
from tmmu.core.fields import text as _text
from tmmu.core.vocabulary import LAYOUTS, MODES, ORDERS, UINT64_END, Bindings, Shares, Usage
from tmmu.plan import configuration, sharding
from tmmu.plan.columns import (
    PARTS,
    POLICIES,
    ROLES,
    SHARES,
    Bodies,
    Envelope,
    Plan,
    Shards,
    Slots,
    Steps,
    Storages,
    Tensors,
    Terms,
)

FORMAT, SPEC_VERSION = "tmmu-plan", "1.0"
"""What every plan file says of itself. Other lifetimes, slots or addresses are a new major version.

spec: R8.1, R8.2
"""
HASHES = ("execution_order_hash", "arena_config_hash", "shard_spec_hash", "plan_hash", "layout_digest", "file_digest")
KEYS = (
    "format", "spec_version", "model", "mode", "layout", "order", "replay_token", "ir_hash", "source_digest",
    "rank", "world_size", "shard_spec", "shards", "arena_config", "usage", "bindings", "ops", "dtypes", "tensors",
    "storages", "slots", "steps", "bodies", "must_not_alias", "unproduced", "address_token_digest", *HASHES,
)  # fmt: skip
"""Every key of a plan file: all of them are there, and no other but `envelope`, where a dimension has a range."""
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
    Terms: {"op": np.uint8, "left": np.uint32, "right": np.uint32, "value": np.uint64},
    Bodies: {
        "name": Names, "parent": np.uint32, "enter": np.uint32, "leave": np.uint32, "iterates": np.uint8,
        "exclusive": np.uint8,
    },
    Shards: {
        "tensor": np.uint32, "dims_at": np.uint32, "size": np.uint64, "axis": np.uint32, "start": np.uint64,
        "held": np.uint64, "chunk": np.uint64,
    },
}  # fmt: skip
"""The columns of each table and their types; `name` and `node` are text columns."""


ENVELOPE = {"size": np.uint32, "points": np.uint64, "largest_at": np.uint32}
"""The columns of an envelope beside its terms."""


class Stated(NamedTuple):
    """A plan as it was read, and the hashes that its file states."""

    plan: Plan
    hashes: dict[str, bytes]


def _read_table(kind: type[Rows], value: Any, place: str, rows: int | None = None) -> Rows:
    """A table whose columns all have the right type and one length: `rows`, or that of the first column."""
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
        elif not name.endswith("_at") and name not in (*Steps.LISTS, *Shards.DIMENSIONS):
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


def _read_usage(value: Any, steps: int, place: str) -> Usage:
    value = _keys(value, Usage._fields, place)
    if type(value["minimal"]) is not bool:
        raise _refuse(f"{place}.minimal", "no boolean")
    ends = dict.fromkeys(("peak_step", "max_live_step"), max(1, steps))
    numbers = {
        key: _integer(value[key], f"{place}.{key}", ends.get(key, UINT64_END))
        for key in Usage._fields
        if key != "minimal"
    }
    return Usage(**numbers, minimal=value["minimal"])


def _hash(value: Any, place: str, absent: bool = False) -> bytes:
    if value is None and absent:
        return b""
    if not isinstance(value, bytes) or len(value) != 32:
        raise _refuse(place, "no SHA-256 (32 bytes)")
    return value


def _address_token(value: dict[str, Any]) -> bytes | None:
    """The digest of the token behind hashed addresses: there for that layout, and for no other. spec: A2.5"""
    digest = _hash(value["address_token_digest"], "address_token_digest", absent=True) or None
    if (digest is None) == (value["layout"] == "hashed"):
        raise _refuse("address_token_digest", "it is there for the layout hashed, and null for every other")
    return digest


def _read_shards(value: Any, tensors: int, axes: int) -> Shards:
    """The parts of tensors that a rank holds: at most one row a tensor, inside of its dimensions. spec: R7.19"""
    shards = _read_table(Shards, value, "shards")
    _index(shards.tensor, tensors, "shards.tensor")
    if len(set(shards.tensor.tolist())) != len(shards):
        raise _refuse("shards.tensor", "a tensor has two rows")
    at, flat = shards.dims_at, len(shards.size)
    if len(at) != len(shards) + 1 or at[0] != 0 or at[-1] != flat or (at[1:] < at[:-1]).any():
        raise _refuse("shards.dims_at", f"no bounds of {len(shards)} rows")
    for name in Shards.DIMENSIONS:
        if len(getattr(shards, name)) != flat:
            raise _refuse(f"shards.{name}", f"{len(getattr(shards, name))} entries where there are {flat} dimensions")
    _index(shards.axis, axes, "shards.axis", absent=True)
    outside = (shards.held > shards.chunk) | (shards.held > shards.size) | (shards.start > shards.size - shards.held)
    if outside.any():
        raise _refuse(f"shards row of dimension {int(outside.argmax())}", "the part lies outside of its dimension")
    return shards


def from_object(value: Any) -> Stated:
    """The plan in a decoded object. Every index is in range, every column has its table's length. spec: P1.2, P1.3"""
    value = _keys(value, KEYS, "plan", optional=("envelope",))
    known = {"format": (FORMAT,), "spec_version": (SPEC_VERSION,), "layout": LAYOUTS, "mode": MODES, "order": ORDERS}
    for key, allowed in known.items():
        if _text(value[key], key) not in allowed:
            raise _refuse(key, f"{value[key]!r} is not known; it is {' or '.join(map(repr, allowed))}")
    arenas, policy = configuration.read(value["arena_config"])
    steps = _read_steps(value["steps"])
    usage = tuple(_read_usage(u, len(steps), f"usage[{i}]") for i, u in enumerate(_list(value["usage"], "usage")))
    if len(usage) != len(arenas):
        raise _refuse("usage", "not one entry for each arena")
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
    try:
        spec = sharding.read(value["shard_spec"])
    except ValueError as error:
        raise _refuse("shard_spec", str(error)) from error
    if world != sharding.ranks(spec):
        raise _refuse("world_size", f"{world} where the mesh has {sharding.ranks(spec)} ranks")
    shards = _read_shards(value["shards"], len(tensors), len(sharding.mesh(spec)))
    source = _hash(value["source_digest"], "source_digest", absent=True) or None
    plan = Plan(
        _text(value["model"], "model"), value["mode"], value["layout"], value["order"],
        _hash(value["replay_token"], "replay_token"), _hash(value["ir_hash"], "ir_hash"), source, arenas, usage,
        bindings, tuple(ops), types, tensors, storages, slots, steps, bodies,
        tuple((a, b) for a, b in pairs),
        tuple(_text(x, "unproduced") for x in _list(value["unproduced"], "unproduced")), rank, world,
        spec, shards, address_token_digest=_address_token(value),
        policy=policy,
        envelope=_read_envelope(value.get("envelope"), bindings, len(tensors)),
    )  # fmt: skip
    return Stated(plan, {key: _hash(value[key], key) for key in HASHES})


def _read_envelope(value: Any, bindings: Bindings, tensors: int) -> Envelope | None:
    """The envelope: there where the bindings leave a dimension open, and only there. spec: R6.3"""
    if (value is None) != (not bindings.ranges):
        raise _refuse("envelope", "it is there where bindings.ranges has a dimension, and only there")
    if value is None:
        return None
    value = _keys(value, ("policy", "terms", *ENVELOPE), "envelope")
    if _text(value["policy"], "envelope.policy") not in POLICIES:
        raise _refuse("envelope.policy", f"{value['policy']!r} is not known; it is {' or '.join(POLICIES)}")
    terms = _read_table(Terms, value["terms"], "envelope.terms")
    try:
        read(terms.rows(), bindings.ranges)
    except ValueError as error:
        raise _refuse("envelope.terms", str(error)) from error
    for name, dtype in ENVELOPE.items():
        if not isinstance(value[name], np.ndarray) or value[name].dtype != np.dtype(dtype):
            raise _refuse(f"envelope.{name}", f"no column of {np.dtype(dtype)}")
        if name != "points" and len(value[name]) != tensors:
            raise _refuse(f"envelope.{name}", f"{len(value[name])} rows where there are {tensors} tensors")
    _index(value["size"], len(terms), "envelope.size")
    count, odd = divmod(len(value["points"]), len(bindings.ranges))
    if odd:
        raise _refuse("envelope.points", f"no shapes of {len(bindings.ranges)} dimensions")
    _index(value["largest_at"], count, "envelope.largest_at")
    shapes = value["points"].reshape(count, len(bindings.ranges))
    for (name, (low, high)), column in zip(bindings.ranges.items(), shapes.T, strict=True):
        if ((column < low) | (column > high)).any():
            raise _refuse("envelope.points", f"a shape has {name!r} outside its range")
    return Envelope(value["policy"], terms, value["size"], value["points"], value["largest_at"])


def _read_steps(value: Any) -> Steps:
    value = dict(_keys(value, ["count", *COLUMNS[Steps]], "steps"))
    count = _integer(value.pop("count"), "steps.count", NONE)
    steps = _read_table(Steps, value, "steps", count)
    if len(set(zip(steps.node, steps.part.tolist(), strict=True))) != count or "" in set(steps.node):
        raise _refuse("steps.node", "a node is empty or executed twice")
    for name in Steps.LISTS:
        at, flat = getattr(steps, f"{name}_at"), getattr(steps, name)
        if len(at) != count + 1 or at[0] != 0 or at[-1] != len(flat) or (at[1:] < at[:-1]).any():
            raise _refuse(f"steps.{name}_at", f"no bounds of {count} rows")
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
    if ((tensors.shares == SHARES.index(Shares.NONE)) != (tensors.of == NONE)).any():
        raise _refuse("tensors.of", "a tensor shares with none and names one, or shares and names none")
    _index(storages.arena, arenas, "storages.arena")
    _index(storages.slot, len(slots), "storages.slot")
    _index(slots.arena, arenas, "slots.arena")
    for name in Steps.LISTS:
        _index(getattr(steps, name), len(tensors), f"steps.{name}")
    _index(steps.op, ops, "steps.op")
    _index(steps.part, len(PARTS), "steps.part")
    _index(steps.body, len(bodies), "steps.body")
    _index(bodies.parent, len(bodies), "bodies.parent", absent=True)
    _index(bodies.enter, len(steps), "bodies.enter", absent=True)
    _index(bodies.leave, len(steps), "bodies.leave", absent=True)
    for name in ("iterates", "exclusive"):
        _index(getattr(bodies, name), 2, f"bodies.{name}")
    if not len(bodies) or bodies.name[0] != "" or int(bodies.parent[0]) != NONE or len(set(bodies.name)) != len(bodies):
        raise _refuse("bodies", "the first body is not the main graph, or a body's name repeats")
    for name, none in (("enter", NONE), ("leave", NONE), ("iterates", 0), ("exclusive", 0)):
        if (stated := int(getattr(bodies, name)[0])) != none:
            raise _refuse(f"bodies.{name} row 0", f"{stated}, where the main graph has {none}: no node owns it")
