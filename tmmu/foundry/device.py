"""What a device offers: buffers in two storage modes, and a queue of commands that it works off in order.

The host makes buffers and submits commands; the device executes them one after the other, on its own. Each command has
a number, from 1. `submitted` is the number of the last one submitted, `completed` of the last one that has ended. Only
commands access Private memory. A device is one file that implements `Device` and `Buffer` (and `Kernels` of `kernels`,
if models are to run on it); `cpu` is the one that ships.
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
"""Buffers, the tensors of a session's plan and those of a pool lie at multiples of so many bytes."""

Bytes = NDArray[np.uint8]

Command = Callable[[], None]
"""What the device executes. It may access buffers of any mode; what it raises is the host's when it waits for it."""

Observer = Callable[[str, int], None]
"""What is called with "submitted" or "completed" and a command's number, where and in the order in which that happens.

It must be brief and not use the device: no other command is submitted or completed meanwhile.
"""


class Buffer(ABC):
    """Bytes on a device: `size` of them, zero when they are made, at one address until they are released.

    `forced_by` is the variable that would have made a Private buffer Shared, for the message.
    """

    def __init__(self, device: Device, size: int, mode: StorageMode, label: str, forced_by: str = "") -> None:
        self.device, self.size, self.mode, self.label, self.forced_by = device, size, mode, label, forced_by
        self.is_released = False

    @property
    @abstractmethod
    def address(self) -> int:
        """Where the first byte lies on the device. `UseAfterFree` once it is released."""

    @abstractmethod
    def _host_bytes(self) -> Bytes:
        """All bytes of a Shared buffer, writable, as the host addresses them."""

    @abstractmethod
    def _give_back(self) -> None:
        """Give the bytes back once what was submitted has ended, and mark it as released; the first thread alone."""

    def contents(self) -> Bytes:
        """All bytes, writable by the host. `PrivateAccess` of a Private buffer, `UseAfterFree` after release."""
        self.check()
        if self.mode is StorageMode.PRIVATE:
            raise PrivateAccess(self.label, self.forced_by)
        return self._host_bytes()

    def check(self) -> None:
        """`UseAfterFree` if it was released."""
        if self.is_released:
            raise UseAfterFree("the buffer was released", self.label, "keep the session that owns it open")

    def release(self) -> None:
        """Give the bytes back, once all commands that were submitted before have ended. A second call does nothing.

        What these raised is left to the next `wait`. `InUse` from within a command, which would wait for itself.
        """
        if not self.is_released:
            self._give_back()


class Device(ABC):
    """Buffers and a queue.

    `buffers_made` counts the buffers ever made (the hot loop of a session leaves it as it is); `live_bytes` are those
    of buffers that are not released, `peak_bytes` the most there were at one time.
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
        """A buffer of `size` bytes, zero, aligned to 256. `OutOfMemory` if it cannot be had; then nothing changed."""

    @abstractmethod
    def submit(self, command: Command, observer: Observer | None = None) -> int:
        """Hand a command to the device, which executes it after all that were submitted before. Returns its number.

        What an observer raises of the submission is raised here, and nothing is submitted; of the completion it is as
        if the command had raised it. spec: FD9.5
        """

    @abstractmethod
    def wait(self, number: int | None = None) -> None:
        """Wait until the command with that number (the last one, if none is given) and all before it have ended.

        Raises what a command raised, once: where the thread that submitted it waits next, or one that waits for that
        very command, or any, if that thread has ended. Of several the first is raised, with a note for each other.
        The commands after it are executed all the same. ValueError for a number that was not submitted yet.
        """

    @property
    @abstractmethod
    def is_executing(self) -> bool:
        """Is the calling thread the one that executes commands? It can wait for none of them."""

    @property
    @abstractmethod
    def submitted(self) -> int:
        """The number of the last command submitted, 0 before the first."""

    @property
    @abstractmethod
    def completed(self) -> int:
        """The number of the last command that has ended; all before it have as well."""

    @abstractmethod
    def blit(self, source: Buffer, start: int, target: Buffer, at: int, size: int) -> Command:
        """The command that copies `size` bytes from byte `start` of `source` to byte `at` of `target`.

        Ranges are checked here, when the command is made: ValueError for one outside of its buffer. It fails with
        `UseAfterFree` where a buffer is released by the time that it is executed.
        """

    def copy(
        self, source: Buffer, start: int, target: Buffer, at: int, size: int, observer: Observer | None = None
    ) -> int:
        """Submit a blit. Returns its number."""
        return self.submit(self.blit(source, start, target, at, size), observer)

    @abstractmethod
    def view(self, buffer: Buffer, offset: int, dtype: Any, shape: tuple[int, ...]) -> Any:
        """What a command of this device accesses a region of a buffer through (on the CPU, a NumPy array).

        Only commands may use it. ValueError for a region outside of the buffer.
        """

    @abstractmethod
    def close(self) -> None:
        """End the queue after the commands that were submitted; `wait` still raises what they raised. Idempotent."""
