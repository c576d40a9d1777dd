"""The document's latency model: access time by place, cache hit rate, and expected access time.

The figures are the document's, not of a particular machine: `measured` measures this machine. spec: MN6.7 to MN6.9
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """A range from `least` to `most` nanoseconds."""

    least: float
    most: float

    def __add__(self, other: Span) -> Span:
        return Span(self.least + other.least, self.most + other.most)


KIB = 1024

LEVELS = {"L1": (32 * KIB, 0.5), "L2": (256 * KIB, 7.0), "DRAM": (None, 100.0)}
"""The levels of memory, the fastest first: bytes (None for DRAM, which has all else) and nanoseconds of an access."""

PAGE_FAULT = Span(1_000, 5_000)

MEDIA = {"NVMe SSD": Span(10_000, 50_000), "SATA SSD": Span(100_000, 500_000), "SD card": Span(1e6, 1e7)}
"""The time of a read of each medium, in addition to the page fault."""

TARGETS = {"P50": 20_000, "P99": 100_000}
"""Nanoseconds of an access; the document does not define which. Here: the read of one vector."""


def access_time(place: str) -> Span:
    """Return T_access: nanoseconds of an access to a level of memory, or to a page that is read from a medium.

    Raises ValueError for a place that the document does not list.

    >>> access_time("L2"), access_time("NVMe SSD")
    (Span(least=7.0, most=7.0), Span(least=11000, most=55000))
    """
    if place in LEVELS:
        return Span(LEVELS[place][1], LEVELS[place][1])
    if place in MEDIA:
        return PAGE_FAULT + MEDIA[place]
    raise ValueError(f"expected one of {', '.join((*LEVELS, *MEDIA))}, got {place!r}")


def hit_rate(working_set: int, capacity: int) -> float:
    """Return HitRate(W, C): 1 if the working set fits, else C / W, in units of one size. ValueError for negative sizes.

    This is the hit rate of accesses drawn evenly from the working set, under any replacement. A loop over a working set
    that does not fit has no hits under LRU.
    """
    if working_set < 0 or capacity < 0:
        raise ValueError(f"expected sizes of at least 0, got {working_set} and {capacity}")
    return 1.0 if working_set <= capacity else capacity / working_set


def average_time(hit: float, miss: float, rate: float) -> float:
    """Return T_avg, the expected time of an access, from the times of a hit and a miss and the hit rate.

    >>> vectors = LEVELS["L2"][0] // (4096 * 2)  # of 4096 elements of FP16
    >>> vectors, round(average_time(7, 100, hit_rate(1000, vectors)), 3)
    (32, 97.024)
    """
    if not 0 <= rate <= 1:
        raise ValueError(f"expected a hit rate between 0 and 1, got {rate}")
    return hit * rate + miss * (1 - rate)


def required_ram(working_set: int) -> int:
    """Return the least bytes of RAM such that a working set is at most 7/10 of them; in integers, GB are 10^9 bytes.

    >>> f"{required_ram(4_500_000_000) / 1e9:.2f} GB"
    '6.43 GB'
    """
    return -(-10 * working_set // 7)
