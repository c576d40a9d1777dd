"""The claims of a plan beyond safety: read them from a file, and write them. An absent claim is not made.

The configuration's names are unique and every name used is defined, so that readers need not check it again.
spec: P1.2, P2.2, R2.4, M3.8
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from tmmu.core.fields import (
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
)
from tmmu.core.vocabulary import ArenaConfiguration, ArenaPolicy, DeviceConfiguration, Memory, Role, Rule
from tmmu.plans.allocation import Allocation, Placement
from tmmu.plans.columns import Slots
from tmmu.plans.sections import ArenaUse, ClaimedConfiguration, Claims, Usage

OPTIONAL = tuple(name for name in Usage._fields if name != "minimal")
"""Claims about an arena that may be absent; the claim of minimal slots is True or False."""
REQUIRED = {"peak_step": "peak_live_bytes", "max_live_step": "max_live", "minimal": "slots"}
"""A claim and the claim that it needs: a step needs its maximum, and minimal slots need their number."""


def read_claims(value: Any, slots: Slots | None, of: Placement) -> Claims:
    """Read the section from a decoded object; the slots, and the placement that it is about, have been read already."""
    value = check_keys(value, ("usage",), "claims", ("slots", "configuration"))
    arenas = [arena.name for arena in of.arenas]
    has_streams = isinstance(of, Allocation) and bool(of.streams)
    usage = read_entries(value["usage"], "claims.usage", lambda item, at: _usage(item, at, of, has_streams))
    if slots is None and any(used.antichain is not None for used in usage):
        raise plan_error("claims.usage", "an antichain shows that slots are minimal, and claims.slots is absent")
    if len(usage) != len(arenas):
        raise plan_error("claims.usage", f"expected {len(arenas)} entries, one for each arena, got {len(usage)}")
    given = value.get("configuration")
    return Claims(usage, slots, None if given is None else _configuration(given, arenas))


def _usage(value: Any, place: str, of: Placement, has_streams: bool) -> Usage:
    """Read the claims about one arena; exactly a plan with streams shows minimal slots by an antichain. spec: X5.10"""

    def step(item: Any, at: str) -> int:
        return check_integer(item, at, of.last_step + 1)

    def antichain(item: Any, at: str) -> tuple[int, ...]:
        return read_entries(item, at, lambda row, place: check_integer(row, place, len(of.storages)))

    readers = dict.fromkeys(OPTIONAL, check_integer) | {
        "peak_step": step,
        "max_live_step": step,
        "minimal": check_boolean,
        "antichain": antichain,
    }
    found = read_record(readers, value, place, OPTIONAL)
    for name, needed in REQUIRED.items():
        if found.get(name) not in (None, False) and needed not in found:
            raise plan_error(f"{place}.{name}", f"this claim needs {needed}, which is not claimed")
    if ("antichain" in found) != (has_streams and found["minimal"]):
        what = "expected an antichain exactly if a plan with streams claims that slots are minimal"
        raise plan_error(f"{place}.antichain", what)
    listed = found.get("antichain", ())
    if any(a >= b for a, b in pairwise(listed)):
        raise plan_error(f"{place}.antichain", "expected ascending storages, each once")
    return Usage(**found)


def claims_object(claims: Claims) -> dict[str, Any]:
    """Convert the section to an object for a file, without the table of slots."""
    found: dict[str, Any] = {
        "usage": [{name: _plain(x) for name, x in used._asdict().items() if x is not None} for used in claims.usage]
    }
    if claims.configuration is not None:
        uses = [{**use._asdict(), "roles": [str(role) for role in use.roles]} for use in claims.configuration.uses]
        found["configuration"] = {"arenas": uses, **_policy_object(claims.configuration.policy)}
    return found


def _plain(value: Any) -> Any:
    """Return a claim as a file holds it."""
    return list(value) if isinstance(value, tuple) else value


def arena_config_object(arenas: Sequence[ArenaConfiguration], policy: ArenaPolicy) -> dict[str, Any]:
    """Return the configuration object whose digest is `arena_config_hash`. spec: R2.4"""
    rows = [
        {
            "name": a.name, "roles": [str(role) for role in a.roles], "capacity": a.capacity, "alignment": a.alignment,
            "page_size": a.page_size, "reuse": a.reuse, "device": a.device, "memory": a.memory,
        }
        for a in arenas
    ]  # fmt: skip
    return {"arenas": rows, **_policy_object(policy)}


def _policy_object(policy: ArenaPolicy) -> dict[str, Any]:
    devices = [
        {
            "name": device.name, "memories": [dict(memory._asdict()) for memory in device.memories],
            "nodes": list(device.nodes), "ops": list(device.ops),
        }
        for device in policy.devices
    ]  # fmt: skip
    rules = [
        {
            "arenas": list(rule.arenas), "roles": [str(role) for role in rule.roles], "names": list(rule.names),
            "ops": list(rule.ops), "devices": list(rule.devices),
        }
        for rule in policy.rules
    ]  # fmt: skip
    return {"devices": devices, "rules": rules}


def _configuration(value: Any, arenas: Sequence[str]) -> ClaimedConfiguration:
    place = "claims.configuration"
    found = read_record({"arenas": _uses, "devices": _devices, "rules": _rules}, value, place)
    uses, devices, rules = found["arenas"], found["devices"], found["rules"]
    if len(uses) != len(arenas):
        raise plan_error(f"{place}.arenas", f"expected {len(arenas)} entries, one for each arena, got {len(uses)}")
    check_distinct([device.name for device in devices], f"{place}.devices")
    memories = {(d.name, m.name) for d in devices for m in d.memories}
    for i, use in enumerate(uses):
        if use.memory and (use.device, use.memory) not in memories:
            raise plan_error(f"{place}.arenas[{i}].memory", f"the device has no memory {use.memory!r}")
    known = {"arenas": set(arenas), "devices": {d.name for d in devices}}
    for i, rule in enumerate(rules):
        for key, names in known.items():
            if unknown := [name for name in getattr(rule, key) if name not in names]:
                raise plan_error(f"{place}.rules[{i}].{key}", f"{unknown[0]!r} is not in the configuration")
        check_distinct(rule.arenas, f"{place}.rules[{i}].arenas")
        if not rule.arenas:
            raise plan_error(f"{place}.rules[{i}].arenas", "expected an arena, got none")
    policy = ArenaPolicy(devices, rules)
    if excess := policy.excess():
        raise plan_error(f"{place}.rules", f"the configuration has {excess}")
    return ClaimedConfiguration(uses, policy)


def _roles(value: Any, place: str) -> tuple[Role, ...]:
    return read_entries(value, place, lambda item, at: Role(check_one_of(item, tuple(Role), at)))


def _uses(value: Any, place: str) -> tuple[ArenaUse, ...]:
    readers = {"roles": _roles, "page_size": check_size, "device": check_text, "memory": check_text}
    return read_entries(value, place, lambda item, at: ArenaUse(**read_record(readers, item, at)))


def _memories(value: Any, place: str) -> tuple[Memory, ...]:
    found = read_entries(
        value, place, lambda item, at: Memory(**read_record({"name": check_text, "capacity": check_size}, item, at))
    )
    check_distinct([memory.name for memory in found], place)
    return found


def _devices(value: Any, place: str) -> tuple[DeviceConfiguration, ...]:
    readers = {"name": check_text, "memories": _memories, "nodes": check_texts, "ops": check_texts}
    return read_entries(value, place, lambda item, at: DeviceConfiguration(**read_record(readers, item, at)))


def _rules(value: Any, place: str) -> tuple[Rule, ...]:
    readers = {"arenas": check_texts, "roles": _roles, "names": check_texts, "ops": check_texts, "devices": check_texts}
    return read_entries(value, place, lambda item, at: Rule(**read_record(readers, item, at)))
