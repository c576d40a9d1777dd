"""Each tensor lies within its storage, in bytes and in steps, and each storage within the steps of the plan.

What is shown of storages (that they do not collide, that they are in bounds) then holds for the tensors in them.
spec: T2.1, T2.2, T2.10, T2.11, T1.1
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from proofs.obligations.context import Context
from proofs.obligations.rows import Batch, Column, Place, distinct, table

SENTENCE = "Each tensor lies within its storage, in bytes and in steps."
LEMMAS: tuple[str, ...] = ()
DEFINITIONS = """
(define-fun inside ((window Int) (bytes Int) (storage_bytes Int)
                    (storage_birth Int) (birth Int) (death Int) (storage_death Int)) Bool
  (and (<= (+ window bytes) storage_bytes) (<= storage_birth birth) (<= birth death) (<= death storage_death)))
(define-fun within_steps ((birth Int) (death Int) (last Int)) Bool (and (<= birth death) (<= death last)))
"""


def rows(context: Context) -> Iterator[Batch]:
    """A row for each tensor, and one for each different lifetime of a storage."""
    t, s = context.plan.allocation.tensors, context.plan.allocation.storages
    home = t.storage
    columns: list[Column] = [t.window, t.bytes, s.bytes[home], s.birth[home], t.birth, t.death, s.death[home]]
    yield from table("inside", columns, lambda i: Place((i,)))
    last = np.full(len(s), context.last)
    yield from distinct("within_steps", [s.birth, s.death, last], lambda i: Place(storages=(i,)))
