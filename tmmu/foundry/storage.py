"""Storage modes: who may access the bytes of a buffer, and the mode of each kind of tensor. spec: FD1.1 to FD1.3"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple


class StorageMode(Enum):
    """Private memory is only for the device; the host may access Shared memory too."""

    PRIVATE = "Private"
    SHARED = "Shared"


class TensorType(Enum):
    """The kinds of tensors of section 4 of the document."""

    WEIGHTS = "Weights"
    KV_CACHE = "KV Cache"
    INTERMEDIATES = "Intermediates"
    STAGING = "Staging/Inputs"
    OUTPUTS = "Outputs"


class ModeRow(NamedTuple):
    """A row of the table: the mode, the variable that forces Shared ("" for none), and the reason."""

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
"""The five rows of the document; a test compares them with its text."""


def storage_mode(kind: TensorType, forced: Mapping[str, bool]) -> StorageMode:
    """Return the mode of a kind of tensors; `forced` maps the Boolean variables to whether they are on.

    >>> storage_mode(TensorType.KV_CACHE, {}).value, storage_mode(TensorType.STAGING, {}).value
    ('Private', 'Shared')
    >>> storage_mode(TensorType.KV_CACHE, {"METALLIC_KV_CACHE_SHARED": True}).value
    'Shared'
    """
    row = STORAGE_MODES[kind]
    return StorageMode.SHARED if forced.get(row.forced_by, False) else row.mode
