"""Check that a model is a graph that can be planned. Every error names the node or tensor.

Indices are assumed to be in range (`tmmu.ir.columns` checks a file's). Checked are names, sizes, the writers of
tensors, the nesting of bodies and the scopes of values, and that views, alias groups and in-place hints can be granted.
`tmmu.ir.order` checks the order of the nodes. spec: I1.3, I1.4, I1.5, I1.12, T1.9, T2.5, T2.6, X3.11
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache

from tmmu.core import dtypes
from tmmu.core.columns import attribute_values, rows_with
from tmmu.core.dims.expressions import Dim, Expression, format_dim
from tmmu.core.dims.maxima import is_negative
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import MAIN, MAX_BODY_DEPTH, UINT64_END, Model, Node, Role, Tensor
from tmmu.ir.arrivals import is_arrival, list_late_inputs
from tmmu.ir.program import find_defining_bodies

CALLERS = frozenset({Role.INPUT, Role.PARAMETER, Role.OPTIMIZER})
"""The roles whose tensors the caller writes before step 0."""


def validate_model(model: Model) -> None:
    """Raise the first error in `model`. O(model)."""
    _check_names(model)
    _check_donations(model)
    seen = set[tuple[tuple[Dim, ...], str, int, int]]()
    for tensor in model.tensors:
        facts = (tensor.shape, tensor.dtype, tensor.bytes, tensor.alignment)
        if facts not in seen:  # checked before otherwise: a million tensors have a thousand shapes
            _check_size(tensor)
            _check_envelope(tensor, model.bindings.ranges)
            seen.add(facts)
        if tensor.fixed_offset is not None:
            _check_fixed(tensor, tensor.fixed_offset)
    _check_bodies(model)
    _check_streams(model)
    _check_writers(model)
    _check_scopes(model)
    _check_sharing(model)


def _bad(code: str, place: str, what: str, fix: str) -> TmmuError:
    return TmmuError(code, what, place=place, fix=fix, operator="UML_OS.Model.AnalyzeLiveness_v1", node_id=place)


def _repeated(names: Sequence[str]) -> str | None:
    if len(set(names)) == len(names):
        return None
    return next(name for name, count in Counter(names).items() if count > 1)


def _check_names(model: Model) -> None:
    for kind, names in (
        ("tensor", list(attribute_values(model.tensors, "name"))),
        ("node", list(attribute_values(model.nodes, "name"))),
    ):
        if (twice := _repeated(names)) is not None:
            raise _bad("INVALID_IR", f"{kind} {twice!r}", "the name is used twice", "give each one a different name")
        if not all(names) or "\0" in "".join(names):
            raise _bad("INVALID_IR", kind, "a name is empty or contains a NUL", "rename it")


def _check_donations(model: Model) -> None:
    callers = {tensor.name for tensor in model.tensors if tensor.role in CALLERS}
    for name in model.bindings.donated:
        if name not in callers:
            what = "the caller writes no tensor of this name"
            raise _bad("INVALID_IR", f"donated {name!r}", what, "drop the binding")


def _check_size(tensor: Tensor) -> None:
    place = f"tensor {tensor.name!r}"
    if any(map(is_negative, tensor.shape)):
        what = f"shape {format_shape(tensor.shape)} has a negative dimension"
        raise _bad("INVALID_IR_SHAPES", place, what, "bind every dimension")
    if tensor.dtype not in dtypes.BITS:
        raise _bad(
            "INVALID_IR_SHAPES", place, f"unknown dtype {tensor.dtype!r}", f"use one of {', '.join(dtypes.BITS)}"
        )
    size = dtypes.most_bytes(tensor.shape, tensor.dtype)
    if size is None:
        what = f"no maximum of its size was found for shape {format_shape(tensor.shape)}"
        raise _bad("INVALID_IR_SHAPES", place, what, "bind one of its dimensions to a single size")
    if size >= UINT64_END:
        raise _bad("ALLOCATION_OVERFLOW", place, f"{size} bytes do not fit 64 bits", "use smaller dimensions")
    if size != tensor.bytes:
        raise _bad(
            "INVALID_IR_SHAPES", place, f"expected {size} bytes by shape and dtype, got {tensor.bytes}", "correct it"
        )
    if not _is_power_of_two(tensor.alignment):
        raise _bad(
            "ALIGNMENT_VIOLATION", place, f"alignment {tensor.alignment} is not a power of two", "use a power of two"
        )


def _check_fixed(tensor: Tensor, at: int) -> None:
    """Check that a fixed tensor ends within 64 bits and is aligned."""
    place = f"tensor {tensor.name!r}"
    if not 0 <= at < UINT64_END - tensor.bytes:
        what = f"fixed at byte {at}, its {tensor.bytes} bytes do not end within 64 bits"
        raise _bad("ALLOCATION_OVERFLOW", place, what, "fix it at a lower byte")
    if at % tensor.alignment:
        what = f"its fixed byte {at} is not aligned to {tensor.alignment}"
        raise _bad("ALIGNMENT_VIOLATION", place, what, "fix it at a multiple of the alignment")


def _check_envelope(tensor: Tensor, ranges: Mapping[str, tuple[int, int]]) -> None:
    """Check that every dimension of a shape has the range that the bindings give it. spec: R6.3"""
    for dim in tensor.shape:
        for symbol in sorted(dim.symbols) if isinstance(dim, Expression) else ():
            if ranges.get(symbol.name) != (symbol.low, symbol.high):
                what = f"its dimension {symbol.name!r} is not bound to the range {symbol.low} to {symbol.high}"
                raise _bad("INVALID_IR_SHAPES", f"tensor {tensor.name!r}", what, "give the envelope that range")


def format_shape(shape: tuple[Dim, ...]) -> str:
    """Format a shape for people."""
    return f"[{', '.join(map(format_dim, shape))}]"


def _is_power_of_two(value: int) -> bool:
    return 0 < value < UINT64_END and value & (value - 1) == 0


def _check_bodies(model: Model) -> None:
    if model.bodies[MAIN].owner != -1:
        raise _bad("INVALID_IR", "body 0", "the main graph has an owner", "set its owner to -1")
    if model.bodies[MAIN].iterates:
        raise _bad("INVALID_IR", "body 0", "the main graph iterates", "set its `iterates` to 0: no node runs it")
    depth = [0] * len(model.bodies)
    for b, body in enumerate(model.bodies[1:], 1):
        place = f"body {body.attribute!r} of node {model.nodes[body.owner].name!r}"
        outer = model.nodes[body.owner].body
        if outer >= b:
            raise _bad("INVALID_IR", place, "it is listed before the body that contains it", "list outer bodies first")
        depth[b] = depth[outer] + 1
        if depth[b] > MAX_BODY_DEPTH:
            raise _bad("INVALID_IR", place, f"bodies nest deeper than {MAX_BODY_DEPTH}", "flatten the model")
        if not body.attribute or "/" in body.attribute or "\0" in body.attribute:
            raise _bad("INVALID_IR", place, "its attribute name is empty or contains a slash or a NUL", "name it")
    if (twice := _repeated([f"{body.owner} {body.attribute}" for body in model.bodies[1:]])) is not None:
        name = model.nodes[int(twice.split()[0])].name
        raise _bad("INVALID_IR", f"node {name!r}", "two bodies have the same attribute name", "rename one")


def _check_streams(model: Model) -> None:
    """Check that all nodes of the main graph state a stream, or none, and wait only for nodes of the main graph.

    spec: X3.11, X5.5
    """
    if not model.has_streams and not any(attribute_values(model.nodes, "after")):
        return
    main = {node.name for node in model.nodes if node.body == MAIN}
    for node in model.nodes:
        place = f"node {node.name!r}"
        if bool(node.stream) != (node.body == MAIN) or "\0" in node.stream:
            what = "it has no stream, and others do" if node.body == MAIN else "it is inside of a body and has a stream"
            raise _bad("INVALID_IR", place, what, "give each node of the main graph a stream, or none")
        if (node.after and node.body != MAIN) or len(set(node.after)) != len(node.after):
            raise _bad("INVALID_IR", place, "it is inside of a body, or waits twice for a node", "drop the wait")
        for name in node.after:
            if name not in main:
                what = f"it waits for {name!r}, which is not a node of the main graph"
                raise _bad("INVALID_IR", place, what, "wait for a node of the main graph")


def _check_writers(model: Model) -> None:
    """Check that each tensor is written once: by a node, on entry into a body, or by the caller; mutations apart."""
    listed = [t for body in model.bodies for t in body.inputs]
    if (twice := _repeated([model.tensors[t].name for t in listed])) is not None:
        raise _bad(
            "INVALID_IR", f"tensor {twice!r}", "it is an input of two bodies, or two inputs of one", "list it once"
        )
    given = set(listed)
    written = given - list_late_inputs(model)
    with_bodies = {body.owner for body in model.bodies[1:]}
    for n, node in enumerate(model.nodes):
        if len(node.writes) > 1 and len(set(node.writes)) != len(node.writes):
            raise _bad("INVALID_IR", f"node {node.name!r}", "it writes one tensor twice", "list every result once")
        if node.mutates and not set(node.mutates) <= set(node.writes) & set(node.reads):
            raise _bad(
                "INVALID_IR",
                f"node {node.name!r}",
                "it mutates a tensor that it does not both read and write",
                "list it among reads and writes",
            )
        if node.mutates and n in with_bodies:
            what = "it has bodies and mutates a tensor"
            raise _bad("INVALID_IR", f"node {node.name!r}", what, "mutate the tensor in a node after it")
        arrives = is_arrival(node)
        if arrives:
            _check_arrival(model, node)
        for t in node.made:
            if t in written or (model.tensors[t].role in CALLERS and not arrives):
                raise _bad(
                    "INVALID_IR",
                    f"node {node.name!r}",
                    f"it writes {model.tensors[t].name!r}, which is already written",
                    "declare it as mutated, or rename it",
                )
            written.add(t)
    for t, tensor in enumerate(model.tensors):
        if t not in written and tensor.role not in CALLERS:
            raise _bad(
                "INVALID_IR", f"tensor {tensor.name!r}", "no node writes it", "make it a graph input or a parameter"
            )
    for t in model.inputs:
        if model.tensors[t].role not in CALLERS:
            raise _bad(
                "INVALID_IR",
                f"tensor {model.tensors[t].name!r}",
                "it is a graph input that the caller does not write",
                "give it the role input",
            )
    for t in set(given) - set(model.inputs):
        if model.tensors[t].role in CALLERS:
            raise _bad(
                "INVALID_IR",
                f"tensor {model.tensors[t].name!r}",
                "it is a formal input that the caller writes",
                "give it the role activation",
            )
    if (twice := _repeated([model.tensors[t].name for t in model.outputs])) is not None:
        raise _bad("INVALID_IR", f"tensor {twice!r}", "it is a graph output twice", "list it once")


def _check_arrival(model: Model, node: Node) -> None:
    """Check that an arrival is in the main graph, reads nothing, and writes inputs of the model only. spec: T1.9"""
    place = f"node {node.name!r}"
    if node.reads or node.mutates or node.scratch or not node.writes or node.body != MAIN:
        what = "an arrival is in the main graph, reads nothing, needs no scratch, and writes inputs"
        raise _bad("INVALID_IR", place, what, "correct it, or give it another operator")
    for t in node.writes:
        if model.tensors[t].role is not Role.INPUT or t not in model.inputs:
            what = f"it is an arrival, and writes {model.tensors[t].name!r}, which is no input"
            raise _bad("INVALID_IR", place, what, "declare the tensor as an input")


def _check_scopes(model: Model) -> None:
    """Check scopes: a value is visible in its body and those inside it, and leaves a body only as an output."""
    home = find_defining_bodies(model)
    around: list[frozenset[int]] = []
    for b, body in enumerate(model.bodies):
        outer: frozenset[int] = frozenset() if b == MAIN else around[model.nodes[body.owner].body]
        around.append(outer | {b})
        for t in body.outputs:
            if home[t] not in around[b]:
                raise _bad(
                    "INVALID_IR",
                    f"body {b}",
                    f"it returns {model.tensors[t].name!r} of another body",
                    "return its own value",
                )
    for node in model.nodes:
        for t in node.reads:
            if home[t] not in around[node.body]:
                raise _bad(
                    "INVALID_IR",
                    f"node {node.name!r}",
                    f"it reads {model.tensors[t].name!r} from inside another body",
                    "return the tensor from that body",
                )


def _check_sharing(model: Model) -> None:
    """Check views, alias groups and hints: bases are operands, groups fit conflicts, hints name operands."""
    home = find_defining_bodies(model)
    formal = {t for body in model.bodies[1:] for t in body.inputs}
    views, grouped = rows_with(model.tensors, "view", None), rows_with(model.tensors, "alias_group", None)
    results = {t: n for n, node in enumerate(model.nodes) for t in node.made} if views else {}
    read = cache(lambda n: frozenset(model.nodes[n].reads))
    for t, view in views:
        tensor, place = model.tensors[t], f"tensor {model.tensors[t].name!r}"
        base = model.tensors[view.base]
        rest = dtypes.nbytes(base.shape, base.dtype) - dtypes.nbytes(tensor.shape, tensor.dtype) - view.offset
        if view.bytes != tensor.bytes or is_negative(rest):
            raise _bad("INVALID_IR", place, f"its view extends beyond {base.name!r}", "correct its offset and bytes")
        if view.offset % tensor.alignment:
            raise _bad(
                "ALIGNMENT_VIOLATION",
                place,
                f"byte {view.offset} of its base is not aligned to {tensor.alignment}",
                "move the view",
            )
        if t not in results or view.base not in read(results[t]):
            raise _bad(
                "INVALID_IR",
                place,
                f"the node that makes it does not read its base {base.name!r}",
                "list the base as read",
            )
        if home[t] != home[view.base] or view.base in formal:
            raise _bad(
                "INVALID_IR", place, f"it is a view of {base.name!r} across a body's boundary", "copy the value instead"
            )
    members = Counter(group for _, group in grouped)
    group_body: dict[str, int] = {}
    for t, group in grouped:
        tensor = model.tensors[t]
        if tensor.view is not None:
            raise _bad(
                "INVALID_IR",
                f"tensor {tensor.name!r}",
                "it is both a view and in an alias group",
                "declare one of the two",
            )
        if members[group] < 2:
            place = f"alias group {group!r}"
            raise _bad(
                "INVALID_IR", place, f"it has only one tensor, {tensor.name!r}", "name a second one, or no group"
            )
        if group_body.setdefault(group, home[t]) != home[t] or t in formal:
            raise _bad(
                "INVALID_IR",
                f"alias group {group!r}",
                "it crosses a body's boundary",
                "copy the value instead",
            )
    for node in model.nodes:
        if not node.in_place and not node.scratch:
            continue
        written, operands = frozenset(node.writes), frozenset(node.reads)
        for result, operand in node.in_place:
            if result not in written or operand not in operands:
                raise _bad(
                    "INVALID_IR",
                    f"node {node.name!r}",
                    "an in-place hint names no result and operand of the node",
                    "correct the hint",
                )
        for request in node.scratch:
            if not _is_power_of_two(request.alignment) or not 0 <= request.bytes < UINT64_END:
                raise _bad(
                    "INVALID_IR",
                    f"node {node.name!r}",
                    "a scratch request has an invalid size or alignment",
                    "use a power of two",
                )
    if any(a == b for a, b in model.must_not_alias):
        raise _bad("INVALID_IR", "must_not_alias", "a tensor must not alias itself", "remove the pair")
