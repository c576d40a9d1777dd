"""The cache of keys and values grows, and a growth that fails leaves all as it was. spec: FD4.1 to FD4.12"""

from __future__ import annotations

import json
import math
import threading
import time
from itertools import count

import numpy as np
import pytest

from tests.support.failing_device import PLACES, FailingDevice, Injected, check, context_of, write
from tmmu.foundry.context import KvBudget, KvShape
from tmmu.foundry.cpu import CpuDevice
from tmmu.foundry.environment import Settings
from tmmu.foundry.failures import OutOfMemory, PrivateAccess, UseAfterFree
from tmmu.foundry.kv_cache import KvCache
from tmmu.foundry.shapes import Rotation
from tmmu.foundry.storage import StorageMode
from tmmu.runtime.events import EventLog

SMALL = KvShape(2, 4, 2, 4)
SHAPES = [SMALL, KvShape(2, 4, 2, 4, "expanded"), KvShape(1, 3, 3, 2)]


@pytest.fixture
def device():
    device = FailingDevice()
    yield device
    device.close()


def made(device, shape=SMALL, maximum=2000, initial=128, budget=None, strict=False, **more) -> KvCache:
    context = context_of(shape, maximum, initial, budget)
    return KvCache(device, shape, context, KvBudget(context.budget, strict), **more)


def table(buffer, shape):
    width = shape.head_dim // 2
    return buffer.device.view(buffer, 0, np.uint16, (buffer.size // (2 * width), width))


def test_sizes_of_the_buffers(device):
    """spec: FD4.1, FD4.5"""
    for layout, expected in (("compact", 4_194_304), ("expanded", 16_777_216)):
        shape = KvShape(4, 8, 2, 64, layout)
        cache = made(device, shape, maximum=4096, initial=2048)
        sizes = [buffer.size for n in range(4) for buffer in (cache.keys(n), cache.values(n))]
        assert (sum(sizes), set(sizes)) == (expected, {expected // 8})
        assert cache.size == cache.budget.reserved == expected
        assert [table.size for table in cache.tables_of(0)] == [131_072, 131_072]
        assert device.live_bytes == expected + 2 * 131_072
        cache.close()
        assert (device.live_bytes, cache.budget.held) == (0, 0)


@pytest.mark.parametrize(
    ("initial", "required", "maximum", "capacity"),
    [
        (2048, 2049, 4096, 4096),
        (2048, 5000, 6000, 5120),
        (2048, 2049, 3000, 3072),
        (4096, 4097, 5000, 5120),
        (2048, 3000, 4096, 4096),
        (128, 128, 2000, 128),
        (128, 129, 2000, 256),
        (128, 257, 2000, 384),
    ],
)
def test_growth_doubles_or_has_what_is_required_up_to_the_maximum(device, initial, required, maximum, capacity):
    """spec: FD4.2"""
    cache = made(device, KvShape(1, 1, 1, 2), maximum, initial)
    cache.ensure(required)
    assert cache.capacity == capacity
    cache.ensure(cache.capacity if cache.capacity <= maximum else maximum)
    assert cache.capacity == capacity


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_all_that_is_written_is_there_after_growth(device, shape):
    """spec: FD4.3, FD4.4"""
    cache = made(device, shape)
    write(cache, 100, 0)
    for required in (129, 300, 1100, 2000):
        cache.ensure(required)
        check(cache, [0] * 100)
        for buffer in (cache.keys(0), cache.values(shape.layers - 1)):
            held = device.view(buffer, 0, np.uint16, (shape.cache_heads, cache.capacity, shape.head_dim))
            assert not held[:, 100:].any()
    assert cache.epoch == 5


def test_the_tables_cover_the_capacity(device):
    """spec: FD4.5"""
    shape = KvShape(1, 1, 1, 8)
    cache = made(device, shape, maximum=5000, initial=1200, rotations=[Rotation(500.0)])
    cos, sin = Rotation(500.0).compute_rows(0, 1280, 8)
    for buffer, part in zip(cache.tables_of(0), (cos, sin), strict=True):
        assert np.array_equal(table(buffer, shape), part.view(np.uint16))
    cache.ensure(4999)
    cos, sin = Rotation(500.0).compute_rows(0, 5120, 8)
    for buffer, part in zip(cache.tables_of(0), (cos, sin), strict=True):
        assert buffer.mode is StorageMode.PRIVATE
        assert np.array_equal(table(buffer, shape), part.view(np.uint16))
    angle = 4321 / 500.0 ** (2 * 3 / 8)
    assert math.isclose(cos[4321, 3], math.cos(angle), abs_tol=1e-3)
    assert math.isclose(sin[4321, 3], math.sin(angle), abs_tol=1e-3)


def test_a_row_of_the_tables_has_the_same_bits_whatever_is_computed_with_it():
    whole = Rotation(10000.0).compute_rows(0, 200_000, 64)
    for first, rows in ((0, 1), (1, 7), (1023, 130), (131_071, 1000), (199_999, 1)):
        for part, all_of_it in zip(Rotation(10000.0).compute_rows(first, rows, 64), whole, strict=True):
            assert np.array_equal(part, all_of_it[first : first + rows])


def test_drafts_are_taken_back_and_written_again(device):
    """spec: FD4.7"""
    cache = made(device)
    write(cache, 120, 0)
    write(cache, 8, 1)
    cache.truncate(122)
    check(cache, [0] * 120 + [1] * 2)
    cache.ensure(300)
    check(cache, [0] * 120 + [1] * 2)
    write(cache, 100, 2)
    check(cache, [0] * 120 + [1] * 2 + [2] * 100)
    cache.clear()
    assert (cache.written, cache.capacity) == (0, 384)
    write(cache, 3, 4)
    check(cache, [4] * 3)


def test_positions_that_are_none_are_refused(device):
    """spec: FD4.7"""
    cache = made(device, maximum=100)
    write(cache, 90, 0)
    for call in (
        lambda: cache.count_written(11),
        lambda: cache.count_written(-1),
        lambda: cache.truncate(91),
        lambda: cache.truncate(-1),
    ):
        with pytest.raises(ValueError, match="tokens"):
            call()
    cache.count_written(10)
    assert cache.written == 100


def test_more_than_the_maximum_is_refused(device):
    """spec: FD4.6"""
    cache = made(device, maximum=300)
    cache.ensure(300)
    assert cache.capacity == 384
    with pytest.raises(OutOfMemory) as refused:
        cache.ensure(301)
    assert "300" in refused.value.what
    assert (cache.capacity, cache.epoch) == (384, 2)
    cache = made(device, maximum=100)  # there is room for 128, and 100 may be used
    with pytest.raises(OutOfMemory):
        cache.ensure(101)


def test_storage_modes_follow_the_variable(device):
    cache = made(device)
    with pytest.raises(PrivateAccess) as refused:
        cache.keys(0).contents()
    assert "METALLIC_KV_CACHE_SHARED=1" in refused.value.fix
    cache = made(device, settings=Settings(kv_cache_shared=True))
    assert not cache.values(1).contents().any()
    cache.ensure(129)
    assert cache.keys(1).mode is StorageMode.SHARED
    with pytest.raises(PrivateAccess):
        cache.tables_of(0)[0].contents()


def test_a_closed_cache_refuses_all(device):
    cache = made(device)
    keys = cache.keys(0)
    cache.close()
    cache.close()
    assert (device.live_bytes, cache.budget.held) == (0, 0)
    for call in (
        lambda: cache.ensure(1),
        lambda: cache.count_written(0),
        cache.clear,
        lambda: cache.read(0),
        keys.check,
    ):
        with pytest.raises(UseAfterFree):
            call()


def test_a_growth_counts_its_transient_peak(device):
    """spec: FD4.9"""
    cache = made(device)
    token, rope = SMALL.bytes_per_token, 2 * SMALL.rope_bytes(1)
    before = device.live_bytes
    cache.ensure(129)
    assert cache.budget.peak == (128 + 256) * token
    assert cache.budget.transient == 0
    staging = 1024 * rope
    assert cache.peak_bytes == (128 + 256) * (token + rope) + staging == device.peak_bytes
    assert device.live_bytes == 2 * before


def test_the_budget_caps_a_growth(device):
    """spec: FD4.8"""
    token = SMALL.bytes_per_token
    context = context_of(SMALL, 2000, 128, 2048 * token)
    budget = KvBudget(900 * token)
    caches = [KvCache(device, SMALL, context, budget, session=n) for n in (1, 2)]
    caches[0].ensure(513)
    assert caches[0].capacity == 640
    with pytest.raises(OutOfMemory):
        caches[1].ensure(257)
    caches[1].ensure(129)
    assert (caches[1].capacity, budget.reserved) == (256, 896 * token)
    caches[0].close()
    caches[1].ensure(800)
    assert caches[1].capacity == 896


def test_a_strict_budget_caps_old_and_new_together(device):
    """spec: FD4.9"""
    token = SMALL.bytes_per_token
    cache = made(device, budget=900 * token, strict=True)
    cache.ensure(129)
    cache.ensure(257)
    assert (cache.capacity, cache.budget.peak) == (512, 768 * token)
    with pytest.raises(OutOfMemory):
        cache.ensure(513)
    assert cache.capacity == 512


@pytest.mark.parametrize("shape", SHAPES[:2], ids=str)
@pytest.mark.parametrize("place", PLACES)
def test_a_growth_that_fails_anywhere_leaves_all_as_it_was(device, shape, place):
    """spec: FD4.10"""
    cache = made(device, shape, maximum=3000)
    write(cache, 100, 0)
    for number in count(1):
        before = (cache.capacity, cache.epoch, list(cache._buffers), cache.budget.reserved, device.live_bytes)
        device.arm(place, number)
        try:
            cache.ensure(2200)  # two chunks of the tables, and the rest of the third
        except (OutOfMemory, Injected):
            device.wait()
            after = (cache.capacity, cache.epoch, list(cache._buffers), cache.budget.reserved, device.live_bytes)
            assert after == before
            assert cache.budget.transient == 0
            device.arm(place, 0)
            check(cache, [0] * 100)
        else:
            break
    device.arm(place, 0)
    check(cache, [0] * 100)
    assert cache.capacity == 2304
    buffers, heads, chunks = 2 * shape.layers + 3, shape.cache_heads, 3
    assert (
        number - 1
        == {
            "buffer": buffers,
            "submission": heads + 1 + chunks,
            "command": 2 * shape.layers * heads + 2 + 2 * chunks,
        }[place]
    )


@pytest.mark.parametrize("place", PLACES)
def test_an_opening_that_fails_leaves_nothing_behind(device, place):
    """spec: FD4.10"""
    context = context_of(SMALL, 2000, 128)
    budget = KvBudget(context.budget)
    for number in count(1):
        device.arm(place, number)
        try:
            KvCache(device, SMALL, context, budget)
        except (OutOfMemory, Injected):
            assert (device.live_bytes, budget.held) == (0, 0)
        else:
            break
    assert number > 2


def test_a_failure_of_another_command_is_raised_once_and_leaves_the_cache(device):
    """spec: FD4.10"""
    cache = made(device)
    write(cache, 20, 0)

    def fails():
        raise Injected("another")

    device.submit(fails)
    live = device.live_bytes
    with pytest.raises(Injected, match="another"):
        cache.ensure(500)
    assert (cache.capacity, device.live_bytes, cache.budget.transient) == (128, live, 0)
    cache.ensure(500)
    check(cache, [0] * 20)


def test_old_buffers_stay_until_the_commands_before_have_ended(device):
    """Attention over the old buffers, and a pass that still writes them, are in flight when the cache grows.

    spec: FD4.11
    """
    cache = made(device)
    write(cache, 100, 0)
    old, gate, seen = cache.keys(0), threading.Event(), []
    view = device.view(old, 0, np.uint16, (SMALL.cache_heads, 128, SMALL.head_dim))

    def attention():
        gate.wait(10)
        seen.append((old.is_released, device.live_bytes, view[:, :110].copy()))

    device.submit(attention)
    write(cache, 10, 1)  # submitted after the attention, and copied all the same
    live = device.live_bytes
    grows = [threading.Thread(target=cache.ensure, args=(200,)) for _ in range(2)]  # which grow it once
    for thread in grows:
        thread.start()
    while device.live_bytes == live:  # until the new buffers are made
        time.sleep(0)
    gate.set()
    for thread in grows:
        thread.join()
    assert cache.epoch == 2
    (was_released, live_meanwhile, _) = seen[0]
    assert not was_released
    assert live_meanwhile > live
    assert old.is_released
    check(cache, [0] * 100 + [1] * 10)


def test_each_action_is_a_line_after_it(device):
    """spec: FD9.3"""
    events = EventLog()
    cache = made(device, events=events, session=7)
    write(cache, 3, 0)
    cache.ensure(130)
    cache.truncate(3)  # nothing happens
    cache.truncate(1)
    device.arm("buffer", 1)
    with pytest.raises(OutOfMemory):
        cache.ensure(300)
    cache.read(0)
    device.wait()
    cache.close()
    lines = [json.loads(line) for line in events.lines[1:]]
    assert {line["session"] for line in lines} == {7}
    rows = [(line["event"].removeprefix("cache "), line) for line in lines]
    alone = [(kind, line) for kind, line in rows if kind not in ("copied", "passed")]  # the device's own time
    assert [kind for kind, _ in alone] == [
        "open", "ask", "grow", "switch", "pass", "ask", "grow", "blit", "blit", "switch", "give back", "truncate",
        "ask", "grow", "fail", "pass", "close",
    ]  # fmt: skip
    assert [kind for kind, _ in rows].count("copied") == SMALL.cache_heads
    assert [line["number"] for kind, line in rows if kind == "passed"] == [1, 2]
    token = SMALL.bytes_per_token
    ledger = [(line["reserved"] // token, line["transient"] // token) for _, line in rows if "reserved" in line]
    assert ledger == [(128, 0), (256, 128), (256, 0), (512, 256), (256, 0), (0, 0)]
    assert [line["at"] for kind, line in rows if kind == "blit"] == [0, 256]


def test_a_copy_that_was_not_submitted_is_no_line(device):
    """spec: FD9.3"""
    events = EventLog()
    cache = made(device, events=events)
    write(cache, 3, 0)
    device.arm("submission", 2)
    with pytest.raises(Injected):
        cache.ensure(130)
    kinds = [json.loads(line)["event"] for line in events.lines]
    assert (kinds.count("cache blit"), kinds.count("cache copied")) == (1, 1)


def test_reads_of_another_thread_find_what_is_written_while_the_cache_grows():
    """spec: FD4.11, FD4.12"""
    device = CpuDevice()
    cache = made(device, maximum=6000)
    write(cache, 100, 0)
    failures, is_done = [], threading.Event()

    def reads():
        try:
            while not is_done.is_set():
                check(cache, [0] * 100)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=reads) for _ in range(2)]
    for thread in threads:
        thread.start()
    for required in range(200, 6000, 400):
        cache.ensure(required)
    is_done.set()
    for thread in threads:
        thread.join()
    assert failures == []
    cache.close()
    assert device.live_bytes == 0
    device.close()


def test_several_sessions_share_one_budget_in_threads():
    """spec: FD4.8, FD4.12"""
    device, token = CpuDevice(), SMALL.bytes_per_token
    budget = KvBudget(3000 * token)
    context = context_of(SMALL, 2000, 128, 3000 * token)
    failures: list[BaseException] = []
    refused = []

    def session(number):
        try:
            for _ in range(3):
                try:
                    cache = KvCache(device, SMALL, context, budget, session=number)
                except OutOfMemory:
                    refused.append(number)
                    continue
                for step in range(12):
                    try:
                        cache.ensure(cache.written + 100)
                    except OutOfMemory:
                        refused.append(number)
                        break
                    write(cache, 100, number)
                    assert budget.reserved <= budget.total
                    assert budget.held <= 2 * budget.total
                    if step % 5 == 4:
                        check(cache, [number] * cache.written)
                cache.close()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=session, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert refused
    assert (device.live_bytes, budget.held) == (0, 0)
    assert budget.peak <= 2 * budget.total
    device.close()
