"""The resolution of the shapes of a model from a file, bindings of the user, and defaults that decide something.

The same file under the same bindings gives the same sizes to both callers: the importer, which makes a model of them,
and the checker, which compares a plan with them. spec: T10.1, T10.2
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import onnx

from tmmu.core.dims.expressions import evaluate
from tmmu.core.errors import NotOfModel, TmmuError
from tmmu.core.vocabulary import UNBOUND, Bindings, RuntimeGraph, SteppedDim
from tmmu.onnx.binding import bind
from tmmu.onnx.operators import Operators
from tmmu.onnx.optimized import optimize
from tmmu.onnx.reading import accept, read
from tmmu.onnx.sizes import Array, Size, at, refuse
from tmmu.onnx.stated import StatedShapes, StatedSize, separate_sizes
from tmmu.onnx.structure import Structure, structure
from tmmu.onnx.walk import Walk


@dataclass(frozen=True)
class Resolved:
    """A model file with the size of every tensor that a run of it makes.

    `graph` is the model of the user with its local functions inlined (and without the data of large weights);
    `source_digest` is the SHA-256 of the file. `sizes` gives shape and element type by scoped name; `ruled_out` are the
    bodies that a folded condition rules out, which have no steps; `unproduced` are the outputs of T9 by scoped name.
    `bindings` are those that the user and the defaults fixed, in which `trust_shapes` states whether a stated shape was
    needed.
    """

    path: str
    graph: onnx.ModelProto
    source_digest: bytes
    sizes: Mapping[str, Size]
    ruled_out: frozenset[str]
    unproduced: frozenset[str]
    bindings: Bindings


def resolve(path: str | os.PathLike[str], bindings: Bindings = UNBOUND) -> Resolved:
    """Find the size of every tensor of the ONNX model at `path` under the given bindings (`spec/tmmu.md` T10).

    Parameters
    ----------
    path
        The model; weight files beside it are never opened.
    bindings
        `dims`, `shapes` and `values` bind named dimensions, graph inputs, and small graph inputs (numbers separated by
        commas). `ranges` is the envelope: open dimensions with the least and the largest size of each. Sizes are then
        expressions over them, which are compared with the sizes at the `corners` of the envelope. `stated` are the
        sizes of tensors by scoped name (`1x10`, `float32:1x10`, `bytes:40`), for those that cannot be inferred; a shape
        in `shapes` of a tensor that is not a graph input is one of these too. `steps` are dimensions that are multiples
        of their units, which `ranges` or `dims` contains. With `trust_shapes`, a shape that the file states is used if
        it cannot be inferred. `donated` and `defaults` are not used.

    Returns
    -------
    Resolved
        Its `bindings` are those that were needed, with the defaults that decided something.

    Raises
    ------
    TmmuError
        INVALID_IR, LIVENESS_CYCLE, INVALID_IR_SHAPES, ALLOCATION_OVERFLOW or INVALID_BINDING: the error, its place, and
        the flag or change that fixes it.

    Notes
    -----
    O(nodes + accesses), and at most `folding.TOTAL_LIMIT` bytes of arithmetic.
    """
    try:
        model, digest, runtime = _read(path, bindings.runtime)
        found = structure(model.graph)
        of_inputs, of_others = separate_sizes(found, bindings.shapes, bindings.stated)
        block = 0 if runtime is None else runtime.block
        given = GivenBindings(bindings.dims, of_inputs, bindings.values, of_others, bindings.steps, block)
        walk = _walk(model, found, given, bindings.ranges, bindings.trust_shapes)
        for corner in corners(bindings.ranges):
            _check_corner(walk, _walk_corner(model, found, given, corner, bindings.trust_shapes), corner)
    except TmmuError as error:
        raise error.in_file(os.fspath(path)) from error.__cause__
    defaults = {name: _show_value(walk.defaults[name]) for name in sorted(walk.defaults)}
    used = walk.stated is not None and walk.stated.used
    taken = Bindings(
        dims=dict(bindings.dims), shapes=dict(of_inputs), values=dict(bindings.values), defaults=defaults,
        trust_shapes=used, ranges=dict(sorted(bindings.ranges.items())),
        stated={name: of_others[name].text for name in sorted(walk.given)},
        steps=dict(sorted(bindings.steps.items())), runtime=runtime,
    )  # fmt: skip
    return Resolved(
        os.fspath(path), model, digest, walk.sizes, frozenset(walk.ruled_out), frozenset(walk.unproduced), taken
    )


class GivenBindings(NamedTuple):
    """The bindings and statements of the user, except the envelope, and the channels of a block of the runtime."""

    dims: Mapping[str, int]
    shapes: Mapping[str, tuple[int, ...]]
    values: Mapping[str, str]
    others: Mapping[str, StatedSize]
    steps: Mapping[str, SteppedDim]
    block: int


def _read(
    path: str | os.PathLike[str], asked: RuntimeGraph | None
) -> tuple[onnx.ModelProto, bytes, RuntimeGraph | None]:  # fmt: skip
    """Read the model, or the graph that a runtime makes of it, with the SHA-256 of the file and what was made."""
    if asked is None:
        return (*read(path), None)
    model, made, digest = optimize(path, asked)
    return accept(model, path), digest, made


def _walk(
    model: onnx.ModelProto,
    found: Structure,
    given: GivenBindings,
    ranges: Mapping[str, tuple[int, int]],
    trust_shapes: bool,
) -> Walk:
    further = StatedShapes.names(found) if trust_shapes else ()
    try:
        bound = bind(found.main, given.dims, given.shapes, given.values, further, ranges, given.others, given.steps)
    except NotOfModel as error:
        if not trust_shapes and error.binding in set(StatedShapes.names(found)):
            error.fix = "the file names it of results alone: add --trust-shapes, and it may be bound"
        raise
    operators = Operators(model, given.block)
    walk = Walk(operators, found, bound, StatedShapes(bound.dims) if trust_shapes else None, given.others)
    walk.run()
    return walk


def corners(ranges: Mapping[str, tuple[int, int]]) -> list[dict[str, int]]:
    """Return three shapes of an envelope: the least dimensions, the largest dimensions, and odd sizes between them.

    >>> corners({"batch": (1, 8), "seq": (1, 9)})
    [{'batch': 1, 'seq': 1}, {'batch': 8, 'seq': 9}, {'batch': 3, 'seq': 5}]
    """
    if not ranges:
        return []
    least = {name: low for name, (low, _) in ranges.items()}
    most = {name: high for name, (_, high) in ranges.items()}
    between = {
        name: low + (high - low) * (2 + k) // (5 + k // 2) for k, (name, (low, high)) in enumerate(ranges.items())
    }
    return [least, most, between]


def _walk_corner(
    model: onnx.ModelProto,
    found: Structure,
    given: GivenBindings,
    corner: Mapping[str, int],
    trust_shapes: bool,
) -> Walk:
    """Return the sizes at one shape of the envelope, by ONNX's inference only."""
    try:
        return _walk(model, found, given._replace(dims={**given.dims, **corner}), {}, trust_shapes)
    except TmmuError as error:
        error.what = f"{error.what} (at {at(corner)}, which is in the envelope)"
        raise


def _check_corner(walk: Walk, concrete: Walk, corner: Mapping[str, int]) -> None:
    """Raise INVALID_IR_SHAPES if an expression differs from the size that the operators have at a shape. spec: R6.4"""
    for name, (shape, dtype) in walk.sizes.items():
        stated = tuple(evaluate(dim, corner) for dim in shape), dtype
        if name in concrete.sizes and concrete.sizes[name] != stated:
            what = (
                f"its shape is {list(concrete.sizes[name][0])} at {at(corner)}, but "
                f"{list(shape)} gives {list(stated[0])}"
            )
            raise refuse(
                "INVALID_IR_SHAPES", f"tensor {name!r}", what, "bind the dimensions to single sizes with --dim"
            )


def _show_value(array: Array) -> str:
    """Return the value of a default as text, shortened if it is long."""
    text = json.dumps(array.tolist(), separators=(",", ":"))
    return text if len(text) <= 1000 else f"{text[:1000]}... ({array.size} elements)"
