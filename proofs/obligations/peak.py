"""The live bytes of each arena never exceed the stated peak, and reach it at the stated step.

A claim, not a matter of safety: the peak is the lower bound that footprints are compared with. spec: V5.1, A3.3
"""

from __future__ import annotations

from collections.abc import Iterator

from proofs.obligations import levels
from proofs.obligations.context import Context
from proofs.obligations.rows import Batch

NAME = "peak"
SENTENCE = "The live bytes of each arena never exceed the stated peak, and reach it at the stated step."
LEMMAS: tuple[str, ...] = levels.LEMMAS
DEFINITIONS = ""


def rows(context: Context) -> Iterator[Batch]:
    """Two cells for each storage."""
    for arena, usage in enumerate(context.plan.usage):
        yield from levels.reached(context, arena, context.plan.storages.bytes, usage.peak_live_bytes, usage.peak_step)
