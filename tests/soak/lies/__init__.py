"""Every way to lie, by the code that the verifier must answer with.

Codes are the names of obligations, for what is refuted, and failure codes, for what is no plan or no model. A lie is
wrong by construction: what makes it wrong is worked out from the plan's columns, and nothing of the verifier is asked.
"""

from __future__ import annotations

from tests.soak.lies import (
    bodies,
    counts,
    envelopes,
    formats,
    homes,
    lifetimes,
    model_files,
    models,
    places,
    ranks,
    sharing,
)
from tests.soak.lies.telling import Files, Lie

__all__ = ["CODES", "LIES", "Files", "Lie"]

LIES: dict[str, Lie] = {
    lie.title: lie
    for part in (places, homes, counts, lifetimes, sharing, bodies, models, envelopes, ranks, formats, model_files)
    for lie in part.LIES
}
"""All lies by title."""

CODES = tuple(dict.fromkeys(lie.code for lie in LIES.values()))
"""Every code that a lie about a plan can reach."""
