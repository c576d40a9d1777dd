"""Find shapes of an envelope that make two sizes differ. spec: R6.5, R6.6"""

from __future__ import annotations

from collections.abc import Mapping

from tmmu.core.dims.expressions import Dim, Unwieldy
from tmmu.core.dims.maxima import maximum, minimum


def find_difference(difference: Dim, ranges: Mapping[str, tuple[int, int]], inside: bool) -> dict[str, int] | None:
    """Return a shape that makes the difference not 0 or, with `inside`, less than 0. Returns None if none is found."""
    for found in (minimum(difference), None if inside else maximum(difference)):
        if found is not None and (found.value < 0 if inside else found.value != 0):
            return shape_at(ranges, found.point)
    return None


def find_shape_apart(one: Dim, other: Dim, ranges: Mapping[str, tuple[int, int]]) -> dict[str, int] | None:
    """Return a shape that makes two sizes differ, or None if none is found."""
    try:
        return find_difference(one - other, ranges, inside=False)
    except Unwieldy:
        return None


def shape_at(ranges: Mapping[str, tuple[int, int]], point: Mapping[str, int]) -> dict[str, int]:
    """Return a shape with all dimensions: those that `point` does not have are at their least."""
    return {name: point.get(name, low) for name, (low, _) in ranges.items()}
