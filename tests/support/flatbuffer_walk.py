"""A second reading of flatbuffers, by their schemas as this page has them: nested fields, as `flatbuffer_files` writes.

It shares no code with the verifier's reader. A field that a schema does not have raises.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from itertools import permutations
from typing import Any

FORMATS = {"u8": "<B", "i8": "<b", "i32": "<i", "u32": "<I", "i64": "<q", "u64": "<Q"}
Schema = Mapping[int, Any]
"""The kind of each field: a number "i32", a vector of them ["i32"], "text", a table, a vector of tables [table], and
None for one that states no memory and is left out."""

OPTIONS: dict[int, Schema] = {92: {0: "i32", 1: "i32"}, 93: {0: "i32", 1: "i32"}, 103: {0: "i32"}}
"""The options of operators that name subgraphs, by their kind."""
TFLITE: Schema = {
    0: "u32", 1: [{0: "i8", 1: "text", 2: None, 3: "i32"}],
    2: [{
        0: [{0: ["i32"], 1: "i8", 2: "u32", 3: "text", 4: None, 5: "u8", 6: {}, 7: ["i32"], 8: None, 9: [{}]}],
        1: ["i32"], 2: ["i32"],
        3: [{0: "u32", 1: ["i32"], 2: ["i32"], 3: "u8", 4: OPTIONS, 5: None, 6: None, 7: ["u8"], 8: ["i32"], 9: None,
             10: None, 11: None, 12: None, 13: None}],
        4: None, 5: None,
    }],
    3: None, 4: [{0: ["u8"], 1: "u64", 2: "u64"}], 5: None, 6: [{0: "text", 1: "u32"}], 7: None,
}  # fmt: skip
SCALARS: dict[int, Schema] = {
    1: {0: None},
    2: {0: "i64"},
    3: {0: "u8"},
    4: {0: None},
    6: {0: None},
    8: {0: None},
    9: {0: None},
}
VALUES: dict[int, Schema] = SCALARS | {
    5: {0: "i8", 1: "i32", 2: ["i32"], 3: ["u8"], 4: None, 5: "u32", 6: {0: "u32", 1: "u32", 2: "u32"}, 7: "i8",
        8: "i8", 9: {0: "u32", 1: "text", 2: "i8"}},
    7: {0: None}, 10: {0: ["i32"]}, 11: {0: ["i32"]},
}  # fmt: skip
CALLS: dict[int, Schema] = {
    1: {0: "i32", 1: ["i32"]}, 2: {0: "i32", 1: ["i32"]}, 3: {0: "i32", 1: "i32"}, 4: {0: "i32", 1: "i32"},
    5: {0: "i32"},
}  # fmt: skip
EXECUTORCH: Schema = {
    0: None, 1: [{
        0: "text", 1: None, 2: [{0: "u8", 1: VALUES}], 3: ["i32"], 4: ["i32"],
        5: [{0: None, 1: None, 2: [{0: "u8", 1: CALLS}], 3: None}], 6: [{0: "text", 1: "text"}],
        7: [{0: "text", 1: None, 2: None}], 8: ["i64"],
    }],
    2: None, 3: None, 4: None, 5: None, 6: None, 7: None,
}  # fmt: skip


def walk(data: bytes, schema: Schema) -> dict[int, Any]:
    """The fields of the root table, nested."""
    return _table(data, _number(data, "u32", 0), schema)


def _number(data: bytes, kind: str, at: int) -> int:
    found: int = struct.unpack_from(FORMATS[kind], data, at)[0]
    return found


def _table(data: bytes, at: int, schema: Schema) -> dict[int, Any]:
    vtable = at - _number(data, "i32", at)
    (size,) = struct.unpack_from("<H", data, vtable)
    places = struct.unpack_from(f"<{size // 2 - 2}H", data, vtable + 4)
    found: dict[int, Any] = {}
    for field, distance in enumerate(places):
        if not distance:
            continue
        kind = schema[field]
        if kind in (VALUES, CALLS, OPTIONS):
            which = found.get(field - 1, (0, 0))[1]
            kind = kind.get(which) if kind is OPTIONS else kind[which]
        if kind is not None:
            try:
                found[field] = _value(data, at + distance, kind)
            except struct.error:  # beyond the end of the file, as of what nothing reads
                found[field] = {}
    return found


def _value(data: bytes, at: int, kind: Any) -> Any:
    if isinstance(kind, str) and kind in FORMATS:
        return kind, _number(data, kind, at)
    at += _number(data, "u32", at)
    if isinstance(kind, Mapping):
        return _table(data, at, kind)
    count = _number(data, "u32", at)
    if kind == "text":
        return data[at + 4 : at + 4 + count].decode("utf-8", "backslashreplace")
    (of,) = kind
    if isinstance(of, str):
        return of, list(struct.unpack_from(f"<{count}{FORMATS[of][1]}", data, at + 4))
    starts = (at + 4 + 4 * k for k in range(count))
    return [_table(data, start + _number(data, "u32", start), of) for start in starts]


WIDTH = {0: 4, 1: 2, 2: 4, 3: 1, 4: 8, 6: 1, 7: 2, 8: 8, 9: 1, 10: 8, 11: 16, 12: 8, 15: 4, 16: 2, 17: 1, 18: 2}
"""The bytes of an element in TensorFlow Lite Micro."""
WIDTHS = dict.fromkeys((0, 1, 11, 12, 13, 16, 17, 23, 24, 25, 26), 1) | {
    2: 2, 3: 4, 4: 8, 5: 2, 6: 4, 7: 8, 14: 4, 15: 2, 22: 2, 27: 2, 28: 4, 29: 8,
}  # fmt: skip
"""The same of ExecuTorch."""


def number(table: Mapping[int, Any], field: int) -> int:
    found: int = table.get(field, (0, 0))[1]
    return found


def numbers(table: Mapping[int, Any], field: int) -> list[int]:
    return list(table.get(field, (0, []))[1])


def tflite_graphs(data: bytes) -> object:
    """Of each subgraph the places of its tensors, its operators with their operands, and its inputs and outputs."""
    model = walk(data, TFLITE)
    buffers = model.get(4, [])
    plans = [entry for entry in model.get(6, []) if entry.get(0) == "OfflineMemoryAllocation"]
    words = bytes(numbers(buffers[number(plans[-1], 1)], 0))
    version, _, count, *offsets = struct.unpack(f"<{len(words) // 4}i", words)
    assert version in (0, 1)
    assert count == len(offsets) == sum(len(graph.get(0, [])) for graph in model[2])
    codes = [(max(number(code, 0), number(code, 3)), code.get(1, "")) for code in model.get(1, [])]
    assert all(0 <= code < 31 or 31 < code < 209 for code, _ in codes)
    rest, graphs = iter(offsets), []
    for graph in model[2]:
        tensors = []
        for tensor in graph.get(0, []):
            offset, size = next(rest), WIDTH.get(number(tensor, 1))
            buffer = buffers[number(tensor, 2)]
            assert 7 not in tensor
            for dim in numbers(tensor, 0):
                size = None if size is None or dim < 0 else size * dim
            is_placed = offset != -1 and not numbers(buffer, 0) and number(buffer, 1) <= 1
            assert not is_placed or (size is not None and 6 not in tensor and not tensor.get(9))
            tensors.append((offset, size, bool(number(tensor, 5))) if is_placed else None)
        nodes = []
        for node in graph.get(3, []):
            code, custom = codes[number(node, 0)]
            assert not any(numbers(node, 7))
            called = node.get(4, {}) if code in (118, 119, 129) else {}
            nodes.append(
                (code, custom, *(numbers(node, field) for field in (1, 2, 8)), number(called, 0), number(called, 1))
            )
        graphs.append((tensors, nodes, numbers(graph, 1), numbers(graph, 2)))
    return graphs


def executorch_methods(data: bytes) -> object:
    """Of each method its memories, the places and items of its values, its instructions, inputs and outputs."""
    found = []
    for method in walk(data, EXECUTORCH)[1]:
        values: list[Any] = []
        for value in method.get(2, []):
            kind, of = number(value, 0), value.get(1, {})
            place = of.get(6) if kind == 5 else None
            size = WIDTHS[number(of, 0)] if place is not None else 0
            for dim in numbers(of, 2) if place is not None else ():
                size *= dim
            assert place is None or numbers(of, 3) in ([], *([*p] for p in _orders(len(numbers(of, 2)))))
            assert place is None or not number(of, 1) | number(of, 7) | (number(of, 8) == 2)
            at = None if place is None else (number(place, 0) - 1, number(place, 1) + (number(place, 2) << 32), size)
            values.append((kind, at, [item for item in numbers(of, 0) if item != -1] if kind in (10, 11) else []))
        ops = [".".join(filter(None, (op.get(0), op.get(1)))) for op in method.get(6, [])]
        calls = []
        for chain in method.get(5, []):
            first = len(calls)
            for call in chain.get(2, []):
                kind, of = number(call, 0), call[1]
                if kind in (1, 2):
                    names = ops if kind == 1 else [each.get(0, "") for each in method[7]]
                    calls.append((kind, names[number(of, 0)], numbers(of, 1), 0))
                else:
                    pair = [number(of, 0), number(of, 1)]
                    calls.append((kind, "", pair[: 2 if kind == 3 else 1], pair[1] + first if kind == 4 else 0))
        found.append((method.get(0, ""), numbers(method, 8)[1:], values, calls, numbers(method, 3), numbers(method, 4)))
    return found


def _orders(count: int) -> list[tuple[int, ...]]:
    return list(permutations(range(count))) if count < 7 else []
