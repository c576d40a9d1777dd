"""Logs of stores of regions: one that does all that a store does, and several processes that write one log."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import threading
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tmmu.mnemosyne.address_space import PAGE, TILE, AddressSpace
from tmmu.mnemosyne.failures import MemoryBound, NoAddressSpace, RegionInUse
from tmmu.mnemosyne.regions import RegionStore
from tmmu.mnemosyne.replacement import ONE, SemanticReplacement
from tmmu.runtime.events import EventLog


def memory_for(tiles: int) -> int:
    """The least memory of which 7/10 hold some tiles."""
    return -(-10 * TILE * tiles // 7)


class Failing(AddressSpace):
    """Maps no file while it is `armed`."""

    armed = False

    def map_file(self, address: int, size: int, is_writable: bool, descriptor: int, offset: int) -> None:
        if self.armed:
            raise NoAddressSpace("refused")
        super().map_file(address, size, is_writable, descriptor, offset)


def one_store(folder: Path, space: Failing | None = None, replacement: SemanticReplacement | None = None) -> Path:
    """Regions are mapped, refused, fail, are read, evicted by attention, relieved when memory shrinks, and closed."""
    path, file = folder / "store.events", folder / "vectors"
    file.write_bytes(os.urandom(6 * TILE + PAGE))
    memory, space = [memory_for(5)], space or Failing()
    with RegionStore(lambda: memory[0], space=space, replacement=replacement, events=EventLog(path)) as store:
        first = store.map(file, size=3 * TILE - PAGE)
        second = store.map(file, offset=PAGE, size=TILE + 3 * PAGE, is_writable=True)
        second.attend([ONE, 3 * ONE // 4 + 1])
        first.attend([ONE // 4])
        held = first.view(0, TILE + 1)
        third = store.map(file, size=TILE)  # the third tile of the first region goes
        both = first.view()  # and comes back
        with pytest.raises(MemoryBound):
            store.map(file, size=3 * TILE)
        space.armed = True
        with pytest.raises(NoAddressSpace):
            second.view()
        with pytest.raises(NoAddressSpace):
            store.map(file, size=TILE)
        space.armed = False
        del held
        gc.collect()
        memory[0] = memory_for(3) + 5
        store.relieve()
        memory[0] = memory_for(2)  # all that is left is pinned
        with pytest.raises(MemoryBound):
            second.view()
        del both
        gc.collect()
        third.view()
        store.map(file, size=TILE)
        memory[0] = memory_for(6)
        second.view(TILE, TILE + PAGE)
        second.close()
    return path


def random_use(folder: Path, seeds: range, steps: int = 60) -> Path:
    """Whatever comes, a store for each seed: memory shrinks and grows, calls of the system fail."""
    path, file = folder / "random.events", folder / "vectors"
    file.write_bytes(os.urandom(6 * TILE + PAGE))
    events = EventLog(path)
    for seed in seeds:
        draw, memory, space, views = Random(seed), [memory_for(6)], Failing(), list[Any]()
        with RegionStore(lambda memory=memory: memory[0], space=space, events=events) as store:  # type: ignore[misc]
            for _ in range(steps):
                region = draw.choice(store.regions) if store.regions else None
                space.armed = draw.random() < 0.1
                with contextlib.suppress(MemoryBound, NoAddressSpace, RegionInUse):
                    match draw.choice(["map", "view", "view", "view", "attend", "drop", "drop", "shrink", "close"]):
                        case "map":
                            store.map(file, draw.randrange(3) * PAGE, draw.randrange(1, 4 * TILE))
                        case "view" if region is not None:
                            start, stop = sorted(draw.randrange(region.size + 1) for _ in range(2))
                            views.append(region.view(start, stop))
                        case "attend" if region is not None:
                            region.attend([draw.randrange(ONE + 1) for _ in range(region.tiles)])
                        case "drop" if views:
                            views.pop(draw.randrange(len(views)))
                        case "shrink":
                            memory[0] = memory_for(draw.choice([2, 4, 6, 8])) + draw.randrange(PAGE)
                            if draw.random() < 0.5:
                                store.relieve()
                        case "close" if region is not None:
                            region.close()
            space.armed = False
            views.clear()
            gc.collect()
    return path


WORKER = """
import sys
from pathlib import Path
from tests.support.region_logs import used
used(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
"""


def used(log: Path, file: Path, seed: int) -> None:
    """Two stores of a process, used by two threads each."""
    events = EventLog(log)
    stores = [RegionStore(lambda: memory_for(4), events=events) for _ in range(2)]
    regions = [[store.map(file, size=3 * TILE) for _ in range(2)] for store in stores]

    def read(number: int) -> None:
        for turn in range(3):
            tile = (seed + number + turn) % 3
            for region in regions[number % 2]:
                with contextlib.suppress(MemoryBound):  # where the others hold too much
                    assert region.view(tile * TILE, (tile + 1) * TILE).any()

    threads = [threading.Thread(target=read, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    for store in stores:
        store.close()


def several_processes(folder: Path, count: int = 3) -> Path:
    """Processes that write one log at one time."""
    log, file = folder / "processes.events", folder / "shared"
    file.write_bytes(os.urandom(3 * TILE))
    children = [
        subprocess.Popen([sys.executable, "-c", WORKER, str(log), str(file), str(seed)]) for seed in range(count)
    ]
    assert [child.wait() for child in children] == [0] * count
    return log
