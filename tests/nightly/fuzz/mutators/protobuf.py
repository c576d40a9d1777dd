"""Protobuf messages as trees, without a schema: a field of bytes that parses as a message is taken for one."""

from __future__ import annotations

import copy
from random import Random

from tests.nightly.fuzz.mutators import EDGES, mutate_bytes

Field = tuple[int, int, "int | bytes | list[Field]"]
"""The number of a field, its wire type, and its content; a list is a message."""
DEEPEST = 12
WORDS = (
    b"Add", b"Loop", b"If", b"Scan", b"Reshape", b"Gemm", b"Conv", b"Slice", b"Concat", b"Split", b"Gather", b"Cast",
    b"Shape", b"Expand", b"Tile", b"Pad", b"Resize", b"Einsum", b"Where", b"Range", b"NonZero", b"SequenceAt", b"TopK",
    b"ConstantOfShape", b"Constant", b"Dropout", b"LSTM", b"Optional", b"", b"x", b"\xff", b"a" * 300,
)  # fmt: skip


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while shift < 70:
        byte = data[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at
    raise ValueError("a number of more than ten bytes")


def parse(data: bytes, depth: int = 0) -> list[Field]:
    """Return the fields of a message. Raises ValueError or IndexError for other bytes."""
    found: list[Field] = []
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if not 0 < number < 1 << 20 or kind not in (0, 1, 2, 5):
            raise ValueError("not a message")
        if kind == 0:
            value, at = _varint(data, at)
            found.append((number, kind, value))
            continue
        size = {1: 8, 5: 4}.get(kind, -1)
        if kind == 2:
            size, at = _varint(data, at)
        if at + size > len(data):
            raise ValueError("cut off")
        part, at = data[at : at + size], at + size
        content: bytes | list[Field] = part
        if kind == 2 and size > 1 and depth < DEEPEST and (part[0] < 32 or not part.isascii()):
            try:
                content = parse(part, depth + 1)
            except (ValueError, IndexError):
                content = part
        found.append((number, kind, content))
    return found


def _written(number: int) -> bytes:
    number &= (1 << 64) - 1
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes((*found, number))


def write(fields: list[Field]) -> bytes:
    """Return the bytes of a message."""
    found = b""
    for number, kind, content in fields:
        found += _written(number << 3 | kind)
        if isinstance(content, int):
            found += _written(content)
        else:
            part = content if isinstance(content, bytes) else write(content)
            found += part if kind != 2 else _written(len(part)) + part
    return found


def _messages(fields: list[Field]) -> list[list[Field]]:
    found = [fields]
    for _, _, content in fields:
        if isinstance(content, list):
            found += _messages(content)
    return found


def mutate_protobuf(data: bytes, random: Random) -> bytes:
    """Remove, repeat, move and exchange fields, and change numbers and texts."""
    if random.random() < 0.2:
        return mutate_bytes(data, random)
    try:
        root = parse(data)
    except (ValueError, IndexError):
        return mutate_bytes(data, random)
    for _ in range(random.choice((1, 1, 2, 3))):
        messages = [each for each in _messages(root) if each]
        if not messages:
            break
        message, other = random.choice(messages), random.choice(messages)
        at, kind = random.randrange(len(message)), random.randrange(6)
        number, wire, content = message[at]
        if kind == 0:
            del message[at]
        elif kind == 1:
            message.insert(random.randrange(len(message) + 1), copy.deepcopy(message[at]))
        elif kind == 2:
            message[at] = copy.deepcopy(random.choice(other))  # a message within itself would have no end
        elif kind == 3:
            message[at] = (random.choice((number, random.randrange(1, 32))), wire, content)
        elif isinstance(content, int):
            message[at] = (number, wire, random.choice((content + 1, content - 1, *EDGES)))
        elif isinstance(content, bytes):
            new = random.choice(WORDS) if random.random() < 0.4 else mutate_bytes(content, random)
            message[at] = (number, wire, new if wire == 2 else (new + bytes(8))[: len(content)])
    return write(root)
