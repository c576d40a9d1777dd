"""The shard spec as an object in the plan: its form, for planner and verifier (R7).

Planner and verifier share only this check: names are known and numbers in range. They share nothing of what follows
from a spec. The empty object is the spec of one rank. spec: R7.1, R7.2, R7.3, R7.4
"""

from __future__ import annotations

import math
from typing import Any

from tmmu.core.bindings import wrong_kind
from tmmu.core.fields import format_value
from tmmu.core.vocabulary import Role, describe_excess

KEYS = ("mesh", "pad", "zero_axis", "zero_stage", "pipeline_axis", "stages", "rules", "operators")
MAX_AXES, MAX_ENTRIES, MAX_TEXT = 16, 10_000, 1_000
"""The limits of a spec: axes, entries of a list, characters of a text."""


def mesh_axes(spec: dict[str, Any]) -> list[tuple[str, int]]:
    """Return the axes of the mesh with their sizes; none for the empty spec."""
    return [(name, size) for name, size in spec.get("mesh", ())]


def count_ranks(spec: dict[str, Any]) -> int:
    """Return the number of ranks: the product of the axes."""
    return math.prod(size for _, size in mesh_axes(spec))


def check_spec(value: Any) -> dict[str, Any]:
    """Check that `value` is a shard spec and return it; ValueError names the error. O(spec)."""
    if not isinstance(value, dict):
        raise ValueError(f"expected a map, got {format_value(value)}")
    if not value:
        return {}
    for key in KEYS:
        if key not in value:
            raise ValueError(f"the key {key!r} is missing")
    for key in value:
        if key not in KEYS:
            raise ValueError(f"the key {key!r} is unknown")
    axes = _axes(value["mesh"])
    if type(value["pad"]) is not bool:
        raise wrong_kind("a boolean", value["pad"], "pad")
    stage = value["zero_stage"]
    if type(stage) is not int or not 0 <= stage <= 3:
        raise wrong_kind("an integer from 0 to 3", stage, "zero_stage")
    for key in ("zero_axis", "pipeline_axis"):
        if _text(value[key], key) and value[key] not in axes:
            raise ValueError(f"{key}: expected an axis of the mesh, got {value[key]!r}")
    if (stage > 0) != bool(value["zero_axis"]):
        raise ValueError("a ZeRO stage and its axis belong together")
    if value["zero_axis"] and value["zero_axis"] == value["pipeline_axis"]:
        raise ValueError(f"the axis {value['zero_axis']!r} cannot be both that of ZeRO and the pipeline's")
    _stages(value["stages"], axes.get(value["pipeline_axis"], 0))
    split_by = set(axes) - {value["pipeline_axis"]} | {""}
    for rule in _list(value["rules"], "rules"):
        _rule(rule, split_by)
    for operator in _list(value["operators"], "operators"):
        _operator(operator)
    patterns = {p for listed in (*value["stages"], *(rule["names"] for rule in value["rules"])) for p in listed}
    if excess := describe_excess("stages", max(len(value["rules"]), len(value["stages"])), patterns):
        raise ValueError(excess)
    return value


def _text(value: Any, where: str) -> str:
    if type(value) is not str or "\0" in value or len(value) > MAX_TEXT:
        raise wrong_kind(f"a text of at most {MAX_TEXT} characters", value, where)
    return value


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list) or len(value) > MAX_ENTRIES:
        raise wrong_kind(f"an array of at most {MAX_ENTRIES} entries", value, where)
    return value


def _map(value: Any, keys: tuple[str, ...], where: str) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) != set(keys):
        raise ValueError(f"expected exactly the keys {', '.join(keys)} in {where}")
    return value


def _axes(value: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for entry in _list(value, "mesh"):
        if len(_list(entry, "an axis of the mesh")) != 2:
            raise wrong_kind("a pair of name and size", entry, "an axis of the mesh")
        name, size = _text(entry[0], "the name of an axis"), entry[1]
        if not name or name in found or "/" in name or "." in name:
            raise ValueError(f"the name of the axis {name!r} is empty, used twice, or contains a slash or a point")
        if type(size) is not int or not 1 <= size < 1 << 32:
            raise wrong_kind("an integer from 1 to 2^32 - 1", size, f"the size of the axis {name!r}")
        found[name] = size
    if not found or len(found) > MAX_AXES or math.prod(found.values()) >= 1 << 32:
        raise ValueError(f"the mesh has no axis, more than {MAX_AXES}, or 2^32 ranks or more")
    return found


def _stages(value: Any, size: int) -> None:
    if _list(value, "stages") and len(value) != size:
        raise ValueError(f"expected {size} stages, the size of the pipeline's axis, got {len(value)}")
    for k, patterns in enumerate(value):
        for pattern in _list(patterns, f"stages[{k}]"):
            _text(pattern, f"a pattern of stages[{k}]")


def _rule(value: Any, split_by: set[str]) -> None:
    rule = _map(value, ("roles", "names", "split"), "a rule")
    for role in _list(rule["roles"], "the roles of a rule"):
        if role not in tuple(Role):
            raise wrong_kind("a role", role, "the roles of a rule")
    for pattern in _list(rule["names"], "the names of a rule"):
        _text(pattern, "a pattern of a rule")
    used = [axis for axis in _list(rule["split"], "the split of a rule") if axis]
    for axis in rule["split"]:
        if type(axis) is not str or axis not in split_by:
            raise ValueError(f"a rule splits by {axis!r}: expected an axis of the mesh, but not the pipeline's")
    if len(set(used)) != len(used):
        raise ValueError(f"a rule splits two dimensions by the axis {used[0]!r}")


def _operator(value: Any) -> None:
    operator = _map(value, ("op", "across"), "an operator")
    _text(operator["op"], "the name of an operator")
    for dimension in _list(operator["across"], "across"):
        if type(dimension) is not int or not -256 <= dimension <= -1:
            raise ValueError(f"expected dimensions from -1 (the last) to -256 in across, got {dimension!r}")
