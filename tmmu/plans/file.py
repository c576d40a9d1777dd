"""`plan.cbor`: a plan as canonical bytes, with its hashes (R1, R2); text plans are read here as well.

`to_object` and the gate's `from_object` are inverses. `save` computes every hash. `load` refuses everything that is not
exactly a plan (`tmmu.plans.gate`), but does not check hashes: a plan with a false hash is a plan,
and `find_false_hashes`
reports it for refutation. spec: P1.1, P1.3, P1.4, P1.5
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, replace
from typing import IO, Any

from tmmu.core import canonical, kind
from tmmu.core.columns import Names, Table
from tmmu.core.errors import TmmuError
from tmmu.plans.allocation import Arena
from tmmu.plans.claims import arena_config_object, claims_object
from tmmu.plans.columns import Steps
from tmmu.plans.gate import FORMAT, SPEC_VERSION, StatedBuffers, StatedPlan, from_object
from tmmu.plans.provenance import HASHES, provenance_object
from tmmu.plans.reading import Reading
from tmmu.plans.sections import BufferPlan, Envelope, Plan, arena_configurations

LIMIT = 1 << 34
"""The largest plan file that is read, in bytes."""


def _to_file_value(value: Any) -> Any:
    """Convert a table, an arena, a tuple or a number to its form in a file."""
    if isinstance(value, Names):
        return value.blob
    if isinstance(value, Arena):
        stated = asdict(value)
        return stated if value.base_alignment else {key: stated[key] for key in stated if key != "base_alignment"}
    if isinstance(value, (Table, Envelope)) or hasattr(value, "__dataclass_fields__"):
        count = {"count": len(value)} if isinstance(value, Steps) else {}
        stated = {f.name: _to_file_value(getattr(value, f.name)) for f in fields(value)}
        if stated.get("symbolic") is False:  # the key is there only if it is true
            del stated["symbolic"]
        if stated.get("streams") == []:  # of an allocation
            del stated["streams"]
        if isinstance(value, Steps) and not len(value.stream):
            stated = {key: stated[key] for key in stated if key not in Steps.OF_STREAMS}
        return count | stated
    if isinstance(value, tuple):
        return [_to_file_value(item) for item in value]
    return {key: list(ends) for key, ends in value.items()} if isinstance(value, dict) else value


def to_object(plan: Plan | BufferPlan) -> dict[str, Any]:
    """Return the plan as maps and columns, hashes included: the contents of `plan.cbor`. O(plan)."""
    return _with_hashes(plan, {}, lambda part: part)[0]


def compute_hashes(plan: Plan | BufferPlan) -> dict[str, bytes]:
    """Compute every hash of a plan: those of 001 if it has provenance, and the digest of its file.

    `plan_hash` is the commitment of 001 II.K, `layout_digest` the same without the replay token and with rank 0, and
    `file_digest` covers the canonical bytes of all other keys, so that no byte of the file is outside a hash.
    spec: R2.1, R2.2, R2.5, R2.6, R7.21
    """
    return _with_hashes(plan, {}, canonical.Encoded)[1]


def plan_identity(plan: Plan) -> bytes:
    """Return the hash that identifies a plan: `plan_hash`, or the digest of its file without provenance."""
    found = compute_hashes(plan)
    return found.get("plan_hash", found["file_digest"])


def _with_hashes(
    plan: Plan | BufferPlan, stated: Mapping[str, bytes], part: Callable[[Any], Any]
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Build the file of a plan, and compute its true hashes.

    The file has the hashes in `stated` instead of the true ones, and its digest covers them. `part` is applied to each
    table: encoded once, it serves the file and every hash that covers it.
    """
    value, found = _parts(plan, part), dict[str, bytes]()
    if isinstance(plan, Plan) and plan.provenance is not None:
        found = _provenance_hashes(plan, value["provenance"], value)
        value["provenance"] |= {name: stated.get(name, found[name]) for name in HASHES}
    found["file_digest"] = canonical.digest(value)
    return value | {"file_digest": stated.get("file_digest", found["file_digest"])}, found


def _parts(plan: Plan | BufferPlan, part: Callable[[Any], Any]) -> dict[str, Any]:
    """Build the file of a plan without hashes. `part` is applied to each table."""
    value: dict[str, Any] = {"format": FORMAT, "spec_version": SPEC_VERSION}
    name, body = ("buffers", plan.buffers) if isinstance(plan, BufferPlan) else ("allocation", plan.allocation)
    value[name] = {key: part(entry) for key, entry in _to_file_value(body).items()}
    if plan.claims is not None:
        slots = {} if plan.claims.slots is None else {"slots": part(_to_file_value(plan.claims.slots))}
        value["claims"] = claims_object(plan.claims) | slots
    if isinstance(plan, Plan):
        for name, section in (("shards", plan.shards), ("envelope", plan.envelope)):
            if section is not None:
                value[name] = part(_to_file_value(section))
        if plan.provenance is not None:
            value["provenance"] = provenance_object(plan.provenance)
        if plan.membership is not None:
            value["set"] = plan.membership._asdict()
    return value


def _provenance_hashes(plan: Plan, origin: dict[str, Any], value: dict[str, Any]) -> dict[str, bytes]:
    """Compute the hashes of 001, which cover the provenance, the slots and the tables. spec: R2.1 to R2.6"""
    steps, storages, slots = plan.allocation.steps, plan.allocation.storages, plan.slots
    found = {
        "execution_order_hash": canonical.digest([steps.node.list(), steps.part]),
        "arena_config_hash": canonical.digest(
            arena_config_object(arena_configurations(plan), plan.configuration.policy)
        ),
        "shard_spec_hash": canonical.digest(origin["shard_spec"]),
    }
    tables = [value["allocation"][key] for key in ("tensors", "storages", "steps")]
    addresses = canonical.Encoded([storages.arena, slots.of, storages.offset])

    def commit(rank: int, slot_assignment: list[Any]) -> bytes:
        return canonical.commitment(
            "tmmu_plan_v1",
            [
                origin["ir_hash"], origin["mode"], found["arena_config_hash"], found["execution_order_hash"],
                rank, origin["world_size"], found["shard_spec_hash"], slot_assignment, addresses,
            ],
        )  # fmt: skip

    envelope = [value["envelope"]] if "envelope" in value else []
    streams = [value["allocation"]["streams"]] if "streams" in value["allocation"] else []
    bound = [origin["bindings"], *envelope, *tables, *streams, value["claims"]["slots"]]
    found["plan_hash"] = commit(origin["rank"], [origin["replay_token"], *bound])
    found["layout_digest"] = commit(0, bound)
    return found


def encode(plan: Plan | BufferPlan, stated: Mapping[str, bytes] = {}) -> bytes:
    """Return the bytes of `plan.cbor`; `stated` are hashes to write instead of the true ones."""
    return canonical.encode(_with_hashes(plan, stated, canonical.Encoded)[0])


def write_stated(stated: StatedPlan | StatedBuffers, stream: IO[bytes]) -> None:
    """Write the bytes that a plan was read from to `stream`: its parts again, with the hashes that they state."""
    value = _parts(stated.plan, lambda part: part)
    if "provenance" in value:
        value["provenance"] |= {name: stated.hashes[name] for name in HASHES}
    canonical.dump(value | {"file_digest": stated.hashes["file_digest"]}, stream)


def save(plan: Plan | BufferPlan, path: str | os.PathLike[str]) -> None:
    """Write `plan` to `path` atomically. spec: P1.4"""
    canonical.write_atomically(path, encode(plan))


def load(path: str | os.PathLike[str]) -> StatedPlan:
    """Read the plan with steps at `path` and its stated hashes. INVALID_PLAN names file and place. spec: P1.2, P2.6"""
    try:
        return require_steps(load_any(path))
    except TmmuError as error:
        error.in_file(os.fspath(path))
        raise


def require_steps(found: StatedPlan | StatedBuffers) -> StatedPlan:
    """Return a plan with steps, or raise INVALID_PLAN if it has only lifetimes. spec: P2.6"""
    if isinstance(found, StatedBuffers):
        raise TmmuError(
            "INVALID_PLAN", "the plan has lifetimes without steps, and this operation needs the steps", place="buffers",
            fix="give a plan with steps; `verify-plan` proves lifetimes",
        )  # fmt: skip
    return found


def load_any(path: str | os.PathLike[str]) -> StatedPlan | StatedBuffers:
    """Read the plan at `path`, with steps or with only lifetimes."""
    name = os.fspath(path)
    try:
        return read_any(canonical.read_bounded(path, LIMIT), name)
    except TmmuError as error:
        error.in_file(name)
        raise


def read_any(data: bytes, name: str) -> StatedPlan | StatedBuffers:
    """Read the plan in `data`, binary or text; `name` is the file in refusals."""
    try:
        check_content(data)
        kind.check_plan(name, data[: kind.HEAD])
        if name.endswith(".plan.txt") or kind.text_kind(data[: kind.HEAD]) == kind.PLAN:
            from tmmu.plans import text  # a plan file needs none of it

            return pass_gate(text.read(data, name))
        return decode(data)
    except TmmuError as error:
        error.in_file(name)
        raise


def check_content(data: bytes) -> None:
    """Raise INVALID_PLAN for an empty file. spec: FP1.11"""
    if not data:
        raise TmmuError("INVALID_PLAN", "the file is empty", fix="make it again")


def pass_gate(plan: Plan | BufferPlan, reading: Reading | None = None) -> StatedPlan | StatedBuffers:
    """Pass a plan that was not read from a binary file through the gate, as the equivalent binary file. spec: X1.6"""
    return replace(decode(encode(plan)), is_text=reading is None, reading=reading)


def decode(data: bytes) -> StatedPlan | StatedBuffers:
    """Decode a binary plan through the gate; raises INVALID_PLAN. Memory is a small multiple of the input."""
    return replace(from_object(canonical.decode(data, "plan")), sha256=hashlib.sha256(data).digest())


def find_false_hashes(stated: StatedPlan | StatedBuffers) -> list[tuple[str, bytes, bytes]]:
    """Return each hash that does not recompute: its field, the stated value, the true value. spec: V1.8

    The true digest of the file depends on the other hashes as the file states them.
    """
    _, actual = _with_hashes(stated.plan, stated.hashes, canonical.Encoded)
    return [(name, value, actual[name]) for name, value in stated.hashes.items() if value != actual[name]]
