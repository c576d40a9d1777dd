"""The dynamic memory pool: a bump allocator over growing chunks, emptied as a whole by increasing its generation.

A request takes the first chunk with room (of at most 16); if none has room, the pool opens the next chunk, 3/2 of the
size of the last one. A reset frees all bytes at once and makes all tensors stale. It takes place only while nothing
accesses the pool: no array of it is held, and no submitted command on one of its tensors is pending. Therefore, an
access that found its tensor current uses only bytes of its tensor until it ends, and a later access is refused.

One lock guards the pool, and is held only while counts change. A lease may end while a thread holds the lock, even in
that very thread, because arrays are collected at any moment. The numbers of ended leases go to a queue, which is
processed under the lock, before and after its other uses. spec: FD2.1 to FD2.12
"""

from __future__ import annotations

import gc
import operator
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import inf
from time import monotonic
from typing import Any, NamedTuple

from tmmu.foundry.device import ALIGNMENT, Buffer, Command, Device
from tmmu.foundry.failures import InUse, OutOfMemory, PrivateAccess, UseAfterFree
from tmmu.foundry.pooled import PooledTensor, parse_shape
from tmmu.foundry.storage import StorageMode
from tmmu.runtime.events import EventLog
from tmmu.runtime.leases import lease_array

INITIAL = 256 << 20
LIMIT = 5 << 30
MOST_CHUNKS = 16
POLL = 0.05
"""The seconds after which a waiting reset looks again for leases that ended while the lock was held."""

MORE = "reset the pool, or give it a larger limit"


@dataclass
class _Chunk:
    buffer: Buffer
    size: int
    used: int = 0


class PoolStatistics(NamedTuple):
    """Counts at one moment. All counts of bytes are rounded to the alignment, except `requested`.

    `allocated`, `requested`, `leases` and `commands` are current, and `capacity` is that of all chunks. `allocations`,
    `resets`, `refused` (accesses of stale tensors), `lacked` (requests without room) and `in_use` (resets refused)
    count since the pool was made.
    """

    generation: int
    chunks: int
    capacity: int
    allocated: int
    requested: int
    peak: int
    allocations: int
    resets: int
    leases: int
    commands: int
    refused: int
    lacked: int
    in_use: int

    @property
    def fragmentation(self) -> int:
        """The bytes that rounding added to the requests."""
        return self.allocated - self.requested


class MemoryPool:
    """Tensors of one device that live until the pool is reset.

    Parameters
    ----------
    device
        The device that makes the chunks.
    initial, limit
        The bytes of the first chunk and of all chunks together; they are rounded up and down to the alignment.
    mode
        The storage mode of the chunks. Only Shared chunks export arrays to the host.
    label
        The name of the pool in messages and logs; each pool of a log needs a different one.
    forced_by
        The variable that would have made it Shared, for the message.
    generation_bits
        The width of a generation. The last generation cannot be reset, so that no generation occurs twice.
    events
        A log of events, which `check-models --follow` checks against `tla/foundry/PoolGenerations.tla`.
    """

    def __init__(
        self,
        device: Device,
        *,
        initial: int = INITIAL,
        limit: int = LIMIT,
        mode: StorageMode = StorageMode.PRIVATE,
        label: str = "pool",
        forced_by: str = "",
        generation_bits: int = 64,
        events: EventLog | None = None,
    ) -> None:
        if initial < 1 or limit < 0 or generation_bits < 1:
            raise ValueError(
                f"expected positive sizes, got a pool of {initial} of {limit} bytes, with "
                f"generations of {generation_bits} bits"
            )
        self.device, self.mode, self.label, self.forced_by = device, mode, label, forced_by
        self.initial, self.limit = _round_up(operator.index(initial)), limit // ALIGNMENT * ALIGNMENT
        self.last_generation = (1 << generation_bits) - 1
        self._events = events
        self._lock = threading.Condition(threading.Lock())
        self._chunks: list[_Chunk] = []
        self._generation = 0
        self._leases: dict[int, int] = {}  # by the number of the allocation
        self._ended: deque[int] = deque()  # leases that have, and are still counted
        self._commands = 0
        self._requested = self._peak = self._allocations = self._refused = self._lacked = self._in_use = 0
        self._users: dict[int, int] = {}
        self._is_closed = False
        self._log("pool made", initial=self.initial, limit=self.limit, chunks=MOST_CHUNKS, last=self.last_generation)

    @property
    def generation(self) -> int:
        """The number of resets so far."""
        return self._generation

    @property
    def statistics(self) -> PoolStatistics:
        """The counts of allocations and refusals."""
        with self._exclusive():
            return PoolStatistics(
                self._generation, len(self._chunks), self._capacity, self._allocated, self._requested, self._peak,
                self._allocations, self._generation, sum(self._leases.values()), self._commands, self._refused,
                self._lacked, self._in_use,
            )  # fmt: skip

    def allocate(self, shape: Sequence[int], dtype: Any) -> PooledTensor:
        """Allocate a tensor of this generation; its bytes keep earlier contents. O(1), except for a new chunk.

        Raises `OutOfMemory` if no chunk has room and none can be opened; the pool is then unchanged. Raises ValueError
        for an invalid shape or element type. A tensor without elements takes no byte.
        """
        dims, kind = parse_shape(shape, dtype)
        size = kind.itemsize
        for dim in dims:
            size *= dim
        rounded = _round_up(size)
        with self._exclusive():
            self._check_open()
            at = next((n for n, chunk in enumerate(self._chunks) if chunk.size - chunk.used >= rounded), None)
            is_new = at is None
            if at is None:
                at = self._open(rounded)
            chunk = self._chunks[at]
            offset, chunk.used = chunk.used, chunk.used + rounded
            self._requested += size
            self._allocations += 1
            self._peak = max(self._peak, self._allocated)
            number = self._allocations
            if is_new:
                self._log(
                    "pool grow", tensor=number, chunk=at, offset=offset, bytes=rounded, used=chunk.used, size=chunk.size
                )
            else:
                self._log("pool take", tensor=number, chunk=at, offset=offset, bytes=rounded, used=chunk.used)
            return PooledTensor(self, chunk.buffer, number, self._generation, at, offset, dims, kind)

    def submit(
        self,
        command: Callable[..., object],
        *,
        reads: Sequence[PooledTensor] = (),
        writes: Sequence[PooledTensor] = (),
    ) -> int:
        """Submit a command to the device, and keep the generation until it has ended; return its number.

        The command is called with a read-only array for each tensor of `reads`, and then with an array for each of
        `writes`. An array that it keeps is a lease. Raises `UseAfterFree` if a tensor is stale; then nothing is
        submitted.
        """

        def execute() -> None:
            arrays: list[Any] = []
            try:
                arrays += [self.export(tensor, is_read_only=True) for tensor in reads]
                arrays += [self.export(tensor) for tensor in writes]
                command(*arrays)
            except BaseException as error:
                _clear_frames(error)
                raise
            finally:
                arrays.clear()

        return self.hold(execute, reads, writes)

    def hold(self, command: Command, reads: Sequence[PooledTensor] = (), writes: Sequence[PooledTensor] = ()) -> int:
        """Submit a command that needs no arrays, such as a blit; otherwise as `submit`."""

        read, written = (sorted({tensor.number for tensor in group}) for group in (reads, writes))

        def execute() -> None:
            is_whole = False
            try:
                command()
                is_whole = True
            finally:
                with self._exclusive():
                    self._commands -= 1
                    self._lock.notify_all()
                    self._log("pool complete", reads=read, writes=written, is_whole=is_whole, commands=self._commands)

        with self._exclusive():
            for tensor in (*reads, *writes):
                self._check_tensor(tensor)
            number = self.device.submit(execute)  # it cannot end before the lock is free
            self._commands += 1
            self._log("pool submit", reads=read, writes=written, commands=self._commands)
            return number

    def reset(self, *, wait: bool = True, timeout: float | None = None) -> None:
        """Free all bytes and make all tensors stale. Chunks stay open.

        While arrays of the pool are held or commands on its tensors are pending, it waits, up to `timeout` seconds if
        given. Other threads continue: their allocations belong to the old generation, and the reset also waits for
        their leases and commands. Raises `InUse` after that time, or at once if `wait` is false or a command calls it.
        Raises `OutOfMemory` in the last generation. The pool is then unchanged.
        """
        with self._exclusive_when_idle(wait, timeout) as user:
            self._generation += 1
            self._requested = 0
            for chunk in self._chunks:
                chunk.used = 0
            self._log("pool reset", user=user, generation=self._generation)

    def close(self, *, wait: bool = True, timeout: float | None = None) -> None:
        """Release all chunks, when `reset` could empty them.

        Every later access is refused. A second call does nothing.
        """
        with self._exclusive_when_idle(wait, timeout, is_closing=True) as user:
            if not self._is_closed:
                self._log(
                    "pool closed", user=user, generation=self._generation, allocations=self._allocations,
                    lacked=self._lacked, refused=self._refused, in_use=self._in_use,
                )  # fmt: skip
            self._is_closed = True
            chunks, self._chunks = self._chunks, []
            self._lock.notify_all()
        for chunk in chunks:
            chunk.buffer.release()

    # The operations that tensors call.

    def is_current(self, tensor: PooledTensor) -> bool:
        """Return whether the tensor is of this generation."""
        return tensor.generation == self._generation and not self._is_closed

    @contextmanager
    def access(self, tensor: PooledTensor) -> Iterator[None]:
        """Keep the generation of the tensor while the block runs. Raises `UseAfterFree` if the tensor is stale."""
        with self._exclusive():
            self._check_tensor(tensor)
            yield

    def export(self, tensor: PooledTensor, is_read_only: bool = False) -> Any:
        """Return an array of the bytes of a tensor, as a lease.

        Raises `PrivateAccess` on the host if the pool is Private.
        """
        with self._exclusive():
            self._check_tensor(tensor)
            if self.mode is StorageMode.PRIVATE and not self.device.is_executing:
                raise PrivateAccess(tensor.label, self.forced_by)
            buffer = self._chunks[tensor.chunk].buffer
            array = self.device.view(buffer, tensor.offset, tensor.dtype, tensor.shape)
            array = lease_array(array, partial(self._end_lease, tensor.number), is_read_only)
            self._leases[tensor.number] = self._leases.get(tensor.number, 0) + 1
            self._log("pool lease", tensor=tensor.number, leases=self._leases[tensor.number])
            return array

    # The callers of the following functions hold the lock, except for those that take it.

    @property
    def _capacity(self) -> int:
        return sum(chunk.size for chunk in self._chunks)

    @property
    def _allocated(self) -> int:
        return sum(chunk.used for chunk in self._chunks)

    def _open(self, size: int) -> int:
        """Open the next chunk, for a request of `size` bytes, and return its number."""
        left = self.limit - self._capacity
        wanted = self._chunks[-1].size * 3 // 2 // ALIGNMENT * ALIGNMENT if self._chunks else self.initial
        why = "the device has none"
        try:
            if len(self._chunks) == MOST_CHUNKS:
                why = f"none of the {MOST_CHUNKS} chunks has room; a larger first chunk makes all of them larger"
            elif left < max(size, ALIGNMENT):
                why = f"the limit of {self.limit} leaves {left} beside the {len(self._chunks)} chunks"
            else:
                label = f"{self.label}: chunk {len(self._chunks)}"
                made = self.device.new_buffer(min(max(wanted, size), left), self.mode, label, self.forced_by)
                self._chunks.append(_Chunk(made, made.size))
                return len(self._chunks) - 1
        except OutOfMemory as error:
            self._lack(size, True)
            raise OutOfMemory(f"{size} bytes: {error.what}", self.label, size, error.fix or MORE) from error
        self._lack(size, False)
        raise OutOfMemory(f"{size} bytes: {why}", self.label, size, MORE)

    def _lack(self, size: int, is_denied: bool) -> None:
        self._lacked += 1
        self._log("pool lack", bytes=size, is_denied=is_denied, lacked=self._lacked)

    def _check_open(self) -> None:
        if self._is_closed:
            raise UseAfterFree("the pool was closed", self.label, "make another")

    def _check_tensor(self, tensor: PooledTensor) -> None:
        if tensor.pool is not self:
            raise ValueError(f"{tensor.label} is not of {self.label}")
        self._check_open()
        if tensor.generation != self._generation:
            self._refused += 1
            self._log("pool refuse", tensor=tensor.number, generation=tensor.generation, refused=self._refused)
            what = f"it is of generation {tensor.generation}, and the pool of {self._generation}"
            raise UseAfterFree(what, tensor.label, "allocate it again after each reset")

    @contextmanager
    def _exclusive_when_idle(self, wait: bool, timeout: float | None, is_closing: bool = False) -> Iterator[int]:
        """Wait until nothing accesses the pool, and run the block under the lock; yield the number of the thread."""
        until, is_searched = inf if timeout is None else monotonic() + timeout, False
        with self._exclusive():
            user = self._users.setdefault(threading.get_ident(), len(self._users) + 1)
            if not self._is_closed:
                self._log("pool ask", user=user)
            while not (self._is_closed and is_closing):
                self._check_open()
                if not is_closing:
                    self._check_generation(user)
                held = self._describe_accesses()
                if not held:
                    break
                left = until - monotonic()
                if not wait or left <= 0 or self.device.is_executing:
                    self._in_use += 1
                    self._log("pool in use", user=user, in_use=self._in_use)
                    raise InUse(held, self.label, "delete the arrays and wait for the device, or let the reset wait")
                if not self._lock.wait(min(POLL, left)) and not is_searched:
                    gc.collect()  # this frees arrays in reference cycles, which nothing holds any more
                    is_searched = True
                self._collect()
            yield user

    def _check_generation(self, user: int) -> None:
        if self._generation == self.last_generation:
            self._log("pool exhausted", user=user, generation=self._generation)
            what = f"generation {self._generation} is the last, and none may come again"
            raise OutOfMemory(what, self.label, 0, "close the pool and make another")

    def _describe_accesses(self) -> str:
        """Describe the accesses to the pool, for a message; "" if there are none."""
        leases = sum(self._leases.values())
        return f"{leases} leases and {self._commands} commands hold it" if leases or self._commands else ""

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Hold the lock. Count the leases that ended before, and afterwards those that ended meanwhile."""
        try:
            with self._lock:
                self._collect()
                yield
        finally:
            self._count_ended()

    def _end_lease(self, number: int) -> None:
        """Record that a lease ended. A collection of arrays calls it in any thread, so it never waits for the lock."""
        self._ended.append(number)
        self._count_ended()

    def _count_ended(self) -> None:
        """Count ended leases, unless a thread holds the lock: that thread looks again after its release."""
        while self._ended and self._lock.acquire(blocking=False):
            try:
                self._collect()
            finally:
                self._lock.release()

    def _collect(self) -> None:
        while self._ended:
            number = self._ended.popleft()
            self._leases[number] -= 1
            self._log("pool return", tensor=number, leases=self._leases[number])
            if not self._leases[number]:
                del self._leases[number]
            self._lock.notify_all()

    def _log(self, event: str, **fields: Any) -> None:
        if self._events is not None:
            self._events(event, pool=self.label, **fields)


def _round_up(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _clear_frames(error: BaseException | None) -> None:
    """Clear the frames of a failed command, so that they hold its arrays no longer; the traceback keeps its lines."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
