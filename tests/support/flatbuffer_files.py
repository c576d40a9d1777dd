"""Flatbuffers of tests: any tables, and short ways to state an ExecuTorch program and a TensorFlow Lite model."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

FORMATS = {"u8": "<B", "i8": "<b", "i32": "<i", "u32": "<I", "i64": "<q", "u64": "<Q"}
Fields = Mapping[int, Any]
"""A table: the value of each field, by its number. An integer or a vector of them is ("i32", value), a table a mapping,
a vector of tables a list, bytes and strings are themselves."""


def write(root: Fields, identifier: bytes) -> bytes:
    """The bytes of a buffer with this root table."""
    out = bytearray(4) + identifier
    struct.pack_into("<I", out, 0, _table(out, root))
    return bytes(out)


def _table(out: bytearray, fields: Fields) -> int:
    """Append a table and what it refers to; where it stands."""
    inline = [(n, v) for n, v in sorted(fields.items())]
    sizes = {n: struct.calcsize(FORMATS[v[0]]) if _is_number(v) else 4 for n, v in inline}
    distance, at = {}, 4
    for n, _ in inline:
        distance[n], at = at, at + sizes[n]
    vtable = len(out)
    count = max(fields, default=-1) + 1
    out += struct.pack("<HH", 4 + 2 * count, at)
    out += b"".join(struct.pack("<H", distance.get(n, 0)) for n in range(count))
    table = len(out)
    out += struct.pack("<i", table - vtable) + bytes(at - 4)
    for n, value in inline:
        here = table + distance[n]
        if _is_number(value):
            struct.pack_into(FORMATS[value[0]], out, here, value[1])
        else:
            struct.pack_into("<I", out, here, _referred(out, value) - here)
    return table


def _is_number(value: Any) -> bool:
    return isinstance(value, tuple) and isinstance(value[1], int)


def _referred(out: bytearray, value: Any) -> int:
    if isinstance(value, Mapping):
        return _table(out, value)
    at = len(out)
    if isinstance(value, list):
        out += struct.pack("<I", len(value)) + bytes(4 * len(value))
        for k, each in enumerate(value):
            here = at + 4 + 4 * k
            struct.pack_into("<I", out, here, _table(out, each) - here)
    elif isinstance(value, tuple):
        kind, numbers = value
        out += struct.pack("<I", len(numbers)) + b"".join(struct.pack(FORMATS[kind], each) for each in numbers)
    else:
        data = value.encode() if isinstance(value, str) else value
        out += struct.pack("<I", len(data)) + data
    return at


# ExecuTorch


def planned(offset: int, size: int = 16, memory: int = 1, **more: Any) -> Fields:
    """A planned tensor of bytes; `more` are fields of its table by name: `data`, `name`, `kind`, `sizes`."""
    table: dict[int, Any] = {
        0: ("i8", more.get("kind", 0)), 2: ("i32", more.get("sizes", [size])),
        6: {0: ("u32", memory), 1: ("u32", offset & 0xFFFFFFFF), 2: ("u32", offset >> 32)},
    }  # fmt: skip
    if "data" in more:
        table[5] = ("u32", more["data"])
    if "name" in more:
        table[9] = {1: more["name"]}
    return {0: ("u8", 5), 1: table}


def unplanned(data: int = 0) -> Fields:
    """A constant, or a tensor that the runtime allocates."""
    return {0: ("u8", 5), 1: {0: ("i8", 0), 2: ("i32", [4]), 5: ("u32", data)}}


def listed(*items: int) -> Fields:
    """A list of tensors."""
    return {0: ("u8", 10), 1: {0: ("i32", items)}}


FALSE: Fields = {0: ("u8", 3), 1: {}}
NUMBER: Fields = {0: ("u8", 2), 1: {0: ("i64", 7)}}


def method(
    values: Sequence[Fields], calls: Sequence[tuple[Any, ...]], inputs: Sequence[int], outputs: Sequence[int],
    memories: Sequence[int] = (0, 4096), name: str = "forward",
) -> Fields:  # fmt: skip
    """A method. A call is (operator, *values), ("delegate", *values), ("move", from, to), ("jump", condition, to) or
    ("free", value)."""
    ops: list[str] = []
    made = []
    for word, *args in calls:
        if word == "delegate":
            made.append({0: ("u8", 2), 1: {0: ("i32", 0), 1: ("i32", args)}})
        elif word in ("move", "jump", "free"):
            kind = {"move": 3, "jump": 4, "free": 5}[word]
            made.append({0: ("u8", kind), 1: {n: ("i32", each) for n, each in enumerate(args)}})
        else:
            ops += [word] if word not in ops else []
            made.append({0: ("u8", 1), 1: {0: ("i32", ops.index(word)), 1: ("i32", args)}})
    operators = [dict(enumerate(op.partition(".")[::2])) for op in ops]
    return {
        0: name, 2: list(values), 3: ("i32", inputs), 4: ("i32", outputs), 5: [{2: made}], 6: operators,
        7: [{0: "Backend"}], 8: ("i64", memories),
    }  # fmt: skip


def program(*methods: Fields) -> bytes:
    """The bytes of a program."""
    return write({1: list(methods)}, b"ET12")


# TensorFlow Lite


def model(subgraphs: Sequence[Fields], offsets: Sequence[int] | bytes | None, codes: Sequence[int | str]) -> bytes:
    """A model with the offsets of an offline plan; a code is that of an operator, or the name of a custom one."""
    words = (1, len(subgraphs), len(offsets or ()), *(offsets or ()))
    data = offsets if isinstance(offsets, bytes) else struct.pack(f"<{len(words)}i", *words)
    metadata = [] if offsets is None else [{0: "OfflineMemoryAllocation", 1: ("u32", 2)}]
    operators = [{1: code, 3: ("i32", 32)} if isinstance(code, str) else {3: ("i32", code)} for code in codes]
    buffers: list[Fields] = [{}, {0: b"constant"}, {0: data}]
    return write({1: operators, 2: list(subgraphs), 4: buffers, 6: metadata}, b"TFL3")


def stored(size: int = 16, name: str = "", **more: Any) -> Fields:
    """Return a tensor of bytes; `more` are fields of its table: `kind`, `shape`, `signature`, `buffer`, `variable`."""
    fields = {
        0: ("i32", more.get("shape", [size])), 1: ("i8", more.get("kind", 3)), 2: ("u32", more.get("buffer", 0)),
        3: name, 5: ("u8", int(more.get("variable", False))),
    }  # fmt: skip
    return fields | ({7: ("i32", more["signature"])} if "signature" in more else {})


def node(code: int, reads: Sequence[int], writes: Sequence[int], **more: Any) -> Fields:
    """An operator by the row of its code; `options` and `intermediates` are fields of its table."""
    table: dict[int, Any] = {0: ("u32", code), 1: ("i32", reads), 2: ("i32", writes)}
    if "options" in more:
        table[4] = {n: ("i32", each) for n, each in enumerate(more["options"])}
    if "intermediates" in more:
        table[8] = ("i32", more["intermediates"])
    return table


def subgraph(
    tensors: Sequence[Fields], nodes: Sequence[Fields], inputs: Sequence[int], outputs: Sequence[int]
) -> Fields:  # fmt: skip
    """A subgraph."""
    return {0: list(tensors), 1: ("i32", inputs), 2: ("i32", outputs), 3: list(nodes)}
