"""The names of a model in C: unique identifiers, and texts that cannot end a comment. spec: MC2.3"""

from __future__ import annotations

import re

_WORDS = """
auto bool break case char const continue default do double else enum extern false float for goto if inline int
long register restrict return short signed sizeof static struct switch true typedef union unsigned void volatile
while asm typeof errno stdin stdout stderr linux unix weights model unused
"""
KEYWORDS = frozenset(_WORDS.split())
"""The words that cannot be the name of a field or of an array."""

TAKEN = re.compile(r"\d|memory_pool|weight_|constant_|data_of_|[A-Z][A-Z0-9_]{2,}$")
"""Names that begin with a digit or with a prefix of generated names, or that may be macros of a header."""


class Identifiers:
    """C identifiers, one for each name: letters, digits and underscores, numbered if two would be equal.

    None begins with `prefix` and an underscore, as the macros of a model with that prefix do.

    >>> names = Identifiers()
    >>> names.of("layers_0.weight"), names.of("layers_0/weight"), names.of("0"), names.of("layers_0.weight")
    ('layers_0_weight', 'layers_0_weight_2', 't0', 'layers_0_weight')
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = f"{prefix}_" if prefix else " "
        self._of: dict[str, str] = {}
        self._taken: set[str] = set(KEYWORDS)

    def of(self, name: str) -> str:
        """Return the identifier of a name."""
        if name not in self._of:
            stem = re.sub(r"[^0-9A-Za-z]+", "_", name).strip("_") or "t"
            stem = f"t{stem}" if TAKEN.match(stem) or stem.startswith(self._prefix) else stem
            found, count = stem, 1
            while found in self._taken:
                count += 1
                found = f"{stem}_{count}"
            self._taken.add(found)
            self._of[name] = found
        return self._of[name]


def comment(text: str) -> str:
    """Return a text for a comment: printable ASCII without comment delimiters and trigraphs.

    >>> comment("a */ b ??/ \\n")
    'a *_ b ?_/ _'
    """
    plain = re.sub(r"[^ -~]", "_", text).replace("\\", "_")
    return re.sub(r"(?<=\?)\?", "_", re.sub(r"(?<=\*)/", "_", re.sub(r"(?<=/)\*", "_", plain)))
