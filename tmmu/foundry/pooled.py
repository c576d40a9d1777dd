"""A tensor of a memory pool: its position, its generation, and all ways to its bytes.

Each access first compares the generations of tensor and pool, under the lock of the pool, and keeps the pool in its
generation until the access has ended: the generation cannot change in between. Every access to a stale tensor is
refused, in any thread. Views inherit the generation. spec: FD2.5 to FD2.8
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from math import prod
from typing import Any, Protocol

import numpy as np

from tmmu.foundry.device import Buffer, Command, Device
from tmmu.foundry.failures import InUse
from tmmu.foundry.leases import Lease
from tmmu.foundry.storage import StorageMode


class TensorPool(Protocol):
    """The operations of a pool that a tensor uses (`pool.MemoryPool`); each compares the generations first."""

    device: Device
    label: str

    def is_current(self, tensor: PooledTensor) -> bool:
        """Return whether the tensor is of this generation."""

    def access(self, tensor: PooledTensor) -> AbstractContextManager[None]:
        """Keep the generation of the tensor while the block runs."""

    def export(self, tensor: PooledTensor) -> Any:
        """Return an array of the bytes of the tensor, as a lease."""

    def hold(self, command: Command, reads: Sequence[PooledTensor] = (), writes: Sequence[PooledTensor] = ()) -> int:
        """Submit a command that keeps the generation until it has ended; return its number."""


def parse_shape(shape: Sequence[int], dtype: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return a shape as exact integers, which cannot overflow, and an element type of numbers.

    Raises ValueError for any other shape or element type.
    """
    try:
        dims = tuple(operator.index(dim) for dim in shape)
    except TypeError:
        dims = (-1,)
    if any(dim < 0 for dim in dims):
        raise ValueError(f"shape {shape!r}: expected integer dimensions from 0")
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = np.dtype(object)
    if kind.kind not in "biufc":
        raise ValueError(f"element type {dtype!r}: expected a number type of NumPy")
    return dims, kind


class PooledTensor:
    """A dense tensor in a chunk of a pool. `MemoryPool.allocate` makes it, or slicing or reshaping another tensor.

    `number` is the number of the allocation, from 1; `chunk` is counted from 0, `offset` is the first byte of the
    tensor in the chunk, `size` its bytes. These may be read from a stale tensor too; its bytes may not.
    """

    __slots__ = ("_buffer", "chunk", "dtype", "generation", "number", "offset", "pool", "shape")

    def __init__(
        self, pool: TensorPool, buffer: Buffer, number: int, generation: int, chunk: int, offset: int,
        shape: tuple[int, ...], dtype: np.dtype[Any],
    ) -> None:  # fmt: skip
        self.pool, self._buffer, self.number, self.generation = pool, buffer, number, generation
        self.chunk, self.offset, self.shape, self.dtype = chunk, offset, shape, dtype

    @property
    def size(self) -> int:
        """The bytes of its elements, not rounded."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def label(self) -> str:
        """The name of the tensor in messages."""
        return f"{self.pool.label}: tensor {self.number}"

    @property
    def is_current(self) -> bool:
        """Whether it is of the current generation of the pool. Another thread may reset the pool right after."""
        return self.pool.is_current(self)

    def __repr__(self) -> str:
        return f"<{self.label}, {self.dtype}{list(self.shape)}, generation {self.generation}>"

    @property
    def address(self) -> int:
        """The address of its first byte on the device. As every access below, it raises `UseAfterFree` if stale."""
        with self.pool.access(self):
            return self._buffer.address + self.offset

    def __getitem__(self, key: int | slice | tuple[int | slice, ...]) -> PooledTensor:
        """Return the contiguous view by integers, then at most one slice of step 1.

        Raises IndexError for a position outside of the tensor, ValueError for a view that is not contiguous.
        """
        keys = key if isinstance(key, tuple) else (key,)
        if len(keys) > len(self.shape):
            raise IndexError(f"{len(keys)} indices of a tensor of {len(self.shape)} dimensions")
        offset, kept = self.offset, list(self.shape[len(keys) :])
        for axis, one in enumerate(keys):
            dim, stride = self.shape[axis], prod(self.shape[axis + 1 :]) * self.dtype.itemsize
            if isinstance(one, slice):
                first, end, step = one.indices(dim)
                if step != 1 or axis + 1 < len(keys):
                    raise ValueError(f"index {key!r}: only one slice of step 1, in the last place, is contiguous")
                kept.insert(0, max(end - first, 0))
            else:
                first = operator.index(one)
                if not -dim <= first < dim:
                    raise IndexError(f"index {first} of a dimension of {dim}")
                first %= dim
            offset += first * stride
        return self._view(offset, tuple(kept))

    def reshape(self, *shape: int) -> PooledTensor:
        """Return the view of the same elements in another shape. Raises ValueError if it has another number of them."""
        dims, _ = parse_shape(shape, self.dtype)
        if prod(dims) != prod(self.shape):
            raise ValueError(f"{list(self.shape)} cannot be reshaped to {list(dims)}")
        return self._view(self.offset, dims)

    def _view(self, offset: int, shape: tuple[int, ...]) -> PooledTensor:
        with self.pool.access(self):
            return PooledTensor(
                self.pool, self._buffer, self.number, self.generation, self.chunk, offset, shape, self.dtype
            )

    def upload(self, array: Any) -> None:
        """Copy an array of this shape and type into the tensor: into Shared staging, then by a blit.

        Waits for it. O(size).

        Commands submitted before are executed before, and their exceptions in this thread may be raised here. Raises
        `InUse` inside of a command.
        """
        source = np.asarray(array)
        if source.shape != self.shape or source.dtype != self.dtype:
            raise ValueError(f"{source.dtype}{list(source.shape)} into {self.dtype}{list(self.shape)}; cast it first")
        with self._staging() as staging:
            staging.contents().view(self.dtype).reshape(self.shape)[...] = source
            blit = self.pool.device.blit(staging, 0, self._buffer, self.offset, self.size)
            self.pool.device.wait(self.pool.hold(blit, writes=(self,)))

    def download(self) -> Any:
        """Return a copy of its elements, after all commands that were submitted before.

        Waits and raises as `upload`.
        """
        with self._staging() as staging:
            blit = self.pool.device.blit(self._buffer, self.offset, staging, 0, self.size)
            self.pool.device.wait(self.pool.hold(blit, reads=(self,)))
            return staging.contents().view(self.dtype).reshape(self.shape).copy()

    def export(self) -> Any:
        """Return its own bytes as a NumPy array, a lease that ends when the last array derived from it is collected.

        It does not wait for commands on the tensor. Raises `PrivateAccess` on the host if the pool is Private.
        """
        return self.pool.export(self)

    def lease(self) -> Lease:
        """Return the same array as a lease that can be released, or used with `with`."""
        return Lease(self.export(), self.label)

    @contextmanager
    def _staging(self) -> Iterator[Buffer]:
        device = self.pool.device
        with self.pool.access(self):
            if device.is_executing:
                raise InUse("a command cannot wait for a copy", self.label, "copy on the host, or submit the copy")
        staging = device.new_buffer(self.size, StorageMode.SHARED, f"{self.label}: staging")
        try:
            yield staging
        finally:
            staging.release()
