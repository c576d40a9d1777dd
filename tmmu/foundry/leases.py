"""Leases of the memory of a pool with an explicit end. spec: FD2.7"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any

from tmmu.foundry.failures import InUse, UseAfterFree


class Lease:
    """A lease with an explicit end: `release`, or the end of a `with`.

    `array` is the exported array. All arrays that derive from it must be gone at the end: NumPy cannot revoke them.
    """

    def __init__(self, array: Any, label: str) -> None:
        self._array, self._label = array, label
        self._base: Callable[[], object] = weakref.ref(array.base)

    @property
    def array(self) -> Any:
        """The array. Raises `UseAfterFree` after `release`."""
        if self._array is None:
            raise UseAfterFree("the lease was released", self._label, "export the tensor again")
        return self._array

    def release(self) -> None:
        """End the lease. Raises `InUse` if arrays that derive from it are held; the last of them then ends it."""
        self._array = None
        if self._base() is not None:
            raise InUse("arrays of the lease are held elsewhere", self._label, "delete them, or copy what is needed")

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._array = None
        if kind is None:
            self.release()
