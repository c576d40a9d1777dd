"""Log-probabilities of a text: a dynamic operation in the memory pool, because its shapes follow from the text.

Each pass of the session returns some rows of logits. They are uploaded to a tensor of the pool, and the device computes
the log-probabilities of the tokens that follow. These are downloaded, and the pool is reset before the next pass.
spec: FD6.13
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tmmu.foundry.pool import MemoryPool
from tmmu.foundry.session import ModelSession


def compute_log_probabilities(session: ModelSession, tokens: Sequence[int], pool: MemoryPool) -> Iterator[float]:
    """Yield the log-probability of each token but the first, given those before it: natural, computed in float32.

    Takes the tokens into the cache of the session, and raises, as `ModelSession.prefill` does. The pool must hold
    nothing else: it is reset after each pass.
    """
    first = 0
    for logits in session.passes(tokens):
        following = tokens[first + 1 : first + 1 + len(logits)]
        first += len(logits)
        values = pool.allocate(logits.shape, np.float32)
        found = pool.allocate((len(logits),), np.float32)
        values.upload(logits.astype(np.float32))

        def compute(values: Any, found: Any, following: Sequence[int] = following) -> None:
            values -= values.max(axis=1, keepdims=True)
            found[...] = -np.log(np.exp(values).sum(axis=1))
            for row, token in enumerate(following):
                found[row] += values[row, token]

        pool.submit(compute, writes=(values, found))
        yield from found.download()[: len(following)].tolist()
        pool.reset()
