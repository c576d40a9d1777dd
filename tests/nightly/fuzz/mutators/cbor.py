"""CBOR as a tree, written again in canonical form, with the digests of the file recomputed so that readers go on."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import cbor2

from tests.nightly.fuzz.mutators import EDGES, Mutator, mutate_bytes

TEXTS = ("", "x", "*", "1", "-1", "\n", "\u202e", "a" * 300, "(" * 900, "9" * 200, "a*b//0", "\0", "..", "None")
VALUES: tuple[Any, ...] = (0, "", [], {}, None, b"", -1, 1 << 64, True, False, [[]], {"": []})
Seal = Callable[[list[Any]], list[Any]]
"""Recomputes the digests in the records of a file."""


def decode(data: bytes) -> list[Any]:
    """Return the items of a sequence, with typed arrays as tags. Raises ValueError, IndexError for other bytes."""
    items, at = [], 0
    while at < len(data):
        item, at = _item(data, at, 0)
        items.append(item)
    return items


def _item(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    kind, extra = data[at] >> 5, data[at] & 31
    width = 1 << (extra - 24) if 24 <= extra <= 27 else 0
    if extra > 27 or depth > 40:
        raise ValueError("not canonical")
    number = int.from_bytes(data[at + 1 : at + 1 + width], "big") if width else extra
    at += 1 + width
    if kind in (0, 1):
        return number if kind == 0 else -1 - number, at
    if kind in (2, 3):
        part = data[at : at + number]
        return part if kind == 2 else part.decode(), at + number
    if kind == 4:
        found: list[Any] = []
        for _ in range(number):
            value, at = _item(data, at, depth + 1)
            found.append(value)
        return found, at
    if kind == 5:
        pairs: dict[Any, Any] = {}
        for _ in range(number):
            key, at = _item(data, at, depth + 1)
            pairs[key], at = _item(data, at, depth + 1)
        return pairs, at
    if kind == 6:
        value, at = _item(data, at, depth + 1)
        return cbor2.CBORTag(number, value), at
    return {20: False, 21: True, 22: None}[number], at


def encode(items: list[Any]) -> bytes:
    """Return the canonical form of each item, one behind the other."""
    return b"".join(cbor2.dumps(item, canonical=True) for item in items)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to each value in a tree."""
    yield path
    children: Any = ()
    if isinstance(value, dict):
        children = value.items()
    elif isinstance(value, list):
        children = enumerate(value)
    elif isinstance(value, cbor2.CBORTag):
        children = ((None, value.value),)
    for key, child in children:
        yield from places(child, (*path, key))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value.value if isinstance(value, cbor2.CBORTag) else value[key]
    return value


def _put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    parent = _at(value, path[:-1])
    if isinstance(parent, cbor2.CBORTag):
        return _put(value, path[:-1], cbor2.CBORTag(parent.tag, new))
    parent[path[-1]] = new
    return value


def _changed(value: Any, random: Random, other: Any) -> Any:
    """Return a value in the place of another: near to it, or of another type."""
    if random.random() < 0.25:
        return copy.deepcopy(random.choice((*VALUES, other)))
    if isinstance(value, bool) or value is None:
        return random.choice(VALUES)
    if isinstance(value, int):
        near = (value + 1, value - 1, value * 2, value ^ (1 << random.randrange(63)), random.choice(EDGES))
        return max(-(1 << 63), min(random.choice(near), (1 << 64) - 1))
    if isinstance(value, str):
        return random.choice((*TEXTS, value + "x", value[:-1], value * 2))
    if isinstance(value, bytes):
        width = random.choice((1, 2, 4, 8))
        if random.random() < 0.4 and len(value) >= width:
            at = random.randrange(len(value) // width) * width
            number = random.choice((*EDGES, int.from_bytes(value[at : at + width], "little") + 1))
            return value[:at] + (number & ((1 << 8 * width) - 1)).to_bytes(width, "little") + value[at + width :]
        return value[:-width] if random.random() < 0.5 else mutate_bytes(value, random)
    if isinstance(value, list):
        found, kind = list(value), random.randrange(4)
        if kind == 0 and found:
            del found[random.randrange(len(found))]
        elif kind == 1 and found:
            found.insert(random.randrange(len(found) + 1), copy.deepcopy(random.choice(found)))
        elif kind == 2 and len(found) > 1:
            one, two = random.randrange(len(found)), random.randrange(len(found))
            found[one], found[two] = found[two], found[one]
        else:
            found.append(copy.deepcopy(random.choice((*VALUES, other))))
        return found
    if isinstance(value, dict):
        pairs = dict(value)
        if pairs and random.random() < 0.6:
            content = pairs.pop(random.choice(list(pairs)))
            if random.random() < 0.5:
                pairs[random.choice(TEXTS)] = content
        else:
            pairs[random.choice((*TEXTS, *map(str, pairs)))] = copy.deepcopy(other)
        return pairs
    return value


def of_seal(seal: Seal) -> Mutator:
    """Return the mutator of files whose digests `seal` recomputes."""

    def mutate(data: bytes, random: Random) -> bytes:
        if random.random() < 0.15:
            return mutate_bytes(data, random)
        try:
            items: Any = decode(data)
            for _ in range(random.choice((1, 1, 2, 3))):
                known = [path for path in places(items) if path]
                path = random.choice(known)
                items = _put(items, path, _changed(_at(items, path), random, _at(items, random.choice(known))))
            if random.random() < 0.85:
                items = seal(items)
            return encode(items)
        except Exception:  # the seal may find that what it recomputes is no longer there
            return mutate_bytes(data, random)

    return mutate


def seal_plan(items: list[Any]) -> list[Any]:
    """Recompute the digest of a plan file. Its other hashes may be false: it is a plan then, and refuted."""
    body = {key: value for key, value in items[0].items() if key != "file_digest"}
    return [body | {"file_digest": hashlib.sha256(cbor2.dumps(body, canonical=True)).digest()}]


def seal_checkpoint(items: list[Any]) -> list[Any]:
    """Recompute the hash of a checkpoint."""
    body = {key: value for key, value in items[0].items() if key != "checkpoint_hash"}
    return [body | {"checkpoint_hash": hashlib.sha256(cbor2.dumps(body, canonical=True)).digest()}]


def seal_trace(items: list[Any]) -> list[Any]:
    """Recompute the chain of a trace, as its last record has it."""
    from tmmu.runtime.records import trace

    chain = trace.start()
    for item in items[:-1]:
        chain = trace.link(chain, item)
    last = items[-1] | {"records": len(items) - 1}
    hashed = {key: value for key, value in last.items() if key not in trace.BESIDE}
    return [*items[:-1], last | {"trace_final_hash": trace.link(chain, hashed)}]


def seal_journal(items: list[Any]) -> list[Any]:
    """Recompute the states of a journal's commits."""
    from tmmu.runtime import journal

    state = items[0]["state_hash"]
    for item in items[1:]:
        item["previous_state_hash"] = state
        state = item["state_hash"] = journal.seal_commit(item)
    return items


def keep(items: list[Any]) -> list[Any]:
    """Recompute nothing: the file has no digest of itself."""
    return items
