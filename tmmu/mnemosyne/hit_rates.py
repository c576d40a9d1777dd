"""Count cache hits on a trace of tiles under each replacement policy.

A trace is a sequence of tiles, each with the weight that its tokens have at that access. LRU, LFU, ARC and Bélády's
optimum, which is given the whole trace, are those of libCacheSim. spec: MN3.7
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tmmu.core.extras import require_import
from tmmu.mnemosyne.replacement import LAMBDA, SemanticReplacement

NEVER = 1 << 62


def count_semantic_hits(trace: Sequence[int], weights: Sequence[int], room: int, factor: Fraction = LAMBDA) -> int:
    """Return how many accesses find their tile resident, with room for `room` tiles, under `SemanticReplacement`.

    `weights` has the weight of the accessed tile from that access on, 0 to 2^16. O(n log room).
    """
    resident, hits = SemanticReplacement(factor), 0
    for tile, weight in zip(trace, weights, strict=True):
        if tile in resident:
            hits += 1
            resident.access(tile)
            resident.attend(tile, weight)
            continue
        if len(resident) == room:
            victim = resident.victim()
            assert victim is not None  # no tile is held
            resident.remove(victim)
        resident.insert(tile, weight)
    return hits


def count_hits_by_policy(trace: Sequence[int], weights: Sequence[int], room: int) -> dict[str, int]:
    """Return the hits of our policy (`semantic`) and of `LRU`, `LFU`, `ARC` and `Belady` on the same trace and room.

    A process that has loaded libCacheSim 0.3.5 can no longer export a module of torch 2.15 to ONNX.
    """
    with require_import("libcachesim", "comparing page replacement", "caches"):
        from libcachesim import ARC, LFU, LRU, Belady, Request

    following = [NEVER] * len(trace)
    seen: dict[int, int] = {}
    for at in range(len(trace) - 1, -1, -1):
        following[at] = seen.get(trace[at], NEVER)
        seen[trace[at]] = at
    hits = {"semantic": count_semantic_hits(trace, weights, room)}
    for policy in (LRU, LFU, ARC, Belady):
        cache, found = policy(cache_size=room, hashpower=16), 0
        for tile, later in zip(trace, following, strict=True):
            found += bool(cache.get(Request(obj_id=tile, obj_size=1, next_access_vtime=later)))
        hits[policy.__name__] = found
    return hits
