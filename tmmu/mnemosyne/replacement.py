"""Choose the tile to evict: the one of least value, by its last access and the attention that its tokens receive.

The value of a tile is last access + λ · S · w. S is the number of resident tiles, and w the mean attention of its
tokens, in [0, 1] as an integer over 2^16; λ is 1/2. Among equal values the lowest tile goes. The document subtracts the
attention instead, and so evicts the tiles with the most attention.

For a fixed S each tile has one value, and a tournament tree yields the least. An access changes one leaf. The next
choice replays only the matches above it that the leaf had won: O(log n), each at most once. A change of S changes the
order of the values. So each match has a range of S in which its winner stays the least below it, and a choice at
another S replays only the matches whose range it has left. If one tile comes in for each that goes out, it replays
none. spec: MN3.1 to MN3.4
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
            raise ValueError(f"expected a positive λ, got {factor}")
        self.clock = self.matches = 0
        self.factor = factor
        self._scale, self._factor = factor.denominator * ONE, factor.numerator
        self._slots: dict[int, int] = {}
        self._free: list[int] = []
        self._tiles: list[int] = []
        self._last: list[int] = []
        self._weight: list[int] = []
        self._held: set[int] = set()  # slots that cannot be chosen
        self._changed: set[int] = set()  # all matches above these slots are replayed before the next choice
        self._accessed: set[int] = set()  # slots whose value has grown: the matches that they had lost stay lost
        self._residents = 0  # at the last choice: the S of the matches in the tree
        self._leaves = 0
        self._grow()

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, tile: int) -> bool:
        return tile in self._slots

    @property
    def held(self) -> int:
        """The number of residents that are held."""
        return len(self._held)

    def insert(self, tile: int, weight: int = 0) -> None:
        """Make a tile resident, accessed now. O(log n), amortised; most of it is spent at the next choice."""
        if not self._free:
            self._grow()
        slot = self._slots[tile] = self._free.pop()
        self.clock += 1
        self._tiles[slot], self._last[slot], self._weight[slot] = tile, self.clock, weight
        self._changed.add(slot)

    def access(self, tile: int) -> None:
        """Record an access to a resident tile.

        O(log n), mostly less: its value grows, so the matches that it lost stay lost.
        """
        slot = self._slots[tile]
        self.clock += 1
        self._last[slot] = self.clock
        self._accessed.add(slot)

    def attend(self, tile: int, weight: int) -> None:
        """Set the weight of a resident tile, 0 to `ONE`. O(log n)."""
        slot = self._slots[tile]
        self._weight[slot] = weight
        self._changed.add(slot)

    def hold(self, tile: int) -> None:
        """Exclude a resident tile from the choice until `free`. It still counts as resident. O(log n)."""
        slot = self._slots[tile]
        self._held.add(slot)
        self._changed.add(slot)

    def free(self, tile: int) -> None:
        """End `hold`. O(log n)."""
        slot = self._slots[tile]
        self._held.discard(slot)
        self._changed.add(slot)

    def remove(self, tile: int) -> tuple[int, int]:
        """Remove a tile from the residents, and return its last access and its weight. O(log n)."""
        slot = self._slots.pop(tile)
        self._held.discard(slot)
        self._tiles[slot] = -1
        self._free.append(slot)
        self._changed.add(slot)
        return self._last[slot], self._weight[slot]

    def victim(self) -> int | None:
        """Return the tile of least value, the lowest among equals, or None if all are held. It stays resident.

        O(1) if there are as many residents as at the last choice; otherwise plus the matches whose result changes.
        """
        self._residents = len(self)
        self._play_above()
        self._play_again(1)
        slot = self._winner[1]
        return None if slot < 0 else self._tiles[slot]

    def by_weight(self) -> Iterator[tuple[int, bool]]:
        """Yield the residents by weight, then by last access, each with whether it is held. O(n log n)."""
        for slot in sorted(self._slots.values(), key=lambda slot: (self._weight[slot], self._last[slot])):
            yield self._tiles[slot], slot in self._held

    def _grow(self) -> None:
        """Double the leaves, and play all matches again."""
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
        """Replay the matches that changed since the last choice, level by level, each once."""
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
        """Replay the matches at and below `node` whose range does not contain the current S.

        Recursion is as deep as the tree.
        """
        if not self._from[node] <= self._residents <= self._to[node]:
            self._play_again(2 * node)
            self._play_again(2 * node + 1)
            self._play(node)

    def _play(self, node: int) -> None:
        """Decide the match at `node`, and compute the range of S in which the matches from it down stay as they are."""
        one, other = self._winner[2 * node], self._winner[2 * node + 1]
        least = max(self._from[2 * node], self._from[2 * node + 1])
        most = min(self._to[2 * node], self._to[2 * node + 1])
        self.matches += 1
        if one < 0 or other < 0:
            self._winner[node] = max(one, other)
        else:
            if self._count(other) < self._count(one):
                one, other = other, one
            # `one` has less value for all S with recency + S · attention < 0, or = 0 if it is the lower tile
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
    """Compute the weight of each tile: the mean attention of its tokens, over 2^16.

    Parameters
    ----------
    attention
        [tokens], each in [0, 1]; otherwise ValueError.
    token_bytes, tile_bytes
        The bytes of a token and of a tile, positive. A token belongs to every tile that has a byte of it.
    offset
        The byte of the first tile at which the first token begins; a tile without tokens has weight 0.
    """
    scores = np.asarray(attention, np.float64)
    if scores.ndim != 1 or not bool(((scores >= 0) & (scores <= 1)).all()):
        raise ValueError("expected attention as one number in [0, 1] for each token")
    if min(token_bytes, tile_bytes) < 1 or offset < 0:
        raise ValueError("expected positive bytes of tokens and tiles and an offset of at least 0")
    sums = np.concatenate([[0.0], np.cumsum(scores)])
    weights = []
    for begin in range(0, offset + len(scores) * token_bytes, tile_bytes):
        first = max(begin - offset, 0) // token_bytes
        last = min(max(-(-(begin + tile_bytes - offset) // token_bytes), first), len(scores))
        weights.append(round(float(sums[last] - sums[first]) / (last - first) * ONE) if last > first else 0)
    return weights
