"""Find the first and the last access of each storage on each stream: they decide whether two storages are ordered.

spec: X5.10, X5.11, V4.3
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from proofs.proving.certificate.clocks import Clocks, Numbers


@dataclass(frozen=True)
class StorageEnds:
    """A row for each storage and a column for each stream: the first and the last step there that accesses it, or -1.

    `given` marks the storages that the caller accesses before all steps, and `returned` those after all steps.
    """

    first: Numbers
    last: Numbers
    given: NDArray[np.bool_]
    returned: NDArray[np.bool_]


def find_storage_ends(
    clocks: Clocks, step: Numbers, storage: Numbers, given: NDArray[np.bool_], returned: NDArray[np.bool_]
) -> StorageEnds:  # fmt: skip
    """Find the ends, from the accesses of steps in any order. A storage without accesses counts as given."""
    count, streams = len(given), int(clocks.stream.max(initial=-1)) + 1
    first = np.full((count, streams), len(clocks.stream), np.int64)
    last = np.full((count, streams), -1, np.int64)
    np.minimum.at(first, (storage, clocks.stream[step]), step)
    np.maximum.at(last, (storage, clocks.stream[step]), step)
    return StorageEnds(np.where(last < 0, -1, first), last, given | (last < 0).all(axis=1), returned)
