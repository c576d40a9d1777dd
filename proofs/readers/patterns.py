"""Patterns over names, as the verifier reads them: `*` is any text, and everything else stands for itself."""

from __future__ import annotations


def fits(pattern: str, text: str) -> bool:
    """Whether `text` is `pattern` with a text in place of each `*`: read along both, going back to the last star.

    >>> fits("a*b*", "axxb"), fits("*", ""), fits("a.c", "abc")
    (True, True, False)
    """
    p = t = 0
    star = -1
    after = 0  # where the text that the last star stands for may end next
    while t < len(text):
        if p < len(pattern) and pattern[p] == "*":
            star, after = p, t
            p += 1
        elif p < len(pattern) and pattern[p] == text[t]:
            p, t = p + 1, t + 1
        elif star >= 0:
            after += 1
            p, t = star + 1, after
        else:
            return False
    return not pattern[p:].strip("*")
