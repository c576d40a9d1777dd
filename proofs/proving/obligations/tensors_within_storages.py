"""Show that each tensor is within its storage, in bytes and in steps, and each storage within the plan's steps.

The other facts about storages, such as that they do not collide and are in bounds, then hold for their tensors too.
spec: T2.1, T2.2, T2.10, T2.11, T1.1
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from proofs.proving.lemmas.plan import merged
from proofs.proving.obligations.context import Context
from proofs.proving.obligations.rows import Batch, Column, Place, call_for_each_distinct_row, call_for_each_row

SENTENCE = "Each tensor is within its storage, in bytes and in steps."
LEMMAS: tuple[str, ...] = ("what_is_its_storage_lies_inside",)
DEFINITIONS = merged.INSIDE + merged.WITHIN_STEPS


def rows(context: Context) -> Iterator[Batch]:
    """Yield a row for each tensor, and one for each distinct lifetime of storages without tensors.

    The row of a tensor that fills its storage is about the tensor only; any other row compares it with its storage.
    """
    t, s = context.plan.allocation.tensors, context.plan.allocation.storages
    home = t.storage
    is_all = (t.window == 0) & (t.bytes == s.bytes[home]) & (t.birth == s.birth[home]) & (t.death == s.death[home])
    alone, some = np.flatnonzero(is_all), np.flatnonzero(~is_all)
    steps: list[Column] = [t.birth[alone], t.death[alone], np.full(len(alone), context.last)]
    yield from call_for_each_row("within_steps", steps, lambda i: Place((int(alone[i]),)))
    home = home[some]
    steps = [s.birth[home], t.birth[some], t.death[some], s.death[home], np.full(len(some), context.last)]
    columns = [t.window[some], t.bytes[some], s.bytes[home], *steps]
    yield from call_for_each_row("inside", columns, lambda i: Place((int(some[i]),)))
    empty = np.flatnonzero(np.bincount(t.storage, minlength=len(s)) == 0)
    steps = [s.birth[empty], s.death[empty], np.full(len(empty), context.last)]
    yield from call_for_each_distinct_row("within_steps", steps, lambda i: Place(storages=(int(empty[i]),)))
