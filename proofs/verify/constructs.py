"""Count the constructs of other compilers' files that prevent verdicts, over the files of one run.

A reader refuses a construct that it does not know, or lists one that it cannot decide. Both name its kind, so that the
counts show which one to read next. spec: FP1.18
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from proofs.readers.plans.formats import BY_TITLE
from proofs.verify.verdict import UNKNOWN, Verdict
from tmmu.core.output import list_names

SHOWN = 10
"""The most kinds that text output lists without `-v`."""


def of_reading(reading: dict[str, Any] | None) -> list[str]:
    """Return the kinds of constructs that a reading leaves undecided, each once, with the word for its format."""
    if reading is None:
        return []
    return list(dict.fromkeys(f"{BY_TITLE[reading['format']].kind} {each['kind']}" for each in reading["undecided"]))


def count(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """Return how many files each construct prevents a verdict on, the most frequent first. O(constructs)."""
    stopped = (verdict for verdict in verdicts if verdict.verdict in (UNKNOWN, "ERROR"))
    found = Counter(kind for verdict in stopped for kind in dict.fromkeys(verdict.constructs))
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def lines(counts: dict[str, int], *, verbose: bool) -> Iterator[str]:
    """Yield the counts as text, in one line."""
    if counts:
        kinds = [f"{number} x {kind}" for kind, number in counts.items()]
        more = len(kinds) - SHOWN
        hint = "" if verbose or more <= 0 else " (-v)"
        yield f"unknown constructs: {list_names(kinds, len(kinds) if verbose else SHOWN)}{hint}"
