"""Represent the mesh of a shard spec: the place of a rank, and the elements of a dimension that it holds.

spec: R7.1, R7.6, R7.8
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Part(NamedTuple):
    """A rank's part of one dimension: `held` elements from `start` on, in `chunk` places."""

    start: int
    held: int
    chunk: int


class Mesh:
    """The axes of a spec and the strides of their coordinates in a rank's number."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.axes: list[str] = [name for name, _ in spec.get("mesh", ())]
        self.size: dict[str, int] = dict(spec.get("mesh", ()))
        self.stride: dict[str, int] = {}
        self.ranks = 1
        for name in reversed(self.axes):
            self.stride[name] = self.ranks
            self.ranks *= self.size[name]

    def at(self, rank: int, axis: str) -> int:
        """Return the coordinate of a rank on an axis.

        >>> Mesh({"mesh": [["data", 2], ["tensor", 4]]}).at(5, "tensor")
        1
        """
        return rank // self.stride[axis] % self.size[axis]

    def part(self, elements: int, axis: str, rank: int) -> Part:
        """Return a rank's part of a dimension that `axis` splits ("" for none): equal chunks, the last ones padded.

        >>> Mesh({"mesh": [["data", 4]]}).part(5, "data", 2)
        Part(start=4, held=1, chunk=2)
        """
        if not axis:
            return Part(0, elements, elements)
        chunk = (elements + self.size[axis] - 1) // self.size[axis]
        first, end = (min(elements, k * chunk) for k in (self.at(rank, axis), self.at(rank, axis) + 1))
        return Part(first, end - first, chunk)

    def chunks(self, shape: Sequence[int], split: Sequence[str]) -> tuple[int, ...]:
        """Return the shape of every rank's part."""
        return tuple(self.part(n, axis, 0).chunk for n, axis in zip(shape, split, strict=True))
