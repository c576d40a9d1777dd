"""Leases of a pool's memory with an end that is stated. spec: FD2.7"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any

from tmmu.foundry.failures import InUse, UseAfterFree


class Lease:
    """A lease with an end that is stated: `release`, or the end of a `with`.

    `array` is the exported array. What is derived from it must be gone by then: NumPy has no way to take it back.
    """

    def __init__(self, array: Any, label: str) -> None:
        self._array, self._label = array, label
        self._base: Callable[[], object] = weakref.ref(array.base)

    @property
    def array(self) -> Any:
        """The array. `UseAfterFree` after `release`."""
        if self._array is None:
            raise UseAfterFree("the lease was released", self._label, "export the tensor again")
        return self._array

    def release(self) -> None:
        """End the lease. `InUse` while arrays that derive from it are held; it ends with the last of them then."""
        self._array = None
        if self._base() is not None:
            raise InUse("arrays of the lease are held elsewhere", self._label, "delete them, or copy what is needed")

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._array = None
        if kind is None:
            self.release()
