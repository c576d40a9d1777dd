"""A CPU device of which the n-th buffer, submission or command fails, and a model of what is in a KV cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from tmmu.foundry.context import ContextConfig, KvShape
from tmmu.foundry.cpu import CpuDevice
from tmmu.foundry.device import Buffer, Command, Observer
from tmmu.foundry.failures import OutOfMemory
from tmmu.foundry.kv_cache import KvCache
from tmmu.foundry.storage import StorageMode

PLACES = ("buffer", "submission", "command")


class Injected(Exception):
    """A failure that a test asked for."""


class FailingDevice(CpuDevice):
    """After `arm(place, n)`, the n-th of that kind fails, once."""

    def __init__(self) -> None:
        super().__init__()
        self.left = dict.fromkeys(PLACES, 0)

    def arm(self, place: str, number: int) -> None:
        self.left = {**dict.fromkeys(PLACES, 0), place: number}

    def _fails(self, place: str) -> bool:
        self.left[place] -= 1
        return self.left[place] == 0

    def new_buffer(self, size: int, mode: StorageMode, label: str, forced_by: str = "") -> Buffer:
        if self._fails("buffer"):
            raise OutOfMemory("injected", label, size, "")
        return super().new_buffer(size, mode, label, forced_by)

    def submit(self, command: Command, observer: Observer | None = None) -> int:
        if self._fails("submission"):
            raise Injected("submission")
        return super().submit(command, observer)

    def blit(self, source: Buffer, start: int, target: Buffer, at: int, size: int) -> Command:
        command = super().blit(source, start, target, at, size)

        def run() -> None:
            if self._fails("command"):
                raise Injected("command")
            command()

        return run


def context_of(shape: KvShape, maximum: int, initial: int, budget: int | None = None, **more: Any) -> ContextConfig:
    """A context of so many tokens, with a budget in bytes that suffices unless one is given."""
    enough = 4 * (maximum + 128) * shape.bytes_per_token
    return ContextConfig.of(
        shape.bytes_per_token, 0, requested=maximum, initial=initial, budget=enough if budget is None else budget,
        **more,
    )  # fmt: skip


def stamp(shape: KvShape, layer: int, which: int, position: int, version: int) -> np.ndarray[Any, np.dtype[np.uint16]]:
    """What the tests write at a position: other bits for each layer, K or V, head, position and version."""
    seed = np.arange(shape.cache_heads * shape.head_dim, dtype=np.uint64).reshape(shape.cache_heads, shape.head_dim)
    seed += np.uint64(((version * 5000 + position) * 2 + which) * 64 + layer) * np.uint64(1009)
    return (seed * np.uint64(2654435761) >> np.uint64(7)).astype(np.uint16)


def write(cache: KvCache, count: int, version: int) -> None:
    """A pass that writes `count` tokens behind those written, on the device and in its own time."""
    shape, device, first = cache.shape, cache.device, cache.written
    size = (shape.cache_heads, cache.capacity, shape.head_dim)
    views = [
        (layer, which, device.view(buffer, 0, np.uint16, size))
        for layer in range(shape.layers)
        for which, buffer in enumerate((cache.keys(layer), cache.values(layer)))
    ]

    def run() -> None:
        for layer, which, view in views:
            for position in range(first, first + count):
                view[:, position] = stamp(shape, layer, which, position, version)

    device.submit(run)
    cache.count_written(count)


def expected(shape: KvShape, layer: int, which: int, versions: list[int]) -> np.ndarray[Any, Any]:
    """[cache_heads, written, head_dim] of a cache whose position p was written in version `versions[p]`."""
    rows = [stamp(shape, layer, which, position, version) for position, version in enumerate(versions)]
    return np.stack(rows, 1) if rows else np.empty((shape.cache_heads, 0, shape.head_dim), np.uint16)


def check(cache: KvCache, versions: list[int]) -> None:
    """Every written position of every layer has what was written there last."""
    for layer in range(cache.shape.layers):
        for which, read in enumerate(cache.read(layer)):
            assert np.array_equal(read.view(np.uint16), expected(cache.shape, layer, which, versions))
