"""Arena configurations: the default one, and the check of any other (M3).

spec: M3.1, M3.3, M3.4, M3.9
"""

from __future__ import annotations

from collections.abc import Iterable

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ANYWHERE, UINT64_END, ArenaConfiguration, ArenaPolicy, Role, Rule

DEFAULT: tuple[ArenaConfiguration, ...] = (
    ArenaConfiguration("parameters", (Role.PARAMETER,), reuse=False),
    ArenaConfiguration("optimizer", (Role.OPTIMIZER,), reuse=False),
    ArenaConfiguration("activations", (Role.INPUT, Role.ACTIVATION, Role.SCRATCH)),
    ArenaConfiguration("gradients", (Role.GRADIENT,)),
)
"""Parameters and optimizer state persistent, activations (graph inputs and outputs too) and gradients reused."""

DEVICE = "default"
"""The device of an arena that names none; it needs no table and has no memories."""


def configuration_error(place: str, what: str, fix: str, arena: str = "") -> TmmuError:
    """Return INVALID_ARENA_CONFIG at a place of the configuration."""
    return TmmuError("INVALID_ARENA_CONFIG", what, place=place, fix=fix, arena=arena)


def check_configuration(
    arenas: tuple[ArenaConfiguration, ...], policy: ArenaPolicy = ANYWHERE
) -> tuple[ArenaConfiguration, ...]:
    """Check a configuration and return `arenas`; INVALID_ARENA_CONFIG names the arena, device or rule at fault."""
    if not arenas:
        raise configuration_error("arena ''", "there is no arena", "configure at least one")
    if excess := policy.excess():
        raise configuration_error("the rules", f"there are {excess}", "combine several rules or patterns into one")
    memories = _check_devices(policy)
    placed: dict[Role, str] = {}
    _check_names("arena", (arena.name for arena in arenas))
    for arena in arenas:
        place = f"arena {arena.name!r}"
        for role in arena.roles:
            if role in placed:
                what = f"the role {role} already belongs to {placed[role]!r}"
                raise configuration_error(place, what, "list each role once", arena.name)
            placed[role] = arena.name
        _check_capacity(place, arena.capacity, arena.name)
        for key, value in (("alignment", arena.alignment), ("page_size", arena.page_size)):
            if not 1 <= value < UINT64_END or value & (value - 1):
                raise configuration_error(
                    place, f"{key} {value} is not a power of two", "use a power of two", arena.name
                )
        if arena.device not in memories:
            known = ", ".join(memories)
            raise configuration_error(
                place, f"unknown device {arena.device!r}", f"name one of {known}, or add its table", arena.name
            )
        if arena.memory and arena.memory not in memories[arena.device]:
            what = f"the device {arena.device!r} has no memory {arena.memory!r}"
            raise configuration_error(place, what, f"add it to [devices.{arena.device}]", arena.name)
    for number, rule in enumerate(policy.rules, 1):
        _check_rule(f"rule {number}", rule, {arena.name: arena for arena in arenas}, memories)
    return arenas


def _check_names(kind: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if not name or "\0" in name or name in seen:
            what = "its name is empty or used twice"
            raise configuration_error(f"{kind} {name!r}", what, f"give every {kind} a different name", name)
        seen.add(name)


def _check_capacity(place: str, capacity: int, arena: str = "") -> None:
    if not 1 <= capacity < UINT64_END:
        what = f"expected a capacity from 1 to 2**64 - 1, got {capacity}"
        raise configuration_error(place, what, "state its capacity in bytes", arena)


def _check_devices(policy: ArenaPolicy) -> dict[str, set[str]]:
    """Check devices and memories, and return the names of each device's memories."""
    _check_names("device", (device.name for device in policy.devices))
    for device in policy.devices:
        _check_names("memory", (memory.name for memory in device.memories))
        for memory in device.memories:
            _check_capacity(f"memory '{device.name}/{memory.name}'", memory.capacity)
    found = {device.name: {memory.name for memory in device.memories} for device in policy.devices}
    return {DEVICE: set(), **found}


def _check_rule(place: str, rule: Rule, arenas: dict[str, ArenaConfiguration], devices: dict[str, set[str]]) -> None:
    """Check that a rule lists existing arenas, each once, all reusing bytes or none, and existing devices."""
    if not rule.arenas:
        raise configuration_error(place, "it lists no arena", "list the arenas that may be used, best first")
    for name in rule.arenas:
        if name not in arenas:
            raise configuration_error(place, f"unknown arena {name!r}", f"use {', '.join(arenas)}", name)
        if rule.arenas.count(name) > 1:
            raise configuration_error(place, f"it lists the arena {name!r} twice", "list each arena once", name)
    first = arenas[rule.arenas[0]]
    for name in rule.arenas:
        if arenas[name].reuse != first.reuse:
            what = f"one of {first.name!r} and {name!r} reuses bytes and the other does not"
            raise configuration_error(place, what, "list arenas of one kind", name)
    for device in rule.devices:
        if device not in devices or device == DEVICE:
            raise configuration_error(place, f"unknown device {device!r}", "name a device that has a table")
