"""Bindings as they stand in files of models and of plans: written, and read field by field. spec: T10.7, P1.2"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tmmu.core.vocabulary import UINT64_END, Bindings


def only(value: Any, keys: Sequence[str], where: str) -> None:
    """Raise ValueError where `value` is no map of just these keys."""
    if not isinstance(value, dict):
        raise ValueError(f"{where} is no map")
    unknown = sorted(set(value) - set(keys))
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r} in {where}")


def text(value: Any, where: str) -> str:
    """The text `value`; ValueError where it is none."""
    if not isinstance(value, str):
        raise ValueError(f"{where} is no text")
    return value


def bindings_object(bindings: Bindings) -> dict[str, Any]:
    """Bindings as they stand in a file; `ranges` only where there is an envelope."""
    ranges = {name: list(ends) for name, ends in bindings.ranges.items()}
    return {
        "dims": dict(bindings.dims),
        "shapes": {name: list(shape) for name, shape in bindings.shapes.items()},
        "values": dict(bindings.values),
        "defaults": dict(bindings.defaults),
        "donated": list(bindings.donated),
        "trust_shapes": bindings.trust_shapes,
        **({"ranges": ranges} if ranges else {}),
    }


def read_bindings(value: Any) -> Bindings:
    """The bindings that `bindings_object` wrote; ValueError, KeyError or TypeError says what is wrong."""
    only(value, ("dims", "shapes", "values", "defaults", "donated", "trust_shapes", "ranges"), "bindings")
    integer: Callable[[Any], bool] = lambda x: type(x) is int and 0 <= x < UINT64_END  # noqa: E731  # a local predicate
    if not all(map(integer, value["dims"].values())):
        raise ValueError("bindings.dims are no sizes")
    if not all(type(shape) is list and all(map(integer, shape)) for shape in value["shapes"].values()):
        raise ValueError("bindings.shapes are no shapes")
    if type(value["trust_shapes"]) is not bool:
        raise ValueError("bindings.trust_shapes is no boolean")
    if type(value["donated"]) is not list:
        raise ValueError("bindings.donated is no array")
    ranges = value.get("ranges", {})
    for name, ends in ranges.items():
        if type(ends) is not list or len(ends) != 2 or not all(map(integer, ends)) or not ends[0] < ends[1]:
            raise ValueError(f"bindings.ranges: {name!r} has no range")
        if "\0" in name or name in value["dims"]:
            raise ValueError(f"bindings.ranges: {name!r} is bound already, or holds a NUL")
    texts = [*value["values"].values(), *value["defaults"].values(), *value["donated"]]
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
    )
