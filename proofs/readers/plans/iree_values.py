"""The values of names in IREE's functions: bytes of resources, points in time, and the branches that they hold in.

spec: FP1.14, FP9.5, FP9.6, FP9.8
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tmmu.core.source import Source

Way = tuple[int, int]
"""A node of control flow, by its number, and the branch of it that was taken."""
Ways = frozenset[frozenset[Way]]
"""Alternatives, each a set of branches that were taken: a value holds in these."""
ALWAYS: Ways = frozenset((frozenset(),))
MOST_WAYS = 64
"""The most alternatives that are kept apart."""


@dataclass(frozen=True)
class EndedExecutes:
    """The executes that have ended at a point in time, as bits.

    `always` are those that have ended in any case, and `when` has further ones, by the branches that were taken.
    """

    always: int = 0
    when: Mapping[frozenset[Way], int] = field(default_factory=dict)

    def __or__(self, other: EndedExecutes) -> EndedExecutes:
        """Return the executes that have ended when both points are reached."""
        when = {taken: self.when.get(taken, 0) | other.when.get(taken, 0) for taken in {*self.when, *other.when}}
        return EndedExecutes(self.always | other.always, when)

    def __and__(self, other: EndedExecutes) -> EndedExecutes:
        """Return the executes that have ended when one point is reached, not known which."""
        when = {taken: self.at(taken) & other.at(taken) for taken in {*self.when, *other.when}}
        return EndedExecutes(self.always & other.always, when)

    def __bool__(self) -> bool:
        return bool(self.always or self.when)

    def at(self, taken: frozenset[Way]) -> int:
        """Return the executes that have ended if these branches were taken, whatever others were."""
        found = self.always
        for each, bits in self.when.items():
            found |= bits if each <= taken else 0
        return found

    def where(self, ways: Ways) -> int:
        """Return the executes that have ended in each of these alternatives."""
        found = -1
        for taken in ways:
            found &= self.at(taken)
        return found


NEVER = EndedExecutes()


class SliceReference(NamedTuple):
    """Bytes of a resource from an offset: the offset after the pass, and the names in the IR before it.

    `slice` is the name of the slice, None for the resource as a whole, and `shift` the byte in it. A reference that is
    one of several has the number of the `choice` between them. It holds only in the alternatives of `ways`.
    """

    resource: str
    offset: int
    slice: str | None
    shift: int
    choice: int = 0
    ways: Ways = ALWAYS


def in_order(references: Iterable[SliceReference]) -> list[SliceReference]:
    """Return references in an order that no hash decides, so that each run makes the same cells and steps."""

    def key(ref: SliceReference) -> tuple[str, int, str, int, int, list[list[Way]]]:
        return ref.resource, ref.offset, ref.slice or "", ref.shift, ref.choice, sorted(map(sorted, ref.ways))

    return sorted(references, key=key)


RegionPath = tuple[tuple[int, int], ...]
"""The concurrent regions around a command, outermost first, each with the number of its child."""


class SliceAccess(NamedTuple):
    """Bytes of a slice that a command reads, writes or both."""

    cell: int
    start: int
    end: int
    reads: bool
    writes: bool
    path: RegionPath


class NamedValue(NamedTuple):
    """The value of a name: memory, the executes that have ended at a point in time, and buffer views."""

    references: frozenset[SliceReference] = frozenset()
    times: EndedExecutes = NEVER
    views: frozenset[str] = frozenset()


@dataclass
class HostMoment:
    """The state of the host: the executes that it has awaited, the resources that it has freed, and the memory of the
    globals that it has stored.
    """

    host: EndedExecutes = NEVER
    freed: frozenset[str] = frozenset()
    globals: dict[str, frozenset[SliceReference]] = field(default_factory=dict)


def at_once(found: list[SliceAccess], source: Source) -> bool:
    """Decide whether two commands that may run at once touch the same bytes of a slice, one of them writing.

    O(n log n) for n accesses, and more if many of them overlap.
    """
    ends: dict[bool, dict[RegionPath, int]] = {True: {}, False: {}}  # by whether they write, of what began before
    for a in sorted(found, key=lambda access: access.start):
        for writes in (True, False) if a.writes else (True,):
            going = ends[writes]
            source.count_work(1 + len(going))
            for path in [path for path, end in going.items() if end <= a.start]:
                del going[path]
            if a.start < a.end and any(_apart(a.path, path) for path in going):
                return True
        ends[a.writes][a.path] = max(a.end, ends[a.writes].get(a.path, 0))
    return False


def _apart(a: RegionPath, b: RegionPath) -> bool:
    """Decide whether two commands are in different parts of one concurrent region."""
    for (region, child), (other, sibling) in zip(a, b, strict=False):
        if region != other:
            return False
        if child != sibling:
            return True
    return False
