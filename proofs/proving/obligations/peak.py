"""Show that the live bytes of each arena never exceed the stated peak, and reach it at the stated step.

The peak is a claim and does not affect safety: it is the lower bound that footprints are compared with.
spec: V5.1, A3.3
"""

from __future__ import annotations

from collections.abc import Iterator

from proofs.proving.certificate.slots import step_of_largest_total
from proofs.proving.obligations import levels
from proofs.proving.obligations.context import StorageContext
from proofs.proving.obligations.rows import Batch

SENTENCE = "The live bytes of each arena never exceed the stated peak, and reach it at the stated step."
LEMMAS: tuple[str, ...] = levels.LEMMAS
DEFINITIONS = ""


def rows(context: StorageContext) -> Iterator[Batch]:
    """Yield two cells for each storage of an arena with a claimed peak."""
    size = context.placement.storages.bytes
    for arena, usage in enumerate(() if context.claims is None else context.claims.usage):
        if usage.peak_live_bytes is not None:
            step = usage.peak_step
            at = step_of_largest_total(context.certificate.changes[arena], size) if step is None else step
            yield from levels.level_rows(context, arena, size, usage.peak_live_bytes, at)
