"""A tensor of a memory pool: where it lies, of which generation it is, and every way to its bytes.

Each access first compares the tensor's generation with the pool's, under the pool's lock, and holds the pool in its
generation until it has ended: what was compared cannot change in between. A stale tensor is refused, always and from
any thread. Views inherit the generation. spec: FD2.5 to FD2.8
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
    """What a tensor asks of its pool (`pool.MemoryPool`), each with its generation compared first."""

    device: Device
    label: str

    def is_current(self, tensor: PooledTensor) -> bool:
        """Is the tensor of this generation?"""

    def access(self, tensor: PooledTensor) -> AbstractContextManager[None]:
        """What is done inside is done in the tensor's generation."""

    def export(self, tensor: PooledTensor) -> Any:
        """An array of the tensor's bytes, as a lease."""

    def hold(self, command: Command, reads: Sequence[PooledTensor] = (), writes: Sequence[PooledTensor] = ()) -> int:
        """Submit a command that holds the generation until it has ended."""


def described(shape: Sequence[int], dtype: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """A shape and an element type of numbers. ValueError for any other; sizes are exact, so that none overflows."""
    try:
        dims = tuple(operator.index(dim) for dim in shape)
    except TypeError:
        dims = (-1,)
    if any(dim < 0 for dim in dims):
        raise ValueError(f"shape {shape!r}: dimensions are integers, 0 or more")
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = np.dtype(object)
    if kind.kind not in "biufc":
        raise ValueError(f"element type {dtype!r}: it is not one of NumPy's numbers")
    return dims, kind


class PooledTensor:
    """A dense tensor in a chunk of a pool. Made by `MemoryPool.allocate`, and by slicing and reshaping another.

    `number` is that of the allocation, from 1; `chunk` is numbered from 0, `offset` is the byte of the chunk where the
    tensor begins, `size` its bytes. These may be read of a stale tensor as well; its bytes may not.
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
        """Bytes, not rounded."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def label(self) -> str:
        """How messages name it."""
        return f"{self.pool.label}: tensor {self.number}"

    @property
    def is_current(self) -> bool:
        """Is it of the pool's generation now? Another thread may reset the pool right after."""
        return self.pool.is_current(self)

    def __repr__(self) -> str:
        return f"<{self.label}, {self.dtype}{list(self.shape)}, generation {self.generation}>"

    @property
    def address(self) -> int:
        """Where its first byte lies on the device. `UseAfterFree` of a stale tensor, as of every access below."""
        with self.pool.access(self):
            return self._buffer.address + self.offset

    def __getitem__(self, key: int | slice | tuple[int | slice, ...]) -> PooledTensor:
        """The view of integers, then at most one slice of step 1: what is contiguous. IndexError or ValueError else."""
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
        """The view of the same elements in another shape. ValueError where it has another number of them."""
        dims, _ = described(shape, self.dtype)
        if prod(dims) != prod(self.shape):
            raise ValueError(f"{list(self.shape)} cannot be reshaped to {list(dims)}")
        return self._view(self.offset, dims)

    def _view(self, offset: int, shape: tuple[int, ...]) -> PooledTensor:
        with self.pool.access(self):
            return PooledTensor(
                self.pool, self._buffer, self.number, self.generation, self.chunk, offset, shape, self.dtype
            )

    def upload(self, array: Any) -> None:
        """Copy an array of this shape and element type here: into a Shared staging buffer, then by a blit. Waits.

        What was submitted before is executed before, and what it raised in this thread may be raised here. `InUse`
        from within a command. O(size).
        """
        source = np.asarray(array)
        if source.shape != self.shape or source.dtype != self.dtype:
            raise ValueError(f"{source.dtype}{list(source.shape)} into {self.dtype}{list(self.shape)}; cast it first")
        with self._staging() as staging:
            staging.contents().view(self.dtype).reshape(self.shape)[...] = source
            blit = self.pool.device.blit(staging, 0, self._buffer, self.offset, self.size)
            self.pool.device.wait(self.pool.hold(blit, writes=(self,)))

    def download(self) -> Any:
        """A copy of its elements for the host, as they are after what was submitted before. Otherwise as `upload`."""
        with self._staging() as staging:
            blit = self.pool.device.blit(self._buffer, self.offset, staging, 0, self.size)
            self.pool.device.wait(self.pool.hold(blit, reads=(self,)))
            return staging.contents().view(self.dtype).reshape(self.shape).copy()

    def export(self) -> Any:
        """Its own bytes as a NumPy array, a lease that ends when the last array derived from it is collected.

        Commands that work on the tensor are not waited for. `PrivateAccess` on the host where the pool is Private.
        """
        return self.pool.export(self)

    def lease(self) -> Lease:
        """The same, as a lease that can be released, or used with `with`."""
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
