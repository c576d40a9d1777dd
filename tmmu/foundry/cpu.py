"""The CPU as a device: mapped memory, and a thread that executes commands in order.

Only the interface protects Private memory: the host can reach it through commands only. A CUDA or Metal device would be
a file like this one. spec: FD1.1 to FD1.7
"""

from __future__ import annotations

import mmap
import operator
import threading
from collections import deque
from typing import Any

import numpy as np

from tmmu.foundry.device import Buffer, Bytes, Command, Device, Observer
from tmmu.foundry.failures import InUse, OutOfMemory
from tmmu.foundry.storage import StorageMode
from tmmu.runtime.ram import recommended_working_set

LESS = "ask for a shorter context, close a session, or raise the device's limit"


class CpuBuffer(Buffer):
    """A buffer in an anonymous mapping.

    The system reclaims its pages when the last array that views them is collected.
    """

    def __init__(self, device: CpuDevice, size: int, mode: StorageMode, label: str, forced_by: str) -> None:
        super().__init__(device, size, mode, label, forced_by)
        pages = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._bytes: Bytes = np.frombuffer(pages, np.uint8)[:size]
        self._address = int(self._bytes.ctypes.data)

    @property
    def address(self) -> int:
        """The virtual address of the first byte, a multiple of the page size. Raises `UseAfterFree` after release."""
        self.check()
        return self._address

    def _host_bytes(self) -> Bytes:
        return self._bytes

    def device_bytes(self) -> Bytes:
        """Return all bytes; only commands may use them. Raises `UseAfterFree` after release."""
        self.check()
        return self._bytes

    def _give_back(self) -> None:
        device = self.device
        assert isinstance(device, CpuDevice)
        if device.is_executing:
            raise InUse("a command cannot wait for its own end", self.label, "release it on the host")
        device.ended()
        with device.lock:
            if not self.is_released:
                self.is_released = True
                device.add_live_bytes(-self.size)
                self._bytes = np.empty(0, np.uint8)


class CpuDevice(Device):
    """A queue and the buffers of one CPU.

    Parameters
    ----------
    limit
        The most bytes that its buffers may have together; None leaves the limit to the system.
    """

    name = "cpu"

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self.lock = threading.Condition()
        self._commands: deque[tuple[Command, threading.Thread, Observer | None]] = deque()
        self._submitted = self._completed = 0
        self._failures: dict[int, tuple[threading.Thread, BaseException]] = {}  # by number, with who submitted it
        self._thread: threading.Thread | None = None
        self._is_closing = False

    @property
    def recommended_working_set(self) -> int:
        """3/4 of the memory that this process may use."""
        return recommended_working_set()

    def new_buffer(self, size: int, mode: StorageMode, label: str, forced_by: str = "") -> Buffer:
        """Allocate a buffer: see `Device.new_buffer`. O(1); the system zeroes pages at their first access."""
        if size < 0:
            raise ValueError(f"{size} bytes for {label!r}; a size is 0 or more")
        size = operator.index(size)
        with self.lock:
            if self.limit is not None and self.live_bytes + size > self.limit:
                left = self.limit - self.live_bytes
                raise OutOfMemory(f"{size} bytes are more than the {left} bytes that are left", label, size, LESS)
            try:
                buffer = CpuBuffer(self, size, mode, label, forced_by)
            except (OSError, OverflowError, ValueError) as error:
                raise OutOfMemory(f"{size} bytes cannot be allocated ({error})", label, size, LESS) from error
            self.buffers_made += 1
            self.add_live_bytes(size)
        return buffer

    def add_live_bytes(self, size: int) -> None:
        """Count `size` more live bytes (fewer, if it is negative). The caller holds the lock."""
        self.live_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    @property
    def submitted(self) -> int:
        """The number of the last command submitted: see `Device.submitted`."""
        return self._submitted

    @property
    def completed(self) -> int:
        """The number of the last command that has ended: see `Device.completed`."""
        return self._completed

    def submit(self, command: Command, observer: Observer | None = None) -> int:
        """Submit a command: see `Device.submit`. O(1). Raises RuntimeError if the device is closed."""
        with self.lock:
            if self._is_closing:
                raise RuntimeError("the device is closed")
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="foundry-cpu", daemon=True)
                thread.start()
                self._thread = thread
            if observer is not None:
                observer("submitted", self._submitted + 1)
            self._commands.append((command, threading.current_thread(), observer))
            self._submitted += 1
            self.lock.notify_all()
            return self._submitted

    @property
    def is_executing(self) -> bool:
        """Whether the calling thread executes commands: see `Device.is_executing`."""
        return threading.current_thread() is self._thread

    def wait(self, number: int | None = None) -> None:
        """Wait for commands to end: see `Device.wait`. Inside of a command it returns at once."""
        if self.is_executing:
            return
        until = self.ended(number)
        if not self._failures:
            return
        waiting, running = threading.current_thread(), threading.enumerate()
        with self.lock:
            due = [
                at
                for at, (submitter, _) in self._failures.items()
                if at <= until and (at == number or submitter is waiting or submitter not in running)
            ]
            failures = [self._failures.pop(at)[1] for at in due]
        for at, failure in list(zip(due, failures, strict=True))[1:]:
            failures[0].add_note(f"Command {at} also failed: {failure!r}")
        if failures:
            try:
                raise failures[0]
            finally:
                del failures  # else this frame, which the failure refers to, would keep the objects of its command

    def ended(self, number: int | None = None) -> int:
        """Wait as `wait` does, but leave the failures of commands to the next `wait`; return the number waited for."""
        with self.lock:
            until = self._submitted if number is None else number
            if until > self._submitted:
                raise ValueError(f"command {until} was not submitted; the last one is {self._submitted}")
            while self._completed < until and not self.is_executing:
                self.lock.wait()
        return until

    def _work(self) -> None:
        while True:
            with self.lock:
                while not self._commands:
                    if self._is_closing:
                        return
                    self.lock.wait()
                command, submitter, observer = self._commands.popleft()
            failure: BaseException | None = None
            try:
                command()
            except BaseException as error:
                failure = error
            del command  # the objects that it refers to are free before it counts as completed
            with self.lock:
                self._completed += 1
                try:
                    if observer is not None:
                        observer("completed", self._completed)
                except BaseException as error:
                    failure = failure or error
                if failure is not None:
                    self._failures[self._completed] = submitter, failure
                self.lock.notify_all()
            del failure, submitter, observer  # this frame must not keep the objects of the failed command

    def close(self) -> None:
        """End the queue: see `Device.close`."""
        with self.lock:
            self._is_closing = True
            self.lock.notify_all()
        if self._thread is not None and not self.is_executing:
            self._thread.join()

    def blit(self, source: Buffer, start: int, target: Buffer, at: int, size: int) -> Command:
        """Build the command that copies a region: see `Device.blit`. O(size) when it is executed."""
        read = self.view(source, start, np.uint8, (size,))
        written = self.view(target, at, np.uint8, (size,))

        def copy() -> None:
            source.check()
            target.check()
            np.copyto(written, read)

        return copy

    def view(self, buffer: Buffer, offset: int, dtype: Any, shape: tuple[int, ...]) -> Any:
        """Return a region of a buffer as a NumPy array. Raises ValueError if the region is outside of the buffer."""
        assert isinstance(buffer, CpuBuffer)
        kind = np.dtype(dtype)
        size = int(np.prod(shape, dtype=object)) * kind.itemsize
        if offset < 0 or any(dim < 0 for dim in shape) or offset + size > buffer.size:
            raise ValueError(
                f"bytes {offset} to {offset + size} are outside of {buffer.label!r}, which has {buffer.size} bytes"
            )
        return buffer.device_bytes()[offset : offset + size].view(kind).reshape(shape)
