"""Random traces of a dynamic allocator: allocate and free, in any order. spec: TP1.5"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from tmmu.testing.buffer import TimedBuffer
from tmmu.testing.strategies.buffers import MEDIUM, SMALL


@dataclass(frozen=True)
class Allocate:
    """The request of `bytes` bytes, known by `name` until they are freed."""

    name: str
    bytes: int


@dataclass(frozen=True)
class Free:
    """The return of the bytes that `name` was given."""

    name: str


SIZES = (*SMALL, *MEDIUM)


@st.composite
def traces(draw: st.DrawFn, *, most: int = 40) -> list[Allocate | Free]:
    """Return a strategy for traces of up to `most` events; what is freed was allocated, and some is never freed.

    Memory is freed in the order of allocation, in the reverse, and in others; all of it now and then.
    """
    events: list[Allocate | Free] = []
    live: list[str] = []
    for packed in draw(st.lists(st.integers(0, 255), max_size=most)):
        if packed % 5 >= 3 and live:
            events.append(Free(live.pop(packed // 5 % len(live))))
        else:
            name = f"m{sum(isinstance(event, Allocate) for event in events)}"
            events.append(Allocate(name, SIZES[packed // 5 % len(SIZES)]))
            live.append(name)
    if draw(st.booleans()):
        events += map(Free, live)
    return events


def live_ranges(trace: Sequence[Allocate | Free]) -> list[TimedBuffer]:
    """Return the buffers of a trace: each is live from its event to the one before it is freed."""
    ends = {event.name: k - 1 for k, event in enumerate(trace) if isinstance(event, Free)}
    last = max(0, len(trace) - 1)
    return [
        TimedBuffer(event.name, k, ends.get(event.name, last), event.bytes)
        for k, event in enumerate(trace)
        if isinstance(event, Allocate)
    ]
