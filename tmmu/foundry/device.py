"""The interface of a device: buffers in two storage modes, and a queue of commands that it executes in order.

The host makes buffers and submits commands; the device executes them one after the other, in a thread of its queue.
Commands are numbered from 1. `submitted` is the number of the last command submitted, `completed` that of the last
command that has ended. Only commands access Private memory. A device is one file that implements `Device` and `Buffer`
(and `DeviceKernels` of `kernels`, if models are to run on it); `cpu` is the implementation that ships.
spec: FD1.1 to FD1.7
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tmmu.foundry.failures import PrivateAccess, UseAfterFree
from tmmu.foundry.storage import StorageMode

ALIGNMENT = 256
"""Buffers, the tensors of the plan of a session and those of a pool begin at multiples of this number of bytes."""

Bytes = NDArray[np.uint8]

Command = Callable[[], None]
"""A command that the device executes.

It may access buffers of any mode. `Device.wait` raises its exception on the host.
"""

Observer = Callable[[str, int], None]
"""A function that is called with "submitted" or "completed" and the number of a command, in the order of these events.

It must be brief and must not use the device: no other command is submitted or completed meanwhile.
"""


class Buffer(ABC):
    """Bytes on a device: `size` bytes, zero at first, at one address until they are released.

    `forced_by` is the variable that would have made a Private buffer Shared, for the message.
    """

    def __init__(self, device: Device, size: int, mode: StorageMode, label: str, forced_by: str = "") -> None:
        self.device, self.size, self.mode, self.label, self.forced_by = device, size, mode, label, forced_by
        self.is_released = False

    @property
    @abstractmethod
    def address(self) -> int:
        """The address of the first byte on the device. Raises `UseAfterFree` after release."""

    @abstractmethod
    def _host_bytes(self) -> Bytes:
        """Return all bytes of a Shared buffer, writable, as the host addresses them."""

    @abstractmethod
    def _give_back(self) -> None:
        """Release the bytes once all submitted commands have ended, and mark the buffer as released; do so once."""

    def contents(self) -> Bytes:
        """Return all bytes, writable. Raises `PrivateAccess` if the buffer is Private, `UseAfterFree` after release."""
        self.check()
        if self.mode is StorageMode.PRIVATE:
            raise PrivateAccess(self.label, self.forced_by)
        return self._host_bytes()

    def check(self) -> None:
        """Raise `UseAfterFree` if the buffer was released."""
        if self.is_released:
            raise UseAfterFree("the buffer was released", self.label, "keep the session that owns it open")

    def release(self) -> None:
        """Release the bytes, once all commands that were submitted before have ended. A second call does nothing.

        The next `wait` raises the exceptions of these commands. Raises `InUse` inside of a command, which would wait
        for itself.
        """
        if not self.is_released:
            self._give_back()


class Device(ABC):
    """Buffers and a queue.

    `buffers_made` counts all buffers ever made (the hot loop of a session does not increase it). `live_bytes` counts
    the bytes of buffers that are not released, and `peak_bytes` is its maximum so far.
    """

    name: str
    buffers_made: int = 0
    live_bytes: int = 0
    peak_bytes: int = 0

    @property
    @abstractmethod
    def recommended_working_set(self) -> int:
        """The bytes that may be in use without harm to the system: 3/4 of its memory."""

    @abstractmethod
    def new_buffer(self, size: int, mode: StorageMode, label: str, forced_by: str = "") -> Buffer:
        """Allocate a buffer of `size` bytes, zero, aligned to 256.

        Raises `OutOfMemory` if it cannot be allocated; then nothing has changed.
        """

    @abstractmethod
    def submit(self, command: Command, observer: Observer | None = None) -> int:
        """Submit a command, which the device executes after all that were submitted before; return its number.

        An exception of the observer at "submitted" is raised here, and nothing is submitted. Its exception at
        "completed" has the same effect as an exception of the command. spec: FD9.5
        """

    @abstractmethod
    def wait(self, number: int | None = None) -> None:
        """Wait until the command with that number (None: the last one) and all before it have ended.

        Raises the exception of a command, once: in the next wait of the thread that submitted it, or in a wait for that
        very command, or in any wait if that thread has ended. Of several exceptions the first is raised, with a note
        for each other one. The commands after a failed one are executed all the same. Raises ValueError for a number
        that was not submitted.
        """

    @property
    @abstractmethod
    def is_executing(self) -> bool:
        """Whether the calling thread executes commands. Such a thread cannot wait for any command."""

    @property
    @abstractmethod
    def submitted(self) -> int:
        """The number of the last command submitted, 0 before the first."""

    @property
    @abstractmethod
    def completed(self) -> int:
        """The number of the last command that has ended; all commands before it have ended too."""

    @abstractmethod
    def blit(self, source: Buffer, start: int, target: Buffer, at: int, size: int) -> Command:
        """Build the command that copies `size` bytes from byte `start` of `source` to byte `at` of `target`.

        Raises ValueError at once if a range is outside of its buffer. The command fails with `UseAfterFree` if a buffer
        is released before it is executed.
        """

    def copy(
        self, source: Buffer, start: int, target: Buffer, at: int, size: int, observer: Observer | None = None
    ) -> int:
        """Submit a blit, and return its number."""
        return self.submit(self.blit(source, start, target, at, size), observer)

    @abstractmethod
    def view(self, buffer: Buffer, offset: int, dtype: Any, shape: tuple[int, ...]) -> Any:
        """Return the object through which a command of this device accesses a region (on the CPU, a NumPy array).

        Only commands may use it. Raises ValueError if the region is outside of the buffer.
        """

    @abstractmethod
    def close(self) -> None:
        """End the queue after the submitted commands; `wait` still raises their exceptions.

        A second call does nothing.
        """
