"""The memory pool beside a plain model of it, whatever is asked of it in whatever order, and under threads.

spec: FD2.1 to FD2.9
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.effort import share
from tmmu.foundry.cpu import CpuDevice
from tmmu.foundry.failures import InUse, OutOfMemory, UseAfterFree
from tmmu.foundry.pool import MemoryPool
from tmmu.foundry.pooled import PooledTensor
from tmmu.foundry.storage import StorageMode


@dataclass
class Known:
    """A tensor, and what the model has of it: its own array, of which views are NumPy's."""

    tensor: PooledTensor
    array: Any
    generation: int
    is_written: bool = False


class PoolMachine(RuleBasedStateMachine):
    """The model has an array for each tensor, which nothing else shares; places are counted in units of 256 bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.device = CpuDevice()
        self.known: list[Known] = []
        self.leases: list[tuple[Known, Any]] = []
        self.generation = 0
        self.used: list[int] = []
        self.sizes: list[int] = []
        self.gates: list[threading.Event] = []
        self.working = 0

    @initialize(
        initial=st.integers(1, 6), limit=st.integers(0, 40), mode=st.sampled_from(StorageMode), bits=st.integers(1, 3)
    )
    def make(self, initial: int, limit: int, mode: StorageMode, bits: int) -> None:
        self.initial, self.limit, self.bits = initial, limit, bits
        self.pool = MemoryPool(self.device, initial=256 * initial, limit=256 * limit, mode=mode, generation_bits=bits)

    def teardown(self) -> None:
        for gate in self.gates:
            gate.set()
        self.device.close()

    @property
    def current(self) -> list[Known]:
        return [known for known in self.known if known.generation == self.generation]

    def expected(self, units: int) -> tuple[int, int] | None:
        """The chunk and the unit where a request goes, as the text of F6 has it; None where there is no room."""
        for chunk, used in enumerate(self.used):
            if used + units <= self.sizes[chunk]:
                self.used[chunk] += units
                return chunk, used
        left = self.limit - sum(self.sizes)
        if len(self.sizes) == 16 or left < max(units, 1):
            return None
        self.sizes.append(min(max(self.sizes[-1] * 3 // 2 if self.sizes else self.initial, units), left))
        self.used.append(units)
        return len(self.sizes) - 1, 0

    @rule(rows=st.integers(0, 40), columns=st.integers(1, 30), dtype=st.sampled_from(["u1", "f2", "i4", "f8"]))
    def allocate(self, rows: int, columns: int, dtype: str) -> None:
        size = rows * columns * np.dtype(dtype).itemsize
        place = self.expected(-(-size // 256))
        if place is None:
            with pytest.raises(OutOfMemory):
                self.pool.allocate((rows, columns), dtype)
            return
        tensor = self.pool.allocate((rows, columns), dtype)
        assert (tensor.chunk, tensor.offset) == (place[0], 256 * place[1])
        self.known.append(Known(tensor, np.zeros((rows, columns), dtype), self.generation))

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def view(self, data: st.DataObject) -> None:
        base = data.draw(st.sampled_from(self.known))
        first = data.draw(st.integers(0, len(base.array)))
        end = data.draw(st.integers(first, len(base.array)))
        if base.generation != self.generation:
            with pytest.raises(UseAfterFree):
                base.tensor[first:end]
        else:
            tensor = base.tensor[first:end]
            self.known.append(Known(tensor, base.array[first:end], base.generation, base.is_written))

    @precondition(lambda self: self.known and not self.working)
    @rule(data=st.data(), seed=st.integers(0, 255))
    def upload(self, data: st.DataObject, seed: int) -> None:
        known = data.draw(st.sampled_from(self.known))
        content = np.full(known.array.shape, seed % 100, known.array.dtype)
        if known.generation != self.generation:
            with pytest.raises(UseAfterFree):
                known.tensor.upload(content)
        else:
            known.tensor.upload(content)
            known.array[...] = content
            known.is_written = True

    @precondition(lambda self: self.known and not self.working)
    @rule(data=st.data())
    def download(self, data: st.DataObject) -> None:
        known = data.draw(st.sampled_from(self.known))
        if known.generation != self.generation:
            with pytest.raises(UseAfterFree):
                known.tensor.download()
        else:
            found = known.tensor.download()
            assert found.shape == known.array.shape
            if known.is_written:
                assert found.tolist() == known.array.tolist()

    @precondition(lambda self: self.known and not self.working)
    @rule(data=st.data(), seed=st.integers(0, 99))
    def command(self, data: st.DataObject, seed: int) -> None:
        written = data.draw(st.sampled_from(self.known))
        if written.generation != self.generation:
            with pytest.raises(UseAfterFree):
                self.pool.submit(lambda array: array.fill(seed), writes=[written.tensor])
        else:
            self.pool.submit(lambda array: array.fill(seed), writes=[written.tensor])
            self.device.wait()
            written.array[...] = seed
            written.is_written = True

    @precondition(lambda self: self.current and not self.working)
    @rule(data=st.data())
    def work(self, data: st.DataObject) -> None:
        """The device works on a tensor until it is told to end."""
        known, gate, begun = data.draw(st.sampled_from(self.current)), threading.Event(), threading.Event()

        def command(array: Any) -> None:
            begun.set()
            assert gate.wait(60)

        self.pool.submit(command, reads=[known.tensor])
        assert begun.wait(60)
        self.gates.append(gate)
        self.working = 1

    @precondition(lambda self: self.working)
    @rule()
    def end_work(self) -> None:
        self.gates.pop().set()
        self.device.wait()
        self.working = 0

    @precondition(lambda self: self.known and self.pool.mode is StorageMode.SHARED)
    @rule(data=st.data())
    def export(self, data: st.DataObject) -> None:
        known = data.draw(st.sampled_from(self.known))
        if known.generation != self.generation:
            with pytest.raises(UseAfterFree):
                known.tensor.export()
        else:
            array = known.tensor.export()
            self.leases.append((known, array[len(array) // 2 :].T))

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), seed=st.integers(0, 99))
    def write_through_a_lease(self, data: st.DataObject, seed: int) -> None:
        known, array = self.leases[data.draw(st.integers(0, len(self.leases) - 1))]  # what is drawn is kept
        array[...] = seed
        known.array[len(known.array) // 2 :] = seed

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def end_lease(self, data: st.DataObject) -> None:
        del self.leases[data.draw(st.integers(0, len(self.leases) - 1))]

    @rule(wait=st.booleans())
    def reset(self, wait: bool) -> None:
        is_last = self.generation == 2**self.bits - 1
        if is_last or self.leases or self.working:
            with pytest.raises(OutOfMemory if is_last else InUse):
                self.pool.reset(wait=wait, timeout=0.001)
        else:
            self.pool.reset(wait=wait)
            self.generation += 1
            self.used = [0] * len(self.used)

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "pool"):
            return
        s = self.pool.statistics
        assert (s.generation, s.resets, s.chunks) == (self.generation, self.generation, len(self.sizes))
        assert (s.allocated, s.capacity) == (256 * sum(self.used), 256 * sum(self.sizes))
        assert (s.leases - self.working, s.commands) == (len(self.leases), self.working)
        assert self.device.live_bytes == s.capacity <= self.pool.limit
        assert [k.tensor.is_current for k in self.known] == [k.generation == self.generation for k in self.known]
        for known, array in self.leases:
            if known.is_written:
                assert array.T.tolist() == known.array[len(known.array) // 2 :].tolist()


TestPool = PoolMachine.TestCase
TestPool.settings = settings(max_examples=share(120), stateful_step_count=40)


def test_eight_threads_and_resets_lose_nothing_and_never_read_what_is_anothers() -> None:
    """Each thread writes patterns of its own, and finds them again or is refused; any of them resets in between."""
    device = CpuDevice()
    pool = MemoryPool(device, initial=1 << 12, limit=1 << 14, mode=StorageMode.SHARED)
    wrong: list[str] = []
    counts = {"whole": 0, "stale": 0, "full": 0, "reset": 0, "busy": 0}
    lock, stop = threading.Lock(), threading.Event()

    def count(what: str) -> None:
        with lock:
            counts[what] += 1

    def look(found: Any, pattern: int, where: str) -> None:
        if set(np.asarray(found).reshape(-1).tolist()) - {pattern}:
            wrong.append(f"{where} {pattern}: {sorted(set(np.asarray(found).reshape(-1).tolist()))}")

    def once(random: Random, pattern: int) -> None:
        tensor = pool.allocate((random.randrange(1, 700),), np.uint32)
        content = np.full(tensor.shape, pattern, np.uint32)
        tensor.upload(content)
        way = random.randrange(3)
        if way == 0:
            look(tensor.download(), pattern, "download")
        elif way == 1:
            array = tensor[tensor.shape[0] // 2 :].export()
            for _ in range(5):
                look(array, pattern, "export")
        else:
            number = pool.submit(lambda array: look(array, pattern, "command"), reads=[tensor])
            device.wait(number)
        look(tensor.reshape(1, tensor.shape[0]).download(), pattern, "view")

    def work(thread: int) -> None:
        random = Random(thread)
        for k in range(150):
            try:
                once(random, 1 + thread * 1000 + k)
                count("whole")
            except UseAfterFree:
                count("stale")
            except OutOfMemory:
                count("full")
                try:
                    pool.reset(wait=bool(k % 2), timeout=0.5)
                    count("reset")
                except InUse:
                    count("busy")
            except BaseException as error:
                wrong.append(repr(error))
        stop.set()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert wrong == []
    assert sum(counts.values()) - counts["reset"] - counts["busy"] == 8 * 150
    assert min(counts["whole"], counts["stale"], counts["reset"]) > 10, counts
    assert pool.generation == counts["reset"]
    pool.reset(wait=False)  # nothing is held, and nothing counted that has ended
    pool.close()
    device.close()
    assert device.live_bytes == 0
