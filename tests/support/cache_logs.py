"""Logs of real caches: two sessions of other shapes that grow on one budget, with all that can happen to them."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

from tests.support.failing_device import FailingDevice, Injected, check, context_of, write
from tmmu.foundry.context import KvBudget, KvShape
from tmmu.foundry.failures import OutOfMemory
from tmmu.foundry.kv_cache import KvCache
from tmmu.runtime.events import EventLog

SHAPES = (KvShape(1, 2, 1, 2), KvShape(1, 2, 2, 2))
"""One head and two; a token of the second takes twice as much."""


def grow(cache: KvCache, required: int) -> None:
    """Ask for room, which there may be none for."""
    with suppress(OutOfMemory, Injected):
        cache.ensure(required)


def two_sessions(path: Path, strict: bool) -> None:
    """Growth while passes and reads are in flight, refused by the budget, failing in each place; drafts; an end."""
    events, device = EventLog(path), FailingDevice()
    budget = KvBudget(1100 * SHAPES[0].bytes_per_token, strict)
    first, second = (
        KvCache(device, shape, context_of(shape, 700, 128), budget, session=n, events=events)
        for n, shape in enumerate(SHAPES, 1)
    )
    write(first, 20, 0)
    write(second, 30, 0)
    for place, at in (("buffer", 5), ("submission", 2), ("command", 1)):
        device.arm(place, at)
        grow(second, 140)
    device.arm("buffer", 0)
    gate = threading.Event()
    device.submit(gate.wait)  # type: ignore[arg-type]
    write(second, 10, 1)
    reads = threading.Thread(target=second.read, args=(0,))
    reads.start()
    grows = threading.Thread(target=second.ensure, args=(140,))
    grows.start()
    gate.set()
    reads.join()
    grows.join()
    second.truncate(35)
    write(second, 3, 2)
    check(second, [0] * 30 + [1] * 5 + [2] * 3)
    for cache, required in ((first, 257), (second, 600), (first, 700), (second, 300)):
        grow(cache, required)
    write(first, 1, 3)
    first.close()
    second.clear()
    write(second, 2, 4)
    grow(second, second.capacity + 1)
    check(second, [4] * 2)
    second.close()
    device.close()


def together(path: Path) -> None:
    """Two sessions in threads, in whatever order it comes."""
    events, device = EventLog(path), FailingDevice()
    budget = KvBudget(1500 * SHAPES[0].bytes_per_token)
    caches = [
        KvCache(device, shape, context_of(shape, 700, 128), budget, session=n, events=events)
        for n, shape in enumerate(SHAPES, 1)
    ]

    def session(cache: KvCache) -> None:
        for _ in range(8):
            try:
                cache.ensure(cache.written + 50)
            except OutOfMemory:
                cache.clear()
            write(cache, 50, 0)
        cache.close()

    threads = [threading.Thread(target=session, args=(cache,)) for cache in caches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    device.close()
