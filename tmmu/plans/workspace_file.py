"""Reading what kernels need beside operands and results, from TOML: bytes for the time of a step. spec: M4.1, M4.2

```toml
[[operator]]
op = "Conv"                        # of ai.onnx; others with their domain: "com.microsoft::FusedConv"
bytes = "64KiB"
alignment = 64                     # default 1

[[node]]                           # counts in the place of its operator's
name = "/conv1/Conv"
bytes = 200704
```
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from tmmu.core.canonical import read_bounded
from tmmu.core.errors import TmmuError
from tmmu.core.output import parse_size, suggest_names
from tmmu.core.reading import parse_toml
from tmmu.core.vocabulary import UINT64_END

LIMIT = 1 << 20
"""The largest file that is read, in bytes."""
KEYS = {"operator": ("op", "bytes", "alignment"), "node": ("name", "bytes", "alignment")}


class Need(NamedTuple):
    """The bytes that a step needs, at a multiple of an alignment."""

    bytes: int
    alignment: int


@dataclass(frozen=True)
class Workspace:
    """What the nodes of a model need: by operator (`op`, or `domain::op`), and by node, which counts first."""

    operators: tuple[tuple[str, Need], ...] = ()
    nodes: tuple[tuple[str, Need], ...] = ()

    def needed_by(self, node: str, operator: str) -> Need | None:
        """Return what a node of an operator needs, None if that is nothing."""
        found = dict(self.nodes).get(node) or dict(self.operators).get(operator)
        return found if found is not None and found.bytes else None

    def check_names(self, nodes: Iterable[tuple[str, str]]) -> None:
        """Raise INVALID_BINDING for an operator or a node that none of `nodes` (name, operator) is."""
        of = list(nodes)
        for known, stated, what in (
            ({name for name, _ in of}, self.nodes, "node"), ({op for _, op in of}, self.operators, "operator"),
        ):  # fmt: skip
            for name, _ in stated:
                if name not in known:
                    fix = suggest_names(name, sorted(known), "tmmu show PLAN --steps lists them")
                    raise TmmuError(
                        "INVALID_BINDING", f"no step that can have a workspace is of the {what} {name!r}",
                        place="--workspace", fix=fix, binding=name,
                    )  # fmt: skip


def load(path: str | os.PathLike[str]) -> Workspace:
    """Return the contents of a file. Raises INVALID_BINDING with the place and what is expected there."""
    try:
        return read(parse_toml(read_bounded(path, LIMIT, "INVALID_BINDING")))
    except ValueError as error:
        raise TmmuError(
            "INVALID_BINDING", str(error), file=os.fspath(path), fix="state bytes for operators or nodes", binding=""
        ) from error


def read(stated: dict[str, Any]) -> Workspace:
    """Return the workspaces that tables state. Raises ValueError for other tables, keys or values."""
    if unknown := sorted(stated.keys() - KEYS.keys()):
        raise ValueError(f"unknown table {unknown[0]!r}; there are {', '.join(KEYS)}")
    found: dict[str, dict[str, Need]] = {"operator": {}, "node": {}}
    for table, keys in KEYS.items():
        rows = stated.get(table, [])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ValueError(f"expected [[{table}]], a list of tables")
        for k, row in enumerate(rows):
            place = f"{table} {k}"
            if unknown := sorted(row.keys() - set(keys)):
                raise ValueError(f"{place}: unknown key {unknown[0]!r}; there are {', '.join(keys)}")
            name = row.get(keys[0])
            if not isinstance(name, str) or name.removeprefix("ai.onnx::") in found[table]:
                raise ValueError(f"{place}: expected a {keys[0]} that is stated once, got {name!r}")
            need = Need(_bytes(row.get("bytes"), place), row.get("alignment", 1))
            if type(need.alignment) is not int or need.alignment < 1 or need.alignment & (need.alignment - 1):
                raise ValueError(f"{place}: expected an alignment that is a power of two, got {need.alignment!r}")
            found[table][name.removeprefix("ai.onnx::")] = need
    return Workspace(tuple(found["operator"].items()), tuple(found["node"].items()))


def _bytes(value: object, place: str) -> int:
    """Return a number of bytes, which may be a text such as "64KiB"."""
    size = parse_size(value) if isinstance(value, str) else value
    if type(size) is not int or not 0 <= size < UINT64_END:
        raise ValueError(f"{place}: expected bytes, such as 4096 or '64KiB', got {value!r}")
    return size
