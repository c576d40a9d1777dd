"""A model as columns: the input of its digest and the contents of an IR file (`spec/ir.cddl`).

The objects of the vocabulary are easy to read and to build. Columns are quick to hash and to store, and have one
encoding. `to_object` and `from_object` are inverses for every valid model. spec: I1.1, I1.2
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np

from tmmu.core import canonical, dtypes
from tmmu.core.bindings import bindings_object, check_keys, check_text, read_bindings, wrong_kind
from tmmu.core.columns import NONE, Names, attribute_values, build_column, flatten_rows, number_values, rows_with
from tmmu.core.dims import table
from tmmu.core.dims.expressions import Dim, Expression, Unwieldy, upper_bound
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import UINT64_END, Bindings, Body, Model, Node, Phase, Role, Scratch, Tensor, View

FORMAT, VERSION = "tmmu-ir", 1
KEYS = (
    "format", "version", "name", "dtypes", "groups", "ops", "tensors", "views", "envelopes", "terms", "nodes",
    "in_place", "scratch", "bodies", "must_not_alias", "fixed", "unproduced", "streams", "opaque", "bindings",
    "source_digest",
)  # fmt: skip
MAX_RANK = 256
"""The most dimensions of a tensor that are read: the product of a hostile million would take hours."""

ROLES, PHASES = tuple(Role), tuple(Phase)


def terms_object(rows: Sequence[table.Row]) -> dict[str, Any]:
    """Convert a table of terms to an object for a file."""
    return {
        "op": build_column([row.op for row in rows], np.uint8),
        "left": build_column([row.left for row in rows], np.uint32),
        "right": build_column([row.right for row in rows], np.uint32),
        "value": build_column([row.value for row in rows], np.uint64),
    }


def read_terms(value: Any) -> list[table.Row]:
    """Read the rows that `terms_object` wrote; ValueError names the error."""
    check_keys(value, ("op", "left", "right", "value"), "terms")
    kinds: dict[str, type[np.unsignedinteger[Any]]] = {
        "op": np.uint8,
        "left": np.uint32,
        "right": np.uint32,
        "value": np.uint64,
    }
    columns = [_typed(value[key], kind, f"terms.{key}") for key, kind in kinds.items()]
    return [table.Row(*row) for row in zip(*columns, strict=True)]


def to_object(model: Model) -> dict[str, Any]:
    """Convert the model to maps and columns. O(model)."""
    t, n, b = model.tensors, model.nodes, model.bodies
    types, dtype = number_values(attribute_values(t, "dtype"))
    grouped = rows_with(t, "alias_group", None)
    groups, group_rows = number_values([name for _, name in grouped])
    group = np.full(len(t), NONE, np.uint32)
    group[[i for i, _ in grouped]] = group_rows
    ops, op = number_values(zip(attribute_values(n, "domain"), attribute_values(n, "op"), strict=True))
    role, phase = ({word: i for i, word in enumerate(words)}.__getitem__ for words in (ROLES, PHASES))
    shapes: list[tuple[Dim, ...]] = list(attribute_values(t, "shape"))
    open_shapes: list[int] = []
    if any(issubclass(kind, Expression) for kind in set(map(type, chain.from_iterable(shapes)))):
        open_shapes = [i for i, shape in enumerate(shapes) if any(isinstance(dim, Expression) for dim in shape)]
        shapes = [tuple(map(upper_bound, shape)) for shape in shapes]
    shape_at, shape = flatten_rows(shapes, np.uint64)  # type: ignore[arg-type]  # none is open now
    writer = table.Writer(sorted(model.bindings.ranges))
    envelopes = [[i, [writer.add(dim) for dim in t[i].shape]] for i in open_shapes]
    viewed = rows_with(t, "view", None)
    hints = [(i, *pair) for i, pairs in rows_with(n, "in_place", ()) for pair in pairs]
    requests = [(i, request) for i, asked in rows_with(n, "scratch", ()) for request in asked]
    fixed = rows_with(t, "fixed_offset", None)
    opaque = [i for i, _ in rows_with(n, "opaque", False)]

    def lists(name: str, rows: Sequence[Sequence[int]]) -> dict[str, Any]:
        at, flat = flatten_rows(rows)
        return {f"{name}_at": at, name: flat}

    return {
        "format": FORMAT,
        "version": VERSION,
        "name": model.name,
        "dtypes": types,
        "groups": groups,
        "ops": [list(pair) for pair in ops],
        "tensors": {
            "name": Names.of(list(attribute_values(t, "name"))).blob,
            "dtype": build_column(dtype, np.uint8),
            "role": build_column(map(role, attribute_values(t, "role")), np.uint8, len(t)),
            "alignment": build_column(attribute_values(t, "alignment"), np.uint64, len(t)),
            "group": build_column(group, np.uint32),
            "saved": build_column(attribute_values(t, "saved_for_backward"), np.uint8, len(t)),
            "shape_at": shape_at,
            "shape": shape,
        },
        "views": {
            "tensor": build_column([i for i, _ in viewed], np.uint32),
            "base": build_column([v.base for _, v in viewed], np.uint32),
            "offset": build_column([v.offset for _, v in viewed], np.uint64),
            "bytes": build_column([v.bytes for _, v in viewed], np.uint64),
            "strides": [list(v.strides or ()) for _, v in viewed],
        },
        "envelopes": envelopes,
        **({"terms": terms_object(list(writer.rows))} if envelopes else {}),
        "nodes": {
            "name": Names.of(list(attribute_values(n, "name"))).blob,
            "op": build_column(op, np.uint32),
            "body": build_column(attribute_values(n, "body"), np.uint32, len(n)),
            "phase": build_column(map(phase, attribute_values(n, "phase")), np.uint8, len(n)),
            **lists("reads", list(attribute_values(n, "reads"))),
            **lists("writes", list(attribute_values(n, "writes"))),
            **lists("mutates", list(attribute_values(n, "mutates"))),
        },
        "in_place": {
            key: build_column([row[k] for row in hints], np.uint32)
            for k, key in enumerate(("node", "result", "operand"))
        },
        "scratch": {
            "node": build_column([i for i, _ in requests], np.uint32),
            "bytes": build_column([s.bytes for _, s in requests], np.uint64),
            "alignment": build_column([s.alignment for _, s in requests], np.uint64),
            "arena": [s.arena or "" for _, s in requests],
        },
        "bodies": {
            "owner": build_column([NONE if x.owner < 0 else x.owner for x in b], np.uint32),
            "attribute": Names.of([x.attribute for x in b]).blob,
            "iterates": build_column([x.iterates for x in b], np.uint8),
            **lists("inputs", [x.inputs for x in b]),
            **lists("outputs", [x.outputs for x in b]),
        },
        "must_not_alias": [list(pair) for pair in model.must_not_alias],
        **(
            {
                "fixed": {
                    "tensor": build_column([i for i, _ in fixed], np.uint32),
                    "offset": build_column([at for _, at in fixed], np.uint64),
                }
            }
            if fixed
            else {}
        ),
        "unproduced": list(model.unproduced),
        **({"streams": streams_object(model)} if model.has_streams else {}),
        **({"opaque": build_column(opaque, np.uint32)} if opaque else {}),
        "bindings": bindings_object(model.bindings),
        "source_digest": model.source_digest,
    }


def streams_object(model: Model) -> dict[str, Any]:
    """Convert the streams of nodes and their waits to an object for a file. O(nodes + waits)."""
    on = rows_with(model.nodes, "stream", "")
    names, rows = number_values([name for _, name in on])
    of = np.full(len(model.nodes), NONE, np.uint32)
    of[[n for n, _ in on]] = rows
    row = dict(zip(attribute_values(model.nodes, "name"), range(len(model.nodes)), strict=True))
    waits = [(n, row[name]) for n, after in rows_with(model.nodes, "after", ()) for name in after]
    return {
        "name": names,
        "of": build_column(of, np.uint32),
        "node": build_column([n for n, _ in waits], np.uint32),
        "after": build_column([after for _, after in waits], np.uint32),
    }


def _read_streams(value: Any, names: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Read the stream of each node and the nodes that it waits for. The table is present exactly if there is one."""
    check_keys(value, ("name", "of", "node", "after"), "streams")
    streams = [check_text(name, "a stream") for name in value["name"]]
    of = _below(_typed(value["of"], np.uint32, "streams.of"), len(streams), "streams.of", NONE)
    node, after = (
        _below(_typed(value[key], np.uint32, f"streams.{key}"), len(names), f"streams.{key}")
        for key in ("node", "after")
    )
    waits: dict[int, list[str]] = {}
    for n, other in zip(node, after, strict=True):
        waits.setdefault(n, []).append(names[other])
    if len(of) != len(names) or not streams or "" in streams:
        raise ValueError(f"expected streams for {len(names)} nodes, and no empty name")
    return [("" if on == NONE else streams[on], tuple(waits.get(n, ()))) for n, on in enumerate(of)]


def model_digest(model: Model) -> bytes:
    """Return `ir_hash`: the object digest of the model (R2). spec: R2.3"""
    return canonical.digest(to_object(model))


def from_object(value: Any) -> Model:
    """Read the model that `to_object` wrote. Raises INVALID_IR at the first deviation from the schema.

    Indices are checked here; `tmmu.ir.validate` decides whether the graph is valid. An equivalent encoding that
    `to_object` would not write (a table that no row refers to, rows in another order) is refused: one model has one
    digest.
    """
    try:
        model = _read(value)
        for key, again in to_object(model).items():
            if canonical.encode(again) != canonical.encode(value[key]):
                raise ValueError(f"{key} is not in the form that is written for this model")
        return model
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        detail = f"missing {error}" if isinstance(error, KeyError) else str(error)
        raise TmmuError("INVALID_IR", f"not a {FORMAT} file: {detail}", fix="see spec/ir.cddl") from error


def _typed(value: Any, dtype: type[np.unsignedinteger[Any]], where: str) -> list[int]:
    if not isinstance(value, np.ndarray) or value.dtype != np.dtype(dtype):
        raise wrong_kind(f"a column of {np.dtype(dtype)}", value, where)
    result: list[int] = value.tolist()
    return result


def _below(values: list[int], end: int, where: str, absent: int | None = None) -> list[int]:
    if max(values, default=-1) >= end and any(value >= end and value != absent for value in values):
        raise ValueError(f"{where} points beyond {end} entries")
    return values


def _names(blob: Any, count: int, where: str) -> list[str]:
    if not isinstance(blob, bytes):
        raise wrong_kind("a byte string", blob, where)
    names = Names(blob, count).list()
    if len(names) != count:
        raise ValueError(f"expected {count} names in {where}, got {len(names)}")
    return names


def _rows(
    table: Any, name: str, count: int, end: int, where: str, dtype: Any = np.uint32, numbers: list[int] | None = None
) -> list[tuple[int, ...]]:
    """Read rows of different lengths, with entries below `end`; `numbers`, if given, are the integers below `end`."""
    at, flat = (
        _typed(table[f"{name}_at"], np.uint32, f"{where}.{name}_at"),
        _typed(table[name], dtype, f"{where}.{name}"),
    )
    if len(at) != count + 1 or at[0] != 0 or at[-1] != len(flat) or any(lo > hi for lo, hi in pairwise(at)):
        raise ValueError(f"{where}.{name}_at: expected {count + 1} ascending bounds of {count} rows")
    if max(flat, default=-1) >= end:
        raise ValueError(f"{where}.{name} points beyond {end} rows")
    whole = tuple(flat if numbers is None else map(numbers.__getitem__, flat))
    return [whole[lo:hi] for lo, hi in pairwise(at)]


def _read(value: Any) -> Model:
    check_keys(value, KEYS, "the file")
    if check_text(value["format"], "format") != FORMAT or value["version"] != VERSION:
        raise ValueError(
            f"expected format {FORMAT!r} version {VERSION}, got {value['format']!r} version {value['version']!r}"
        )
    types = [check_text(x, "a dtype") for x in value["dtypes"]]
    if unknown := [x for x in types if x not in dtypes.BITS]:
        raise ValueError(f"unknown dtype {unknown[0]!r}")
    groups = [check_text(x, "a group") for x in value["groups"]]
    ops = [(check_text(domain, "a domain"), check_text(op, "an operator")) for domain, op in value["ops"]]
    bindings = read_bindings(value["bindings"])
    tensors = _tensors(value, types, groups, bindings)
    nodes = _nodes(value, len(tensors), len(value["bodies"]["owner"]), ops)
    bodies = _bodies(value["bodies"], len(tensors), len(nodes))
    source = value["source_digest"]
    if source is not None and (not isinstance(source, bytes) or len(source) != 32):
        raise wrong_kind("a SHA-256 of 32 bytes", source, "source_digest")
    pairs = tuple((int(a), int(b)) for a, b in value["must_not_alias"])
    if any(not 0 <= x < len(tensors) for pair in pairs for x in pair):
        raise ValueError("must_not_alias points beyond the tensors")
    unproduced = tuple(check_text(x, "an unproduced name") for x in value["unproduced"])
    return Model(
        check_text(value["name"], "name"), tuple(tensors), tuple(nodes), tuple(bodies), pairs, unproduced,
        bindings, source,
    )  # fmt: skip


def _tensors(value: Any, types: list[str], groups: list[str], bindings: Bindings) -> list[Tensor]:
    rows = value["tensors"]
    check_keys(rows, ("name", "dtype", "role", "alignment", "group", "saved", "shape_at", "shape"), "tensors")
    dtype = _below(_typed(rows["dtype"], np.uint8, "tensors.dtype"), len(types), "tensors.dtype")
    count = len(dtype)
    names = _names(rows["name"], count, "tensors.name")
    distinct: dict[tuple[Dim, ...], tuple[Dim, ...]] = {}  # a million tensors have a thousand shapes
    shapes = [distinct.setdefault(s, s) for s in _rows(rows, "shape", count, UINT64_END, "tensors", np.uint64)]
    if any(len(shape) > MAX_RANK for shape in distinct):
        raise ValueError(f"a tensor has more than {MAX_RANK} dimensions")
    shapes = _with_expressions(value, shapes, bindings)
    views: dict[int, View] = {}
    viewed = value["views"]
    check_keys(viewed, ("tensor", "base", "offset", "bytes", "strides"), "views")
    columns = [_typed(viewed[key], kind, f"views.{key}") for key, kind in
               (("tensor", np.uint32), ("base", np.uint32), ("offset", np.uint64), ("bytes", np.uint64))]  # fmt: skip
    for t, base, offset, size, strides in zip(*columns, viewed["strides"], strict=True):
        if t >= count or base >= count:
            raise ValueError("views point beyond the tensors")
        views[t] = View(base, offset, size, tuple(int(s) for s in strides) or None)
    role = _below(_typed(rows["role"], np.uint8, "tensors.role"), len(ROLES), "tensors.role")
    saved = _typed(rows["saved"], np.uint8, "tensors.saved")
    alignment = _typed(rows["alignment"], np.uint64, "tensors.alignment")
    group = _below(_typed(rows["group"], np.uint32, "tensors.group"), len(groups), "tensors.group", NONE)
    fixed = _fixed(value["fixed"], count) if "fixed" in value else {}
    sizes: dict[tuple[tuple[Dim, ...], int], int] = {}
    for i, kind in enumerate(zip(shapes, dtype, strict=True)):
        if kind not in sizes:
            sizes[kind] = _planned_bytes(names[i], shapes[i], types[dtype[i]])
    return [
        Tensor(
            names[i], shapes[i], types[d], ROLES[r], sizes[shapes[i], d], a, views.get(i),
            None if g == NONE else groups[g], bool(s), fixed.get(i),
        )
        for i, (d, r, a, g, s) in enumerate(zip(dtype, role, alignment, group, saved, strict=True))
    ]  # fmt: skip


def _fixed(value: Any, tensors: int) -> dict[int, int]:
    """Read the byte at which each fixed tensor begins. The table is present exactly if there is one."""
    check_keys(value, ("tensor", "offset"), "fixed")
    rows = _below(_typed(value["tensor"], np.uint32, "fixed.tensor"), tensors, "fixed.tensor")
    if not rows:
        raise ValueError("fixed names no tensor")
    return dict(zip(rows, _typed(value["offset"], np.uint64, "fixed.offset"), strict=True))


def _with_expressions(value: Any, shapes: list[tuple[Dim, ...]], bindings: Bindings) -> list[tuple[Dim, ...]]:
    """Return the shapes with their expressions. The table of terms is present exactly if one is needed."""
    if ("terms" in value) != bool(value["envelopes"]):
        raise ValueError("terms and envelopes belong together")
    found = table.read(read_terms(value["terms"]), bindings.ranges) if "terms" in value else []
    result = list(shapes)
    for t, rows in value["envelopes"]:
        if not all(type(row) is int and 0 <= row < len(found) for row in rows):
            raise ValueError("envelopes points beyond the terms")
        if type(t) is not int or not 0 <= t < len(shapes) or len(rows) != len(shapes[t]):
            raise ValueError("envelopes is not in the form that is written for this model")
        result[t] = tuple(found[row] for row in rows)
    return result


def _planned_bytes(name: str, shape: tuple[Dim, ...], dtype: str) -> int:
    """Return the planned bytes of a tensor; ValueError if its size has no known maximum."""
    try:
        most = dtypes.most_bytes(shape, dtype)
    except Unwieldy as error:
        raise ValueError(f"tensor {name!r}: {error}") from error
    if most is None:
        raise ValueError(f"tensor {name!r}: no maximum of its size was found")
    return most


def _nodes(value: Any, tensors: int, bodies: int, ops: list[tuple[str, str]]) -> list[Node]:
    table = value["nodes"]
    check_keys(
        table,
        ("name", "op", "body", "phase", "reads_at", "reads", "writes_at", "writes", "mutates_at", "mutates"),
        "nodes",
    )
    op = _below(_typed(table["op"], np.uint32, "nodes.op"), len(ops), "nodes.op")
    count = len(op)
    names = _names(table["name"], count, "nodes.name")
    body = _below(_typed(table["body"], np.uint32, "nodes.body"), bodies, "nodes.body")
    phase = _below(_typed(table["phase"], np.uint8, "nodes.phase"), len(PHASES), "nodes.phase")
    hints: dict[int, list[tuple[int, int]]] = {}
    check_keys(value["in_place"], ("node", "result", "operand"), "in_place")
    for n, result, operand in zip(
        *(_typed(value["in_place"][key], np.uint32, f"in_place.{key}") for key in ("node", "result", "operand")),
        strict=True,
    ):
        if n >= count or result >= tensors or operand >= tensors:
            raise ValueError("in_place points beyond the nodes or tensors")
        hints.setdefault(n, []).append((result, operand))
    scratch: dict[int, list[Scratch]] = {}
    asked = value["scratch"]
    check_keys(asked, ("node", "bytes", "alignment", "arena"), "scratch")
    for n, size, alignment, arena in zip(
        _typed(asked["node"], np.uint32, "scratch.node"), _typed(asked["bytes"], np.uint64, "scratch.bytes"),
        _typed(asked["alignment"], np.uint64, "scratch.alignment"), asked["arena"], strict=True,
    ):  # fmt: skip
        if n >= count:
            raise ValueError("scratch points beyond the nodes")
        scratch.setdefault(n, []).append(Scratch(size, alignment, check_text(arena, "scratch.arena") or None))
    numbers = list(range(tensors))  # one object for all mentions of a tensor: a million nodes mention three million
    lists = [_rows(table, key, count, tensors, "nodes", numbers=numbers) for key in ("reads", "writes", "mutates")]
    opaque = _below(_typed(value["opaque"], np.uint32, "opaque") if "opaque" in value else [], count, "opaque")
    if "opaque" in value and not opaque:
        raise ValueError("opaque names no node")
    marked = frozenset(opaque)
    ordered = _read_streams(value["streams"], names) if "streams" in value else [("", ())] * count
    return [
        Node(
            names[i], ops[o][1], reads, writes, ops[o][0], body[i], tuple(hints.get(i, ())), mutates,
            tuple(scratch.get(i, ())), PHASES[phase[i]], i in marked, *ordered[i],
        )
        for i, (o, reads, writes, mutates) in enumerate(zip(op, *lists, strict=True))
    ]  # fmt: skip


def _bodies(table: Any, tensors: int, nodes: int) -> list[Body]:
    check_keys(table, ("owner", "attribute", "iterates", "inputs_at", "inputs", "outputs_at", "outputs"), "bodies")
    owner = _typed(table["owner"], np.uint32, "bodies.owner")
    if not owner or owner[0] != NONE or any(x >= nodes for x in owner[1:]):
        raise ValueError(
            "bodies.owner: expected the main graph as the first body, and a node as the owner of every other"
        )
    attributes = _names(table["attribute"], len(owner), "bodies.attribute")
    inputs = _rows(table, "inputs", len(owner), tensors, "bodies")
    outputs = _rows(table, "outputs", len(owner), tensors, "bodies")
    iterates = _typed(table["iterates"], np.uint8, "bodies.iterates")
    return [
        Body(-1 if o == NONE else o, a, i, p, bool(r))
        for o, a, i, p, r in zip(owner, attributes, inputs, outputs, iterates, strict=True)
    ]
