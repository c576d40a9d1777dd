"""The kernels of a forward pass: an operation of `forward`, bound once to the memory that it works on.

A kernel is bound when the session is made (and again when the cache has grown), and called with the batch of each pass.
In every batch, a kernel computes each row separately, by the same calls on the same shapes. Therefore neither the size
of a chunk nor that of a batch changes a bit of the logits (F5). spec: FD6.5, FD6.6
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tmmu.foundry.device import Buffer
from tmmu.foundry.forward import Matrix, Operation, PassSize
from tmmu.foundry.weights import LlamaShape, WeightType


@dataclass(slots=True)
class PassBatch:
    """The batch of one pass: `rows` tokens from position `first` on, and the logits of the last `outputs` tokens."""

    rows: int = 0
    first: int = 0
    outputs: int = 0


Kernel = Callable[[PassBatch], None]
"""A function that computes one operation of a pass. Commands of the device call it; it allocates no array data."""


class BufferRegion(NamedTuple):
    """The region of `size` bytes of a buffer from byte `offset` on."""

    buffer: Buffer
    offset: int
    size: int


class DeviceWeight(NamedTuple):
    """A weight on the device, in the blocks of the file: a `Matrix` with its memory."""

    type: WeightType
    rows: int
    columns: int
    region: BufferRegion


class LayerCache(NamedTuple):
    """Keys and values of one layer, float16 [heads, capacity, head_dim], and the tables [capacity, head_dim/2]."""

    keys: BufferRegion
    values: BufferRegion
    cosines: BufferRegion
    sines: BufferRegion
    heads: int
    capacity: int


class OperationMemory(NamedTuple):
    """The memory of an operation: its operands, results, scratch and weights, and the cache if it uses it."""

    reads: tuple[BufferRegion, ...]
    writes: tuple[BufferRegion, ...]
    scratch: BufferRegion | None
    weights: tuple[DeviceWeight, ...]
    cache: LayerCache | None


USES_CACHE = ("Rope", "Attention")
"""The kinds of operations that are bound again when the cache has grown."""


class DeviceKernels(ABC):
    """The operations of a device."""

    @abstractmethod
    def workspace(self, operation: Operation, weights: Sequence[Matrix], shape: LlamaShape, size: PassSize) -> int:
        """Return the bytes of scratch that the operation needs, 0 for none."""

    @abstractmethod
    def bind(self, operation: Operation, bound: OperationMemory, shape: LlamaShape, size: PassSize) -> Kernel:
        """Return the kernel of an operation on its memory."""
