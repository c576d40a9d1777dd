"""Tight sets of buffers: a rectangle of steps x bytes is cut into boxes, so a placement without a free byte exists.

Each family cuts in its own way. The boxes are shuffled, and nothing but lives and sizes is returned.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from tmmu.planner.layouts.boxes import Boxes


class Cut(NamedTuple):
    """A box: steps from `birth` up to, but without, `end`; bytes from `low` up to, but without, `high`."""

    birth: int
    end: int
    low: int
    high: int


class CutFamily(NamedTuple):
    """How boxes are cut: how often between steps, how often into five around a center, and at which bytes otherwise."""

    between_steps: float
    pinwheels: float
    byte: Callable[[random.Random, int, int], int]


def _any_byte(rng: random.Random, low: int, high: int) -> int:
    return rng.randint(low + 1, high - 1)


def _equal_byte(rng: random.Random, low: int, high: int) -> int:
    """Cut into a number of equal sizes, as far as they divide."""
    return low + max(1, (high - low) // rng.choice((2, 2, 3, 4)))


FAMILIES = {
    "guillotine": CutFamily(0.45, 0, _any_byte),
    "pinwheels": CutFamily(0.4, 0.3, _any_byte),
    "equal sizes": CutFamily(0.5, 0.1, _equal_byte),
    "long lives": CutFamily(0.2, 0.1, _any_byte),
    "short lives": CutFamily(0.7, 0.1, _any_byte),
}
"""The families by name."""


def cut_tight(family: CutFamily, seed: int, count: int, steps: int, height: int) -> Boxes:
    """Return at least `count` boxes, if the rectangle can be cut so often, in random order."""
    rng = random.Random(seed)
    parts, whole = [Cut(0, steps, 0, height)], list[Cut]()
    while parts and len(parts) + len(whole) < count:
        parts.sort(key=lambda part: (part.end - part.birth) * (part.high - part.low))
        cut = parts.pop(-1 - min(int(rng.expovariate(1)), len(parts) - 1))
        pieces = _cut(rng, family, cut)
        (parts if pieces else whole).extend(pieces or [cut])
    parts += whole
    rng.shuffle(parts)
    return Boxes(
        [part.birth for part in parts], [part.end - 1 for part in parts], [part.high - part.low for part in parts],
        [1] * len(parts), {},
    )  # fmt: skip


def _cut(rng: random.Random, family: CutFamily, part: Cut) -> list[Cut]:
    birth, end, low, high = part
    if rng.random() < family.pinwheels and end - birth > 2 and high - low > 2:
        s, t = sorted(rng.sample(range(birth + 1, end), 2))
        a, b = sorted(rng.sample(range(low + 1, high), 2))
        center = Cut(s, t, a, b)
        return [Cut(birth, t, low, a), Cut(t, end, low, b), Cut(s, end, b, high), Cut(birth, s, a, high), center]
    if end - birth > 1 and (rng.random() < family.between_steps or high - low < 2):
        s = rng.randint(birth + 1, end - 1)
        return [Cut(birth, s, low, high), Cut(s, end, low, high)]
    if high - low > 1:
        a = family.byte(rng, low, high)
        return [Cut(birth, end, low, a), Cut(birth, end, a, high)]
    return []
