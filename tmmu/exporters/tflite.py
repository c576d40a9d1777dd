"""An offline plan in a TensorFlow Lite model: the metadata `OfflineMemoryAllocation`, which TensorFlow Lite Micro uses.

Lifetimes follow from the operators in their order. A subgraph that an If, a While or a CALL_ONCE runs is laid out at
that operator, with one place for each of its tensors, however often it runs; the carried tensors of a While are kept
while it runs. The result of a Reshape, Squeeze or ExpandDims has the bytes of its operand. The runtime places
constants, variables, unused tensors and tensors without a size, and the memory that kernels request when they are
prepared.

The output is a new head followed by the file itself. The head contains a table of the model, the lists of its buffers
and metadata, and the offsets. All that the head refers to is after it, as flatbuffers require, and the bytes of the
file are unchanged. spec: FP11.2 to FP11.6
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from tmmu.core.flatbuffer import Flatbuffer, TableAt
from tmmu.core.source import Source
from tmmu.core.vocabulary import UINT64_END
from tmmu.planner.buffers import LiveBuffer, pack_buffers, peak_bytes

IDENTIFIER, METADATA = b"TFL3", b"OfflineMemoryAllocation"
ALIGNMENT = 16
"""The alignment of the addresses that TensorFlow Lite Micro chooses."""
BITS = {
    0: 32, 1: 16, 2: 32, 3: 8, 4: 64, 6: 8, 7: 16, 8: 64, 9: 8, 10: 64, 11: 128, 12: 64, 15: 32, 16: 16, 17: 8, 18: 16,
}  # fmt: skip
"""The bits of an element in TensorFlow Lite Micro's memory, by the number of its type in the schema.

It unpacks elements of 4 bits to a byte each, and supports no other type below a byte.
"""
CUSTOM, IF, WHILE, CALL_ONCE = 32, 118, 119, 129
VIEWS = frozenset({22, 43, 70})
"""Reshape, Squeeze and ExpandDims."""
ETHOS_U = "ethos-u"
OPERATOR_CODES, SUBGRAPHS, BUFFERS, ENTRIES, KNOWN_FIELDS = 1, 2, 4, 6, 8
"""The fields of the table of a model; all but field 0, the version, refer to data elsewhere."""
LEFT = -1
"""The offset of a tensor that the runtime places."""
END = 1 << 31
"""The first offset, and the first size of a file, that the format cannot state."""


class OfflinePlan(NamedTuple):
    """A model with its plan: the file, the bytes of the arena, the most live bytes, and the placed tensors."""

    data: bytes
    footprint: int
    peak: int
    placed: int
    tensors: int


def plan_offline(source: Source, alignment: int = ALIGNMENT, effort: int = 0) -> OfflinePlan:
    """Return the model with an offline plan of this project, which replaces any that it has.

    `alignment` is that of each tensor, in bytes; `effort` bounds the boxes that a search may inspect. Raises
    INVALID_PLAN if the bytes are not such a model, if Vela planned it, or if it states places in the file, which this
    would move. O(n log n) for n tensors and operators, within the bounds of readers. spec: FP11.2
    """
    if source.data[4:8] != IDENTIFIER:
        raise source.refuse(f"expected the identifier {IDENTIFIER.decode()} of a model", "byte 4")
    model = Flatbuffer(source).root()
    lives = _Lifetimes(source, model)
    of = [lives.root(t) for t in range(len(lives.size))]
    used = [t for t in range(len(of)) if of[t] == t and lives.size[t] and t in lives.first]
    buffers = [LiveBuffer(lives.first[t], lives.last[t], lives.size[t], alignment) for t in used]
    packing = pack_buffers(buffers, effort)
    if packing.height >= END:
        raise source.refuse(f"its plan needs {packing.height} bytes, which the metadata cannot state")
    at = dict(zip(used, packing.offsets, strict=True))
    places = [at.get(root, LEFT) for root in of]
    data = _with_offsets(source, model, len(lives.graphs), places)
    return OfflinePlan(data, packing.height, peak_bytes(buffers), len(places) - places.count(LEFT), len(places))


class _Lifetimes:
    """The first and the last step that uses each tensor of all subgraphs, and its bytes, 0 if it is not planned.

    Tensors with the same bytes count as one, whose number is `root`.
    """

    def __init__(self, source: Source, model: TableAt) -> None:
        self.source = source
        self.buffers = model.tables(BUFFERS)
        if any(buffer.number(1, "u64") > 1 for buffer in self.buffers):
            raise source.refuse("its weights are stored after its tables", None, "convert it with weights in buffers")
        codes = model.tables(OPERATOR_CODES)
        self.codes = [max(table.number(0, "i8"), table.number(3, "i32")) for table in codes]
        self.fixed = {k for k, table in enumerate(codes) if self.codes[k] == CUSTOM and table.text(1) == ETHOS_U}
        self.graphs = model.tables(SUBGRAPHS)
        if not self.graphs:
            raise source.refuse("it has no subgraph")
        self.size: list[int] = []
        self.begin: list[int] = []
        for graph in self.graphs:
            self.begin.append(len(self.size))
            self.size += [self._count_bytes(tensor) for tensor in graph.tables(0)]
            source.bound(len(self.size))
        self.begin.append(len(self.size))
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.of = list(range(len(self.size)))
        self.nodes = [graph.tables(3) for graph in self.graphs]
        self.now = 0
        self.use(self.tensors(0, self.graphs[0], 1))
        self.run(0, 1)
        self.use(self.tensors(0, self.graphs[0], 2))

    def _count_bytes(self, tensor: TableAt) -> int:
        number, shape = tensor.number(2, "u32"), tensor.numbers(0, "i32")
        if number >= len(self.buffers):
            raise self.source.refuse(f"expected a buffer below {len(self.buffers)}, got {number}", tensor.text(3))
        code, is_variable = tensor.number(1, "i8"), tensor.number(5, "u8")
        if self.buffers[number].content(0).length or is_variable or code not in BITS or min(shape, default=0) < 0:
            return 0
        size = -(-prod(shape) * BITS[code] // 8)
        if size >= UINT64_END:
            raise self.source.refuse(f"the bytes of its shape {shape[:8]} do not fit 64 bits", tensor.text(3))
        return size

    def tensors(self, g: int, table: TableAt, field: int) -> list[int]:
        """Return the tensors of subgraph `g` in a list of a table, by their numbers among all; -1 is skipped."""
        count, found = self.begin[g + 1] - self.begin[g], table.numbers(field, "i32")
        if found and not -1 <= min(found) <= max(found) < count:
            raise self.source.refuse(f"a tensor of subgraph {g} is not below {count}", f"byte {table.at}")
        return [self.begin[g] + t for t in found if t != -1]

    def root(self, t: int) -> int:
        """Return the tensor whose bytes a tensor has."""
        while self.of[t] != t:
            self.of[t] = t = self.of[self.of[t]]
        return t

    def use(self, tensors: Sequence[int]) -> None:
        """Count a step that reads or writes these tensors."""
        for t in map(self.root, tensors):
            self.first.setdefault(t, self.now)
            self.last[t] = self.now
        self.now += 1

    def show(self, result: int, operand: int) -> None:
        """Give a result the bytes of its operand, if both are planned and have the same size."""
        a, b = self.root(result), self.root(operand)
        if a != b and self.size[a] == self.size[b] and self.size[a] and a not in self.first:
            self.of[a] = b

    def run(self, g: int, depth: int) -> None:
        """Walk through the operators of a subgraph, in their order, and the subgraphs that they run."""
        self.source.check_depth(depth, f"subgraph {g}")
        for table in self.nodes[g]:
            self.source.count_work(8)
            index = table.number(0, "u32")
            if index >= len(self.codes):
                raise self.source.refuse(
                    f"expected an operator code below {len(self.codes)}, got {index}", f"byte {table.at}"
                )
            if index in self.fixed:
                fix = "its commands state their addresses: write the plan before Vela, or keep Vela's"
                raise self.source.refuse("Vela already planned it", f"operator {ETHOS_U}", fix)
            if table.number(9, "u64"):
                raise self.source.refuse("its options are stored after its tables", f"byte {table.at}")
            reads, writes, kept = (self.tensors(g, table, field) for field in (1, 2, 8))
            code = self.codes[index]
            if code in (IF, WHILE, CALL_ONCE):
                self.called(code, table, reads, writes, depth)
                continue
            if code in VIEWS and reads and len(writes) == 1:
                self.show(writes[0], reads[0])
            self.use([*reads, *writes, *kept])

    def called(self, code: int, table: TableAt, reads: list[int], writes: list[int], depth: int) -> None:
        """Walk through the subgraphs that an operator runs, which copy its operands and their results. spec: FP11.4"""
        options = table.table(4)
        called = [options.number(k, "i32") if options else -1 for k in range(1 if code == CALL_ONCE else 2)]
        carried = writes if code == WHILE else []
        self.use([*reads, *carried])
        for g in called:
            if not 0 <= g < len(self.graphs):
                raise self.source.refuse(f"expected a subgraph below {len(self.graphs)}, got {g}", f"byte {table.at}")
            self.use([*reads, *carried, *self.tensors(g, self.graphs[g], 1)])
            self.run(g, depth + 1)
            self.use([*writes, *self.tensors(g, self.graphs[g], 2)])
        self.use(carried)


def _with_offsets(source: Source, model: TableAt, graphs: int, offsets: list[int]) -> bytes:
    """Return the file after a head that adds the offsets to the content of its model. spec: FP11.5"""
    if any(model.place(field) is not None for field in range(KNOWN_FIELDS, model.fields)):
        raise source.refuse("its model has fields that are not in the supported schema", None, "convert it anew")
    places = {field: model.place(field) for field in range(1, KNOWN_FIELDS)}
    head = _Head()
    fields = head.table(0, [field for field in range(KNOWN_FIELDS) if field in (0, BUFFERS, ENTRIES) or places[field]])
    head.words[fields[0]] = model.number(0, "u32")
    for field, place in places.items():
        if place is not None and field not in (BUFFERS, ENTRIES):
            head.outside[fields[field]] = model.of.follow(place)
    buffers = model.tables(BUFFERS)
    buffer = head.list(fields[BUFFERS], [table.at for table in buffers])
    kept = [table.at for table in model.tables(ENTRIES) if table.text(0).encode() != METADATA]
    entry = head.table(head.list(fields[ENTRIES], kept), [0, 1])
    head.words[entry[1]] = len(buffers)
    head.content(entry[0], METADATA)
    words = [1, graphs, len(offsets), *offsets]
    head.content(head.table(buffer, [0])[0], struct.pack(f"<{len(words)}i", *words))
    if 4 * len(head.words) + len(source.data) >= END:
        raise source.refuse("with its plan it would have 2 GiB or more")
    return head.before(source.data)


class _Head:
    """Words of 32 bits before a file; a word that refers to data after it contains the distance in bytes.

    `outside` maps such a word to its target in the file.
    """

    def __init__(self) -> None:
        self.words = [0, *struct.unpack("<I", IDENTIFIER)]
        self.outside: dict[int, int] = {}

    def refer(self, word: int) -> None:
        """Let a word refer to the data that are appended next."""
        self.words[word] = 4 * (len(self.words) - word)

    def table(self, word: int, fields: list[int]) -> dict[int, int]:
        """Append a table that a word refers to, with a word for each field; return the number of each word."""
        count = 1 + max(fields)
        at = [4 + 4 * fields.index(field) if field in fields else 0 for field in range(count)]
        halves = [4 + 2 * count, 4 + 4 * len(fields), *at, *[0] * (count % 2)]
        vtable = 4 * len(self.words)
        self.words += struct.unpack(f"<{len(halves) // 2}I", struct.pack(f"<{len(halves)}H", *halves))
        self.refer(word)
        first = len(self.words) + 1
        self.words += [4 * len(self.words) - vtable, *[0] * len(fields)]
        return {field: first + k for k, field in enumerate(fields)}

    def list(self, word: int, tables: list[int]) -> int:
        """Append a list of tables of the file and one more; return the word that must refer to that one."""
        self.refer(word)
        self.words.append(len(tables) + 1)
        self.outside |= {len(self.words) + k: at for k, at in enumerate(tables)}
        self.words += [0] * (len(tables) + 1)
        return len(self.words) - 1

    def content(self, word: int, data: bytes) -> None:
        """Append a string or bytes that a word refers to, aligned to 16 bytes as the schema requires for buffers."""
        self.words += [0] * (-(len(self.words) + 1) % 4)
        self.refer(word)
        padded = data + b"\0" * (4 - len(data) % 4)
        self.words += [len(data), *struct.unpack(f"<{len(padded) // 4}I", padded)]

    def before(self, data: bytes) -> bytes:
        """Return the words, followed by the file at a multiple of 64 bytes."""
        self.words += [0] * (-len(self.words) % 16)
        for word, at in self.outside.items():
            self.words[word] = 4 * (len(self.words) - word) + at
        return struct.pack(f"<{len(self.words)}I", *self.words) + data
