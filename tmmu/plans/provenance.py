"""The provenance of a plan: the section of the file about its origin, with the hashes of 001 that it states.

spec: P1.2, P2.2, R2.1, A2.5, T10.7
"""

from __future__ import annotations

from typing import Any

from tmmu.core.bindings import bindings_object, read_bindings
from tmmu.core.fields import (
    check_array,
    check_integer,
    check_one_of,
    check_text,
    plan_error,
    read_entries,
    read_record,
    unexpected_error,
)
from tmmu.core.vocabulary import EFFORT_END, LAYOUTS, MODES, ORDERS, Bindings
from tmmu.plans import sharding
from tmmu.plans.sections import BOUNDS, PlacementBound, Provenance

EFFORT = ("effort", "bounds")
"""The keys about a search: both or neither are present."""
OPTIONAL = (*EFFORT, "fixed")
"""The keys that may be absent."""

HASHES = ("execution_order_hash", "arena_config_hash", "shard_spec_hash", "plan_hash", "layout_digest")
"""The hashes that the section states; `file_digest` is beside all sections."""


def check_digest(value: Any, place: str) -> bytes:
    """Check and return a SHA-256."""
    if not isinstance(value, bytes) or len(value) != 32:
        raise unexpected_error(place, "a SHA-256 of 32 bytes", value)
    return value


def _digest_or_none(value: Any, place: str) -> bytes | None:
    return None if value is None else check_digest(value, place)


def _bindings(value: Any, place: str) -> Bindings:
    try:
        if isinstance(value, dict) and "ranges" in value:
            raise ValueError("the key 'ranges' is unknown")
        return read_bindings(value)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise plan_error(place, str(error)) from error


def _shard_spec(value: Any, place: str) -> dict[str, Any]:
    try:
        return sharding.check_spec(value)
    except ValueError as error:
        raise plan_error(place, str(error)) from error


def _bounds(value: Any, place: str) -> tuple[PlacementBound, ...]:
    return read_entries(value, place, _bound)


def _bound(value: Any, place: str) -> PlacementBound:
    count, by = check_array(value, place, 2)
    return PlacementBound(check_integer(count, f"{place}[0]"), check_one_of(by, tuple(BOUNDS), f"{place}[1]"))


def _fixed(value: Any, place: str) -> dict[str, int]:
    if not isinstance(value, dict) or not value:
        raise unexpected_error(place, "the offsets of one tensor or more", value)
    return {check_text(name, place): check_integer(at, f"{place}[{name!r}]") for name, at in value.items()}


def read(value: Any) -> tuple[Provenance, dict[str, bytes]]:
    """Read the section from a decoded object; return it and the hashes that it states."""
    readers: dict[str, Any] = {
        "model": check_text,
        "mode": lambda item, at: check_one_of(item, MODES, at),
        "layout": lambda item, at: check_one_of(item, LAYOUTS, at),
        "order": lambda item, at: check_one_of(item, ORDERS, at),
        "replay_token": check_digest,
        "ir_hash": check_digest,
        "source_digest": _digest_or_none,
        "bindings": _bindings,
        "rank": lambda item, at: check_integer(item, at, 1 << 32),
        "world_size": lambda item, at: check_integer(item, at, 1 << 32, 1),
        "shard_spec": _shard_spec,
        "address_token_digest": _digest_or_none,
        "effort": lambda item, at: check_integer(item, at, EFFORT_END),
        "bounds": _bounds,
        "fixed": _fixed,
        **dict.fromkeys(HASHES, check_digest),
    }
    found = read_record(readers, value, "provenance", OPTIONAL)
    hashes = {name: found.pop(name) for name in HASHES}
    origin = Provenance(**found)
    if origin.rank >= origin.world_size:
        raise plan_error("provenance.rank", f"expected one of {origin.world_size} ranks, got {origin.rank}")
    if origin.world_size != sharding.count_ranks(origin.shard_spec):
        ranks = sharding.count_ranks(origin.shard_spec)
        raise plan_error("provenance.world_size", f"expected {ranks}, the ranks of the mesh, got {origin.world_size}")
    if (origin.address_token_digest is None) == (origin.layout == "hashed"):
        place = "provenance.address_token_digest"
        raise plan_error(place, "expected a digest for the layout hashed, and null for every other layout")
    if (origin.effort is None) != ("bounds" not in found) or (origin.effort is not None and origin.layout != "packed"):
        raise plan_error("provenance.effort", "expected effort and bounds together, and only in the layout packed")
    return origin, hashes


def provenance_object(origin: Provenance) -> dict[str, Any]:
    """Convert the section to an object for a file, without its hashes."""
    stated = {
        **origin.__dict__, "bindings": bindings_object(origin.bindings), "bounds": [*map(list, origin.bounds)],
        "fixed": dict(origin.fixed),
    }  # fmt: skip
    left_out = {*(EFFORT if origin.effort is None else ()), *(() if origin.fixed else ("fixed",))}
    return {name: stated[name] for name in stated if name not in left_out}
