"""Event logs of memory pools that two sessions use, step by step or as threads come."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from tmmu.foundry.cpu import CpuDevice
from tmmu.foundry.failures import InUse, OutOfMemory, UseAfterFree
from tmmu.foundry.pool import MemoryPool
from tmmu.foundry.pooled import PooledTensor
from tmmu.foundry.storage import StorageMode
from tmmu.runtime.events import EventLog


def _other(do: Callable[[], object]) -> None:
    """Have the other session do it, and wait for it."""
    thread = threading.Thread(target=do)
    thread.start()
    thread.join()


def _refused(error: type[BaseException], do: Callable[[], object]) -> None:
    with pytest.raises(error):
        do()


def _fails(array: Any) -> None:
    raise KeyError(array.size)


def two_sessions(folder: Path) -> Path:
    """Everything that a pool does, in an order that is always the same, and a second pool beside it.

    The other session has a lease or a command when this one asks for a reset, is refused, waits, and finds its own
    tensors stale; chunks are opened up to the limit, and up to that of the device; the last generation is reached.
    """
    path = folder / "pool.events"
    log, device = EventLog(path), CpuDevice(limit=1 << 14)
    pool = MemoryPool(
        device, initial=1024, limit=1 << 20, mode=StorageMode.SHARED, label="ours", generation_bits=2, events=log
    )
    MemoryPool(device, initial=256, limit=0, label="empty", events=log)
    first, second, empty = (pool.allocate(shape, np.uint8) for shape in ((300,), (600,), (0,)))
    tensor = pool.allocate((200,), np.float32)
    tensor.upload(np.ones(200, np.float32))
    _other(lambda: first.upload(first.download()))
    device.wait(pool.submit(lambda a, b, c: None, reads=[first, tensor], writes=[second]))
    number = pool.submit(_fails, writes=[tensor])
    with pytest.raises(KeyError):
        device.wait(number)
    held = [tensor[3:].export(), first.export(), first.export()]
    with pytest.raises(InUse):
        pool.reset(wait=False)
    _other(lambda: _refused(InUse, lambda: pool.reset(timeout=0)))
    del held[1:]
    with pytest.raises(OutOfMemory):
        pool.allocate((1 << 13, 2), np.uint8)  # the device has less
    with pytest.raises(OutOfMemory):
        pool.allocate((1 << 90,), np.uint8)
    held.clear()
    assert empty.download().size == 0
    end, begun = threading.Event(), threading.Event()

    def work(array: Any) -> None:
        begun.set()
        assert end.wait(60)

    pool.submit(work, reads=[second])
    pool.submit(lambda array: None, writes=[second])
    assert begun.wait(60)
    waiting = threading.Thread(target=pool.reset)
    waiting.start()
    while '"pool ask"' not in path.read_text().splitlines()[-1]:
        threading.Event().wait(0.001)
    pool.allocate((1,), np.uint8)  # while the other waits
    end.set()
    waiting.join()
    for stale in (first, tensor, second):
        _refused(UseAfterFree, stale.download)
    _other(lambda: _refused(UseAfterFree, first.export))
    for size in (1000, 100, 1500):
        new = pool.allocate((size,), np.uint8)
        new.upload(np.ones(size, np.uint8))
    pool.reset()
    pool.allocate((5,), np.uint8)
    _other(pool.reset)
    held = [pool.allocate((5,), np.uint8).export()]
    with pytest.raises(OutOfMemory):
        pool.reset()
    held.clear()
    pool.close()
    device.close()
    return path


def threads(folder: Path, seed: int) -> Path:
    """Two sessions that allocate, copy, lease and reset at one time, in whatever order they come."""
    log, device = EventLog(folder / "threads.events"), CpuDevice()
    pool = MemoryPool(device, initial=1024, limit=1 << 12, mode=StorageMode.SHARED, events=log)

    def session(random: Random) -> None:
        kept: list[PooledTensor] = []
        for _ in range(12):
            try:
                kept.append(pool.allocate((random.randrange(1, 900),), np.uint8))
                tensor = random.choice(kept)
                tensor.upload(np.full(tensor.shape, 3, np.uint8))
                held = tensor[tensor.shape[0] // 2 :].export()
                assert set(held.tolist()) <= {3}
                del held
                pool.submit(lambda array: None, reads=[random.choice(kept)])
            except UseAfterFree:
                kept.clear()
            except OutOfMemory:
                with suppress(InUse):
                    pool.reset(wait=random.random() < 0.7, timeout=1)

    workers = [threading.Thread(target=session, args=(Random(seed + n),)) for n in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    pool.close()
    device.close()
    return folder / "threads.events"
