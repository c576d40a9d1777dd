"""Hit rates of page replacement, and what an access takes: `python -m tests.benchmarks.replacement [--plot FILE.svg]`.

Rates are over accesses of MiniLM's attention (`tests/support/minilm.py`) and over synthetic traces, ours beside LRU,
LFU, ARC and Bélády's optimum of libCacheSim; nanoseconds beside the LRU of cachetools, in one run. spec: MN3.4, MN3.7
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from fractions import Fraction
from math import log2
from pathlib import Path
from random import Random
from time import perf_counter_ns

import numpy as np

from tests.support.minilm import stored
from tmmu.mnemosyne.hit_rates import count_hits_by_policy, count_semantic_hits
from tmmu.mnemosyne.plots import plot_hit_rates
from tmmu.mnemosyne.replacement import LAMBDA, ONE, SemanticReplacement

Trace = tuple[list[int], list[int]]
"""Tiles, and the weight of each at its access."""

ROOMS = (8, 16, 32, 64, 128, 256)


def attention() -> Trace:
    """What MiniLM attends to in our own pages, weighed as 002 has it: the mean attention of a tile's tokens."""
    found = stored()
    return found["tiles"].astype(int).tolist(), found["weights"].astype(int).tolist()


def relative(weights: list[int]) -> list[int]:
    """The same weights, over the largest that was seen up to each access."""
    found = np.array(weights)
    return [int(weight) for weight in found * ONE // np.maximum(np.maximum.accumulate(found), 1)]


def scan() -> Trace:
    """Sixteen tiles that are attended and asked for in turn, between scans of tiles that are not."""
    trace = [tile for turn in range(500) for tile in (*range(16), *range(16 + 40 * turn, 56 + 40 * turn))]
    return trace, [ONE if tile < 16 else 0 for tile in trace]


def skewed(is_informed: bool) -> Trace:
    """Tiles by Zipf's law, attended as often as they are asked for, or at random."""
    random = Random(1)
    odds = [1 / (rank + 1) for rank in range(1000)]
    trace = random.choices(range(1000), odds, k=30_000)
    attended = odds if is_informed else [random.random() for _ in odds]
    return trace, [round(attended[tile] * ONE) for tile in trace]


TRACES = {
    "MiniLM": attention,
    "scan past attended tiles": scan,
    "Zipf, attention as frequency": lambda: skewed(True),
    "Zipf, attention at random": lambda: skewed(False),
}
FACTORS = (LAMBDA, Fraction(16))


def rates(trace: list[int], weights: list[int], room: int) -> dict[str, float]:
    """Hits an access by policy; ours with the weights as they are, and relative, at two values of λ."""
    hits = count_hits_by_policy(trace, weights, room)
    for factor in FACTORS:
        for name, given in (("", weights), (", relative", relative(weights))):
            hits[f"semantic λ={factor}{name}"] = count_semantic_hits(trace, given, room, factor)
    assert hits.pop("semantic") == hits[f"semantic λ={LAMBDA}"]
    return {name: count / len(trace) for name, count in hits.items()}


def tables(plot: Path | None = None) -> None:
    """Print the rates of all traces, and draw them."""
    drawn = {}
    for name, made in TRACES.items():
        trace, weights = made()
        print(f"\n{name}: {len(trace)} accesses to {len(set(trace))} tiles, weights of {np.mean(weights) / ONE:.4f}")
        found = {room: rates(trace, weights, room) for room in ROOMS}
        policies = list(found[ROOMS[0]])
        print(f"{'room':>26} {' '.join(f'{room:>6}' for room in ROOMS)}")
        for policy in policies:
            print(f"{policy:>26} {' '.join(f'{found[room][policy]:>6.1%}' for room in ROOMS)}", flush=True)
        drawn[name] = {policy: {room: found[room][policy] for room in ROOMS} for policy in policies}
    if plot is not None:
        plot_hit_rates(drawn, plot)


def accesses(room: int) -> Iterator[tuple[str, float]]:
    """Nanoseconds of a hit and of a miss in a full store, ours and those of cachetools' LRU."""
    from cachetools import LRUCache

    random = Random(room)
    hits = [random.randrange(room) for _ in range(20_000)]
    ours, theirs = SemanticReplacement(), LRUCache(room)
    for tile in range(room):
        ours.insert(tile, random.randrange(ONE))
        theirs[tile] = tile
    ours.victim()
    begin = perf_counter_ns()
    for tile in hits:
        ours.access(tile)
    yield "our hit", (perf_counter_ns() - begin) / len(hits)
    begin = perf_counter_ns()
    for tile in hits:
        theirs[tile]
    yield "LRU hit", (perf_counter_ns() - begin) / len(hits)
    begin = perf_counter_ns()
    for tile in range(room, room + len(hits)):
        victim = ours.victim()
        assert victim is not None
        ours.remove(victim)
        ours.insert(tile, tile % ONE)
    yield "our miss", (perf_counter_ns() - begin) / len(hits)
    begin = perf_counter_ns()
    for tile in range(room, room + len(hits)):
        theirs[tile] = tile
    yield "LRU miss", (perf_counter_ns() - begin) / len(hits)


def times() -> None:
    """Print what an access takes, by the number of tiles."""
    print("\nns an access, beside the LRU of cachetools")
    print(f"{'tiles':>8} {'our hit':>9} {'LRU hit':>9} {'our miss':>9} {'LRU miss':>9} {'our miss ÷ log2 n':>18}")
    for power in (8, 10, 12, 14, 16, 18):
        taken = dict(accesses(1 << power))
        row = " ".join(f"{value:>9.0f}" for value in taken.values())
        print(f"{1 << power:>8} {row} {taken['our miss'] / log2(1 << power):>18.0f}", flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description="Hit rates and times of page replacement.")
    parser.add_argument("--plot", type=Path, metavar="FILE")
    tables(parser.parse_args(arguments).plot)
    times()


if __name__ == "__main__":
    main()
