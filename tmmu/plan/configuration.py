"""The arena configuration that a plan carries: arenas, devices with their memories, and rules.

Names are unique and every name that is used is there, so that what reads a plan needs to ask no more.
spec: P1.2, R2.4, M3.8
"""

from __future__ import annotations

from typing import Any

from tmmu.core.fields import array, integer, keys, refuse, text, texts
from tmmu.core.vocabulary import Arena, ArenaPolicy, Device, Memory, Role, Rule


def read(value: Any) -> tuple[tuple[Arena, ...], ArenaPolicy]:
    """The arenas and the policy of a decoded configuration, or INVALID_PLAN naming the place."""
    place = "arena_config"
    value = keys(value, ("arenas", "devices", "rules"), place)
    tables = {name: array(value[name], f"{place}.{name}") for name in value}
    arenas = tuple(_arena(a, f"{place}.arenas[{i}]") for i, a in enumerate(tables["arenas"]))
    devices = tuple(_device(d, f"{place}.devices[{i}]") for i, d in enumerate(tables["devices"]))
    rules = tuple(_rule(r, f"{place}.rules[{i}]") for i, r in enumerate(tables["rules"]))
    _unique([a.name for a in arenas], f"{place}.arenas")
    _unique([d.name for d in devices], f"{place}.devices")
    memories = {(d.name, m.name) for d in devices for m in d.memories}
    for i, arena in enumerate(arenas):
        if arena.memory and (arena.device, arena.memory) not in memories:
            raise refuse(f"{place}.arenas[{i}].memory", f"the device has no memory {arena.memory!r}")
    known = {"arenas": {a.name for a in arenas}, "devices": {d.name for d in devices}}
    for i, rule in enumerate(rules):
        for key, names in known.items():
            if unknown := [name for name in getattr(rule, key) if name not in names]:
                raise refuse(f"{place}.rules[{i}].{key}", f"{unknown[0]!r} is not in the configuration")
        _unique(rule.arenas, f"{place}.rules[{i}].arenas")
        if not rule.arenas:
            raise refuse(f"{place}.rules[{i}].arenas", "no arena")
    return arenas, ArenaPolicy(devices, rules)


def _unique(names: list[str] | tuple[str, ...], place: str) -> None:
    if len(set(names)) != len(names):
        raise refuse(place, "a name repeats")


def _roles(value: Any, place: str) -> tuple[Role, ...]:
    for role in texts(value, place):
        if role not in tuple(Role):
            raise refuse(place, f"unknown role {role!r}")
    return tuple(Role(role) for role in value)


def _arena(value: Any, place: str) -> Arena:
    names = ("name", "roles", "capacity", "alignment", "page_size", "reuse", "device", "memory")
    value = keys(value, names, place)
    roles = _roles(value["roles"], f"{place}.roles")
    if type(value["reuse"]) is not bool:
        raise refuse(f"{place}.reuse", "no boolean")
    return Arena(
        text(value["name"], f"{place}.name"),
        roles,
        integer(value["capacity"], f"{place}.capacity", least=1),
        integer(value["alignment"], f"{place}.alignment", least=1),
        integer(value["page_size"], f"{place}.page_size", least=1),
        value["reuse"],
        text(value["device"], f"{place}.device"),
        text(value["memory"], f"{place}.memory"),
    )


def _device(value: Any, place: str) -> Device:
    value = keys(value, Device._fields, place)
    memories = tuple(
        _memory(m, f"{place}.memories[{i}]") for i, m in enumerate(array(value["memories"], f"{place}.memories"))
    )
    _unique([memory.name for memory in memories], f"{place}.memories")
    name = text(value["name"], f"{place}.name")
    return Device(name, memories, *(texts(value[key], f"{place}.{key}") for key in ("nodes", "ops")))


def _memory(value: Any, place: str) -> Memory:
    value = keys(value, Memory._fields, place)
    return Memory(text(value["name"], f"{place}.name"), integer(value["capacity"], f"{place}.capacity", least=1))


def _rule(value: Any, place: str) -> Rule:
    value = keys(value, Rule._fields, place)
    names, ops, devices = (texts(value[key], f"{place}.{key}") for key in ("names", "ops", "devices"))
    roles = _roles(value["roles"], f"{place}.roles")
    return Rule(texts(value["arenas"], f"{place}.arenas"), roles, names, ops, devices)
