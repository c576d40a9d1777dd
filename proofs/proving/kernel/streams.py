"""Write the words that the kernel reads about a plan whose steps run on streams.

They are a second file of 64-bit words: how many state the streams, these, and the evidence, in the order of `Races.v`.

The *statement* is trusted: the version, the numbers of streams, steps and waits, the stream of each step, and the steps
whose events each step waits for. Steps of one stream run in the order of rows, and events lead from earlier rows to
later ones.

The *evidence* is not trusted. It makes the check linear:

- A vector clock for each step. Its entry of a stream is 1 more than the last row of that stream that happens before the
  step, and 0 if there is none. The kernel compares it only with the clocks of the steps that the step waits for
  directly.
- The versions of tensors. A version is what one step, or the caller, writes into a tensor that is not a view, with all
  that reads it until the next write. Its last accesses are listed, one for each stream that has any.
- Edges: version `above` takes bytes `first` to `last` of an arena from version `below`, or from the floor of the arena.

A plan that the kernel accepts runs as private memory would in every interleaving
(`accepted_concurrent_file_runs_as_private` in `Theorems.v`). Loops and exclusive branches are refused.
spec: V6.25, V6.26, V6.27
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, pairwise

import numpy as np

from proofs.proving.kernel.memory import Column, Named, group_rows
from proofs.proving.obligations.context import CALLER, Context

VERSION = 1
"""The version of the words, as in `Races.v`."""


@dataclass(frozen=True)
class StepStreams:
    """The stream of each step, numbered from 0, and the steps whose events it waits for."""

    stream: Column
    after: Sequence[Sequence[int]]

    @property
    def count(self) -> int:
        """The number of streams."""
        return int(self.stream.max(initial=-1)) + 1


@dataclass
class _Versions:
    """The versions of tensors in the order in which they are made, and the edges between them.

    `last` has the last step of each stream that accesses a version. `edges` are rows (below, above, first, last), where
    the floor of arena `a` is row `-1 - a`.
    """

    tensor: list[int] = field(default_factory=list)
    made_by: list[int] = field(default_factory=list)
    last: list[dict[int, int]] = field(default_factory=list)
    edges: list[tuple[int, int, int, int]] = field(default_factory=list)

    def make(self, tensor: int, step: int) -> int:
        """Add a version and return its row."""
        self.tensor.append(tensor)
        self.made_by.append(step)
        self.last.append({})
        return len(self.tensor) - 1


class _Owners:
    """The present owner of each byte of an arena, as ranges that follow one another from byte 0."""

    def __init__(self, floor: int) -> None:
        self.first, self.owner = [0], [floor]

    def give(self, start: int, stop: int, owner: int) -> list[tuple[int, int, int]]:
        """Give bytes to a new owner. Return the ranges (owner, first byte, last byte) that it takes them from."""
        left, right = bisect_right(self.first, start) - 1, bisect_left(self.first, stop)
        bounds = [start, *self.first[left + 1 : right], stop]
        previous = self.owner[left:right]
        taken = [(of, at, end - 1) for of, (at, end) in zip(previous, pairwise(bounds), strict=True)]
        kept = self.first[left] < start
        goes_on = right == len(self.first) or self.first[right] > stop
        self.first[left:right] = [*self.first[left : left + kept], start, *([stop] if goes_on else [])]
        self.owner[left:right] = [*previous[:kept], owner, *(previous[-1:] if goes_on else [])]
        return taken


def stream_columns(context: Context, streams: StepStreams) -> list[Named]:
    """Return the words about the streams of a plan, column by column.

    O((steps + waits) × streams + accesses + edges log edges). Raises ValueError unless each step has a stream and waits
    only for events of earlier rows.
    """
    after = [list(waits) for waits in streams.after]
    if not len(streams.stream) == len(after) == len(context.plan.allocation.steps):
        raise ValueError(f"expected a stream for each of {len(context.plan.allocation.steps)} steps, got {len(after)}")
    for step, waits in enumerate(after):
        for earlier in waits:
            if not 0 <= earlier < step:
                raise ValueError(f"step {step} waits for step {earlier}, which is not an earlier row")
    statement = [
        ("version, streams, steps, waits", np.array([VERSION, streams.count, len(after), sum(map(len, after))])),
        ("stream of each step", streams.stream), *_lists("waits", after),
    ]  # fmt: skip
    return [
        ("words of the statement", np.array([sum(len(column) for _, column in statement)])), *statement,
        *_evidence(context, streams, after),
    ]  # fmt: skip


def _evidence(context: Context, streams: StepStreams, after: list[list[int]]) -> list[Named]:
    stream = streams.stream.tolist()
    versions, read_from, written_to = _versions(context, stream)
    previous, clocks = _clocks(stream, after, streams.count)
    count, arenas = len(versions.tensor), len(context.placement.arenas)
    ends = np.array([edge[:2] for edge in versions.edges], np.int64).reshape(-1, 2)
    ends[:, 0] = np.where(ends[:, 0] < 0, count - 1 - ends[:, 0], ends[:, 0])
    ranges = np.array([edge[2:] for edge in versions.edges], np.uint64).reshape(-1, 2)
    order = np.lexsort((ranges[:, 0], ends[:, 0]))
    (below, above), (first, final) = ends[order].T, ranges[order].T
    downs_at, downs = group_rows(above, count, first)
    last = [sorted(steps.values()) for steps in versions.last]
    counts = [count, len(order), *(sum(map(len, lists)) for lists in (read_from, written_to, last))]
    return [
        ("versions, edges, reads, writes, last accesses", np.array(counts)),
        ("previous step of the stream + 1", np.array(previous, np.int64) + 1), ("clocks", clocks.ravel()),
        *_lists("versions read", read_from), *_lists("versions written", written_to),
        ("versions: tensor", np.array(versions.tensor, np.int64)),
        ("made by + 1", np.array(versions.made_by, np.int64) + 1), *_lists("last accesses", last),
        ("edges: below", below), ("above", above), ("first", first), ("last", final),
        ("edges up from each version and floor", np.searchsorted(below, np.arange(count + arenas + 1))),
        ("edges down from each version", downs_at), ("in order", downs),
    ]  # fmt: skip


def _lists(name: str, rows: Sequence[Sequence[int]]) -> list[Named]:
    bounds = [0, *accumulate(map(len, rows))]
    return [(f"{name}: bounds", np.array(bounds)), (f"{name}: rows", np.array([*chain.from_iterable(rows)], np.int64))]


def _clocks(stream: list[int], after: list[list[int]], count: int) -> tuple[list[int], Column]:
    """Return the previous step of each step in its stream, or -1, and the clock of each step."""
    clocks = np.zeros((len(stream), count), np.int64)
    latest, previous = [-1] * count, []
    for step, (of, waits) in enumerate(zip(stream, after, strict=True)):
        previous.append(latest[of])
        for earlier in (*waits, *([latest[of]] if latest[of] >= 0 else [])):
            np.maximum(clocks[step], clocks[earlier], out=clocks[step])
            clocks[step, stream[earlier]] = max(clocks[step, stream[earlier]], earlier + 1)
        latest[of] = step
    return previous, clocks


def _versions(context: Context, stream: list[int]) -> tuple[_Versions, list[list[int]], list[list[int]]]:
    """Return the versions, and those that each step reads and writes, in the order of its lists.

    A step that reads scratch, which only the step itself has written, reads the version that it makes. For a view in
    the list of writes the row is 0: making it changes no byte.
    """
    found, steps, root = _Versions(), context.plan.allocation.steps, context.root.tolist()
    views, current = context.permissions.views, dict[int, int]()
    give = _bytes_of_versions(context, found)
    for tensor in np.flatnonzero(context.writer == CALLER).tolist():
        if tensor not in views:
            current[tensor] = found.make(tensor, CALLER)
            give(current[tensor])
    all_reads, all_writes = list[list[int]](), list[list[int]]()
    for step, (reads, writes) in enumerate(zip(steps.listed("reads"), steps.listed("writes"), strict=True)):
        made = {tensor: found.make(tensor, step) for tensor in writes if tensor not in views}
        all_reads.append([current.get(root[r], made.get(root[r], 0)) for r in reads])
        all_writes.append([made.get(w, 0) for w in writes])
        for version in (*all_reads[-1], *made.values()):
            if version < len(found.last):
                found.last[version][stream[step]] = step
        for version in made.values():
            give(version)
        current |= made
    return found, all_reads, all_writes


def _bytes_of_versions(context: Context, found: _Versions) -> Callable[[int], None]:
    """Return a function that gives a version its bytes, and adds the edges from the versions that had them."""
    allocation = context.plan.allocation
    arena = allocation.storages.arena[allocation.tensors.storage].tolist()
    start, size = allocation.addresses().tolist(), allocation.tensors.bytes.tolist()
    owners = [_Owners(-1 - a) for a in range(len(allocation.arenas))]

    def give(version: int) -> None:
        tensor = found.tensor[version]
        if size[tensor]:
            taken = owners[arena[tensor]].give(start[tensor], start[tensor] + size[tensor], version)
            found.edges += [(below, version, first, last) for below, first, last in taken]

    return give
