"""Compute the contents of shared storages and when each is needed: one content for each tensor with bytes there.

Storages never collide while they live, so only a tensor of the same storage can overwrite bytes. A content is written
when its tensor is first written. It is needed until the last access to the tensor or to a view of it: by a step, by a
later iteration of a loop, or by the caller at the end. A result of a loop takes its bytes from the loop's enter on.
Steps that mutate a tensor continue its content. The writes of exclusive branches make one content, from the first of
them on. spec: X4.3, X4.7, V1.5, V1.10, T3.4, T3.6, T8.3, T8.7
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np

from proofs.proving.obligations.arms import Accesses, Rows
from proofs.proving.obligations.context import Context, span
from tmmu.core.vocabulary import Role
from tmmu.plans.columns import ROLES

_NEVER = np.iinfo(np.int64).max


class Content(NamedTuple):
    """A value in its bytes: when it is written, when first read and when last needed, views included."""

    storage: int
    window: int
    bytes: int
    written: int
    tensor: int
    first_read: int
    last_read: int

    @property
    def end(self) -> int:
        """The byte of the storage behind its last one."""
        return self.window + self.bytes


@dataclass(frozen=True)
class ValueLiveRanges:
    """For each tensor, when it is written, first read and last needed.

    `first_read` includes reads of views; `last_needed` does not. `by_root` are all tensors, sorted by the tensor whose
    bytes they show, and `roots` are those tensors in the same order.
    """

    written: Rows
    first_read: Rows
    last_needed: Rows
    by_root: Rows
    roots: Rows

    def tensors_showing(self, root: int) -> list[int]:
        """Return the tensors that show the bytes of a tensor, itself included. O(log tensors + result)."""
        lo, hi = np.searchsorted(self.roots, [root, root + 1]).tolist()
        tensors: list[int] = self.by_root[lo:hi].tolist()
        return tensors


def value_live_ranges(context: Context) -> ValueLiveRanges:
    """Return the live range of each tensor's value. O(accesses × depth of loops)."""
    written = context.writer.copy()
    for loop in context.loops:
        written[context.results[loop.leave]] = loop.enter
    needed = written.copy()
    for accesses in (context.reads, context.writes, context.ways.taken):
        np.maximum.at(needed, accesses.tensor, accesses.step)
    for loop in context.loops:
        for accesses in (context.reads, context.writes):
            tensor = accesses.tensor[span(accesses, loop.enter, loop.leave)]
            again = tensor[written[tensor] <= loop.enter]
            needed[again] = np.maximum(needed[again], loop.leave)
    needed[context.returned] = context.last + 1
    first = np.full(len(written), _NEVER)
    step, tensor = context.reads
    scratch = context.plan.allocation.tensors.role == ROLES.index(Role.SCRATCH)
    other = ~(scratch[tensor] & (written[tensor] == step))  # a step that uses its own scratch reads no earlier value
    np.minimum.at(first, context.root[tensor[other]], step[other])
    by_root = np.argsort(context.root, kind="stable")
    return ValueLiveRanges(
        written, np.where(first == _NEVER, written + 1, first), needed, by_root, context.root[by_root]
    )


def shared_contents(context: Context, when: ValueLiveRanges) -> Iterator[list[Content]]:
    """Yield the contents of each storage that has more than one, by window, size and write.

    Zero bytes hold no content. A tensor that the caller writes and no step reads is a content too, because the caller
    may write it last.
    """
    t = context.plan.allocation.tensors
    needed = when.last_needed.copy()
    np.maximum.at(needed, context.root, when.last_needed)
    roots = np.flatnonzero((context.root == np.arange(len(t))) & (t.bytes > 0))
    home = t.storage.astype(np.int64)
    several = np.bincount(home[roots], minlength=len(context.plan.allocation.storages)) > 1
    roots = roots[several[home[roots]]]
    columns = (home, t.window, t.bytes, when.written, np.arange(len(t)), when.first_read, needed)
    contents = [Content(*row) for row in zip(*(c[roots].tolist() for c in columns), strict=True)]
    contents.sort()
    for _, group in groupby(contents, key=lambda content: content.storage):
        yield list(group)


def clusters(contents: list[Content]) -> Iterator[list[Content]]:
    """Cut the contents of one storage, sorted by window, wherever no byte of one reaches into the next."""
    cluster, end = contents[:1], contents[0].end
    for content in contents[1:]:
        if content.window >= end:
            yield cluster
            cluster = []
        cluster.append(content)
        end = max(end, content.end)
    yield cluster


def last_need_of_common_bytes(context: Context, when: ValueLiveRanges, content: Content, other: Content) -> int:
    """Return when the bytes that `content` shares with `other` are last needed, by any tensor that shows them."""
    t = context.plan.allocation.tensors
    last = content.written
    for tensor in when.tensors_showing(content.tensor):
        window = int(t.window[tensor])
        if window < other.end and other.window < window + int(t.bytes[tensor]):
            last = max(last, int(when.last_needed[tensor]))
    return last


def tensors_at_step(accesses: Accesses, step: int) -> list[int]:
    """Return the tensors that one step accesses."""
    tensors: list[int] = accesses.tensor[span(accesses, step, step)].tolist()
    return tensors
