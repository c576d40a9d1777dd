"""Find which accesses of the same bytes follow one another directly in the list of steps, and so must be ordered.

Each byte has a last write and, of each stream, a last read since. The next access must be ordered after the last write,
and a write after those reads too. By `the_last_accesses_of_a_byte_are_enough` nothing else need be ordered. The naive
checker walks the bytes by itself. spec: X5.3, V4.3
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tmmu.plans.allocation import Allocation


class Turn(NamedTuple):
    """Two accesses of a byte by different steps, of which the earlier one must happen before the later one."""

    earlier: int
    later: int
    tensor: int
    other: int


class _Reader(NamedTuple):
    step: int
    tensor: int


class _Kept(NamedTuple):
    """The last write of some bytes, and the last read since of each stream, by stream."""

    write: _Reader | None
    reads: tuple[tuple[int, _Reader], ...]


NOTHING = _Kept(None, ())


class _Line:
    """The bytes of an arena as runs: run i begins at `begin[i]`, ends where the next begins, and has `kept[i]`."""

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


def find_turns(allocation: Allocation, views: Mapping[int, object]) -> list[Turn]:
    """Return each two accesses that must be ordered, once. A step that writes a view stores no byte.

    O(accesses x (log accesses + streams)), and the runs of bytes that an access is divided into.
    """
    t, steps = allocation.tensors, allocation.steps
    first = allocation.addresses().tolist()
    size, arena = t.bytes.tolist(), allocation.storages.arena[t.storage].tolist()
    lines = [_Line() for _ in allocation.arenas]
    found: dict[Turn, None] = {}
    lists = zip(steps.stream.tolist(), steps.listed("reads"), steps.listed("writes"), strict=True)
    for s, (stream, reads, writes) in enumerate(lists):
        shown = [w for w in writes if w in views]
        for tensor in dict.fromkeys((*reads, *shown)):
            if size[tensor]:
                line = lines[arena[tensor]]
                at = line.access(first[tensor], first[tensor] + size[tensor])
                reader = _Reader(s, tensor)
                for i in range(at.start, at.stop):
                    line.kept[i] = _add_read(line.kept[i], reader, stream, found)
        for tensor in dict.fromkeys(w for w in writes if w not in views):
            if size[tensor]:
                line = lines[arena[tensor]]
                at = line.access(first[tensor], first[tensor] + size[tensor])
                writer = _Reader(s, tensor)
                for kept in line.kept[at]:
                    of_streams = (reader for _, reader in kept.reads)
                    _order((kept.write, *of_streams), writer, found)
                line.kept[at], line.begin[at] = [_Kept(writer, ())], [first[tensor]]
    return list(found)


def _add_read(kept: _Kept, reader: _Reader, stream: int, found: dict[Turn, None]) -> _Kept:
    _order((kept.write,), reader, found)
    others = tuple(each for each in kept.reads if each[0] != stream)
    return _Kept(kept.write, (*others, (stream, reader)))


def _order(earlier: Iterable[_Reader | None], later: _Reader, found: dict[Turn, None]) -> None:
    for access in earlier:
        if access is not None and access.step != later.step:
            found[Turn(access.step, later.step, access.tensor, later.tensor)] = None
