"""Show that the storages of two tensors that must not alias have no byte of an arena in common, at any step.

Lifetimes do not matter: such a pair is kept apart even if one is dead when the other is born. spec: T5.1, T7.2
"""

from __future__ import annotations

from collections.abc import Iterator

from proofs.proving.obligations.context import Context, StorageContext
from proofs.proving.obligations.rows import Batch, Place, batch_rows

SENTENCE = "Tensors that must not alias have storages without a common byte."
LEMMAS: tuple[str, ...] = ()
DEFINITIONS = """
(define-fun apart ((arena Int) (offset Int) (bytes Int) (other_arena Int) (other_offset Int) (other_bytes Int)) Bool
  (or (distinct arena other_arena) (= 0 bytes) (= 0 other_bytes)
      (<= (+ offset bytes) other_offset) (<= (+ other_offset other_bytes) offset)))
"""


def rows(context: StorageContext) -> Iterator[Batch]:
    """Yield a row for each declared pair."""
    s, by_tensor = context.placement.storages, isinstance(context, Context)

    def extent(k: int) -> str:
        return f"{int(s.arena[k])} {int(s.offset[k])} {int(s.bytes[k])}"

    pairs = zip(context.placement.must_not_alias, context.placement.storages_apart(), strict=True)
    yield from batch_rows(
        [
            (f"(apart {extent(a)} {extent(b)})", Place(named) if by_tensor else Place(storages=named))
            for named, (a, b) in pairs
        ]
    )
