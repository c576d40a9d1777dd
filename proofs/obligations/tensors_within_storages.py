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
                    (storage_birth Int) (birth Int) (death Int) (storage_death Int) (last Int)) Bool
  (and (<= (+ window bytes) storage_bytes) (<= storage_birth birth) (<= birth death) (<= death storage_death)
       (<= storage_death last)))
(define-fun within_steps ((birth Int) (death Int) (last Int)) Bool (and (<= birth death) (<= death last)))
"""


def rows(context: Context) -> Iterator[Batch]:
    """A row for each tensor and its storage, and one for each different lifetime of storages without tensors."""
    t, s = context.plan.allocation.tensors, context.plan.allocation.storages
    home = t.storage
    steps: list[Column] = [s.birth[home], t.birth, t.death, s.death[home], np.full(len(t), context.last)]
    yield from table("inside", [t.window, t.bytes, s.bytes[home], *steps], lambda i: Place((i,)))
    empty = np.setdiff1d(np.arange(len(s)), home)
    steps = [s.birth[empty], s.death[empty], np.full(len(empty), context.last)]
    yield from distinct("within_steps", steps, lambda i: Place(storages=(int(empty[i]),)))
