"""Bindings as they stand in files of models and of plans: written, and read field by field. spec: T10.7, P1.2"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tmmu.core.dtypes import TYPES
from tmmu.core.fields import shown
from tmmu.core.vocabulary import UINT64_END, Bindings


def expected(what: str, value: Any, where: str) -> ValueError:
    """The error over a value of the wrong kind."""
    return ValueError(f"{where}: expected {what}, got {shown(value)}")


def only(value: Any, keys: Sequence[str], where: str) -> None:
    """Raise ValueError unless `value` is a map of just these keys."""
    if not isinstance(value, dict):
        raise expected("a map", value, where)
    unknown = sorted(set(value) - set(keys))
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r} in {where}")


def text(value: Any, where: str) -> str:
    """The text `value`; ValueError for anything else."""
    if not isinstance(value, str):
        raise expected("a text", value, where)
    return value


def bindings_object(bindings: Bindings) -> dict[str, Any]:
    """Bindings as they stand in a file; `ranges` and `stated` only where there are any."""
    ranges = {name: list(ends) for name, ends in bindings.ranges.items()}
    return {
        "dims": dict(bindings.dims),
        "shapes": {name: list(shape) for name, shape in bindings.shapes.items()},
        "values": dict(bindings.values),
        "defaults": dict(bindings.defaults),
        "donated": list(bindings.donated),
        "trust_shapes": bindings.trust_shapes,
        **({"ranges": ranges} if ranges else {}),
        **({"stated": dict(bindings.stated)} if bindings.stated else {}),
    }


def read_bindings(value: Any) -> Bindings:
    """The bindings that `bindings_object` wrote; ValueError, KeyError or TypeError names what is wrong."""
    only(value, ("dims", "shapes", "values", "defaults", "donated", "trust_shapes", "ranges", "stated"), "bindings")
    integer: Callable[[Any], bool] = lambda x: type(x) is int and 0 <= x < UINT64_END  # noqa: E731  # a local predicate
    if not all(map(integer, value["dims"].values())):
        raise expected("integers from 0 to 2^64 - 1", list(value["dims"].values()), "bindings.dims")
    if not all(type(shape) is list and all(map(integer, shape)) for shape in value["shapes"].values()):
        raise expected("arrays of integers from 0 to 2^64 - 1", list(value["shapes"].values()), "bindings.shapes")
    if type(value["trust_shapes"]) is not bool:
        raise expected("a boolean", value["trust_shapes"], "bindings.trust_shapes")
    if type(value["donated"]) is not list:
        raise expected("an array", value["donated"], "bindings.donated")
    ranges = value.get("ranges", {})
    for name, ends in ranges.items():
        if type(ends) is not list or len(ends) != 2 or not all(map(integer, ends)) or not ends[0] < ends[1]:
            raise ValueError(f"bindings.ranges: {name!r} has no range")
        if "\0" in name or name in value["dims"]:
            raise ValueError(f"bindings.ranges: {name!r} is bound already, or holds a NUL")
    stated = value.get("stated", {})
    texts = [*stated, *stated.values(), *value["values"].values(), *value["defaults"].values(), *value["donated"]]
    for one in texts:
        text(one, "a binding")
    return Bindings(
        dict(value["dims"]),
        {name: tuple(shape) for name, shape in value["shapes"].items()},
        dict(value["values"]),
        dict(value["defaults"]),
        tuple(value["donated"]),
        value["trust_shapes"],
        {name: (low, high) for name, (low, high) in sorted(ranges.items())},
        dict(stated),
    )


def stated_size(text: str) -> tuple[tuple[int, ...], str | None]:
    """A size that a user states of a tensor: `1x10`, `scalar`, `float32:1x10`, or `bytes:40`, which is uint8.

    Returns the shape and the element type, None where the text states none. Raises ValueError for any other text.

    >>> stated_size("1x10"), stated_size("f32:scalar"), stated_size("bytes:40")
    (((1, 10), None), ((), 'float32'), ((40,), 'uint8'))
    """
    word, colon, shape = text.rpartition(":")
    dims = [] if shape == "scalar" else shape.lower().split("x")
    known = TYPES | {"bytes": "uint8"}
    if (colon and word not in known) or not all(dim.isascii() and dim.isdigit() and len(dim) <= 20 for dim in dims):
        raise ValueError(f"{text!r} is no size: write 1x10, float32:1x10 or bytes:40")
    sizes = tuple(map(int, dims))
    if any(dim >= UINT64_END for dim in sizes) or (word == "bytes" and len(sizes) != 1):
        raise ValueError(f"{text!r} is no size that a tensor can have")
    return sizes, known.get(word)
