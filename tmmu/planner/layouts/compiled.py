"""Inner loops compiled by numba where it is installed (extra `fast`). Compiled or not, a loop does the same.

A loop is one function over columns of integers: lists of Python's integers, which is the reference, or int64 arrays,
for which numba compiles it. Values must then be below `INT64_SAFE`, so that sums of two stay below 2^63.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np

INT64_SAFE = 1 << 62

Compile = Callable[[Callable[..., int]], Callable[..., int] | None]
"""What gives the compiled form of a loop, None where there is none."""


@cache
def compiled(loop: Callable[..., int]) -> Callable[..., int] | None:
    """The compiled loop, None where numba is not installed. Compiling takes seconds, and is kept beside the source.

    Arguments must be integers, arrays and tuples of arrays: what is kept could not be read again if it named a class of
    ours. The functions that the loop calls are compiled with it.
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
        fast: Callable[..., int] = njit(cache=True)(loop)
    except RuntimeError:  # there is no folder to keep it in
        fast = njit(loop)
    return fast


def columns(*lists: Sequence[int]) -> list[Any]:
    """The lists as int64 arrays."""
    return [np.array(values, np.int64) for values in lists]
