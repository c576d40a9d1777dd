"""The gate: decide whether a decoded object is a plan. Every proof relies on its checks (P1.2).

Every key is known, and every key other than a section is present. Every column has its type and its table's length,
every index is in range, names are unique, and integers are exact. Whether the plan is *right* is not checked. Each
refusal names the place. spec: P1.1, P1.2, P1.6, P1.7, P2.1, P2.2, R8.1, O1.1, X5.1, X5.6
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np

from tmmu.core.columns import NONE, Names, Table
from tmmu.core.dims.table import read
from tmmu.core.dtypes import BITS
from tmmu.core.fields import (
    check_array,
    check_boolean,
    check_distinct,
    check_integer,
    check_keys,
    check_one_of,
    check_size,
    check_text,
    check_texts,
    plan_error,
    read_entries,
    read_record,
    unexpected_error,
)  # fmt: skip
from tmmu.core.vocabulary import MAX_BODY_DEPTH, MAX_EXCLUSIVE_ARMS, REPLAN_POLICIES, NodePart, Shares
from tmmu.plans import provenance, sharding
from tmmu.plans.allocation import Allocation, Arena, Buffers
from tmmu.plans.claims import read_claims
from tmmu.plans.columns import PARTS, ROLES, SHARES, Bodies, Shards, Slots, Steps, Storages, Tensors, Terms
from tmmu.plans.reading import Reading
from tmmu.plans.sections import BufferPlan, Claims, Envelope, Membership, Plan

FORMAT, SPEC_VERSION = "tmmu-plan", "2.0"
"""The format and version in every plan file. Other lifetimes, slots or addresses are a new major version.

spec: R8.1, R8.2
"""
SECTIONS = ("claims", "provenance", "shards", "envelope", "set")
DTYPES: dict[str, Any] = {"U8": np.uint8, "U32": np.uint32, "U64": np.uint64, "Names": Names}
"""The types of columns, by the names under which the tables of `tmmu.plans.columns` declare them."""
OF_OTHER_LENGTH = {Steps: (*Steps.LISTS, *Steps.OF_STREAMS), Shards: Shards.DIMENSIONS, Slots: ("of",)}
"""Columns whose length is not that of their table; the bounds `_at` are others."""
ENVELOPE = ("size", "points", "largest_at")
Rows = TypeVar("Rows", bound=Table)


@dataclass(frozen=True)
class StatedPlan:
    """A plan as it was read, and the hashes that its file states.

    `is_text` is True for a text plan: its storages and lifetimes were computed from its steps, and its digest here. The
    same holds for another producer's plan, which has its `reading`. `sha256` is that of all bytes of the binary file,
    or of the one that a text was translated to.
    """

    plan: Plan
    hashes: dict[str, bytes]
    is_text: bool = False
    reading: Reading | None = None
    sha256: bytes = b""


@dataclass(frozen=True)
class StatedBuffers:
    """Lifetimes without accesses as they were read, and the hashes that the file states; see `StatedPlan`."""

    plan: BufferPlan
    hashes: dict[str, bytes]
    is_text: bool = False
    reading: Reading | None = None
    sha256: bytes = b""


def from_object(value: Any) -> StatedPlan | StatedBuffers:
    """Return the plan in a decoded object.

    Every index is in range, every column has its table's length. spec: P1.2, P1.3
    """
    body = "buffers" if isinstance(value, dict) and "buffers" in value else "allocation"
    value = check_keys(value, ("format", "spec_version", body, "file_digest"), "plan", SECTIONS)
    check_one_of(value["format"], (FORMAT,), "format")
    check_one_of(value["spec_version"], (SPEC_VERSION,), "spec_version")
    for section, required in (("provenance", "claims"), ("shards", "provenance")):
        if section in value and required not in value:
            raise plan_error(section, f"expected the section {required!r} beside it, got none")
    hashes = {"file_digest": provenance.check_digest(value["file_digest"], "file_digest")}
    if body == "buffers":
        if beside := [name for name in SECTIONS[1:] if name in value]:
            raise plan_error(beside[0], "expected no such section beside buffers, which state no steps")
        buffers = read_buffers(value["buffers"])
        return StatedBuffers(BufferPlan(buffers, _claims(value, buffers)), hashes)
    allocation = read_allocation(value["allocation"])
    claims, origin, shards = _claims(value, allocation), None, None
    if "provenance" in value:
        origin, stated = provenance.read(value["provenance"])
        hashes = stated | hashes
        if claims is None or claims.slots is None or claims.configuration is None:
            raise plan_error(
                "provenance", "this section needs claims.slots and claims.configuration, which its hash covers"
            )
        if origin.effort is not None and len(origin.bounds) != len(allocation.arenas):
            raise plan_error("provenance.bounds", f"expected {len(allocation.arenas)}, one for each arena")
        if bool(origin.shard_spec) != ("shards" in value):
            raise plan_error("shards", "expected the section exactly if the shard spec is not empty")
        if "shards" in value:
            axes = len(sharding.mesh_axes(origin.shard_spec))
            shards = _shards(value["shards"], len(allocation.tensors), axes)
    envelope = _envelope(value["envelope"], len(allocation.tensors)) if "envelope" in value else None
    if origin is None and envelope is not None and envelope.symbolic:
        raise plan_error("envelope.symbolic", "offsets follow from slots, and the plan has no provenance with slots")
    if origin is not None and envelope is not None and (both := origin.bindings.dims.keys() & envelope.ranges.keys()):
        raise plan_error("envelope.ranges", f"{min(both)!r} is bound already")
    membership = None
    if "set" in value:
        readers = {"program": check_text, "digest": provenance.check_digest}
        membership = Membership(**read_record(readers, value["set"], "set"))
    return StatedPlan(Plan(allocation, claims, origin, shards, envelope, membership), hashes)


def _claims(value: dict[str, Any], of: Allocation | Buffers) -> Claims | None:
    if "claims" not in value:
        return None
    arenas, storages = len(of.arenas), len(of.storages)
    slots = None
    if isinstance(value["claims"], dict) and "slots" in value["claims"]:
        slots = read_table(Slots, value["claims"]["slots"], "claims.slots")
        check_index(slots.arena, arenas, "claims.slots.arena")
        check_index(slots.of, len(slots), "claims.slots.of")
        if len(slots.of) != storages:
            raise plan_error("claims.slots.of", f"expected {storages} rows, one for each storage, got {len(slots.of)}")
    return read_claims(value["claims"], slots, of)


def read_arenas(value: Any, place: str) -> tuple[Arena, ...]:
    """Read the arenas of an allocation."""
    readers = {
        "name": check_text,
        "capacity": check_size,
        "alignment": check_size,
        "reuse": check_boolean,
        "scattered": check_boolean,
        "base_alignment": check_size,
    }
    arenas = read_entries(value, place, lambda item, at: Arena(**read_record(readers, item, at, ("base_alignment",))))
    check_distinct([arena.name for arena in arenas], place)
    return arenas


def read_allocation(value: Any) -> Allocation:
    """Read an allocation, which is complete by itself. spec: P2.1"""
    names = [f.name for f in fields(Allocation) if f.name != "streams"]
    value = check_keys(value, names, "allocation", ["streams"])
    arenas = read_arenas(value["arenas"], "arenas")
    streams = check_texts(value["streams"], "streams") if "streams" in value else ()
    steps = _steps(value["steps"], Steps.OF_STREAMS if "streams" in value else ())
    tensors = read_table(Tensors, value["tensors"], "tensors")
    _unique(tensors.name, "tensors.name")
    storages = read_table(Storages, value["storages"], "storages")
    bodies = read_table(Bodies, value["bodies"], "bodies")
    types = read_entries(value["dtypes"], "dtypes", _dtype)
    ops = read_entries(value["ops"], "ops", _op)
    _check_references(tensors, storages, steps, bodies, len(arenas), len(ops), len(types))
    if "streams" in value:
        check_streams(streams, steps)
    return Allocation(
        arenas, storages, _pairs(value["must_not_alias"], len(tensors)), ops, types, tensors, steps, bodies,
        check_texts(value["unproduced"], "unproduced"), streams,
    )  # fmt: skip


def read_buffers(value: Any) -> Buffers:
    """Read lifetimes without accesses. spec: P2.6"""
    value = check_keys(value, [f.name for f in fields(Buffers)], "buffers")
    arenas = read_arenas(value["arenas"], "arenas")
    storages = read_table(Storages, value["storages"], "storages")
    check_index(storages.arena, len(arenas), "storages.arena")
    names = _names(value["name"], len(storages), "buffers.name")
    _unique(names, "buffers.name")
    return Buffers(arenas, storages, _pairs(value["must_not_alias"], len(storages)), names)


def _dtype(value: Any, place: str) -> str:
    if check_text(value, place) not in BITS:
        raise unexpected_error(place, "an element type", value)
    return str(value)


def _op(value: Any, place: str) -> tuple[str, str]:
    domain, op = check_texts(check_array(value, place, 2), place)
    return domain, op


def _pairs(value: Any, rows: int) -> tuple[tuple[int, int], ...]:
    def pair(item: Any, at: str) -> tuple[int, int]:
        a, b = (check_integer(x, at, rows) for x in check_array(item, at, 2))
        return a, b

    return read_entries(value, "must_not_alias", pair)


def _unique(names: Names, place: str) -> None:
    check_distinct(names, place)
    if "" in set(names):
        raise plan_error(place, "expected names, got an empty one")


def read_table(
    kind: type[Rows], value: Any, place: str, rows: int | None = None, absent: Sequence[str] = ()
) -> Rows:  # fmt: skip
    """Read a table whose columns all have the right type and one length: `rows`, or that of the first column.

    Columns that are `absent` have a default.
    """
    types = {f.name: DTYPES[str(f.type)] for f in fields(kind) if f.name not in absent}
    value = check_keys(value, list(types), place)
    columns: dict[str, Any] = {}
    for name, dtype in types.items():
        if dtype is Names:
            continue
        columns[name] = read_column(value[name], dtype, f"{place}.{name}")
        if not name.endswith("_at") and name not in OF_OTHER_LENGTH.get(kind, ()):
            rows = len(columns[name]) if rows is None else rows
            _check_length(columns[name], rows, f"{place}.{name}")
    for name, dtype in types.items():
        if dtype is Names:
            columns[name] = _names(value[name], rows or 0, f"{place}.{name}")
    return kind(**columns)


def read_column(value: Any, dtype: Any, place: str) -> Any:
    """Check and return a column of unsigned integers of one type."""
    if not isinstance(value, np.ndarray) or value.dtype != np.dtype(dtype):
        raise unexpected_error(place, f"a column of {np.dtype(dtype)}", value)
    return value


def _check_length(column: Any, rows: int, place: str) -> None:
    if len(column) != rows:
        raise plan_error(place, f"expected {rows} rows, got {len(column)}")


def _names(blob: Any, rows: int, place: str) -> Names:
    if not isinstance(blob, bytes):
        raise unexpected_error(place, "a byte string of names", blob)
    try:
        names = Names(blob, rows)
        found = len(names.list())
    except UnicodeDecodeError as error:
        raise plan_error(place, "expected UTF-8, got other bytes") from error
    if found != rows or (rows == 0 and blob):
        raise plan_error(place, f"expected {rows} names, got {found}")
    return names


def check_index(column: Any, rows: int, place: str, absent: bool = False) -> None:
    """Check that every entry is a row below `rows` (or NONE if it may be absent)."""
    outside = column >= rows
    if absent:
        outside &= column != NONE
    if outside.any():
        row = int(outside.argmax())
        raise plan_error(f"{place} row {row}", f"expected one of {rows} rows, got {int(column[row])}")


def _check_bounds(at: Any, rows: int, flat: int, place: str) -> None:
    if len(at) != rows + 1 or at[0] != 0 or at[-1] != flat or (at[1:] < at[:-1]).any():
        raise plan_error(place, f"expected {rows + 1} ascending bounds from 0 to {flat}")


def _shards(value: Any, tensors: int, axes: int) -> Shards:
    """Read the parts of tensors that a rank holds: at most one row a tensor, inside of its dimensions. spec: R7.19"""
    shards = read_table(Shards, value, "shards")
    check_index(shards.tensor, tensors, "shards.tensor")
    if len(set(shards.tensor.tolist())) != len(shards):
        raise plan_error("shards.tensor", "a tensor has two rows")
    flat = len(shards.size)
    _check_bounds(shards.dims_at, len(shards), flat, "shards.dims_at")
    for name in Shards.DIMENSIONS:
        _check_length(getattr(shards, name), flat, f"shards.{name}")
    check_index(shards.axis, axes, "shards.axis", absent=True)
    outside = (shards.held > shards.chunk) | (shards.held > shards.size) | (shards.start > shards.size - shards.held)
    if outside.any():
        raise plan_error(f"shards row of dimension {int(outside.argmax())}", "the part is outside of its dimension")
    return shards


def _envelope(value: Any, tensors: int) -> Envelope:
    """Read the envelope: dimensions with their ranges, and the sizes that depend on them. spec: R6.3"""
    value = check_keys(value, [f.name for f in fields(Envelope) if f.name != "symbolic"], "envelope", ["symbolic"])
    if value.get("symbolic", True) is not True:
        raise unexpected_error("envelope.symbolic", "true, or no such key", value["symbolic"])
    check_one_of(value["policy"], REPLAN_POLICIES, "envelope.policy")
    ranges: dict[str, tuple[int, int]] = {}
    for name, ends in sorted(check_keys(value["ranges"], (), "envelope.ranges", value["ranges"]).items()):
        low, high = (
            check_integer(end, f"envelope.ranges.{name}") for end in check_array(ends, f"envelope.ranges.{name}", 2)
        )
        if not low < high or "\0" in name:
            raise plan_error(f"envelope.ranges.{name}", "the range is empty, or the name contains a NUL")
        ranges[name] = low, high
    if not ranges:
        raise plan_error("envelope.ranges", "expected a dimension, got none")
    terms = read_table(Terms, value["terms"], "envelope.terms")
    try:
        read(terms.rows(), ranges)
    except ValueError as error:
        raise plan_error("envelope.terms", str(error)) from error
    types = {f.name: DTYPES[str(f.type)] for f in fields(Envelope) if f.name in ENVELOPE}
    columns = {name: read_column(value[name], dtype, f"envelope.{name}") for name, dtype in types.items()}
    for name in ("size", "largest_at"):
        _check_length(columns[name], tensors, f"envelope.{name}")
    check_index(columns["size"], len(terms), "envelope.size")
    count, odd = divmod(len(columns["points"]), len(ranges))
    if odd:
        raise plan_error(
            "envelope.points", f"expected shapes of {len(ranges)} dimensions, got {len(columns['points'])} sizes"
        )
    check_index(columns["largest_at"], count, "envelope.largest_at")
    points = columns["points"].reshape(count, len(ranges))
    for (name, (low, high)), column in zip(ranges.items(), points.T, strict=True):
        if len(outside := column[(column < low) | (column > high)]):
            raise plan_error("envelope.points", f"expected {name!r} from {low} to {high}, got {int(outside[0])}")
    return Envelope(value["policy"], ranges, terms, **columns, symbolic="symbolic" in value)


def _steps(value: Any, of_streams: Sequence[str]) -> Steps:
    """Read the steps, with the columns of streams that a plan with streams has."""
    absent = [name for name in Steps.OF_STREAMS if name not in of_streams]
    value = dict(check_keys(value, ["count", *(f.name for f in fields(Steps) if f.name not in absent)], "steps"))
    count = check_integer(value.pop("count"), "steps.count", NONE)
    steps = read_table(Steps, value, "steps", count, absent)
    if len(set(zip(steps.node, steps.part.tolist(), strict=True))) != count or "" in set(steps.node):
        raise plan_error("steps.node", "a node's name is empty, or a node is executed twice")
    for name in Steps.LISTS:
        _check_bounds(getattr(steps, f"{name}_at"), count, len(getattr(steps, name)), f"steps.{name}_at")
    return steps


def check_streams(streams: Sequence[str], steps: Steps) -> None:
    """Check that each step is on a declared stream and waits only for earlier steps outside of bodies.

    O(steps + waits). spec: X5.1, X5.5, X5.6
    """
    check_distinct(streams, "streams")
    if not streams or "" in streams or not len(steps):
        raise plan_error("streams", "expected names of streams, and steps that run on them")
    _check_length(steps.stream, len(steps), "steps.stream")
    check_index(steps.stream, len(streams), "steps.stream")
    _check_bounds(steps.after_at, len(steps), len(steps.after), "steps.after_at")
    step, after = steps.waits()
    later = after >= step
    if later.any():
        k = int(later.argmax())
        what = f"it waits for step {int(after[k])}, which is not earlier: events must not form a cycle"
        raise plan_error(f"steps.after of step {int(step[k])}", what)
    unsorted = (step[1:] == step[:-1]) & (after[1:] <= after[:-1])
    if unsorted.any():
        raise plan_error(f"steps.after of step {int(step[int(unsorted.argmax())])}", "expected ascending steps")
    enter, leave = (PARTS.index(part) for part in (NodePart.ENTER, NodePart.LEAVE))
    depth = np.cumsum((steps.part == enter).astype(np.int64)) - np.cumsum(steps.part == leave)
    is_inside = (depth > 0) & (steps.part != enter) | (depth > 1) | (steps.part == leave)
    inside = np.flatnonzero(is_inside[1:] & (steps.stream[1:] != steps.stream[:-1]))
    if len(inside):
        raise plan_error(f"steps.stream of step {int(inside[0]) + 1}", "streams inside of a body are not supported")
    bad = is_inside[step] | (depth[after] > 0)
    if bad.any():
        k = int(bad.argmax())
        what = f"it waits for step {int(after[k])}: steps inside of a body neither wait nor are waited for"
        raise plan_error(f"steps.after of step {int(step[k])}", what)


def _check_references(
    tensors: Tensors, storages: Storages, steps: Steps, bodies: Bodies, arenas: int, ops: int, types: int
) -> None:
    check_index(tensors.dtype, types, "tensors.dtype")
    check_index(tensors.role, len(ROLES), "tensors.role")
    check_index(tensors.flags, 16, "tensors.flags")
    check_index(tensors.shares, len(SHARES), "tensors.shares")
    check_index(tensors.storage, len(storages), "tensors.storage")
    check_index(tensors.writer, len(steps), "tensors.writer", absent=True)
    check_index(tensors.of, len(tensors), "tensors.of", absent=True)
    if ((tensors.shares == SHARES.index(Shares.NONE)) != (tensors.of == NONE)).any():
        raise plan_error("tensors.of", "a tensor has either a kind of sharing or a tensor to share with, but not both")
    check_index(storages.arena, arenas, "storages.arena")
    for name in Steps.LISTS:
        check_index(getattr(steps, name), len(tensors), f"steps.{name}")
    check_index(steps.op, ops, "steps.op")
    check_index(steps.part, len(PARTS), "steps.part")
    change = (steps.part == PARTS.index(NodePart.ENTER)).astype(np.int64) - (steps.part == PARTS.index(NodePart.LEAVE))
    too_deep = np.flatnonzero(np.cumsum(change) > MAX_BODY_DEPTH)
    if len(too_deep):
        raise plan_error(f"steps.part row {too_deep[0]}", f"nodes with bodies nest deeper than {MAX_BODY_DEPTH}")
    check_index(steps.body, len(bodies), "steps.body")
    check_index(bodies.parent, len(bodies), "bodies.parent", absent=True)
    check_index(bodies.enter, len(steps), "bodies.enter", absent=True)
    check_index(bodies.leave, len(steps), "bodies.leave", absent=True)
    for name in ("iterates", "exclusive"):
        check_index(getattr(bodies, name), 2, f"bodies.{name}")
    if not len(bodies) or bodies.name[0] != "" or int(bodies.parent[0]) != NONE or len(set(bodies.name)) != len(bodies):
        raise plan_error("bodies", "the first body is not the main graph, or two bodies have one name")
    arms = np.sort(bodies.enter[(bodies.exclusive == 1) & (bodies.enter != NONE)])
    if len(many := arms[MAX_EXCLUSIVE_ARMS:][arms[MAX_EXCLUSIVE_ARMS:] == arms[:-MAX_EXCLUSIVE_ARMS]]):
        node = steps.node[int(many[0])]
        raise plan_error("bodies.exclusive", f"node {node!r} has more than {MAX_EXCLUSIVE_ARMS} exclusive branches")
    for name, none in (("enter", NONE), ("leave", NONE), ("iterates", 0), ("exclusive", 0)):
        if (stated := int(getattr(bodies, name)[0])) != none:
            raise plan_error(
                f"bodies.{name} row 0", f"expected {none} for the main graph, which no node owns, got {stated}"
            )
