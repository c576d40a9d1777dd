"""Shard specs as users write them, in TOML, and as plans hold them.

```toml
pad = false                     # true: a dimension that does not divide is padded

[mesh]                          # the ranks; the last axis varies fastest
pipeline = 2
data = 2
tensor = 2

[zero]                          # 1: optimizer state, 2: gradients of parameters too, 3: parameters too
axis = "data"
stage = 3

[pipeline]
axis = "pipeline"
stages = [["embed*", "layer0/*"], ["*"]]   # patterns of nodes for each stage; without: even by depth

[[rules]]                       # the first rule that names a tensor holds
roles = ["parameter"]           # without: every role but gradient
names = ["*.fc1.weight"]        # `*` stands for any text; without: every name
split = ["", "tensor"]          # the axis of each dimension, or ""

[[operators]]                   # dimensions that an operator works across, where its operands do not show it
op = "Softmax"
across = [-1]
```

spec: R7.1, R7.2, R7.5
"""

from __future__ import annotations

import os
from typing import Any

from tmmu.core.canonical import read_bounded
from tmmu.core.errors import TmmuError
from tmmu.core.reading import parse_toml
from tmmu.plans import sharding

LIMIT = 1 << 20
"""The largest spec that is read, in bytes."""


def sharding_error(what: str, fix: str, *, place: str = "shard spec", axis: str = "") -> TmmuError:
    """Return INVALID_SHARDING: a malformed spec, or one that does not fit the model."""
    return TmmuError("INVALID_SHARDING", what, place=place, fix=fix, axis=axis)


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the spec in a TOML file as the object that plans hold. INVALID_SHARDING names the file and the error."""
    try:
        try:
            document = parse_toml(read_bounded(path, LIMIT, "INVALID_SHARDING"))
        except ValueError as error:  # not TOML, not UTF-8, or a number or nesting too large
            raise sharding_error(f"not TOML: {error}", "`tmmu example gpt2-shards` writes a valid one") from error
        return resolve(document)
    except TmmuError as error:
        error.in_file(os.fspath(path))
        raise


def resolve(document: dict[str, Any]) -> dict[str, Any]:
    """Resolve a TOML document into an object with every key, in the form that is hashed.

    >>> resolve({"mesh": {"data": 2}, "rules": [{"split": ["data"]}]})["rules"]
    [{'roles': ['input', 'parameter', 'optimizer', 'activation'], 'names': ['*'], 'split': ['data']}]
    """
    document = _table(document, "the file", ("mesh", "pad", "zero", "pipeline", "rules", "operators"))
    mesh = _table(document.get("mesh", {}), "[mesh]")
    zero = _table(document.get("zero", {}), "[zero]", ("axis", "stage"))
    pipeline = _table(document.get("pipeline", {}), "[pipeline]", ("axis", "stages"))
    everywhere = ["input", "parameter", "optimizer", "activation"]
    rules = [_table(rule, "[[rules]]", ("roles", "names", "split")) for rule in _tables(document, "rules")]
    operators = [_table(entry, "[[operators]]", ("op", "across")) for entry in _tables(document, "operators")]
    stage = zero.get("stage", 0)
    value = {
        "mesh": [[name, size] for name, size in mesh.items()],
        "pad": document.get("pad", False),
        "zero_axis": zero.get("axis", "") if stage else "",
        "zero_stage": stage,
        "pipeline_axis": pipeline.get("axis", ""),
        "stages": pipeline.get("stages", []),
        "rules": [
            {"roles": rule.get("roles", everywhere), "names": rule.get("names", ["*"]), "split": rule.get("split", [])}
            for rule in rules
        ],
        "operators": [{"op": entry.get("op", ""), "across": entry.get("across", [])} for entry in operators],
    }
    try:
        return sharding.check_spec(value)
    except ValueError as error:
        raise sharding_error(str(error), "correct the shard spec") from error


def _table(value: Any, where: str, keys: tuple[str, ...] | None = None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise sharding_error(f"{where}: expected a table", "`tmmu example gpt2-shards` writes a valid one")
    for key in value:
        if keys is not None and key not in keys:
            raise sharding_error(f"unknown key {key!r} in {where}", f"use {', '.join(keys)}")
    return value


def _tables(document: dict[str, Any], key: str) -> list[Any]:
    value = document.get(key, [])
    if not isinstance(value, list):
        raise sharding_error(f"{key}: expected a list of tables", f"write [[{key}]]")
    return value
