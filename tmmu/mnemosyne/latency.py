"""The document's latency model: what an access takes by where its address is, how often a cache hits, what is expected.

The figures are the document's, of no machine in particular: `measured` has those of this one. spec: MN6.7 to MN6.9
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """From `least` to `most` nanoseconds."""

    least: float
    most: float

    def __add__(self, other: Span) -> Span:
        return Span(self.least + other.least, self.most + other.most)


KIB = 1024

LEVELS = {"L1": (32 * KIB, 0.5), "L2": (256 * KIB, 7.0), "DRAM": (None, 100.0)}
"""The levels of memory, the fastest first: bytes (DRAM has all else) and nanoseconds of an access."""

PAGE_FAULT = Span(1_000, 5_000)

MEDIA = {"NVMe SSD": Span(10_000, 50_000), "SATA SSD": Span(100_000, 500_000), "SD card": Span(1e6, 1e7)}
"""What a read of each medium takes, beside the page fault."""

TARGETS = {"P50": 20_000, "P99": 100_000}
"""Nanoseconds of an access that is not named; here, of the read of one vector."""


def access_time(place: str) -> Span:
    """T_access: nanoseconds of an access to a level of memory, or to a page that a medium has to be read for.

    ValueError for a place that the document does not have.

    >>> access_time("L2"), access_time("NVMe SSD")
    (Span(least=7.0, most=7.0), Span(least=11000, most=55000))
    """
    if place in LEVELS:
        return Span(LEVELS[place][1], LEVELS[place][1])
    if place in MEDIA:
        return PAGE_FAULT + MEDIA[place]
    raise ValueError(f"{place!r} is none of {', '.join((*LEVELS, *MEDIA))}")


def hit_rate(working_set: int, capacity: int) -> float:
    """HitRate(W, C): 1 where the working set fits, else C / W, in units of one size. ValueError for negative ones.

    It is the rate of accesses that are drawn evenly from the working set, whatever is replaced. A loop over it has none
    under LRU.
    """
    if working_set < 0 or capacity < 0:
        raise ValueError(f"a working set of {working_set} and a capacity of {capacity}")
    return 1.0 if working_set <= capacity else capacity / working_set


def average_time(hit: float, miss: float, rate: float) -> float:
    """T_avg: what an access is expected to take, with the times of a hit and a miss and the rate of hits.

    >>> vectors = LEVELS["L2"][0] // (4096 * 2)  # of 4096 elements of FP16
    >>> vectors, round(average_time(7, 100, hit_rate(1000, vectors)), 3)
    (32, 97.024)
    """
    if not 0 <= rate <= 1:
        raise ValueError(f"{rate} is no rate of hits")
    return hit * rate + miss * (1 - rate)


def required_ram(working_set: int) -> int:
    """Bytes of RAM of which a working set is 7/10 at most, in integers; GB are 10^9 bytes.

    >>> f"{required_ram(4_500_000_000) / 1e9:.2f} GB"
    '6.43 GB'
    """
    return -(-10 * working_set // 7)
