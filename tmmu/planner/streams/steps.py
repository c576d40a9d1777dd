"""Compute which steps happen before which: vector clocks over streams.

The steps of a stream run in the order of the list. A step that waits for another begins after the other has ended. A
barrier begins after all steps that the list has before it, and every later step begins after the barrier. Two steps
that these rules do not order may overlap.

The clock of a step has an entry for each stream: how many of its steps have ended when the step begins. On one stream
it changes only at waits and barriers. Steps between two such changes form a segment, and a segment has one row.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class StepOrder:
    """The order of the steps of a program that has several streams.

    `stream` and `position` state for each step its stream and how many steps of that stream precede it. `segment` is
    its row of `known`, which has an entry for each stream. The entry of the step's own stream is its position instead.
    """

    stream: Integers
    position: Integers
    segment: Integers
    known: Integers

    def __len__(self) -> int:
        return len(self.stream)

    @property
    def streams(self) -> int:
        """The number of streams."""
        return int(self.known.shape[1])

    def clocks(self, steps: NDArray[Any]) -> Integers:
        """Return the clock of each of `steps`: how many steps of each stream have ended when it begins.

        O(steps x streams).
        """
        found: Integers = self.known[self.segment[steps]]
        found[np.arange(len(steps)), self.stream[steps]] = self.position[steps]
        return found

    def are_before(self, first: Integers, second: Integers) -> NDArray[np.bool_]:
        """Return for each pair of steps whether `first` has ended whenever `second` begins."""
        t, at = self.stream[first], self.position[first]
        known = np.where(self.stream[second] == t, self.position[second], self.known[self.segment[second], t])
        found: NDArray[np.bool_] = at < known
        return found

    def is_before(self, first: int, second: int) -> bool:
        """Return whether step `first` has ended whenever step `second` begins."""
        t, at = self.stream[first], self.position[first]
        if self.stream[second] == t:
            return bool(at < self.position[second])
        return bool(at < self.known[self.segment[second], t])


def order_steps(
    stream: Sequence[int] | NDArray[Any],
    waits: Iterable[tuple[int, int]] = (),
    barriers: Iterable[int] = (),
    streams: int = 0,
) -> StepOrder:
    """Return the order of steps, each on its stream.

    Parameters
    ----------
    stream
        The stream of each step, a number from 0.
    waits
        Pairs (step, earlier): the step begins after the earlier one has ended.
    barriers
        Steps that separate everything before them in the list from everything after.
    streams
        The number of streams, if some have no step.

    Raises
    ------
    ValueError
        A step waits for itself or for a later one.

    Notes
    -----
    O(steps log steps + (waits + barriers x streams) x streams) time. Memory O(steps), and a row for each segment.

    >>> order = order_steps([0, 1, 1, 0], waits=[(3, 2)])
    >>> order.is_before(1, 3), order.is_before(0, 2), order.is_before(2, 0)
    (True, False, False)
    """
    of = np.asarray(stream, np.int64)
    count = max(streams, int(of.max(initial=-1)) + 1)
    lists = [np.flatnonzero(of == t) for t in range(count)]
    position = np.zeros(len(of), np.int64)
    for steps in lists:
        position[steps] = np.arange(len(steps))
    of_step, at_step = of.tolist(), position.tolist()
    waited: dict[int, list[int]] = {}
    for step, earlier in waits:
        if not 0 <= earlier < step:
            raise ValueError(f"step {step} waits for step {earlier}, which does not precede it")
        if of_step[step] != of_step[earlier]:
            waited.setdefault(step, []).append(earlier)
    segments = _Segments(count)
    separating = frozenset(barriers)
    for step in sorted(separating | waited.keys()):
        t, at = of_step[step], at_step[step]
        if step in separating:
            ended = [int(np.searchsorted(steps, step)) for steps in lists]
            segments.begin(t, at, list(ended))
            ended[t] = at + 1
            for other in range(count):
                if other != t:
                    segments.begin(other, ended[other], list(ended))
            continue
        row = segments.current(t)
        for earlier in waited[step]:
            u, end = of_step[earlier], at_step[earlier]
            row = list(map(max, row, segments.find(u, end)))
            row[u] = max(row[u], end + 1)
        segments.begin(t, at, row)
    segment = np.zeros(len(of), np.int64)
    for t, steps in enumerate(lists):
        begins, rows = segments.begins[t], segments.rows[t]
        segment[steps] = np.asarray(rows)[np.searchsorted(begins, np.arange(len(steps)), "right") - 1]
    return StepOrder(of, position, segment, np.asarray(segments.known, np.int64).reshape(-1, count))


class _Segments:
    """The segments of each stream: the position at which each begins, and its row of clocks."""

    def __init__(self, streams: int) -> None:
        self.known: list[list[int]] = [[0] * streams for _ in range(max(1, streams))]
        self.begins: list[list[int]] = [[0] for _ in range(streams)]
        self.rows: list[list[int]] = [[t] for t in range(streams)]

    def current(self, stream: int) -> list[int]:
        """Return the clock of the stream's last segment."""
        return self.known[self.rows[stream][-1]]

    def find(self, stream: int, position: int) -> list[int]:
        """Return the clock of the segment that has the stream's step at `position`."""
        return self.known[self.rows[stream][bisect_left(self.begins[stream], position + 1) - 1]]

    def begin(self, stream: int, position: int, clock: list[int]) -> None:
        """Begin a segment at a step, unless its clock is that of the segment before. The clock is kept."""
        before = self.current(stream)
        clock[stream] = before[stream]  # no step is asked for this entry
        if clock == before:
            return
        self.begins[stream].append(position)
        self.rows[stream].append(len(self.known))
        self.known.append(clock)
