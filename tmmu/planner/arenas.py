"""Arena configurations: the default one, and reading one from TOML (M3).

```toml
[arenas.activations]
roles = ["input", "activation", "scratch"]   # who lies here
capacity = 1073741824                        # bytes; default 2**64 - 1
alignment = 128                              # a power of two
page_size = 4096                             # rounds the backing memory
reuse = true                                 # false: persistent, nothing shares
```

spec: M3.1, M3.2, M3.3, M3.4, M3.5
"""

from __future__ import annotations

import os
import tomllib
from typing import Any

from tmmu.canonical import read_bounded
from tmmu.errors import TmmuError
from tmmu.vocabulary import UINT64_END, Arena, Role

DEFAULT: tuple[Arena, ...] = (
    Arena("parameters", (Role.PARAMETER,), reuse=False),
    Arena("optimizer", (Role.OPTIMIZER,), reuse=False),
    Arena("activations", (Role.INPUT, Role.ACTIVATION, Role.SCRATCH)),
    Arena("gradients", (Role.GRADIENT,)),
)
"""Parameters and optimizer state persistent, activations (graph inputs and outputs too) and gradients reused."""

LIMIT = 1 << 20
"""The largest configuration that is read, in bytes."""

KEYS = ("roles", "capacity", "alignment", "page_size", "reuse", "device")


def _bad(arena: str, what: str, fix: str) -> TmmuError:
    return TmmuError("INVALID_ARENA_CONFIG", what, place=f"arena {arena!r}", fix=fix, arena=arena)


def check(arenas: tuple[Arena, ...]) -> tuple[Arena, ...]:
    """`arenas` as they are, or INVALID_ARENA_CONFIG naming the arena and what is wrong with it."""
    names: set[str] = set()
    placed: dict[Role, str] = {}
    for arena in arenas:
        if not arena.name or "\0" in arena.name or arena.name in names:
            raise _bad(arena.name, "its name is empty or used twice", "give every arena a name of its own")
        names.add(arena.name)
        for role in arena.roles:
            if role in placed:
                raise _bad(arena.name, f"the role {role} belongs to {placed[role]!r} already", "list each role once")
            placed[role] = arena.name
        if not 1 <= arena.capacity < UINT64_END:
            raise _bad(
                arena.name, f"capacity {arena.capacity} is not from 1 to 2**64 - 1", "state its capacity in bytes"
            )
        for what, value in (("alignment", arena.alignment), ("page_size", arena.page_size)):
            if not 1 <= value < UINT64_END or value & (value - 1):
                raise _bad(arena.name, f"{what} {value} is no power of two", "use a power of two")
    if not arenas:
        raise _bad("", "there is no arena", "configure at least one")
    return arenas


def load(path: str | os.PathLike[str]) -> tuple[Arena, ...]:
    """The arenas of a TOML file, in the order of the file; INVALID_ARENA_CONFIG names the file and the place."""
    try:
        try:
            document = tomllib.loads(read_bounded(path, LIMIT, "INVALID_ARENA_CONFIG").decode())
        except (ValueError, RecursionError) as error:  # what is no TOML, no UTF-8, a number or a nesting without end
            raise TmmuError("INVALID_ARENA_CONFIG", f"no TOML: {error}", fix="see the README's example") from error
        tables = document.pop("arenas", None)
        if document or not isinstance(tables, dict):
            what = f"unknown key {next(iter(document))!r}" if document else "no [arenas.NAME] tables"
            raise TmmuError("INVALID_ARENA_CONFIG", what, fix="write one [arenas.NAME] table for each arena")
        return check(tuple(_arena(name, table) for name, table in tables.items()))
    except TmmuError as error:
        error.in_file(os.fspath(path))
        raise


def _arena(name: str, table: Any) -> Arena:
    if not isinstance(table, dict):
        raise _bad(name, "it is no table", f"write [arenas.{name}]")
    for key in table:
        if key not in KEYS:
            raise _bad(name, f"unknown key {key!r}", f"use {', '.join(KEYS)}")
    roles = table.get("roles", [])
    if not isinstance(roles, list) or any(role not in tuple(Role) for role in roles):
        raise _bad(name, f"roles {roles!r}", f"list some of {', '.join(Role)}")
    for key, kind in (("capacity", int), ("alignment", int), ("page_size", int), ("reuse", bool), ("device", str)):
        if key in table and type(table[key]) is not kind:
            raise _bad(name, f"{key} {table[key]!r} is no {kind.__name__}", "correct its type")
    return Arena(name, tuple(Role(role) for role in roles), **{key: table[key] for key in KEYS[1:] if key in table})
