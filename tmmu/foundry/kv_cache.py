"""The cache of keys and values of a session, which grows, and the tables of positions that grow with it.

Each layer has a buffer of keys and one of values, both F16 [cache_heads, capacity, head_dim]. A larger capacity moves
every head but the first, so growing copies head by head into new buffers. If a step fails, the cache is unchanged. Old
buffers are released when the commands that were submitted before have ended, such as attention over them.

With an event log, each action writes a line after it, with the resulting state. spec: FD4.1 to FD4.12, FD9.3, RE3.9
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tmmu.foundry.context import BLOCK, ContextConfig, KvBudget, KvShape, round_up
from tmmu.foundry.device import Buffer, Command, Device
from tmmu.foundry.environment import Settings
from tmmu.foundry.failures import OutOfMemory, UseAfterFree
from tmmu.foundry.forward import cache_names
from tmmu.foundry.shapes import Rotation
from tmmu.foundry.storage import STORAGE_MODES, StorageMode, TensorType, storage_mode
from tmmu.runtime.events import EventLog

Half = NDArray[np.float16]

CHUNK = 1024
"""The positions of the tables that pass through the staging buffer at a time."""


def growth_bytes(shape: KvShape, capacity: int, rotations: int = 1) -> int:
    """Return the bytes that growing needs in addition to the new buffers: old buffers, and staging of the tables."""
    tables = 2 * rotations * shape.rope_bytes(capacity)
    return capacity * shape.bytes_per_token + tables + 2 * CHUNK * shape.rope_bytes(1)


@dataclass(frozen=True)
class CacheBuffers:
    """The buffers of one capacity: keys and values of each layer, and the tables of positions."""

    capacity: int = 0
    keys: tuple[Buffer, ...] = ()
    values: tuple[Buffer, ...] = ()
    tables: tuple[Buffer, ...] = ()

    def __iter__(self) -> Iterator[Buffer]:
        return iter((*self.keys, *self.values, *self.tables))

    @property
    def size(self) -> int:
        """The bytes of all buffers."""
        return sum(buffer.size for buffer in self)


class KvCache:
    """The keys and values of the tokens of one session. One thread writes and grows it; any thread may `read`.

    Parameters
    ----------
    device, shape
        The device that makes the buffers, and the shape of the cache.
    context
        The tokens that there is room for at first (`allocated`), and at most (`usable`).
    budget
        The bytes that the keys and values of all sessions share. The tables of positions do not count.
    rotations
        The rotations of positions, each with its tables.
    settings
        They state whether keys and values are Shared.
    session, events
        The number of the session in the event log, and the log.

    Attributes
    ----------
    written
        The tokens that are in the cache.
    epoch
        Increases by one when the buffers are replaced; commands must then be bound again.
    peak_bytes
        The most bytes that it had at one time: old and new buffers, and the staging buffer of the tables.

    Raises
    ------
    OutOfMemory
        The budget or the device has too few bytes for the first buffers.
    """

    def __init__(
        self,
        device: Device,
        shape: KvShape,
        context: ContextConfig,
        budget: KvBudget,
        *,
        rotations: Sequence[Rotation] = (Rotation(10000.0),),
        settings: Settings | None = None,
        session: int = 1,
        events: EventLog | None = None,
    ) -> None:
        self.device, self.shape, self.budget, self.maximum = device, shape, budget, context.usable
        self.rotations, self.session, self.events, self.label = (
            tuple(rotations),
            session,
            events,
            f"cache of session {session}",
        )
        self.mode = storage_mode(TensorType.KV_CACHE, (settings or Settings()).forced)
        self.written = self.epoch = self.peak_bytes = 0
        self._buffers = CacheBuffers()
        self._is_closed = False
        self._passes = 0  # that were logged
        self._growing = threading.RLock()  # held while the cache grows, is written, cut or closed
        self._state = threading.RLock()  # held for a moment: buffers are exchanged, a command is submitted and logged
        unit = shape.bytes_per_token
        self._log("cache open", ledger=budget.number, heads=shape.cache_heads, token_bytes=unit, maximum=self.maximum,
                  budget=budget.total, strict=budget.strict)  # fmt: skip
        self._grow(min(context.allocated, context.usable))  # of tokens; a capacity may be more than the maximum

    @property
    def capacity(self) -> int:
        """The tokens that there is room for, a multiple of 128."""
        return self._buffers.capacity

    @property
    def size(self) -> int:
        """The bytes of keys and values, which the budget counts."""
        return self.capacity * self.shape.bytes_per_token

    def keys(self, layer: int) -> Buffer:
        """Return the keys of a layer, F16 [cache_heads, capacity, head_dim]."""
        return self._buffers.keys[layer]

    def values(self, layer: int) -> Buffer:
        """Return the values of a layer, F16 [cache_heads, capacity, head_dim]."""
        return self._buffers.values[layer]

    def of_layer(self, layer: int) -> dict[str, Buffer]:
        """Return the keys and the values of a layer, by the names that they have in a plan."""
        return dict(zip(cache_names(layer), (self.keys(layer), self.values(layer)), strict=True))

    def tables_of(self, rotation: int) -> tuple[Buffer, Buffer]:
        """Return the cosines and the sines of the positions of a rotation, F16 [capacity, head_dim/2]."""
        cos, sin = self._buffers.tables[2 * rotation : 2 * rotation + 2]
        return cos, sin

    def ensure(self, required: int) -> None:
        """Ensure that there is room for `required` tokens in total. O(1) if there is, else one copy of the cache.

        Raises
        ------
        OutOfMemory
            More than the maximum, or the budget or the device has too few bytes. The cache is unchanged.
        UseAfterFree
            The cache is closed.
        """
        if required <= min(self._buffers.capacity, self.maximum):
            return
        with self._growing:
            self._check()
            if required > self.maximum:
                raise OutOfMemory(
                    f"{required} tokens are more than the maximum of {self.maximum}", self.label,
                    required * self.shape.bytes_per_token, "generate fewer tokens, or plan a longer context",
                )  # fmt: skip
            if required > self.capacity:
                self._grow(required)

    def count_written(self, count: int) -> None:
        """Count `count` more tokens as written, by commands submitted since the last call, which also read the cache.

        Raises ValueError if there is no room for them; call `ensure` first.
        """
        with self._growing:
            self._check()
            if not 0 <= count <= min(self.capacity, self.maximum) - self.written:
                raise ValueError(f"{count} tokens after {self.written} do not fit into a capacity of {self.capacity}")
            with self._state:
                if self.events is not None:
                    self.device.submit(partial(self._log_passed, self._passes + 1))
                    self._log_pass(count)
                self.written += count

    def truncate(self, length: int) -> None:
        """Remove the tokens after the first `length`, such as a draft that was rejected. O(1)."""
        with self._growing:
            self._check()
            if not 0 <= length <= self.written:
                raise ValueError(f"cannot truncate {self.written} tokens to {length}")
            with self._state:
                if length < self.written:
                    self._log("cache truncate", written=self.written, length=length)
                self.written = length

    def clear(self) -> None:
        """Remove all tokens. The capacity stays."""
        self.truncate(0)

    def read(self, layer: int) -> tuple[Half, Half]:
        """Return copies of the keys and values of a layer, [cache_heads, written, head_dim]; any thread may call it.

        The copies contain the results of all commands that were submitted before. During a growth, they are made from
        the old buffers, which therefore exist until the copies are complete.
        """
        failures: list[BaseException] = []
        with ExitStack() as done, self._state:
            self._check()
            held, written = self._buffers, self.written
            sources = (held.keys[layer], held.values[layer])
            target = self.device.new_buffer(2 * sources[0].size, StorageMode.SHARED, f"{self.label}: read")
            done.callback(target.release)
            passed = partial(self._log_passed, self._passes + 1)
            parts = [self.device.blit(s, 0, target, n * s.size, s.size) for n, s in enumerate(sources)]
            number = self._submit(parts, failures, passed, passed)
            self._log_pass(0)
            kept = done.pop_all()
        with kept:
            self._finish(number, failures)
            shape = (2, self.shape.cache_heads, held.capacity, self.shape.head_dim)
            both = target.contents().view(np.float16).reshape(shape)[:, :, :written].copy()
        return both[0], both[1]

    def close(self) -> None:
        """Release all buffers. A second call does nothing."""
        with self._growing:
            with self._state:
                old, self._buffers = self._buffers, CacheBuffers()
                was_closed, self._is_closed = self._is_closed, True
            if not was_closed:
                with ExitStack() as last:
                    last.callback(self._free_bytes, old.capacity * self.shape.bytes_per_token)
                    for buffer in old:
                        last.callback(buffer.release)

    def _check(self) -> None:
        if self._is_closed:
            raise UseAfterFree("the cache is closed", self.label, "keep the session open")

    def _grow(self, required: int) -> None:
        """Replace the buffers by larger ones with the same content; if a step fails, the cache is unchanged."""
        old, token = self._buffers, self.shape.bytes_per_token
        least = round_up(required)
        most = min(max(2 * old.capacity, least), round_up(self.maximum))
        self._log("cache ask", required=required)
        with ExitStack() as undo:
            with self.budget.lock:
                try:
                    size = self.budget.reserve(
                        old.capacity * token, least * token, most * token, BLOCK * token, self.label
                    )
                except OutOfMemory:
                    self._log("cache refuse", reserved=self.budget.reserved, transient=self.budget.transient)
                    raise
                undo.callback(self._cancel_growth, old.capacity * token, size)
                self._log(
                    "cache grow", capacity=size // token, reserved=self.budget.reserved,
                    transient=self.budget.transient,
                )  # fmt: skip
            new = self._make_buffers(size // token, undo)
            self._fill(old, new)
            with self._state:
                undo.pop_all()
                self._buffers = new
                self.epoch += 1
                self._log("cache switch", capacity=new.capacity)
        with ExitStack() as last:
            if old.capacity:
                last.callback(self._settle_growth, old.capacity * token)
            for buffer in old:
                last.callback(buffer.release)

    def _make_buffers(self, capacity: int, undo: ExitStack) -> CacheBuffers:
        def made(size: int, mode: StorageMode, label: str, forced_by: str = "") -> Buffer:
            buffer = self.device.new_buffer(size, mode, f"{self.label}: {label}", forced_by)
            undo.callback(buffer.release)
            return buffer

        forced_by = STORAGE_MODES[TensorType.KV_CACHE].forced_by
        size = self.shape.cache_heads * capacity * self.shape.row_bytes
        keys, values = (
            tuple(made(size, self.mode, f"{what} of layer {n}", forced_by) for n in range(self.shape.layers))
            for what in ("keys", "values")
        )
        tables = tuple(made(self.shape.rope_bytes(capacity), StorageMode.PRIVATE, what) for what in self._tables())
        return CacheBuffers(capacity, keys, values, tables)

    def _tables(self) -> Iterator[str]:
        """Yield the names of the tables, two for each rotation."""
        for number in range(len(self.rotations)):
            yield from (f"{what}{f' {number}' if number else ''}" for what in ("cos", "sin"))

    def _fill(self, old: CacheBuffers, new: CacheBuffers) -> None:
        """Copy the written tokens, head by head because the stride differs, and complete the tables."""
        failures: list[BaseException] = []
        token = self.shape.row_bytes
        pairs = list(zip((*old.keys, *old.values), (*new.keys, *new.values), strict=False))  # none at first
        for head in range(self.shape.cache_heads if self.written else 0):
            source, target = head * old.capacity, head * new.capacity
            parts = [self.device.blit(a, source * token, b, target * token, self.written * token) for a, b in pairs]
            with self._state:  # neither a read nor the end of the copy comes between it and its line
                self._submit(parts, failures, partial(self._log_copied, head), partial(self._log_broken, head))
                self._log("cache blit", head=head, start=source, at=target, count=self.written)
        parts = [self.device.blit(a, 0, b, 0, a.size) for a, b in zip(old.tables, new.tables, strict=False)]
        self._submit(parts, failures)
        row = self.shape.rope_bytes(1)
        staging = self.device.new_buffer(2 * CHUNK * row, StorageMode.SHARED, f"{self.label}: staging")
        try:
            self.peak_bytes = max(self.peak_bytes, old.size + new.size + staging.size)
            for first in range(old.capacity, new.capacity, CHUNK):
                count = min(CHUNK, new.capacity - first)
                for number, rotation in enumerate(self.rotations):
                    rows = np.stack(rotation.compute_rows(first, count, self.shape.head_dim))
                    staging.contents()[: rows.nbytes] = rows.reshape(-1).view(np.uint8)
                    parts = [
                        self.device.blit(staging, n * count * row, table, first * row, count * row)
                        for n, table in enumerate(new.tables[2 * number : 2 * number + 2])
                    ]
                    self._finish(self._submit(parts, failures), failures)  # before staging is written again
        finally:
            staging.release()

    def _submit(
        self,
        parts: list[Command],
        failures: list[BaseException],
        done: Command | None = None,
        failed: Command | None = None,
    ) -> int:
        """Submit commands as one. Their exceptions go to `failures`, not to the next wait for the device."""

        def execute() -> None:
            then = done
            try:
                for part in parts:
                    part()
            except BaseException as failure:
                failures.append(failure)
                then = failed
            if then is not None:
                then()

        return self.device.submit(execute)

    def _finish(self, number: int, failures: list[BaseException]) -> None:
        self.device.wait(number)
        if failures:
            raise failures[0]

    def _log_copied(self, head: int) -> None:
        with self._state:
            self._log("cache copied", head=head)

    def _log_broken(self, head: int) -> None:
        with self._state:
            self._log("cache broken", head=head)

    def _cancel_growth(self, old: int, new: int) -> None:
        with self.budget.lock:
            self.budget.cancel(old, new)
            self._log(
                "cache fail", capacity=self.capacity, reserved=self.budget.reserved, transient=self.budget.transient
            )

    def _settle_growth(self, old: int) -> None:
        with self.budget.lock:
            self.budget.settle(old)
            self._log("cache give back", reserved=self.budget.reserved, transient=self.budget.transient)

    def _free_bytes(self, size: int) -> None:
        with self.budget.lock:
            self.budget.free(size)
            self._log(
                "cache close", written=self.written, reserved=self.budget.reserved, transient=self.budget.transient
            )

    def _log_pass(self, count: int) -> None:
        self._passes += 1
        self._log("cache pass", number=self._passes, first=self.written, count=count, capacity=self.capacity)

    def _log_passed(self, number: int) -> None:
        with self._state:
            self._log("cache passed", number=number)

    def _log(self, event: str, **fields: Any) -> None:
        if self.events is not None:
            self.events(event, session=self.session, **fields)
