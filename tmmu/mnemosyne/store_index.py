"""The index of a store: from the number of a vector, or a token id, to the record that has it.

It is a part of the log: records that are written after the blocks of a put, and sealed like these. An *extent* is a run
of blocks of equal size, one after the other: a put of any size is one extent, and the place of each of its blocks is
computed. A *root* has the last extents. When there are 64 on a level, they become a *node*, to which an entry of the
next level refers. Token ids are in *runs*: pages of pairs (id, number of its last vector) sorted by id, and fences,
which are the first ids of pages. Deleted vectors are in runs of the same form: pairs (first number, end) of ranges
that have no number in common. All is big-endian:

    root     version 1 · kind 1 · mode 1 · type 1 · width 4 · vectors 8 · blocks 8 · puts 8 · content 8 · compressed 8 ·
             with ids 8 · salts 4 · levels 2 · runs 2, the salts, the levels (a number of entries 4 and the entries),
             the runs (pairs 8 · number 8 · offset 8 · salt 4 · fences 4, and the first id 8 of each fence), and if
             there were deletions: deleted 8 · marked 8 · runs 2, and the runs of deleted vectors
    node     version 1 · kind 1 · zero 2 · salts 4 · entries 4, the salts, the entries
    entry    first vector 8 · vectors 8 · vectors of a block 4 (0: a node) · number 8 · offset 8 · length 4 (0:
             computed) · salt 4 · flags 1
    page     version 1 · kind 1 · zero 2 · pairs 4, the ids, the numbers of vectors
    fence    version 1 · kind 1 · zero 2 · ids 4, the first ids of pages
    deletion version 1 · kind 1 · zero 2 · ranges 4, the first numbers, the ends: the vectors with these numbers are
             deleted; a range that begins at the next number skips numbers

A root is written with the first put of a segment, and when more than `TAIL` bytes have followed the last one. A reader
adds what follows a root from the blocks themselves. spec: MN10.1, MN10.4 to MN10.6, MN11.1, MN11.3
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tmmu.mnemosyne.failures import InvalidLog
from tmmu.mnemosyne.keys import TAG
from tmmu.mnemosyne.sealed_format import FRAME
from tmmu.mnemosyne.vector_blocks import HEAD, IDS, KINDS, MODES, VectorLayout, content_size

VERSION = 2
"""The first byte of a record of the index; a block of vectors has 1."""

NODE, ROOT, PAGE, FENCE, DELETION = range(1, 6)
ROOT_TOKEN = (1 << 64) - 1
"""The token id of a root, by which it is found; a block of vectors may have it as well."""

TAIL = 1 << 16
"""The most bytes of records between two roots of a segment, unless one put has more."""

FANOUT = 64
PAIRS, FENCES = 256, 512
MERGED = 1 << 20
"""The most pairs of a run: merging takes memory for them."""

CACHED = 64
"""How many nodes, pages and fences are kept in memory."""

HEAD_OF_ROOT = struct.Struct(">BBBBIQQQQQQIHH")
HEAD_OF_NODE = struct.Struct(">BBHII")
HEAD_OF_PAGE = struct.Struct(">BBHI")
ENTRY = struct.Struct(">QQIQQIIB")
RUN = struct.Struct(">QQQII")
DELETIONS = struct.Struct(">QQH")
AROUND = FRAME + TAG
"""The bytes of a record besides its content (`sealed_format`): an extent's blocks follow each other without a gap."""


class IndexEntry(NamedTuple):
    """An extent of blocks, or a node if `block` is 0. `length` is the content of its only record, or 0: computed."""

    first: int
    vectors: int
    block: int
    number: int
    offset: int
    length: int
    salt: bytes
    has_ids: bool


class PairRun(NamedTuple):
    """Sorted pairs, of token ids and vectors or of ranges, in pages and fences that follow each other from `offset`."""

    pairs: int
    number: int
    offset: int
    salt: bytes
    firsts: tuple[int, ...]


class PlacedBlock(NamedTuple):
    """A block: its place, the length of its record, its first number and how many there are up to its last.

    Then: its vectors, whether it is compressed, states ids, or states numbers.
    """

    salt: bytes
    number: int
    offset: int
    length: int
    first: int
    span: int
    vectors: int
    is_compressed: bool
    has_ids: bool
    is_numbered: bool


class Records(Protocol):
    """Provides the contents of records."""

    path: str

    def read(self, salt: bytes, number: int, offset: int, length: int) -> bytes:
        """Return the content of the record at a place."""


Pairs = tuple[NDArray[np.uint64], NDArray[np.uint64]]
"""Two columns of equal length."""

NO_PAIRS: Pairs = (np.zeros(0, np.uint64), np.zeros(0, np.uint64))

Write = Callable[[int, bytes], tuple[bytes, int, int]]
"""Appends a record with a token, and returns its place."""


@dataclass
class StoreContents:
    """The contents of a store.

    Attributes
    ----------
    layout
        None if there is neither a vector nor an empty put.
    vectors, blocks, puts
        Their numbers; deleted vectors are counted.
    content
        The bytes of the differences of these vectors, as they are stored.
    compressed, with_ids
        The number of blocks that are compressed, and of those that state token ids.
    unfinished
        The number of blocks of an unfinished put, which are not read.
    deleted, marked
        The number of vectors that were deleted, and of those whose bytes are still in the log.
    """

    layout: VectorLayout | None = None
    vectors: int = 0
    blocks: int = 0
    puts: int = 0
    content: int = 0
    compressed: int = 0
    with_ids: int = 0
    unfinished: int = 0
    deleted: int = 0
    marked: int = 0

    @property
    def there(self) -> int:
        """The number of vectors that were not deleted."""
        return self.vectors - self.deleted

    @property
    def raw(self) -> int:
        """The bytes of the vectors in the log, as they were put."""
        layout = self.layout
        return 0 if layout is None else (self.there + self.marked) * layout.width * layout.given.itemsize


def is_root(token: int, data: bytes | memoryview) -> bool:
    """Return whether a record is a root."""
    return token == ROOT_TOKEN and bytes(data[:2]) == bytes((VERSION, ROOT))


def block_length(layout: VectorLayout, vectors: int, has_ids: bool) -> int:
    """Return the bytes of a block that is not compressed."""
    return HEAD.size + (8 * vectors if has_ids else 0) + content_size(layout, vectors)


@dataclass
class StoreIndex:
    """The index as it is in memory: the last root, and what was put since.

    Attributes
    ----------
    levels
        Entries by level, each level before the one below it; level 0 has extents.
    runs
        Runs of token ids, the oldest first.
    recent
        Token ids since the last root: the ids, and the numbers of their vectors.
    deleted
        Runs of ranges of deleted vectors, the oldest first.
    marks
        The ranges that were deleted since the last root, in order.
    """

    levels: list[list[IndexEntry]] = field(default_factory=lambda: [[]])
    runs: list[PairRun] = field(default_factory=list)
    recent: list[Pairs] = field(default_factory=list)
    deleted: list[PairRun] = field(default_factory=list)
    marks: Pairs = field(default_factory=lambda: NO_PAIRS)
    _cache: dict[tuple[bytes, int], Any] = field(default_factory=dict)

    def add(self, layout: VectorLayout, block: PlacedBlock) -> None:
        """Add the next block: to the last extent, if it continues it."""
        if not block.vectors:
            return
        length = block.length if block.is_compressed or block.is_numbered else 0
        level = self.levels[0]
        if level and not length:
            last = level[-1]
            is_full = last.block and not last.length and last.vectors % last.block == 0
            if is_full and last.salt == block.salt and last.has_ids == block.has_ids and block.vectors <= last.block:
                blocks = last.vectors // last.block
                each = block_length(layout, last.block, last.has_ids) + AROUND
                place = last.number + blocks, last.offset + blocks * each, last.first + last.vectors
                if (block.number, block.offset, block.first) == place:
                    level[-1] = last._replace(vectors=last.vectors + block.vectors)
                    return
        level.append(
            IndexEntry(
                block.first, block.span, block.span, block.number, block.offset, length, block.salt, block.has_ids
            )
        )

    def find(self, records: Records, vector: int) -> IndexEntry | None:
        """Return the extent whose numbers include this one, or None."""
        return next(self.extents(records, vector, vector + 1), None)

    def extents(self, records: Records, start: int = 0, end: int = 1 << 64) -> Iterator[IndexEntry]:
        """Yield the extents that have a number from `start` on and before `end`, in the order of their vectors."""
        for level in reversed(self.levels):
            yield from self._within(records, level, start, end)

    def _within(self, records: Records, entries: list[IndexEntry], start: int, end: int) -> Iterator[IndexEntry]:
        for entry in entries[max(0, bisect_right(entries, start, key=_first) - 1) :]:
            if entry.first >= end:
                return
            if entry.first + entry.vectors > start:
                if entry.block:
                    yield entry
                else:
                    yield from self._within(records, self._cached(records, entry, decode_node), start, end)

    def find_token(self, records: Records, token: int) -> int | None:
        """Return the number of the last vector that was put with a token id, or None."""
        for ids, numbers in reversed(self.recent):
            found = np.flatnonzero(ids == np.uint64(token))
            if len(found):
                return int(numbers[found[-1]])
        for run in reversed(self.runs):
            ids, vectors, place, _ = self._page(records, run, token)
            if place >= 0 and ids[place] == token:
                return int(vectors[place])
        return None

    def find_deleted(self, records: Records, vector: int) -> tuple[bool, int, int]:
        """Return whether a vector was deleted, and a range with its number of which all were, or none."""
        low, high = 0, 1 << 63
        parts = [self._page(records, run, vector) for run in self.deleted]
        firsts, ends = self.marks
        parts.append((firsts, ends, int(np.searchsorted(firsts, np.uint64(vector), "right")) - 1, high))
        for firsts, ends, place, after in parts:
            if place >= 0:
                if vector < ends[place]:
                    return True, int(firsts[place]), int(ends[place])
                low = max(low, int(ends[place]))
            high = min(high, int(firsts[place + 1]) if place + 1 < len(firsts) else after)
        return False, low, high

    def delete(self, firsts: NDArray[np.uint64], ends: NDArray[np.uint64]) -> None:
        """Add ranges, in order, whose vectors are deleted and were not before."""
        self.marks = _unite([self.marks, (firsts, ends)])

    def _page(self, records: Records, run: PairRun, value: int) -> tuple[NDArray[Any], NDArray[Any], int, int]:
        """Return the page of a run with the last pair whose first number is at most `value`, and its place there.

        -1 if all are larger. Then the first number of the next page.
        """
        fence = bisect_right(run.firsts, value) - 1
        if fence < 0:
            return *NO_PAIRS, -1, run.firsts[0]
        pages, whole = -(-run.pairs // PAIRS), HEAD_OF_PAGE.size + 16 * PAIRS + AROUND
        in_fence = min(FENCES, pages - fence * FENCES)
        last = HEAD_OF_PAGE.size + 16 * (run.pairs - (pages - 1) * PAIRS) + AROUND
        after = run.offset + (pages - 1) * whole + last
        each = HEAD_OF_PAGE.size + 8 * FENCES + AROUND
        at = IndexEntry(0, 0, 0, run.number + pages + fence, after + fence * each,
                   HEAD_OF_PAGE.size + 8 * in_fence, run.salt, False)  # fmt: skip
        firsts = self._cached(records, at, _decode_numbers)[0]
        page = fence * FENCES + int(np.searchsorted(firsts, np.uint64(value), "right")) - 1
        pairs = min(PAIRS, run.pairs - page * PAIRS)
        at = IndexEntry(0, 0, 0, run.number + page, run.offset + page * whole,
                   HEAD_OF_PAGE.size + 16 * pairs, run.salt, False)  # fmt: skip
        one, other = self._cached(records, at, _decode_numbers)
        following = page + 1 - fence * FENCES
        if following < len(firsts):
            limit = int(firsts[following])
        else:
            limit = run.firsts[fence + 1] if fence + 1 < len(run.firsts) else 1 << 63
        return one, other, int(np.searchsorted(one, np.uint64(value), "right")) - 1, limit

    def _cached(self, records: Records, entry: IndexEntry, decode: Callable[[bytes, str, str], Any]) -> Any:
        """Return the decoded record of an entry; the last `CACHED` are kept."""
        place = entry.salt, entry.number
        found = self._cache.pop(place, None)
        if found is None:
            data = records.read(entry.salt, entry.number, entry.offset, entry.length)
            found = decode(data, records.path, f"record {entry.number}")
            if len(self._cache) >= CACHED:
                del self._cache[next(iter(self._cache))]
        self._cache[place] = found
        return found

    def flush(self, contents: StoreContents, records: Records, write: Write) -> None:
        """Write what the last root does not state: a run of token ids, one of deletions, nodes, and a new root."""
        if self.recent:
            _write_run(self.runs, self.recent, keep_last_of_each, records, write)
            self.recent = []
        if len(self.marks[0]):
            _write_run(self.deleted, [self.marks], _unite, records, write)
            self.marks = NO_PAIRS
        for at, level in enumerate(self.levels):
            while len(level) >= FANOUT:
                entries = level[:FANOUT]
                del level[:FANOUT]
                data = encode_node(entries)
                salt, number, offset = write(0, data)
                if at + 1 == len(self.levels):
                    self.levels.append([])
                vectors = entries[-1].first + entries[-1].vectors - entries[0].first
                entry = IndexEntry(entries[0].first, vectors, 0, number, offset, len(data), salt, False)
                self.levels[at + 1].append(entry)
        write(ROOT_TOKEN, encode_root(contents, self))


def _write_run(
    runs: list[PairRun], recent: list[Pairs], unite: Callable[[list[Pairs]], Pairs], records: Records, write: Write
) -> None:
    """Write recent pairs as a run, together with the last runs that are not more than twice as long."""
    pairs = unite(recent)
    while runs and runs[-1].pairs <= min(2 * len(pairs[0]), MERGED - len(pairs[0])):
        pairs = unite([*read_pages(records, runs.pop()), pairs])
    for start in range(0, len(pairs[0]), MERGED):
        runs.append(_write_pairs(pairs[0][start : start + MERGED], pairs[1][start : start + MERGED], write))


def _write_pairs(firsts: NDArray[np.uint64], seconds: NDArray[np.uint64], write: Write) -> PairRun:
    places = [
        write(0, _encode_numbers(PAGE, firsts[at : at + PAIRS], seconds[at : at + PAIRS]))
        for at in range(0, len(firsts), PAIRS)
    ]
    of_pages = firsts[::PAIRS]
    for at in range(0, len(of_pages), FENCES):
        write(0, _encode_numbers(FENCE, of_pages[at : at + FENCES]))
    salt, number, offset = places[0]
    return PairRun(len(firsts), number, offset, salt, tuple(map(int, of_pages[::FENCES])))


def _first(entry: IndexEntry) -> int:
    return entry.first


def keep_last_of_each(parts: list[Pairs]) -> Pairs:
    """Sort pairs of ids and vectors by id, and keep the last vector of each."""
    ids, vectors = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
    order = np.lexsort((vectors, ids))
    ids, vectors = ids[order], vectors[order]
    is_last = np.append(ids[1:] != ids[:-1], True)[: len(ids)]
    return ids[is_last], vectors[is_last]


def _unite(parts: list[Pairs]) -> Pairs:
    """Sort ranges that have nothing in common, and make one of those that are beside each other."""
    firsts, ends = (np.sort(np.concatenate([part[side] for part in parts])) for side in (0, 1))
    is_apart = firsts[1:] != ends[:-1]
    return firsts[np.append(True, is_apart)[: len(firsts)]], ends[np.append(is_apart, True)[: len(firsts)]]


def read_pages(records: Records, run: PairRun) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Yield the pairs of a run, page by page."""
    for page in range(-(-run.pairs // PAIRS)):
        length = HEAD_OF_PAGE.size + 16 * min(PAIRS, run.pairs - page * PAIRS)
        offset = run.offset + page * (HEAD_OF_PAGE.size + 16 * PAIRS + AROUND)
        data = records.read(run.salt, run.number + page, offset, length)
        ids, vectors = _decode_numbers(data, records.path, f"record {run.number + page}")
        yield ids, vectors


def _encode_numbers(kind: int, *columns: NDArray[np.uint64]) -> bytes:
    head = HEAD_OF_PAGE.pack(VERSION, kind, 0, len(columns[0]))
    return head + b"".join(column.astype(">u8").tobytes() for column in columns)


def _decode_numbers(data: bytes, file: str, place: str) -> tuple[NDArray[Any], ...]:
    """Decode a page or a deletion, two columns, or a fence, one."""
    try:
        version, kind, _, count = HEAD_OF_PAGE.unpack_from(data)
        columns = {PAGE: 2, FENCE: 1, DELETION: 2}[kind if version == VERSION else 0]
        found = np.frombuffer(data, ">u8", -1, HEAD_OF_PAGE.size).astype(np.uint64).reshape(columns, count)
    except (struct.error, KeyError, ValueError) as error:
        raise InvalidLog("not a page of an index", file, place) from error
    return tuple(found)


def encode_node(entries: list[IndexEntry]) -> bytes:
    """Encode a node."""
    salts = list(dict.fromkeys(entry.salt for entry in entries))
    head = HEAD_OF_NODE.pack(VERSION, NODE, 0, len(salts), len(entries))
    return head + b"".join(salts) + _encode_entries(entries, salts)


def decode_node(data: bytes, file: str, place: str) -> list[IndexEntry]:
    """Decode a node. Raises `InvalidLog` if it is not one."""
    try:
        version, kind, _, salts, count = HEAD_OF_NODE.unpack_from(data)
        start = HEAD_OF_NODE.size + 32 * salts
        if (version, kind, len(data)) != (VERSION, NODE, start + count * ENTRY.size) or not count:
            raise ValueError("not a node")
        return _decode_entries(data, start, count, _salts(data, HEAD_OF_NODE.size, salts))
    except (struct.error, ValueError, IndexError) as error:
        raise InvalidLog("not a node of an index", file, place) from error


def encode_root(contents: StoreContents, index: StoreIndex) -> bytes:
    """Encode a root of a store that has a layout."""
    layout = contents.layout
    assert layout is not None, "a root is written after a put"
    entries = [entry.salt for level in index.levels for entry in level]
    salts = list(dict.fromkeys(entries + [run.salt for run in index.runs + index.deleted]))
    parts = [
        HEAD_OF_ROOT.pack(
            VERSION, ROOT, MODES.index(layout.mode), KINDS.index(layout.kind), layout.width, contents.vectors,
            contents.blocks, contents.puts, contents.content, contents.compressed, contents.with_ids, len(salts),
            len(index.levels), len(index.runs),
        ), *salts,
    ]  # fmt: skip
    for level in index.levels:
        parts += [struct.pack(">I", len(level)), _encode_entries(level, salts)]
    parts += _encode_runs(index.runs, salts)
    if contents.deleted:
        parts.append(DELETIONS.pack(contents.deleted, contents.marked, len(index.deleted)))
        parts += _encode_runs(index.deleted, salts)
    return b"".join(parts)


def decode_root(data: bytes, file: str, place: str) -> tuple[StoreContents, StoreIndex]:
    """Decode a root. Raises `InvalidLog` if it is not one, or of another version."""
    try:
        version, kind, mode, elements, width, *counts, salts, levels, runs = HEAD_OF_ROOT.unpack_from(data)
        if (version, kind) != (VERSION, ROOT):
            raise ValueError("not a root")
        contents = StoreContents(VectorLayout(MODES[mode], KINDS[elements], width), *counts)
        at = HEAD_OF_ROOT.size + 32 * salts
        known, index = _salts(data, HEAD_OF_ROOT.size, salts), StoreIndex(levels=[])
        for _ in range(levels):
            [count] = struct.unpack_from(">I", data, at)
            index.levels.append(_decode_entries(data, at + 4, count, known))
            at += 4 + count * ENTRY.size
        index.runs, at = _decode_runs(data, at, runs, known)
        if at < len(data):
            contents.deleted, contents.marked, runs = DELETIONS.unpack_from(data, at)
            index.deleted, at = _decode_runs(data, at + DELETIONS.size, runs, known)
        if at != len(data) or not levels:
            raise ValueError("not a root")
    except (struct.error, ValueError, IndexError) as error:
        raise InvalidLog("not a root of an index", file, place) from error
    return contents, index


def _encode_runs(runs: list[PairRun], salts: list[bytes]) -> Iterator[bytes]:
    for run in runs:
        yield RUN.pack(run.pairs, run.number, run.offset, salts.index(run.salt), len(run.firsts))
        yield struct.pack(f">{len(run.firsts)}Q", *run.firsts)


def _decode_runs(data: bytes, at: int, count: int, salts: list[bytes]) -> tuple[list[PairRun], int]:
    """Decode runs, and return where they end."""
    runs = []
    for _ in range(count):
        pairs, number, offset, salt, fences = RUN.unpack_from(data, at)
        firsts = struct.unpack_from(f">{fences}Q", data, at + RUN.size)
        if not fences or fences != -(-pairs // (PAIRS * FENCES)):
            raise ValueError("a run without its fences")
        runs.append(PairRun(pairs, number, offset, salts[salt], firsts))
        at += RUN.size + 8 * fences
    return runs, at


def encode_deletion(firsts: NDArray[np.uint64], ends: NDArray[np.uint64]) -> bytes:
    """Encode ranges of numbers, in order and apart, whose vectors are deleted."""
    return _encode_numbers(DELETION, firsts, ends)


def decode_deletion(data: bytes, file: str, place: str) -> Pairs:
    """Decode the ranges of a deletion. Raises `InvalidLog` if they are not in order and apart."""
    found = _decode_numbers(data, file, place)
    if len(found) != 2 or not len(found[0]) or (found[0] >= found[1]).any() or (found[0][1:] < found[1][:-1]).any():
        raise InvalidLog("not a deletion", file, place)
    return found[0], found[1]


def _salts(data: bytes, start: int, count: int) -> list[bytes]:
    return [data[at : at + 32] for at in range(start, start + 32 * count, 32)]


def _encode_entries(entries: list[IndexEntry], salts: list[bytes]) -> bytes:
    number = {salt: at for at, salt in enumerate(salts)}
    return b"".join(ENTRY.pack(*each[:6], number[each.salt], IDS if each.has_ids else 0) for each in entries)


def _decode_entries(data: bytes, start: int, count: int, salts: list[bytes]) -> list[IndexEntry]:
    if start + count * ENTRY.size > len(data):
        raise ValueError("cut off")
    fields = ENTRY.iter_unpack(memoryview(data)[start : start + count * ENTRY.size])
    return [
        IndexEntry(first, vectors, block, number, offset, length, salts[salt], bool(flags & IDS))
        for first, vectors, block, number, offset, length, salt, flags in fields
    ]


def is_of_an_index(data: bytes | memoryview) -> bool:
    """Return whether the content of a record belongs to an index."""
    return len(data) > 0 and data[0] == VERSION


def move(data: bytes, file: str, place: str, moved: Callable[[int], tuple[bytes, int, int]]) -> bytes:
    """Return the same record of an index for a log into which all records were copied.

    `moved` returns the salt, the offset and the length of the content of a record there.
    """

    def of(entry: IndexEntry) -> IndexEntry:
        salt, offset, length = moved(entry.number)
        return entry._replace(salt=salt, offset=offset, length=length if entry.length else 0)

    if data[1] == NODE:
        return encode_node([of(entry) for entry in decode_node(data, file, place)])
    if data[1] != ROOT:
        return data
    contents, index = decode_root(data, file, place)
    index.levels = [[of(entry) for entry in level] for level in index.levels]
    for runs in (index.runs, index.deleted):
        runs[:] = [run._replace(salt=moved(run.number)[0], offset=moved(run.number)[1]) for run in runs]
    return encode_root(replace(contents, unfinished=0), index)
