"""Faults in files: bytes that are not a plan, and hashes of another plan."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from tmmu.core import canonical
from tmmu.plans import file
from tmmu.plans.provenance import HASHES
from tmmu.plans.sections import amend_plan
from tmmu.testing.catalogue.entries import COLUMNS, corrupted, some_change
from tmmu.testing.catalogue.fault import Case, Inject, Injected, callers, fault, in_case, require, some
from tmmu.testing.catalogue.ranks import turned

Body = dict[str, Any]

TABLES = ("allocation.tensors", "allocation.storages", "claims.slots", "allocation.steps", "allocation.bodies")
INDICES = (
    ("allocation.tensors", "storage"), ("allocation.tensors", "dtype"), ("allocation.tensors", "role"),
    ("allocation.tensors", "shares"), ("allocation.storages", "arena"), ("claims.slots", "of"),
    ("claims.slots", "arena"), ("allocation.steps", "op"), ("allocation.steps", "part"), ("allocation.steps", "body"),
    ("allocation.steps", "reads"), ("allocation.steps", "writes"), ("allocation.steps", "mutates"),
    ("allocation.bodies", "iterates"), ("allocation.bodies", "exclusive"),
)  # fmt: skip
"""The columns whose values are rows of a table, or words."""


def _table(body: Body, path: str) -> Body:
    """Return a table of the file, by its section and name."""
    for name in path.split("."):
        body = body[name]
    return body


@fault("hashes", in_case)
def turned_hash(case: Case, chance: random.Random) -> Injected:
    """One bit of a hash in the file is flipped."""
    hashes = file.compute_hashes(case.plan)
    name = chance.choice((*HASHES, "file_digest"))
    return Injected((file.encode(case.plan, hashes | {name: turned(hashes[name], chance, 32)}),))


@fault("hashes", in_case)
def other_content(case: Case, chance: random.Random) -> Injected:
    """The file has another content, but the old hashes."""
    plan = case.plan
    how = chance.randrange(4)
    if how == 0:
        wrong = amend_plan(plan, model=f"{plan.origin.model}~")
    elif how == 1:
        wrong = amend_plan(plan, replay_token=chance.randbytes(32))
    elif how == 2:
        wrong = amend_plan(plan, ir_hash=chance.randbytes(32))
    else:
        made = corrupted(plan, [some_change(chance, COLUMNS, ("other", "more", "less"))])
        wrong = some(chance, [made] if made is not None else [])
        require(case.donated <= callers(wrong))  # else the command line would donate a tensor of another writer
    return Injected((file.encode(wrong, file.compute_hashes(plan)),))


def _inject_damage(damage: Callable[[Body, random.Random], None]) -> Inject:
    """Turn a function that damages the decoded file into a fault; the hashes stay those of the right plan."""

    def inject(case: Case, chance: random.Random) -> Injected:
        body = file.to_object(case.plan)
        damage(body, chance)
        return Injected((canonical.encode(body),))

    return inject


@fault("INVALID_PLAN", _inject_damage)
def other_keys(body: Body, chance: random.Random) -> None:
    """A required key is missing, or there is an unknown key."""
    path = chance.choice(("", "allocation", "claims", "provenance", *TABLES))
    where = _table(body, path) if path else body
    if chance.random() < 0.5:
        del where[chance.choice(sorted(set(where) - {"claims", "provenance", "shards", "envelope"}))]
    else:
        where[f"key{chance.randrange(1 << 20)}"] = 0


@fault("INVALID_PLAN", _inject_damage)
def other_type(body: Body, chance: random.Random) -> None:
    """A value is of another type."""
    path = chance.choice(("", "allocation", "claims", "provenance", *TABLES))
    where = _table(body, path) if path else body
    name = chance.choice(sorted(set(where) - {"source_digest", "address_token_digest"}))
    values = [value for value in (-1, True, "text", [True], {"a": 1}) if type(value) is not type(where[name])]
    where[name] = chance.choice(values)


@fault("INVALID_PLAN", _inject_damage)
def out_of_range(body: Body, chance: random.Random) -> None:
    """An index is not a row of its table."""
    table, name = some(chance, [(t, n) for t, n in INDICES if len(_table(body, t)[n])])
    values = _table(body, table)[name].copy()
    values[chance.randrange(len(values))] = np.iinfo(values.dtype).max - chance.randrange(1, 100)
    _table(body, table)[name] = values


@fault("INVALID_PLAN", _inject_damage)
def other_length(body: Body, chance: random.Random) -> None:
    """A column has one row more or fewer than its table."""
    where = _table(body, some(chance, [t for t in TABLES[:3] if len(_table(body, t)["bytes"])]))
    name = chance.choice(sorted(set(where) - {"name"}))
    values = where[name]
    where[name] = values[:-1] if chance.random() < 0.5 else np.concatenate([values, values[-1:]])


@fault("INVALID_PLAN", _inject_damage)
def same_name(body: Body, chance: random.Random) -> None:
    """Two tensors have one name, or one has an empty name."""
    tensors = _table(body, "allocation.tensors")
    names = tensors["name"].split(b"\0")
    k = chance.randrange(len(names))
    require(names[k])
    names[k] = names[k - 1] if len(names) > 1 and chance.random() < 0.5 else b""
    tensors["name"] = b"\0".join(names)


@fault("INVALID_PLAN", _inject_damage)
def owned_main(body: Body, chance: random.Random) -> None:
    """The main graph is stated to have an owner: a step that enters or leaves it, a body around it, or to run again."""
    name = chance.choice(("enter", "leave", "parent", "iterates", "exclusive"))
    bodies = _table(body, "allocation.bodies")
    bodies[name] = bodies[name].copy()
    bodies[name][0] = 1 if name in ("iterates", "exclusive") else 0


@fault("INVALID_PLAN", _inject_damage)
def unknown_word(body: Body, chance: random.Random) -> None:
    """A word is not in the vocabulary of its field."""
    key = chance.choice(("format", "spec_version", "mode", "layout", "order"))
    where = body if key in body else body["provenance"]
    where[key] = f"{where[key]}{chance.choice('x0-')}"


@fault("INVALID_PLAN", in_case)
def cut_off(case: Case, chance: random.Random) -> Injected:
    """The file ends early, or has more bytes."""
    return Injected((cut(case.plan_files[0], chance),))


def cut(data: bytes, chance: random.Random) -> bytes:
    """Return a prefix of the bytes, or all of them and some more."""
    if chance.random() < 0.5:
        return data[: chance.randrange(len(data))]
    return data + chance.randbytes(chance.randrange(1, 9))


@fault("INVALID_PLAN", in_case)
def turned_bit(case: Case, chance: random.Random) -> Injected:
    """Any bit of the file is flipped: it is not a plan any more, or not the plan of its hashes.

    Nothing is donated: if a name or a role has changed, the command line would be wrong.
    """
    data = case.plan_files[0]
    return Injected((turned(data, chance, len(data)),), codes=("INVALID_PLAN", "hashes"), donated=frozenset())


@fault("INVALID_PLAN", in_case)
def long_form(case: Case, chance: random.Random) -> Injected:
    """The same content in a form that is not canonical: the length of the first key is written in two bytes."""
    data = case.plan_files[0]
    # A map of fewer than 24 keys begins with one byte, and a text of fewer than 24 characters follows.
    return Injected((data[:1] + bytes([0x78, data[1] & 31]) + data[2:],))
