"""Match patterns over names, as the verifier reads them: `*` is any text, and every other character matches itself."""

from __future__ import annotations

from collections.abc import Iterable


def fits(pattern: str, text: str) -> bool:
    """Whether `text` is `pattern` with a text in place of each `*`. O(text).

    The text between two stars is searched behind the part that matched before, at the earliest position.

    >>> fits("a*b*", "axxb"), fits("*", ""), fits("a.c", "abc"), fits("ab*ba", "aba")
    (True, True, False, False)
    """
    start, star, rest = pattern.partition("*")
    if not star:
        return pattern == text
    if not text.startswith(start):
        return False
    at = len(start)
    while True:
        part, star, rest = rest.partition("*")
        if not star:
            return len(text) - at >= len(part) and text.endswith(part)
        at = text.find(part, at)
        if at < 0:
            return False
        at += len(part)


class Patterns:
    """Several patterns, to match one of them. All patterns without a star together cost one look-up."""

    def __init__(self, patterns: Iterable[str]) -> None:
        every = frozenset(patterns)
        self.starred = tuple(sorted(pattern for pattern in every if "*" in pattern))
        self.names = every.difference(self.starred)

    def match(self, text: str) -> bool:
        """Whether one of them matches. O(patterns with a star)."""
        return text in self.names or any(fits(pattern, text) for pattern in self.starred)
