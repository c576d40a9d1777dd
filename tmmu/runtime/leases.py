"""Leases: arrays of pool memory that the host or a command holds, counted until the last one is collected.

A lease begins with an array whose base is an object of this module. NumPy keeps that base for every array that derives
from the first one (views, views of views, buffers, tensors of other libraries), so it is collected with the last.
spec: FD2.7
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np


class _Base:
    """The common base of the arrays of one lease."""

    def __init__(self, array: Any, is_read_only: bool) -> None:
        described = dict(array.__array_interface__)
        self.__array_interface__ = {**described, "data": (described["data"][0], is_read_only)}
        self._array = array  # keeps the memory mapped


def lease_array(array: Any, ended: Callable[[], object], is_read_only: bool = False) -> Any:
    """Return an array of the same bytes; call `ended` once, when the last array that derives from it is collected.

    That may be in any thread, at any moment: `ended` must neither wait nor raise.
    """
    base = _Base(array, is_read_only)
    weakref.finalize(base, ended).atexit = False
    return np.asarray(base)
