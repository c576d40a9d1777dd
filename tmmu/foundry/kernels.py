"""The kernels of a forward pass: operations of `forward`, bound once to the memory that they work on.

Kernels are bound when the session is made (and again when the cache has grown), and called with the batch of each pass.
In every batch, a kernel computes each row separately, by the same calls on the same shapes. Therefore neither the size
of a chunk nor that of a batch changes a bit of the logits (F5). A device may compute one operation a kernel, as `cpu`
does, or many, as `ggml` does. spec: FD6.5, FD6.6
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tmmu.foundry.device import Buffer, Command
from tmmu.foundry.forward import Matrix, Operation, PassSize
from tmmu.foundry.shapes import LlamaShape
from tmmu.foundry.weights import PLAIN_TYPES, WeightType


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
    """A weight on the device: a `Matrix` with its memory.

    `form` is "" if its blocks are those of the file, or the name of the order in which the device stored them.
    """

    type: WeightType
    rows: int
    columns: int
    region: BufferRegion
    form: str = ""


class FormedMatrix(NamedTuple):
    """A weight that is not on the device yet, with the form in which it will be stored."""

    type: WeightType
    rows: int
    columns: int
    form: str


class LayerCache(NamedTuple):
    """Keys and values of one layer, float16 [heads, capacity, head_dim], and the tables [capacity, head_dim/2].

    A row attends to the last `window` positions, to all before it if that is 0.
    """

    keys: BufferRegion
    values: BufferRegion
    cosines: BufferRegion
    sines: BufferRegion
    heads: int
    capacity: int
    window: int


class OperationMemory(NamedTuple):
    """The memory of an operation: its operands, results, scratch and weights, and the cache if it uses it.

    `work` is the memory that the device keeps for a whole pass, None if it needs none.
    """

    reads: tuple[BufferRegion, ...]
    writes: tuple[BufferRegion, ...]
    scratch: BufferRegion | None
    weights: tuple[DeviceWeight, ...]
    cache: LayerCache | None
    work: BufferRegion | None = None


class BoundOperation(NamedTuple):
    """An operation with its memory."""

    operation: Operation
    memory: OperationMemory


USES_CACHE = ("Rope", "Attention")
"""The kinds of operations that use the cache or its tables."""


class DeviceKernels(ABC):
    """The operations of a device."""

    weight_types: tuple[WeightType, ...] = PLAIN_TYPES
    """The types of the weights that it multiplies."""

    activations: tuple[str, ...] = ("float16", "float32")
    """The types of the activations that it computes, the default first."""

    threads: int | None = None
    """The threads that a plan binds, because the size of a tensor depends on them; None if none does."""

    @abstractmethod
    def workspace(self, operation: Operation, weights: Sequence[Matrix], shape: LlamaShape, size: PassSize) -> int:
        """Return the bytes of scratch that the operation needs, 0 for none."""

    def pass_workspace(
        self, operations: Sequence[Operation], weights: Mapping[str, Matrix], shape: LlamaShape, size: PassSize,
        cache_heads: int,
    ) -> int:  # fmt: skip
        """Return the bytes that the device keeps for a whole pass, 0 for none. `weights` are those of the file."""
        return 0

    def choose_form(self, operation: Operation, weight: Matrix) -> str:
        """Return the order of the blocks in which the operation reads a weight: "" for that of the file."""
        return ""

    def group_rows(self, form: str) -> int:
        """Return the rows of a weight that `store` takes together."""
        return 1

    def store(self, weight: Matrix, form: str, source: BufferRegion, target: BufferRegion) -> Command:
        """Build the command that stores whole groups of rows, from the blocks of the file, in a form other than ""."""
        raise NotImplementedError(form)

    @abstractmethod
    def bind(self, operation: Operation, bound: OperationMemory, shape: LlamaShape, size: PassSize) -> Kernel:
        """Return the kernel of an operation on its memory."""

    def bind_all(self, steps: Sequence[BoundOperation], shape: LlamaShape, size: PassSize) -> list[Kernel]:
        """Return kernels that compute consecutive operations when they are called in order: one for each of them."""
        return [self.bind(step.operation, step.memory, shape, size) for step in steps]
