"""The memory pool: where tensors are put, what stops a reset, and that every access of a stale tensor is refused.

spec: FD2.1 to FD2.12
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tmmu.core.errors import TmmuError
from tmmu.foundry.cpu import CpuDevice
from tmmu.foundry.failures import InUse, OutOfMemory, PrivateAccess, UseAfterFree
from tmmu.foundry.pool import MemoryPool
from tmmu.foundry.pooled import PooledTensor
from tmmu.foundry.storage import StorageMode
from tmmu.runtime.events import EventLog

MIB = 1 << 20
PRIVATE, SHARED = StorageMode.PRIVATE, StorageMode.SHARED


@pytest.fixture
def device() -> Iterator[CpuDevice]:
    made = CpuDevice()
    yield made
    made.close()


@pytest.fixture
def pool(device: CpuDevice) -> MemoryPool:
    return MemoryPool(device, initial=1024, limit=4096, mode=SHARED)


def sizes(pool: MemoryPool, request: int = 1) -> list[int]:
    """The bytes of each chunk that a pool opens for requests of one size, until it opens none."""
    found: list[int] = []
    while True:
        try:
            while pool.statistics.chunks == len(found):
                pool.allocate((request,), np.uint8)
        except OutOfMemory:
            return found
        found.append(pool.statistics.capacity - sum(found))


def test_chunks_of_the_defaults_are_those_of_the_original(device: CpuDevice) -> None:
    pool = MemoryPool(device)
    assert [size // MIB for size in sizes(pool, MIB)] == [256, 384, 576, 864, 1296, 1744]
    assert pool.statistics.capacity == 5 << 30 == pool.statistics.allocated == pool.statistics.peak
    assert pool.statistics.allocations == 5120
    assert [chunk.buffer.mode for chunk in pool._chunks] == [PRIVATE] * 6
    pool.close()
    assert device.live_bytes == 0


@pytest.mark.parametrize(
    ("initial", "limit", "request_", "expected"),
    [
        (256, 1 << 30, 1, [256] * 16),  # half of one unit more is none
        (512, 1 << 30, 1, [256 * n for n in (2, 3, 4, 6, 9, 13, 19, 28, 42, 63, 94, 141, 211, 316, 474, 711)]),
        (1, 1 << 10, 1, [256] * 4),  # rounded up to the alignment
        (1000, 2999, 1, [1024, 1536, 256]),  # the limit rounded down, the last chunk what is left of it
        (1 << 20, 1 << 10, 1, [1024]),  # the first one at most the limit
        (256, 1 << 12, 700, [768, 1024, 1536, 768]),  # at least the request, rounded
        (512, 1 << 12, 2000, [2048, 2048]),  # nothing is left of the limit
        (512, 2047, 2000, []),
        (512, 255, 1, []),
        (512, 0, 1, []),
        (512, 0, 0, []),
    ],
)  # fmt: skip
def test_each_chunk_is_half_as_large_again_as_the_last(
    device: CpuDevice, initial: int, limit: int, request_: int, expected: list[int]
) -> None:
    pool = MemoryPool(device, initial=initial, limit=limit)
    assert sizes(pool, request_) == expected
    assert pool.statistics.lacked == 1


def test_a_request_takes_the_first_chunk_with_room(device: CpuDevice) -> None:
    pool = MemoryPool(device, initial=1024, limit=1 << 20)
    places = [pool.allocate((size,), np.uint8) for size in (300, 600, 257, 256, 256, 0, 1)]
    assert [(t.chunk, t.offset) for t in places] == [
        (0, 0),
        (1, 0),
        (0, 512),
        (1, 768),
        (1, 1024),
        (0, 1024),
        (1, 1280),
    ]
    assert [t.size for t in places] == [300, 600, 257, 256, 256, 0, 1]
    assert all(t.address % 256 == 0 for t in places)
    s = pool.statistics
    assert (s.allocated, s.requested, s.fragmentation, s.capacity, s.chunks) == (2560, 1670, 890, 2560, 2)


def test_a_request_that_cannot_be_had_leaves_the_pool_as_it_was() -> None:
    device = CpuDevice(limit=3000)
    pool = MemoryPool(device, initial=1024, limit=1 << 20, label="p")
    first = pool.allocate((1000,), np.uint8)
    before = pool.statistics
    for size, why in (
        (3000, "more than the 1976 bytes that are left"),
        (1 << 20, "leaves 1047552"),
        (1 << 90, "leaves"),
    ):
        with pytest.raises(OutOfMemory, match=why) as caught:
            pool.allocate((size,), np.uint8)
        assert caught.value.place == "p"
        assert caught.value.diagnostics["requested"] == -(-size // 256) * 256
    assert pool.statistics == before._replace(lacked=3)
    assert device.live_bytes == 1024
    assert pool.allocate((1000,), np.uint8).chunk == 1
    assert first.is_current
    assert device.live_bytes == 1024 + 1536


@pytest.mark.parametrize(
    ("shape", "dtype", "says"),
    [
        ((-1,), "f4", r"shape \(-1,\): expected integer dimensions from 0"),
        ((2, -3), "f4", "dimensions"),
        ((1.5,), "f4", "dimensions"),
        (("a",), "f4", "dimensions"),
        (7, "f4", "shape 7: expected integer dimensions"),
        ((1,), "f5", "element type 'f5'"),
        ((1,), "O", "element type 'O': expected a number type of NumPy"),
        ((1,), "U3", "element type"),
        ((1,), "V0", "element type"),
        ((1,), [("a", "f4")], "element type"),
        ((1,), 7, "element type 7"),
    ],
)
def test_what_is_no_shape_or_element_type_is_refused(pool: MemoryPool, shape: Any, dtype: Any, says: str) -> None:
    before = pool.statistics
    with pytest.raises(ValueError, match=says):
        pool.allocate(shape, dtype)
    assert pool.statistics == before


def test_sizes_are_exact_however_large(pool: MemoryPool) -> None:
    with pytest.raises(OutOfMemory) as caught:
        pool.allocate((1 << 32, 1 << 32, 3), np.complex128)
    assert caught.value.diagnostics["requested"] == 3 << 68
    assert pool.allocate((0, 1 << 70), np.complex128).size == 0
    assert pool.allocate((), np.float64).size == 8


@pytest.mark.parametrize("wrong", [{"initial": 0}, {"limit": -1}, {"generation_bits": 0}])
def test_a_pool_of_nothing_is_refused(device: CpuDevice, wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="a pool of"):
        MemoryPool(device, **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", StorageMode)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "float32", "float64", "complex64", ">i4"])
def test_what_is_uploaded_is_downloaded(device: CpuDevice, mode: StorageMode, dtype: str) -> None:
    pool = MemoryPool(device, initial=1024, limit=4096, mode=mode)
    array = (np.arange(24).reshape(2, 3, 4) % 7).astype(dtype)
    tensor, other = pool.allocate((2, 3, 4), dtype), pool.allocate((2, 3, 4), dtype)
    other.upload(np.zeros_like(array))
    tensor.upload(array)
    assert tensor.download().tolist() == array.tolist()
    assert tensor.download().dtype == array.dtype
    assert other.download().tolist() == np.zeros_like(array).tolist()
    tensor[1].upload(array[0])
    assert tensor.download().tolist() == [array[0].tolist()] * 2
    assert device.live_bytes == 1024  # no staging buffer is left
    for wrong in (array[0], array.T, array.astype("complex128")):
        with pytest.raises(ValueError, match="cast it first"):
            tensor.upload(wrong)
    empty = pool.allocate((0, 3), dtype)
    empty.upload(np.zeros((0, 3), dtype))
    assert empty.download().shape == (0, 3)


KEYS: list[Any] = [
    0, -1, 2, (1, 2), (1, -3, 3), (1, 2, 3), slice(None), slice(1, None), slice(-2, -1), slice(2, 1), slice(5, 9),
    (0, slice(1, 3)), (2, 1, slice(0, 2)), (),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_views_are_those_of_numpy(pool: MemoryPool, key: Any) -> None:
    array = np.arange(60, dtype=np.int16).reshape(3, 4, 5)
    tensor = pool.allocate(array.shape, array.dtype)
    tensor.upload(array)
    view = tensor[key]
    assert view.shape == array[key].shape
    assert view.download().tolist() == array[key].tolist()
    assert view.reshape(array[key].size).download().tolist() == array[key].reshape(-1).tolist()
    assert (view.generation, view.number, view.dtype) == (tensor.generation, tensor.number, tensor.dtype)


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (3, IndexError), (-4, IndexError), ((0, 0, 0, 0), IndexError), (slice(None, None, 2), ValueError),
        ((slice(None), 0), ValueError), ("a", TypeError), (None, TypeError), (1.0, TypeError),
    ],
)  # fmt: skip
def test_what_is_no_contiguous_view_is_refused(pool: MemoryPool, key: Any, error: type[Exception]) -> None:
    tensor = pool.allocate((3, 4, 5), np.int16)
    with pytest.raises(error):
        tensor[key]
    for shape in ((61,), (-1,), (3, 4, 6)):
        with pytest.raises(ValueError, match=r"reshape|dimensions"):
            tensor.reshape(*shape)


def accesses(tensor: PooledTensor) -> dict[str, Callable[[], object]]:
    """Every way to the bytes of a tensor of 2 by 3."""
    pool, array = tensor.pool, np.zeros((2, 3), np.float32)
    return {
        "address": lambda: tensor.address,
        "index": lambda: tensor[0],
        "reshape": lambda: tensor.reshape(6),
        "upload": lambda: tensor.upload(array),
        "download": tensor.download,
        "export": tensor.export,
        "lease": tensor.lease,
        "pool's export": lambda: pool.export(tensor),
        "read by a command": lambda: pool.submit(lambda array: None, reads=[tensor]),
        "written by a command": lambda: pool.submit(lambda array: None, writes=[tensor]),
        "held by a command": lambda: pool.hold(lambda: None, reads=[tensor]),
    }


def refusals(tensor: PooledTensor) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name, access in accesses(tensor).items():
        try:
            access()
            found[name] = None
        except TmmuError as error:
            found[name] = error.code_id
    return found


@pytest.mark.parametrize("where", ["here", "in another thread", "in a command"])
@pytest.mark.parametrize("what", ["tensor", "view", "reshaped"])
def test_every_access_of_a_stale_tensor_is_refused(device: CpuDevice, pool: MemoryPool, what: str, where: str) -> None:
    tensor = pool.allocate((2, 3), np.float32)
    if what != "tensor":
        tensor = pool.allocate((4, 3), np.float32)[1:3] if what == "view" else tensor.reshape(6).reshape(2, 3)
    found: list[dict[str, str | None]] = []

    def look() -> None:
        found.append(refusals(tensor))

    def run(do: Callable[[], object]) -> None:
        if where == "here":
            do()
        elif where == "in a command":
            device.wait(device.submit(do))
        else:
            thread = threading.Thread(target=do)
            thread.start()
            thread.join()

    run(look)
    if where != "in a command":  # there a copy cannot be waited for
        assert set(found[0].values()) == {None}
    gc.collect()
    device.wait()
    submitted = device.submitted
    pool.reset()
    run(look)
    assert set(found[1].values()) == {"USE_AFTER_FREE"}
    assert pool.statistics.refused == len(found[1])
    assert device.submitted == submitted + (where == "in a command")  # nothing was
    assert not tensor.is_current
    assert "generation 0" in repr(tensor)
    assert (tensor.size, tensor.shape) == (24, (2, 3))
    with pytest.raises(UseAfterFree, match="it is of generation 0, and the pool of 1; allocate it again") as caught:
        tensor.download()
    assert caught.value.place == tensor.label


def test_a_tensor_of_another_pool_is_no_tensor_of_this_one(device: CpuDevice, pool: MemoryPool) -> None:
    other = MemoryPool(device, initial=1024, label="other").allocate((1,), np.uint8)
    with pytest.raises(ValueError, match="other: tensor 1 is not of pool"):
        pool.submit(lambda array: None, reads=[other])


def test_a_private_pool_exports_to_commands_alone(device: CpuDevice) -> None:
    pool = MemoryPool(device, initial=1024, forced_by="VARIABLE")
    tensor = pool.allocate((3,), np.uint8)
    for access in (tensor.export, tensor.lease):
        with pytest.raises(PrivateAccess, match="set VARIABLE=1"):
            access()
    pool.submit(lambda array: array.fill(4), writes=[tensor])
    seen: list[Any] = []
    device.submit(lambda: seen.append(tensor.export().tolist()))
    assert tensor.download().tolist() == [4, 4, 4]
    assert seen == [[4, 4, 4]]
    assert pool.statistics.leases == 0


def test_a_command_reads_and_writes_what_it_was_given(device: CpuDevice, pool: MemoryPool) -> None:
    a, b = (pool.allocate((4,), np.int32) for _ in range(2))
    a.upload(np.arange(4, dtype=np.int32))

    def scatter(read: Any, written: Any) -> None:
        written[:] = 10 * read
        with pytest.raises(ValueError, match="read-only"):
            read[0] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            read[:].flags.writeable = True

    device.wait(pool.submit(scatter, reads=[a], writes=[b]))
    assert b.download().tolist() == [0, 10, 20, 30]
    with pytest.raises(InUse, match="a command cannot wait for a copy"):
        device.wait(device.submit(a.download))
    with pytest.raises(InUse, match="a command cannot wait for a copy"):
        device.wait(device.submit(lambda: b.upload(np.zeros(4, np.int32))))


def held_array(tensor: PooledTensor) -> Any:
    return tensor.export()


def held_view_of_views(tensor: PooledTensor) -> Any:
    return tensor.export()[1:].T[::2].reshape(-1)[:1]


def held_memoryview(tensor: PooledTensor) -> Any:
    return memoryview(tensor.export().reshape(-1)[2:])


def held_other_type(tensor: PooledTensor) -> Any:
    return np.frombuffer(tensor.export().view(np.uint8).reshape(-1).data, np.uint8)[3:]


def held_by_a_subclass(tensor: PooledTensor) -> Any:
    return np.ma.masked_array(tensor.export()[1:])


HOLDERS = [held_array, held_view_of_views, held_memoryview, held_other_type, held_by_a_subclass]


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_lease_ends_with_the_last_array_derived_from_it(
    pool: MemoryPool, holder: Callable[[PooledTensor], Any]
) -> None:
    tensor = pool.allocate((2, 3), np.float32)
    held: Any = holder(tensor)
    gc.collect()
    assert pool.statistics.leases == 1
    before = pool.statistics
    with pytest.raises(InUse, match="1 leases and 0 commands hold it") as caught:
        pool.reset(wait=False)
    assert caught.value.place == "pool"
    with pytest.raises(InUse):
        pool.reset(timeout=0.01)
    with pytest.raises(InUse):
        pool.close(wait=False)
    assert pool.statistics == before._replace(in_use=3)
    assert tensor.is_current
    del held
    pool.reset(wait=False)
    assert (pool.generation, pool.statistics.leases) == (1, 0)


def test_an_array_in_a_cycle_of_references_is_held_by_nobody(pool: MemoryPool) -> None:
    cycle: list[Any] = [pool.allocate((2, 3), np.float32).export()]
    cycle.append(cycle)
    gc.disable()
    try:
        del cycle
        with pytest.raises(InUse):
            pool.reset(wait=False)
        pool.reset(timeout=60)
    finally:
        gc.enable()


def test_a_lease_is_released_where_nothing_derived_from_it_is_held(pool: MemoryPool) -> None:
    tensor = pool.allocate((2, 3), np.float32)
    with tensor.lease() as lease:
        lease.array[:] = 2
        with pytest.raises(InUse):
            pool.reset(wait=False)
    lease.release()
    with pytest.raises(UseAfterFree, match="the lease was released"):
        _ = lease.array
    assert tensor.download().tolist() == [[2] * 3] * 2
    lease = tensor.lease()
    kept = lease.array[1:]
    with pytest.raises(InUse, match="held elsewhere"):
        lease.release()
    with pytest.raises(InUse, match="1 leases"):
        pool.reset(wait=False)
    del kept
    lease.release()


def test_what_goes_wrong_under_a_lease_is_not_hidden_by_what_is_still_held(pool: MemoryPool) -> None:
    def fail() -> None:
        with pool.allocate((2, 3), np.float32).lease() as lease:
            held = lease.array
            raise KeyError(held.shape)

    with pytest.raises(KeyError):
        fail()
    gc.collect()
    pool.reset(wait=False)


def blocked(device: CpuDevice) -> threading.Event:
    """Have the device work on something that ends when the event is set."""
    begun, end = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert end.wait(60)

    device.submit(work)
    assert begun.wait(60)
    return end


def test_a_reset_waits_for_commands_that_work_on_its_tensors(device: CpuDevice, pool: MemoryPool) -> None:
    tensor, result = (pool.allocate((64,), np.uint8) for _ in range(2))
    tensor.upload(np.full(64, 5, np.uint8))
    seen: list[list[int]] = []
    end = blocked(device)
    pool.submit(lambda read, written: seen.append(read.tolist()), reads=[tensor], writes=[result])
    with pytest.raises(InUse, match="0 leases and 1 commands hold it"):
        pool.reset(wait=False)
    thread = threading.Thread(target=pool.reset)
    thread.start()
    time.sleep(0.02)
    assert (pool.generation, pool.statistics.commands) == (0, 1)
    later = pool.allocate((64,), np.uint8)  # others go on
    assert later.generation == 0
    end.set()
    thread.join(60)
    assert pool.generation == 1
    assert seen == [[5] * 64]
    with pytest.raises(UseAfterFree):
        later.download()


def test_a_reset_does_not_wait_for_what_is_not_its_own(device: CpuDevice, pool: MemoryPool) -> None:
    end = blocked(device)
    pool.reset(wait=False)
    end.set()


def test_a_reset_that_waits_sees_a_lease_end_in_another_thread(pool: MemoryPool) -> None:
    tensor = pool.allocate((2, 3), np.float32)
    held = [tensor.export(), tensor.export()]
    thread = threading.Thread(target=pool.reset)
    thread.start()
    held.pop()
    time.sleep(0.02)
    assert pool.generation == 0
    held.pop()
    thread.join(60)
    assert pool.generation == 1


def test_a_lease_that_ends_while_its_own_thread_has_the_lock_is_counted_after_it(pool: MemoryPool) -> None:
    """A collection may come at any moment; here it comes in the middle of an access."""
    tensor = pool.allocate((2, 3), np.float32)
    held = [tensor.export()]
    with pool.access(tensor):
        held.clear()
        assert pool._leases == {1: 1}
    assert pool._leases == {}


def test_a_thread_that_dies_leaves_no_lease_behind(pool: MemoryPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda failure: None)  # that of the tests keeps the failure
    tensor = pool.allocate((2, 3), np.float32)

    def die() -> None:
        held = tensor.export()
        assert held.shape == (2, 3)
        raise KeyError

    thread = threading.Thread(target=die)
    thread.start()
    thread.join()
    pool.reset(timeout=60)


def test_a_command_that_fails_holds_nothing(device: CpuDevice, pool: MemoryPool) -> None:
    tensor = pool.allocate((2, 3), np.float32)

    def fail(array: Any) -> None:
        part = array[1:]
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError(part.shape) from error

    number = pool.submit(fail, writes=[tensor])
    pool.reset(timeout=60)  # what it raised is not yet
    with pytest.raises(ValueError, match=r"\(1, 3\)"):
        device.wait(number)
    assert pool.statistics.leases == pool.statistics.commands == 0


def test_a_command_that_keeps_its_array_keeps_the_generation(device: CpuDevice, pool: MemoryPool) -> None:
    kept: list[Any] = []
    device.wait(pool.submit(kept.append, writes=[pool.allocate((2, 3), np.float32)]))
    with pytest.raises(InUse, match="1 leases and 0 commands"):
        pool.reset(wait=False)
    kept.clear()
    pool.reset(wait=False)


def test_what_is_not_submitted_holds_nothing(device: CpuDevice, pool: MemoryPool) -> None:
    tensor = pool.allocate((2, 3), np.float32)
    device.close()
    with pytest.raises(RuntimeError, match="the device is closed"):
        tensor.download()
    pool.reset(wait=False)
    assert device.live_bytes == 1024


def test_a_reset_from_within_a_command_waits_for_nothing(device: CpuDevice, pool: MemoryPool) -> None:
    tensor = pool.allocate((2, 3), np.float32)
    device.wait(device.submit(pool.reset))
    assert pool.generation == 1
    tensor = pool.allocate((2, 3), np.float32)
    with pytest.raises(InUse, match="1 commands"):
        device.wait(pool.hold(pool.reset, writes=[tensor]))


def test_chunks_stay_and_are_given_out_again(pool: MemoryPool) -> None:
    first = pool.allocate((1000,), np.uint8)
    pool.allocate((1500,), np.uint8)
    addresses = first.address, pool.statistics.capacity
    pool.reset()
    again = pool.allocate((1000,), np.uint8)
    assert (again.address, pool.statistics.capacity) == addresses
    s = pool.statistics
    assert (s.generation, s.resets, s.chunks, s.allocated, s.requested, s.peak) == (1, 1, 2, 1024, 1000, 2560)
    assert s.allocations == again.number == 3


def test_no_generation_comes_again(device: CpuDevice) -> None:
    events = EventLog()
    pool = MemoryPool(device, initial=1024, mode=SHARED, generation_bits=2, events=events)
    tensors = []
    for generation in range(4):
        tensors.append(pool.allocate((2, 3), np.float32))
        assert [t.is_current for t in tensors] == [t is tensors[-1] for t in tensors]
        if generation < 3:
            pool.reset()
    held = tensors[-1].export()
    for _ in range(2):
        with pytest.raises(OutOfMemory, match="generation 3 is the last, and none may come again"):
            pool.reset(timeout=60)  # at once, whatever is held
    assert (pool.generation, held.shape) == (3, (2, 3))
    assert tensors[-1].is_current
    assert pool.allocate((1,), np.uint8).generation == 3
    del held
    pool.close()
    assert MemoryPool(device).last_generation == (1 << 64) - 1


def test_a_pool_that_is_closed_refuses_all(device: CpuDevice, pool: MemoryPool) -> None:
    tensor = pool.allocate((2, 3), np.float32)
    held = [tensor.export()]
    threads = [threading.Thread(target=pool.close) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.02)
    assert device.live_bytes == 1024
    held.clear()
    for thread in threads:
        thread.join(60)
    pool.close()
    assert set(refusals(tensor).values()) == {"USE_AFTER_FREE"}
    assert not tensor.is_current
    assert device.live_bytes == 0
    for refused in (pool.reset, lambda: pool.allocate((1,), np.uint8)):
        with pytest.raises(UseAfterFree, match="the pool was closed"):
            refused()


def test_a_reset_that_waits_is_refused_when_the_pool_is_closed_meanwhile(pool: MemoryPool) -> None:
    held = [pool.allocate((2, 3), np.float32).export()]
    found: list[BaseException] = []

    def reset() -> None:
        try:
            while True:
                pool.reset()
        except UseAfterFree as error:
            found.append(error)

    threads = [threading.Thread(target=reset), threading.Thread(target=pool.close)]
    for thread in threads:
        thread.start()
    held.clear()
    for thread in threads:
        thread.join(60)
    assert len(found) == 1
