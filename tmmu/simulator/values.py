"""The caller's values: inputs from a file or a seed, weights from the model, its weight files, or a seed.

A drawn value depends only on the seed and the tensor's name, shape and type. Floats are drawn so that numbers neither
vanish nor explode on their way through a network. Integers are small, so that they can serve as indices.
spec: SIM5.3, SIM5.4
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import onnx
from onnx import external_data_helper, numpy_helper

from tmmu.core.dtypes import BITS, nbytes
from tmmu.core.errors import TmmuError
from tmmu.core.npy import NotAnArray, load_archive
from tmmu.core.reading import read_file
from tmmu.onnx.reading import FILE_LIMIT
from tmmu.simulator.elements import Array, Size, encode, numpy_type
from tmmu.simulator.memories import Raw

MOST = 8
"""Drawn integers are below this."""


def draw(seed: int, name: str, size: Size) -> Raw:
    """Draw the bytes of a tensor of that size from a seed."""
    shape, dtype = size
    digest = hashlib.blake2b(f"{seed} {name}".encode(), digest_size=16).digest()
    random = np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))
    if dtype == "bool":
        return random.integers(0, 2, nbytes(shape, dtype), np.uint8)
    if not dtype.startswith(("float", "bfloat", "complex")):
        most = min(MOST, 1 << (BITS[dtype] - (0 if dtype.startswith("u") else 1)))
        return encode(random.integers(0, most, shape, np.uint8).astype(numpy_type(dtype)), dtype)
    count = math.prod(shape)
    if len(shape) < 2:  # a bias, a scale or a variance, which must be positive
        numbers = random.random(count, np.float32) + np.float32(0.5)
    else:
        numbers = random.standard_normal(count, np.float32)
        numbers *= np.float32(1 / math.sqrt(max(1, count // max(1, max(shape)))))
    with np.errstate(all="ignore"):
        return encode(numbers.astype(numpy_type(dtype)), dtype)


def missing_data_file(tensor: onnx.TensorProto, folder: str) -> str | None:
    """Return the name of the tensor's data file if it does not exist; None otherwise.

    Raises INVALID_IR if the tensor does not state a range of bytes.
    """
    if not external_data_helper.uses_external_data(tensor):
        return None
    try:
        location: str = external_data_helper.ExternalDataInfo(tensor).location
    except ValueError as error:
        what, place = f"its data cannot be read ({error})", f"initializer {tensor.name!r}"
        raise TmmuError("INVALID_IR", what, place=place, fix="write its weights again", node_id=tensor.name) from error
    return None if os.path.exists(os.path.join(folder, location)) else location


def read_initializer(tensor: onnx.TensorProto, folder: str) -> Array | None:
    """Return the elements of an initializer, read from its weight file if it names one; None if that file is missing.

    Raises INVALID_IR if the data cannot be read.
    """
    place = f"initializer {tensor.name!r}"
    try:
        if missing_data_file(tensor, folder) is not None:
            return None
        if external_data_helper.uses_external_data(tensor):
            copy = onnx.TensorProto()
            copy.CopyFrom(tensor)
            external_data_helper.load_external_data_for_tensor(copy, folder)
            tensor = copy
        return numpy_helper.to_array(tensor)
    except TmmuError:
        raise
    except Exception as error:  # onnx raises exceptions of any kind over data that do not fit
        what = f"its data cannot be read ({error})"
        raise TmmuError("INVALID_IR", what, place=place, fix="write its weights again", node_id=tensor.name) from error


class InitializerDigest(NamedTuple):
    """The type and shape of an initializer, and a digest of its content."""

    kind: str
    content: bytes


def initializer_digests(path: str) -> Iterator[tuple[str, InitializerDigest]]:
    """Yield each initializer of an ONNX file that the caller cannot replace, with its digest.

    One without data, because its weight file is missing, is left out. O(bytes), one initializer at a time.
    """
    model = onnx.ModelProto.FromString(read_file(path, FILE_LIMIT))
    replaceable = {value.name for value in model.graph.input}
    for tensor in model.graph.initializer:
        values = read_initializer(tensor, os.path.dirname(os.path.abspath(path)))
        if tensor.name not in replaceable and values is not None:
            kind = f"{tensor.data_type} {values.shape}"
            yield tensor.name, InitializerDigest(kind, hashlib.sha256(values.tobytes()).digest())


def read_inputs(path: str, sizes: Mapping[str, Size]) -> dict[str, Array]:
    """Read the arrays of an .npz file by name.

    Raises INVALID_BINDING if one is not an input or has another shape or type.

    No array is read before its size is known to be that of its input.
    """

    def refuse(name: str, what: str) -> TmmuError:
        fix = f"give arrays for {', '.join(sorted(sizes)) or 'no input'}"
        return TmmuError("INVALID_BINDING", what, file=path, place=f"array {name!r}", fix=fix, binding=name)

    def limit_of(name: str) -> int:
        if name not in sizes:
            raise refuse(name, "the model has no input of this name")
        shape, dtype = sizes[name]
        return nbytes(shape, dtype) * max(1, 8 // BITS[dtype])

    try:
        found: dict[str, Array] = load_archive(path, limit_of)
    except (OSError, NotAnArray) as error:
        what = getattr(error, "strerror", None) or str(error)
        raise TmmuError(
            "INVALID_BINDING", f"the file is not an .npz file of arrays ({what})", file=path,
            fix="write it with numpy.savez", binding="--inputs",
        ) from error  # fmt: skip
    for name, array in found.items():
        shape, dtype = sizes[name]
        if array.dtype.kind == "V" and array.dtype.itemsize == numpy_type(dtype).itemsize:
            array = array.view(numpy_type(dtype))  # types that NumPy lacks are stored as bytes
        if array.shape != shape or array.dtype != numpy_type(dtype):
            raise refuse(name, f"expected {dtype} {list(shape)}, got {array.dtype} {list(array.shape)}")
        found[name] = array
    return found
