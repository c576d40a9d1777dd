"""Policies worth trying: which values to keep, by the published ideas for recomputing in training.

Checkpoints at segment boundaries, √n of them (Chen, Xu, Zhang and Guestrin, "Training deep nets with sublinear memory
cost", 2016), with equal numbers of nodes or moved to where the fewest bytes cross; segments within segments (Griewank
and Walther's multi-level checkpointing, 2000); and values in order of bytes freed for each operation repeated, which
drops cheap elementwise results first (as DTR's greedy rule does at run time, Kirisame et al., 2021). All are
deterministic. spec: M1.10
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise, product

from tmmu.core.vocabulary import Phase
from tmmu.planner.remat.rewrite import Joint, Policy

EXHAUSTIVE = 6
"""Up to this many classes, all policies are tried: 3 to that power."""

SEGMENTS = 24
"""About how many numbers of segments are tried."""


class Classes:
    """The classes that may be dropped, by root, and the effects of dropping them."""

    def __init__(self, joint: Joint) -> None:
        self.joint = joint
        written = {joint.root[t] for n in joint.order for t in joint.model.nodes[n].writes}
        self.roots = sorted(root for root in written if joint.free[root])
        self.all = frozenset(self.roots)

    @cached_property
    def saved(self) -> list[int]:
        """The classes that a backward node reads."""
        joint = self.joint
        read = {joint.root[t] for node in joint.model.nodes if node.phase is not Phase.FORWARD for t in node.reads}
        return [root for root in self.roots if root in read]

    @cached_property
    def by_worth(self) -> list[int]:
        """The saved classes, those first that free the most bytes for an operation."""
        joint = self.joint

        def bytes_of(root: int) -> int:
            return joint.model.tensors[root].bytes

        def price(root: int) -> int:
            return joint.cost[joint.writer[root]] + 1

        # Quotients are compared as integers, so that no float decides.
        return sorted(self.saved, key=lambda root: (-(bytes_of(root) << 64) // price(root), root))

    @cached_property
    def crossing(self) -> list[frozenset[int]]:
        """For each place between two nodes of the order, the classes made before it that a node after it reads."""
        joint, order = self.joint, self.joint.order
        place = {n: k for k, n in enumerate(order)}
        last: dict[int, int] = {}
        for k, n in enumerate(order):
            for t in joint.model.nodes[n].reads:
                if joint.root[t] in self.all:
                    last[joint.root[t]] = k
        made: list[list[int]] = [[] for _ in order]
        for root in self.roots:
            made[place[joint.writer[root]]].append(root)
        result, live = [], set[int]()
        for k in range(len(order)):
            result.append(frozenset(root for root in live if last.get(root, -1) >= k))
            live = set(result[-1]) | set(made[k])
        return result

    @cached_property
    def width(self) -> list[int]:
        """The bytes that cross each place."""
        tensors = self.joint.model.tensors
        return [sum(tensors[root].bytes for root in roots) for roots in self.crossing]

    def cuts(self, segments: int, lo: int, hi: int, snapped: bool) -> list[int]:
        """Return the places that cut nodes `lo` to `hi` into segments; if `snapped`, where the fewest bytes cross
        nearby.
        """
        found = []
        for k in range(1, segments):
            ideal = lo + (hi - lo) * k // segments
            reach = (hi - lo) // (2 * segments) if snapped else 0
            near = range(ideal - reach, ideal + reach + 1)  # within `lo` and `hi`: a segment is as long as two reaches
            found.append(min(near, key=lambda at: (self.width[at], abs(at - ideal), at)))
        return sorted(set(found))

    def classes_across(self, cuts: list[int]) -> frozenset[int]:
        """Return the classes that cross any of the places."""
        return frozenset().union(*(self.crossing[at] for at in cuts))


def segment_counts(nodes: int) -> list[int]:
    """Return numbers of segments to try: all for few nodes, otherwise a geometric series and the square root."""
    if nodes <= SEGMENTS:
        return list(range(1, nodes + 1))
    series = {1 << k for k in range(nodes.bit_length())} | {3 << k for k in range(nodes.bit_length())}
    return sorted({math.isqrt(nodes), *(s for s in series if s <= nodes)})


def chen_policy(classes: Classes) -> Policy:
    """Return the policy of √n segments with equal numbers of nodes: only values that cross segments are kept."""
    count = len(classes.joint.order)
    return Policy(classes.classes_across(classes.cuts(math.isqrt(count), 0, count, snapped=False)))


def segment_policies(classes: Classes) -> Iterator[Policy]:
    """Yield checkpoints between segments, of one level and of two."""
    count = len(classes.joint.order)
    yield chen_policy(classes)
    # Numbers near the square root come first: on large graphs not all are tried.
    near = sorted(segment_counts(count), key=lambda s: (abs(2 * s.bit_length() - count.bit_length()), s))
    for segments in near:
        for snapped in (False, True):
            cuts = classes.cuts(segments, 0, count, snapped)
            kept = classes.classes_across(cuts)
            yield Policy(kept)
            ends = [0, *cuts, count]
            inner: list[int] = []
            for lo, hi in pairwise(ends):
                inner += classes.cuts(max(1, math.isqrt(hi - lo)), lo, hi, snapped)
            yield Policy(kept, classes.classes_across(inner))
            yield Policy(kept, frozenset())


def all_policies(classes: Classes) -> Iterator[Policy]:
    """Yield every policy: each class kept, held once recomputed, or neither."""
    for choice in product(range(3), repeat=len(classes.roots)):
        kept, held = (frozenset(r for r, c in zip(classes.roots, choice, strict=True) if c == k) for k in (0, 1))
        yield Policy(kept, held)
