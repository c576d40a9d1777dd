"""Reading an arena configuration from TOML (M3).

```toml
[devices.npu]
memories = { sram = 1048576, dram = "8GiB" }       # bytes that the arenas of a memory divide among them
nodes = ["encoder/*"]                              # which nodes run here, by name ...
ops = ["Conv", "MatMul"]                           # ... or by operator; a rule may require that

[arenas.weights]
roles = ["parameter", "optimizer"]                 # what lies here if no rule matches
reuse = false                                      # persistent: every storage has its own slot
device = "npu"
memory = "dram"

[arenas.fast]
device = "npu"
memory = "sram"
capacity = 786432                                  # of this arena; default 2**64 - 1
alignment = 128                                    # a power of two
page_size = 4096                                   # rounds the backing memory

[arenas.activations]
roles = ["input", "activation", "gradient", "scratch"]
device = "npu"
memory = "dram"

[[rules]]                                          # the first rule that matches a tensor counts
names = ["logits"]
arenas = ["activations"]                           # a list of one pins

[[rules]]
roles = ["activation"]
devices = ["npu"]
arenas = ["fast", "activations"]                   # best first
```

spec: M3.4, M3.5, M3.7, M3.8
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from tmmu.core.canonical import read_bounded
from tmmu.core.errors import TmmuError
from tmmu.core.output import parse_size
from tmmu.core.reading import parse_toml
from tmmu.core.vocabulary import ArenaConfiguration, ArenaPolicy, DeviceConfiguration, Memory, Role, Rule
from tmmu.plans.configuration import check_configuration, configuration_error

LIMIT = 1 << 20
"""The largest configuration that is read, in bytes."""

KINDS: dict[str, dict[str, type]] = {
    "arena": {
        "roles": list, "capacity": int, "alignment": int, "page_size": int, "reuse": bool, "device": str, "memory": str,
    },
    "device": {"memories": dict, "nodes": list, "ops": list},
    "rule": {"arenas": list, "roles": list, "names": list, "ops": list, "devices": list},
}  # fmt: skip
"""The keys of each table, and the types of their values."""
BYTES = ("capacity", "page_size")
"""The keys whose values are bytes, which may be texts such as "8GiB"."""
WORDS = {int: "an integer", bool: "a boolean", str: "a text", list: "a list", dict: "a table"}
"""The names of these types in messages."""


class Configuration(NamedTuple):
    """The contents of a file: the arenas in its order, and the policy for tensors."""

    arenas: tuple[ArenaConfiguration, ...]
    policy: ArenaPolicy


def load(path: str | os.PathLike[str]) -> Configuration:
    """Read the configuration in a TOML file; INVALID_ARENA_CONFIG names the file and the place."""
    try:
        try:
            document = parse_toml(read_bounded(path, LIMIT, "INVALID_ARENA_CONFIG"))
        except ValueError as error:  # not TOML, not UTF-8, or a number or nesting too large
            raise TmmuError("INVALID_ARENA_CONFIG", f"not TOML: {error}", fix="see the README's example") from error
        return _read(document)
    except TmmuError as error:
        error.in_file(os.fspath(path))
        raise


def _read(document: dict[str, Any]) -> Configuration:
    tables, devices, rules = document.pop("arenas", None), document.pop("devices", {}), document.pop("rules", [])
    if document or not isinstance(tables, dict):
        what = f"unknown key {next(iter(document))!r}" if document else "no [arenas.NAME] tables"
        raise TmmuError("INVALID_ARENA_CONFIG", what, fix="write one [arenas.NAME] table for each arena")
    if not isinstance(devices, dict):
        raise TmmuError("INVALID_ARENA_CONFIG", "expected tables of devices", fix="write [devices.NAME]")
    if not isinstance(rules, list):
        raise TmmuError("INVALID_ARENA_CONFIG", "expected a list of tables of rules", fix="write [[rules]]")
    policy = ArenaPolicy(
        tuple(_device(name, table) for name, table in devices.items()),
        tuple(_rule(number, table) for number, table in enumerate(rules, 1)),
    )
    arenas = tuple(_arena(name, table) for name, table in tables.items())
    return Configuration(check_configuration(arenas, policy), policy)


def _check_table(kind: str, place: str, table: Any, fix: str) -> dict[str, Any]:
    """Check a table: known keys, with values of their types; lists contain texts."""
    if not isinstance(table, dict):
        raise configuration_error(place, "expected a table", fix)
    fields: dict[str, Any] = {key: _to_bytes(key, value) for key, value in table.items()}
    for key, value in fields.items():
        expected = KINDS[kind].get(key)
        if expected is None:
            raise configuration_error(place, f"unknown key {key!r}", f"use {', '.join(KINDS[kind])}")
        is_right = isinstance(value, expected) and isinstance(value, bool) == (expected is bool)
        if not is_right:
            fix = 'state it in bytes, or as "8GiB"' if key in BYTES else "correct its type"
            raise configuration_error(place, f"{key}: expected {WORDS[expected]}, got {value!r}", fix)
        if key == "roles" and any(role not in tuple(Role) for role in value):
            raise configuration_error(place, f"unknown roles in {value!r}", f"list some of {', '.join(Role)}")
        if expected is list and any(type(item) is not str or not item for item in value):
            raise configuration_error(place, f"{key}: expected a list of names, got {value!r}", "list texts")
    return fields


def _to_bytes(key: str, value: Any) -> Any:
    """Convert a text such as "8GiB" to bytes if `key` has bytes; any other value is returned unchanged. spec: M3.4"""
    if key == "memories" and isinstance(value, dict):
        return {memory: _to_bytes("capacity", capacity) for memory, capacity in value.items()}
    if key in BYTES and isinstance(value, str):
        size = parse_size(value)
        return value if size is None else size
    return value


def _arena(name: str, table: Any) -> ArenaConfiguration:
    fields = _check_table("arena", f"arena {name!r}", table, f"write [arenas.{name}]")
    roles = tuple(Role(role) for role in fields.get("roles", ()))
    return ArenaConfiguration(name, roles, **{key: value for key, value in fields.items() if key != "roles"})


def _device(name: str, table: Any) -> DeviceConfiguration:
    place = f"device {name!r}"
    fields = _check_table("device", place, table, f"write [devices.{name}]")
    for memory, capacity in fields.get("memories", {}).items():
        if type(capacity) is not int:
            raise configuration_error(
                place,
                f"the capacity of memory {memory!r}: expected an integer, got {capacity!r}",
                'state it in bytes, or as "8GiB"',
            )
    memories = tuple(Memory(*item) for item in fields.get("memories", {}).items())
    return DeviceConfiguration(name, memories, tuple(fields.get("nodes", ())), tuple(fields.get("ops", ())))


def _rule(number: int, table: Any) -> Rule:
    fields = _check_table("rule", f"rule {number}", table, "write [[rules]]")
    roles = tuple(Role(role) for role in fields.get("roles", ()))
    names, ops, devices = (tuple(fields.get(key, ())) for key in ("names", "ops", "devices"))
    return Rule(tuple(fields.get("arenas", ())), roles, names, ops, devices)
