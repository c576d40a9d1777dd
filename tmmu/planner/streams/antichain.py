"""Find the heaviest antichain of an order of storages, and the chains that prove that none is heavier.

By Dilworth's theorem the largest antichain has as many storages as the fewest chains that contain every storage. A
chain is a slot: each of its storages may give its bytes to the next. With weights, the heaviest antichain has the
weight of the least flow that gives every storage its weight. Both are a maximum flow between two copies of the
storages, from each storage to those that it is before. Dinic's algorithm finds it in phases, on sets of bits instead of
lists of edges; with weights of one it is Hopcroft and Karp's matching. The antichain is read off the last phase, as
König's theorem has it. An antichain need not be live at any one moment. spec: X6.2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tmmu.planner.streams.storages import StoragePrecedence

EXACT = 20_000
"""The most storages whose fewest slots are computed exactly; a set of bits for each takes n²/8 bytes together."""


@dataclass(frozen=True)
class Antichain:
    """Storages of which none is before another, and their weight: no antichain is heavier.

    `next` is the storage that follows each one in its chain, or -1. If every weight is 1, there are as many chains as
    storages in the antichain.
    """

    storages: list[int]
    weight: int
    next: list[int]

    def chains(self) -> list[list[int]]:
        """Return the chains, each from its first storage to its last."""
        is_later = set(self.next)
        found = []
        for k in range(len(self.next)):
            if k not in is_later:
                chain = [k]
                while self.next[chain[-1]] >= 0:
                    chain.append(self.next[chain[-1]])
                found.append(chain)
        return found


def find_antichain(order: StoragePrecedence, weights: Sequence[int] | None = None) -> Antichain:
    """Return the heaviest antichain of an order; every storage weighs 1 by default.

    Weights are not negative. O(n² sqrt(n) / 64) words for equal weights, and n²/8 bytes.
    """
    flow = _Flow(order.followers(), [1] * len(order) if weights is None else list(weights))
    while flow.find_layers():
        flow.augment()
    following = [-1] * len(order)
    for v, carried in enumerate(flow.carried):
        for u in carried:
            following[u] = v
    storages = [k for k in range(len(order)) if flow.weights[k] and k in flow.reached and flow.unseen >> k & 1]
    return Antichain(storages, sum(flow.weights[k] for k in storages), following)


class _Flow:
    """A flow from storages ("givers") to those that they are before ("takers"), and the layers of one phase.

    `giving` and `taking` are the weights that each storage can still give and take; `open` is the set of those that can
    take. `carried[v]` is what taker `v` takes from each giver. A layer is a set of takers.
    """

    def __init__(self, followers: list[int], weights: list[int]) -> None:
        self.followers, self.weights = followers, weights
        self.giving, self.taking = list(weights), list(weights)
        self.open = sum(1 << v for v, weight in enumerate(weights) if weight)
        self.carried: list[dict[int, int]] = [{} for _ in weights]
        self.layers: list[int] = []
        self.reached: dict[int, int] = {}
        self.unseen = 0
        self._give_greedily()

    def _give_greedily(self) -> None:
        """Begin with a flow that is often nearly the largest: storages with the fewest followers give first."""
        for u in sorted(range(len(self.weights)), key=lambda u: self.followers[u].bit_count()):
            while self.giving[u] and (able := self.followers[u] & self.open):
                self._push([u], [able.bit_length() - 1])

    def find_layers(self) -> bool:
        """Find the takers at each distance from givers that can still give; return whether one can still take.

        `reached` states the distance of each giver, `unseen` is the set of takers that no path reaches.
        """
        self.layers, self.reached = [], {u: 0 for u, rest in enumerate(self.giving) if rest}
        self.unseen = (1 << len(self.weights)) - 1
        givers = list(self.reached)
        while givers:
            layer = 0
            for u in givers:
                layer |= self.followers[u]
            layer &= self.unseen
            self.unseen &= ~layer
            self.layers.append(layer)
            if layer & self.open:
                return True
            givers = []
            for v in _members(layer):
                for u in self.carried[v]:
                    if u not in self.reached:
                        self.reached[u] = len(self.layers)
                        givers.append(u)
        return False

    def augment(self) -> None:
        """Push flow along shortest paths until each of them has a storage or an edge that carries no more."""
        for start in [u for u, depth in self.reached.items() if depth == 0]:
            while self.giving[start] and (path := self._find_path(start)) is not None:
                self._push(*path)

    def _find_path(self, start: int) -> tuple[list[int], list[int]] | None:
        """Return the givers and the takers of a path through the layers to a taker that can take, or None.

        Removes storages from the layers that no path leads on from.
        """
        givers, takers = [start], list[int]()
        while givers:
            depth, u = len(givers) - 1, givers[-1]
            able = self.followers[u] & self.layers[depth]
            if depth == len(self.layers) - 1:
                able &= self.open
            if not able:
                del self.reached[givers.pop()]
                if takers:
                    takers.pop()
                continue
            v = able.bit_length() - 1
            if depth == len(self.layers) - 1:
                return givers, [*takers, v]
            further = next((w for w in self.carried[v] if self.reached.get(w) == depth + 1), None)
            if further is None:
                self.layers[depth] ^= 1 << v
            else:
                takers.append(v)
                givers.append(further)
        return None

    def _push(self, givers: list[int], takers: list[int]) -> None:
        """Push as much as possible along a path: each giver gives to its taker, and takes back from the one before."""
        start, end = givers[0], takers[-1]
        back = list(zip(takers, givers[1:], strict=False))
        amount = min(self.giving[start], self.taking[end], *(self.carried[v][u] for v, u in back))
        self.giving[start] -= amount
        self.taking[end] -= amount
        for v, u in back:
            self.carried[v][u] -= amount
            if not self.carried[v][u]:
                del self.carried[v][u]
        for u, v in zip(givers, takers, strict=True):
            self.carried[v][u] = self.carried[v].get(u, 0) + amount
        if not self.taking[end]:
            self.open ^= 1 << end


def _members(bits: int) -> list[int]:
    """Return the members of a set of bits, in ascending order."""
    text = bin(bits)[:1:-1]
    found, at = [], text.find("1")
    while at >= 0:
        found.append(at)
        at = text.find("1", at + 1)
    return found
