"""Leases: arrays of memory of ours that the host or a command holds, counted until the last one is collected.

A lease begins with an array whose base is an object of ours. NumPy keeps that base for all that is derived from the
array (views, views of views, buffers, tensors of other libraries), so it is collected with the last of them.
spec: FD2.7
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np


class _Base:
    """What the arrays of one lease derive from."""

    def __init__(self, array: Any, is_read_only: bool) -> None:
        described = dict(array.__array_interface__)
        self.__array_interface__ = {**described, "data": (described["data"][0], is_read_only)}
        self._array = array  # keeps the memory mapped


def leased(array: Any, ended: Callable[[], object], is_read_only: bool = False) -> Any:
    """An array of the same bytes; `ended` is called once, when the last array derived from it was collected.

    That may be in any thread, at any moment: `ended` must neither wait nor raise.
    """
    base = _Base(array, is_read_only)
    weakref.finalize(base, ended).atexit = False
    return np.asarray(base)
