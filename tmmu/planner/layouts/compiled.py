"""Inner loops, compiled by numba if it is installed (extra `fast`). A loop gives the same result compiled or not.

A loop is one function over columns of integers: lists of Python integers, which are the reference, or int64 arrays, for
which numba compiles it. Values must then be below `INT64_SAFE`, so that sums of two stay below 2^63.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np

from tmmu.core import folders

INT64_SAFE = 1 << 62

Compile = Callable[[Callable[..., int]], Callable[..., int] | None]
"""Returns the compiled form of a loop, or None if there is none."""


@cache
def compile_loop(loop: Callable[..., int]) -> Callable[..., int] | None:
    """Compile a loop, or return None if numba is not installed. Compiling takes seconds; the result is cached on disk.

    Arguments must be integers, arrays and tuples of arrays: a cache that named one of our classes could not be read
    again. The functions that the loop calls are compiled with it.
    """
    try:
        from numba import njit
        from numba.extending import register_jitable
    except ImportError:
        return None
    called = [loop]
    for function in called:
        named = (function.__globals__.get(name) for name in function.__code__.co_names)
        called += [each for each in named if isinstance(each, FunctionType) and each not in called]
    for function in called[1:]:
        register_jitable(function)
    try:
        fast: Callable[..., int] = njit(cache=folders.has_caches())(loop)
    except RuntimeError:  # there is no folder for the cache
        fast = njit(loop)
    return fast


def columns(*lists: Sequence[int]) -> list[Any]:
    """Return the lists as int64 arrays."""
    return [np.array(values, np.int64) for values in lists]
