"""The device of a session: buffers in two storage modes, and a queue that executes commands in order.

spec: FD1.1 to FD1.7
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
import pytest

from tmmu.foundry.cpu import CpuDevice
from tmmu.foundry.device import Buffer
from tmmu.foundry.failures import InUse, OutOfMemory, PrivateAccess, UseAfterFree
from tmmu.foundry.storage import STORAGE_MODES, StorageMode, TensorType, storage_mode

PRIVATE, SHARED = StorageMode.PRIVATE, StorageMode.SHARED


@pytest.fixture
def device() -> Iterator[CpuDevice]:
    made = CpuDevice()
    yield made
    made.close()


class Gate:
    """A command that does not end before it is opened."""

    def __init__(self, device: CpuDevice) -> None:
        self.begun, self._open = threading.Event(), threading.Event()
        self.number = device.submit(self._pass)

    def _pass(self) -> None:
        self.begun.set()
        assert self._open.wait(60)

    def open(self) -> None:
        self._open.set()


def content(device: CpuDevice, buffer: Buffer) -> list[int]:
    """What is in a buffer of either mode, through a copy."""
    copy = device.new_buffer(buffer.size, SHARED, "copy")
    device.wait(device.copy(buffer, 0, copy, 0, buffer.size))
    return copy.contents().tolist()


DOCUMENT = """
| Tensor Type | Default Mode | Rationale |
| :--- | :--- | :--- |
| **Weights** | `Private` | High reuse, static. Needs max GPU bandwidth. |
| **KV Cache** | `Private` | Read every step. High bandwidth requirement. |
| **Intermediates** | `Private` | Short-lived, written/read by GPU kernels only. |
| **Staging/Inputs** | `Shared` | Written by CPU (Token IDs), read by GPU. |
| **Outputs** | `Shared` | Written by GPU (Logits), read by CPU (Sampling). |
"""


def test_storage_modes_are_the_five_rows_of_the_document() -> None:
    rows = [f"| **{kind.value}** | `{row.mode.value}` | {row.rationale} |" for kind, row in STORAGE_MODES.items()]
    assert rows == DOCUMENT.strip().splitlines()[2:]


def test_two_variables_force_shared_each_for_its_own_row() -> None:
    forced = {
        "METALLIC_KV_CACHE_SHARED": TensorType.KV_CACHE,
        "METALLIC_INTERMEDIATES_SHARED": TensorType.INTERMEDIATES,
    }
    for variable, row in forced.items():
        for kind in TensorType:
            changed = storage_mode(kind, {variable: True}) is not storage_mode(kind, {variable: False})
            assert changed == (kind is row)
            assert storage_mode(kind, {variable: False}) is storage_mode(kind, {}) is STORAGE_MODES[kind].mode
    assert {row.forced_by for row in STORAGE_MODES.values()} == {"", *forced}


def test_a_private_buffer_is_the_devices_own(device: CpuDevice) -> None:
    private = device.new_buffer(4, PRIVATE, "kv", "METALLIC_KV_CACHE_SHARED")
    with pytest.raises(PrivateAccess, match="METALLIC_KV_CACHE_SHARED=1") as caught:
        private.contents()
    assert (caught.value.code_id, caught.value.place) == ("PRIVATE_ACCESS", "kv")
    with pytest.raises(PrivateAccess) as caught:
        device.new_buffer(4, PRIVATE, "weights").contents()
    assert "set" not in str(caught.value)  # no variable makes weights Shared
    staging = device.new_buffer(4, SHARED, "staging")
    staging.contents()[:] = [1, 2, 3, 4]
    device.copy(staging, 1, private, 0, 3)
    assert content(device, private) == [2, 3, 4, 0]
    forced = device.new_buffer(4, storage_mode(TensorType.KV_CACHE, {"METALLIC_KV_CACHE_SHARED": True}), "kv")
    assert forced.contents().tolist() == [0] * 4


@pytest.mark.parametrize("mode", StorageMode)
def test_a_new_buffer_is_zero_aligned_and_stays_where_it_is(device: CpuDevice, mode: StorageMode) -> None:
    buffers = [device.new_buffer(size, mode, str(size)) for size in (0, 1, 255, 4096, 5000)]
    addresses = [buffer.address for buffer in buffers]
    assert [address % 256 for address in addresses] == [0] * 5
    for buffer in buffers:
        assert content(device, buffer) == [0] * buffer.size
        device.submit(lambda buffer=buffer: device.view(buffer, 0, np.uint8, (buffer.size,)).fill(7))
        assert content(device, buffer) == [7] * buffer.size
    assert [buffer.address for buffer in buffers] == addresses


def test_a_buffer_that_cannot_be_had_leaves_the_device_as_it_was() -> None:
    device = CpuDevice(limit=100)
    held = device.new_buffer(60, PRIVATE, "held")
    for size in (41, 1 << 40, 1 << 80):
        with pytest.raises(OutOfMemory, match="the 40 bytes that are left") as caught:
            device.new_buffer(size, PRIVATE, "more")
        assert (caught.value.place, caught.value.diagnostics["requested"]) == ("more", size)
    with pytest.raises(ValueError, match="-1 bytes for 'none'"):
        device.new_buffer(-1, PRIVATE, "none")
    assert (device.buffers_made, device.live_bytes, device.peak_bytes) == (1, 60, 60)
    device.new_buffer(40, PRIVATE, "rest")
    held.release()
    assert (device.buffers_made, device.live_bytes, device.peak_bytes) == (2, 40, 100)
    system = CpuDevice()
    for size in (1 << 62, 1 << 63, 1 << 80):
        with pytest.raises(OutOfMemory, match="cannot be allocated"):
            system.new_buffer(size, PRIVATE, "more")
    assert (system.buffers_made, system.live_bytes, system.peak_bytes) == (0, 0, 0)


@pytest.mark.parametrize("mode", StorageMode)
def test_a_released_buffer_refuses_every_access(device: CpuDevice, mode: StorageMode) -> None:
    buffer, other = device.new_buffer(8, mode, "gone"), device.new_buffer(8, SHARED, "other")
    made = [device.blit(buffer, 0, other, 0, 8), device.blit(other, 0, buffer, 0, 8)]  # not submitted yet
    buffer.release()
    buffer.release()
    assert buffer.is_released
    assert device.live_bytes == 8
    accesses = [
        buffer.contents,
        lambda: buffer.address,
        lambda: device.blit(buffer, 0, other, 0, 8),
        lambda: device.blit(other, 0, buffer, 0, 8),
        lambda: device.view(buffer, 0, np.uint8, (8,)),
        *(lambda blit=blit: device.wait(device.submit(blit)) for blit in made),
    ]
    for access in accesses:
        with pytest.raises(UseAfterFree) as caught:
            access()
        assert (caught.value.code_id, caught.value.place) == ("USE_AFTER_FREE", "gone")


def test_bytes_are_given_back_only_after_the_commands_that_were_submitted_before(device: CpuDevice) -> None:
    source, target = (device.new_buffer(8, SHARED, label) for label in ("source", "target"))
    source.contents()[:] = 5
    gate = Gate(device)
    device.copy(source, 0, target, 0, 8)
    threads = [threading.Thread(target=source.release) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert gate.begun.wait(60)
    assert (source.is_released, device.live_bytes) == (False, 16)
    gate.open()
    for thread in threads:
        thread.join()
    assert target.contents().tolist() == [5] * 8
    assert (source.is_released, device.live_bytes) == (True, 8)  # once, by whichever thread was first


def test_a_release_waits_for_a_command_that_fails_and_leaves_the_failure_to_the_next_wait(device: CpuDevice) -> None:
    buffer = device.new_buffer(8, SHARED, "b")

    def fail() -> None:
        raise KeyError("broken")

    device.submit(fail)
    buffer.release()
    assert (buffer.is_released, device.live_bytes) == (True, 0)
    with pytest.raises(KeyError, match="broken"):
        device.wait()
    device.wait()


def test_what_a_host_holds_of_a_released_buffer_is_not_anothers(device: CpuDevice) -> None:
    buffer = device.new_buffer(1 << 16, SHARED, "first")
    held = buffer.contents()
    held[:] = 3
    buffer.release()
    others = [device.new_buffer(1 << 16, SHARED, "others") for _ in range(8)]
    for other in others:
        other.contents()[:] = 4
    assert set(held.tolist()) == {3}


def test_commands_are_executed_one_after_the_other_in_their_order(device: CpuDevice) -> None:
    seen: list[int] = []
    numbers = [device.submit(lambda n=n: seen.append(n)) for n in range(1000)]
    assert numbers == list(range(1, 1001))
    device.wait(500)
    assert device.completed >= 500
    device.wait()
    assert seen == list(range(1000))
    assert device.completed == device.submitted == 1000


def test_eight_threads_submit_and_lose_nothing(device: CpuDevice) -> None:
    inside, most = [0], [0]
    seen: dict[int, list[int]] = {n: [] for n in range(8)}

    def command(thread: int, k: int) -> None:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        seen[thread].append(k)
        inside[0] -= 1

    def submit(thread: int) -> None:
        for k in range(200):
            number = device.submit(lambda k=k: command(thread, k))
        device.wait(number)
        assert seen[thread] == list(range(200))

    threads = [threading.Thread(target=submit, args=(n,)) for n in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {n: list(range(200)) for n in range(8)}
    assert most == [1]
    assert device.completed == 1600


def failing(text: str) -> None:
    raise RuntimeError(text)


def test_what_commands_raise_is_raised_once_with_a_note_for_each_other(device: CpuDevice) -> None:
    seen: list[int] = []
    first = device.submit(lambda: failing("a"))
    device.submit(lambda: failing("b"))
    last = device.submit(lambda: seen.append(1))
    with pytest.raises(RuntimeError, match="a") as caught:
        device.wait(last)
    assert caught.value.__notes__ == [f"Command {first + 1} also failed: RuntimeError('b')"]
    assert seen == [1]
    device.wait(first)
    device.wait()


def test_a_failure_goes_to_the_thread_that_submitted_the_command(device: CpuDevice) -> None:
    """Two sessions on one device: one that waits for its own command is not told what the other's raised."""
    gate = Gate(device)
    failed = device.submit(lambda: failing("ours"))
    raised: list[BaseException | None] = []

    def other(number: int | None) -> None:
        try:
            device.wait(device.submit(lambda: None) if number is None else number)
            raised.append(None)
        except RuntimeError as error:
            raised.append(error)

    def elsewhere(number: int | None) -> None:
        thread = threading.Thread(target=other, args=(number,))
        thread.start()
        gate.open()
        thread.join()

    elsewhere(None)
    assert raised == [None]
    with pytest.raises(RuntimeError, match="ours"):
        device.wait()
    device.wait(failed)
    failed = device.submit(lambda: failing("again"))
    elsewhere(failed)  # who waits for that very command has taken it upon itself
    assert str(raised[1]) == "again"
    thread = threading.Thread(target=lambda: device.submit(lambda: failing("left behind")))
    thread.start()
    thread.join()
    with pytest.raises(RuntimeError, match="left behind"):
        device.wait()


def test_a_command_holds_nothing_once_it_has_ended(device: CpuDevice) -> None:
    class Held:
        pass

    def command(held: Held, text: str | None) -> None:
        if text:
            failing(text)

    gc.disable()
    try:
        for text in (None, "broken"):
            held = Held()
            dead = weakref.ref(held)
            number = device.submit(lambda held=held, text=text: command(held, text))
            del held
            with nullcontext() if text is None else pytest.raises(RuntimeError, match=text):
                device.wait(number)
            assert dead() is None
    finally:
        gc.enable()


def test_a_command_waits_for_no_other(device: CpuDevice) -> None:
    buffer = device.new_buffer(8, SHARED, "b")
    seen: list[bool] = [device.is_executing]

    def command() -> None:
        device.wait()
        seen.append(device.is_executing)
        with pytest.raises(InUse) as caught:
            buffer.release()
        assert caught.value.place == "b"

    device.wait(device.submit(command))
    assert seen == [False, True]
    assert not buffer.is_released
    with pytest.raises(ValueError, match="command 7 was not submitted; the last one is 1"):
        device.wait(7)


def test_a_device_that_is_closed_ends_what_was_submitted_and_takes_nothing_more(device: CpuDevice) -> None:
    seen: list[int] = []
    number = device.submit(lambda: seen.append(1))
    device.submit(lambda: failing("late"))
    device.submit(device.close)  # from within a command it does not wait for itself
    device.close()
    device.close()
    assert seen == [1]
    device.wait(number)
    with pytest.raises(RuntimeError, match="late"):
        device.wait()
    with pytest.raises(RuntimeError, match="the device is closed"):
        device.submit(lambda: None)
    CpuDevice().close()


@pytest.mark.parametrize(
    ("offset", "shape"), [(-1, (1,)), (0, (9,)), (8, (1,)), (0, (3, 3)), (0, (-1, 2)), (0, (-2, -2)), (1, (1 << 70,))]
)
def test_a_region_outside_of_its_buffer_is_refused_when_the_command_is_made(
    device: CpuDevice, offset: int, shape: tuple[int, ...]
) -> None:
    buffer = device.new_buffer(8, SHARED, "small")
    with pytest.raises(ValueError, match="of 'small', which has 8"):
        device.view(buffer, offset, np.uint8, shape)
    for blit in ((buffer, 0, buffer, offset, shape[0]), (buffer, offset, buffer, 0, shape[0])):
        if len(shape) == 1:
            with pytest.raises(ValueError, match="of 'small', which has 8"):
                device.blit(*blit)
    assert device.submitted == 0


def test_a_view_is_of_the_bytes_of_its_region(device: CpuDevice) -> None:
    buffer = device.new_buffer(16, SHARED, "b")
    device.view(buffer, 4, np.float32, (1, 2))[:] = [[1.5, 2.5]]
    assert buffer.contents()[4:12].view(np.float32).tolist() == [1.5, 2.5]
    assert device.view(buffer, 16, np.float64, (0, 3)).shape == (0, 3)
    buffer.contents()[:] = range(16)
    device.wait(device.copy(buffer, 0, buffer, 2, 8))  # of one buffer, overlapping
    assert buffer.contents().tolist() == [0, 1, *range(8), *range(10, 16)]


def test_the_working_set_is_three_quarters_of_memory_in_whole_bytes(device: CpuDevice) -> None:
    assert 0 < device.recommended_working_set < 1 << 60
    assert isinstance(device.recommended_working_set, int)
