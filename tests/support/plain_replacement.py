"""The definition of page replacement, tile by tile: an oracle that shares no code with `tmmu.mnemosyne.replacement`."""

from __future__ import annotations

from fractions import Fraction


class PlainReplacement:
    """last access + sign · factor · S · w in exact fractions; `unit` takes the place of S where it is given."""

    def __init__(self, sign: int = 1, factor: Fraction = Fraction(1, 2), unit: int | None = None) -> None:
        self.factor, self.unit = sign * factor, unit
        self.clock = 0
        self.last: dict[int, int] = {}
        self.weight: dict[int, Fraction] = {}
        self.held: set[int] = set()

    def __len__(self) -> int:
        return len(self.last)

    def __contains__(self, tile: int) -> bool:
        return tile in self.last

    def insert(self, tile: int, weight: int = 0) -> None:
        self.access(tile)
        self.weight[tile] = Fraction(weight, 65536)

    def access(self, tile: int) -> None:
        self.clock += 1
        self.last[tile] = self.clock

    def attend(self, tile: int, weight: int) -> None:
        self.weight[tile] = Fraction(weight, 65536)

    def remove(self, tile: int) -> None:
        del self.last[tile], self.weight[tile]
        self.held.discard(tile)

    def count(self, tile: int) -> Fraction:
        unit = len(self.last) if self.unit is None else self.unit
        return self.last[tile] + self.factor * unit * self.weight[tile]

    def victim(self) -> int | None:
        return min(self.last.keys() - self.held, key=lambda tile: (self.count(tile), tile), default=None)
