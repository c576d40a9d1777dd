"""Log-probabilities of a text: a dynamic operation, whose shapes follow from the text, in the memory pool.

Each pass of the session gives some rows of logits. They go to a tensor of the pool, the device computes the
log-probabilities of the tokens that follow, these come back, and the pool is reset before the next pass. spec: FD6.13
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tmmu.foundry.pool import MemoryPool
from tmmu.foundry.session import ModelSession


def log_probabilities(session: ModelSession, tokens: Sequence[int], pool: MemoryPool) -> Iterator[float]:
    """Of each token but the first, given those before it: natural logarithms, computed in float32.

    Takes the tokens into the session's cache, as `ModelSession.prefill`, and raises as that does. The pool is reset
    after each pass: it holds nothing else.
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
