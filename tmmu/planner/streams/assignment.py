"""Assign the nodes of a model to streams, by a file of the user (`--streams`).

```toml
default = "compute"             # the stream of nodes that no pattern names

[streams]
copy = ["load_*", "store_*"]    # patterns of nodes of the main graph; the first that fits decides

[after]                         # further waits
store_1 = ["load_2"]
```

A node waits for the last node on each other stream that it depends on: one that makes an operand, that uses a tensor
which it changes, or the like. These waits are added; what the file states comes in addition. spec: X6.6
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from tmmu.core.canonical import read_bounded
from tmmu.core.columns import attribute_values
from tmmu.core.errors import TmmuError
from tmmu.core.output import suggest_names
from tmmu.core.reading import parse_toml
from tmmu.core.streams import LANE
from tmmu.core.vocabulary import MAIN, Model
from tmmu.ir.order import find_dependencies

LIMIT = 1 << 20
"""The largest file that is read, in bytes."""


@dataclass(frozen=True)
class StreamAssignment:
    """The patterns of the nodes on each stream, in order, the stream of all others, and further waits."""

    patterns: tuple[tuple[str, str], ...]
    default: str
    after: Mapping[str, tuple[str, ...]]

    def stream_of(self, node: str) -> str:
        """Return the stream of a node."""
        return next((stream for pattern, stream in self.patterns if fnmatchcase(node, pattern)), self.default)


def load_streams(path: str | os.PathLike[str]) -> StreamAssignment:
    """Read an assignment from a TOML file. INVALID_BINDING names the file and the error."""
    try:
        try:
            document = parse_toml(read_bounded(path, LIMIT, "INVALID_BINDING"))
        except ValueError as error:
            raise _refusal("the file", f"not TOML: {error}", "write [streams] and a list of nodes for each") from error
        return read_streams(document)
    except TmmuError as error:
        error.in_file(os.fspath(path))
        raise


def read_streams(document: Mapping[str, Any]) -> StreamAssignment:
    """Read an assignment from a TOML document. Raises INVALID_BINDING.

    >>> read_streams({"default": "a", "streams": {"b": ["copy*"]}}).stream_of("copy_1")
    'b'
    """
    if unknown := sorted(document.keys() - {"default", "streams", "after"}):
        raise _refusal(unknown[0], "unknown key", suggest_names(unknown[0], ["default", "streams", "after"], ""))
    default, tables = document.get("default", ""), []
    if not isinstance(default, str):
        raise _refusal("default", f"expected the name of a stream, got {default!r}", 'write default = "compute"')
    for key in ("streams", "after"):
        table = document.get(key, {})
        if not isinstance(table, dict):
            raise _refusal(key, f"expected a table, got {table!r}", f"write [{key}] and a list of nodes for each")
        for name, nodes in table.items():
            if not name or not isinstance(nodes, list) or not all(isinstance(node, str) for node in nodes):
                raise _refusal(f"[{key}] {name}", f"expected a list of nodes, got {nodes!r}", f'write {name} = ["n1"]')
        tables.append(table)
    for name in (default, *tables[0]):
        if name.startswith(f"{LANE}/"):
            raise _refusal("[streams]", f"{name!r} is the stream of an asynchronous operation", "rename the stream")
    patterns = tuple((pattern, stream) for stream, nodes in tables[0].items() for pattern in nodes)
    return StreamAssignment(patterns, default, {name: tuple(nodes) for name, nodes in tables[1].items()})


def assign_streams(model: Model, assignment: StreamAssignment) -> Model:
    """Return the model with the stream of each node of the main graph, and the waits that its operands need.

    The nodes keep their order. O(nodes x patterns + dependencies). Raises INVALID_BINDING for a model that states
    streams, a pattern or a wait that names no node, a node without a stream, and a wait for a later node.
    """
    if model.has_streams:
        raise _refusal("the model", "it states streams itself", "drop --streams")
    row = {name: n for n, name in enumerate(attribute_values(model.nodes, "name"))}
    main = {node.name for node in model.nodes if node.body == MAIN}
    for pattern, _ in assignment.patterns:
        if not any(fnmatchcase(name, pattern) for name in main):
            fix = suggest_names(pattern, sorted(main), "name nodes of the main graph")
            raise _refusal("[streams]", f"no node of the main graph fits {pattern!r}", fix)
    for name, waits in assignment.after.items():
        for other in (name, *waits):
            if other not in main:
                fix = suggest_names(other, sorted(main), "name nodes of the main graph")
                raise _refusal("[after]", f"{other!r} is not a node of the main graph", fix)
        for other in waits:
            if row[other] >= row[name]:
                what = f"{name!r} waits for {other!r}, which is not earlier: events must not form a cycle"
                raise _refusal("[after]", what, "wait for an earlier node")
    stream = {name: assignment.stream_of(name) for name in main}
    if unnamed := next((node.name for node in model.nodes if node.body == MAIN and not stream[node.name]), None):
        raise _refusal("[streams]", f"no pattern names the node {unnamed!r}", 'write default = "compute"')
    needed: dict[int, dict[str, int]] = {}
    for earlier, later in find_dependencies(model, grouped=True):
        of = stream.get(model.nodes[earlier].name)
        if of is not None and of != stream.get(model.nodes[later].name, of):
            waits_of = needed.setdefault(later, {})
            waits_of[of] = max(earlier, waits_of.get(of, earlier))
    nodes = []
    for n, node in enumerate(model.nodes):
        rows = {*needed.get(n, {}).values(), *(row[name] for name in assignment.after.get(node.name, ()))}
        after = tuple(model.nodes[k].name for k in sorted(rows))
        nodes.append(replace(node, stream=stream[node.name], after=after) if node.body == MAIN else node)
    return replace(model, nodes=tuple(nodes))


def _refusal(place: str, what: str, fix: str) -> TmmuError:
    return TmmuError("INVALID_BINDING", what, place=place, fix=fix, binding="streams")
