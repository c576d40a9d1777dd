"""What the shapes of a model rest on: a file, the user's bindings, and the defaults that decided something.

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
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import UNBOUND, Bindings, SteppedDim
from tmmu.onnx.binding import bind
from tmmu.onnx.operators import Operators
from tmmu.onnx.reading import read
from tmmu.onnx.sizes import Array, Size, at, refuse
from tmmu.onnx.stated import StatedShapes, StatedSize, divided
from tmmu.onnx.structure import Structure, structure
from tmmu.onnx.walk import Walk


@dataclass(frozen=True)
class Resolved:
    """A model file with the size of every tensor that a run of it makes.

    `graph` is the user's own model with its local functions inlined (and without the data of large weights);
    `source_digest` the SHA-256 of the file. `sizes` gives shape and element type by scoped name; `ruled_out` the bodies
    that a folded condition rules out, which have no steps; `unproduced` the outputs of T9 by scoped name; `bindings`
    what the user and the defaults fixed, where `trust_shapes` is whether a stated shape was indeed needed.
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
        `dims`, `shapes` and `values` are of named dimensions, graph inputs, and small graph inputs (numbers with commas
        between them). `ranges` is the envelope: dimensions that are left open, with the least and the largest size of
        each. Sizes are then expressions over them, compared with the sizes at the `corners` of the envelope. `stated`
        are the sizes of tensors by scoped name (`1x10`, `float32:1x10`, `bytes:40`), for those that nothing else gives;
        a shape in `shapes` of what is no graph input is one as well. `steps` are dimensions that are multiples of their
        units, which `ranges` or `dims` holds. With `trust_shapes` a shape that the file states is used if it cannot be
        inferred. `donated` and `defaults` are not looked at.

    Returns
    -------
    Resolved
        Its `bindings` are those that were needed, with the defaults that decided something.

    Raises
    ------
    TmmuError
        INVALID_IR, LIVENESS_CYCLE, INVALID_IR_SHAPES, ALLOCATION_OVERFLOW or INVALID_BINDING: what is wrong, where,
        and the flag or change that fixes it.

    Notes
    -----
    O(nodes + accesses), and at most `folding.TOTAL_LIMIT` bytes of arithmetic.
    """
    try:
        model, digest = read(path)
        found = structure(model.graph)
        of_inputs, of_others = divided(found, bindings.shapes, bindings.stated)
        given = GivenBindings(bindings.dims, of_inputs, bindings.values, of_others, bindings.steps)
        walk = _walked(model, found, given, bindings.ranges, bindings.trust_shapes)
        for corner in corners(bindings.ranges):
            _agree(walk, _at_corner(model, found, given, corner, bindings.trust_shapes), corner)
    except TmmuError as error:
        raise error.in_file(os.fspath(path)) from error.__cause__
    defaults = {name: _text(walk.defaults[name]) for name in sorted(walk.defaults)}
    used = walk.stated is not None and walk.stated.used
    taken = Bindings(
        dims=dict(bindings.dims), shapes=dict(of_inputs), values=dict(bindings.values), defaults=defaults,
        trust_shapes=used, ranges=dict(sorted(bindings.ranges.items())),
        stated={name: of_others[name].text for name in sorted(walk.given)},
        steps=dict(sorted(bindings.steps.items())),
    )  # fmt: skip
    return Resolved(
        os.fspath(path), model, digest, walk.sizes, frozenset(walk.ruled_out), frozenset(walk.unproduced), taken
    )


class GivenBindings(NamedTuple):
    """What the user binds and states, but for the envelope."""

    dims: Mapping[str, int]
    shapes: Mapping[str, tuple[int, ...]]
    values: Mapping[str, str]
    others: Mapping[str, StatedSize]
    steps: Mapping[str, SteppedDim]


def _walked(
    model: onnx.ModelProto,
    found: Structure,
    given: GivenBindings,
    ranges: Mapping[str, tuple[int, int]],
    trust_shapes: bool,
) -> Walk:
    further = StatedShapes.names(found) if trust_shapes else ()
    bound = bind(found.main, given.dims, given.shapes, given.values, further, ranges, given.others, given.steps)
    walk = Walk(Operators(model), found, bound, StatedShapes(bound.dims) if trust_shapes else None, given.others)
    walk.run()
    return walk


def corners(ranges: Mapping[str, tuple[int, int]]) -> list[dict[str, int]]:
    """Three shapes of an envelope: all dimensions at their least, all at their most, and one of odd sizes between.

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


def _at_corner(
    model: onnx.ModelProto,
    found: Structure,
    given: GivenBindings,
    corner: Mapping[str, int],
    trust_shapes: bool,
) -> Walk:
    """The sizes at one shape of the envelope, by ONNX's inference alone."""
    try:
        return _walked(model, found, given._replace(dims={**given.dims, **corner}), {}, trust_shapes)
    except TmmuError as error:
        error.what = f"{error.what} (at {at(corner)}, which the envelope holds)"
        raise


def _agree(walk: Walk, concrete: Walk, corner: Mapping[str, int]) -> None:
    """Raise where an expression does not give the size that the operators have at a shape. spec: R6.4"""
    for name, (shape, dtype) in walk.sizes.items():
        stated = tuple(evaluate(dim, corner) for dim in shape), dtype
        if name in concrete.sizes and concrete.sizes[name] != stated:
            what = (
                f"its shape is {list(concrete.sizes[name][0])} at {at(corner)}, and {list(stated[0])} by {list(shape)}"
            )
            raise refuse(
                "INVALID_IR_SHAPES", f"tensor {name!r}", what, "bind the dimensions to single sizes with --dim"
            )


def _text(array: Array) -> str:
    """A default's value as text, shortened where it is long."""
    text = json.dumps(array.tolist(), separators=(",", ":"))
    return text if len(text) <= 1000 else f"{text[:1000]}... ({array.size} elements)"
