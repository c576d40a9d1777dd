"""Which tile goes: the one that counts least, by its last access and the attention that its tokens get.

A tile counts last access + λ · S · w, where S is the number of resident tiles and w the mean attention of its tokens,
in [0, 1] as an integer over 2^16; λ is 1/2. Of equal ones the lowest goes. The document subtracts the attention, and
evicts what is attended most.

For one S this is a number per tile, and a tournament tree has the least of them: an access changes one leaf, and the
next choice plays the matches above it that the leaf had won, O(log n), none twice. S moves the numbers against each
other. So each match has a range of S for which its winner is the least below it, and a choice at another S plays again
those alone whose range it has left: none where one tile comes in for each that goes out. spec: MN3.1 to MN3.4
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

ONE = 1 << 16
"""The weight of a tile whose tokens have attention 1."""

LAMBDA = Fraction(1, 2)


class SemanticReplacement:
    """The resident tiles of a store, by number. `matches` counts the matches played.

    Parameters
    ----------
    factor
        λ, positive.
    """

    def __init__(self, factor: Fraction = LAMBDA) -> None:
        if factor <= 0:
            raise ValueError(f"λ is {factor}, and must be positive")
        self.clock = self.matches = 0
        self.factor = factor
        self._scale, self._factor = factor.denominator * ONE, factor.numerator
        self._slots: dict[int, int] = {}
        self._free: list[int] = []
        self._tiles: list[int] = []
        self._last: list[int] = []
        self._weight: list[int] = []
        self._held: set[int] = set()  # slots that are no candidates
        self._changed: set[int] = set()  # slots above which all matches are to be played before the next choice
        self._accessed: set[int] = set()  # those that count more than they did: what they had lost stays lost
        self._residents = 0  # at the last choice: what the tree is played for
        self._leaves = 0
        self._grow()

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, tile: int) -> bool:
        return tile in self._slots

    @property
    def held(self) -> int:
        """How many residents are held."""
        return len(self._held)

    def insert(self, tile: int, weight: int = 0) -> None:
        """A tile becomes resident, accessed now. O(log n), amortised, of which the next choice takes most."""
        if not self._free:
            self._grow()
        slot = self._slots[tile] = self._free.pop()
        self.clock += 1
        self._tiles[slot], self._last[slot], self._weight[slot] = tile, self.clock, weight
        self._changed.add(slot)

    def access(self, tile: int) -> None:
        """A resident tile is accessed. O(log n), mostly less: it counts more, so what it had lost stays lost."""
        slot = self._slots[tile]
        self.clock += 1
        self._last[slot] = self.clock
        self._accessed.add(slot)

    def attend(self, tile: int, weight: int) -> None:
        """The weight of a resident tile, 0 to `ONE`. O(log n)."""
        slot = self._slots[tile]
        self._weight[slot] = weight
        self._changed.add(slot)

    def hold(self, tile: int) -> None:
        """A resident tile is no candidate until `free`, and counts as resident. O(log n)."""
        slot = self._slots[tile]
        self._held.add(slot)
        self._changed.add(slot)

    def free(self, tile: int) -> None:
        """The end of `hold`. O(log n)."""
        slot = self._slots[tile]
        self._held.discard(slot)
        self._changed.add(slot)

    def remove(self, tile: int) -> tuple[int, int]:
        """A tile is resident no longer; gives its last access and its weight. O(log n)."""
        slot = self._slots.pop(tile)
        self._held.discard(slot)
        self._tiles[slot] = -1
        self._free.append(slot)
        self._changed.add(slot)
        return self._last[slot], self._weight[slot]

    def victim(self) -> int | None:
        """The tile that counts least, the lowest of equal ones; None where all are held. It stays resident.

        O(1) for as many residents as at the last choice; else also the matches that turn out otherwise now.
        """
        self._residents = len(self)
        self._play_above()
        self._play_again(1)
        slot = self._winner[1]
        return None if slot < 0 else self._tiles[slot]

    def by_weight(self) -> Iterator[tuple[int, bool]]:
        """The residents by weight and, of equal ones, last access, each with: is it held? O(n log n)."""
        for slot in sorted(self._slots.values(), key=lambda slot: (self._weight[slot], self._last[slot])):
            yield self._tiles[slot], slot in self._held

    def _grow(self) -> None:
        """Twice as many leaves, and all matches anew."""
        old, self._leaves = self._leaves, max(2 * self._leaves, 8)
        more = self._leaves - old
        self._tiles += [-1] * more
        self._last += [0] * more
        self._weight += [0] * more
        self._free += reversed(range(old, self._leaves))
        self._winner = [-1] * (2 * self._leaves)
        self._from, self._to = [0.0] * (2 * self._leaves), [math.inf] * (2 * self._leaves)
        for slot in self._slots.values():
            self._winner[self._leaves + slot] = -1 if slot in self._held else slot
        for node in range(self._leaves - 1, 0, -1):
            self._play(node)

    def _play_above(self) -> None:
        """The matches that changed since the last choice, level by level: each once."""
        for slot in self._changed:
            self._winner[self._leaves + slot] = -1 if self._tiles[slot] < 0 or slot in self._held else slot
        changed = {(self._leaves + slot) // 2 for slot in self._changed}
        above = {(self._leaves + slot) // 2 for slot in self._accessed}
        while changed or above:
            played = changed | {node for node in above if self._winner[node] in self._accessed}
            for node in played:
                self._play(node)
            changed = {node // 2 for node in changed if node > 1}
            above = {node // 2 for node in played if node > 1}
        self._changed, self._accessed = set(), set()

    def _play_again(self, node: int) -> None:
        """The matches at and below `node` whose range has been left; the depth is that of the tree."""
        if not self._from[node] <= self._residents <= self._to[node]:
            self._play_again(2 * node)
            self._play_again(2 * node + 1)
            self._play(node)

    def _play(self, node: int) -> None:
        """The winner of `node`, and for which numbers of residents the matches at and below it are as they are."""
        one, other = self._winner[2 * node], self._winner[2 * node + 1]
        least = max(self._from[2 * node], self._from[2 * node + 1])
        most = min(self._to[2 * node], self._to[2 * node + 1])
        self.matches += 1
        if one < 0 or other < 0:
            self._winner[node] = max(one, other)
        else:
            if self._count(other) < self._count(one):
                one, other = other, one
            # `one` counts less for all S with recency + S · attention < 0, or = 0 where it is the lower tile
            recency = self._scale * (self._last[one] - self._last[other])
            attention = self._factor * (self._weight[one] - self._weight[other])
            room = -recency - (self._tiles[one] > self._tiles[other])
            if attention > 0:
                most = min(most, room // attention)
            elif attention < 0:
                least = max(least, -(room // -attention))
            self._winner[node] = one
        self._from[node], self._to[node] = least, most

    def _count(self, slot: int) -> tuple[int, int]:
        return (
            self._scale * self._last[slot] + self._factor * self._residents * self._weight[slot],
            self._tiles[slot],
        )


def tile_weights(attention: NDArray[np.floating], token_bytes: int, tile_bytes: int, offset: int = 0) -> list[int]:
    """The weight of each tile: the mean attention of its tokens, over 2^16.

    Parameters
    ----------
    attention
        [tokens], each in [0, 1]; ValueError else.
    token_bytes, tile_bytes
        The bytes of a token and of a tile, positive. A token belongs to every tile that has a byte of it.
    offset
        The byte of the first tile at which the first token begins; a tile without tokens has weight 0.
    """
    scores = np.asarray(attention, np.float64)
    if scores.ndim != 1 or not bool(((scores >= 0) & (scores <= 1)).all()):
        raise ValueError("attention is one number in [0, 1] for each token")
    if min(token_bytes, tile_bytes) < 1 or offset < 0:
        raise ValueError("the bytes of tokens and tiles are positive, and the offset is not negative")
    sums = np.concatenate([[0.0], np.cumsum(scores)])
    weights = []
    for begin in range(0, offset + len(scores) * token_bytes, tile_bytes):
        first = max(begin - offset, 0) // token_bytes
        last = min(max(-(-(begin + tile_bytes - offset) // token_bytes), first), len(scores))
        weights.append(round(float(sums[last] - sums[first]) / (last - first) * ONE) if last > first else 0)
    return weights
