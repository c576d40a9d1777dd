"""Bindings in files of models and plans: write them, and read them field by field. spec: T10.7, P1.2"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from tmmu.core.dtypes import TYPES
from tmmu.core.fields import format_value
from tmmu.core.vocabulary import RUNTIMES, UINT64_END, Bindings, RuntimeGraph, SteppedDim

KEYS = (
    "dims", "shapes", "values", "defaults", "donated", "trust_shapes", "ranges", "stated", "steps", "keep_inputs",
    "runtime",
)  # fmt: skip
"""The keys of bindings in a file."""


def wrong_kind(what: str, value: Any, where: str) -> ValueError:
    """Return the error for a value of the wrong kind."""
    return ValueError(f"{where}: expected {what}, got {format_value(value)}")


def check_keys(value: Any, keys: Sequence[str], where: str) -> None:
    """Check that `value` is a map with no other keys than these; ValueError otherwise."""
    if not isinstance(value, dict):
        raise wrong_kind("a map", value, where)
    unknown = sorted(set(value) - set(keys))
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r} in {where}")


def check_text(value: Any, where: str) -> str:
    """Check that `value` is a text and return it; ValueError otherwise."""
    if not isinstance(value, str):
        raise wrong_kind("a text", value, where)
    return value


def bindings_object(bindings: Bindings) -> dict[str, Any]:
    """Convert bindings to an object for a file. Those that only some plans have are omitted if empty."""
    ranges = {name: list(ends) for name, ends in bindings.ranges.items()}
    return {
        "dims": dict(bindings.dims),
        "shapes": {name: list(shape) for name, shape in bindings.shapes.items()},
        "values": dict(bindings.values),
        "defaults": dict(bindings.defaults),
        "donated": list(bindings.donated),
        "trust_shapes": bindings.trust_shapes,
        **({"ranges": ranges} if ranges else {}),
        **({"steps": {name: list(step) for name, step in bindings.steps.items()}} if bindings.steps else {}),
        **({"stated": dict(bindings.stated)} if bindings.stated else {}),
        **({"keep_inputs": True} if bindings.keep_inputs else {}),
        **({"runtime": asdict(bindings.runtime)} if bindings.runtime is not None else {}),
    }


def read_bindings(value: Any) -> Bindings:
    """Read the bindings that `bindings_object` wrote; ValueError, KeyError or TypeError names the error."""
    check_keys(value, KEYS, "bindings")
    integer: Callable[[Any], bool] = lambda x: type(x) is int and 0 <= x < UINT64_END  # noqa: E731  # a local predicate
    if not all(map(integer, value["dims"].values())):
        raise wrong_kind("integers from 0 to 2^64 - 1", list(value["dims"].values()), "bindings.dims")
    if not all(type(shape) is list and all(map(integer, shape)) for shape in value["shapes"].values()):
        raise wrong_kind("arrays of integers from 0 to 2^64 - 1", list(value["shapes"].values()), "bindings.shapes")
    if type(value["trust_shapes"]) is not bool:
        raise wrong_kind("a boolean", value["trust_shapes"], "bindings.trust_shapes")
    if type(value["donated"]) is not list:
        raise wrong_kind("an array", value["donated"], "bindings.donated")
    if value.get("keep_inputs", True) is not True:
        raise ValueError(f"bindings.keep_inputs: expected true, got {format_value(value['keep_inputs'])}")
    ranges = value.get("ranges", {})
    for name, ends in ranges.items():
        if type(ends) is not list or len(ends) != 2 or not all(map(integer, ends)) or not ends[0] < ends[1]:
            raise ValueError(f"bindings.ranges: expected two increasing sizes for {name!r}")
        if "\0" in name or name in value["dims"]:
            raise ValueError(f"bindings.ranges: {name!r} is bound already, or contains a NUL")
    stated = value.get("stated", {})
    steps = value.get("steps", {})
    for name, step in steps.items():
        if type(step) is not list or len(step) != 3 or not all(map(integer, step[1:])) or step[1] >= step[2]:
            raise ValueError(f"bindings.steps: expected a unit, a first size and a step for {name!r}")
        if name in value["dims"] or name in ranges:
            raise ValueError(f"bindings.steps: {name!r} is bound already")
    if len({check_text(step[0], "bindings.steps") for step in steps.values()}) < len(steps):
        raise ValueError("bindings.steps: two dimensions have the same unit")
    texts = [*stated, *stated.values(), *value["values"].values(), *value["defaults"].values(), *value["donated"]]
    for one in texts:
        check_text(one, "a binding")
    return Bindings(
        dict(value["dims"]),
        {name: tuple(shape) for name, shape in value["shapes"].items()},
        dict(value["values"]),
        dict(value["defaults"]),
        tuple(value["donated"]),
        value["trust_shapes"],
        {name: (low, high) for name, (low, high) in sorted(ranges.items())},
        dict(stated),
        {name: SteppedDim(*step) for name, step in sorted(steps.items())},
        "keep_inputs" in value,
        _read_runtime(value["runtime"]) if "runtime" in value else None,
    )


def _read_runtime(value: Any) -> RuntimeGraph:
    """Read the graph that a runtime has made of the model. spec: T10.16"""
    check_keys(value, ("name", "level", "version", "block", "digest"), "bindings.runtime")
    name, level, version = (check_text(value[key], f"bindings.runtime.{key}") for key in ("name", "level", "version"))
    if name not in RUNTIMES or level not in RUNTIMES[name]:
        raise ValueError(f"bindings.runtime: expected a known runtime and level, got {name!r} and {level!r}")
    block, digest = value["block"], value["digest"]
    if type(block) is not int or not 0 <= block < 1 << 16:
        raise wrong_kind("an integer from 0 to 65535", block, "bindings.runtime.block")
    if re.fullmatch("[0-9a-f]{64}", check_text(digest, "bindings.runtime.digest")) is None:
        raise wrong_kind("64 hexadecimal digits", digest, "bindings.runtime.digest")
    return RuntimeGraph(name, level, version, block, digest)


def describe_runtime(runtime: RuntimeGraph) -> str:
    """Return what a runtime has made of a model, in words.

    >>> describe_runtime(RuntimeGraph("onnxruntime", "all", "1.32.0", 8, "d2fe6dffe5"))
    'of onnxruntime 1.32.0, level all, blocks of 8 channels (SHA-256 d2fe6dffe5)'
    """
    blocks = f", blocks of {runtime.block} channels" if runtime.block and runtime.level == "all" else ""
    return f"of {runtime.name} {runtime.version}, level {runtime.level}{blocks} (SHA-256 {runtime.digest})"


def step_range(name: str, low: int, high: int, step: int) -> tuple[SteppedDim | None, tuple[int, int]]:
    """Return the range of a dimension with every `step`-th size from `low` to `high`, in units if `step` is not 1.

    Raises ValueError if no number of steps leads from one end to the other.

    >>> step_range("h", 321, 641, 32)
    (SteppedDim(unit='(h-1)/32', first=1, step=32), (10, 20))
    """
    if step < 1 or low >= high or (high - low) % step:
        raise ValueError(f"no number of steps of {step} leads from {low} up to {high}")
    if step == 1:
        return None, (low, high)
    first = low % step
    return SteppedDim(f"({name}-{first})/{step}" if first else f"{name}/{step}", first, step), (
        low // step,
        high // step,
    )


def convert_units(bindings: Bindings, point: Mapping[str, int]) -> dict[str, int]:
    """Convert a shape in units to a shape in dimensions."""
    of = {step.unit: (name, step) for name, step in bindings.steps.items()}
    return {
        of[name][0] if name in of else name: of[name][1].first + of[name][1].step * size if name in of else size
        for name, size in point.items()
    }


def remove_binding(bindings: Bindings, name: str) -> Bindings:
    """Return the bindings without one name.

    >>> stated = Bindings({"n": 1, "m": 2}, ranges={"h/32": (1, 2)}, steps={"h": SteppedDim("h/32", 0, 32)})
    >>> remove_binding(stated, "h").ranges
    {}
    """
    left = {name, bindings.steps[name].unit} if name in bindings.steps else {name}

    def keep(values: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in values.items() if key not in left}

    of = bindings
    return replace(
        of, dims=keep(of.dims), shapes=keep(of.shapes), values=keep(of.values), ranges=keep(of.ranges),
        stated=keep(of.stated), steps=keep(of.steps),
    )  # fmt: skip


def format_ranges(bindings: Bindings) -> dict[str, str]:
    """Format the ranges for a command line: `1..4096`, `320..640:32`.

    >>> format_ranges(Bindings(ranges={"h/32": (10, 20), "n": (1, 8)}, steps={"h": SteppedDim("h/32", 0, 32)}))
    {'n': '1..8', 'h': '320..640:32'}
    """
    units = {step.unit for step in bindings.steps.values()}
    found = {name: f"{low}..{high}" for name, (low, high) in bindings.ranges.items() if name not in units}
    for name, (unit, first, step) in bindings.steps.items():
        if unit in bindings.ranges:
            low, high = bindings.ranges[unit]
            found[name] = f"{first + step * low}..{first + step * high}:{step}"
    return found


def parse_size(text: str) -> tuple[tuple[int, ...], str | None]:
    """Parse a size that a user declares for a tensor: `1x10`, `scalar`, `float32:1x10`, or `bytes:40`, which is uint8.

    Returns the shape and the element type, None if the text has none. Raises ValueError for any other text.

    >>> parse_size("1x10"), parse_size("f32:scalar"), parse_size("bytes:40")
    (((1, 10), None), ((), 'float32'), ((40,), 'uint8'))
    """
    word, colon, shape = text.rpartition(":")
    dims = [] if shape == "scalar" else shape.lower().split("x")
    known = TYPES | {"bytes": "uint8"}
    if (colon and word not in known) or not all(dim.isascii() and dim.isdigit() and len(dim) <= 20 for dim in dims):
        raise ValueError(f"expected a size such as 1x10, float32:1x10 or bytes:40, got {text!r}")
    sizes = tuple(map(int, dims))
    if any(dim >= UINT64_END for dim in sizes) or (word == "bytes" and len(sizes) != 1):
        raise ValueError(f"no tensor can have the size {text!r}")
    return sizes, known.get(word)
