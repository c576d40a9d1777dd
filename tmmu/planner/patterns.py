"""Patterns over names in configurations: `*` is any text. The verifier has a separate implementation."""

from __future__ import annotations

from collections.abc import Sequence


def match_pattern(pattern: str, name: str) -> bool:
    """Return whether `name` matches `pattern`: `*` is any text, every other character is itself.

    The pieces between the stars are found from left to right, each as early as possible: O(name).

    >>> match_pattern("layer*.weight", "layer0.fc1.weight"), match_pattern("*[0]", "w[0]"), match_pattern("a", "ab")
    (True, True, False)
    """
    first, *rest = pattern.split("*")
    if not rest:
        return name == first
    *middle, last = rest
    if not name.startswith(first) or not name.endswith(last) or len(name) < len(first) + len(last):
        return False
    at, end = len(first), len(name) - len(last)
    for piece in middle:
        found = name.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


class NameMatcher:
    """Matches names with several patterns. Patterns without a star are looked up. O(patterns with a star) a name."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._exact = {pattern for pattern in patterns if "*" not in pattern}
        self._others = [pattern for pattern in patterns if "*" in pattern]

    def __call__(self, name: str | None) -> bool:
        """Return whether a pattern matches; None matches no pattern."""
        return name is not None and (
            name in self._exact or any(match_pattern(pattern, name) for pattern in self._others)
        )
