"""Find which accesses of the same bytes follow one another directly in the list of steps, and so must be ordered.

Each byte has a last write and, of each stream, a last read since. The next access must be ordered after the last write,
and a write after those reads too. By `the_last_accesses_of_a_byte_are_enough` nothing else need be ordered. The naive
checker walks the bytes by itself. A view, and a tensor without bytes, must also be made before a step reads it.
spec: X5.3, X5.13, V4.3
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tmmu.core.columns import find_distinct
from tmmu.plans.allocation import Allocation

PART = 256
"""An arena is divided after every so many distinct offsets of storages."""


class Turn(NamedTuple):
    """Two accesses by different steps, of a byte or of one tensor; the earlier one must happen before the later one."""

    earlier: int
    later: int
    tensor: int
    other: int


class _Access(NamedTuple):
    """A step that accesses a tensor."""

    step: int
    tensor: int


class _Kept(NamedTuple):
    """The last write of some bytes, and the last read since of each stream, by stream."""

    write: _Access | None
    reads: tuple[tuple[int, _Access], ...]


NOTHING = _Kept(None, ())


class _Line:
    """Bytes as runs: run i begins at `begin[i]`, ends where the next begins, and has `kept[i]`."""

    def __init__(self) -> None:
        self.begin, self.kept = [0], [NOTHING]

    def cut(self, at: int) -> int:
        """Return the run that begins at a byte, after dividing the one that holds it."""
        i = bisect_left(self.begin, at)
        if i == len(self.begin) or self.begin[i] != at:
            self.begin.insert(i, at)
            self.kept.insert(i, self.kept[i - 1])
        return i

    def access(self, first: int, end: int) -> slice:
        """Return the runs that bytes [first, end) are."""
        i = bisect_right(self.begin, first) - 1
        if self.begin[i] == first and (self.begin[i + 1] if i + 1 < len(self.begin) else -1) == end:
            return slice(i, i + 1)
        low = self.cut(first)
        return slice(low, self.cut(end))


class _Memory:
    """The bytes of an arena, divided at some addresses: an insertion moves only the runs of its part."""

    def __init__(self, cuts: Sequence[int]) -> None:
        self._cuts, self._parts = cuts, [_Line() for _ in range(len(cuts) + 1)]

    def divide(self, first: int, end: int) -> Iterator[tuple[_Line, slice, int]]:
        """Yield bytes [first, end) as runs of parts, each with its first byte."""
        part = bisect_right(self._cuts, first)
        while first < end:
            stop = min(end, self._cuts[part]) if part < len(self._cuts) else end
            yield self._parts[part], self._parts[part].access(first, stop), first
            first, part = stop, part + 1


def _divided(allocation: Allocation) -> list[_Memory]:
    """Return the memory of each arena, divided after every so many distinct offsets."""
    storages = allocation.storages
    found = []
    for a in range(len(allocation.arenas)):
        offsets, _ = find_distinct(storages.offset[storages.arena == a])
        found.append(_Memory(offsets[PART::PART].tolist()))
    return found


def find_turns(allocation: Allocation, views: Mapping[int, object]) -> list[Turn]:
    """Return each two accesses that must be ordered, once. A step that writes a view stores no byte.

    O(accesses x (log accesses + streams)), and the runs of bytes that an access is divided into.
    """
    t, steps = allocation.tensors, allocation.steps
    address, size, maker = allocation.addresses().tolist(), t.bytes.tolist(), t.writer.tolist()
    memory, arena = _divided(allocation), allocation.storages.arena[t.storage].tolist()
    found: dict[Turn, None] = {}
    lists = zip(steps.stream.tolist(), steps.listed("reads"), steps.listed("writes"), strict=True)
    for s, (stream, reads, writes) in enumerate(lists):
        shown = [w for w in writes if w in views]
        for tensor in dict.fromkeys((*reads, *shown)):
            reader = _Access(s, tensor)
            if (tensor in views or not size[tensor]) and maker[tensor] < s:  # the caller's is NONE
                found[Turn(maker[tensor], s, tensor, tensor)] = None
            for line, at, _ in memory[arena[tensor]].divide(address[tensor], address[tensor] + size[tensor]):
                for i in range(at.start, at.stop):
                    line.kept[i] = _add_read(line.kept[i], reader, stream, found)
        for tensor in dict.fromkeys(w for w in writes if w not in views):
            writer = _Access(s, tensor)
            for line, at, first in memory[arena[tensor]].divide(address[tensor], address[tensor] + size[tensor]):
                for kept in line.kept[at]:
                    _order((kept.write, *(read for _, read in kept.reads)), writer, found)
                line.kept[at], line.begin[at] = [_Kept(writer, ())], [first]
    return list(found)


def _add_read(kept: _Kept, reader: _Access, stream: int, found: dict[Turn, None]) -> _Kept:
    _order((kept.write,), reader, found)
    others = tuple(each for each in kept.reads if each[0] != stream)
    return _Kept(kept.write, (*others, (stream, reader)))


def _order(earlier: Iterable[_Access | None], later: _Access, found: dict[Turn, None]) -> None:
    for access in earlier:
        if access is not None and access.step != later.step:
            found[Turn(access.step, later.step, access.tensor, later.tensor)] = None
