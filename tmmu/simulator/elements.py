"""Convert tensors between bytes and arrays: whole elements are views of the bytes, narrower ones are unpacked.

Elements of 4 and 2 bits are packed, the first in the lowest bits of the first byte, as ONNX stores them. spec: SIM5.2
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from tmmu.core.dtypes import BITS, nbytes
from tmmu.onnx.sizes import NUMBERS
from tmmu.simulator.memories import Raw

Array = NDArray[Any]
Size = tuple[tuple[int, ...], str]
"""A shape, and an element type of `tmmu.core.dtypes`."""


@cache
def numpy_type(dtype: str) -> np.dtype[Any]:
    """Return NumPy's type for the elements of a type of `tmmu.core.dtypes`.

    >>> numpy_type("float32"), numpy_type("bfloat16").itemsize
    (dtype('float32'), 2)
    """
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(NUMBERS[dtype]))


def decode(raw: Raw, size: Size) -> Array:
    """Decode bytes into an array: a read-only view of them, except for elements narrower than a byte.

    >>> decode(np.array([0x21, 0x03], np.uint8), ((3,), "uint4")).astype(int).tolist()
    [1, 2, 3]
    """
    shape, dtype = size
    bits = BITS[dtype]
    if bits < 8:
        count = int(np.prod(shape, dtype=np.int64))
        lanes = [raw >> shift & ((1 << bits) - 1) for shift in range(0, 8, bits)]
        elements = np.stack(lanes, axis=-1).reshape(-1)[:count]
        array: Array = np.ascontiguousarray(elements).view(numpy_type(dtype)).reshape(shape)
    else:
        array = raw.view(numpy_type(dtype)).reshape(shape)
    array.flags.writeable = False
    return array


def encode(array: Array, dtype: str) -> Raw:
    """Encode an array into bytes: a view of its bytes if possible.

    >>> encode(decode(np.array([0x21, 0x03], np.uint8), ((3,), "uint4")), "uint4").tolist()
    [33, 3]
    """
    bits = BITS[dtype]
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    if bits >= 8:
        return flat
    lanes = 8 // bits
    packed = np.zeros(nbytes((array.size,), dtype) * lanes, np.uint8)
    packed[: array.size] = flat & ((1 << bits) - 1)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    result: Raw = np.bitwise_or.reduce(packed.reshape(-1, lanes) << shifts, axis=1)
    return result
