"""Lies about files: bytes that are no plan, and hashes that are not of their plan."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.nightly.soak.lies.telling import Files, Lie
from tests.nightly.soak.scenes import Scene, callers
from tests.support.corruption import COLUMNS, Change, corrupted
from tmmu.core import canonical
from tmmu.plan import file
from tmmu.plan.sections import amended

Body = dict[str, Any]

INDICES = (
    ("tensors", "storage"), ("tensors", "dtype"), ("tensors", "role"), ("tensors", "shares"), ("storages", "arena"),
    ("storages", "slot"), ("slots", "arena"), ("steps", "op"), ("steps", "part"), ("steps", "body"), ("steps", "reads"),
    ("steps", "writes"), ("steps", "mutates"), ("bodies", "iterates"), ("bodies", "exclusive"),
)  # fmt: skip
"""Columns that point at rows of a table, or at words."""


def turned_hash(scene: Scene, chance: random.Random) -> Files:
    """A hash in the file has one bit turned."""
    hashes = file.hashes(scene.plan)
    name = chance.choice((*file.HASHES, "file_digest"))
    turned = bytearray(hashes[name])
    turned[chance.randrange(32)] ^= 1 << chance.randrange(8)
    return Files((file.encode(scene.plan, hashes | {name: bytes(turned)}),))


def other_content(scene: Scene, chance: random.Random) -> Files | None:
    """Something else stands in the file, under the old hashes."""
    plan = scene.plan
    how = chance.randrange(4)
    if how == 0:
        wrong = amended(plan, model=f"{plan.origin.model}~")
    elif how == 1:
        wrong = amended(plan, replay_token=chance.randbytes(32))
    elif how == 2:
        wrong = amended(plan, ir_hash=chance.randbytes(32))
    else:
        table, name = chance.choice(COLUMNS)
        change = Change(
            table, name, chance.randrange(64), chance.choice(("other", "more", "less")), chance.randrange(1, 32)
        )
        made = corrupted(plan, [change])
        if made is None or not scene.donated <= callers(made):  # of another's donation the command line is wrong
            return None
        wrong = made
    return Files((file.encode(wrong, file.hashes(plan)),))


def _damaged(tell: Callable[[Body, random.Random], None]) -> Callable[[Scene, random.Random], Files | None]:
    """The file with its content changed in a way that makes it no plan; its hashes are those of what it was."""

    def told(scene: Scene, chance: random.Random) -> Files | None:
        body = file.to_object(scene.plan)
        try:
            tell(body, chance)
        except IndexError:  # an empty table has nothing to damage
            return None
        return Files((canonical.encode(body),))

    return told


def other_keys(body: Body, chance: random.Random) -> None:
    """A key is missing, or one stands there that is none."""
    where = chance.choice([body, body["tensors"], body["storages"], body["slots"], body["steps"], body["bodies"]])
    if chance.random() < 0.5:
        del where[chance.choice(sorted(where))]
    else:
        where[f"key{chance.randrange(1 << 20)}"] = 0


def other_type(body: Body, chance: random.Random) -> None:
    """A value is of another type."""
    where = chance.choice([body, body["tensors"], body["storages"], body["slots"], body["steps"], body["bodies"]])
    name = chance.choice(sorted(set(where) - {"source_digest", "address_token_digest"}))
    where[name] = chance.choice(
        [value for value in (-1, True, "text", [True], {"a": 1}) if type(value) is not type(where[name])]
    )


def out_of_range(body: Body, chance: random.Random) -> None:
    """An index points at no row."""
    table, name = chance.choice([(t, n) for t, n in INDICES if len(body[t][n])])
    values = body[table][name].copy()
    values[chance.randrange(len(values))] = np.iinfo(values.dtype).max - chance.randrange(1, 100)
    body[table][name] = values


def other_length(body: Body, chance: random.Random) -> None:
    """A column has a row more or less than its table."""
    table = chance.choice([t for t in ("tensors", "storages", "slots") if len(body[t]["bytes"])])
    name = chance.choice(sorted(set(body[table]) - {"name"}))
    values = body[table][name]
    body[table][name] = values[:-1] if chance.random() < 0.5 else np.concatenate([values, values[-1:]])


def same_name(body: Body, chance: random.Random) -> None:
    """Two tensors have one name, or one has none."""
    names = body["tensors"]["name"].split(b"\0")
    k = chance.randrange(len(names))
    if not names[k]:
        raise IndexError
    names[k] = names[k - 1] if len(names) > 1 and chance.random() < 0.5 else b""
    body["tensors"]["name"] = b"\0".join(names)


def owned_main(body: Body, chance: random.Random) -> None:
    """The main graph is said to have an owner: a step that enters or leaves it, a body around it, or to run again."""
    name = chance.choice(("enter", "leave", "parent", "iterates", "exclusive"))
    values = body["bodies"][name].copy()
    values[0] = 1 if name in ("iterates", "exclusive") else 0
    body["bodies"][name] = values


def unknown_word(body: Body, chance: random.Random) -> None:
    """A word is not one of those that are known there."""
    key = chance.choice(("format", "spec_version", "mode", "layout", "order"))
    body[key] = f"{body[key]}{chance.choice('x0-')}"


def cut_off(scene: Scene, chance: random.Random) -> Files:
    """The file ends early, or goes on."""
    data = file.encode(scene.plan)
    if chance.random() < 0.5:
        return Files((data[: chance.randrange(len(data))],))
    return Files((data + chance.randbytes(chance.randrange(1, 9)),))


def turned_bit(scene: Scene, chance: random.Random) -> Files:
    """Any bit of the file is turned: it is no plan any more, or not the one that its hashes are of.

    Nothing is given up: of a name or a role that is another now the command line would be wrong.
    """
    data = bytearray(file.encode(scene.plan))
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return Files((bytes(data),), codes=("INVALID_PLAN", "hashes"), donated=frozenset())


def long_form(scene: Scene, chance: random.Random) -> Files:
    """The same content in a form that is not the canonical one: the first key's length is written in two bytes."""
    data = file.encode(scene.plan)
    # A map of 24 to 255 keys begins with two bytes; then comes a text of less than 24 characters.
    return Files((data[:2] + bytes([0x78, data[2] & 31]) + data[3:],))


LIES = (
    Lie("hashes", "turned_hash", turned_hash),
    Lie("hashes", "other_content", other_content),
    *(
        Lie("INVALID_PLAN", tell.__name__, _damaged(tell))
        for tell in (other_keys, other_type, out_of_range, other_length, same_name, owned_main, unknown_word)
    ),
    Lie("INVALID_PLAN", "cut_off", cut_off),
    Lie("INVALID_PLAN", "turned_bit", turned_bit),
    Lie("INVALID_PLAN", "long_form", long_form),
)
