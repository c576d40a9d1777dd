"""Storage modes: who may access the bytes of a buffer, and which mode each kind of tensor has. spec: FD1.1 to FD1.3"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple


class StorageMode(Enum):
    """Private memory is the device's own; Shared memory is also the host's."""

    PRIVATE = "Private"
    SHARED = "Shared"


class TensorType(Enum):
    """The kinds of tensors of the document's section 4."""

    WEIGHTS = "Weights"
    KV_CACHE = "KV Cache"
    INTERMEDIATES = "Intermediates"
    STAGING = "Staging/Inputs"
    OUTPUTS = "Outputs"


class ModeRow(NamedTuple):
    """A row of the table: the mode, the variable that forces Shared ("" for none), and why."""

    mode: StorageMode
    forced_by: str
    rationale: str


STORAGE_MODES: dict[TensorType, ModeRow] = {
    TensorType.WEIGHTS: ModeRow(StorageMode.PRIVATE, "", "High reuse, static. Needs max GPU bandwidth."),
    TensorType.KV_CACHE: ModeRow(
        StorageMode.PRIVATE, "METALLIC_KV_CACHE_SHARED", "Read every step. High bandwidth requirement."
    ),
    TensorType.INTERMEDIATES: ModeRow(
        StorageMode.PRIVATE, "METALLIC_INTERMEDIATES_SHARED", "Short-lived, written/read by GPU kernels only."
    ),
    TensorType.STAGING: ModeRow(StorageMode.SHARED, "", "Written by CPU (Token IDs), read by GPU."),
    TensorType.OUTPUTS: ModeRow(StorageMode.SHARED, "", "Written by GPU (Logits), read by CPU (Sampling)."),
}
"""The document's five rows, which a test compares with its text."""


def storage_mode(kind: TensorType, forced: Mapping[str, bool]) -> StorageMode:
    """The mode of a kind of tensors; `forced` has the Boolean variables that are on.

    >>> storage_mode(TensorType.KV_CACHE, {}).value, storage_mode(TensorType.STAGING, {}).value
    ('Private', 'Shared')
    >>> storage_mode(TensorType.KV_CACHE, {"METALLIC_KV_CACHE_SHARED": True}).value
    'Shared'
    """
    row = STORAGE_MODES[kind]
    return StorageMode.SHARED if forced.get(row.forced_by, False) else row.mode
